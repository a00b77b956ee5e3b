package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/internal/yamltext"
)

// Read reads the cases of a file, in their order. Each of the registries has to have the
// actions that a case names, with such entities. Every fault is in the one error, a line
// each, with the file's name, the line, the case and the field.
func Read(file string, text []byte, registries ...*actions.Registry) ([]Case, error) {
	r := &caseReader{reader: reader{file: file}, registries: registries}
	if root := r.parse(text); root != nil {
		r.all(place{line: 1, node: root})
	}
	if err := errors.Join(r.faults...); err != nil {
		return nil, err
	}
	return r.cases, nil
}

type caseReader struct {
	reader
	registries []*actions.Registry
	cases      []Case
	names      map[string]bool
}

func (r *caseReader) all(p place) {
	r.names = map[string]bool{}
	r.fields(p, map[string]func(place){"cases": func(p place) {
		r.each(p, func(p place) {
			r.cases = append(r.cases, r.one(p))
		})
	}})
	if len(r.cases) == 0 && len(r.faults) == 0 {
		r.fail(p, "there are no cases")
	}
}

// one reads a case. Its name comes first, so that faults can be told with it.
func (r *caseReader) one(p place) Case {
	var c Case
	p.name, p.path = caseName(p), ""
	wanted, unwanted := 0, p
	r.fields(p, map[string]func(place){
		"name":     r.text(&c.Name),
		"lang":     r.text(&c.Lang),
		"say":      r.text(&c.Say),
		"history":  func(p place) { r.each(p, func(p place) { c.History = append(c.History, r.exchange(p)) }) },
		"lists":    func(p place) { c.Lists = r.lists(p) },
		"want":     func(p place) { wanted++; c.Want = append([][]Call{r.want(p)}, c.Want...) },
		"or":       func(p place) { r.each(p, func(p place) { c.Want = append(c.Want, r.want(p)) }) },
		"unwanted": func(p place) { unwanted = p; r.texts(&c.Unwanted)(p) },
	})
	for _, field := range []struct {
		name    string
		missing bool
	}{{"name", c.Name == ""}, {"lang", c.Lang == ""}, {"say", c.Say == ""}, {"want", wanted == 0}} {
		if field.missing && !r.faulted(p, field.name) {
			r.fail(p, "%s is missing", field.name)
		}
	}
	if c.Name != "" && r.names[c.Name] {
		r.fail(p, "another case has the same name")
	}
	r.names[c.Name] = true
	r.checkUnwanted(unwanted, &c)
	return c
}

// faulted reports whether something is said of the field already.
func (r *caseReader) faulted(p place, field string) bool {
	return slices.ContainsFunc(r.faults, func(err error) bool { return strings.Contains(err.Error(), p.name+": "+field+": ") })
}

// caseName is the case's own name, else its place.
func caseName(p place) string {
	if mapping, ok := p.node.(*ast.MappingNode); ok {
		for _, entry := range mapping.Values {
			if key, _ := textOf(entry.Key); key == "name" {
				if name, ok := textOf(entry.Value); ok && strings.TrimSpace(name) != "" {
					return fmt.Sprintf("case %q", strings.TrimSpace(name))
				}
			}
		}
	}
	return p.path
}

func (r *caseReader) exchange(p place) Exchange {
	var e Exchange
	r.fields(p, map[string]func(place){
		"say":   r.text(&e.Say),
		"did":   func(p place) { r.each(p, func(p place) { e.Did = append(e.Did, r.call(p)) }) },
		"reply": r.text(&e.Reply),
	})
	if e.Say == "" && !r.faulted(p, p.path+".say") {
		r.fail(p, "say is missing")
	}
	return e
}

func (r *caseReader) lists(p place) (all []lists.List) {
	r.mapping(p, func(name string, p place) {
		list := lists.List{Name: name}
		var items []string
		r.texts(&items)(p)
		for _, item := range items {
			list.Items = append(list.Items, lists.Item{Name: item})
		}
		all = append(all, list)
	})
	return all
}

// want reads a plan: a list of calls, or the word say.
func (r *caseReader) want(p place) (calls []Call) {
	if word, ok := textOf(p.node); ok {
		if word != "say" {
			r.fail(p, "want a list of actions or the word say, have %q", word)
		}
		return nil
	}
	r.each(p, func(p place) {
		call := r.call(p)
		r.checkFit(p, call)
		calls = append(calls, call)
	})
	if list, ok := p.node.(*ast.SequenceNode); ok && len(list.Values) == 0 {
		r.fail(p, "is empty; where there is nothing to do it is: say")
	}
	return calls
}

// call reads the name of an action, or a mapping of it to its entities.
func (r *caseReader) call(p place) Call {
	call := Call{Entities: map[string]any{}}
	if name, ok := textOf(p.node); ok {
		call.Action = name
		r.checkAction(p, name)
		return call
	}
	r.mapping(p, func(name string, p place) {
		if call.Action != "" {
			r.fail(p, "is a second action: each is an element of its own")
			return
		}
		call.Action = name
		if !r.checkAction(p, name) {
			return
		}
		r.mapping(p, func(entity string, p place) {
			r.checkEntity(p, name, entity)
			call.Entities[entity] = r.value(p)
		})
	})
	return call
}

// checkAction reports whether all registries have the action, spelled like that.
func (r *caseReader) checkAction(p place, name string) bool {
	for _, registry := range r.registries {
		action, ok := registry.Lookup(name)
		if ok && action.Name == name {
			continue
		}
		if ok {
			r.fail(p, "there is no action %q, but %s", name, action.Name)
		} else {
			r.fail(p, "there is no action %q, have %s", name, actionNames(registry))
		}
		return false
	}
	return true
}

func actionNames(registry *actions.Registry) string {
	var names []string
	for _, action := range registry.All() {
		names = append(names, action.Name)
	}
	return strings.Join(names, ", ")
}

func (r *caseReader) checkEntity(p place, action, entity string) {
	for _, registry := range r.registries {
		a, ok := registry.Lookup(action)
		if ok && !takes(a.Schema, entity) {
			r.fail(p, "%s has no such entity", action)
			return
		}
	}
}

// takes reports whether an entity of that name may mean something to the action.
func takes(schema *jsonschema.Schema, entity string) bool {
	more := schema.AdditionalProperties
	return schema.Properties[entity] != nil || len(schema.PatternProperties) > 0 || more != nil && more.Not == nil
}

// checkFit finds a wanted call that no plan could have: the planner would refuse it.
func (r *caseReader) checkFit(p place, call Call) {
	for _, registry := range r.registries {
		action, ok := registry.Lookup(call.Action)
		if !ok {
			return // said already
		}
		for i := range most(call.Entities) {
			if err := action.CheckBefore(sample(call.Entities, action.Schema, i), isPattern); err != nil {
				r.fail(p, "%s cannot be planned like that: %v", call.Action, err)
				return
			}
		}
	}
}

func (r *caseReader) checkUnwanted(p place, c *Case) {
	for _, name := range c.Unwanted {
		for _, plan := range c.Want {
			if slices.ContainsFunc(plan, func(call Call) bool { return call.Action == name }) {
				r.fail(p, "%s is wanted, too", name)
				return
			}
		}
		if name != "" {
			r.checkAction(p, name)
		}
	}
}

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
	root, err := yamltext.Parse(string(text), 1<<20)
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
