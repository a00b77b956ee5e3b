package bottest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/record"

	"github.com/planbot-go/planbot/bottest"
)

// one reads a scenario.
func one(t *testing.T, file string) *record.Scenario {
	t.Helper()
	all, err := record.Read("f.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return &all[0]
}

// asking is a step in which the bot shows a card for closing ticket 7.
const asking = `
  - event: {type: message, conversation: c1, from: ann, id: m1, text: close 7}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"closeTicket","entities":{"id":7,"reason":"two words"}},{"type":"SAY","response":"Closed."}]}']
    expect: {replies: ['%s']}
`

// opening is a step with what is expected of opening a ticket.
const opening = `
  - event: {type: message, conversation: c1, from: ann, id: m1, text: open}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"createTicket","entities":{"title":"a"}},{"type":"SAY","response":"Open."}]}']
    expect: {%s}
`

// TestNotMet has expectations that the bot does not meet.
func TestNotMet(t *testing.T) {
	t.Parallel()
	cfg := scripted(t)
	for name, tt := range map[string]struct{ steps, want string }{
		"another number":       {fmt.Sprintf(asking, `<approval_card closeTicket id=8>`), "step 1: expect.replies: got"},
		"half of a text":       {fmt.Sprintf(asking, `<approval_card closeTicket reason=two>`), "step 1: expect.replies: got"},
		"more than a text":     {fmt.Sprintf(asking, `<approval_card closeTicket reason=two words more, id=7>`), "step 1: expect.replies: got"},
		"a value there is not": {fmt.Sprintf(asking, `<approval_card closeTicket id=7 by=ann>`), "step 1: expect.replies: got"},
		"another action":       {fmt.Sprintf(asking, `<approval_card createTicket id=7>`), "step 1: expect.replies: got"},
		"a text in angles": {`
  - event: {type: message, conversation: c1, text: hi}
    model: ["<hi>", "<hello>"]
    expect: {replies: [<hello>]}
`, `step 1: expect.replies: got ["<\u200bhi>"], want ["<hello>"]`},
		"resumed without a crash": {fmt.Sprintf(opening, "replies: [<resumed>]"), `step 1: expect.replies: got ["Open."]`},
		"another answer after a crash": {fmt.Sprintf(opening, "crash_after_action: 1") + `
  - control: restart
  - event: {type: message, conversation: c1, from: ann, id: m2, text: hi}
    model: [Hi.]
    expect: {replies: [Open., <resumed or honest>]}
`, `step 3: expect.replies: got ["Open." "Hi."]`},
		"two deliveries, two answers": {`
  - parallel:
      - event: {type: message, conversation: c1, from: ann, id: m1, text: hi}
        model: [Hi.]
        expect: {replies: [Hi.]}
      - event: {type: message, conversation: c1, from: ann, id: m1, text: hi, replica: 2}
        expect: {replies: [Hi.]}
`, `step 1: parallel 1 with parallel 2: expect.replies: got ["Hi."], want ["Hi." "Hi."]`},
		"two deliveries, another answer": {`
  - parallel:
      - event: {type: message, conversation: c1, from: ann, id: m1, text: hi}
        model: [Hi.]
      - event: {type: message, conversation: c1, from: ann, id: m1, text: hi, replica: 2}
        expect: {replies: [Hello.], model_calls: 2}
`, `step 1: parallel 1 with parallel 2: expect.replies: got ["Hi."], want ["Hello."]`},
		"two deliveries, more than one answer": {`
  - parallel:
      - event: {type: message, conversation: c1, from: ann, id: m1, text: hi}
        model: ['{"type":"plan","commands":[{"type":"SAY","response":"Hi."},{"type":"SAY","response":"there."}]}']
        expect: {replies: [Hi.]}
      - event: {type: message, conversation: c1, from: ann, id: m1, text: hi, replica: 2}
`, `step 1: parallel 1 with parallel 2: expect.replies: got ["Hi." "there."], want ["Hi."]`},
		"a crash, and more than one answer": {`
  - parallel:
      - event: {type: message, conversation: c1, from: ann, id: m1, text: open}
        model: ['{"type":"plan","commands":[{"type":"DO","action":"createTicket","entities":{"title":"a"}},{"type":"SAY","response":"Open."},{"type":"SAY","response":"Bye."}]}']
        expect: {crash_after_action: 1}
      - event: {type: message, conversation: c1, from: ann, id: m1, text: open, replica: 2, at_ms: 15000}
        expect: {replies: [Open.]}
`, `step 1: parallel 1 with parallel 2: expect.replies: got ["Open." "Bye."], want ["Open."]`},
		"answers of the connector for all that nobody asked for": {`
  - parallel:
      - event: {type: message, conversation: c1, text: hi}
        model: [Hi.]
    expect: {connector: [{http: 201}, {http: 502}]}
`, `step 1: expect.connector: 1 of the answers were not asked for`},
		"a text that is no number": {`
  - event: {type: message, conversation: c1, from: ann, text: open}
    model: ['{"type":"plan","commands":[{"type":"DO","action":"createTicket","entities":{"title":"number 5"}}]}']
    expect: {actions: [{action: createTicket, entities: {title: 5}}]}
`, `step 1: expect.actions: got`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures, story := bottest.Play(one(t, "name: s\nsteps:"+tt.steps), cfg)
			text := strings.ReplaceAll(strings.Join(failures, "\n"), `", "`, `" "`)
			if !strings.Contains(text, tt.want) {
				t.Errorf("got %s, want %s\n%s", text, tt.want, story)
			}
		})
	}
}

