package plan

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// resolve decides what the survey amounts to: a plan, a SAY, or a fault.
func (s *survey) resolve() (Plan, *Fault) {
	if s.truncated != "" {
		return Plan{}, Faultf(Truncated, "%s", s.truncated)
	}
	if s.invalid != "" {
		return Plan{}, Faultf(InvalidPlan, "%s", s.invalid)
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
		return Plan{}, Faultf(InvalidPlan, "commands stand beside prose, and not in a plan")
	}
	return s.prose()
}

// around classifies all text outside of the values found and of reasoning. It
// notes which of the values stand at the top level of that text.
func (s *survey) around() wrapping {
	var w wrapping
	var o opened
	reasoning := s.reasoning
	start := 0
	for i := range s.found {
		f := &s.found[i]
		for len(reasoning) > 0 && reasoning[0].start < f.start {
			w.add(unwrap(s.between(start, reasoning[0].start), true))
			o.scan(s.text, start, reasoning[0].start)
			start, reasoning = reasoning[0].end, reasoning[1:]
		}
		w.add(unwrap(s.between(start, f.start), true))
		o.scan(s.text, start, f.start)
		f.top = o.none()
		if i+1 < len(s.found) {
			o.value(s.text[f.start:f.end], f.done)
		}
		start = f.end
	}
	for _, block := range reasoning {
		w.add(unwrap(s.text[start:block.start], false))
		start = block.end
	}
	w.add(unwrap(s.text[start:], false))
	return w
}

// between returns the text from start to end without the marks that may part two
// values.
func (s *survey) between(start, end int) string {
	if start == 0 {
		return s.text[:end]
	}
	return strings.TrimLeft(s.text[start:end], "}], \t\r\n;")
}

func (w *wrapping) add(more wrapping) {
	w.prose = w.prose || more.prose
	w.fence = w.fence || more.fence
	w.label = w.label || more.label
	w.brace = w.brace || more.brace
}

// choose takes the one plan that the text holds, which may be there several
// times.
func (s *survey) choose(plans []found, around wrapping) (Plan, *Fault) {
	for _, f := range s.found {
		if f.shape != planShape && s.meantAsPlan(f) {
			return Plan{}, Faultf(InvalidPlan, "a command or a reply stands beside the plan, and not in it")
		}
	}
	var first []Command
	d := drafting{tape: s.reader.tape}
	for i, f := range plans {
		if !s.stands(f) {
			return Plan{}, Faultf(InvalidPlan, "the plan stands in the middle of a sentence or a quotation")
		}
		if isDenied(s.beside(f)) {
			return Plan{}, errDenied
		}
		d.done |= f.done
		commands, err := s.draft(&d, f)
		if err != nil {
			return Plan{}, err
		}
		if i > 0 && !reflect.DeepEqual(first, commands) {
			return Plan{}, Faultf(InvalidPlan, "there are several plans, and they differ")
		}
		first = commands
	}
	if len(plans) > 1 {
		d.done |= mergedPlans
	}
	return s.finish(first, &d, plans, around)
}

// draft reads the commands of the plan f.
func (s *survey) draft(d *drafting, f found) ([]Command, *Fault) {
	if f.unclosed && !d.closesCommands(f.root) {
		return nil, Faultf(Truncated, "the text ends before the JSON does")
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
func (s *survey) bare(around wrapping) (Plan, *Fault) {
	d := drafting{tape: s.reader.tape}
	if len(s.found) == 1 {
		d.done = s.found[0].done
		commands, err := d.plan(s.found[0].root)
		if err != nil {
			return Plan{}, err
		}
		return s.finish(commands, &d, s.found, around)
	}
	var all []Command
	for i, f := range s.found {
		d.done |= f.done | joinedCommands
		if d.tape[f.root].kind != objectNode || !d.isToolCall(f.root) && !d.isBareCommand(f.root) {
			return Plan{}, Faultf(InvalidPlan, "there are several JSON values, and value %d is no command", i+1)
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
	return s.finish(all, &d, s.found, around)
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

// finish makes the plan of its commands, which were read from the given values.
func (s *survey) finish(commands []Command, d *drafting, read []found, around wrapping) (Plan, *Fault) {
	p := Plan{Commands: commands, Salvaged: around.prose}
	if p.LastDo() >= 0 {
		if err := s.mayDo(d, read, around); err != nil {
			return Plan{}, err
		}
	}
	done := d.done | s.done | around.repairs()
	if len(s.reasoning) > 0 {
		done |= strippedReasoning
	}
	p.Repairs = done.list()
	return p, nil
}

// mayDo holds a plan with a DO to the rule of the package on where it may stand.
func (s *survey) mayDo(d *drafting, read []found, around wrapping) *Fault {
	switch {
	case slices.ContainsFunc(read, func(f found) bool { return !f.top }):
		return errInside
	case slices.ContainsFunc(read, func(f found) bool { return f.torn }):
		return Faultf(InvalidPlan, "a comment in the plan holds half a quote, brace or bracket; write no comments")
	case d.wrapped && (d.crowded || len(s.found) > 1 || around.prose || d.done&notStrict != 0):
		return Faultf(InvalidPlan, "the plan stands within other JSON; answer with the plan alone")
	case d.done&guessedStrings != 0:
		return Faultf(InvalidPlan, "a string holds quotes that are not escaped")
	}
	return nil
}

// isJSON reports whether text is strict JSON.
func isJSON(text string) bool {
	return json.Valid([]byte(text))
}
