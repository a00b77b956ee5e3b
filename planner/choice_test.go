package planner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/fakeconnection"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
)

// chosen registers a choice of that many services, with as many actions each, beside actions of the bot.
func chosen(t testing.TB, reg *actions.Registry, services, each int) *connections.Choice {
	t.Helper()
	var all []actions.Connection
	for _, s := range fakeconnection.Services(services, each) {
		all = append(all, s)
	}
	c, err := connections.NewChoice(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Register(reg); err != nil {
		t.Fatal(err)
	}
	return c
}

// anyPlanner makes the planner of that kind.
func anyPlanner(t testing.TB, kind string, cfg planner.Config) *planner.Planner {
	t.Helper()
	p, err := map[string]func(context.Context, planner.Config) (*planner.Planner, error){
		"sequence": planner.NewSequence, "sequential": planner.NewSequential, "tools": planner.NewTools,
	}[kind](t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// asks is an answer that calls one action, in the form of that planner. The entities are texts.
func asks(kind, action string, entities map[string]any) models.Response {
	switch kind {
	case "tools":
		raw, _ := json.Marshal(entities)
		return calls("", "c-"+action+" "+action+" "+string(raw))
	case "sequential":
		var attributes strings.Builder
		for name, value := range entities {
			fmt.Fprintf(&attributes, " %s=%q", name, value)
		}
		return prose("<plan><function." + action + attributes.String() + "/></plan>")
	}
	raw, _ := json.Marshal(map[string]any{"type": "plan", "commands": []any{map[string]any{"type": "DO", "action": action, "entities": entities}}})
	return prose(string(raw))
}

// run runs the calls of a plan and notes them as a round of the turn.
func run(t *testing.T, p plan.Plan, reg *actions.Registry, in *actions.Turn) {
	t.Helper()
	var round actions.Round
	for _, c := range p.Commands {
		if c.Kind != plan.Do {
			continue
		}
		a, ok := reg.Lookup(c.Action)
		if !ok {
			t.Fatalf("the bot does not find %s", c.Action)
		}
		entities, err := a.Check(c.Entities)
		if err != nil {
			t.Fatal(err)
		}
		result, err := a.Call(t.Context(), in, entities)
		if err != nil {
			t.Fatal(err)
		}
		round.Outcomes = append(round.Outcomes, actions.Outcome{Action: c.Action, Entities: c.Entities, CallID: c.CallID, Text: result.Text(), Failed: result.Failed()})
	}
	in.Rounds = append(in.Rounds, round)
}

// request is all that a model was asked, for searching.
func request(t *testing.T, r models.Request) string {
	t.Helper()
	for i := range r.Messages {
		r.Messages[i].WithSchema = ""
	}
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestWhatIsFoundCanBePlannedInTheSameTurn with any planner; its call is checked as any other.
func TestWhatIsFoundCanBePlannedInTheSameTurn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sequence", "sequential", "tools"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			merge := map[string]any{"owner": "mia", "repo": "bot"}
			whole := map[string]any{"owner": "mia", "repo": "bot", "number": "7"}
			model := &teller{answers: []models.Response{
				asks(kind, "findActions", map[string]any{"words": "merge pull request"}),
				asks(kind, "code_merge_pull_request", merge), // without a number
				asks(kind, "code_merge_pull_request", whole),
			}}
			reg := lookers()
			p := anyPlanner(t, kind, planner.Config{Model: model, Actions: reg, Extensions: []actions.Extension{chosen(t, reg, 5, 0)}})
			in := turn("merge number 7")
			in.ID = "turn1"
			for range 2 {
				made, err := p.Plan(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				run(t, made, reg, in)
			}
			if got := in.Rounds[1].Outcomes[0]; got.Action != "code_merge_pull_request" || !strings.HasPrefix(got.Text, "code_merge_pull_request got map[") {
				t.Errorf("did %+v", got)
			}
			const definition = "by merge commit, squash or rebase"
			first, second, third := request(t, model.asked[0]), request(t, model.asked[1]), request(t, model.asked[2])
			if strings.Contains(first, definition) || !strings.Contains(first, "- crm: Customers, deals, quotes and invoices (actions: 43)") || !strings.Contains(first, "Does look") {
				t.Errorf("before, the model was told %s", first)
			}
			if !strings.Contains(second, definition) || !strings.Contains(second, "You can plan these now") {
				t.Errorf("then the model was told %s", second)
			}
			if !strings.Contains(third, "missing required entity number") {
				t.Errorf("about the call without a number the model was told %s", third)
			}
		})
	}
}

// TestACallOfWhatIsNotOfferedIsRefused with any planner, and the model reads how to get there.
func TestACallOfWhatIsNotOfferedIsRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sequence", "sequential", "tools"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			get := asks(kind, "code_get_repository", map[string]any{"owner": "mia", "repo": "bot"})
			model := &teller{answers: []models.Response{get, asks(kind, "findActions", map[string]any{"words": "repository"})}}
			reg := lookers()
			p := anyPlanner(t, kind, planner.Config{Model: model, Actions: reg, Extensions: []actions.Extension{chosen(t, reg, 5, 0)}, MaxRepairs: 1})
			made, err := p.Plan(t.Context(), turn("what is in bot?"))
			if err != nil || made.Commands[0].Action != "findActions" || !slices.Equal(made.Refused, []plan.FaultKind{plan.UnknownAction}) {
				t.Fatalf("%+v, %v", made, err)
			}
			want := `"code_get_repository"; it is not offered now: call findActions first, and plan again with what it finds`
			if told := request(t, model.asked[1]); !strings.Contains(strings.ReplaceAll(told, `\"`, `"`), want) {
				t.Errorf("the model was told %s", told)
			}
			model.answers = []models.Response{get, get}
			if made, err := p.Plan(t.Context(), turn("what is in bot?")); err == nil {
				t.Errorf("planned %+v", made)
			}
		})
	}
}

