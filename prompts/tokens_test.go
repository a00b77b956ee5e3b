package prompts_test

import (
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/planbot-go/planbot/prompts"
)

func TestCount(t *testing.T) {
	t.Parallel()
	counter := prompts.NewCounter()
	for text, want := range map[string]int{
		"":            0,
		"hello world": 2,
		// A mark of the vocabulary is ordinary text in a message: seven tokens, not one.
		"<|endoftext|>":                7,
		"a<|endoftext|>b<|im_start|>c": 16,
		"\xff":                         1,
	} {
		if got := counter.Count(text); got != want {
			t.Errorf("%q has %d tokens, want %d", text, got, want)
		}
	}
}

func TestCountOfLongText(t *testing.T) {
	t.Parallel()
	counter := prompts.NewCounter()
	piece := "Wörter 长 🍕 "
	once := counter.Count(strings.Repeat(piece, 100))
	got := counter.Count(strings.Repeat(piece, 10000))
	if low, high := once*99, once*101; got < low || got > high {
		t.Errorf("got %d, want about %d", got, once*100)
	}
	// Text without an end of word is what makes naive tokenizers quadratic.
	if got := counter.Count(strings.Repeat("a", 1<<18)); got < 1<<14 || got > 1<<16 {
		t.Errorf("got %d", got)
	}
}

func TestCountAtOnce(t *testing.T) {
	t.Parallel()
	counter := prompts.NewCounter()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got := counter.Count("hello world"); got != 2 {
				t.Errorf("got %d", got)
			}
		})
	}
	all.Wait()
}

func TestFits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		budget     int
		want, load bool
	}{
		{"empty", "", 0, true, false},
		{"bytes prove it", "hello", 5, true, false},
		{"counted", "hello world", 2, true, true},
		{"over", "hello world", 1, false, true},
		{"no budget", "hello", 0, false, false},
		{"less than none", "hello", -1, false, false},
		{"bytes of torn text prove nothing", "\xff\xfe", 2, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			counter := prompts.NewCounter()
			if got := prompts.Fits(tt.text, tt.budget, counter); got != tt.want {
				t.Errorf("got %v", got)
			}
			if got := counter.Loaded(); got != tt.load {
				t.Errorf("vocabulary loaded: %v, want %v", got, tt.load)
			}
		})
	}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	counter := prompts.NewCounter()
	for _, tt := range []struct {
		name, text string
		budget     int
		want       string
	}{
		{"fits", "one two three", 3, "one two three"},
		{"cut", "one two three four five", 3, "one two three"},
		{"nothing", "one", 0, ""},
		{"less than nothing", "one", -5, ""},
		{"a family is one", "👨‍👩‍👧‍👦", 3, ""},
		{"a skin tone stays", "👍🏽", 1, ""},
		{"an accent stays", "e\u0301\u0302", 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := prompts.Trim(tt.text, tt.budget, counter); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTrimOfLongText(t *testing.T) {
	t.Parallel()
	counter := prompts.NewCounter()
	for name, text := range map[string]string{
		"words":   strings.Repeat("some words of a long message ", 2000),
		"chinese": strings.Repeat("帮忙写一首关于水哥的诗", 2000),
		"emoji":   strings.Repeat("👨‍👩‍👧‍👦👍🏽🇩🇪", 500),
		"accents": "a" + strings.Repeat("\u0301", 5000),
		"flags":   strings.Repeat("🇩🇪", 2000),
	} {
		got := prompts.Trim(text, 500, counter)
		if !strings.HasPrefix(text, got) || !utf8.ValidString(got) {
			t.Errorf("%s: is no beginning", name)
		}
		if n := counter.Count(got); n > 500 || n < 450 {
			t.Errorf("%s: %d tokens in a budget of 500", name, n)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	counter := prompts.NewCounter()
	text := strings.Repeat("Add bananas to the groceries list, please. ", 200)
	counter.Count(text)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		counter.Count(text)
	}
}
