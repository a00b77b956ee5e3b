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
		"a text":                {`"steps"`, `f.json: want scenarios, not the text "steps"`},
		"no steps":              {`[{"name": "s"}]`, `f.json: scenario "s": steps: is missing`},
		"empty steps":           {`[{"name": "s", "steps": []}]`, `f.json: scenario "s": steps: there are none`},
		"no name":               {`[{"steps": []}]`, `f.json: scenario "#1": name: is missing`},
		"same name":             {`[` + step(`"model": []`) + `,` + step(`"model": []`) + `]`, `f.json: scenario "s": name: there is another scenario of this name`},
		"unknown top field":     {`{"scenarios": [], "version": 1}`, `f.json: version: there is no such field; there are: about, count, scenarios`},
		"unknown field":         {`[{"name": "s", "steps": [], "nmae": 1}]`, `f.json: scenario "s": nmae: there is no such field; there are: name, why, bot, seed, options, steps`},
		"unknown in expect":     {expect(`"reply": []`), `f.json: scenario "s", step 1: expect.reply: there is no such field; there are: actions, replies,`},
		"wrong type":            {expect(`"replies": "Hi."`), `f.json: scenario "s", step 1: expect.replies: want a list, not the text "Hi."`},
		"wrong type in a list":  {expect(`"replies": ["a", 2]`), `f.json: scenario "s", step 1: expect.replies[1]: want a text, not 2`},
		"no whole number":       {expect(`"model_calls": 1.5`), `step 1: expect.model_calls: want a whole number, not 1.5`},
		"negative":              {expect(`"sends": -1`), `step 1: expect.sends: want at least 0, not -1`},
		"null":                  {expect(`"typing": null`), `step 1: expect.typing: want true or false, not null`},
		"unknown bot":           {`{"name": "s", "bot": "pizza", "steps": []}`, `f.json: scenario "s": bot: want list or lights or ticket, not "pizza"`},
		"unknown control":       {`{"name": "s", "steps": [{"control": "stop"}]}`, `step 1: control: want restart, not "stop"`},
		"unknown redis":         {`{"name": "s", "steps": [{"event": {"type": "message", "conversation": "c", "redis": "slow"}}]}`, `step 1: event.redis: want down, not "slow"`},
		"no conversation":       {`{"name": "s", "steps": [{"event": {"type": "message"}}]}`, `step 1: event.conversation: is missing`},
		"event and control":     {step(`"control": "restart"`), `step 1: want one of event, parallel and control`},
		"nothing":               {`{"name": "s", "steps": [{}]}`, `step 1: want one of event, parallel and control`},
		"parallel in parallel":  {`{"name": "s", "steps": [{"parallel": [{"parallel": []}]}]}`, `step 1, parallel 1: parallel: there is no such field; there are: event, model, expect`},
		"parallel, no event":    {`{"name": "s", "steps": [{"parallel": [{"model": []}]}]}`, `step 1, parallel 1: event: is missing`},
		"expected of a restart": {`{"name": "s", "steps": [{"control": "restart", "expect": {"replies": []}}]}`, `step 1: expect: nothing can be expected of a restart`},
		"no failure":            {step(`"model": [{"deployment": "x"}]`), `step 1: model[0]: says no failure: want http, code or hang_ms`},
		"a code of success":     {step(`"model": [{"http": 200, "code": "content_filter"}]`), `step 1: model[0].code: is of a failure, and http is 200`},
		"no answer":             {step(`"model": [7]`), `step 1: model[0]: want a text or an object, not 7`},
		"unknown type":          {`{"name": "s", "steps": [{"event": {"type": "mesage", "conversation": "c"}}]}`, `f.json: scenario "s", step 1: event.type: want message or messageUpdate or`},
		"unknown parallel type": {`{"name": "s", "steps": [{"parallel": [{"event": {"type": "Message", "conversation": "c"}}]}]}`, `step 1, parallel 1: event.type: want message or`},
		"no such deployment":    {step(`"model": [{"http": 500, "deployment": "x"}]`), `step 1: model[0].deployment: "x" is none of options.models`},
		"no status":             {step(`"model": [{"http": 100}]`), `step 1: model[0].http: want at least 200, not 100`},
		"no placeholder":        {expect(`"replies": ["<sorry>"]`), `step 1: expect.replies[0]: <sorry> stands for nothing, and nothing in the scenario writes this text; there are: already_done, approval_card,`},
		"two splits":            {expect(`"replies": ["<split>", "<split>"]`), `step 1: expect.replies: <split> may be there once`},
		"a reply that must not": {expect(`"replies": ["Hi there."], "reply_must_not_contain": ["there"]`), `step 1: expect.replies[0]: contains "there", which reply_must_not_contain forbids`},
		"more calls":            {expect(`"model_calls": 2`), `step 1: expect.model_calls: are 2, and model has 1 answers`},
		"no second call":        {expect(`"prompt_contains_call2": ["x"]`), `step 1: expect.prompt_contains_call2: there is no second call of the model`},
		"input of no call":      {expect(`"model_input": "x", "model_calls": 0`), `step 1: expect.model_calls: are 0, and something is expected of a call`},
		"contains and not":      {expect(`"prompt_contains": ["x"], "prompt_must_not_contain": ["x"]`), `step 1: expect.prompt_must_not_contain: "x" is also what a prompt has to contain`},
		"crash too late":        {expect(`"actions": [], "crash_after_action": 1`), `step 1: expect.crash_after_action: is after action 1 of 0`},
		"too few sends":         {expect(`"connector": [{"http": 502}, {"http": 201}], "sends": 1`), `step 1: expect.sends: are 1, and the connector answers 2`},
		"status of no event":    {expect(`"http_status_within_ms": {"m9": 5}`), `step 1: expect.http_status_within_ms.m9: no event of this step has this id`},
		"order of no event":     {expect(`"order": ["m1", "m9"]`), `step 1: expect.order[1]: no event of this step has the id "m9"`},
		"order of any kind":     {expect(`"order": "any"`), `step 1: expect.order: want either or a list of ids, not "any"`},
		"state of another":      {expect(`"state_by_conversation": {"c9": {"lists": {}}}`), `step 1: expect.state_by_conversation.c9: no event of the scenario is in such a conversation`},
		"unknown state":         {expect(`"state": {"list": {}}`), `step 1: expect.state.list: there is no such field; there are: lists`},
		"action without a name": {expect(`"actions": [{"entities": {}}]`), `step 1: expect.actions[0].action: is missing`},
		"joined of nothing":     {expect(`"replies": [], "joined_reply_equals": "x"`), `step 1: expect.joined_reply_equals: is a text, and replies are none`},
		"empty parallel":        {`{"name": "s", "steps": [{"parallel": []}]}`, `step 1: parallel: is an empty list`},
		"parallel beside":       {step(`"parallel": []`), `step 1: want one of event, parallel and control`},
		"no models":             {`{"name": "s", "options": {"models": []}, "steps": [{"control": "restart"}]}`, `scenario "s": options.models: is an empty list`},
		"typing of a restart":   {`{"name": "s", "steps": [{"control": "restart", "expect": {"typing": false}}]}`, `step 1: expect: nothing can be expected of a restart`},
		"near a placeholder":    {expect(`"replies": ["<Aproval card>"]`), `step 1: expect.replies[0]: <Aproval> stands for nothing, and nothing in the scenario writes this text; did you mean <approval_card>?; there are: already_done,`},
		"no values of a card":   {expect(`"replies": ["<approval_card close 42>"]`), `step 1: expect.replies[0]: want <approval_card ACTION NAME=VALUE …>`},
		"again of nothing":      {again(`"m9"`, `"m1"`, "c1"), `step 2: event.redelivery: no event before it, or beside it, is of this activity`},
		"again elsewhere":       {again(`"m1"`, `"m1"`, "c2"), `step 2: event.redelivery: no event`},
		"again at first":        {`{"name": "s", "steps": [{"parallel": [{"event": {"type": "message", "conversation": "c", "redelivery": true}}, {"event": {"type": "message", "conversation": "c"}}]}]}`, `step 1, parallel 1: event.redelivery: no event`},
		"served by nobody":      {`{"name": "s", "options": {"models": ["a"]}, "steps": [{"event": {"type": "message", "conversation": "c"}, "expect": {"served_by": "b"}}]}`, `step 1: expect.served_by: "b" is none of options.models`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := record.Read(strings.NewReader(tt.file), "f.json")
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
	_, err := record.Read(strings.NewReader(file), "f.yml")
	if err == nil {
		t.Fatal("no fault")
	}
	if n := len(strings.Split(err.Error(), "\n")); n != 5 {
		t.Errorf("%d faults, want 5:\n%v", n, err)
	}
}

