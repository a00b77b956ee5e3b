package prompts_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/planbot-go/planbot/prompts"
)

// count is how many tokens a text has.
func count(text string) int { return prompts.Tokens(text) - prompts.Tokens() }

func TestCount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"":            0,
		"hello world": 2,
		// A mark of the vocabulary is ordinary text in a message: seven tokens, not one.
		"<|endoftext|>":                7,
		"a<|endoftext|>b<|im_start|>c": 16,
		"\xff":                         1,
	} {
		if got := count(text); got != want {
			t.Errorf("%q has %d tokens, want %d", text, got, want)
		}
	}
}

func TestCountOfLongText(t *testing.T) {
	t.Parallel()
	piece := "Wörter 长 🍕 "
	once := count(strings.Repeat(piece, 100))
	got := count(strings.Repeat(piece, 10000))
	if low, high := once*99, once*101; got < low || got > high {
		t.Errorf("got %d, want about %d", got, once*100)
	}
	// Text without an end of word is what makes naive tokenizers quadratic.
	if got := count(strings.Repeat("a", 1<<18)); got < 1<<14 || got > 1<<16 {
		t.Errorf("got %d", got)
	}
}

func TestCountAtOnce(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := count("hello world"); got != 2 {
				t.Errorf("got %d", got)
			}
		})
	}
	all.Wait()
}

func BenchmarkCount(b *testing.B) {
	text := strings.Repeat("Add bananas to the groceries list, please. ", 200)
	count(text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		count(text)
	}
}
