package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// TestVectorsOfSemanticKernel are the inputs of the tests of its plan parser, with
// what this project makes of them.
func TestVectorsOfSemanticKernel(t *testing.T) {
	t.Parallel()
	reg, err := actions.Read(strings.NewReader(`[
		{"name":"SummarizePlugin-Summarize","parameters":{"properties":{"input":{"type":"string"}}}},
		{"name":"WriterPlugin-Translate","parameters":{"properties":{"input":{"type":"string"},"language":{"type":"string"}}}},
		{"name":"email-GetEmailAddressAsync","parameters":{"properties":{"input":{"type":"string"}}}},
		{"name":"email-SendEmailAsync","parameters":{"properties":{"input":{"type":"string"},"email_address":{"type":"string"}}}},
		{"name":"MockPlugin-Echo","parameters":{"properties":{"input":{"type":"string"}}}},
		{"name":"Echo","parameters":{"properties":{"input":{"type":"string"}}}}]`))
	if err != nil {
		t.Fatal(err)
	}
	echo := func(action string) []plan.Command {
		return commands(saved("OUTPUT_1", action, entities{"input": "Hello World"}), say("$OUTPUT_1"))
	}
	for name, test := range map[string]struct {
		text  string
		want  []plan.Command
		fault plan.FaultKind
	}{
		"a plan of four": {
			text: "\n<plan>\n    <function.SummarizePlugin.Summarize/>\n    <function.WriterPlugin.Translate language=\"French\" setContextVariable=\"TRANSLATED_SUMMARY\"/>\n" +
				"    <function.email.GetEmailAddressAsync input=\"John Doe\" setContextVariable=\"EMAIL_ADDRESS\" appendToResult=\"PLAN_RESULT\"/>\n" +
				"    <function.email.SendEmailAsync input=\"$TRANSLATED_SUMMARY\" email_address=\"$EMAIL_ADDRESS\"/>\n</plan>",
			want: commands(
				saved("OUTPUT_1", "SummarizePlugin-Summarize", entities{"input": "the goal"}),
				saved("TRANSLATED_SUMMARY", "WriterPlugin-Translate", entities{"language": "French", "input": "$OUTPUT_1"}),
				saved("EMAIL_ADDRESS", "email-GetEmailAddressAsync", entities{"input": "John Doe"}),
				do("email-SendEmailAsync", entities{"input": "$TRANSLATED_SUMMARY", "email_address": "$EMAIL_ADDRESS"}),
				say("$EMAIL_ADDRESS"),
			),
		},
		"not well formed":       {text: "<someTag>", fault: plan.InvalidPlan},
		"tags alone":            {text: "<someTag>\n <other a='1'/></someTag>", fault: plan.InvalidPlan},
		"text in the plan":      {text: `<goal>g</goal><plan><function.MockPlugin.Echo input="Hello World"/>This is some text</plan>`, want: echo("MockPlugin-Echo")},
		"within other elements": {text: `<root><plan><function.MockPlugin.Echo input="Hello World"/></plan></root>`, want: echo("MockPlugin-Echo")},
		"without a plugin":      {text: `<plan><function.Echo input="Hello World" /></plan>`, want: echo("Echo")},
		"the plan is cut":       {text: `<plan><function.MockPlugin.Echo input="Hello World"/>`, fault: plan.Truncated},
		"missing":               {text: inPlan(`<function.MockPlugin.Echo input="Hello World"/>`, `<function.MockPlugin.DoesNotExist input="x"/>`), fault: plan.UnknownAction},
	} {
		p, err := plan.DecodeXML(test.text, "the goal", reg)
		var fault *plan.Fault
		if errors.As(err, &fault) != (test.fault != "") || err != nil && fault.Kind != test.fault {
			t.Errorf("%s: got %v, want %s", name, err, test.fault)
		}
		if diff := cmp.Diff(test.want, p.Commands); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

// TestWhatAppendsToTheResult: a step that sets a name which any step appends to
// the result is a part of the result, too.
func TestWhatAppendsToTheResult(t *testing.T) {
	t.Parallel()
	reg := xmlActions(t)
	for name, test := range map[string]struct {
		steps []string
		want  []plan.Command
	}{
		"set as a name that is appended later": {
			[]string{`<function.getEmail input="a" setContextVariable="r"/>`, `<function.getEmail input="b" appendToResult="R"/>`},
			commands(saved("r", "getEmail", entities{"input": "a"}), saved("R_2", "getEmail", entities{"input": "b"}), say("$r\n$R_2")),
		},
		"an empty input chains in spite of a default": {
			[]string{`<function.wipe/>`, `<function.getEmail input=""/>`},
			commands(saved("OUTPUT_1", "wipe", entities{}), saved("OUTPUT_2", "getEmail", entities{"input": "$OUTPUT_1"}), say("$OUTPUT_2")),
		},
		"an index behind a dollar sign is text": {
			[]string{`<function.wipe setContextVariable="A"/>`, `<function.summarize input="${A} $$A[1] $$B[1] $5[1]"/>`},
			commands(saved("A", "wipe", entities{}), saved("OUTPUT_2", "summarize", entities{"input": "${A} $$A[1] $$B[1] $5[1]"}), say("$OUTPUT_2")),
		},
		"a citation behind a variable is text": {
			[]string{`<function.wipe setContextVariable="A"/>`, `<say>$A[1]</say>`},
			commands(saved("A", "wipe", entities{}), say("$A[1]")),
		},
	} {
		p, err := plan.DecodeXML(inPlan(test.steps...), "the goal", reg)
		if diff := cmp.Diff(test.want, p.Commands); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got\n%s", name, err, diff)
		}
	}
}

// TestMadeUpPluginsAreNamed with the action that the model may have meant.
func TestMadeUpPluginsAreNamed(t *testing.T) {
	t.Parallel()
	_, err := plan.DecodeXML(inPlan(`<function.Summarizer.summarize input="a"/>`), "", xmlActions(t))
	if want := `no action "Summarizer.summarize"; the nearest names are summarize`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAVariableIsNoList: Semantic Kernel's own prompt forbids it, and models do it.
func TestAVariableIsNoList(t *testing.T) {
	t.Parallel()
	reg := xmlActions(t)
	for _, steps := range [][]string{
		{`<function.wipe setContextVariable="A"/>`, `<function.summarize input="$A[1]"/>`},
		{`<function.wipe setContextVariable="A"/>`, `<function.summarize input="see $$$a[0].name"/>`},
		{`<function.wipe/>`, `<function.summarize input="$INPUT[1]"/>`},
		{`<function.summarize input="$INPUT[2]"/>`},
	} {
		p, err := plan.DecodeXML(inPlan(steps...), "the goal", reg)
		var fault *plan.Fault
		if !errors.As(err, &fault) || fault.Kind != plan.InvalidPlan || !strings.Contains(fault.Detail, "as a list, but it is one value") {
			t.Errorf("%v: got %v %+v", steps, err, p.Commands)
		}
	}
}

// TestNamesOfFunctions are those of Semantic Kernel, in XML and in JSON: with the plugin in either form, or without
// it where only one plugin has such a function.
func TestNamesOfFunctions(t *testing.T) {
	t.Parallel()
	reg, err := actions.Read(strings.NewReader(`[{"name":"WriterPlugin-ShortPoem"},{"name":"WriterPlugin-Limerick"},{"name":"FunPlugin-Limerick"},{"name":"wipe"}]`))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"WriterPlugin.ShortPoem": "WriterPlugin-ShortPoem", "WriterPlugin-ShortPoem": "WriterPlugin-ShortPoem", "shortpoem": "WriterPlugin-ShortPoem",
		"functions.WriterPlugin.ShortPoem": "WriterPlugin-ShortPoem", "FunPlugin.Limerick": "FunPlugin-Limerick", "wipe": "wipe",
		"Limerick": "", "OtherPlugin.ShortPoem": "", "WriterPlugin.ShortPoem.x": "", "Poem": "",
	} {
		xml, xmlErr := plan.DecodeXML(inPlan("<function."+name+"/>"), "", reg)
		json, jsonErr := plan.Plan{Commands: commands(do(name, entities{}))}.Validate(reg)
		for _, err := range []error{xmlErr, jsonErr} {
			var fault *plan.Fault
			if errors.As(err, &fault) != (want == "") || fault != nil && fault.Kind != plan.UnknownAction {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if want != "" && (xml.Commands[0].Action != want || json.Commands[0].Action != want) {
			t.Errorf("%s: got %s and %s, want %s", name, xml.Commands[0].Action, json.Commands[0].Action, want)
		}
	}
}
