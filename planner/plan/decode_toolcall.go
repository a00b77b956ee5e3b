package plan

// isToolCall reports whether the value at is a call of a function, in the JSON
// that models write for it: a name and its arguments.
func (d *drafting) isToolCall(at int) bool {
	if d.tape[at].kind != objectNode {
		return false
	}
	f, err := d.fields(at)
	return err == nil && f.name >= 0 && f.action < 0 && f.response < 0 && f.entities < 0 &&
		(f.arguments >= 0 || f.parameters >= 0) && (f.kind < 0 || !isKind(d.tape[f.kind].text))
}

// toolCall reads a call of a function as a DO.
func (d *drafting) toolCall(at int) (Command, *Fault) {
	d.done |= readToolCall
	f, err := d.fields(at)
	if err != nil {
		return Command{}, err
	}
	f.saveAs = -1
	return d.do(f)
}
