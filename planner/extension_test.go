package planner_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// extension is one that a test can change from turn to turn.
type extension struct {
	extra  actions.Extra
	err    error
	offers int // how often Offer was called
}

func (e *extension) Extend(context.Context, *actions.Turn) (actions.Extra, error) {
	extra := e.extra
	if offer := extra.Offer; offer != nil {
		extra.Offer = func(all *actions.Registry) (*actions.Registry, error) {
			e.offers++
			return offer(all)
		}
	}
	return extra, e.err
}

// only offers the action look, with a list of what can be looked at.
func only(all *actions.Registry) (*actions.Registry, error) {
	return all.Only(actions.Offer{Name: "look", Schema: &jsonschema.Schema{
		Type: "object", Required: []string{"at"},
		Properties: map[string]*jsonschema.Schema{"at": {Type: "string", Enum: []any{"moon", "sun"}}},
	}})
}

type look struct {
	At string `json:"at,omitempty"`
}

func lookers() *actions.Registry {
	reg := actions.New()
	for _, name := range []string{"look", "jump"} {
		actions.Add(reg, name, "Does "+name, func(context.Context, *actions.Turn, look) (actions.Result, error) { return actions.Done, nil })
	}
	return reg
}

// extended makes each of the planners with the extension and a model.
func extended(t *testing.T, name string, model models.Model, e actions.Extension, library *prompts.Library) interface {
	shower
	Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error)
} {
	t.Helper()
	cfg := planner.Config{Model: model, Actions: lookers(), Prompts: library}
	if e != nil {
		cfg.Extensions = []actions.Extension{e}
	}
	switch name {
	case "tools":
		cfg.Include = []string{"look", "jump"}
		p, err := planner.NewTools(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return p
	case "sequential":
		p, err := planner.NewSequential(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p, err := planner.NewSequence(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAnExtensionAddsToEveryPlanner(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]models.Response{
		"sequence":   prose(`{"type":"plan","commands":[{"type":"DO","action":"look","entities":{"at":"mars"}}]}`),
		"sequential": prose(`<plan><function.look at="mars"/></plan>`),
		"tools":      calls("", `1 look {"at":"mars"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := &teller{answers: []models.Response{answer}}
			e := &extension{extra: actions.Extra{
				Key: "k", Text: "There is a moon.", Offer: only, Pinned: []string{"Never look into the sun.", "", "Nor at Mars."},
				Tell: func(o actions.Outcome) (string, bool) { return "a crater", o.Text == "#1" },
			}}
			p := extended(t, name, model, e, nil)
			in := turn("what is up?")
			in.Rounds = []actions.Round{{Outcomes: []actions.Outcome{{Action: "look", Text: "#1", CallID: "c1"}, {Action: "look", Text: "#2", CallID: "c2"}}}}
			made, err := p.Plan(t.Context(), in)
			if err != nil || len(made.Commands) == 0 || made.Commands[0].Entities["at"] != "mars" {
				t.Fatalf("got %+v, %v: the schema that is told does not hold a call to anything", made, err)
			}
			asked := model.asked[0]
			for i := range asked.Messages {
				asked.Messages[i].WithSchema = "" // is told in place of the text
			}
			raw, err := json.Marshal(asked)
			if err != nil {
				t.Fatal(err)
			}
			for want, times := range map[string]int{"There is a moon.": 1, "Never look into the sun.": 1, "a crater": 1, "#1": 0, "#2": 1, "jump": 0} {
				if got := strings.Count(string(raw), want); got != times {
					t.Errorf("the model was told %q %d times, want %d:\n%s", want, got, times, raw)
				}
			}
			if !strings.Contains(string(raw), `moon`) || name != "sequential" && !strings.Contains(string(raw), `sun`) {
				t.Errorf("the model was not told what can be looked at:\n%s", raw)
			}
			if got := asked.Messages; !strings.HasSuffix(unclocked(got[0].Text), "\n\nThere is a moon.") || got[1].Text != "Never look into the sun." || got[2].Text != "Nor at Mars." || got[1].Role != "system" {
				t.Errorf("what is added is not behind the prompt: %q", got)
			}
		})
	}
}

func TestWhatAnExtensionLeavesOutIsNotPlanned(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]models.Response{
		"sequence":   prose(`{"type":"plan","commands":[{"type":"DO","action":"jump","entities":{}}]}`),
		"sequential": prose(`<plan><function.jump/></plan>`),
		"tools":      calls("", `1 jump {}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := &teller{answers: []models.Response{answer, answer, answer}}
			p := extended(t, name, model, &extension{extra: actions.Extra{Key: "k", Offer: only}}, nil)
			if made, err := p.Plan(t.Context(), turn("jump")); err == nil {
				t.Errorf("planned %+v", made)
			}
			none := &extension{extra: actions.Extra{Key: "none", Offer: func(all *actions.Registry) (*actions.Registry, error) { return all.Only() }}}
			model = &teller{answers: []models.Response{prose("I cannot.")}}
			if _, err := extended(t, name, model, none, nil).Plan(t.Context(), turn("jump")); err != nil {
				t.Errorf("with no action left: %v", err)
			}
			if len(model.asked[0].Tools) != 0 {
				t.Errorf("offered %v", model.asked[0].Tools)
			}
		})
	}
}

func TestAnExtensionIsLookedAtOnceForAKey(t *testing.T) {
	t.Parallel()
	e := &extension{}
	p := extended(t, "sequence", models.Offline{}, e, nil)
	for i, extra := range []actions.Extra{{}, {Key: "a", Text: "Some A.", Offer: only}, {Key: "b", Text: "Some B.", Offer: only}, {Key: "a", Text: "not looked at", Offer: only}, {}} {
		e.extra = extra
		got := unclocked(messagesOf(t, p, turn("hi"))[0].Text)
		if want := []string{"", "\n\nSome A.", "\n\nSome B.", "\n\nSome A.", ""}[i]; !strings.HasSuffix(got, want) || want == "" && strings.Contains(got, "Some") {
			t.Errorf("%d: got %q", i, got)
		}
	}
	if e.offers != 2 {
		t.Errorf("made %d times, want 2", e.offers)
	}
}

func TestAPromptPlacesWhatAnExtensionSays(t *testing.T) {
	t.Parallel()
	e := &extension{extra: actions.Extra{Key: "k", Text: "There is a moon."}}
	for text, want := range map[string]string{
		"Here: {{skills}} So.":                   "Here: There is a moon. So.",
		"Here: {{skills}} {{$temp.input}}":       "Here: There is a moon. hi",
		"{{actions}} {{$temp.input}} Nothing.\n": "look(at?: string) - Does look\njump(at?: string) - Does jump hi Nothing.\n\nThere is a moon.",
	} {
		p := extended(t, "sequence", models.Offline{}, e, folder(t, map[string]string{"sequence/prompt.txt": text}))
		if got := unclocked(messagesOf(t, p, turn("hi"))[0].Text); got != want {
			t.Errorf("%s: got %q", text, got)
		}
	}
	plain := extended(t, "sequence", models.Offline{}, nil, folder(t, map[string]string{"sequence/prompt.txt": "Here: {{skills}}."}))
	if got := unclocked(messagesOf(t, plain, turn("hi"))[0].Text); got != "Here: ." {
		t.Errorf("without an extension: %q", got)
	}
}

func TestAnErrorOfAnExtensionEndsThePlanning(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, e := range []*extension{
		{err: broken},
		{extra: actions.Extra{Key: "k", Offer: func(*actions.Registry) (*actions.Registry, error) { return nil, broken }}},
	} {
		p := extended(t, "sequence", &teller{}, e, nil)
		if _, err := p.Plan(t.Context(), turn("hi")); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
		if _, err := p.Messages(t.Context(), turn("hi")); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}

func TestWhatIsPinnedIsToldWholeWhateverTheBudget(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("Look at the moon. ", 100)
	e := &extension{extra: actions.Extra{Pinned: []string{long}}}
	files := map[string]string{"sequence/prompt.txt": "Plan. {{actions}}", "sequence/config.json": `{"completion":{"max_input_tokens":700}}`}
	p := extended(t, "sequence", models.Offline{}, e, folder(t, files))
	in := longTurn(t)
	messages := messagesOf(t, p, in)
	if at := slices.IndexFunc(messages, func(m models.Message) bool { return m.Text == long }); at != len(messages)-2 || at < 2 {
		t.Errorf("it is message %d of %d, want the one between the history and what the person says", at, len(messages))
	}
	e.extra.Pinned = nil
	if without := messagesOf(t, p, in); len(without) < len(messages)-1 {
		t.Errorf("%d messages without, %d with: the history has to make room", len(without), len(messages))
	}
	files["sequence/config.json"] = `{"completion":{"max_input_tokens":300}}`
	e.extra.Pinned = []string{long}
	if _, err := extended(t, "sequence", models.Offline{}, e, folder(t, files)).Messages(t.Context(), in); err == nil {
		t.Error("what does not fit is told in part")
	}
}

// TestExtensionsFollowEachOther: each chooses among what the one before it offers, and only what one of
// them adds of a source can be planned.
func TestExtensionsFollowEachOther(t *testing.T) {
	t.Parallel()
	elsewhere := actions.New()
	actions.Add(elsewhere, "fly", "Does fly", func(context.Context, *actions.Turn, look) (actions.Result, error) { return actions.Done, nil })
	actions.Add(elsewhere, "swim", "Does swim", func(context.Context, *actions.Turn, look) (actions.Result, error) { return actions.Done, nil })
	reg := lookers()
	reg.AddSource(func() *actions.Registry { return elsewhere })
	if _, ok := reg.Lookup("fly"); !ok {
		t.Error("the bot does not find an action of its source")
	}
	fly, _ := elsewhere.Lookup("fly")
	adds := &extension{extra: actions.Extra{Key: "k", Text: "You can fly.", Offer: func(all *actions.Registry) (*actions.Registry, error) { return all.With(fly) }}}
	silent := &extension{extra: actions.Extra{Pinned: []string{"Be kind."}}}
	last := &extension{extra: actions.Extra{Key: "l", Text: "Look twice.", Offer: func(all *actions.Registry) (*actions.Registry, error) {
		return all.Only(actions.Offer{Name: "look"}, actions.Offer{Name: "fly"})
	}}}
	for action, good := range map[string]bool{"fly": true, "look": true, "swim": false, "jump": false} {
		model := &teller{answers: []models.Response{prose(`{"type":"plan","commands":[{"type":"DO","action":"` + action + `","entities":{}}]}`)}}
		p, err := planner.NewSequence(t.Context(), planner.Config{Model: model, Actions: reg, Extensions: []actions.Extension{adds, silent, last}, MaxRepairs: -1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Plan(t.Context(), turn("go")); (err == nil) != good {
			t.Errorf("%s: %v", action, err)
		}
		told := unclocked(model.asked[0].Messages[0].Text)
		if !strings.HasSuffix(told, "You can fly.\n\nLook twice.") || !strings.Contains(told, "Does fly") || strings.Contains(told, "swim") || strings.Contains(told, "jump") {
			t.Errorf("the model was told %s", told)
		}
		if got := model.asked[0].Messages[1].Text; got != "Be kind." {
			t.Errorf("after it came %q", got)
		}
	}
}
