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

// known is what a turn may name.
type known struct {
	all, withResources, withScripts []string // skills
	resources, scripts              []string
	inGo                            bool // a script is a Go function
}

func knownIn(list []*Skill) (k known) {
	for _, s := range list {
		k.all = append(k.all, s.Name)
		if len(s.Resources) > 0 {
			k.withResources = append(k.withResources, s.Name)
		}
		if len(s.Scripts) > 0 {
			k.withScripts = append(k.withScripts, s.Name)
		}
		for _, r := range s.Resources {
			k.resources = append(k.resources, r.Name)
		}
		for _, sc := range s.Scripts {
			k.scripts = append(k.scripts, sc.Name)
			k.inGo = k.inGo || sc.Action != nil
		}
	}
	return k
}

// offersFor describes the tools for a turn with these skills.
func offersFor(list []*Skill) map[string]actions.Offer {
	k := knownIn(list)
	skill := func(most int, names []string) property {
		if len(names) == 0 {
			names = k.all
		}
		return property{"skillName", oneOf(text("name of the skill"), names, most), true}
	}
	part := func(entity, kind string, names []string) property {
		return property{entity, oneOf(text("name of the "+kind+", as the skill lists it"), names, maxFileEnum), true}
	}
	page := &jsonschema.Schema{Type: "integer", Description: "of a long text"}
	arguments := &jsonschema.Schema{Type: "array", Items: text(""), Description: "the script's arguments"}
	if k.inGo { // of any type: such a plan has no strict form
		arguments = &jsonschema.Schema{Description: "the script's arguments, as its schema says"}
	}
	offers := map[string]actions.Offer{}
	for name, schema := range map[string]*jsonschema.Schema{
		LoadSkill:    object(skill(len(k.all), k.all)),
		ReadResource: object(skill(maxSkillEnum, k.withResources), part("resourceName", "resource", k.resources), property{"page", page, false}),
		RunScript:    object(skill(maxSkillEnum, k.withScripts), part("scriptName", "script", k.scripts), property{"arguments", arguments, false}),
	} {
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
