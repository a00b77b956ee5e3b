package eval

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
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
