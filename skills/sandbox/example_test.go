package sandbox_test

import (
	"context"
	"fmt"
	"os"

	"github.com/planbot-go/planbot/skills/sandbox"
)

func ExampleNew() {
	ctx := context.Background()
	scripts, err := sandbox.New(ctx, sandbox.Config{})
	if err != nil {
		fmt.Println("skills cannot run scripts here:", err)
		return
	}
	dir, err := os.OpenRoot("skills/unit-converter")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dir.Close()
	result, err := scripts.Run(ctx, sandbox.Command{
		Dir: dir, Script: "scripts/convert.py", Args: []string{"--value", "26.2"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.ExitCode, result.Stdout, result.Stderr)
}
