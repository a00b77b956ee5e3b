package bot

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestAwaitWakesUp is within the package: no client can bring the timer to fire just
// when it is made.
func TestAwaitWakesUp(t *testing.T) {
	t.Parallel()
	g := newConnCap(1, zerolog.Nop())
	g.mu.Lock()
	defer g.mu.Unlock()
	for range 10_000 {
		g.await(time.Nanosecond) // else this test ends by the clock of go test
	}
}
