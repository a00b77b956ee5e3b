package skills

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
)

// Names of the tools.
const (
	LoadSkill    = "load_skill"
	ReadResource = "read_skill_resource"
	RunScript    = "run_skill_script"
)

func isTool(name string) bool { return name == LoadSkill || name == ReadResource || name == RunScript }

// A model is told which names there are up to this many; with more, the lists would cost
// more than they help. Those that can be loaded are always told.
const (
	maxSkillEnum = 32
	maxFileEnum  = 12
)

// offersFor describes the tools for a turn with these skills.
func offersFor(list []*Skill) map[string]actions.Offer {
	var all, withResources, withScripts, resources, scripts []string
	arguments := &jsonschema.Schema{Type: "array", Items: text(""), Description: "the script's arguments"}
	for _, s := range list {
		all = append(all, s.Name)
		if len(s.Resources) > 0 {
			withResources = append(withResources, s.Name)
		}
		if len(s.Scripts) > 0 {
			withScripts = append(withScripts, s.Name)
		}
		for _, r := range s.Resources {
			resources = append(resources, r.Name)
		}
		for _, sc := range s.Scripts {
			scripts = append(scripts, sc.Name)
			if sc.Action != nil { // any type, as its schema says: such a plan has no strict form
				arguments = &jsonschema.Schema{Description: "the script's arguments, as its schema says"}
			}
		}
	}
	skill := func(most int, names []string) *jsonschema.Schema {
		if len(names) == 0 {
			names = all
		}
		return oneOf(text("name of the skill"), names, most)
	}
	entities := map[string]*jsonschema.Schema{
		LoadSkill: object(
			property{"skillName", skill(len(all), all), true},
		),
		ReadResource: object(
			property{"skillName", skill(maxSkillEnum, withResources), true},
			property{"resourceName", oneOf(text("name of the resource, as the skill lists it"), resources, maxFileEnum), true},
			property{"page", &jsonschema.Schema{Type: "integer", Description: "of a long text"}, false},
		),
		RunScript: object(
			property{"skillName", skill(maxSkillEnum, withScripts), true},
			property{"scriptName", oneOf(text("name of the script, as the skill lists it"), scripts, maxFileEnum), true},
			property{"arguments", arguments, false},
		),
	}
	offers := map[string]actions.Offer{}
	for name, schema := range entities {
		offers[name] = actions.Offer{Name: name, Schema: schema}
	}
	return offers
}

// registered describes the entities of a tool to its check: anything goes, since the tool
// itself answers what is wrong with it.
func registered(names ...string) *jsonschema.Schema {
	var properties []property
	for _, name := range names {
		properties = append(properties, property{name, &jsonschema.Schema{}, false})
	}
	return object(properties...)
}

type property struct {
	name     string
	schema   *jsonschema.Schema
	required bool
}

func object(properties ...property) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, p := range properties {
		s.Properties[p.name] = p.schema
		s.PropertyOrder = append(s.PropertyOrder, p.name)
		if p.required {
			s.Required = append(s.Required, p.name)
		}
	}
	return s
}

func text(description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Description: description}
}

// oneOf lets a text be one of the names, unless there are more than most or none.
func oneOf(s *jsonschema.Schema, names []string, most int) *jsonschema.Schema {
	names = slices.Clone(names)
	slices.Sort(names)
	if names = slices.Compact(names); len(names) > most {
		return s
	}
	for _, name := range names {
		s.Enum = append(s.Enum, name)
	}
	return s
}

// given are the entities of a call as the model wrote them.
type given map[string]any

// value is what was given under one of the names, in any spelling: skillName, skill_name
// or SkillName. The first name counts most.
func (g given) value(names ...string) any {
	for _, name := range names {
		if v, ok := g[name]; ok {
			return v
		}
	}
	for _, name := range names {
		for _, key := range slices.Sorted(maps.Keys(g)) {
			if plain(key) == plain(name) {
				return g[key]
			}
		}
	}
	return nil
}

// text is such a value in words.
func (g given) text(names ...string) string {
	switch v := g.value(names...).(type) {
	case string:
		return v
	case json.Number, float64, int:
		return fmt.Sprint(v)
	}
	return ""
}

func (g given) skill() string    { return g.text("skillName", "skill", "name") }
func (g given) resource() string { return g.text("resourceName", "resource") }
func (g given) script() string   { return g.text("scriptName", "script") }
