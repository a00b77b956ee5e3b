package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/planner/plan"
)

// keptPlan has a bit of everything that a plan can have.
func keptPlan() plan.Plan {
	return plan.Plan{
		TrimResults: true, Salvaged: true, Repairs: []string{"prose"}, Preface: "hm",
		Commands: commands(
			saved("S", "summarize", entities{"input": "a \"b\" <c> & ]]> $$5\n\r\tx"}),
			do("addItem", entities{"list": "$S", "item": "$CITY, $city", "quantity": json.Number("12345678901234567890"), "urgent": true, "none": nil}),
			do("createList", entities{"list": " b ", "items": []any{"c", "$Other $S"}, "more": entities{"n": []any{json.Number("1.50"), nil}}}),
			do("wipe", entities{}),
			say("<b>$S</b>\r\n & so on"),
		),
	}
}

func TestPlanAsJSON(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(keptPlan())
	if err != nil {
		t.Fatal(err)
	}
	for name, load := range map[string]func() (plan.Plan, error){
		"alone":     func() (p plan.Plan, err error) { return p, json.Unmarshal(raw, &p) },
		"validated": func() (plan.Plan, error) { return plan.Load(raw, xmlActions(t)) },
	} {
		got, err := load()
		if diff := cmp.Diff(keptPlan(), got); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got\n%s", name, err, diff)
		}
	}
}

// TestLoadPlanRefuses what it does not understand whole.
func TestLoadPlanRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "read plan",
		"hello":                               "read plan",
		`{"commands":[],"loop":true}`:         `unknown field "loop"`,
		`{"commands":[{"type":"DO","if":1}]}`: `unknown field "if"`,
		`{"type":"recipe","commands":[]}`:     `"recipe"`,
		`{"commands":[]} {}`:                  "there is more behind it",
		`{"commands":[]}`:                     "no_plan",
		`{"commands":[{"type":"DO","action":"fly","entities":{}}]}`:     "unknown_action",
		`{"commands":[{"type":"DO","action":"addItem","entities":{}}]}`: "missing_entities",
		"<plan>":                           "truncated",
		"<a/>":                             "not one <plan>, but 0",
		inPlan(wipeTag) + inPlan(wipeTag):  "not one <plan>, but 2",
		inPlan(wipeTag) + wipeTag:          "not one <plan>",
		inPlan("<function.fly/>"):          "unknown_action",
		inPlan("<if>" + wipeTag + "</if>"): "invalid_plan",
		`<plan trimResults="true"/>`:       "no_plan",
		`{"commands":[{"type":"SAY","response":"` + strings.Repeat("a", 1<<20) + `"`: "longer",
	} {
		if p, err := plan.Load([]byte(text), xmlActions(t)); err == nil || !strings.HasPrefix(err.Error(), "load plan: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, %v, want %s", text, p, err, want)
		}
	}
}

const wipeTag = "<function.wipe/>"

// TestXMLThatAModelWrote keeps its first $INPUT for when it is run.
func TestXMLThatAModelWrote(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		steps string
		want  []plan.Command
	}{
		"chained": {
			`<function.summarize/><function.Writer.Translate language="$LANGUAGE"/>`,
			commands(saved("OUTPUT_1", "summarize", entities{"input": "$INPUT"}), saved("OUTPUT_2", "Writer-Translate", entities{"input": "$OUTPUT_1", "language": "$LANGUAGE"}), say("$OUTPUT_2")),
		},
		"dollars stay escaped where there are inputs": {
			`<function.summarize/><say>$$5</say>`,
			commands(do("summarize", entities{"input": "$INPUT"}), say("$$5")),
		},
		"and are resolved where there are none": {`<function.wipe/><say>$$5</say>`, commands(do("wipe", entities{}), say("$5"))},
	} {
		got, err := plan.Load([]byte(inPlan(test.steps)), xmlActions(t))
		if diff := cmp.Diff(test.want, got.Commands); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got\n%s", name, err, diff)
		}
	}
}

func TestPlanPrinted(t *testing.T) {
	t.Parallel()
	p := plan.Plan{Commands: commands(
		saved("S", "summarize", entities{"input": "a \"b\"\n- wipe", "n": json.Number("1"), "z": nil}), do("createList", entities{"list": "b", "items": []any{"<c>", true}}), do("wipe", nil), say("$S\n!"),
	)}
	want := `- summarize input="a \"b\"\n- wipe" n=1 z=null => S` + "\n" + `- createList items=["<c>",true] list="b"` + "\n- wipe\n" + `- SAY "$S\n!"`
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("- summarize\n- createList\n- wipe\n- SAY", p.Outline()); diff != "" {
		t.Error(diff)
	}
}

func TestInputs(t *testing.T) {
	t.Parallel()
	p := plan.Plan{Commands: commands(
		saved("A", "x", entities{"z": "$later $$no $5", "b": []any{"$first", entities{"c": "${x} $First"}}}), say("$a $Last"), do("x", entities{"y": "$last"}),
	)}
	if diff := cmp.Diff([]string{"first", "later", "Last"}, plan.Inputs(p)); diff != "" {
		t.Error(diff)
	}
}

func TestProgressOfALaterVersionIsRefused(t *testing.T) {
	t.Parallel()
	kept := new(plan.Progress)
	if err := json.Unmarshal([]byte(`{"plan":{"loop":2},"next":0}`), kept); err == nil || !strings.Contains(err.Error(), "loop") {
		t.Errorf("got %v", err)
	}
	if err := json.Unmarshal([]byte(`{"plan":{"commands":[]},"next":0,"later":1}`), kept); err == nil {
		t.Error("a field of a later version was dropped")
	}
}
