package plan

import "strings"

// commandKeys are the names of the commands of a plan; the later ones count only
// where the first is absent.
var commandKeys = [...]string{"commands", "steps", "actions", "plan"}

// shape says what the value at looks like.
func (t tape) shape(at int) shape {
	switch t[at].kind {
	case objectNode:
		return t.objectShape(at)
	case arrayNode:
		for i := range t.items(at) {
			switch t.shapeOfItem(i) {
			case planShape:
				return planShape
			case commandShape:
				return commandsShape
			}
			break
		}
	}
	return otherShape
}

func (t tape) shapeOfItem(at int) shape {
	if t[at].kind == objectNode {
		return t.objectShape(at)
	}
	return otherShape
}

func (t tape) objectShape(at int) shape {
	result := otherShape
	for key, i := range t.members(at) {
		switch {
		case strings.EqualFold(key, commandKeys[0]) && (t[i].kind == arrayNode || t[i].kind == objectNode):
			return planShape
		case isCommandKey(key) && t.holdsCommands(i):
			result = planShape
		case strings.EqualFold(key, "type") && t.isText(i) && isKind(t[i].text):
			result = commandShape
		}
	}
	return result
}

// holdsCommands reports whether the value of another name for commands is one:
// an array of them, or a plan.
func (t tape) holdsCommands(at int) bool {
	switch t[at].kind {
	case objectNode:
		commands, _ := t.field(at, "commands")
		return commands >= 0
	case arrayNode:
		for i := range t.items(at) {
			return t.isCommand(i)
		}
	}
	return false
}

func (t tape) isCommand(at int) bool {
	if t[at].kind != objectNode {
		return false
	}
	kind, _ := t.field(at, "type")
	if kind >= 0 {
		return t.isText(kind) && isKind(t[kind].text)
	}
	action, _ := t.field(at, "action")
	return action >= 0
}

func isCommandKey(key string) bool {
	for _, name := range commandKeys {
		if strings.EqualFold(key, name) {
			return true
		}
	}
	return false
}

func isKind(text string) bool {
	text = strings.TrimSpace(text)
	return strings.EqualFold(text, string(Do)) || strings.EqualFold(text, string(Say))
}

// likePlan reports whether the value at, which a failed read left open, was
// meant as a plan: it has the key commands, or the type of a plan.
func (t tape) likePlan(at int) bool {
	if at >= len(t) || t[at].kind != objectNode {
		return false
	}
	for i := at + 1; i < len(t); {
		key, value := t[i].text, i+1
		if strings.EqualFold(key, "commands") {
			return true
		}
		if value >= len(t) || t[value].end == 0 {
			return false
		}
		if strings.EqualFold(key, "type") && strings.EqualFold(t[value].text, "plan") {
			return true
		}
		i = int(t[value].end)
	}
	return false
}
