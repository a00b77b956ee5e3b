package plan

import (
	"strings"

	"github.com/planbot-go/planbot/internal/spelling"
)

// command reads the command at, the one with the given index in its plan.
func (d *drafting) command(at, index int) (Command, *Fault) {
	if d.tape[at].kind != objectNode {
		return Command{}, Faultf(InvalidPlan, "command %d is %s, not an object", index+1, d.tape[at].kind)
	}
	f, err := d.fields(at)
	if err != nil {
		return Command{}, within(err, index)
	}
	kind, err := d.kind(f)
	if err != nil {
		return Command{}, within(err, index)
	}
	var c Command
	if kind == Do {
		c, err = d.do(f)
	} else {
		c, err = d.say(f)
	}
	if err != nil {
		return Command{}, within(err, index)
	}
	return c, nil
}

// within names the command in the detail of a fault.
func within(err *Fault, index int) *Fault {
	return Faultf(err.Kind, "command %d: %s", index+1, err.Detail)
}

// commandFields are the values of the keys that commands have, -1 for absent or
// null.
type commandFields struct {
	kind, action, name, saveAs       int
	entities, parameters, arguments  int
	response, text, message, content int
}

// fields finds the values of the keys of the command at in one pass.
func (d *drafting) fields(at int) (f commandFields, err *Fault) {
	f = commandFields{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}
	for key, value := range d.tape.members(at) {
		field := f.of(key)
		switch {
		case field == nil:
		case *field < 0:
			*field = value
		case !d.tape.equal(*field, value):
			return f, conflicting(key)
		default:
			d.done |= mergedKeys
		}
	}
	for _, field := range f.all() {
		if *field >= 0 && d.tape[*field].kind == nullNode {
			*field = -1
		}
	}
	return f, nil
}

// of returns the field that a key names, without regard to case; nil for none.
func (f *commandFields) of(key string) *int {
	switch {
	case strings.EqualFold(key, "type"):
		return &f.kind
	case strings.EqualFold(key, "action"):
		return &f.action
	case strings.EqualFold(key, "entities"):
		return &f.entities
	case strings.EqualFold(key, "response"):
		return &f.response
	case strings.EqualFold(key, "saveAs"):
		return &f.saveAs
	case strings.EqualFold(key, "parameters"):
		return &f.parameters
	case strings.EqualFold(key, "arguments"):
		return &f.arguments
	case strings.EqualFold(key, "name"):
		return &f.name
	case strings.EqualFold(key, "text"):
		return &f.text
	case strings.EqualFold(key, "message"):
		return &f.message
	case strings.EqualFold(key, "content"):
		return &f.content
	}
	return nil
}

func (f *commandFields) all() [11]*int {
	return [...]*int{
		&f.kind, &f.action, &f.name, &f.saveAs, &f.entities, &f.parameters, &f.arguments,
		&f.response, &f.text, &f.message, &f.content,
	}
}

// kind says what a command is: by its type, else by the one of action and
// response that it has.
func (d *drafting) kind(f commandFields) (Kind, *Fault) {
	if f.kind >= 0 {
		text := strings.TrimSpace(d.tape[f.kind].text)
		switch {
		case !d.tape.isText(f.kind):
			return "", Faultf(InvalidPlan, `"type" is %s, not DO or SAY`, d.tape[f.kind].kind)
		case strings.EqualFold(text, string(Do)):
			return Do, nil
		case strings.EqualFold(text, string(Say)):
			return Say, nil
		}
		return "", Faultf(InvalidPlan, "the type %q is not DO or SAY", spelling.Clip(text))
	}
	switch {
	case f.action >= 0 && f.response < 0:
		d.done |= reshaped
		return Do, nil
	case f.response >= 0 && f.action < 0:
		d.done |= reshaped
		return Say, nil
	}
	return "", Faultf(InvalidPlan, "it has no type DO or SAY")
}

