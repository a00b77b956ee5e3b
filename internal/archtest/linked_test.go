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
// known faults that msbotbuilder-go brings, the faulty code is not in it.
func TestWhatIsNotLinked(t *testing.T) {
	ci.Only(t, "links the bot with its symbols")
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	binary := filepath.Join(t.TempDir(), "bot")
	run(ctx, t, "go", "build", "-o", binary, "./cmd/bot")
	symbols := run(ctx, t, "go", "tool", "nm", binary)
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

// run returns what the command prints, in the repository's root.
func run(ctx context.Context, t *testing.T, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	return out
}
