package record_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/record"
)

// step is a file with one scenario of one step with these fields.
func step(fields string) string {
	return `{"name": "s", "steps": [{"event": {"type": "message", "conversation": "c1", "from": "ann", "id": "m1", "text": "hi"}, ` + fields + `}]}`
}

func expect(fields string) string { return step(`"model": ["Hi."], "expect": {` + fields + `}`) }

// again is a file in which an event of a conversation delivers an activity again.
func again(first, second, conversation string) string {
	return fmt.Sprintf(`{"name": "s", "steps": [{"event": {"type": "message", "conversation": "c1", "id": %s}}, {"event": {"type": "message", "conversation": %q, "id": %s, "redelivery": true}}]}`, first, conversation, second)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, want string }{
		"no JSON":               {`{"name": `, `f.json: no JSON: `},
		"a name twice":          {`{"name": "s", "name": "t", "steps": []}`, `f.json: no JSON: `},
		"a text":                {`"steps"`, `f.json: want scenarios, not "steps"`},
		"no steps":              {`[{"name": "s"}]`, `f.json: scenario "s": steps: is missing`},
		"empty steps":           {`[{"name": "s", "steps": []}]`, `f.json: scenario "s": steps: minItems: got 0, want 1`},
		"no name":               {`[{"steps": []}]`, `f.json: scenario "#1": name: is missing`},
		"same name":             {`[` + step(`"model": []`) + `,` + step(`"model": []`) + `]`, `f.json: scenario "s": name: there is another scenario of this name`},
		"unknown top field":     {`{"scenarios": [], "version": 1}`, `f.json: version: there is no such field`},
		"unknown field":         {`[{"name": "s", "steps": [], "nmae": 1}]`, `f.json: scenario "s": nmae: there is no such field`},
		"unknown in expect":     {expect(`"reply": []`), `f.json: scenario "s", step 1: expect.reply: there is no such field`},
		"wrong type":            {expect(`"replies": "Hi."`), `f.json: scenario "s", step 1: expect.replies: got string, want array`},
		"wrong type in a list":  {expect(`"replies": ["a", 2]`), `f.json: scenario "s", step 1: expect.replies[1]: got number, want string`},
		"no whole number":       {expect(`"model_calls": 1.5`), `step 1: expect.model_calls: got number, want integer`},
		"negative":              {expect(`"sends": -1`), `step 1: expect.sends: minimum: got -1, want 0`},
		"null":                  {expect(`"typing": null`), `step 1: expect.typing: got null, want boolean`},
		"unknown bot":           {`{"name": "s", "bot": "pizza", "steps": []}`, `f.json: scenario "s": bot: value must be one of 'list', 'lights', 'ticket'`},
		"unknown control":       {`{"name": "s", "steps": [{"control": "stop"}]}`, `step 1: control: value must be 'restart'`},
		"unknown redis":         {`{"name": "s", "steps": [{"event": {"type": "message", "conversation": "c", "redis": "slow"}}]}`, `step 1: event.redis: value must be 'down'`},
		"no conversation":       {`{"name": "s", "steps": [{"event": {"type": "message"}}]}`, `step 1: event.conversation: is missing`},
		"event and control":     {step(`"control": "restart"`), `step 1: want one of event, parallel and control`},
		"nothing":               {`{"name": "s", "steps": [{}]}`, `step 1: want one of event, parallel and control`},
		"parallel in parallel":  {`{"name": "s", "steps": [{"parallel": [{"parallel": []}]}]}`, `step 1, parallel 1: parallel: there is no such field`},
		"parallel, no event":    {`{"name": "s", "steps": [{"parallel": [{"model": []}]}]}`, `step 1, parallel 1: event: is missing`},
		"expected of a restart": {`{"name": "s", "steps": [{"control": "restart", "expect": {"replies": []}}]}`, `step 1: maxProperties: got 2, want 1`},
		"no failure":            {step(`"model": [{"deployment": "x"}]`), `step 1: model[0]: says no failure: want http, code or hang_ms`},
		"a code of success":     {step(`"model": [{"http": 200, "code": "content_filter"}]`), `step 1: model[0].http: minimum: got 200, want 300`},
		"no answer":             {step(`"model": [7]`), `step 1: model[0]: got number, want string or object`},
		"no such deployment":    {step(`"model": [{"http": 500, "deployment": "x"}]`), `step 1: model[0].deployment: "x" is none of options.models`},
		"no status":             {step(`"model": [{"http": 100}]`), `step 1: model[0].http: minimum: got 100, want 200`},
		"no placeholder":        {expect(`"replies": ["<sorry>"]`), `step 1: expect.replies[0]: <sorry> stands for nothing, and nothing in the scenario writes this text; there are: already_done, approval_card,`},
		"status of no event":    {expect(`"http_status_within_ms": {"m9": 5}`), `step 1: expect.http_status_within_ms.m9: no event of this step has this id`},
		"order of any kind":     {expect(`"order": "any"`), `step 1: expect.order: 'any' does not match pattern '^either$'`},
		"state of another":      {expect(`"state_by_conversation": {"c9": {"lists": {}}}`), `step 1: expect.state_by_conversation.c9: no event of the scenario is in such a conversation`},
		"unknown state":         {expect(`"state": {"list": {}}`), `step 1: expect.state.list: there is no such field`},
		"action without a name": {expect(`"actions": [{"entities": {}}]`), `step 1: expect.actions[0].action: is missing`},
		"empty parallel":        {`{"name": "s", "steps": [{"parallel": []}]}`, `step 1: parallel: minItems: got 0, want 1`},
		"parallel beside":       {step(`"parallel": []`), `step 1: want one of event, parallel and control`},
		"no models":             {`{"name": "s", "options": {"models": []}, "steps": [{"control": "restart"}]}`, `scenario "s": options.models: minItems: got 0, want 1`},
		"typing of a restart":   {`{"name": "s", "steps": [{"control": "restart", "expect": {"typing": false}}]}`, `step 1: maxProperties: got 2, want 1`},
		"near a placeholder":    {expect(`"replies": ["<Aproval card>"]`), `step 1: expect.replies[0]: <Aproval> stands for nothing, and nothing in the scenario writes this text; there are: already_done,`},
		"again of nothing":      {again(`"m9"`, `"m1"`, "c1"), `step 2: event.redelivery: no event before it, or beside it, is of this activity`},
		"again elsewhere":       {again(`"m1"`, `"m1"`, "c2"), `step 2: event.redelivery: no event`},
		"again at first":        {`{"name": "s", "steps": [{"parallel": [{"event": {"type": "message", "conversation": "c", "redelivery": true}}, {"event": {"type": "message", "conversation": "c"}}]}]}`, `step 1, parallel 1: event.redelivery: no event`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := record.Read("f.json", []byte(tt.file))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "f.json: ") {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestAllFaultsAreListed(t *testing.T) {
	t.Parallel()
	const file = `
- name: a
  steps:
    - event: {type: message, conversation: c, txt: hi}
      expect: {replies: [1], model_calls: x}
- name: b
  stepz: []
`
	_, err := record.Read("f.yml", []byte(file))
	if err == nil {
		t.Fatal("no fault")
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 5 {
		t.Errorf("%d faults, want 5:\n%v", n, err)
	}
}

func TestYAMLThatIsNotToBeRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, want string }{
		"two documents": {"name: s\n---\nname: t\n", "f.yaml: no YAML: line 2: a second document begins"},
		"no YAML":       {"a: [", "f.yaml: no YAML: "},
		"in itself":     {"a: &a [*a]", "f.yaml: "},
		"unknown alias": {"a: *b", "f.yaml: no YAML: "},
		"empty":         {"", "f.yaml: want scenarios, not null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := record.Read("f.yaml", []byte(tt.file)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(expect(`"replies": ["Hi."]`)), true)
	f.Add([]byte("name: s\nsteps: [{control: restart}]"), false)
	f.Fuzz(func(_ *testing.T, data []byte, isJSON bool) {
		name := map[bool]string{true: "f.json", false: "f.yaml"}[isJSON]
		_, _ = record.Read(name, data)
	})
}

func TestAByteOrderMarkIsFine(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"s.json": `[{"name":"s","steps":[{"control":"restart"}]}]`,
		"s.yaml": "- name: s\n  steps: [{control: restart}]\n",
	} {
		if list, err := record.Read(name, []byte("\ufeff"+text)); err != nil || len(list) != 1 {
			t.Errorf("%s: %v, %v", name, list, err)
		}
	}
}

func TestMergesOfYAML(t *testing.T) {
	t.Parallel()
	const file = `
- &first
  name: a
  why: why
  steps: [{control: restart}]
- <<: *first
  name: b
`
	all, err := record.Read("f.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, s := range all {
		got += s.Name + s.Why + " "
	}
	if want := "awhy bwhy "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
