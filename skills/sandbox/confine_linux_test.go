//go:build amd64 || arm64

package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/planbot-go/planbot/skills/sandbox"
)

// asConfined is the argument with which the tests' binary confines itself.
const asConfined = "confined"

func init() {
	if os.Args[len(os.Args)-1] == asConfined {
		whatIsLeft()
		os.Exit(0)
	}
}

// whatIsLeft tries what a confined process may not do, from other threads too, and prints what it could.
func whatIsLeft() {
	if err := sandbox.Confine(); err != nil {
		fmt.Print(err)
		return
	}
	tried := make(chan string)
	go func() {
		_, err := os.ReadFile("/etc/passwd")
		tried <- could("read a file", err)
		tried <- could("write a file", os.WriteFile("/tmp/planbot-confined", nil, 0o600))
		tried <- could("remove a file", os.Remove("/nowhere/at/all"))
		_, err = net.Listen("tcp", "127.0.0.1:0")
		tried <- could("listen", err)
		tried <- could("start a program", exec.Command("/bin/true").Run())
		tried <- could("signal a process", syscall.Kill(os.Getppid(), 0))
		close(tried)
	}()
	for what := range tried {
		fmt.Print(what)
	}
	fmt.Print("and it still runs")
}

func could(what string, err error) string {
	if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EAFNOSUPPORT) {
		return ""
	}
	return fmt.Sprintf("it could %s: %v; ", what, err)
}

func TestConfine(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), os.Args[0], asConfined).CombinedOutput()
	if err != nil || string(out) != "and it still runs" {
		if strings.Contains(string(out), "filter system calls") {
			t.Skip("this kernel has no filter for system calls")
		}
		t.Errorf("%v %s", err, out)
	}
}
