package planner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

const (
	anAnswer   = `{"type":"answer","commands":[{"type":"SAY","response":"You have two lists."},{"type":"SAY","response":"Bye."}]}`
	aPlan      = `{"type":"plan","commands":[{"type":"DO","action":"wipe","entities":{}},{"type":"SAY","response":"It is wiped."}]}`
	doInAnswer = `{"type":"answer","commands":[{"type":"SAY","response":"Let me look."},{"type":"DO","action":"wipe","entities":{}}]}`
)

// watched is a turn whose person sees answers early, and what they see.
func watched(text string) (*actions.Turn, *[]string) {
	in, seen := turn(text), &[]string{}
	in.Draft = func(text string) { *seen = append(*seen, text) }
	return in, seen
}

// streaming is a model over HTTP that asks each of the servers in turn.
func streaming(t *testing.T, servers ...*fakemodel.Server) models.Model {
	t.Helper()
	chain := &models.Chain{Retries: -1}
	for _, s := range servers {
		model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		chain.Models = append(chain.Models, model)
	}
	return chain
}

// TestDrafts: what people see early of the answers of a server that sends eight characters at a
// time, and what becomes of the plan.
func TestDrafts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, planner string
		answers       []string
		ends          []string // seen last of each answer; "" takes it back
		commands      int
		refused       []plan.FaultKind
	}{
		{"answer", "sequence", []string{anAnswer}, []string{"You have two lists."}, 2, nil},
		{"plan", "sequence", []string{aPlan}, nil, 2, nil},
		{"undeclared", "sequence", []string{strings.Replace(anAnswer, `"type":"answer",`, "", 1)}, nil, 2, nil},
		{"prose", "sequence", []string{"You have two lists."}, nil, 1, nil},
		{"a DO in an answer", "sequence", []string{doInAnswer, aPlan}, []string{"Let me look.", ""}, 2, []plan.FaultKind{plan.InvalidPlan}},
		{"repairs are not seen", "sequence", []string{doInAnswer, anAnswer}, []string{"Let me look.", ""}, 2, []plan.FaultKind{plan.InvalidPlan}},
		{"JSON in place of XML", "sequential", []string{anAnswer}, []string{"You have two lists."}, 2, nil},
		{"XML", "sequential", []string{inPlan("<say>You have two lists.</say>", "<function.wipe/>")}, nil, 3, nil},
		{"prose in place of XML", "sequential", []string{"You have two lists."}, nil, 1, nil},
		{"calls may follow", "tools", []string{"You have two lists."}, nil, 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := fakemodel.New(t)
			server.Says(tt.answers...)
			in, seen := watched("Which lists do I have?")
			p, err := planned(t, tt.planner, planner.Config{Model: streaming(t, server), Actions: xmlActions(t)}, in)
			if err != nil || len(p.Commands) != tt.commands {
				t.Fatalf("%+v, %v", p, err)
			}
			if diff := cmp.Diff(tt.refused, p.Refused); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.ends, ends(*seen)); diff != "" {
				t.Errorf("%s\nof %q", diff, *seen)
			}
			if tt.ends != nil && len(*seen) < 2 {
				t.Errorf("seen in one piece: %q", *seen)
			}
			for i, call := range server.Calls() {
				if call.Stream != (i == 0) || call.WithUsage != (i == 0) {
					t.Errorf("call %d: stream %v, with usage %v", i, call.Stream, call.WithUsage)
				}
			}
		})
	}
}

// ends are the texts that the next one does not continue.
func ends(seen []string) (last []string) {
	for i, text := range seen {
		if i+1 == len(seen) || !strings.HasPrefix(seen[i+1], text) {
			last = append(last, text)
		}
	}
	return last
}

// TestNobodySeesDrafts: then nothing is streamed, and the model is not asked to declare anything.
func TestNobodySeesDrafts(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sequence", "sequential", "tools"} {
		model := &recorder{answer: "Hi."}
		if _, err := planned(t, name, planner.Config{Model: model, Actions: vectorActions(t)}, turn("hi")); err != nil {
			t.Fatal(err)
		}
		if asked := golden.Prompt(model.asked[0]); model.asked[0].Stream != nil || strings.Contains(asked, "answer\"") {
			t.Errorf("%s: %s", name, asked)
		}
	}
}

// TestThePlanDeclaresItself: the prompt, the schema and the examples of the history say how. The
// rest is the prompt of a turn that does not stream.
func TestThePlanDeclaresItself(t *testing.T) {
	t.Parallel()
	var asked [2]string
	for i, seen := range []bool{false, true} {
		model := &recorder{answer: anAnswer}
		in := turn("hi")
		if seen {
			in, _ = watched("hi")
		}
		history(in, `{"type":"plan","commands":[{"type":"SAY","response":"{\"type\":\"DO\""}]}`, aPlan, "Cut off")
		if _, err := planned(t, "sequence", planner.Config{Model: model, Actions: goldenActions(t)}, in); err != nil {
			t.Fatal(err)
		}
		if stream := model.asked[0].Stream != nil; stream != seen {
			t.Errorf("streams: %v", stream)
		}
		asked[i] = golden.Prompt(model.asked[0])
	}
	var differ []string
	for line := range strings.Lines(golden.Diff(asked[0], asked[1])) {
		if line[0] == '-' || line[0] == '+' {
			differ = append(differ, strings.TrimSpace(line[:1]+strings.TrimSpace(line[1:])))
		}
	}
	all := slices.Clone(differ)
	differ = slices.DeleteFunc(differ, func(line string) bool { // what has only moved
		return len(line) == 1 || slices.Contains(all, "-"+line[1:]) && slices.Contains(all, "+"+line[1:])
	})
	want := []string{
		`+A plan without DO has the type answer: {"type":"answer","commands":[{"type":"SAY","response":"Hi!"}]}`,
		`-{"type":"plan","commands":[{"type":"SAY","response":"{\"type\":\"DO\""}]}`,
		`+{"type":"answer","commands":[{"type":"SAY","response":"{\"type\":\"DO\""}]}`,
		`-"enum": ["plan"]`, `+"enum": ["answer", "plan"]`,
	}
	slices.Sort(differ)
	slices.Sort(want)
	if diff := cmp.Diff(want, differ); diff != "" {
		t.Error(diff)
	}
}