// do reads a DO.
func (d *drafting) do(f commandFields) (Command, *Fault) {
	c := Command{Kind: Do}
	var err *Fault
	var nested int
	if c.Action, nested, err = d.action(f); err != nil {
		return c, err
	}
	entities, err := d.oneOf(nested, f.entities, f.parameters, f.arguments)
	if err != nil {
		return c, err
	}
	if c.Entities, err = d.entities(entities); err != nil {
		return c, err
	}
	c.SaveAs, err = d.saveAs(f.saveAs)
	return c, err
}

// action reads the name of the action of a DO. An action that is an object holds
// its own entities, nested.
func (d *drafting) action(f commandFields) (name string, nested int, err *Fault) {
	at := f.action
	if at < 0 {
		at = f.name
	}
	nested = -1
	if at >= 0 && d.tape[at].kind == objectNode {
		d.done |= reshaped
		inner, err := d.fields(at)
		if err != nil {
			return "", -1, err
		}
		if nested, err = d.oneOf(inner.entities, inner.parameters, inner.arguments); err != nil {
			return "", -1, err
		}
		at = inner.name
	}
	if at < 0 || !d.tape.isText(at) {
		return "", -1, Faultf(InvalidPlan, "the DO names no action")
	}
	if name = strings.TrimSpace(d.tape[at].text); name == "" {
		return "", -1, Faultf(InvalidPlan, "the DO names no action")
	}
	return name, nested, nil
}

// saveAs reads the name of the variable that a DO saves its result as.
func (d *drafting) saveAs(at int) (string, *Fault) {
	if at < 0 {
		return "", nil
	}
	name := strings.TrimPrefix(strings.TrimSpace(d.tape[at].text), "$")
	switch {
	case d.tape[at].kind == stringNode && name == "":
		return "", nil
	case d.tape[at].kind != stringNode || nameSize(name) != len(name):
		return "", Faultf(InvalidPlan, "saveAs is no name: use letters, digits and _, and begin with no digit")
	}
	return name, nil
}

// say reads a SAY.
func (d *drafting) say(f commandFields) (Command, *Fault) {
	if f.saveAs >= 0 && d.tape[f.saveAs].text != "" {
		return Command{}, Faultf(InvalidPlan, "a SAY has no result to save: saveAs belongs to a DO")
	}
	at := f.response
	for _, other := range [...]int{f.text, f.message, f.content} {
		if at < 0 && other >= 0 {
			d.done |= reshaped
			at = other
		}
	}
	c := Command{Kind: Say}
	var err *Fault
	if at >= 0 {
		c.Response, err = d.response(at)
	}
	return c, err
}

// response reads the text of a SAY: a string, a number, a boolean, or a message
// with its content.
func (d *drafting) response(at int) (string, *Fault) {
	switch n := d.tape[at]; n.kind {
	case stringNode:
		if isPlaceholder(n.text, "response") {
			return "", Faultf(InvalidPlan, "the response is the placeholder %s", n.text)
		}
		return n.text, nil
	case numberNode:
		return n.text, nil
	case trueNode:
		return "true", nil
	case falseNode:
		return "false", nil
	case objectNode:
		d.done |= reshaped
		return d.content(at)
	default:
		return "", Faultf(InvalidPlan, "the response of the SAY is %s, not a string", n.kind)
	}
}

// content reads the content of a message object.
func (d *drafting) content(at int) (string, *Fault) {
	content, conflict := d.tape.field(at, "content")
	switch {
	case conflict:
		return "", conflicting("content")
	case content >= 0 && d.tape[content].kind == stringNode:
		return d.tape[content].text, nil
	case content >= 0 && d.tape[content].kind == nullNode:
		return "", nil
	}
	return "", Faultf(InvalidPlan, "the response of the SAY is an object, not a string")
}

// isPlaceholder reports whether text is one of the placeholders of the plan's
// format, echoed: its own name in angle brackets, or the word text.
func isPlaceholder(text, name string) bool {
	inner, ok := strings.CutPrefix(strings.TrimSpace(text), "<")
	if !ok {
		return false
	}
	inner, ok = strings.CutSuffix(inner, ">")
	return ok && (strings.EqualFold(inner, name) || strings.EqualFold(inner, "text"))
}
