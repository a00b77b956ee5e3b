package scenario_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/record"

	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bottest/scenario"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is the bot of the files in testdata.
func scripted(t *testing.T) scenario.Config {
	t.Helper()
	file, err := os.Open("testdata/actions.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	registry, err := actions.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	return scenario.Config{Actions: registry, Scripted: true}
}

// files are those of testdata.
func files(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"testdata/*.yaml", "testdata/providers.json"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no files %s, %v", pattern, err)
		}
		all = append(all, found...)
	}
	return all
}

func readAll(t *testing.T) []record.Scenario {
	t.Helper()
	var all []record.Scenario
	for _, name := range files(t) {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		list, err := record.Read(name, data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	return all
}

func TestScenarios(t *testing.T) {
	t.Parallel()
	cfg := scripted(t)
	for _, s := range readAll(t) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if r := scenario.Run(&s, cfg); !r.Passed {
				t.Errorf("%s\n%s", strings.Join(r.Failures, "\n"), r.Story)
			}
		})
	}
}

// TestEveryExpectationBites makes each kind of expectation wrong, in the first scenario
// that has it, and looks whether that is seen.
func TestEveryExpectationBites(t *testing.T) {
	t.Parallel()
	cfg := scripted(t)
	for field, spoil := range spoilers {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			for _, s := range readAll(t) {
				if !spoilFirst(&s, spoil) {
					continue
				}
				r := scenario.Run(&s, cfg)
				if r.Passed || !strings.Contains(strings.Join(r.Failures, "\n"), "expect."+field) {
					t.Errorf("a wrong %s in %s was not seen: %q", field, s.Name, r.Failures)
				}
				return
			}
			t.Error("no scenario has it")
		})
	}
}

// TestNothingBites: that nothing is expected of any delivery of one activity is looked at.
func TestNothingBites(t *testing.T) {
	t.Parallel()
	const text = `
scenarios:
  - name: twice
    bot: list
    steps:
      - parallel:
          - event: {type: message, conversation: c1, from: ann, id: m1, text: add a}
            model: ['{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"l","item":"a"}},{"type":"SAY","response":"Added a."}]}']
            expect: {actions: [], replies: []}
          - event: {type: message, conversation: c1, from: ann, id: m1, text: add a, at_ms: 15000}
            expect: {actions: [], replies: []}
`
	all, err := record.Read("twice.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(scenario.Run(&all[0], scripted(t)).Failures, "\n")
	if !strings.Contains(got, "expect.actions: got [\"addItem") || !strings.Contains(got, `expect.replies: got ["Added a."]`) {
		t.Errorf("what nothing expected was not seen: %q", got)
	}
}

// TestEveryPlaceholderBites has another one in the place of each.
func TestEveryPlaceholderBites(t *testing.T) {
	t.Parallel()
	cfg := scripted(t)
	seen := map[string]bool{}
	for _, s := range readAll(t) {
		name := ""
		spoiled := spoilFirst(&s, func(e *record.Expect) bool {
			if len(e.Replies) != 1 || !strings.HasPrefix(e.Replies[0], "<") || seen[strings.Fields(e.Replies[0])[0]] {
				return false
			}
			name = strings.Fields(e.Replies[0])[0]
			e.Replies = []string{map[bool]string{true: "<welcome>", false: "<denied>"}[name == "<denied>"]}
			return true
		})
		if !spoiled {
			continue
		}
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r := scenario.Run(&s, cfg); r.Passed {
				t.Errorf("in %s %s may be another one", s.Name, name)
			}
		})
	}
	if len(seen) < 12 {
		t.Errorf("only %d placeholders were tried: %v", len(seen), seen)
	}
}

// spoilFirst spoils the first expectation that can be spoiled so.
func spoilFirst(s *record.Scenario, spoil func(*record.Expect) bool) bool {
	for i := range s.Steps {
		step := &s.Steps[i]
		if spoil(&step.Expect) {
			return true
		}
		for j := range step.Parallel {
			if spoil(&step.Parallel[j].Expect) {
				return true
			}
		}
	}
	return false
}

// another is a number that is not n.
func another(n **int) bool {
	if *n == nil {
		return false
	}
	wrong := **n + 1
	*n = &wrong
	return true
}

func other(text **string) bool {
	if *text == nil {
		return false
	}
	wrong := **text + "?"
	*text = &wrong
	return true
}

func flip(b **bool) bool {
	if *b == nil {
		return false
	}
	wrong := !**b
	*b = &wrong
	return true
}

func more(texts *[]string) bool {
	if *texts == nil {
		return false
	}
	*texts = append(*texts, "what nobody says")
	return true
}

