package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// xmlActions are actions with an input, without one, with defaults, lists and
// a plugin in their names.
func xmlActions(t testing.TB) *actions.Registry {
	t.Helper()
	reg, err := actions.Read(strings.NewReader(`[
		{"name":"summarize","parameters":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}},
		{"name":"Writer-Translate","parameters":{"type":"object","properties":{"input":{"type":"string"},"language":{"type":"string"}},"required":["input","language"]}},
		{"name":"sendEmail","parameters":{"type":"object","properties":{"input":{"type":"string"},"email_address":{"type":"string"}},"required":["input","email_address"]}},
		{"name":"getEmail","parameters":{"type":"object","properties":{"input":{"type":"string","default":"nobody"}}}},
		{"name":"addItem","parameters":{"type":"object","properties":{"list":{"type":"string"},"item":{"type":"string"},"quantity":{"type":"integer"},"urgent":{"type":"boolean"}},"required":["list","item"]}},
		{"name":"createList","parameters":{"type":"object","properties":{"list":{"type":"string"},"items":{"type":"array","items":{"type":"string"}}},"required":["list"]}},
		{"name":"Tool-clean"}, {"name":"Tool_clean"}, {"name":"Tool_wash"},
		{"name":"wipe"}
	]`))
	if err != nil {
		t.Fatal(err)
	}
	return reg
}

func saved(name, action string, entities map[string]any) plan.Command {
	c := do(action, entities)
	c.SaveAs = name
	return c
}

type entities = map[string]any

func inPlan(steps ...string) string { return "<plan>" + strings.Join(steps, "\n") + "</plan>" }

