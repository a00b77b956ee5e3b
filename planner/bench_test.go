package planner_test

import (
	"testing"

	"github.com/planbot-go/planbot/planner"
)

// fourCommands is a plan as models write it on the main path.
const fourCommands = `{"type":"plan","commands":[` +
	`{"type":"DO","action":"createList","entities":{"list":"groceries","items":["milk","eggs"]}},` +
	`{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"bananas","quantity":6}},` +
	`{"type":"DO","action":"summarizeLists","entities":{},"saveAs":"LISTS"},` +
	`{"type":"SAY","response":"Done. Your lists:\n$LISTS"}]}`

// BenchmarkDecodeValidate is what a turn pays for a plan: less than 15 µs and 60
// allocations.
func BenchmarkDecodeValidate(b *testing.B) {
	reg := vectorActions(b)
	b.ReportAllocs()
	b.SetBytes(int64(len(fourCommands)))
	for b.Loop() {
		plan, err := planner.Decode(fourCommands)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := planner.Validate(plan, reg); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeRepaired is the same plan fenced in prose, with commas to repair.
func BenchmarkDecodeRepaired(b *testing.B) {
	text := "Sure, here is the plan:\n```json\n" + fourCommands[:len(fourCommands)-2] + ",],}\n```\nAnything else?"
	b.ReportAllocs()
	for b.Loop() {
		if _, err := planner.Decode(text); err != nil {
			b.Fatal(err)
		}
	}
}

// TestDecodeAllocations keeps the number of allocations of the main path.
func TestDecodeAllocations(t *testing.T) { // not parallel: it counts allocations
	reg := vectorActions(t)
	allocs := testing.AllocsPerRun(100, func() {
		plan, err := planner.Decode(fourCommands)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := planner.Validate(plan, reg); err != nil {
			t.Fatal(err)
		}
	})
	if allocs >= 60 {
		t.Errorf("%v allocations, want less than 60", allocs)
	}
}

// BenchmarkDecodeXML reads and validates a plan of four commands.
func BenchmarkDecodeXML(b *testing.B) {
	reg := xmlActions(b)
	text := inPlan(`<function.summarize setContextVariable="S"/>`, `<function.Writer.Translate input="$S" language="French" setContextVariable="T"/>`,
		`<function.sendEmail input="$T" email_address="mia@example.com" appendToResult="RESULT__SENT"/>`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := planner.DecodeXML(text, "the goal", reg); err != nil {
			b.Fatal(err)
		}
	}
}
