package prompts_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/prompts"
)

// turns are so many messages of two words, of which the newest fit into a budget.
func turns(name string, n int) func(budget int) []prompts.Message {
	return func(budget int) []prompts.Message {
		var all []prompts.Message
		for i := range n {
			all = append(all, user(fmt.Sprintf("%s%d xxxxxxxxxx", name, i)))
		}
		return all[max(0, n-budget/(2+prompts.MessageTokens)):]
	}
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

func TestAssembleWithin(t *testing.T) {
	t.Parallel()
	in := prompts.AssembleInput{
		System: "system 2 3 4", Context: "context 2 3 4 5 6", Input: "input <|endoftext|>", Results: "results",
		History: turns("h", 3),
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
	if _, err := in.Within(23, words{}); err == nil || !strings.Contains(err.Error(), "needs 24 tokens without history, and may have 23") {
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
