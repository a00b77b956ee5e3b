package spelling_test

import (
	"slices"
	"testing"

	"github.com/planbot-go/planbot/internal/spelling"
)

func TestEdits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"abc", "", 3},
		{"additem", "additem", 0},
		{"additem", "additems", 1},
		{"kitten", "sitting", 3},
		{"ab", "ba", 2},
	} {
		if got := spelling.Edits(c.a, c.b); got != c.want {
			t.Errorf("Edits(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	within := func(most int) func(string) (int, bool) {
		return func(name string) (int, bool) {
			n := spelling.Edits("aaa", name)
			return n, n <= most
		}
	}
	known := []string{"abb", "aab", "bbb", "aaa", "aac"}
	if got := spelling.Nearest(known, within(2)); !slices.Equal(got, []string{"aaa", "aab", "aac"}) {
		t.Errorf("three of four that are near: %q", got)
	}
	if got := spelling.Nearest(known, within(-1)); got != nil {
		t.Errorf("none is near: %q", got)
	}
}

func TestPlain(t *testing.T) {
	t.Parallel()
	if got := spelling.Plain(`My_Skill-v1.2/a\b c`); got != "myskillv12abc" {
		t.Errorf("got %q", got)
	}
}
