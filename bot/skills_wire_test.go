package bot_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/fakeconnector"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/state"
)

// theRule stands in the skill's instructions and nowhere else.
const theRule = "Find the factor in the table, then multiply with convert."

// skilled is a bot with a skill, a real provider and that planner.
func skilled(t *testing.T, name string, files fstest.MapFS, more skills.ProviderConfig) *bundle {
	t.Helper()
	b := &bundle{T: t, planner: name, connector: fakeconnector.New(t), model: fakemodel.New(t), redis: miniredis.RunT(t), actions: actions.New(), log: &logBuffer{}}
	type product struct {
		Value, Factor float64
	}
	s, err := skills.Inline("unit-converter", "Converts units", theRule).
		Resource("table.md", "Factors", "kg to lb: 2.20462").
		Script(skills.Func("convert", "Multiplies", func(_ context.Context, _ *actions.Turn, in product) (actions.Result, error) {
			return actions.Observe(fmt.Sprintf("It is %g.", in.Value*in.Factor)), nil
		})).Skill()
	b.must(err)
	more.Source = skills.Memory(s)
	provider, err := skills.NewProvider(more)
	b.must(err)
	b.must(provider.Register(b.actions))
	library, err := prompts.Load("")
	if files != nil {
		library, err = prompts.LoadFS(files, ".")
	}
	b.must(err)
	store, err := state.Open(t.Context(), "redis://"+b.redis.Addr(), state.Config{})
	b.must(err)
	t.Cleanup(func() { _ = store.Close() })
	b.bot = b.wire(store, func(c *bot.Config) {
		model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: b.model.URL, Model: "fake", Timeout: 5 * time.Second})
		b.must(err)
		c.Planner = b.newPlanner(planner.SequenceConfig{Model: model, Prompts: library, Actions: b.actions, Extension: provider})
		c.Skills = provider
	})
	server := httptest.NewServer(b.bot)
	t.Cleanup(server.Close)
	b.url = server.URL
	return b
}

// calls scripts one call of a tool, in the form of the planner.
func (b *bundle) calls(tool string, entities ...string) {
	b.Helper()
	var inJSON, inXML []string
	for i := 0; i < len(entities); i += 2 {
		inJSON = append(inJSON, fmt.Sprintf("%q:%s", entities[i], entities[i+1]))
		inXML = append(inXML, entities[i]+`="`+strings.NewReplacer(`"`, "&quot;", "&", "&amp;", "<", "&lt;").Replace(strings.Trim(entities[i+1], `"`))+`"`)
	}
	switch object := "{" + strings.Join(inJSON, ",") + "}"; b.planner {
	case "sequential":
		b.model.Says("<plan><function." + tool + " " + strings.Join(inXML, " ") + "/></plan>")
	case "tools":
		b.model.CallsTools("", fakemodel.ToolCall{ID: fmt.Sprint("call", len(b.model.Calls())), Name: tool, Arguments: object})
	default:
		b.model.Says(plan(do(tool, object)))
	}
}

// answers scripts an answer in words.
func (b *bundle) answers(text string) {
	if b.planner == "sequence" {
		text = plan(say(text))
	}
	b.model.Says(text)
}

