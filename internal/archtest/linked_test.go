package archtest_test

import (
	"bufio"
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/testing/ci"
)

// TestWhatIsNotLinked holds the bot's binary to docs/security.md: of the modules with
// known faults that msbotbuilder-go brings, the faulty code is not in it. And it has only the methods that
// something calls.
func TestWhatIsNotLinked(t *testing.T) {
	ci.Only(t, "links the bot with its symbols")
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	binary := filepath.Join(t.TempDir(), "bot")
	_, needs := run(ctx, t, "go", "build", "-ldflags=-dumpdep -w", "-o", binary, "./cmd/bot")
	checkMethodNames(t, needs)
	symbols, _ := run(ctx, t, "go", "tool", "nm", binary)
	absent := []string{
		"github.com/golang-jwt/jwt/v4.(*Parser)",                   // CVE-2024-51744, CVE-2025-30204
		"github.com/lestrrat-go/jwx/jwk.Fetch",                     // the library's way to keys
		"github.com/lestrrat-go/jwx/jwk.Parse",                     // CVE-2024-21664
		"github.com/lestrrat-go/jwx/jws.",                          // trust in a token's own algorithm
		"github.com/lestrrat-go/jwx/jwe.",                          // CVE-2024-28122, p2c
		"github.com/goccy/go-json.",                                // an old reader of JSON
		"github.com/infracloudio/msbotbuilder-go/core.",            // the library's own adapter
		"github.com/infracloudio/msbotbuilder-go/connector/client", // and its client
		"golang.org/x/crypto/ssh",
		"net/http/pprof.Index",
		"testing.", // and no fake of ours
		"github.com/planbot-go/planbot/bottest",
		"github.com/planbot-go/planbot/internal/fakemodel",
	}
	seen := 0
	for lines := bufio.NewScanner(bytes.NewReader(symbols)); lines.Scan(); {
		seen++
		for _, name := range absent {
			if strings.Contains(lines.Text(), " "+name) {
				t.Errorf("the bot has %s", lines.Text())
			}
		}
	}
	if seen < 10_000 || !bytes.Contains(symbols, []byte(" github.com/golang-jwt/jwt/v5.(*Parser)")) {
		t.Fatalf("%d symbols: the check looked at the wrong thing", seen)
	}
}

// checkMethodNames reads what the linker says needs what. A function that asks for a method by a name
// which is not known before it runs makes the linker keep every method of every type: 9 MB. With the first of them
// come others, of reflect and of type descriptions: look for the one that is called by a package of a library.
func checkMethodNames(t *testing.T, needs []byte) {
	t.Helper()
	const marked = " <ReflectMethod>"
	lines := 0
	for all := bufio.NewScanner(bytes.NewReader(needs)); all.Scan(); {
		who, what, ok := strings.Cut(all.Text(), " -> ")
		if !ok {
			continue
		}
		lines++
		if name, ok := strings.CutSuffix(what, marked); ok {
			t.Errorf("%s needs %s, which calls a method by a name that the linker does not know", who, name)
		}
	}
	if lines < 10_000 {
		t.Fatalf("the linker named %d needs: the check looked at the wrong thing", lines)
	}
}

// run returns what the command prints and what it complains of, in the repository's root.
func run(ctx context.Context, t *testing.T, name string, args ...string) (out, complaints []byte) {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join("..", "..")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, &stderr)
	}
	return stdout.Bytes(), stderr.Bytes()
}
