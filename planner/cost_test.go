package planner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/tiktoken-go/tokenizer/codec"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

// offer registers an action with the entities In.
func offer[In any](reg *actions.Registry, name string) *actions.Action {
	return actions.Add(reg, name, "Does "+name, func(context.Context, *actions.Turn, In) (actions.Result, error) {
		return actions.Done, nil
	})
}

// fourActions are those of a bot for lists, each entity with a description.
func fourActions() *actions.Registry {
	reg := actions.New()
	offer[struct {
		List string `json:"list" jsonschema:"The name of the list to create"`
	}](reg, "createList").Description = "Creates a list"
	offer[struct {
		List string `json:"list" jsonschema:"The name of the list to add an item to"`
		Item string `json:"item" jsonschema:"The item to add"`
	}](reg, "addItem").Description = "Adds an item to a list"
	offer[struct {
		List string `json:"list" jsonschema:"The name of the list to remove an item from"`
		Item string `json:"item" jsonschema:"The item to remove"`
	}](reg, "removeItem").Description = "Removes an item from a list"
	offer[struct{}](reg, "summarizeLists").Description = "Summarizes all lists"
	return reg
}

func thirtyActions() *actions.Registry {
	reg := actions.New()
	for i := range 30 {
		offer[struct {
			ID       string `json:"id" jsonschema:"The id of the record"`
			Status   string `json:"status,omitempty" jsonschema:"The new status" enum:"open,closed"`
			Priority int    `json:"priority" jsonschema:"From 1 to 5" default:"3"`
		}](reg, fmt.Sprintf("updateRecord%d", i+1)).Description = fmt.Sprintf("Updates a record of kind %d", i+1)
	}
	return reg
}

// cost is what one turn, a first message, costs in tokens of the prompt.
type cost struct {
	planbot      int // everything: the prompt, the date, the text
	other        int // everything of the other planner
	otherPlanner int // what the planner itself adds of that
}

func promptCost(t testing.TB, reg *actions.Registry) (c cost) {
	t.Helper()
	in := turn("add milk to the groceries list")
	s, err := planner.NewSequence(t.Context(), planner.Config{Model: &script{}, Prompts: library(t), Actions: reg})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := s.Messages(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		c.planbot += count(m.Text)
	}
	c.otherPlanner = count(teamsAISection(reg))
	c.other = count(authorsPrompt) + c.otherPlanner + count(in.Text)
	return c
}

// count is how many tokens a text has.
func count(text string) int { return exact.Tokens(text) - exact.Tokens() }

// exact counts as models do.
var exact prompts.Counter = func(text string) int {
	n, err := vocabulary().Count(text)
	if err != nil {
		panic(err)
	}
	return n
}

var vocabulary = sync.OnceValue(codec.NewO200kBase)

// TestThePromptCostsLess than that of the planner whose format it shares.
func TestThePromptCostsLess(t *testing.T) {
	t.Parallel()
	for name, reg := range map[string]*actions.Registry{"four": fourActions(), "thirty": thirtyActions()} {
		if c := promptCost(t, reg); c.planbot >= c.other {
			t.Errorf("%s actions: %+v", name, c)
		}
	}
}

// defaultActions are those of the default bot.
func defaultActions() *actions.Registry {
	reg := actions.New()
	lists.Register(reg)
	reminders.Register(reg)
	return reg
}

// modelCall is what one call of a model takes: the body of the request, and the tokens of what the model
// is told with the schema.
type modelCall struct{ bytes, tokens int }

