package statetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/planbot-go/planbot/state"
)

// set is the key of a set of this test.
func (b *inboxBundle) set() state.Key { return b.user("Mia").Under("notes", "places") }

func (b *inboxBundle) join(members ...string) {
	b.t.Helper()
	for _, member := range members {
		if err := b.in.Join(b.t.Context(), b.set(), member); err != nil {
			b.t.Error(err)
		}
	}
}

func (b *inboxBundle) wantMembers(want ...string) {
	b.t.Helper()
	var got []string
	err := b.in.Members(b.t.Context(), b.set(), func(members []string) error {
		got = append(got, members...)
		return nil
	})
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); err != nil || !slices.Equal(got, want) {
		b.t.Errorf("members %q, want %q, error %v", got, want, err)
	}
}

// testSets: what many put in at the same time is there, and leaves.
func testSets(t *testing.T, b *inboxBundle) {
	b.wantMembers()
	var want []string
	var joining sync.WaitGroup
	for n := range 250 {
		member := fmt.Sprint("a place ", n)
		want = append(want, member)
		joining.Go(func() { b.join(member, "everywhere") })
	}
	joining.Wait()
	b.wantMembers(append(want, "everywhere")...)
	for range 2 {
		if err := b.in.Leave(t.Context(), b.set(), "everywhere"); err != nil {
			t.Error(err)
		}
	}
	b.wantMembers(want...)
	if err := b.in.Join(t.Context(), state.Key{}, "x"); !errors.Is(err, state.ErrKey) {
		t.Errorf("join of the zero key: %v", err)
	}
}

// testDrain: each member is handed out, and those that are not done or come back stay.
func testDrain(t *testing.T, b *inboxBundle) {
	for n := range 250 {
		b.join(fmt.Sprint(n))
	}
	handed := map[string]int{}
	err := b.in.Drain(t.Context(), b.set(), func(members []string) ([]string, error) {
		var done []string
		for _, member := range members {
			handed[member]++
			switch {
			case member == "7" && handed[member] == 1:
				b.join(member)
				done = append(done, member)
			case member != "8":
				done = append(done, member)
			}
		}
		return done, nil
	})
	if err != nil || len(handed) != 250 || handed["7"] != 2 || handed["8"] != 1 {
		t.Errorf("%d members, 7 %d times, 8 %d times, error %v", len(handed), handed["7"], handed["8"], err)
	}
	b.wantMembers("8")
}

// testDrainThatEnds loses no member.
func testDrainThatEnds(t *testing.T, b *inboxBundle) {
	b.join("a", "b")
	failure := errors.New("as told")
	if err := b.in.Drain(t.Context(), b.set(), func([]string) ([]string, error) { return nil, failure }); !errors.Is(err, failure) {
		t.Errorf("drain: %v", err)
	}
	b.wantMembers("a", "b")
	var handed []string
	if err := b.in.Drain(t.Context(), b.set(), func(members []string) ([]string, error) {
		handed = append(handed, members...)
		return members, nil
	}); err != nil || len(handed) != 2 {
		t.Errorf("handed out %q, error %v", handed, err)
	}
	b.wantMembers()
}
