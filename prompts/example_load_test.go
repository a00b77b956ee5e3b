package prompts_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/planbot-go/planbot/prompts"
)

// A folder overrides the embedded prompts of the same names; everything wrong in it is listed.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "prompts")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Mkdir(filepath.Join(dir, "hello"), 0o700); err != nil {
		fmt.Println(err)
		return
	}
	if err := os.WriteFile(filepath.Join(dir, "hello", "prompt.txt"), []byte("Greet {{$user.name}}."), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	library, err := prompts.Load(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(library.Names())
	// Output: [hello sequence sequential tools]
}
