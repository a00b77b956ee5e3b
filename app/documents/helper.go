package documents

import (
	"flag"
	"fmt"
	"os"

	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// readFileCommand has the program read one file as a child of itself. It is no command for people.
const readFileCommand = "_read-file"

// main is the whole program where it was started to read one file. Else a program whose main calls [app.Main]
// reads files in copies of itself; a test's binary runs its tests, whatever it is told.
func (f *feature) main(args []string) (exit int, done bool) {
	if len(args) == 1 && args[0] == readFileCommand {
		return readOneFile(), true
	}
	if f.cfg.Helper == nil && flag.Lookup("test.v") == nil {
		f.cfg.Helper = Self()
	}
	return 0, false
}

// readOneFile returns the exit code.
func readOneFile() int {
	// Where the system has no sandbox, the limits that the parent has set remain.
	_ = sandbox.Confine()
	if err := knowledge.ServeHelper(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Self reads files in copies of this program; nil if that cannot be. Only a program whose main calls [app.Main] may
// start those: of any other nobody knows what it does with the argument.
func Self() *knowledge.Helper {
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
