package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/planner/plan"
)

func do(action string, entities map[string]any) plan.Command {
	return plan.Command{Kind: plan.Do, Action: action, Entities: entities}
}

func say(text string) plan.Command { return plan.Command{Kind: plan.Say, Response: text} }

func commands(list ...plan.Command) []plan.Command { return list }

var milk = do("addItem", map[string]any{"list": "groceries", "item": "milk"})

// TestDecode pins what comes out, value by value, with the codes of the repairs.
func TestDecode(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		output string
		want   plan.Plan
	}{
		"as asked for": {planMilk, plan.Plan{Commands: commands(milk, say("Added milk."))}},
		"numbers keep their text": {
			`{"commands":[{"type":"DO","action":"a","entities":{"n":12345678901234567890.0,"e":1E3,"neg":-0.5}}]}`,
			plan.Plan{Commands: commands(do("a", map[string]any{
				"n": json.Number("12345678901234567890.0"), "e": json.Number("1E3"), "neg": json.Number("-0.5"),
			}))},
		},
		"commas": {
			`{"commands":[{"type":"SAY","response":"a",} {"type":"SAY","response":"b"},],}`,
			plan.Plan{Commands: commands(say("a"), say("b")), Repairs: []string{"commas"}},
		},
		"a comma too many in an object": {
			`{"commands":[{"type":"SAY","response":"a"}],}`,
			plan.Plan{Commands: commands(say("a")), Repairs: []string{"commas"}},
		},
		"foreign literals": {
			`{'commands':[{'type':'DO','action':'a','entities':{'t':True,'f':False,'n':None,'u':undefined}}]}`,
			plan.Plan{
				Commands: commands(do("a", map[string]any{"t": true, "f": false, "n": nil, "u": nil})),
				Repairs:  []string{"literals", "quotes"},
			},
		},
		"saveAs": {
			`{"commands":[{"type":"DO","action":"a","saveAs":"X_1"},{"type":"DO","action":"a","saveAs":"$y"},{"type":"DO","action":"a","saveAs":null}]}`,
			plan.Plan{Commands: commands(
				plan.Command{Kind: plan.Do, Action: "a", Entities: map[string]any{}, SaveAs: "X_1"},
				plan.Command{Kind: plan.Do, Action: "a", Entities: map[string]any{}, SaveAs: "y"},
				do("a", map[string]any{}),
			)},
		},
		"escapes": {
			`{"response":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00\ud83d\d\x41\u12G4\'é"}`,
			plan.Plan{
				Commands: commands(say("\"\\/\b\f\n\r\té😀\ufffd" + `\d\x41\u12G4'é`)),
				Repairs:  []string{"bare_commands", "escapes", "shape"},
			},
		},
		"an escape before a character of several bytes": {
			"{\"response\":\"a\\é\"}",
			plan.Plan{Commands: commands(say(`a\é`)), Repairs: []string{"bare_commands", "escapes", "shape"}},
		},
		"invalid UTF-8": {
			"{\"commands\":[{\"type\":\"SAY\",\"response\":\"a\xffb\"}]}",
			plan.Plan{Commands: commands(say("a\ufffdb")), Repairs: []string{"utf8"}},
		},
		"fence": {
			"```json\n" + planMilk + "\n```",
			plan.Plan{Commands: commands(milk, say("Added milk.")), Repairs: []string{"fence"}},
		},
		"label": {
			"const plan = " + planMilk + ";",
			plan.Plan{Commands: commands(milk, say("Added milk.")), Repairs: []string{"prose"}, Salvaged: true},
		},
		"prose around": {
			"Sure!\n\n```json\n" + planMilk + "\n```\n\nDone.",
			plan.Plan{Commands: commands(milk, say("Added milk.")), Repairs: []string{"fence", "prose"}, Salvaged: true},
		},
		"reasoning, end token, byte order mark": {
			"\ufeff<think>hm</think>\n" + planMilk + "<|im_end|>",
			plan.Plan{Commands: commands(milk, say("Added milk.")), Repairs: []string{"end_token", "prefix", "reasoning"}},
		},
		"HTML strikes": {
			"I replaced <s>milk</s>.\n" + planMilk,
			plan.Plan{Commands: commands(milk, say("Added milk.")), Repairs: []string{"prose"}, Salvaged: true},
		},
		"twice the same": {
			planMilk + "\n" + planMilk,
			plan.Plan{Commands: commands(milk, say("Added milk.")), Repairs: []string{"equal_plans"}},
		},
		"a tool call": {
			`{"name":"addItem","arguments":{"list":"groceries","item":"milk"}}`,
			plan.Plan{Commands: commands(milk), Repairs: []string{"tool_call"}},
		},
		"a string of JSON": {
			`"{\"commands\":[{\"type\":\"SAY\",\"response\":\"Hi\"},]}"`,
			plan.Plan{Commands: commands(say("Hi")), Repairs: []string{"commas", "json_string"}},
		},
		"strings keep what looks like marks": {
			`{"commands":[{"type":"SAY","response":"</think> <|im_end|> </s> ` + "```" + ` // /* # , } ]"}]}`,
			plan.Plan{Commands: commands(say("</think> <|im_end|> </s> ``` // /* # , } ]"))},
		},
		"prose": {"  Hello.\n", plan.Plan{Commands: commands(say("Hello.")), Prose: true}},
		"prose behind reasoning": {
			"hm</think>Hello.",
			plan.Plan{Commands: commands(say("Hello.")), Repairs: []string{"reasoning"}, Prose: true},
		},
		"prose around reasoning": {
			"Hello\n<think>\nhm\n</think>\nthere.",
			plan.Plan{Commands: commands(say("Hello\n\nthere.")), Repairs: []string{"reasoning"}, Prose: true},
		},
		"prose in quotes": {`"Hello."`, plan.Plan{Commands: commands(say("Hello.")), Repairs: []string{"json_string"}, Prose: true}},
		"SAY":             {"SAY: Hello.", plan.Plan{Commands: commands(say("Hello.")), Prose: true}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := plan.Decode(test.output)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestDecodeDetail: what is fed back to the model has to name the fault.
func TestDecodeDetail(t *testing.T) {
	t.Parallel()
	reg := vectorActions(t)
	tests := map[string]struct {
		output string
		kind   plan.FaultKind
		detail string
	}{
		"where it breaks":    {`{"type":"plan","commands":[{"type":"SAY" oops}]}`, plan.InvalidPlan, "oops"},
		"which command":      {`{"commands":[` + sayMilk + `,{"type":"DO"}]}`, plan.InvalidPlan, "command 2: the DO names no action"},
		"which type":         {`{"commands":[{"type":"SING"}]}`, plan.InvalidPlan, `"SING"`},
		"which key twice":    {`{"commands":[` + sayMilk + `],"Commands":[` + doMilk + `]}`, plan.InvalidPlan, `"commands" is given twice`},
		"which entity twice": {`{"commands":[{"type":"DO","action":"a","entities":{"b":1,"b":2}}]}`, plan.InvalidPlan, `"b"`},
		"nearest actions":    {`{"commands":[{"type":"DO","action":"add_items"}]}`, plan.UnknownAction, "the nearest names are addItem"},
		"no nearest action":  {`{"commands":[{"type":"DO","action":"zzz"}]}`, plan.UnknownAction, "use only the actions that are listed"},
		"missing entities":   {`{"commands":[{"type":"DO","action":"addItem","entities":{"Item":"x"}}]}`, plan.MissingEntities, "command 1, action addItem: missing required entities list, item"},
		"wrong entity":       {`{"commands":[{"type":"DO","action":"pause","entities":{"time":"soon"}}]}`, plan.InvalidEntities, `entity time: want a number, got the string "soon"`},
		"too deep":           {`{"commands":[` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `]}`, plan.InvalidPlan, "less nesting"},
		"too long":           {strings.Repeat("a", 1<<20+1), plan.InvalidPlan, "longer than"},
		"cut":                {`{"commands":[` + doMilk, plan.Truncated, "ends before"},
		"variables":          {`{"commands":[{"type":"SAY","response":"$x"},{"type":"DO","action":"getLightStatus","saveAs":"X"}]}`, plan.InvalidPlan, "command 1 uses $x, which only command 2 saves"},
		"XML":                {`<plan><function.addItem/></plan>`, plan.InvalidPlan, "XML"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := plan.Decode(test.output)
			if err == nil {
				_, err = p.Validate(reg)
			}
			var fault *plan.Fault
			if !errors.As(err, &fault) {
				t.Fatalf("got %v", err)
			}
			if fault.Kind != test.kind || !strings.Contains(fault.Detail, test.detail) {
				t.Errorf("got %s: %s", fault.Kind, fault.Detail)
			}
			if !strings.Contains(err.Error(), string(test.kind)) {
				t.Errorf("the error does not name its kind: %v", err)
			}
		})
	}
}

// TestDecodeDepth: values may nest, but not without bound.
func TestDecodeDepth(t *testing.T) {
	t.Parallel()
	nested := func(n int) string {
		return `{"commands":[{"type":"DO","action":"a","entities":{"x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}}]}`
	}
	if _, err := plan.Decode(nested(200)); err != nil {
		t.Errorf("200 deep: %v", err)
	}
	if _, err := plan.Decode(nested(1000)); err == nil {
		t.Error("1000 deep was decoded")
	}
}

// TestDecodePrefixes cuts good outputs at every byte: what is cut off never runs.
// Only the last } may be missing.
func TestDecodePrefixes(t *testing.T) {
	t.Parallel()
	outputs := []string{
		planMilk,
		"Sure:\n```json\n" + planMilk + "\n```\nDone.",
		`{"commands":[` + doMilk + `,` + doMilk + `],"note":"x","n":12,"l":[1]}`,
		"[" + doMilk + "," + sayMilk + "]",
		"<think>a</think>" + planMilk + "<|im_end|>",
		strings.ReplaceAll(planMilk, `"`, `'`),
		`{"plan":` + planMilk + `}`,
		`{type:plan,commands:[{type:DO,action:deleteList,entities:{list:"groceries-2"}}]} // ok`,
	}
	for _, output := range outputs {
		whole, err := plan.Decode(output)
		if err != nil {
			t.Errorf("%s: %v", output, err)
		}
		for n := range output {
			part, err := plan.Decode(output[:n])
			if err != nil || !hasDo(part) {
				continue
			}
			if diff := cmp.Diff(whole.Commands, part.Commands); diff != "" {
				t.Errorf("cut at %d: %s\n%s", n, output[:n], diff)
			}
		}
	}
}

func hasDo(p plan.Plan) bool { return p.LastDo() >= 0 }
