// Package ci tells tests whether .ci/run runs them.
package ci

import (
	"os"
	"testing"
)

// Runs reports whether this is .ci/run, or another pipeline: they set CI.
func Runs() bool { return os.Getenv("CI") == "true" }

// Only skips a test that go test leaves to .ci/run. why says what it costs, for the line that tells.
func Only(t testing.TB, why string) {
	t.Helper()
	if !Runs() {
		t.Skipf("%s: only .ci/run, or CI=true", why)
	}
}

// NotUnderRace skips a test under the race detector: .ci/run runs it without. why says what the detector makes slow, for
// the line that tells.
func NotUnderRace(t testing.TB, why string) {
	t.Helper()
	if UnderRace {
		t.Skipf("%s: not under the race detector", why)
	}
}
