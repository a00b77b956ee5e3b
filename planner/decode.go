package planner

import (
	"encoding/json"
	"reflect"
	"strings"
)

// maxBytes is the longest output that is decoded.
const maxBytes = 1 << 20

// Decode reads the plan that a model wrote. It takes strict JSON as it is, and
// repairs what can be repaired without guessing; only in a plan that does nothing
// but SAY does it guess where a string ends. Text that holds no plan is one SAY.
// The error is a [*DecodeError] of the kinds truncated, no_plan or invalid_plan.
//
// A plan counts only where it stands on its own, never inside a string, a
// comment, a block quote or another, broken plan; several plans count only when
// they are equal. Decode takes linear time. It does not know the actions: the
// plan has to pass [Validate] before it may run.
func Decode(text string) (Plan, error) {
	plan, err := decode(text, 0)
	if err != nil {
		return Plan{}, err
	}
	return plan, nil
}

// decode reads a text that was unwrapped from a JSON string the given number of
// times.
func decode(text string, unwrapped int) (Plan, *DecodeError) {
	if len(text) > maxBytes {
		return Plan{}, fail(InvalidPlan, "the answer is longer than %d bytes", maxBytes)
	}
	text, done := clean(text)
	if inner, ok := wholeString(text); ok {
		return unwrapString(inner, unwrapped)
	}
	text, more, err := finalChannel(text)
	if err != nil {
		return Plan{}, err
	}
	done |= more
	s := look(text)
	for s.restart >= 0 {
		text, more = stripPrefix(s.text[s.restart:])
		done |= more | strippedReasoning
		s = look(text)
	}
	s.done |= done
	return s.resolve()
}

// clean makes the text valid UTF-8 and drops what stands around an answer.
func clean(text string) (string, repairs) {
	valid := strings.ToValidUTF8(text, "\ufffd")
	stripped, done := stripPrefix(valid)
	if valid != text {
		done |= repairedUTF8
	}
	stripped, more := stripSuffix(stripped)
	return stripped, done | more
}

// wholeString returns the contents of a text that is one JSON string.
func wholeString(text string) (string, bool) {
	if !strings.HasPrefix(text, `"`) {
		return "", false
	}
	r := reader{text: text}
	if !r.read(0) || r.pos != len(text) || r.tape[0].kind != stringNode || r.done&^repairedControls != 0 {
		return "", false
	}
	return r.tape[0].text, true
}

// unwrapString reads an output that is a JSON string of a plan or of prose. One
// level is all: deeper, something went wrong.
func unwrapString(inner string, unwrapped int) (Plan, *DecodeError) {
	if unwrapped > 0 {
		return Plan{}, fail(InvalidPlan, "the answer is a JSON string of a JSON string")
	}
	p, err := decode(inner, unwrapped+1)
	switch {
	case err != nil:
		return Plan{}, err
	case p.Salvaged:
		return Plan{}, fail(InvalidPlan, "the plan stands within a string of prose")
	}
	p.Repairs = (unwrappedString | codesOf(p.Repairs)).list()
	return p, nil
}

// resolve decides what the survey amounts to: a plan, a SAY, or a fault.
func (s *survey) resolve() (Plan, *DecodeError) {
	if s.truncated != "" {
		return Plan{}, fail(Truncated, "%s", s.truncated)
	}
	if s.invalid != "" {
		return Plan{}, fail(InvalidPlan, "%s", s.invalid)
	}
	if len(s.found) == 0 {
		return s.prose()
	}
	around := s.around()
	var plans []found
	for _, f := range s.found {
		if f.shape == planShape {
			plans = append(plans, f)
		}
	}
	switch {
	case len(plans) > 0:
		return s.choose(plans, around)
	case !around.prose:
		return s.bare(around)
	case s.jsonFirst && s.meantAsPlan(s.found[0]):
		return Plan{}, fail(InvalidPlan, "commands stand beside prose, and not in a plan")
	}
	return s.prose()
}

// around classifies all text outside of the values found.
func (s *survey) around() wrapping {
	var w wrapping
	start := 0
	for _, f := range s.found {
		w.add(s.gap(start, f.start, true))
		start = f.end
	}
	w.add(s.gap(start, len(s.text), false))
	return w
}

func (w *wrapping) add(more wrapping) {
	w.prose = w.prose || more.prose
	w.fence = w.fence || more.fence
	w.label = w.label || more.label
	w.brace = w.brace || more.brace
}