// TestDecodeXML pins what each plan means. The goal is "the goal".
func TestDecodeXML(t *testing.T) {
	t.Parallel()
	addMilk := func(name string) plan.Command {
		return saved(name, "addItem", entities{"list": "groceries", "item": "milk"})
	}
	const milkTag = `<function.addItem list="groceries" item="milk"/>`
	tests := map[string]struct {
		output string
		want   []plan.Command
	}{
		"the last output is the result": {inPlan(milkTag), commands(addMilk("OUTPUT_1"), say("$OUTPUT_1"))},
		"a text behind it takes its place": {
			inPlan(milkTag, `<say>Added milk &amp; more.</say>`),
			commands(addMilk(""), say("Added milk & more.")),
		},
		"a text before it does not": {
			inPlan(`<say>I try.</say>`, milkTag),
			commands(say("I try."), addMilk("OUTPUT_2"), say("$OUTPUT_2")),
		},
		"the example of Semantic Kernel": {
			"\n" + inPlan(
				`<!-- because --><function._global_functions_.summarize/>`,
				`<function.Writer.Translate language="French" setContextVariable="TRANSLATED_SUMMARY"/>`,
				`<function.getEmail input="John Doe" setContextVariable="EMAIL_ADDRESS" appendToResult="PLAN_RESULT"/>`,
				`<function.functions.sendEmail input="$TRANSLATED_SUMMARY" email_address="$EMAIL_ADDRESS"/>`) + "\n<!-- END -->",
			commands(
				saved("OUTPUT_1", "summarize", entities{"input": "the goal"}),
				saved("TRANSLATED_SUMMARY", "Writer-Translate", entities{"language": "French", "input": "$OUTPUT_1"}),
				saved("EMAIL_ADDRESS", "getEmail", entities{"input": "John Doe"}),
				do("sendEmail", entities{"input": "$TRANSLATED_SUMMARY", "email_address": "$EMAIL_ADDRESS"}),
				say("$EMAIL_ADDRESS"),
			),
		},
		"results in order, one name twice": {
			inPlan(`<function.getEmail input="a" appendToResult="RESULT__X"/>`, `<function.getEmail input="b" appendToResult="RESULT__X"/>`, `<function.wipe/>`),
			commands(saved("RESULT__X", "getEmail", entities{"input": "a"}), saved("RESULT__X_2", "getEmail", entities{"input": "b"}), do("wipe", entities{}), say("$RESULT__X\n$RESULT__X_2")),
		},
		"an implicit input is the output before, not the result": {
			inPlan(`<function.getEmail appendToResult="R"/>`, `<function.wipe/>`, `<function.summarize input=""/>`),
			commands(saved("R", "getEmail", entities{}), saved("OUTPUT_2", "wipe", entities{}), do("summarize", entities{"input": "$OUTPUT_2"}), say("$R")),
		},
		"the last write wins, and earlier readers keep theirs": {
			inPlan(`<function.getEmail input="a" setContextVariable="X"/>`, `<function.summarize input="$X" setContextVariable="x" appendToResult="R"/>`, `<say>$X of $R</say>`),
			commands(saved("X", "getEmail", entities{"input": "a"}), saved("x_2", "summarize", entities{"input": "$X"}), say("$x_2 of $x_2"), say("$x_2")),
		},
		"a result is kept when its variable is written again": {
			inPlan(`<function.getEmail input="a" setContextVariable="X" appendToResult="R"/>`, `<function.getEmail input="b" setContextVariable="X"/>`),
			commands(saved("X", "getEmail", entities{"input": "a"}), saved("X_2", "getEmail", entities{"input": "b"}), say("$X")),
		},
		"names that are made up are free": {
			inPlan(`<function.wipe/>`, `<function.summarize input="$INPUT but $OUTPUT_1"/>`),
			commands(saved("OUTPUT_2", "wipe", entities{}), saved("OUTPUT_3", "summarize", entities{"input": "$OUTPUT_2 but $OUTPUT_1"}), say("$OUTPUT_3")),
		},
		"$INPUT is the goal, once, and no variable in it counts": {
			inPlan(`<function.summarize input="Hello $INPUT$input $$INPUT $INPUTS"/>`),
			commands(saved("OUTPUT_1", "summarize", entities{"input": "Hello the goalthe goal $$INPUT $INPUTS"}), say("$OUTPUT_1")),
		},
		"a default blocks the input": {
			inPlan(`<function.wipe/>`, `<function.getEmail/>`),
			commands(do("wipe", entities{}), saved("OUTPUT_2", "getEmail", entities{}), say("$OUTPUT_2")),
		},
		"a variable fills in the entity of its name, an attribute wins": {
			inPlan(`<function.getEmail setContextVariable="LIST"/>`, `<function.addItem item="a"/>`, `<function.addItem item="a" list="b"/>`, `<say>ok</say>`),
			commands(saved("LIST", "getEmail", entities{}), do("addItem", entities{"item": "a", "list": "$LIST"}), do("addItem", entities{"item": "a", "list": "b"}), say("ok")),
		},
		"$$ without variables": {
			inPlan(`<function.addItem list="$$x" item="$5 $y"/>`, `<say>$$z</say>`),
			commands(do("addItem", entities{"list": "$x", "item": "$5 $y"}), say("$z")),
		},
		"names in any case": {
			`<PLAN><Function.ADDITEM List="groceries" ITEM="milk" SETCONTEXTVARIABLE="a" APPENDTORESULT="b"></function.addItem></Plan>`,
			commands(addMilk("a"), say("$a")),
		},
		"names with a plugin": {
			inPlan(`<function.tool.wash/>`, `<function.Tool_wash/>`, `<function.tool-clean/>`, `<say>ok</say>`),
			commands(do("Tool_wash", entities{}), do("Tool_wash", entities{}), do("Tool-clean", entities{}), say("ok")),
		},
		"a dollar before the name of a variable": {
			inPlan(`<function.wipe setContextVariable="$A"/>`, `<say>$A</say>`),
			commands(saved("A", "wipe", entities{}), say("$A")),
		},
		"types": {
			inPlan(`<function.createList list="[1]" items='["a","$INPUT"]'/>`, `<function.addItem list="a" item="b" quantity="2" urgent="true"/>`, `<say>ok</say>`),
			commands(do("createList", entities{"list": "[1]", "items": []any{"a", "the goal"}}), do("addItem", entities{"list": "a", "item": "b", "quantity": "2", "urgent": "true"}), say("ok")),
		},
		"entities of XML, each once": {
			inPlan(`<function.addItem list="&lt;a&gt; &amp;amp; &quot;&apos;&#65;&#x42;" item='"b"'/>`, `<say><![CDATA[a < b &amp;]]></say>`),
			commands(do("addItem", entities{"list": `<a> &amp; "'AB`, "item": `"b"`}), say("a < b &amp;")),
		},
		"no XML, but with one meaning": {
			inPlan(`<function.addItem list = 'a & b <= c &nbsp; &#0;' item=milk quantity=2/>`, `<say>1 < 2 & <b>3</b></say>`),
			commands(do("addItem", entities{"list": "a & b <= c &nbsp; &#0;", "item": "milk", "quantity": "2"}), say("1 < 2 & <b>3</b>")),
		},
		"other elements and text": {
			inPlan(`Now <b>add</b> 1 < 2: <someTag a="1"/><?x y?><![CDATA[<function.wipe/>]]><!-- <function.wipe/> -->`, milkTag+`text`, `<function.wipe>text<!-- > --></function.wipe><say> </say>`),
			commands(addMilk(""), saved("OUTPUT_2", "wipe", entities{}), say("$OUTPUT_2")),
		},
		"goal, fence and comment around": {
			"<goal>wipe <plan</goal>\n```xml\n<?xml version=\"1.0\"?>\n" + inPlan(milkTag, "<say>ok</say>") + "\n```\n<!-- END -->",
			commands(addMilk(""), say("ok")),
		},
		"the last plan that may run": {
			inPlan("<function.wipe/>") + "\nno:\n" + inPlan(milkTag, "<say>ok</say>") + "\nor:\n" + inPlan("<function.unknown/>") + "\n" + inPlan("<function.wipe x=/>"),
			commands(addMilk(""), say("ok")),
		},
		"a plan that is only spoken of": {"Here is the <plan>: " + inPlan(milkTag, "<say>ok</say>"), commands(addMilk(""), say("ok"))},
		"not the reasoning": {
			"<think>" + inPlan("<function.wipe/>") + "</think>" + inPlan(milkTag, "<say>ok</say>") + "<|im_end|>" + inPlan("<function.wipe/>"),
			commands(addMilk(""), say("ok")),
		},
		"reasoning that began in the prompt": {inPlan("<function.wipe/>") + "</think>" + inPlan(milkTag, "<say>ok</say>"), commands(addMilk(""), say("ok"))},
		"a plan in the reasoning alone":      {inPlan("<function.wipe/>") + "</think>Which list?", commands(say("Which list?"))},
		"the same attribute twice":           {inPlan(`<function.addItem list="groceries" item="milk" ITEM="milk"/>`, "<say>ok</say>"), commands(addMilk(""), say("ok"))},
		"JSON":                               {planMilk, commands(milk, say("Added milk."))},
		"JSON with a plan in a text":         {`{"commands":[{"type":"SAY","response":"<plan><function.wipe/></plan>"}]}`, commands(say("<plan><function.wipe/></plan>"))},
		"prose":                              {"Which list? The <b>first</b>?", commands(say("Which list? The <b>first</b>?"))},
	}
	reg := xmlActions(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := plan.DecodeXML(test.output, "the goal", reg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, p.Commands); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestDecodeXMLFaults: what is no plan runs nothing.
func TestDecodeXMLFaults(t *testing.T) {
	t.Parallel()
	const wipe = `<function.wipe/>`
	tests := map[string]struct {
		output string
		want   plan.FaultKind
	}{
		"nothing":                                 {"", plan.NoPlan},
		"an empty plan":                           {"<plan />", plan.NoPlan},
		"an empty plan of two tags":               {"<plan> <!-- no --> </plan>", plan.NoPlan},
		"a plan taken back":                       {inPlan(wipe) + "\n<plan/>", plan.NoPlan},
		"an empty plan for what is not done":      {"I will not do this: <plan/>", plan.NoPlan},
		"cut in the plan":                         {"<plan>" + wipe, plan.Truncated},
		"cut in its closing tag":                  {"<plan>" + wipe + "</plan", plan.Truncated},
		"cut in a tag":                            {"<plan>" + wipe + "<function.wi", plan.Truncated},
		"cut in a value":                          {`<plan>` + wipe + `<function.addItem list="a`, plan.Truncated},
		"cut behind a value":                      {`<plan>` + wipe + `<function.addItem list="a"`, plan.Truncated},
		"cut in a name":                           {`<plan>` + wipe + `<function.addItem li`, plan.Truncated},
		"cut in a comment":                        {"<plan>" + wipe + "<!-- </plan>", plan.Truncated},
		"cut in a text":                           {"<plan>" + wipe + "<say>a", plan.Truncated},
		"cut in a function":                       {"<plan><function.wipe>", plan.Truncated},
		"cut in the reasoning":                    {"<think>" + inPlan(wipe), plan.Truncated},
		"a second plan that is cut":               {inPlan(wipe) + "\nBetter:\n<plan>" + wipe, plan.Truncated},
		"a tag in character data":                 {inPlan("<note><![CDATA[</note>" + wipe + "<note>]]></note>"), plan.InvalidPlan},
		"a tag in a comment":                      {inPlan("<note><!-- </note>" + wipe + " -->"), plan.InvalidPlan},
		"unknown":                                 {inPlan(wipe, "<function.unknown/>"), plan.UnknownAction},
		"unknown in a plugin":                     {inPlan("<function.A.unknown/>"), plan.UnknownAction},
		"another plugin's":                        {inPlan("<function.Writer.wipe/>"), plan.UnknownAction},
		"a plugin that is made up":                {inPlan("<function.Backup.wipe/>"), plan.UnknownAction},
		"a plugin of the wrong function":          {inPlan(`<function.Backup.Translate input="a" language="b"/>`), plan.UnknownAction},
		"a namespace and another plugin's":        {inPlan(`<function._GLOBAL_FUNCTIONS_.Translate input="a" language="b"/>`), plan.UnknownAction},
		"a function of two plugins":               {inPlan("<function.Tool.clean/>"), plan.UnknownAction},
		"a plugin too many":                       {inPlan("<function.a.b.wipe/>"), plan.UnknownAction},
		"missing":                                 {inPlan(`<function.addItem list="a"/>`), plan.MissingEntities},
		"misfit":                                  {inPlan(`<function.addItem list="a" item="b" quantity="many"/>`), plan.InvalidEntities},
		"no function":                             {inPlan("<function./>"), plan.InvalidPlan},
		"a variable too early":                    {inPlan(`<function.summarize input="$A"/>`, `<function.wipe setContextVariable="A"/>`), plan.InvalidPlan},
		"no name for a variable":                  {inPlan(`<function.wipe setContextVariable="a b"/>`), plan.InvalidPlan},
		"two names for a variable":                {inPlan(`<function.wipe setContextVariable="a" SetContextVariable="b"/>`), plan.InvalidPlan},
		"quotes of another kind":                  {inPlan("<function.addItem list=“a” item='b'/>"), plan.InvalidPlan},
		"an attribute with two values":            {inPlan(`<function.addItem list="a" item="b" LIST="c"/>`), plan.InvalidPlan},
		"a quote in a value":                      {inPlan(`<function.addItem list="a" item="a "good" b"/>`), plan.InvalidPlan},
		"a quote in a value, with spaces":         {inPlan(`<function.addItem list="a" item="a " good " b"/>`), plan.InvalidPlan},
		"an escaped quote in a value":             {inPlan(`<function.addItem list="a" item="a \"good\" b"/>`), plan.InvalidPlan},
		"no closing quote":                        {inPlan(`<function.addItem list="a" item="b/>`, `<function.summarize input="c"/>`), plan.InvalidPlan},
		"no closing quote at the end":             {inPlan(`<function.addItem list="a" item="b/>`) + "\n\"quoted\"", plan.InvalidPlan},
		"several words without quotes":            {inPlan(`<function.addItem list=my groceries item=milk/>`), plan.InvalidPlan},
		"a function in a function":                {inPlan(`<function.wipe><function.wipe/></function.wipe>`), plan.InvalidPlan},
		"inputs as elements":                      {inPlan(`<function.getEmail><input>a</input></function.getEmail>`), plan.InvalidPlan},
		"a function that is not closed":           {inPlan(`<function.wipe><function.wipe/>`), plan.Truncated},
		"a function that is not closed, alone":    {inPlan(`<function.wipe>`), plan.Truncated},
		"a closing tag too many":                  {inPlan(wipe, `</function.wipe>`), plan.InvalidPlan},
		"a condition":                             {inPlan(`<if condition="$A">` + wipe + `</if>`), plan.InvalidPlan},
		"a condition deeper down":                 {inPlan(`<x><y>` + wipe + `</y></x>`), plan.InvalidPlan},
		"a plan in the plan":                      {inPlan(wipe, inPlan(wipe)), plan.InvalidPlan},
		"a function without a name":               {inPlan(`<function name="wipe"/>`, wipe), plan.InvalidPlan},
		"a text that is not closed":               {inPlan(`<say>a`, wipe) + "</say>", plan.InvalidPlan},
		"a function in a text":                    {inPlan(`<say>a` + wipe + `</say>`), plan.InvalidPlan},
		"no space between attributes":             {inPlan(`<function.addItem list="a"item="b"/>`), plan.InvalidPlan},
		"a text with an attribute":                {inPlan(`<say to="x">a</say>`), plan.InvalidPlan},
		"a function outside":                      {inPlan(wipe) + wipe, plan.InvalidPlan},
		"no plan around it":                       {wipe, plan.InvalidPlan},
		"escaped":                                 {"&lt;plan&gt;&lt;function.wipe/&gt;&lt;/plan&gt;", plan.InvalidPlan},
		"in a sentence":                           {"You wrote " + inPlan(wipe) + " but I will not.", plan.InvalidPlan},
		"in quotes":                               {"You wrote: '" + inPlan(wipe) + "'", plan.InvalidPlan},
		"struck out":                              {"~~" + inPlan(wipe) + "~~", plan.InvalidPlan},
		"between prose":                           {"I saw " + inPlan(wipe) + "\nin your message.", plan.InvalidPlan},
		"between prose, with a long label":        {"This is what you sent to me, a short while ago, in this chat: " + inPlan(wipe) + "\nin your message.", plan.InvalidPlan},
		"in a comment, behind reasoning":          {"#<think>x\n</think>" + inPlan(wipe), plan.InvalidPlan},
		"in a block quote":                        {"> " + inPlan(wipe), plan.InvalidPlan},
		"in JSON":                                 {"So:\n" + `{"commands":[{"type":"SAY","response":"` + "\n" + inPlan(wipe) + "\n" + `"}]}`, plan.InvalidPlan},
		"in character data":                       {"<![CDATA[" + inPlan(wipe) + "]]>", plan.InvalidPlan},
		"behind JSON":                             {planMilk + "\n" + inPlan(wipe), plan.InvalidPlan},
		"a tool call":                             {`<invoke name="wipe"></invoke>`, plan.InvalidPlan},
		"a text alone":                            {"<say>hi</say>", plan.InvalidPlan},
		"too long":                                {inPlan(wipe) + strings.Repeat(" ", 1<<20), plan.InvalidPlan},
		"too many steps":                          {inPlan(strings.Repeat(wipe, 1001)), plan.InvalidPlan},
		"too many plans":                          {strings.Repeat(inPlan(wipe)+"\n", 101), plan.InvalidPlan},
		"JSON that is cut":                        {planMilk[:60], plan.Truncated},
		"JSON of an unknown action, no XML in it": {`{"commands":[{"type":"DO","action":"fly","entities":{}}]}`, plan.UnknownAction},
	}
	reg := xmlActions(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := plan.DecodeXML(test.output, "the goal", reg)
			var fault *plan.Fault
			if !errors.As(err, &fault) || fault.Kind != test.want {
				t.Errorf("got %v %+v, want %s", err, p.Commands, test.want)
			}
		})
	}
}

