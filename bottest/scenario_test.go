package bottest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/planbot-go/planbot/app/record"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/state"
)

// scripted is the bot of the files in testdata.
func scripted(t *testing.T) bottest.Config {
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
	return bottest.Config{Actions: registry, Scripted: true}
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
			if failures, story := bottest.Play(&s, cfg); failures != nil {
				t.Errorf("%s\n%s", strings.Join(failures, "\n"), story)
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
				failures, _ := bottest.Play(&s, cfg)
				if !strings.Contains(strings.Join(failures, "\n"), "expect."+field) {
					t.Errorf("a wrong %s in %s was not seen: %q", field, s.Name, failures)
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
	failures, _ := bottest.Play(&all[0], scripted(t))
	got := strings.Join(failures, "\n")
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
			if failures, _ := bottest.Play(&s, cfg); failures == nil {
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
	if failures, story := bottest.Play(&all[0], bottest.Config{Actions: registry}); failures != nil {
		t.Errorf("%s\n%s", strings.Join(failures, "\n"), story)
	}
	wrong := all[0].Steps[0].Expect.Actions
	wrong[0].Result = "Nothing."
	if failures, _ := bottest.Play(&all[0], bottest.Config{Actions: registry}); failures == nil {
		t.Error("another result was not seen")
	}
}

// desk is a bot of a help desk, with a prompt of its own.
func desk(planner string) app.Bot {
	type title struct {
		Title string `json:"title"`
	}
	type tickets struct {
		Open []string `json:"open,omitempty"`
	}
	type badge struct {
		Level int `json:"level"`
	}
	return app.Bot{
		Name: "Desk", Planner: planner,
		Prompts: fstest.MapFS{
			"prompts/sequence/prompt.txt":   {Data: []byte("You answer for the help desk.\n{{actions}}")},
			"prompts/sequential/prompt.txt": {Data: []byte("{{actions}}")},
		},
		Register: func(r *actions.Registry) {
			actions.Add(r, "openTicket", "Opens a ticket", func(ctx context.Context, turn *actions.Turn, in title) (actions.Result, error) {
				bot, err := turn.Bot(ctx)
				if err != nil {
					return actions.Done, err
				}
				*state.At[state.Counter](bot, "opened")++
				all := state.At[tickets](turn.Conversation, "desk")
				all.Open = append(all.Open, in.Title)
				state.At[badge](turn.User, "badge").Level++
				return actions.Text("%s is open", in.Title), nil
			})
			actions.Add(r, "closeAll", "Closes all tickets", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
				turn.Conversation.Remove("desk")
				return actions.Done, nil
			}, actions.NeedsApproval)
		},
	}
}

func TestRunScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, desk(""), "testdata/own/d*.yaml")
	bottest.RunScenarios(t, desk("sequential"), "testdata/own/xml.yaml", "testdata/own/x*.yaml")
}

func ExampleRunScenarios() {
	t := new(testing.T) // that of the test
	b := app.Bot{Name: "Listbot", Register: lists.Register}
	bottest.RunScenarios(t, b, "testdata/*.yaml", "testdata/*.json")
}

