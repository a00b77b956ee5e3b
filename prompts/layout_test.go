package prompts_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/prompts"
)

// part is a section of one message of n words.
func part(name string, n int, tokens float64, required bool) prompts.Section {
	s := prompts.TextSection(name, prompts.System, name+strings.Repeat(" xx", n-1), words{})
	s.Tokens, s.Required = tokens, required
	return s
}

// turns is a section of so many messages of two words, of which it keeps the
// newest.
func turns(name string, n int, tokens float64) prompts.Section {
	return prompts.Section{Name: name, Tokens: tokens, Messages: func(budget int) []prompts.Message {
		var all []prompts.Message
		for i := range n {
			all = append(all, user(fmt.Sprintf("%s%d xxxxxxxxxx", name, i)))
		}
		return all[max(0, n-budget/(2+prompts.MessageTokens)):]
	}}
}

// told are the first words of messages, with the number of their words.
func told(messages []prompts.Message) string {
	var out []string
	for _, m := range messages {
		first, _, _ := strings.Cut(m.Text, " ")
		out = append(out, fmt.Sprintf("%s/%d", first, words{}.Count(m.Text)))
	}
	return strings.Join(out, " ")
}

func TestLayout(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		budget   int
		sections []prompts.Section
		want     string
	}{
		{"nothing", 10, nil, ""},
		{"all fits", 1000, []prompts.Section{part("a", 5, -1, true), turns("h", 2, 1), part("b", 5, 0, false)}, "a/5 h0/2 h1/2 b/5"},
		{"all fits to the token", 30, []prompts.Section{part("a", 5, 0, true), turns("h", 2, 1), part("b", 5, 0, false)}, "a/5 h0/2 h1/2 b/5"},
		{"the share is what is left", 29, []prompts.Section{part("a", 5, 0, true), turns("h", 2, 1), part("b", 5, 0, false)}, "a/5 h1/2 b/5"},
		{"a share of nothing", 18, []prompts.Section{part("a", 5, 0, true), turns("h", 2, 1), part("b", 5, 0, false)}, "a/5 b/5"},
		{"half of what is left", 9 + 24, []prompts.Section{part("a", 5, 0, true), turns("h", 9, 0.5)}, "a/5 h7/2 h8/2"},
		{"shares of one", 9 + 24, []prompts.Section{turns("h", 9, 0.5), part("a", 5, 0, true), turns("k", 9, 0.5)}, "h7/2 h8/2 a/5 k7/2 k8/2"},
		{"shares over one", 9 + 24, []prompts.Section{turns("h", 9, 1), part("a", 5, 0, true), turns("k", 9, 1)}, "h7/2 h8/2 a/5 k7/2 k8/2"},
		{"a share is a bound", 1000, []prompts.Section{turns("h", 99, 0.1)}, "h83/2" + tail(84, 99)},
		{"a fixed section is cut", 1000, []prompts.Section{part("a", 50, 14, true)}, "a/10"},
		{"a fixed section too small", 1000, []prompts.Section{part("a", 50, 4, false)}, ""},
		{"the last optional goes first", 20, []prompts.Section{part("a", 5, 0, true), part("b", 5, 0, false), part("c", 5, 0, false)}, "a/5 b/5"},
		{"required ones stay", 20, []prompts.Section{part("a", 5, 0, false), part("b", 5, 0, false), part("c", 5, 0, true)}, "a/5 c/5"},
		{"empty ones take nothing", 9, []prompts.Section{part("a", 5, 0, true), prompts.TextSection("b", prompts.User, "", words{})}, "a/5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := prompts.Layout(tt.budget, words{}, tt.sections...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, told(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if size := sizeOf(got); size > tt.budget {
				t.Errorf("%d tokens, want at most %d", size, tt.budget)
			}
		})
	}
}

func tail(from, to int) string {
	var out strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&out, " h%d/2", i)
	}
	return out.String()
}

func sizeOf(messages []prompts.Message) int {
	size := 0
	for _, m := range messages {
		size += words{}.Count(m.Text) + prompts.MessageTokens
	}
	return size
}

func TestLayoutThatDoesNotFit(t *testing.T) {
	t.Parallel()
	needed := turns("old", 1, 0.5)
	needed.Required = true
	for want, sections := range map[string][]prompts.Section{
		"prompt needs 21 tokens (a 9, c 12), and may have 20": {part("a", 5, 0, true), part("b", 5, 0, false), turns("h", 1, 1), part("c", 8, -1, true)},
		"prompt needs 9 tokens (a 9, old), and may have 20":   {part("a", 5, 0, true), needed},
	} {
		_, err := prompts.Layout(20, words{}, sections...)
		if fault, ok := errors.AsType[*prompts.TooLongError](err); !ok || err.Error() != want || fault.Budget != 20 {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestAssembleWithin(t *testing.T) {
	t.Parallel()
	in := prompts.AssembleInput{
		System: "system 2 3 4", Context: "context 2 3 4 5 6", Input: "input <|endoftext|>", Results: "results",
		History: turns("h", 3, 1).Messages,
	}
	for budget, want := range map[int]string{
		70: "system/4 h0/2 h1/2 h2/2 context/6 input/2 Results/6",
		50: "system/4 h1/2 h2/2 context/6 input/2 Results/6",
		40: "system/4 h2/2 context/6 input/2 Results/6",
		39: "system/4 context/6 input/2 Results/6",
		33: "system/4 h2/2 input/2 Results/6",
		24: "system/4 input/2 Results/6",
	} {
		got, err := in.Within(budget, words{})
		if err != nil || told(got) != want {
			t.Errorf("%d: got %s, %v\nwant %s", budget, told(got), err, want)
		}
	}
	if _, err := in.Within(23, words{}); err == nil || !strings.Contains(err.Error(), "(prompt 8, input 6, results 10)") {
		t.Errorf("got %v", err)
	}
	in.History = nil
	if got, err := in.Within(1000, prompts.NewCounter()); err != nil || len(got) != 4 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := in.Within(60, prompts.NewCounter()); err != nil || len(got) != 4 {
		t.Errorf("special tokens are text: got %v, %v", got, err)
	}
}

func TestRetold(t *testing.T) {
	t.Parallel()
	var h prompts.History
	h.Append(turn("a", user("hi"), bot("hello")), prompts.Limits{})
	got := h.Retold(strings.ToUpper).Within(100, words{})
	if diff := cmp.Diff([]prompts.Message{user("hi"), bot("HELLO")}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if h.Turns[0].Messages[1].Text != "hello" {
		t.Error("the history itself was changed")
	}
}