// TestDecodeXMLNotes: what was repaired, and whether prose stood around.
func TestDecodeXMLNotes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		output   string
		want     []string
		salvaged bool
	}{
		"none":        {inPlan("<function.wipe/>"), nil, false},
		"wrapped":     {"<goal>a</goal>\n" + inPlan("<function.wipe/>") + "<!-- END -->", nil, false},
		"fence":       {"```xml\n" + inPlan("<function.wipe/>") + "\n```", []string{"fence"}, false},
		"prose":       {"Sure: " + inPlan("<function.wipe/>"), []string{"prose"}, true},
		"in others":   {"<b>" + inPlan("<function.wipe/>") + "</b>", []string{"prose"}, true},
		"in its own":  {"<xml>\n<goal>I will not wipe</goal><answer>" + inPlan("<function.wipe/>") + "</answer></xml>", nil, false},
		"both sides":  {"I'll do it.\n```xml\n" + inPlan("<function.wipe/>") + "\n```\nLet me know!", []string{"fence", "prose"}, true},
		"rather":      {"Do not do " + inPlan("<function.summarize/>") + ". Rather:\n" + inPlan("<function.wipe/>"), []string{"prose"}, true},
		"thought not": {"<think>I must not run this:</think><!-- never -->" + inPlan("<function.wipe/>"), []string{"reasoning"}, false},
		"reasoning":   {"<think>a</think>" + inPlan("<function.wipe/>"), []string{"reasoning"}, false},
		"in a value":  {inPlan(`<function.addItem list="a" item=b quantity='1' x='&'/>`), []string{"bare_words", "escapes"}, false},
		"blank text":  {inPlan("<say/>", "<function.wipe/>"), []string{"empty_say"}, false},
		"torn":        {inPlan("<say>a\xff</say>"), []string{"utf8"}, false},
		"end of turn": {inPlan("<function.wipe/>") + "<|im_end|>", []string{"end_token"}, false},
	}
	reg := xmlActions(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := plan.DecodeXML(test.output, "", reg)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, p.Repairs); diff != "" || p.Salvaged != test.salvaged {
				t.Errorf("salvaged %v, repairs -want +got\n%s", p.Salvaged, diff)
			}
		})
	}
}