// callOf measures the first message of a conversation. A server that makes grammars of schemas
// is sent more than OpenAI is.
func callOf(t testing.TB, reg *actions.Registry, format string) (c modelCall) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var asked struct {
			Messages []struct{ Content string }
			Format   struct {
				Schema struct{ Schema json.RawMessage } `json:"json_schema"`
			} `json:"response_format"`
		}
		if err := errors.Join(err, json.Unmarshal(body, &asked)); err != nil {
			t.Error(err)
		}
		c = modelCall{bytes: len(body), tokens: count(string(asked.Format.Schema.Schema))}
		for _, m := range asked.Messages {
			c.tokens += exact.Tokens(m.Content)
		}
		_, _ = w.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"Hi."},"finish_reason":"stop"}]}`))
	}))
	defer server.Close()
	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: server.URL, Model: "gpt-5.1"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := planner.NewSequence(t.Context(), planner.Config{Model: model, Actions: reg, ResponseFormat: format})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Plan(t.Context(), turn("add milk to the groceries list")); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestACallOfTheDefaultBotIsSmall with and without a schema. The one here becomes a grammar, which costs no tokens.
func TestACallOfTheDefaultBotIsSmall(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json_schema", "json_object", "text"} {
		if c := callOf(t, defaultActions(), format); c.bytes > 4150 {
			t.Errorf("%s: %d bytes, want at most 4150", format, c.bytes)
		}
	}
}

// TestAPromptWithFourActionsIsShort, in every form.
func TestAPromptWithFourActionsIsShort(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json_schema", "json_object", "text"} {
		model := &recorder{answer: "Hi."}
		p, err := planner.NewSequence(t.Context(), planner.Config{Model: model, Actions: fourActions(), ResponseFormat: format})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Plan(t.Context(), turn("add milk to the groceries list")); err != nil {
			t.Fatal(err)
		}
		tokens := 0
		for _, m := range model.asked[0].Messages {
			tokens += exact.Tokens(m.Text)
		}
		if tokens > 400 {
			t.Errorf("%s: %d tokens, want at most 400", format, tokens)
		}
		t.Logf("%s: %d tokens", format, tokens)
	}
}

// BenchmarkPrompt measures no time but bytes and tokens (o200k) of a model call.
func BenchmarkPrompt(b *testing.B) {
	for _, of := range []struct {
		name string
		reg  *actions.Registry
	}{{"4", fourActions()}, {"11", defaultActions()}, {"30", thirtyActions()}} {
		for _, format := range []string{"json_schema", "text"} {
			b.Run("actions="+of.name+"/"+format, func(b *testing.B) {
				c := callOf(b, of.reg, format)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(c.bytes), "bytes")
				b.ReportMetric(float64(c.tokens), "tokens")
			})
		}
		b.Run("actions="+of.name+"/Teams AI", func(b *testing.B) {
			c := promptCost(b, of.reg)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(c.other), "tokens")
		})
	}
}

// What follows is a reconstruction of a turn's prompt with Teams AI 1.x, not its
// text: the forms are its, the words ours and of about the same length.

// authorsPrompt is what the author of a bot for lists writes: who it is, the rules,
// and the state that the model needs since results do not reach later commands.
const authorsPrompt = `You talk with people and look after the lists that they keep.

Rules:
- make a list only if a person clearly asks for one.
- put on a list only what a person asks to have on it.
- if a person speaks of several lists, plan an action for each of the lists.
- if things are to be added and removed, plan an action for each of the things.
- if a person wants an overview, show the lists with everything on them.

The lists as they are now:
{"groceries":["eggs","bread"]}`

// teamsAISection is what the sequence augmentation adds: the actions in YAML, with
// the bare properties of their parameters, and a call to action with the form of
// the plan.
func teamsAISection(reg *actions.Registry) string {
	var b strings.Builder
	b.WriteString("actions:\n")
	for _, a := range reg.All() {
		fmt.Fprintf(&b, "  %s:\n    description: %s\n", a.Name, a.Description)
		if len(a.Schema.Properties) > 0 {
			b.WriteString("    parameters:\n")
		}
		for _, name := range slices.Sorted(maps.Keys(a.Schema.Properties)) {
			fmt.Fprintf(&b, "      %s:\n", name)
			writeYAML(&b, a.Schema.Properties[name])
		}
	}
	b.WriteString("\nPlan with the actions above and answer in the following JSON format:\n" +
		`{"type":"plan","commands":[{"type":"DO","action":"<name>","parameters":{"<name>":<value>}},{"type":"SAY","response":"<response>"}]}`)
	return b.String()
}

func writeYAML(b *strings.Builder, s *jsonschema.Schema) {
	fmt.Fprintf(b, "        type: %s\n", s.Type)
	if s.Description != "" {
		fmt.Fprintf(b, "        description: %s\n", s.Description)
	}
	if s.Enum != nil {
		b.WriteString("        enum:\n")
	}
	for _, value := range s.Enum {
		fmt.Fprintf(b, "          - %v\n", value)
	}
	if s.Default != nil {
		fmt.Fprintf(b, "        default: %s\n", s.Default)
	}
}
