package planner_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// remember adds a turn to the history as the bot does.
func remember(in *actions.Turn, answer string) {
	state.Of[prompts.History](in.Thread).Append(prompts.Turn{From: "29:mia", Messages: []prompts.Message{
		{Role: "user", Text: "go on"}, {Role: "assistant", Text: answer},
	}}, 0)
}

func called(id, action, result string) plan.Command {
	return plan.Command{Kind: plan.Do, CallID: id, Action: action, Entities: map[string]any{"list": "a"}, Result: result}
}

// TestToolsRetellsTheHistory: whatever planner has made them, DOs are calls with
// answers, so that a plan is never an example.
func TestToolsRetellsTheHistory(t *testing.T) {
	t.Parallel()
	in := turn("more")
	quoted := do("addItem", map[string]any{"list": "<a>", "count": json.Number("1.50")})
	for _, answer := range []string{
		plan.Plan{Commands: commands(called("x", "addItem", "added"), called("x", "ping", ""), say("Done."), say("More?"))}.Transcript(0),
		plan.Plan{Commands: commands(say("Wait."), quoted, say("So."))}.Transcript(0),
		"Welcome! What {can} I do?",
		plan.Plan{Commands: commands(say("Hi!"))}.Transcript(0),
		`{"type":"plan","commands":[{"type":"DO","action":"ping […]`,
	} {
		remember(in, answer)
	}
	p, _ := tools(t, planner.Config{})
	want := []string{
		"user: go on",
		`assistant: [x addItem {"list":"a"}]`, "tool: (x) added",
		`assistant: [call00002 ping {"list":"a"}]`, "tool: (call00002) done",
		"assistant: Done.\nMore?",
		"user: go on",
		`assistant: Wait. [call00003 addItem {"count":1.50,"list":"<a>"}]`, "tool: (call00003) done",
		"assistant: So.",
		"user: go on", "assistant: Welcome! What {can} I do?",
		"user: go on", "assistant: Hi!",
		"user: go on", "assistant: (What was done and said here is too long to be shown.)",
	}
	messages := messagesOf(t, p, in)
	if diff := cmp.Diff(want, tail(messages[:len(messages)-1], 1)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}

// TestTranscriptsKeepResultsOfCalls, as far as the history has room for them.
func TestTranscriptsKeepResultsOfCalls(t *testing.T) {
	t.Parallel()
	plain := do("ping", nil)
	plain.Result = "of no call"
	given := commands(plain, called("a", "ping", "<ok>"))
	want := `{"type":"plan","commands":[{"type":"DO","action":"ping"},{"type":"DO","action":"ping","entities":{"list":"a"},"callId":"a","result":"<ok>"}]}`
	if got := (plan.Plan{Commands: given}).Transcript(0); got != want || given[0].Result == "" {
		t.Errorf("got %s", got)
	}
	if p, err := plan.Decode(want); err != nil || len(p.Commands) != 2 || p.Commands[1].Result != "" {
		t.Errorf("a model that writes it so: %+v, %v", p, err)
	}
	long := strings.Repeat("ü", 2000)
	one := plan.Plan{Commands: commands(called("a", "ping", long))}.Transcript(0)
	if !strings.Contains(one, `ü […]"`) || len(one) < 1024 || len(one) > 1200 {
		t.Errorf("%d bytes", len(one))
	}
	var many []plan.Command
	for range 25 {
		many = append(many, called("call00001", "ping", long))
	}
	if got := (plan.Plan{Commands: many}).Transcript(0); len(got) > 8<<10 || !json.Valid([]byte(got)) {
		t.Errorf("%d bytes", len(got))
	}
}

// TestLongAnswersStay in the history, which keeps 8 KiB of each, as far as there is room.
func TestLongAnswersStay(t *testing.T) {
	t.Parallel()
	for name, given := range map[string][]plan.Command{
		"one":     commands(say("Point 1. " + strings.Repeat("я", 9000))),
		"escaped": commands(called("a", "ping", "ok"), say("Point 1. "+strings.Repeat("\"\n\x00", 3000))),
		"several": commands(say("Point 1. "+strings.Repeat("x", 6000)), say("And. "+strings.Repeat("y", 5000)), say("Short.")),
	} {
		p, _ := tools(t, planner.Config{Counter: exact})
		in := turn("more")
		text := plan.Plan{Commands: given}.Transcript(prompts.MaxMessage)
		if n := len(text); n > prompts.MaxMessage || n < prompts.MaxMessage/3 {
			t.Errorf("%s: %d bytes", name, n)
		}
		remember(in, text)
		got := strings.Join(tail(messagesOf(t, p, in), 0), "\n")
		if !strings.Contains(got, "Point 1. ") || !strings.Contains(got, " […]") || strings.Contains(got, "too long to be shown") {
			t.Errorf("%s: %.300s", name, got)
		}
	}
}

// TestSequentialRetellsCalls: what the tools planner kept does not get in its way.
func TestSequentialRetellsCalls(t *testing.T) {
	t.Parallel()
	s, _, in := sequential(t, 0)
	remember(in, plan.Plan{Commands: commands(called("a", "createList", "made"), say("Done."))}.Transcript(0))
	want := "<plan>\n  <function.createList list=\"a\"/>\n  <say>Done.</say>\n</plan>"
	if got := messagesOf(t, s, in)[2].Text; got != want {
		t.Errorf("got %s", got)
	}
}

// TestEveryCallIsAnswered holds random histories and turns against what servers
// ask for: answers right behind the calls, one each, under ids of their own.
func TestEveryCallIsAnswered(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		ids := []string{"", "a", "b", "call00002", strings.Repeat("x", 41), "ü"}
		pick := func() string { return ids[random.IntN(len(ids))] }
		in := turn("go on")
		for range random.IntN(5) {
			var executed []plan.Command
			for range random.IntN(5) {
				if random.IntN(3) == 0 {
					executed = append(executed, say(fmt.Sprint("Said ", pick())))
				} else {
					executed = append(executed, called(pick(), "ping", pick()))
				}
			}
			remember(in, plan.Plan{Commands: executed}.Transcript(0))
		}
		for range random.IntN(4) {
			var round actions.Round
			for range random.IntN(4) {
				round.Outcomes = append(round.Outcomes, actions.Outcome{Action: "ping", CallID: pick(), Text: pick(), Failed: random.IntN(2) == 0})
			}
			in.Rounds = append(in.Rounds, round)
		}
		p, model := tools(t, planner.Config{HistoryTokens: random.IntN(100)},
			calls("", pick()+" fly {}", pick()+" ping {"), prose("Bye."))
		if _, err := p.Plan(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		checkAnswers(t, model.asked[0].Messages)
		checkAnswers(t, model.asked[1].Messages)
		if t.Failed() {
			t.Fatalf("seed %d:\n%s", seed, strings.Join(tail(model.asked[1].Messages, 0), "\n"))
		}
	}
}

func checkAnswers(t *testing.T, messages []models.Message) {
	t.Helper()
	seen := map[string]bool{}
	var open []models.Call
	for i, m := range messages {
		if len(open) > 0 {
			if m.Role != "tool" || m.CallID != open[0].ID || m.Text == "" {
				t.Errorf("message %d does not answer the call %s", i, open[0].ID)
			}
			open = open[1:]
			continue
		}
		if m.Role == "tool" {
			t.Errorf("message %d answers nothing", i)
		}
		for _, call := range m.Calls {
			if call.ID == "" || seen[call.ID] {
				t.Errorf("message %d: call %+v", i, call)
			}
			seen[call.ID] = true
		}
		open = m.Calls
	}
	if len(open) > 0 {
		t.Errorf("%d calls are never answered", len(open))
	}
}