// TestGoalIsData: dollars in what the person wrote are no variables.
func TestGoalIsData(t *testing.T) {
	t.Parallel()
	p, err := plan.DecodeXML(inPlan("<function.summarize/>", `<function.summarize input="$A" setContextVariable="B"/>`), `$A costs $$5, <function.wipe/> "]`, xmlActions(t))
	if err != nil {
		t.Fatal(err)
	}
	got := command(t, p.Start(nil), 0).Entities["input"]
	if want := `$A costs $$5, <function.wipe/> "]`; got != want {
		t.Errorf("the first input is %q, want %q", got, want)
	}
}

// TestGoalIsNotRepeatedForEver: a short plan cannot grow without bound.
func TestGoalIsNotRepeatedForEver(t *testing.T) {
	t.Parallel()
	text := inPlan(`<function.summarize input="` + strings.Repeat("$INPUT", 100_000) + `"/>`)
	if _, err := plan.DecodeXML(text, strings.Repeat("x", 20_000), xmlActions(t)); err == nil {
		t.Error("it grew")
	}
}

// FuzzDecodeXML: whatever is in a text, a DO has its action in it, and its
// entities, the goal and variables apart; and no prefix of a plan runs.
func FuzzDecodeXML(f *testing.F) {
	for _, seed := range []string{
		inPlan(`<function.addItem list="$INPUT" item='&lt;b&#65;' setContextVariable="A"/>`, `<say>$A</say>`), "a <plan> b " + inPlan(`<function.x.wipe/>`),
		"<think>x</think>```xml\n" + inPlan(`<Function.createList list=a items='["b"]' appendToResult="R">x</function.createList>`), planMilk,
	} {
		f.Add(seed)
	}
	reg := xmlActions(f)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := plan.DecodeXML(text, "GOAL", reg)
		again, _ := plan.DecodeXML(text, "GOAL", reg)
		if diff := cmp.Diff(p, again); diff != "" {
			t.Fatalf("a second reading differs: %s", diff)
		}
		if err != nil {
			var fault *plan.Fault
			if !errors.As(err, &fault) || fault.Detail == "" || len(p.Commands) != 0 {
				t.Fatalf("error %v, plan %v", err, p)
			}
			return
		}
		checkPlan(t, p)
		if _, err := p.Validate(reg); err != nil {
			t.Fatalf("not valid: %v", err)
		}
		if !isXMLPlan(text) {
			return
		}
		lower := strings.ToLower(text)
		for _, c := range p.Commands {
			if c.Kind == plan.Do && !strings.Contains(lower, strings.ToLower(c.Action[strings.LastIndexAny(c.Action, "-")+1:])) {
				t.Fatalf("no %s in the text", c.Action)
			}
			checkValues(t, text, c.Entities)
		}
	})
}

