package plan

import "strings"

// drafting builds the commands of a plan from what was read.
type drafting struct {
	tape tape
	done repairs

	wrapped bool // a plan or its commands are the value of something else
	crowded bool // and not its only one
}

// plan reads the object or array at as a plan that is the whole of an output.
func (d *drafting) plan(at int) ([]Command, *Fault) {
	switch d.tape[at].kind {
	case arrayNode:
		if d.tape.empty(at) {
			return nil, errNothing
		}
		d.done |= joinedCommands
		if only := at + 1; d.tape.shapeOfItem(only) == planShape && d.tape[only].end == d.tape[at].end {
			d.wrapped = true
			return d.planObject(only, false)
		}
		return d.commands(at, true)
	case objectNode:
		if d.tape.empty(at) {
			return nil, errNothing
		}
		return d.planObject(at, true)
	case nullNode:
		return nil, errNothing
	default:
		return nil, Faultf(InvalidPlan, "the answer is %s, not a plan", d.tape[at].kind)
	}
}

var errNothing = Faultf(NoPlan, "the plan has no command")

// planObject reads the object at: a plan, a plan under the key plan, or one
// command.
func (d *drafting) planObject(at int, mayWrap bool) ([]Command, *Fault) {
	if _, conflict := d.tape.field(at, "type"); conflict {
		return nil, conflicting("type")
	}
	list, err := d.commandList(at)
	if err != nil {
		return nil, err
	}
	switch {
	case list >= 0 && d.tape[list].kind == objectNode && mayWrap && d.isWrapped(at, list):
		d.done |= reshaped
		d.wrapped = true
		d.crowded = d.crowded || list != at+2 || d.tape[list].end != d.tape[at].end
		return d.planObject(list, false)
	case list >= 0:
		return d.listOf(list)
	case mayWrap:
		return d.bare(at)
	}
	return nil, Faultf(InvalidPlan, `there is no "commands" array in the plan`)
}

// isWrapped reports whether list is a whole plan under another key than commands.
func (d *drafting) isWrapped(at, list int) bool {
	commands, _ := d.tape.field(at, commandKeys[0])
	return commands < 0 && !d.tape.isCommand(list)
}

// commandList finds the commands of the plan at: -1 for none.
func (d *drafting) commandList(at int) (int, *Fault) {
	list, conflict := d.tape.field(at, commandKeys[0])
	if conflict {
		return -1, conflicting(commandKeys[0])
	}
	if list >= 0 {
		return list, nil
	}
	for _, name := range commandKeys[1:] {
		other, conflict := d.tape.field(at, name)
		if conflict || other >= 0 && list >= 0 && d.isList(other) && !d.tape.equal(list, other) {
			return -1, conflicting(name)
		}
		if other >= 0 && list < 0 && d.isList(other) {
			list = other
		}
	}
	return list, nil
}

func (d *drafting) isList(at int) bool {
	kind := d.tape[at].kind
	return kind == arrayNode || kind == objectNode
}

func conflicting(key string) *Fault {
	return Faultf(InvalidPlan, "%q is given twice with different values", key)
}

// listOf reads the value of commands: an array, one command, or an array that
// was written as a string.
func (d *drafting) listOf(at int) ([]Command, *Fault) {
	switch d.tape[at].kind {
	case arrayNode:
		if d.tape.empty(at) {
			return nil, errNothing
		}
		return d.commands(at, false)
	case objectNode:
		d.done |= reshaped
		c, err := d.command(at, 0)
		if err != nil {
			return nil, err
		}
		return d.spoken([]Command{c})
	case stringNode:
		return d.fromString(d.tape[at].text)
	default:
		return nil, Faultf(InvalidPlan, `"commands" is %s, not an array`, d.tape[at].kind)
	}
}

// fromString reads commands that were written as a string of JSON, once.
func (d *drafting) fromString(text string) ([]Command, *Fault) {
	r := reader{text: text}
	if text = strings.TrimSpace(text); !strings.HasPrefix(text, "[") || !r.read(0) || r.unclosed ||
		strings.TrimSpace(r.text[r.pos:]) != "" {
		return nil, Faultf(InvalidPlan, `"commands" is a string, not an array`)
	}
	inner := drafting{tape: r.tape, done: r.done}
	d.done |= unwrappedString
	d.wrapped = true
	list, err := inner.listOf(0)
	d.done |= inner.done
	return list, err
}

// commands reads the array at. Bare commands may also be tool calls.
func (d *drafting) commands(at int, bare bool) ([]Command, *Fault) {
	count := 0
	for range d.tape.items(at) {
		count++
	}
	list := make([]Command, 0, count)
	for i := range d.tape.items(at) {
		c, err := d.item(i, len(list), bare)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return d.spoken(list)
}

func (d *drafting) item(at, index int, bare bool) (Command, *Fault) {
	if bare && d.isToolCall(at) {
		return d.toolCall(at)
	}
	return d.command(at, index)
}

// bare reads an object that is no plan: one command, or one tool call.
func (d *drafting) bare(at int) ([]Command, *Fault) {
	if d.isToolCall(at) {
		c, err := d.toolCall(at)
		return []Command{c}, err
	}
	if !d.isBareCommand(at) {
		return nil, Faultf(InvalidPlan, `the answer is a JSON object without "commands", not a plan`)
	}
	d.done |= joinedCommands
	c, err := d.command(at, 0)
	if err != nil {
		return nil, err
	}
	return d.spoken([]Command{c})
}

// isBareCommand reports whether the object at is plainly a command: it has its
// type, the name of an action, or a response.
func (d *drafting) isBareCommand(at int) bool {
	if d.tape.isCommand(at) {
		action, _ := d.tape.field(at, "action")
		kind, _ := d.tape.field(at, "type")
		return kind >= 0 || d.tape[action].kind != objectNode
	}
	kind, _ := d.tape.field(at, "type")
	response, _ := d.tape.field(at, "response")
	return kind < 0 && response >= 0
}

// spoken drops the SAYs that say nothing.
func (d *drafting) spoken(list []Command) ([]Command, *Fault) {
	kept := list[:0]
	for _, c := range list {
		if c.Kind == Say && strings.TrimSpace(c.Response) == "" {
			d.done |= droppedSay
			continue
		}
		kept = append(kept, c)
	}
	if len(kept) == 0 {
		return nil, errNothing
	}
	return kept, nil
}