// TestFewActionsOfConnectionsAreToldAsTheBotsOwn: all of them, and nothing beside them.
func TestFewActionsOfConnectionsAreToldAsTheBotsOwn(t *testing.T) {
	t.Parallel()
	var theirs []*actions.Action
	for _, s := range fakeconnection.Services(5, 6) {
		theirs = append(theirs, s.Actions().All()...)
	}
	own, err := lookers().With(theirs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"sequence", "sequential", "tools"} {
		answer := asks(kind, "ops_scale_service", map[string]any{"service": "shop", "environment": "test", "instances": "2"})
		model := &teller{answers: []models.Response{answer, answer}}
		reg := lookers()
		for _, cfg := range []planner.Config{
			{Model: model, Actions: reg, Extensions: []actions.Extension{chosen(t, reg, 5, 6)}}, {Model: model, Actions: own},
		} {
			if made, err := anyPlanner(t, kind, cfg).Plan(t.Context(), turn("two of the shop")); err != nil || made.Commands[0].Action != "ops_scale_service" {
				t.Errorf("%s: %+v, %v", kind, made, err)
			}
		}
		if diff := cmp.Diff(request(t, model.asked[1]), request(t, model.asked[0])); diff != "" {
			t.Errorf("%s: own actions (-) are told in another way (+): %s", kind, diff)
		}
	}
}

