package app

import (
	"fmt"
	"os"

	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// readFileCommand has the program read one file as a child of itself. It is no command for people.
const readFileCommand = "_read-file"

// isHelper reports whether the program was started to read one file.
func isHelper() bool { return len(os.Args) == 2 && os.Args[1] == readFileCommand }

// readOneFile is the whole program then. It returns the exit code.
func readOneFile() int {
	// Where the system has no sandbox, the limits that the parent has set remain.
	_ = sandbox.Confine()
	if err := knowledge.ServeHelper(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// ownHelper reads files in copies of this program. Only a program whose main calls Main may start those: of
// any other nobody knows what it does with the argument.
func ownHelper() *knowledge.Helper {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	if _, err := os.Stat("/proc/self/exe"); err == nil {
		program = "/proc/self/exe" // also if another version took the program's place
	}
	helper, err := knowledge.NewHelper(knowledge.HelperConfig{Command: []string{program, readFileCommand}})
	if err != nil {
		return nil
	}
	return helper
}