// TestAnswersThatNobodyAskedFor are told, and a failure only where a model has to be asked.
func TestAnswersThatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	const file = `
name: s
options: {models: [a, b]}
steps:
  - event: {type: message, conversation: c1, text: hi}
    model: [Hi., Again., {http: 500%s}]
    expect: {replies: [Hi.]}
`
	cfg := scripted(t)
	failures, story := bottest.Play(one(t, fmt.Sprintf(file, "")), cfg)
	if want := "step 1, model[1]: Again. after 10ms\n    step 1, model[2]: 500 after 10ms"; failures != nil || !strings.Contains(story, want) {
		t.Errorf("%q\n%s", failures, story)
	}
	failures, _ = bottest.Play(one(t, fmt.Sprintf(file, ", deployment: b")), cfg)
	if !slices.Equal(failures, []string{"step 1: model[2].deployment: b was not asked"}) {
		t.Errorf("%q", failures)
	}
}

// TestAtTheSameTime has things happen at the same time, which are in the order of the file.
func TestAtTheSameTime(t *testing.T) {
	t.Parallel()
	cfg := scripted(t)
	file, ids := "name: s\nsteps:\n  - parallel:\n", []string{}
	for i := range 6 {
		ids = append(ids, fmt.Sprintf("m%d", i))
		file += fmt.Sprintf("      - {event: {type: message, conversation: c%d, from: ann, id: m%d, text: hi, at_ms: %d, delay_model_ms: %d, replica: %d}, model: [r%d]}\n", i, i, 1000*i, 6000-1000*i, 1+i%2, i)
	}
	file += "    expect: {replies: [r0, r1, r2, r3, r4, r5], order: [" + strings.Join(ids, ", ") + "]}\n"
	s := one(t, file)
	for range 8 {
		if failures, story := bottest.Play(s, cfg); failures != nil {
			t.Fatalf("%q\n%s", failures, story)
		}
	}
}

// TestWordsInPlaceOfACard: a conversation from a channel without cards, such as the terminal, is
// played in Teams.
func TestWordsInPlaceOfACard(t *testing.T) {
	t.Parallel()
	const question = "Should I delete everything that I keep about you? This cannot be undone. What belongs to others stays.\\n\\nSay **/forget yes** to delete it."
	for reply, want := range map[string]int{question: 0, "<card Delete everything>": 0, question + " Now!": 1, "Delete everything": 1} {
		all, err := record.Read("a.json", []byte(`{"name": "a", "steps": [{"event": {"type": "message", "conversation": "c", "text": "/forget"}, "expect": {"replies": ["`+reply+`"]}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if failures, _ := bottest.Play(&all[0], scripted(t)); len(failures) != want {
			t.Errorf("%s: %q", reply, failures)
		}
	}
}