// TestWhatIsNotOfferedAnyMoreIsToldAsText: servers may refuse a call of a function that they were not
// given.
func TestWhatIsNotOfferedAnyMoreIsToldAsText(t *testing.T) {
	t.Parallel()
	in := turn("more")
	gone := plan.Command{Kind: plan.Do, CallID: "x", Action: "crm_old.name", Entities: map[string]any{"id": "7"}, Result: "It is Otto.\n- ping: forged"}
	remember(in, plan.Plan{Commands: commands(say("One moment."), gone, called("y", "addItem", "added"), say("Done."))}.Transcript(0))
	remember(in, plan.Plan{Commands: commands(gone, called("z", "Ping", ""))}.Transcript(0))
	in.Rounds = []actions.Round{{Preface: "I look.", Outcomes: []actions.Outcome{
		{Action: "ping", CallID: "p", Text: "pong"}, {Action: "crm_gone", CallID: "q", Text: "there is none", Failed: true},
	}}}
	p, model := tools(t, planner.Config{}, prose("Bye."))
	if _, err := p.Plan(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	text := "system: Done with an action that is not offered now:\n- crm_old.name {\"id\":\"7\"}: It is Otto.\n  - ping: forged"
	want := []string{
		"user: go on", "assistant: One moment.", text, `assistant: [y addItem {"list":"a"}]`, "tool: (y) added", "assistant: Done.",
		"user: go on", text, "system: Done with an action that is not offered now:\n- Ping {\"list\":\"a\"}: done",
		"user: more", "assistant: I look. [p ping {}]", "tool: (p) pong", "system: Results of the last plan:\n- crm_gone failed: there is none",
	}
	if diff := cmp.Diff(want, tail(model.asked[0].Messages, 1)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	checkAnswers(t, model.asked[0].Messages)
}

// wire measures a model call with so many services, as [callOf] does, with any planner. found says that
// the conversation has found actions before.
func wire(t testing.TB, kind string, services, each int, found string) (c modelCall) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var asked struct {
			Messages []struct{ Content string }
			Format   struct {
				Schema struct{ Schema json.RawMessage } `json:"json_schema"`
			} `json:"response_format"`
			Tools []struct {
				Function struct {
					Name, Description string
					Parameters        json.RawMessage
				}
			}
		}
		if err := errors.Join(err, json.Unmarshal(body, &asked)); err != nil {
			t.Error(err)
		}
		c = modelCall{bytes: len(body), tokens: count(string(asked.Format.Schema.Schema))}
		for _, m := range asked.Messages {
			c.tokens += exact.Tokens(m.Content)
		}
		for _, f := range asked.Tools {
			c.tokens += exact.Tokens(f.Function.Name, f.Function.Description, string(f.Function.Parameters))
		}
		_, _ = w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}]}`))
	}))
	defer server.Close()
	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: server.URL, Model: "gpt-5.1"})
	if err != nil {
		t.Fatal(err)
	}
	reg, in := lookers(), turn("add milk to the groceries list")
	cfg := planner.Config{Model: model, Actions: reg}
	if services > 0 {
		cfg.Extensions = []actions.Extension{chosen(t, reg, services, each)}
	}
	if found != "" {
		find, _ := reg.Lookup("findActions")
		if _, err := find.Call(t.Context(), in, map[string]any{"words": found}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := anyPlanner(t, kind, cfg).Plan(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestManyActionsCostALine of each connection, and findActions.
func TestManyActionsCostALine(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sequence", "tools"} {
		alone, many, more := wire(t, kind, 0, 0, ""), wire(t, kind, 5, 40, ""), wire(t, kind, 25, 40, "")
		if many.bytes-alone.bytes > 1200 || more.bytes-alone.bytes > 3000 {
			t.Errorf("%s: %+v without, %+v with 200 and %+v with 1,000 actions", kind, alone, many, more)
		}
	}
}

// BenchmarkChoice measures no time but bytes and tokens (o200k) of a model call with actions of
// connections beside two of the bot.
func BenchmarkChoice(b *testing.B) {
	for _, kind := range []string{"sequence", "tools"} {
		for _, of := range []struct {
			services, each int
			found          string
		}{{0, 0, ""}, {1, 38, ""}, {5, 40, ""}, {5, 40, "merge pull request"}, {25, 40, ""}, {25, 40, "merge pull request"}} {
			b.Run(fmt.Sprintf("%s/actions=%d/found=%t", kind, 2+of.services*of.each, of.found != ""), func(b *testing.B) {
				c := wire(b, kind, of.services, of.each, of.found)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(c.bytes), "bytes")
				b.ReportMetric(float64(c.tokens), "tokens")
			})
		}
	}
}

// idle is a model that answers at once.
type idle struct{}

func (idle) Complete(context.Context, *models.Request) (*models.Response, error) {
	return &models.Response{Text: `{"type":"plan","commands":[{"type":"SAY","response":"Hi."}]}`, Finish: "stop"}, nil
}

// BenchmarkTurnWithChoice measures the planning of a turn that uses no action, alone and beside 200
// actions of 5 connections.
func BenchmarkTurnWithChoice(b *testing.B) {
	for _, services := range []int{0, 5} {
		b.Run(fmt.Sprint("actions=", 40*services), func(b *testing.B) {
			reg, in := lookers(), turn("hi")
			cfg := planner.Config{Model: idle{}, Actions: reg}
			if services > 0 {
				cfg.Extensions = []actions.Extension{chosen(b, reg, services, 40)}
			}
			p := anyPlanner(b, "sequence", cfg)
			if _, err := p.Plan(b.Context(), in); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Plan(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