func isXMLPlan(text string) bool {
	return strings.Contains(strings.ToLower(text), "<plan") && !strings.Contains(text, "{")
}

// checkValues checks that strings without any marks are in the text.
func checkValues(t *testing.T, text string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, item := range value {
			checkValues(t, text, item)
		}
	case []any:
		raw, _ := json.Marshal(value)
		if !strings.Contains(text, "[") {
			t.Fatalf("%s is not in the text", raw)
		}
	case string:
		if utf8.ValidString(text) && !strings.Contains(value, "$") && !strings.ContainsAny(text, "&$") && !strings.Contains(value, "GOAL") && !strings.Contains(text, value) {
			t.Fatalf("%q is not in the text", value)
		}
	}
}

// TestNoPrefixRuns: wherever an answer was cut off, nothing of it is done.
func TestNoPrefixRuns(t *testing.T) {
	t.Parallel()
	reg := xmlActions(t)
	text := "Sure.\n<plan>\n" + `<function.addItem list="a &amp; b" item='x' setContextVariable="A"/> <!-- c -->` +
		"\n<if/> <function.wipe>text</function.wipe>\n<say>done <b>$A</b></say>\n</plan>"
	for size := range len(text) {
		if p, err := plan.DecodeXML(text[:size], "goal", reg); err == nil && hasDo(p) {
			t.Errorf("%q runs %+v", text[:size], p.Commands)
		}
	}
	if p, err := plan.DecodeXML(text, "goal", reg); err != nil || !hasDo(p) {
		t.Errorf("the whole: %+v, %v", p, err)
	}
}

// TestVectorsOfTheOtherFormat: what models write to the sequence planner means
// the same here, or nothing. Only XML plans are none there.
func TestVectorsOfTheOtherFormat(t *testing.T) {
	t.Parallel()
	reg := vectorActions(t)
	for _, v := range readVectors(t) {
		got, err := plan.DecodeXML(v.Output, "goal", reg)
		if err != nil || !hasDo(got) || strings.Contains(v.Output, "<function.") {
			continue
		}
		want, err := plan.Decode(v.Output)
		if err != nil {
			t.Errorf("%s: got %+v, not %v", v.Name, got.Commands, err)
		} else if want, err = want.Validate(reg); err != nil || !cmp.Equal(want, got) {
			t.Errorf("%s: got %+v, want %+v, %v", v.Name, got, want, err)
		}
	}
}