var spoilers = map[string]func(e *record.Expect) bool{
	"actions": func(e *record.Expect) bool {
		if len(e.Actions) == 0 {
			return false
		}
		e.Actions[0].Entities = map[string]any{"list": "another"}
		return true
	},
	"replies":             func(e *record.Expect) bool { return more(&e.Replies) },
	"joined_reply_equals": func(e *record.Expect) bool { return other(&e.JoinedReplyEquals) },
	"max_part_utf16_bytes": func(e *record.Expect) bool {
		two := 2
		ok := e.MaxPartUTF16Bytes != nil
		e.MaxPartUTF16Bytes = &two
		return ok
	},
	"reply_must_not_contain": func(e *record.Expect) bool {
		ok := len(e.Replies) > 0 && !strings.HasPrefix(e.Replies[0], "<") && e.ReplyMustNotContain != nil
		if ok {
			e.ReplyMustNotContain = append(e.ReplyMustNotContain, e.Replies[0])
		}
		return ok
	},
	"typing":                func(e *record.Expect) bool { return flip(&e.Typing) },
	"model_calls":           func(e *record.Expect) bool { return another(&e.ModelCalls) },
	"prompt_contains":       func(e *record.Expect) bool { return more(&e.PromptContains) },
	"prompt_contains_call2": func(e *record.Expect) bool { return more(&e.PromptContainsCall2) },
	"prompt_must_not_contain": func(e *record.Expect) bool {
		ok := e.PromptMustNot != nil
		e.PromptMustNot = append(e.PromptMustNot, "user: ")
		return ok
	},
	"model_input": func(e *record.Expect) bool { return other(&e.ModelInput) },
	"served_by":   func(e *record.Expect) bool { return other(&e.ServedBy) },
	"state": func(e *record.Expect) bool {
		ok := e.State != nil
		if ok {
			e.State.Lists["another"] = nil
		}
		return ok
	},
	"state_unchanged": func(e *record.Expect) bool { return flip(&e.StateUnchanged) },
	"state_by_conversation.c2": func(e *record.Expect) bool {
		_, ok := e.StateByConversation["c2"]
		if ok {
			e.StateByConversation["c2"].Lists["another"] = nil
		}
		return ok
	},
	"tickets": func(e *record.Expect) bool { return another(&e.Tickets) },
	"status":  func(e *record.Expect) bool { return another(&e.Status) },
	"http_status_within_ms": func(e *record.Expect) bool {
		soon := 7000 // Redis is away for longer
		_, ok := e.StatusWithinMS[""]
		if ok {
			e.StatusWithinMS[""] = soon
		}
		return ok
	},
	"connector": func(e *record.Expect) bool {
		ok := e.Connector != nil
		if ok {
			e.Connector = append(e.Connector, e.Connector[0])
		}
		return ok
	},
	"sends": func(e *record.Expect) bool { return another(&e.Sends) },
	"order": func(e *record.Expect) bool {
		ids := e.Order
		if len(ids) < 2 {
			return false
		}
		e.Order = []string{ids[1], ids[0]}
		return true
	},
	"max_concurrent_turns": func(e *record.Expect) bool {
		if e.MaxConcurrentTurns == nil || *e.MaxConcurrentTurns < 2 {
			return false
		}
		*e.MaxConcurrentTurns--
		return true
	},
	"crash_after_action": func(e *record.Expect) bool {
		never := 99
		ok := e.CrashAfterAction != nil
		e.CrashAfterAction = &never
		return ok
	},
}

// TestOfTheProgramsOwnActions plays a scenario whose actions are real.
func TestOfTheProgramsOwnActions(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	lists.Register(registry)
	const file = `
name: real
steps:
  - event: {type: message, conversation: c1, from: ann, text: add tea}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"shop","item":"tea"},"saveAs":"R"},{"type":"SAY","response":"$R"}]}']
    expect:
      actions: [{action: addItem, entities: {list: shop, item: tea}, result: Added tea to the list shop.}]
      replies: [Added tea to the list shop.]
      state: {lists: {shop: [tea]}}
  - event: {type: message, conversation: c1, from: ann, text: and now}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"createList","entities":{"list":"\u200b"}}]}', It failed.]
    expect:
      actions: [{action: createList, entities: {list: "\u200b"}, error: has no name}]
      replies: [It failed.]
      state_unchanged: true
`
	all, err := record.Read("real.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	if r := scenario.Run(&all[0], scenario.Config{Actions: registry}); !r.Passed {
		t.Errorf("%s\n%s", strings.Join(r.Failures, "\n"), r.Story)
	}
	wrong := all[0].Steps[0].Expect.Actions
	wrong[0].Result = "Nothing."
	if r := scenario.Run(&all[0], scenario.Config{Actions: registry}); r.Passed {
		t.Error("another result was not seen")
	}
}