func history(in *actions.Turn, transcripts ...string) {
	for _, transcript := range transcripts {
		state.Of[prompts.History](in.Thread).Append(prompts.Turn{Messages: []prompts.Message{{Role: "user", Text: "hm"}, {Role: "assistant", Text: transcript}}}, 0)
	}
}

// TestADraftBeginsAnew: another model answers when the first one breaks off. What people saw of the
// first answer does not keep the second from being a plan.
func TestADraftBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		second   string
		ends     []string
		commands int
	}{
		{anAnswer, []string{"There are abou", "You have two lists."}, 2},
		{aPlan, []string{"There are abou", ""}, 2},
	} {
		first, second := fakemodel.New(t), fakemodel.New(t)
		first.CutsOff(`{"type":"answer","commands":[{"type":"SAY","response":"There are about`)
		second.Says(tt.second)
		in, seen := watched("Which lists do I have?")
		p, err := planned(t, "sequence", planner.Config{Model: streaming(t, first, second), Actions: xmlActions(t)}, in)
		if err != nil || len(p.Commands) != tt.commands || p.Refused != nil {
			t.Fatalf("%+v, %v", p, err)
		}
		if diff := cmp.Diff(tt.ends, ends(*seen)); diff != "" {
			t.Error(diff)
		}
	}
}

// double is a model that streams one text and answers with another.
type double struct{ streams, answers string }

func (d *double) Complete(_ context.Context, req *models.Request) (*models.Response, error) {
	if req.Stream != nil {
		req.Stream()(d.streams)
	}
	text := d.answers
	d.answers = anAnswer
	return &models.Response{Text: text, Finish: "stop"}, nil
}

// TestNothingRunsOfAnAnswerThatWasSeen, whatever is made of it.
func TestNothingRunsOfAnAnswerThatWasSeen(t *testing.T) {
	t.Parallel()
	for streams, refused := range map[string][]plan.FaultKind{anAnswer: {plan.InvalidPlan}, aPlan: nil} {
		in, _ := watched("Wipe them")
		p, err := planned(t, "sequence", planner.Config{Model: &double{streams, aPlan}, Actions: xmlActions(t)}, in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(refused, p.Refused); diff != "" || (p.LastDo() >= 0) == (refused != nil) {
			t.Errorf("%s: %+v", diff, p)
		}
	}
}

// TestDraftsOfTools: only where no call can follow.
func TestDraftsOfTools(t *testing.T) {
	t.Parallel()
	const text = "All of it is wiped.\nIs there anything else?"
	round := []actions.Round{{Outcomes: []actions.Outcome{{Action: "wipe", CallID: "c1"}}}}
	tests := []struct {
		name   string
		cfg    planner.Config
		rounds []actions.Round
		answer fakemodel.Answer
		ends   []string
	}{
		{"last round", planner.Config{MaxRounds: 1}, round, fakemodel.Answer{Text: text}, []string{text[:len(text)-1]}},
		{"not the last round", planner.Config{}, round, fakemodel.Answer{Text: text}, nil},
		{"never", planner.Config{Choice: "none"}, nil, fakemodel.Answer{Text: text}, []string{text[:len(text)-1]}},
		{"nothing to call", planner.Config{Actions: actions.New()}, nil, fakemodel.Answer{Text: text}, []string{text[:len(text)-1]}},
		{"before a call", planner.Config{}, nil, fakemodel.Answer{Text: text, Calls: []models.Call{{ID: "c1", Name: "wipe"}}}, nil},
		{"a plan as text", planner.Config{Choice: "none"}, nil, fakemodel.Answer{Text: anAnswer}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := fakemodel.New(t)
			server.CallsTools(tt.answer.Text, tt.answer.Calls...)
			if tt.cfg.Actions == nil {
				tt.cfg.Actions = xmlActions(t)
			}
			tt.cfg.Model, tt.cfg.MaxRepairs = streaming(t, server), -1
			in, seen := watched("Wipe them")
			in.Rounds = tt.rounds
			_, err := planned(t, "tools", tt.cfg, in)
			if isPlan := strings.HasPrefix(tt.answer.Text, "{"); (err != nil) != isPlan {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.ends, ends(*seen)); diff != "" {
				t.Error(diff)
			}
			if call := server.Calls()[0]; !call.Stream {
				t.Error("not read as a stream")
			}
		})
	}
}