// gap classifies the text from start to end, but for blocks of reasoning in it.
func (s *survey) gap(start, end int, before bool) wrapping {
	var w wrapping
	for len(s.reasoning) > 0 && s.reasoning[0].start < end {
		w.add(unwrap(s.text[start:s.reasoning[0].start], start == 0 && before))
		start = s.reasoning[0].end
		s.reasoning = s.reasoning[1:]
	}
	text := s.text[start:end]
	if start > 0 && before {
		text = strings.TrimLeft(text, "}], \t\r\n;") // of the value before
	}
	w.add(unwrap(text, before))
	return w
}

// choose takes the one plan that the text holds, which may be there several
// times.
func (s *survey) choose(plans []found, around wrapping) (Plan, *DecodeError) {
	if s.doubtful {
		return Plan{}, fail(InvalidPlan, "the plan stands behind JSON that never closes")
	}
	for _, f := range s.found {
		if f.shape == commandShape || f.shape == commandsShape {
			return Plan{}, fail(InvalidPlan, "commands stand beside the plan, and not in it")
		}
	}
	var first []Command
	d := drafting{tape: s.reader.tape}
	for i, f := range plans {
		if !s.stands(f) {
			return Plan{}, fail(InvalidPlan, "the plan stands in the middle of a sentence or a quotation")
		}
		d.done |= f.done
		commands, err := s.draft(&d, f)
		if err != nil {
			return Plan{}, err
		}
		if i > 0 && !reflect.DeepEqual(first, commands) {
			return Plan{}, fail(InvalidPlan, "there are several plans, and they differ")
		}
		first = commands
	}
	if len(plans) > 1 {
		d.done |= mergedPlans
	}
	return s.finish(first, d.done, around)
}

// draft reads the commands of the plan f.
func (s *survey) draft(d *drafting, f found) ([]Command, *DecodeError) {
	if f.unclosed && !d.closesCommands(f.root) {
		return nil, fail(Truncated, "the text ends before the JSON does")
	}
	return d.plan(f.root)
}

// closesCommands reports whether the commands of the plan at are an array, which
// is then known to be closed.
func (d *drafting) closesCommands(at int) bool {
	list, err := d.commandList(at)
	return err == nil && list >= 0 && (d.tape[list].kind == arrayNode || d.tape[list].kind == objectNode && d.isWrapped(at, list))
}

// bare reads values that are the whole of an output and no plan: commands, one
// behind the other, or tool calls.
func (s *survey) bare(around wrapping) (Plan, *DecodeError) {
	d := drafting{tape: s.reader.tape}
	if len(s.found) == 1 {
		d.done = s.found[0].done
		commands, err := d.plan(s.found[0].root)
		if err != nil {
			return Plan{}, err
		}
		return s.finish(commands, d.done, around)
	}
	var all []Command
	for i, f := range s.found {
		d.done |= f.done | joinedCommands
		if d.tape[f.root].kind != objectNode || !d.isToolCall(f.root) && !d.isBareCommand(f.root) {
			return Plan{}, fail(InvalidPlan, "there are several JSON values, and value %d is no command", i+1)
		}
		c, err := d.item(f.root, i, true)
		if err != nil {
			return Plan{}, err
		}
		all = append(all, c)
	}
	all, err := d.spoken(all)
	if err != nil {
		return Plan{}, err
	}
	return s.finish(all, d.done, around)
}

// meantAsPlan reports whether a value that is no plan was meant as one.
func (s *survey) meantAsPlan(f found) bool {
	d := drafting{tape: s.reader.tape}
	if f.shape != otherShape {
		return true
	}
	if d.tape[f.root].kind != objectNode {
		return false
	}
	list, err := d.commandList(f.root)
	calls, _ := d.tape.field(f.root, "tool_calls")
	return err != nil || list >= 0 || calls >= 0 || d.isToolCall(f.root) || d.isBareCommand(f.root)
}

// finish makes the plan of its commands.
func (s *survey) finish(commands []Command, done repairs, around wrapping) (Plan, *DecodeError) {
	if done&guessedStrings != 0 {
		for _, c := range commands {
			if c.Kind == Do {
				return Plan{}, fail(InvalidPlan, "a string holds quotes that are not escaped")
			}
		}
	}
	done |= s.done
	for bit, set := range map[repairs]bool{
		strippedProse: around.prose, strippedFence: around.fence, strippedLabel: around.label, droppedBrace: around.brace,
		strippedReasoning: len(s.reasoning) > 0,
	} {
		if set {
			done |= bit
		}
	}
	return Plan{Commands: commands, Repairs: done.list(), Salvaged: around.prose}, nil
}

// isJSON reports whether text is a JSON container.
func isJSON(text string) bool {
	return strings.IndexByte("{[", text[0]) >= 0 && json.Valid([]byte(text))
}
