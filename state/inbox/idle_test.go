package inbox

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestWithoutLeasesNothingWakes: a century would be three thousand million looks at nothing.
func TestWithoutLeasesNothingWakes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		k := newLeases(nil, 6*time.Second) // it asks no Redis
		defer k.close()
		time.Sleep(100 * 365 * 24 * time.Hour)
	})
}

// TestLooks: all partitions every four seconds, and one where something is due in time. What an idle replica asks
// Redis for is all in these looks.
func TestLooks(t *testing.T) {
	t.Parallel()
	var l looks
	looked := 0
	for now := time.Duration(0); now < time.Minute; now += time.Second {
		if now == 9*time.Second {
			l.expect(3, now+500*time.Millisecond)
			l.expect(3, now+time.Hour) // the earlier one counts
		}
		due, all := l.take(now, now == 30*time.Second)
		switch {
		case now == 10*time.Second:
			if !slices.Equal(due, []int{3}) || all {
				t.Errorf("partitions %v after 10 s, want the one where something is due", due)
			}
		case all != (len(due) == len(l.next)), !all && len(due) > 0:
			t.Errorf("%d partitions after %v, all: %v", len(due), now, all)
		}
		looked += len(due)
	}
	if want := 15*len(l.next) + 1; looked < want || looked > want+len(l.next) {
		t.Errorf("%d looks in a minute, want about %d", looked, want)
	}
}