func TestSkillsWithEachPlanner(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sequence", "sequential", "tools"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := skilled(t, name, nil, skills.ProviderConfig{Approve: []string{}})
			b.calls("load_skill", "skillName", `"unit-converter"`)
			b.calls("read_skill_resource", "skillName", `"unit-converter"`, "resourceName", `"table.md"`)
			b.calls("run_skill_script", "skillName", `"unit-converter"`, "scriptName", `"convert"`, "arguments", `{"Value":1,"Factor":2.20462}`)
			b.answers("2.20462 lb.")
			b.say("一公斤有几磅?")
			b.expect("2.20462 lb.")
			b.answers("You are welcome.")
			b.say("thanks")
			b.expect("You are welcome.")
			b.calls("load_skill", "skillName", `"unit-converter"`)
			b.answers("I know.")
			b.say("do you know units?")
			b.expect("I know.")
			calls := b.model.Calls()
			if len(calls) != 7 {
				t.Fatalf("%d calls of the model", len(calls))
			}
			for i, call := range calls {
				text := call.Text()
				if got, want := strings.Count(text, theRule), min(i, 1); got != want {
					t.Errorf("request %d tells the instructions %d times, want %d:\n%s", i+1, got, want, text)
				}
				if strings.Count(text, "\nunit-converter: Converts units\n") != 1 {
					t.Errorf("request %d does not list the skill once:\n%s", i+1, text)
				}
				if i > 0 && call.Messages[0].Content != calls[0].Messages[0].Content {
					t.Errorf("request %d begins with another prompt", i+1)
				}
			}
			for i, want := range map[int]string{2: "kg to lb: 2.20462", 3: "It is 2.20462.", 6: "loaded already"} {
				if !strings.Contains(calls[i].Text(), want) {
					t.Errorf("request %d does not tell %q:\n%s", i+1, want, calls[i].Text())
				}
			}
			if strings.Contains(b.kept(), theRule) {
				t.Error("the instructions are kept in state")
			}
			b.say("/reset")
			b.expect("I forgot our conversation. What you keep with me is still there.")
			b.answers("Hello.")
			b.say("hi")
			b.expect("Hello.")
			if strings.Contains(b.model.Calls()[7].Text(), theRule) {
				t.Error("the instructions are told after /reset")
			}
			b.answers("One.")
			b.say("/skill unit-converter what is one?")
			b.expect("One.")
			if last := b.model.Calls()[8]; strings.Count(last.Text(), theRule) != 1 || last.Last("user") != "what is one?" {
				t.Errorf("after /skill:\n%s", last.Text())
			}
		})
	}
}

func TestWhatIsLoadedStaysWhenHistoryGoes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sequence", "sequential", "tools"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := skilled(t, name, fstest.MapFS{
				name + "/prompt.txt":  {Data: []byte("You plan.")},
				name + "/config.json": {Data: []byte(`{"completion":{"max_input_tokens":900}}`)},
			}, skills.ProviderConfig{})
			b.calls("load_skill", "skillName", `"unit-converter"`)
			b.answers("Loaded.")
			b.say("load it")
			b.expect("Loaded.")
			long := strings.Repeat("many words ", 150)
			for range 4 {
				b.answers(strings.TrimSpace(long))
				b.say("tell me more, " + long)
				b.connector.Next(t)
			}
			calls := b.model.Calls()
			last := calls[len(calls)-1].Text()
			if strings.Count(last, theRule) != 1 {
				t.Errorf("the instructions are not told once:\n%s", last)
			}
			if n := strings.Count(last, long); n >= 3 {
				t.Errorf("nothing of the history gave way: %d of 4 are told", n)
			}
		})
	}
}

func TestASkillNarrowsWhatABotDoes(t *testing.T) {
	t.Parallel()
	b := &bundle{T: t}
	s, err := skills.Inline("reader", "Reads", "Read only.").Resource("a.md", "", "x").Skill()
	b.must(err)
	s.AllowedTools = []string{"Read"}
	provider, err := skills.NewProvider(skills.ProviderConfig{Source: skills.Memory(s)})
	b.must(err)
	b = setup(t, func(c *bot.Config) {
		b.must(provider.Register(c.Actions))
		c.Skills = provider
	})
	b.say("/skill reader")
	b.expect("Loaded the skill reader.")
	b.model.Says(plan(do("createList", `{"list":"x"}`), say("Created!")), plan(say("I may not.")))
	b.say("create a list x")
	b.expect("I may not.")
	if text := b.model.Calls()[1].Text(); !strings.Contains(text, "createList failed: createList is not among the tools that the skill reader allows while it is loaded (Read).") {
		t.Errorf("the model is told\n%s", text)
	}
	if strings.Contains(b.kept(), `"x"`) {
		t.Error("the list was made")
	}
	b.say("/skill off")
	b.expect("No longer loaded: reader.")
	b.model.Says(plan(do("createList", `{"list":"x"}`), say("Created!")))
	b.say("create a list x")
	b.expect("Created!")
}
