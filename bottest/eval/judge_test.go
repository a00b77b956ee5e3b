package eval_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/bottest/eval"
	"github.com/planbot-go/planbot/planner/plan"
)

// asked is late in the evening, so that tomorrow is near.
var asked = time.Date(2026, 11, 21, 23, 50, 30, 0, time.UTC)

// judge reads a case with these wishes and a plan of these DOs, as JSON.
func judge(t *testing.T, wishes, dos string) eval.Result {
	t.Helper()
	text := "cases:\n- name: x\n  lang: en\n  say: a\n  " + strings.ReplaceAll(wishes, "\n", "\n  ")
	cases, err := eval.Read("f.yaml", []byte(text), registry())
	if err != nil {
		t.Fatal(err)
	}
	var calls []map[string]map[string]any
	dec := json.NewDecoder(strings.NewReader(dos))
	dec.UseNumber()
	if err := dec.Decode(&calls); err != nil {
		t.Fatal(err)
	}
	p := plan.Plan{Commands: []plan.Command{{Kind: plan.Say, Response: "Let me see."}}}
	for _, call := range calls {
		for action, entities := range call {
			p.Commands = append(p.Commands, plan.Command{Kind: plan.Do, Action: action, Entities: entities})
		}
	}
	return cases[0].Judge(p, registry(), asked)
}

func TestJudgeActions(t *testing.T) {
	t.Parallel()
	const milk, eggs, all = `{"addItem":{"list":"a","item":"milk"}}`, `{"addItem":{"list":"a","item":"eggs"}}`, `{"summarizeLists":{}}`
	const wantMilk = "want: [{addItem: {list: a, item: milk}}]"
	for _, c := range []struct {
		name, wishes, dos string
		action, entities  bool
		unwanted          string
	}{
		{"say", "want: say", `[]`, true, true, ""},
		{"say, but something is done", "want: say", `[` + all + `]`, false, false, "summarizeLists"},
		{"as wanted", wantMilk, `[` + milk + `]`, true, true, ""},
		{"nothing is done", wantMilk, `[]`, false, false, ""},
		{"something else is done", wantMilk, `[` + all + `]`, false, false, "summarizeLists"},
		{"something else is done, too", wantMilk, `[` + all + `,` + milk + `]`, false, false, "summarizeLists"},
		{"other entities", wantMilk, `[` + eggs + `]`, true, false, ""},
		{"done twice", wantMilk, `[` + milk + `,` + milk + `]`, false, false, "addItem"},
		{"in order", "want: [summarizeLists, {addItem: {list: a, item: milk}}]", `[` + all + `,` + milk + `]`, true, true, ""},
		{"in another order", "want: [summarizeLists, {addItem: {list: a, item: milk}}]", `[` + milk + `,` + all + `]`, false, false, ""},
		{"harmless", wantMilk + "\nunwanted: [deleteList]", `[` + all + `,` + milk + `,` + all + `]`, true, true, ""},
		{"harmful", wantMilk + "\nunwanted: [summarizeLists]", `[` + all + `,` + milk + `]`, false, false, "summarizeLists"},
		{"twice among the harmless", wantMilk + "\nunwanted: [deleteList]", `[` + milk + `,` + all + `,` + eggs + `]`, false, false, "addItem"},
		{"the other plan", wantMilk + "\nor: [[summarizeLists]]", `[` + all + `]`, true, true, ""},
		{"the plan that it comes closest to", "want: [summarizeLists]\nor: [[{addItem: {list: a, item: milk}}]]", `[` + eggs + `]`, true, false, ""},
		{"the plan with the least harm", "want: say\nor: [[{addItem: {list: a, item: milk}}, listReminders]]", `[` + milk + `]`, false, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := judge(t, c.wishes, c.dos)
			if v.Action != c.action || v.Entities != c.entities || strings.Join(v.Unwanted, " ") != c.unwanted {
				t.Errorf("%+v", v)
			}
		})
	}
}

