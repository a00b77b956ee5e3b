package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/planner/plan"
)

// fourCommands is a plan as models write it on the main path.
const fourCommands = `{"type":"plan","commands":[` +
	`{"type":"DO","action":"createList","entities":{"list":"groceries","items":["milk","eggs"]}},` +
	`{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"bananas","quantity":6}},` +
	`{"type":"DO","action":"summarizeLists","entities":{},"saveAs":"LISTS"},` +
	`{"type":"SAY","response":"Done. Your lists:\n$LISTS"}]}`

// BenchmarkDecodeValidate is what a turn pays for a plan: less than 30 µs and 200
// allocations.
func BenchmarkDecodeValidate(b *testing.B) {
	reg := vectorActions(b)
	b.ReportAllocs()
	b.SetBytes(int64(len(fourCommands)))
	for b.Loop() {
		p, err := plan.Decode(fourCommands)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Validate(reg); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeRepaired is the same plan fenced in prose, with commas to repair.
func BenchmarkDecodeRepaired(b *testing.B) {
	text := "Sure, here is the plan:\n```json\n" + fourCommands[:len(fourCommands)-2] + ",],}\n```\nAnything else?"
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plan.Decode(text); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDecodeAllocations keeps the number of allocations of the main path.
func TestDecodeAllocations(t *testing.T) { // not parallel: it counts allocations
	reg := vectorActions(t)
	allocs := testing.AllocsPerRun(100, func() {
		p, err := plan.Decode(fourCommands)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Validate(reg); err != nil {
			t.Fatal(err)
		}
	})
	if allocs >= 500 { // the race detector doubles them
		t.Errorf("%v allocations, want less than 500", allocs)
	}
}

// BenchmarkDecodeXML reads and validates a plan of four commands.
func BenchmarkDecodeXML(b *testing.B) {
	reg := xmlActions(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := plan.DecodeXML(fourInXML, "the goal", reg); err != nil {
			b.Fatal(err)
		}
	}
}

// fourInXML becomes three DOs and a SAY.
var fourInXML = inPlan(`<function.summarize setContextVariable="S"/>`, `<function.Writer.Translate input="$S" language="French" setContextVariable="T"/>`,
	`<function.sendEmail input="$T" email_address="mia@example.com" appendToResult="RESULT__SENT"/>`)

func TestDecodeXMLAllocations(t *testing.T) { // not parallel: it counts allocations
	reg := xmlActions(t)
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := plan.DecodeXML(fourInXML, "the goal", reg); err != nil {
			t.Fatal(err)
		}
	})
	const most = 400 // with the race detector; 240 without it
	if allocs > most {
		t.Errorf("%v allocations, want %d at most", allocs, most)
	}
}

// BenchmarkDecodeXMLHostile reads what takes longest to read, at two sizes: at
// both sizes a byte should take the same time, and 1 MiB less than 50 ms.
func BenchmarkDecodeXMLHostile(b *testing.B) {
	reg := xmlActions(b)
	const whole = "<plan><function.wipe/></plan>"
	for name, text := range map[string][3]string{
		"tags":          {"", "<a>", ""},
		"unclosed tags": {"", "<think", ""},
		"closing tags":  {"", "</a>", ""},
		"reasoning":     {"", "<think>a</think>", ""},
		"plans spoken":  {"", "<plan>", ""},
		"goals":         {whole, "<goal>", "\n" + whole},
		"prose":         {whole + "\n", "? ", "\n" + whole},
		"fences":        {whole + "\n", "```\n", ""},
		"quotes":        {whole + "\n", `"`, ""},
		"lines":         {"", "x\n", ""},
		"diamonds":      {"text ", "◁", ""},
		"brackets":      {"{", "[", "</plan>"},
		"variables":     {"<plan><say>", "$A", "</say></plan>"},
		"saved":         {"<plan><function.wipe setContextVariable='A'/><say>", "$A", "</say></plan>"},
		"made up names": {"<plan><function.wipe/><say>$INPUT", " $OUTPUT_1", "</say></plan>"},
		"entities":      {"<plan><say>", "&", "</say></plan>"},
		"inputs":        {"<plan>", "<function.wipe " + strings.Repeat("A='' ", 199) + "/>", "</plan>"},
		"references":    {"<plan>", "<function.summarize input='" + strings.Repeat("$A$INPUT", 200) + "' setContextVariable='A'/>", "</plan>"},
		"attributes":    {"<plan><function.wipe>", "<a b='c'/>", "</function.wipe></plan>"},
		"values":        {"<plan><function.wipe x='", "<", "'/></plan>"},
	} {
		for _, size := range []int{1 << 17, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				text := text[0] + strings.Repeat(text[1], (size-len(text[0])-len(text[2]))/len(text[1])) + text[2]
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					_, _ = plan.DecodeXML(text, "goal", reg)
				}
			})
		}
	}
}
