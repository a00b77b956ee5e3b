package turnlog_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot/turn"
)

// TestProblems: what went wrong is said, also in a turn that ended well, and once.
func TestProblems(t *testing.T) {
	t.Parallel()
	said := []turnlog.Plan{{Commands: []turnlog.PlanCommand{{Kind: "SAY", Response: "Hi."}}}}
	refused := turnlog.Round{Answer: &turnlog.Answer{}, Refused: &turnlog.Refused{Kind: "invalid entities", Detail: "colour is missing"}}
	for name, c := range map[string]struct {
		rec  turnlog.Record
		want string // part, times and words; "": nothing
	}{
		"sent":      {turnlog.Record{Plans: said, Sent: []turnlog.Sent{{Activity: []byte(`{}`)}}}, ""},
		"answered":  {turnlog.Record{Plans: said, Received: turnlog.Received{Answer: []byte(`{}`)}}, ""},
		"no SAY":    {turnlog.Record{}, ""},
		"a hook":    {turnlog.Record{Plans: said, Sent: []turnlog.Sent{{Kind: "typing"}}}, "sent 1 Nothing was sent. The plan says something, but a feature left nothing of it"},
		"around":    {turnlog.Record{Plans: said, Journal: []turnlog.Save{{Phase: "sending"}}}, "around the channel"},
		"no model":  {turnlog.Record{Rounds: []turnlog.Round{{Answer: &turnlog.Answer{Error: "429"}}}}, "answer 1 The model gave no answer: 429"},
		"refused":   {turnlog.Record{Rounds: []turnlog.Round{refused, refused}}, "plan 2 The answer was no plan that can run: colour is missing"},
		"an action": {turnlog.Record{Commands: []turnlog.Command{{Action: "pay", Result: "failed", Text: "no money"}, {Action: "look", Result: "ok"}}}, "commands 1 The action pay failed: no money"},
		"a save":    {turnlog.Record{Journal: []turnlog.Save{{Error: "the value lists"}}}, "journal 1 The turn was not saved: the value lists"},
		"a channel": {turnlog.Record{Sent: []turnlog.Sent{{Activity: []byte(`{}`), Error: "403"}}}, "sent 1 The channel did not take a message: 403"},
	} {
		c.rec.Outcome = turnlog.OK
		got := c.rec.Problems()
		if c.want == "" {
			if len(got) > 0 {
				t.Errorf("%s: %v, want nothing", name, got)
			}
			continue
		}
		if len(got) != 1 || !strings.Contains(fmt.Sprintf("%s %d %s", got[0].Part, got[0].Times, got[0].Text), c.want) {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

// TestHistoryIsOneChange, however many of its messages moved: the changes that matter are not cut off behind it.
func TestHistoryIsOneChange(t *testing.T) {
	t.Parallel()
	history := func(from int) map[string]jsontext.Value {
		var turns []string
		for i := range 100 {
			turns = append(turns, fmt.Sprintf(`{"messages":[{"text":"say %d"},{"text":"said"}]}`, from+i))
		}
		return map[string]jsontext.Value{"history": jsontext.Value(`{"turns":[` + strings.Join(turns, ",") + `]}`)}
	}
	before := turn.State{"conversation": history(0), "user": {"a": jsontext.Value("1")}}
	got := turnlog.Compare(before, turn.State{"conversation": history(1), "user": {"a": jsontext.Value("2")}}, "x")
	want := []turnlog.Change{
		{Path: "conversation.history", Before: "turns: 100, the last one: say 99", After: "turns: 100, the last one: say 100", By: "x"},
		{Path: "user.a", Before: "1", After: "2", By: "x"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the changes are %+v", got)
	}
}
