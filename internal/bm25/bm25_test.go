package bm25_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/internal/bm25"
)

func index(texts ...string) *bm25.Index {
	return bm25.New(len(texts), func(i int) []string { return strings.Fields(texts[i]) })
}

func every(int) bool { return true }

var handbook = []string{
	"vacation days employees get thirty days", "sick leave report on the first day",
	"expense report within thirty days", "parking garage level two",
}

func TestRank(t *testing.T) {
	t.Parallel()
	for query, want := range map[string][]bm25.Hit{
		"thirty days":      {{0, 1.5976}, {2, 1.4398}},
		"report":           {{2, 0.7199}, {1, 0.6236}},
		"report report":    {{2, 1.4398}, {1, 1.2471}},
		"first day report": {{1, 2.7898}, {2, 0.7199}},
		"bicycle":          nil,
		"":                 nil,
	} {
		for _, x := range []*bm25.Index{index(handbook...), stored(t, index(handbook...))} {
			hits := x.Rank(strings.Fields(query), every, 0)
			for i := range hits {
				hits[i].Score = math.Round(hits[i].Score*1e4) / 1e4
			}
			if diff := cmp.Diff(want, hits); diff != "" {
				t.Errorf("%s: %s", query, diff)
			}
		}
	}
}

func TestRankAmongSome(t *testing.T) {
	t.Parallel()
	x := index("a a", "a", "b a", "a a")
	text := func(hits []bm25.Hit) string {
		var numbers []string
		for _, h := range hits {
			numbers = append(numbers, fmt.Sprint(h.Text))
		}
		return strings.Join(numbers, " ")
	}
	for name, got := range map[string]string{
		"0 3 1 2": text(x.Rank([]string{"a"}, every, 0)),
		"0 3":     text(x.Rank([]string{"a"}, every, 2)),
		"3 2":     text(x.Rank([]string{"a"}, func(i int) bool { return i >= 2 }, 5)),
		"":        text(new(bm25.Index).Rank([]string{"a"}, every, 0)),
	} {
		if got != name {
			t.Errorf("found %q, want %q", got, name)
		}
	}
	if diff := cmp.Diff([]int{2}, x.Having("b")); diff != "" || x.Having("c") != nil {
		t.Error(diff, x.Having("c"))
	}
}

// TestRankAsIfThereWereNoOthers: what is left out changes neither order nor scores, so nobody learns of it.
func TestRankAsIfThereWereNoOthers(t *testing.T) {
	t.Parallel()
	few := index("bonus plan is here", "report of the year now")
	more := index("bonus plan is here", "report of the year now", "bonus bonus secret", "bonus")
	query := []string{"bonus", "report"}
	if diff := cmp.Diff(few.Rank(query, every, 0), more.Rank(query, func(i int) bool { return i < 2 }, 0)); diff != "" {
		t.Error(diff)
	}
}

func stored(t *testing.T, x *bm25.Index) *bm25.Index {
	t.Helper()
	data, err := x.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var back bm25.Index
	if err := back.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	return &back
}

func FuzzUnmarshal(f *testing.F) {
	data, _ := index(handbook...).MarshalBinary()
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		var x bm25.Index
		if x.UnmarshalBinary(data) != nil {
			return
		}
		x.Rank([]string{"report"}, every, 0)
		again, _ := x.MarshalBinary()
		if again2, _ := stored(t, &x).MarshalBinary(); !bytes.Equal(again, again2) {
			t.Errorf("%x, then %x", again, again2)
		}
	})
}
