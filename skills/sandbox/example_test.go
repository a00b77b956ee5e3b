package sandbox_test

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/skills/sandbox"
)

func ExampleNew() {
	ctx := context.Background()
	scripts, err := sandbox.New(ctx, sandbox.Config{})
	if err != nil {
		fmt.Println("skills cannot run scripts here:", err)
		return
	}
	result, err := scripts.Run(ctx, sandbox.Command{
		Dir: "skills/unit-converter", Script: "scripts/convert.py", Args: []string{"--value", "26.2"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.ExitCode, result.Stdout, result.Stderr)
}
