package planner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// recorder is a model that answers with the same text and remembers what it was
// asked.
type recorder struct {
	answer string
	asked  []*models.Request
}

func (r *recorder) Complete(_ context.Context, req *models.Request) (*models.Response, error) {
	r.asked = append(r.asked, req)
	return &models.Response{Text: r.answer, Finish: "stop", Usage: models.Usage{Prompt: 7, Completion: 3, Cost: 0.5}}, nil
}

// folder writes the files of prompts and loads them.
func folder(t *testing.T, files map[string]string) *prompts.Library {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	library, err := prompts.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return library
}

// briefed makes a sequence planner with the prompt "own".
func briefed(t *testing.T, model models.Model, files map[string]string, more ...func(*planner.Config)) (*planner.Planner, error) {
	t.Helper()
	own := map[string]string{}
	for name, content := range files {
		own["own/"+name] = content
	}
	cfg := planner.Config{Model: model, Prompts: folder(t, own), Actions: vectorActions(t), Prompt: "own"}
	for _, change := range more {
		change(&cfg)
	}
	return planner.NewSequence(t.Context(), cfg)
}

func TestThePromptsSettingsAreAskedFor(t *testing.T) {
	t.Parallel()
	named := &recorder{answer: "Hi."}
	s, err := briefed(t, nil, map[string]string{
		"prompt.txt": "Hello.",
		"config.json": `{"completion": {"max_tokens": 11, "temperature": 0.5, "top_p": 0, "presence_penalty": 1, "frequency_penalty": -1,
			"stop_sequences": ["END"], "include_history": false, "model": "tiny"}, "augmentation": {"augmentation_type": "sequence"}}`,
	}, func(cfg *planner.Config) {
		cfg.Model = &recorder{}
		cfg.MaxTokens = 99
		cfg.Named = func(name string) (models.Model, error) {
			if name != "tiny" {
				t.Errorf("named %s", name)
			}
			return named, nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	in := turn("hello")
	said := []prompts.Message{{Role: "user", Text: "before"}, {Role: "assistant", Text: "yes"}}
	state.Of[prompts.History](in.Thread).Append(prompts.Turn{Messages: said}, 0)
	if _, err := s.Plan(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if len(named.asked) != 1 {
		t.Fatalf("the named model was asked %d times", len(named.asked))
	}
	got := named.asked[0]
	if n := len(got.Messages); n != 2 || unclocked(got.Messages[0].Text) != "Hello." || got.Messages[1].Text != "hello" {
		t.Errorf("messages: %+v", got.Messages)
	}
	if len(got.Actions) == 0 {
		t.Error("the request does not say what a plan may do")
	}
	half, zero, one, less := 0.5, 0.0, 1.0, -1.0
	want := &models.Request{
		Messages: got.Messages, MaxTokens: 11, Temperature: &half, TopP: &zero, PresencePenalty: &one, FrequencyPenalty: &less, Stop: []string{"END"},
		Format: got.Format, Actions: got.Actions, Exchanges: got.Exchanges,
	}
	if len(got.Exchanges) == 0 {
		t.Error("a server that refuses the schema would see no form of an answer")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestThePromptSaysHowToCall(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]models.Request{
		`{}`: {Choice: "required", OneCallAtMost: true},
		`{"completion": {"tool_choice": "auto", "parallel_tool_calls": true}, "augmentation": {"augmentation_type": "tools"}}`: {},
		`{"completion": {"tool_choice": "none", "parallel_tool_calls": false}}`:                                                {Choice: "none", OneCallAtMost: true},
	} {
		model := &recorder{answer: "Hi."}
		library := folder(t, map[string]string{"tools/prompt.txt": "Call.", "tools/config.json": config})
		tools, err := planner.NewTools(t.Context(), planner.Config{
			Model: model, Prompts: library, Actions: vectorActions(t), Choice: "required", OneCallAtMost: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tools.Plan(t.Context(), turn("hello")); err != nil {
			t.Fatal(err)
		}
		if got := model.asked[0]; got.Choice != want.Choice || got.OneCallAtMost != want.OneCallAtMost {
			t.Errorf("%s: choice %q, one call at most %v", config, got.Choice, got.OneCallAtMost)
		}
	}
}

func TestThePromptIsRenderedForTheTurn(t *testing.T) {
	t.Parallel()
	model := &recorder{answer: "Hi."}
	s, err := briefed(t, model, map[string]string{
		"prompt.txt":  "{{$user.name}} in {{$conversation.topic}}: {{$input}} ({{$temp.mood}}{{$temp.gone}}) {{shout $input 'a b'}}",
		"config.json": `{"completion": {"include_input": false}}`,
	}, func(cfg *planner.Config) {
		cfg.Functions = map[string]func(ctx context.Context, turn *actions.Turn, args []string) (any, error){"shout": func(_ context.Context, turn *actions.Turn, args []string) (any, error) {
			return strings.Join(args, "+") + "!" + turn.ID, nil
		}}
	})
	if err != nil {
		t.Fatal(err)
	}
	in := turn("{{actions}} $5")
	in.ID = "t1"
	in.User, in.Conversation, in.Temp = state.NewScope(), state.NewScope(), state.NewScope()
	*state.At[string](in.User, "name") = "Mia"
	*state.At[[]string](in.Conversation, "topic") = []string{"a"}
	*state.At[string](in.Temp, "mood") = "glad"
	if _, err := s.Plan(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	messages := model.asked[0].Messages
	if want := `Mia in - a: {{actions}} $5 (glad) {{actions}} $5+a b!t1`; unclocked(messages[0].Text) != want {
		t.Errorf("got %s\nwant %s", messages[0].Text, want)
	}
	if last := messages[len(messages)-1]; last.Role == "user" {
		t.Errorf("the input is included: %+v", last)
	}
}

func TestAFaultOfTheRenderingEndsTheTurn(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	model := &recorder{}
	s, err := briefed(t, model, map[string]string{"prompt.txt": "{{fn}}{{$user.odd}}"}, func(cfg *planner.Config) {
		cfg.Functions = map[string]func(ctx context.Context, turn *actions.Turn, args []string) (any, error){"fn": func(_ context.Context, turn *actions.Turn, _ []string) (any, error) {
			if turn.Text == "fn" {
				return nil, broken
			}
			return nil, nil
		}}
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Plan(t.Context(), turn("fn")); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	in := turn("odd")
	in.User = state.NewScope()
	*state.At[any](in.User, "odd") = func() {}
	if _, err := s.Plan(t.Context(), in); err == nil || !strings.Contains(err.Error(), "$user.odd") {
		t.Errorf("got %v", err)
	}
	if len(model.asked) > 0 {
		t.Error("the model was asked all the same")
	}
}

func TestAPromptOffersSomeOfTheActions(t *testing.T) {
	t.Parallel()
	model := &recorder{answer: `{"type":"plan","commands":[{"type":"DO","action":"deleteList","entities":{"list":"a"}}]}`}
	s, err := briefed(t, model, map[string]string{
		"prompt.txt": "{{actions}}",
		"actions.json": `[{"name": "addItem", "description": "Puts it there", "parameters": {"type": "object",
			"properties": {"item": {"type": "string"}, "list": {}, "notes": {}, "quantity": {"type": "number"}}, "required": ["list", "item"]}}, {"name": "CREATElist", "parameters": {"type": "object", "properties": {"list": {}}, "required": ["list"]}}]`,
	}, func(cfg *planner.Config) { cfg.MaxRepairs = -1 })
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Plan(t.Context(), turn("delete a"))
	if fault, ok := errors.AsType[*plan.Fault](err); !ok || fault.Kind != plan.UnknownAction {
		t.Errorf("got %v", err)
	}
	system := unclocked(model.asked[0].Messages[0].Text)
	lines := strings.Split(system, "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "addItem(") || !strings.HasSuffix(lines[0], " - Puts it there") || !strings.HasPrefix(lines[1], "createList(") {
		t.Errorf("offered:\n%s", system)
	}
}

func TestAPromptThatContradictsItsPlannerIsRefused(t *testing.T) {
	t.Parallel()
	_, err := briefed(t, &recorder{}, map[string]string{
		"prompt.txt": "{{gone}} {{$dialog.x}} {{fn}}",
		"config.json": `{"completion": {"model": "tiny", "tool_choice": "auto", "include_input": false},
			"augmentation": {"augmentation_type": "tools"}, "input": {"parameters": []}}`,
		"actions.json": `[{"name": "fly"}, {"name": "addItem", "parameters": {"type": "object",
			"properties": {"list": {"type": "integer"}, "thing": {"type": "string"}}, "required": ["list"]}},
			{"name": "createList", "parameters": {"type": 7}}]`,
	}, func(cfg *planner.Config) {
		cfg.Functions = map[string]func(ctx context.Context, turn *actions.Turn, args []string) (any, error){"fn": func(context.Context, *actions.Turn, []string) (any, error) { return nil, nil }}
	})
	want := `sequence planner: prompt own: actions.json: there is no action "fly"; use only the actions that are listed
actions.json: action addItem: parameters: names list, thing, the action has item, list; required list, the action has item, list; list is integer, the action has string
actions.json: action createList: parameters are no JSON Schema: 
config.json: augmentation_type tools contradicts the planner, which is sequence
config.json: input.parameters are for a prompt that is an action, this one is a planner's
config.json: tool_choice and parallel_tool_calls have no effect with the planner sequence
config.json: include_input is false, and the text does not show {{$input}}: the model would never see what the person said
no function "gone", have actions, manual, examples, skills, instructions, today, fn
$dialog.x: no scope "dialog", have conversation, user, temp
config.json: completion.model tiny: only one model is configured, leave it out`
	if err == nil {
		t.Fatal("no error")
	}
	got, wanted := strings.Split(err.Error(), "\n"), strings.Split(want, "\n")
	for i := range min(len(got), len(wanted)) {
		if !strings.HasPrefix(got[i], wanted[i]) {
			t.Errorf("fault %d is %s\nwant %s", i, got[i], wanted[i])
		}
	}
	if len(got) != len(wanted) {
		t.Errorf("%d faults, want %d:\n%v", len(got), len(wanted), err)
	}
}

func TestNoSuchPrompt(t *testing.T) {
	t.Parallel()
	_, err := briefed(t, &recorder{}, map[string]string{"prompt.txt": "x"}, func(cfg *planner.Config) { cfg.Prompt = "gone" })
	if err == nil || !strings.Contains(err.Error(), "no such prompt") {
		t.Errorf("got %v", err)
	}
}

func vectorActions(t testing.TB) *actions.Registry {
	t.Helper()
	file, err := os.Open("plan/testdata/actions.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reg, err := actions.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

// TestTheOfflineModelHearsThePerson, also where the prompt has their words in its text.
func TestTheOfflineModelHearsThePerson(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	lists.Register(registry)
	for _, kind := range []string{"sequence", "tools"} {
		library := folder(t, map[string]string{kind + "/skprompt.txt": "User: {{ $input }}", kind + "/config.json": `{"completion":{"include_input":false}}`})
		make := planner.NewSequence
		if kind == "tools" {
			make = planner.NewTools
		}
		p, err := make(t.Context(), planner.Config{Model: models.Offline{}, Prompts: library, Actions: registry})
		if err != nil {
			t.Fatal(err)
		}
		made, err := p.Plan(t.Context(), turn("add milk to groceries"))
		if err != nil || made.Commands[0].Action != "addItem" || made.Commands[0].Entities["item"] != "milk" {
			t.Errorf("%s: %v, %v", kind, made, err)
		}
	}
}

// TestTheExampleIsHarmless to a model that copies it, whole or in part: what it says needs no variable and claims
// nothing, and the only fault of its DO is that there is no such action.
func TestTheExampleIsHarmless(t *testing.T) {
	t.Parallel()
	messages, err := sequence(t).Messages(t.Context(), turn("hello"))
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for line := range strings.Lines(messages[0].Text) {
		if !strings.HasPrefix(line, `{"type":"plan"`) {
			continue
		}
		examples++
		p, err := plan.Decode(line)
		if err != nil || len(p.Repairs) > 0 {
			t.Fatalf("%s: %v, repairs %v", line, err, p.Repairs)
		}
		if strings.Contains(line, "$") {
			t.Errorf("%s: a model that copies a part of it shows a variable to people", line)
		}
		_, err = p.Validate(vectorActions(t))
		if fault, ok := errors.AsType[*plan.Fault](err); !ok || fault.Kind != plan.UnknownAction {
			t.Errorf("%s: %v", line, err)
		}
		listed := actions.New()
		for _, c := range p.Commands {
			if c.Kind == plan.Do {
				run := func(context.Context, *actions.Turn, map[string]any) (actions.Result, error) { return actions.Done, nil }
				if _, err := actions.AddSchema(listed, c.Action, "", &jsonschema.Schema{Type: "object"}, run); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := p.Validate(listed); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if examples != 1 {
		t.Errorf("%d examples", examples)
	}
}

// TestExchangesShowTheForm where nothing else holds a model to it.
func TestExchangesShowTheForm(t *testing.T) {
	t.Parallel()
	asked := func(name string, cfg planner.Config, in *actions.Turn) (roles string) {
		model := &recorder{answer: "Hi."}
		cfg.Model, cfg.Actions = model, vectorActions(t)
		_, _ = planned(t, name, cfg, in)
		for _, m := range model.asked[0].Messages {
			roles += m.Role[:1]
			if m.Role != "assistant" {
				continue
			}
			p, err := plan.Decode(m.Text)
			if err != nil || p.Calls() > 0 || len(p.Repairs) > 0 || p.Prose {
				t.Errorf("%s: %v, %+v", m.Text, err, p)
			}
		}
		return roles
	}
	seen, _ := watched("hm")
	later := turn("hm")
	history(later, `{"type":"plan","commands":[{"type":"SAY","response":"Hm?"}]}`)
	for name, tt := range map[string]struct {
		planner, format string
		in              *actions.Turn
		want            string
	}{
		"text":                 {"sequence", "text", turn("hm"), "suauau"},
		"JSON without schema":  {"sequence", "json_object", turn("hm"), "suauau"},
		"seen early":           {"sequence", "text", seen, "suauau"},
		"an earlier turn":      {"sequence", "text", later, "suau"},
		"a schema":             {"sequence", "json_schema", turn("hm"), "su"},
		"a plan in XML":        {"sequential", "text", turn("hm"), "su"},
		"functions of a model": {"tools", "text", turn("hm"), "su"},
	} {
		if got := asked(tt.planner, planner.Config{ResponseFormat: tt.format}, tt.in); got != tt.want {
			t.Errorf("%s: roles %s, want %s", name, got, tt.want)
		}
	}
}