func TestYAMLThatIsNotToBeRead(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	for name, tt := range map[string]struct{ file, want string }{
		"bomb":          {bomb, "f.yaml: no YAML: line 1: too large: more than"},
		"two documents": {"name: s\n---\nname: t\n", "f.yaml: no YAML: line 2: a second document begins"},
		"no YAML":       {"a: [", "f.yaml: no YAML: "},
		"in itself":     {"a: &a [*a]", "f.yaml: "},
		"unknown alias": {"a: *b", "f.yaml: no YAML: "},
		"empty":         {"", "f.yaml: want scenarios, not null"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := record.Read(strings.NewReader(tt.file), "f.yaml"); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestActionsThatThereAreNot(t *testing.T) {
	t.Parallel()
	const file = `
name: s
options: {approval: [fly]}
steps:
  - parallel:
      - event: {type: message, conversation: c}
        expect: {actions: [{action: addItem}, {action: swim}], replies: [<approval_card>, <approval_card addItem>, <approval_card run>]}
`
	all, err := record.Read(strings.NewReader(file), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := record.Check(all, func(name string) bool { return name == "addItem" }).Error()
	want := `f.yaml: scenario "s": options.approval[0]: there is no action "fly"` + "\n" +
		`f.yaml: scenario "s", step 1, parallel 1: expect.actions[1].action: there is no action "swim"` + "\n" +
		`f.yaml: scenario "s", step 1, parallel 1: expect.replies[2]: there is no action "run"`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(expect(`"replies": ["Hi."]`)), true)
	f.Add([]byte("name: s\nsteps: [{control: restart}]"), false)
	f.Fuzz(func(_ *testing.T, data []byte, isJSON bool) {
		name := map[bool]string{true: "f.json", false: "f.yaml"}[isJSON]
		all, err := record.Read(strings.NewReader(string(data)), name)
		if err == nil {
			_ = record.Check(all, func(string) bool { return false })
		}
	})
}

func TestAByteOrderMarkIsFine(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"s.json": `[{"name":"s","steps":[{"control":"restart"}]}]`,
		"s.yaml": "- name: s\n  steps: [{control: restart}]\n",
	} {
		if list, err := record.Read(strings.NewReader("\ufeff"+text), name); err != nil || len(list) != 1 {
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
- name: c
  <<: *first
`
	all, err := record.Read(strings.NewReader(file), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, s := range all {
		got += s.Name + s.Why + " "
	}
	if want := "awhy bwhy cwhy "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
