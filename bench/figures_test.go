package bench_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/golden"
)

// allocationsFile has the allocations of one turn. Another version of Go may have others.
const allocationsFile = "testdata/allocations.txt"

// TestAllocations fails when a turn allocates 3 % more often than was recorded. Who runs it with
// BOTTEST_UPDATE=1 records what it does now. The least of some rounds is what turns need: what else
// a process does now and then is not theirs.
func TestAllocations(t *testing.T) {
	t.Parallel()
	const rounds, turns = 5, 200
	// What a collection clears would be allocated anew, and how much the page records depends on how fast turns are.
	r := newRig(t, 0, 1, steps, "GOGC=off", "BOT_PAGE=false")
	r.talk(t, turns) // opens connections and fills caches
	var counts []int
	for range rounds {
		before := r.used(t)["allocs/turn"]
		r.talk(t, turns)
		counts = append(counts, int(r.used(t)["allocs/turn"]-before)/turns)
	}
	got := slices.Min(counts)
	t.Logf("%d allocations a turn; the rounds had %v", got, counts)
	if golden.Updating() {
		if err := os.WriteFile(allocationsFile, fmt.Appendln(nil, got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(allocationsFile)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if got > recorded*103/100 {
		t.Errorf("a turn has %d allocations, and %s says %d: BOTTEST_UPDATE=1 records what it has now", got, allocationsFile, recorded)
	}
}

var counted = flag.Int("instructions", 0, "turns of which TestInstructions counts the instructions; 0: it is skipped")

// TestInstructions counts the instructions of turns in user space, one after another: those of a bot
// that has so many turns, less those of one that has none.
func TestInstructions(t *testing.T) { //nolint:paralleltest // one after another
	if *counted == 0 {
		t.Skip("valgrind takes its time: -args -instructions 200")
	}
	none := instructions(t, 0)
	t.Logf("%d instructions a turn", (instructions(t, *counted)-none) / *counted)
}

// instructions counts those of a bot that has so many turns, from its start to its end.
func instructions(t *testing.T, turns int) (count int) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "counts")
	ended := t.Run(fmt.Sprintf("turns=%d", turns), func(t *testing.T) {
		r := &rig{steps: steps, under: []string{"valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=" + out}}
		r.begin(t, 1, "GOMAXPROCS=1", "GOGC=off")
		r.talk(t, len(steps)+turns)
	})
	if !ended {
		t.FailNow()
	}
	raw, err := os.ReadFile(out) // which valgrind writes when the bot has ended
	if err != nil {
		t.Fatal(err)
	}
	_, total, _ := strings.Cut(string(raw), "\nsummary: ")
	if count, err = strconv.Atoi(strings.TrimSpace(total)); err != nil {
		t.Fatal(err)
	}
	return count
}