// TestRunScenariosFails has scenarios that fail, in a test of another process.
func TestRunScenariosFails(t *testing.T) {
	if folder := os.Getenv("BOTTEST_WRONG_SCENARIOS"); folder != "" {
		bottest.RunScenarios(t, desk(""), folder+"/*.yaml", folder+"/*.json")
		return
	}
	t.Parallel()
	const hi = `
  - event: {type: message, conversation: c1, from: ann, text: hi}
    model: [Hello.]
    expect: `
	folder := t.TempDir()
	for name, text := range map[string]string{
		"empty.yaml":      "[]",
		"good.yaml":       "name: good\nsteps:" + hi + "{replies: [Hello.]}",
		"reply.yaml":      "name: another reply\nsteps:" + hi + "{replies: [Hi.]}",
		"word.yaml":       "name: word\nsteps:" + hi + "{repli: [Hello.]}",
		"action.yaml":     "name: action\nsteps:" + hi + "{actions: [{action: openTickets}]}",
		"asks.yaml":       "name: asks\noptions: {approval: [openTickets]}\nsteps:" + hi + "{}",
		"state.yaml":      "name: state\nseed: {conversation: {desk: {open: [a]}}, user: {badge: {level: 1}}, bot: {opened: 2}}\nsteps:" + hi + "{state: {conversation: {desk: {open: [b]}}, user: {badge: null, name: Ann}, bot: {opened: 3}}}",
		"same.yaml":       "name: same\nsteps:" + hi + "{state_unchanged: false}",
		"scope.yaml":      "name: scope\nseed: {chat: {}}\nsteps:" + hi + "{state: {desk: {}}}",
		"repair.yaml":     "name: repair\noptions: {max_repairs: 1}\nsteps:" + hi + "{}",
		"a.cassette.yaml": "calls: []",
		"card.yaml": `{name: card, steps: [{event: {type: message, conversation: c1, text: close all},
			model: ['{"type":"plan","commands":[{"type":"DO","action":"closeAll"}]}'], expect: {replies: [<card>]}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRunScenariosFails$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), "BOTTEST_WRONG_SCENARIOS="+folder)
	raw, err := cmd.CombinedOutput()
	out := strings.ReplaceAll(string(raw), folder+string(filepath.Separator), "")
	if err == nil {
		t.Error("it passed")
	}
	for _, want := range []string{
		"empty.yaml: there are no scenarios in it",
		"--- PASS: TestRunScenariosFails/good",
		"--- FAIL: TestRunScenariosFails/another_reply",
		`reply.yaml: scenario "another reply", step 1: expect.replies: got ["Hello."], want ["Hi."]`,
		"what happened:",
		`word.yaml: scenario "word", step 1: expect.repli: there is no such field`,
		`action.yaml: scenario "action", step 1: expect.actions[0].action: there is no action "openTickets"`,
		`asks.yaml: scenario "asks": options.approval[0]: there is no action "openTickets"`,
		`state.yaml: scenario "state", step 1: expect.state.conversation.desk: got {"open":["a"]}, want {"open":["b"]}`,
		`step 1: expect.state.user.badge: got {"level":1}, want null`,
		`step 1: expect.state.user.name: got null, want "Ann"; the state has ["badge"`,
		`step 1: expect.state.bot.opened: got 2, want 3; the state has ["opened"]`,
		`same.yaml: scenario "same", step 1: expect.state_unchanged: got true, want false`,
		`scope.yaml: scenario "scope": seed.chat: there is no such field`,
		`scope.yaml: scenario "scope", step 1: expect.state.desk: there is no such field`,
		`card.yaml: scenario "card", step 1: expect.replies: got ["card {`,
		`repair.yaml: scenario "repair": options.max_repairs: an app.Bot always has the default`,
		`no file of scenarios matches "` + folder + `/*.json"`,
	} {
		if !strings.Contains(out, want) && !strings.Contains(string(raw), want) {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(out, "cassette") {
		t.Error("a cassette was played")
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// ticketCards is a bot that shows its tickets in a card.
func ticketCards(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
	b, err := routedBot(ctx, parts)
	if err != nil {
		return nil, err
	}
	button := func(kind, verb string, data map[string]any) map[string]any {
		return map[string]any{"type": kind, "title": "Do it", "verb": verb, "data": data}
	}
	tickets := activity.Card{
		Fallback: "Tickets",
		Body:     []any{activity.TextBlock{Text: "Ticket 7 is <open>"}, map[string]any{"type": "Input.Text", "id": "note"}},
		Actions: []any{
			button("Action.Execute", "close", map[string]any{"id": 7}), button("Action.Execute", "close", map[string]any{"id": 8}),
			button("Action.Submit", "", map[string]any{"kind": "rate", "stars": 5}), button("Action.Submit", "", map[string]any{"kind": "rate", "stars": 1}),
		},
	}
	b.On(func(t *bot.Turn) bool { return t.Text == "tickets" }, func(ctx context.Context, t *bot.Turn) error {
		reply := t.Activity.Reply("")
		reply.Attachments = []activity.Attachment{tickets.Attachment()}
		return t.Send(ctx, reply)
	})
	reopens := func(id int) *activity.Card {
		return &activity.Card{Fallback: "Closed", Actions: []any{button("Action.Execute", "reopen", map[string]any{"id": id})}}
	}
	b.On(func(t *bot.Turn) bool { return t.IsSubmit() }, func(ctx context.Context, t *bot.Turn) error {
		if strings.Contains(string(t.Activity.Value), `"stars":1`) {
			update := t.Activity.Reply("")
			update.Attachments = []activity.Attachment{reopens(9).Attachment()}
			return parts.Bot.Channel.Update(ctx, t.Activity.Reference(), t.Activity.ReplyToID, update)
		}
		return t.Tell(ctx, string(t.Activity.Value))
	})
	for _, verb := range []string{"close", "reopen"} {
		b.OnCardAction(verb, func(_ context.Context, _ *bot.Turn, click bot.CardClick) (bot.CardAnswer, error) {
			var in struct {
				ID   int    `json:"id"`
				Note string `json:"note"`
			}
			if err := click.Read(&in); err != nil {
				return bot.CardAnswer{}, err
			}
			if verb == "close" && in.Note == "" {
				return bot.CardAnswer{Card: reopens(in.ID)}, nil
			}
			return bot.CardAnswer{Message: fmt.Sprintf("%s %d %s", verb, in.ID, in.Note)}, nil
		})
	}
	return b, nil
}

const (
	showTickets = "name: s\nsteps:\n  - {event: {type: message, conversation: c1, from: ann, text: tickets}, expect: {replies: ['%s']}}\n"
	clickVerb   = "  - {event: {type: invoke, name: adaptiveCard/action, conversation: c1, from: ann, value: %s}, expect: {replies: [%s]}}\n"
	clickSubmit = "  - {event: {type: message, conversation: c1, from: ann, value: %s}, expect: {replies: ['%s']}}\n"
)

// TestClicksOnOwnCards clicks on buttons by their verbs, data and inputs, also of a card that the
// answer to a click or an update put in the place of another.
func TestClicksOnOwnCards(t *testing.T) {
	t.Parallel()
	file := fmt.Sprintf(showTickets, "<card Ticket 7 is <open>>") +
		fmt.Sprintf(clickVerb, "{verb: close, id: 7, note: done}", "close 7 done") +
		fmt.Sprintf(clickSubmit, "{stars: 5, note: fine}", `{"kind":"rate","note":"fine","stars":5}`) +
		fmt.Sprintf(clickVerb, "{verb: close, id: 8}", "") +
		fmt.Sprintf(clickVerb, "{verb: reopen}", `"reopen 8 "`) +
		"  - {event: {type: message, conversation: c1, from: ann, text: tickets}, expect: {replies: [<card Ticket 7>]}}\n" +
		"  - {event: {type: message, conversation: c1, from: ann, value: {stars: 1}}, expect: {replies: []}}\n" +
		fmt.Sprintf(clickVerb, "{verb: reopen, id: 9}", `"reopen 9 "`)
	if failures, story := bottest.Play(one(t, file), bottest.Config{New: ticketCards}); failures != nil {
		t.Errorf("%s\n%s", strings.Join(failures, "\n"), story)
	}
}

func TestClicksOnNoButton(t *testing.T) {
	t.Parallel()
	shown := fmt.Sprintf(showTickets, "<card>")
	for name, tt := range map[string]struct{ file, want string }{
		"another text":    {fmt.Sprintf(showTickets, "<card Ticket 9>"), "step 1: expect.replies: got"},
		"no approval":     {fmt.Sprintf(showTickets, "<approval_card>"), "step 1: expect.replies: got"},
		"no card":         {"name: s\nsteps:\n" + fmt.Sprintf(clickVerb, "{verb: close}", ""), "step 1: event.value: no card has such a button"},
		"another verb":    {shown + fmt.Sprintf(clickVerb, "{verb: clothe, id: 7}", ""), `step 2: event.value: no card has such a button and such inputs; there are the buttons ["close {\"id\":7}"`},
		"other data":      {shown + fmt.Sprintf(clickVerb, "{verb: close, id: 9}", ""), "step 2: event.value: no card has such a button"},
		"another input":   {shown + fmt.Sprintf(clickVerb, "{verb: close, id: 7, notes: x}", ""), "step 2: event.value: no card has such a button"},
		"two buttons":     {shown + fmt.Sprintf(clickVerb, "{verb: close}", ""), "step 2: event.value: 2 buttons of the card fit"},
		"another submit":  {shown + fmt.Sprintf(clickSubmit, "{stars: 3}", ""), "step 2: event.value: no card has such a button"},
		"two submits":     {shown + fmt.Sprintf(clickSubmit, "{kind: rate}", ""), "step 2: event.value: 2 buttons of the card fit"},
		"a text, no card": {"name: s\nsteps:\n  - {event: {type: message, conversation: c1, text: hi}, model: [Hello.], expect: {replies: [<card>]}}", "step 1: expect.replies: got"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures, story := bottest.Play(one(t, tt.file), bottest.Config{New: ticketCards})
			if !strings.Contains(strings.Join(failures, "\n"), tt.want) {
				t.Errorf("got %q, want %s\n%s", failures, tt.want, story)
			}
		})
	}
}
