package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/planbot-go/planbot/internal/yamltext"
)

// maxBytes is the largest file that is read.
const maxBytes = 4 << 20

// reader reads YAML by what is allowed in it, and keeps every fault with its place.
type reader struct {
	file   string
	faults []error
}

// place is a value in the file, and how people find it.
type place struct {
	line int
	name string // of the case
	path string // of the field, in the case
	node ast.Node
}

func (p place) in(field string, line int, node ast.Node) place {
	if p.path != "" {
		field = p.path + "." + field
	}
	return place{line, p.name, field, node}
}

func (p place) at(i int, node ast.Node) place {
	return place{lineOf(node, p.line), p.name, fmt.Sprintf("%s[%d]", p.path, i), node}
}

func (r *reader) fail(p place, format string, args ...any) {
	where := fmt.Sprintf("%s:%d: ", r.file, p.line)
	for _, part := range []string{p.name, p.path} {
		if part != "" {
			where += part + ": "
		}
	}
	r.faults = append(r.faults, errors.New(where+fmt.Sprintf(format, args...)))
}

// parse returns the document; nil when there is none that can be read.
func (r *reader) parse(text []byte) ast.Node {
	if len(text) > maxBytes {
		r.fail(place{line: 1}, "the file has more than %d MiB", maxBytes>>20)
		return nil
	}
	root, err := yamltext.Parse(string(text), 0)
	if fault, ok := errors.AsType[*yamltext.Error](err); ok {
		r.fail(place{line: fault.Line}, "no YAML: %v", fault.Err)
	} else if root == nil {
		r.fail(place{line: 1}, "there is nothing in the file")
	}
	return root
}

// fields reads a mapping whose entries may be these.
func (r *reader) fields(p place, known map[string]func(place)) {
	r.mapping(p, func(name string, value place) {
		if read, ok := known[name]; ok {
			read(value)
			return
		}
		r.fail(value, "no such field, have %s", strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	})
}

// mapping reads the entries one by one. The parser refuses a key that is there twice.
func (r *reader) mapping(p place, read func(name string, value place)) {
	mapping, ok := p.node.(*ast.MappingNode)
	if !ok {
		r.wrong(p, "a mapping")
		return
	}
	for _, entry := range mapping.Values {
		name, ok := textOf(entry.Key)
		value := p.in(name, lineOf(entry.Key, p.line), entry.Value)
		if !ok {
			r.fail(p, "the key %s is no text", entry.Key)
			continue
		}
		read(name, value)
	}
}

func (r *reader) each(p place, read func(place)) {
	list, ok := p.node.(*ast.SequenceNode)
	if !ok {
		r.wrong(p, "a list")
		return
	}
	for i, node := range list.Values {
		read(p.at(i, node))
	}
}

// text reads a text that says something.
func (r *reader) text(into *string) func(place) {
	return func(p place) {
		text, ok := textOf(p.node)
		if !ok {
			r.wrong(p, "a text")
			return
		}
		if *into = strings.TrimSpace(text); *into == "" {
			r.fail(p, "is empty")
		}
	}
}

func (r *reader) texts(into *[]string) func(place) {
	return func(p place) {
		r.each(p, func(p place) {
			var text string
			r.text(&text)(p)
			*into = append(*into, text)
		})
	}
}

// value reads any value, in the form that plans have.
func (r *reader) value(p place) any {
	switch n := p.node.(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return json.Number(fmt.Sprint(n.Value))
	case *ast.FloatNode:
		return json.Number(fmt.Sprint(n.Value))
	case *ast.SequenceNode:
		all := []any{}
		r.each(p, func(p place) { all = append(all, r.value(p)) })
		return all
	case *ast.MappingNode:
		all := map[string]any{}
		r.mapping(p, func(name string, p place) { all[name] = r.value(p) })
		return all
	}
	text, ok := textOf(p.node)
	if !ok {
		r.wrong(p, "a value")
	}
	return text
}

func (r *reader) wrong(p place, want string) {
	r.fail(p, "want %s, have %s", want, kindOf(p.node))
}

func textOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

func kindOf(node ast.Node) string {
	switch n := node.(type) {
	case *ast.MappingNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "a text"
	case *ast.NullNode:
		return "nothing"
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value + " (in quotes it would be a text)"
	}
	return "an anchor, an alias or a tag, which are not read"
}

func lineOf(node ast.Node, otherwise int) int {
	if token := node.GetToken(); token != nil && token.Position != nil {
		return token.Position.Line
	}
	return otherwise
}