func TestJudgeEntities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		action, want, got string
		same              bool
	}{
		{"findItem", `{item: milk}`, `{"item":" Milk "}`, true},
		{"findItem", `{item: " milk"}`, `{"item":"milk"}`, true},
		{"findItem", `{item: Käse}`, `{"item":"KÄSE"}`, true},
		{"findItem", `{item: milk}`, `{"item":"milk, eggs"}`, false},
		{"findItem", `{item: 7}`, `{"item":7}`, true},
		{"findItem", `{item: 7}`, `{"item":"7"}`, true},
		{"findItem", `{item: [milk, the milk]}`, `{"item":"the Milk"}`, true},
		{"findItem", `{item: [milk, the milk]}`, `{"item":"a milk"}`, false},
		{"findItem", `{item: "*"}`, `{"item":"anything"}`, true},
		{"findItem", `{item: "*milk"}`, `{"item":"The MILK"}`, true},
		{"findItem", `{item: "*milk"}`, `{"item":"milky"}`, false},
		{"findItem", `{item: "a*b*a"}`, `{"item":"abba"}`, true},
		{"findItem", `{item: "a*b*a"}`, `{"item":"aba"}`, true},
		{"findItem", `{item: "a*a"}`, `{"item":"a"}`, false},
		{"findItem", `{item: "*a*b*"}`, `{"item":"ba"}`, false},
		{"findItem", `{item: milk}`, `{"item":"milk","list":"a"}`, false},
		{"findItem", `{item: milk}`, `{"item":"milk","list":""}`, true},
		{"createList", `{list: a, items: [milk, eggs]}`, `{"list":"a","items":["Milk","eggs"]}`, true},
		{"createList", `{list: a, items: [milk, eggs]}`, `{"list":"a","items":["milk"]}`, false},
		{"createList", `{list: a, items: [milk, eggs]}`, `{"list":"a","items":["eggs","milk"]}`, false},
		{"createList", `{list: a, items: [milk, [eggs, some eggs]]}`, `{"list":"a","items":["milk","some eggs"]}`, true},
		{"createList", `{list: a, items: [milk, eggs]}`, `{"list":"a"}`, false},
		{"createList", `{list: a}`, `{"list":"a","items":[]}`, true},
		{"createList", `{list: a}`, `{"list":"a","items":["milk"]}`, false},
		{"createList", `{list: a, items: []}`, `{"list":"a","items":null}`, true},
		{"order", `{count: 2}`, `{"count":2}`, true},
		{"order", `{count: 2}`, `{"count":2.0}`, true},
		{"order", `{count: 2}`, `{"count":"2"}`, true},
		{"order", `{count: 2}`, `{"count":3}`, false},
		{"order", `{count: [2, 3]}`, `{"count":3}`, true},
		{"order", `{count: 2}`, `{"count":2,"size":"small"}`, true},
		{"order", `{count: 2}`, `{"count":2,"size":"large"}`, false},
		{"order", `{count: 2, size: small}`, `{"count":2}`, true},
		{"order", `{count: 2, spicy: true}`, `{"count":2,"spicy":true}`, true},
		{"order", `{count: 2, spicy: true}`, `{"count":2,"spicy":false}`, false},
		{"order", `{count: 2, spicy: true}`, `{"count":2}`, false},
		{"order", `{count: 2, spicy: null}`, `{"count":2,"spicy":true}`, false},
		{"order", `{count: 2, to: {mia: 1}}`, `{"count":2,"to":{"mia":1}}`, true},
		{"order", `{count: 2, to: {mia: 1}}`, `{"count":2,"to":{"mia":1,"otto":1}}`, false},
		{"order", `{count: 2, inside: {toppings: [ham]}}`, `{"count":2,"inside":{"toppings":["Ham"]}}`, true},
		{"order", `{count: 2, inside: {toppings: [ham]}}`, `{"count":2,"inside":"ham"}`, false},
		{"remindMe", `{what: x, in_minutes: 10}`, `{"what":"x","in_minutes":1e1}`, true},
		{"remindMe", `{what: x, in_minutes: 0.5}`, `{"what":"x","in_minutes":0.50}`, true},
		{"remindMe", `{what: x, in_minutes: 10}`, `{"what":"x","in_minutes":1e999999999}`, false},
		{"remindMe", `{what: x, at: "2026-11-22T09:00:00+01:00"}`, `{"what":"x","at":"2026-11-22T08:00:00Z"}`, true},
		{"remindMe", `{what: x, at: "2026-11-22T09:00:00+01:00"}`, `{"what":"x","at":"2026-11-22T09:00:00Z"}`, false},
		{"remindMe", `{what: x, at: "tomorrow 09:00"}`, `{"what":"x","at":"2026-11-22T10:00:00+01:00"}`, true},
		{"remindMe", `{what: x, at: "tomorrow 09:00"}`, `{"what":"x","at":"2026-11-23T09:00:00Z"}`, false},
		{"remindMe", `{what: x, at: "today 23:59"}`, `{"what":"x","at":"2026-11-21T23:59:00Z"}`, true},
		{"remindMe", `{what: x, at: [in 10m, "*"]}`, `{"what":"x","at":"2026-11-25T09:00:00Z"}`, true},
		{"remindMe", `{what: x, at: in 10m}`, `{"what":"x","at":"2026-11-22T00:00:00Z"}`, true},
		{"remindMe", `{what: x, at: in 10m}`, `{"what":"x","at":"2026-11-22T00:03:00Z"}`, false},
		{"remindMe", `{what: x, at: in 10m}`, `{"what":"x","in_minutes":10}`, false},
	} {
		t.Run(c.action+c.want+c.got, func(t *testing.T) {
			t.Parallel()
			if v := judge(t, "want: [{"+c.action+": "+c.want+"}]", `[{"`+c.action+`":`+c.got+`}]`); v.Entities != c.same || !v.Action {
				t.Errorf("%+v, want %v", v, c.same)
			}
		})
	}
}
