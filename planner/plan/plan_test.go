package plan_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
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
	if !strings.HasPrefix(string(raw), `{"version":1,`) {
		t.Errorf("no version: %s", raw)
	}
}

// TestLoadPlanRefuses what it does not understand whole.
func TestLoadPlanRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "read plan",
		"hello":                               "read plan",
		`{"version":2,"steps":[]}`:            "it is of version 2; this program reads versions up to 1",
		`{"version":-1,"commands":[]}`:        "version -1",
		`{"commands":[],"loop":true}`:         `unknown field "loop"`,
		`{"commands":[{"type":"DO","if":1}]}`: `unknown field "if"`,
		`{"type":"recipe","commands":[]}`:     `"recipe"`,
		`{"commands":[]} {}`:                  "after top-level value",
		`{"commands":[]}`:                     "no_plan",
		`{"commands":[{"type":"DO","action":"fly","entities":{}}]}`:     "unknown_action",
		`{"commands":[{"type":"DO","action":"addItem","entities":{}}]}`: "missing_entities",
		"<plan>":                                                         "truncated",
		"<a/>":                                                           "not one <plan>, but 0",
		inPlan(wipeTag) + inPlan(wipeTag):                                "not one <plan>, but 2",
		inPlan(wipeTag) + wipeTag:                                        "not one <plan>",
		inPlan("<function.fly/>"):                                        "unknown_action",
		inPlan("<if>" + wipeTag + "</if>"):                               "invalid_plan",
		`<plan version="2"><loop/></plan>`:                               "it is of version \"2\"",
		`<plan version="x"/>`:                                            `it is of version "x"`,
		`<plan trimResults="true"/>`:                                     "no_plan",
		`<plan version="1" loop="3"/>`:                                   "attribute loop",
		`<plan version="1"></plan>`:                                      "no_plan",
		`<plan version="1"><function.fly/>`:                              "truncated",
		literal("<function.fly/>"):                                       "unknown_action",
		literal(`<function.wipe appendToResult="A"/>`):                   "appendToResult",
		literal(`<function.wipe setContextVariable="1"/>`):               "is no name",
		literal(`<function.summarize/>`):                                 "missing_entities",
		literal(`<function.summarize input="a" INPUT="b"/>`):             "twice",
		literal(`<say>$A</say><function.wipe setContextVariable="A"/>`):  "uses $A",
		literal(`<function.addItem list="a" item="b" quantity="many"/>`): "invalid_entities",
		`{"commands":[{"type":"SAY","response":"` + strings.Repeat("a", 1<<20) + `"`: "longer",
	} {
		if p, err := plan.Load([]byte(text), xmlActions(t)); err == nil || !strings.HasPrefix(err.Error(), "load plan: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, %v, want %s", text, p, err, want)
		}
	}
}

const wipeTag = "<function.wipe/>"

func literal(steps ...string) string {
	return `<plan version="1">` + strings.Join(steps, "\n") + "</plan>"
}

func TestPlanAsXML(t *testing.T) {
	t.Parallel()
	p := keptPlan()
	got, err := p.XML()
	want := `<plan version="1" trimResults="true">
  <function.summarize input="a &quot;b&quot; &lt;c> &amp; ]]> $$5&#10;&#13;&#9;x" setContextVariable="S"/>
  <function.addItem item="$CITY, $city" list="$S" quantity="12345678901234567890" urgent="true"/>
  <function.createList items="[&quot;c&quot;,&quot;$Other $S&quot;]" list=" b " more="{&quot;n&quot;:[1.50,null]}"/>
  <function.wipe/>
  <say>&lt;b>$S&lt;/b>&#13;
 &amp; so on</say>
</plan>
`
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("%v, -want +got\n%s", err, diff)
	}
	loaded, err := plan.Load([]byte(got), xmlActions(t))
	p.Salvaged, p.Repairs, p.Preface = false, nil, ""
	p.Commands[1].Entities["quantity"], p.Commands[1].Entities["urgent"] = "12345678901234567890", "true"
	delete(p.Commands[1].Entities, "none")
	p.Commands[2].Entities["more"] = `{"n":[1.50,null]}`
	if diff := cmp.Diff(p, loaded); diff != "" || err != nil {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
}

// TestLiteralXML: in a plan with a version nothing is filled in.
func TestLiteralXML(t *testing.T) {
	t.Parallel()
	got, err := plan.Load([]byte("<?xml version='1.0'?>\n<!-- mine -->\n"+literal(
		`<function.getEmail/>`, `<function.Writer.Translate input="$INPUT" language="$LANGUAGE" setContextVariable="T"/>`, `<function.addItem item="a" list="$T" quantity="$N"/>`)), xmlActions(t))
	want := plan.Plan{Commands: commands(
		do("getEmail", entities{}), saved("T", "Writer-Translate", entities{"input": "$INPUT", "language": "$LANGUAGE"}),
		do("addItem", entities{"item": "a", "list": "$T", "quantity": "$N"}),
	)}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("%v, -want +got\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"INPUT", "LANGUAGE", "N"}, plan.Inputs(got)); diff != "" {
		t.Error(diff)
	}
}

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

func TestWhatNoXMLCanSay(t *testing.T) {
	t.Parallel()
	for _, c := range []plan.Command{
		do("a b", nil), do("", nil), do("a", entities{"": "x"}), do("a", entities{"b c": "x"}), do("a", entities{"b=": "x"}), do("a", entities{"b": "x", "B": "x"}),
		do("a", entities{"setcontextvariable": "x"}), do("a", entities{"b": "\x00"}), do("a", entities{"b": "\xff"}), say(" "), say("\x1b[0m"),
	} {
		if text, err := (plan.Plan{Commands: commands(c)}).XML(); err == nil {
			t.Errorf("%+v is written as %s", c, text)
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
	if err := json.Unmarshal([]byte(`{"plan":{"version":2},"next":0}`), kept); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("got %v", err)
	}
	if err := json.Unmarshal([]byte(`{"plan":{"commands":[]},"next":0,"later":1}`), kept); err == nil {
		t.Error("a field of a later version was dropped")
	}
}

// FuzzPlanXML: a plan that XML can say is read back as it was.
func FuzzPlanXML(f *testing.F) {
	f.Add("list", "a\r\n$b $$ &amp; </plan>", "<say>", "A")
	f.Add("item", "]]>", "<![CDATA[x]]>", "")
	reg, err := actions.Read(strings.NewReader(`[{"name":"addItem"}]`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, name, value, text, saveAs string) {
		want := plan.Plan{Commands: commands(saved(saveAs, "addItem", entities{name: value}), say(text))}
		written, err := want.XML()
		if err != nil {
			return
		}
		if _, err := want.Validate(reg); err != nil {
			return
		}
		got, err := plan.Load([]byte(written), reg)
		want.Commands[1].Response = strings.TrimSpace(text)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%v, -want +got\n%s\n%s", err, diff, written)
		}
	})
}
