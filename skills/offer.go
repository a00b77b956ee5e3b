package skills

import (
	"encoding/json"
	"fmt"
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

// A model is told which names there are, so that it makes none up: always those that can be
// loaded. The lists of which skills have something to read or to run, and then those of the
// files, are told as far as they have that many bytes together, and those of files up to
// that many.
const (
	maxEnums    = 8 << 10
	maxFileEnum = 64
)

// known is what a turn may name.
type known struct {
	all, withResources, withScripts []string // skills
	resources, scripts              []string
	inGo                            bool // a script is a Go function
}

func knownIn(list []*Skill) (k known) {
	for _, s := range list {
		if !s.DisableModelInvocation {
			k.all = append(k.all, s.Name)
		}
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
	room := maxEnums
	told := func(names []any, most int) []any { // nil: there is no room for them
		bytes := 0
		for _, name := range names {
			bytes += len(fmt.Sprintf("%q,", name))
		}
		if len(names) > most || bytes > room {
			return nil
		}
		room -= bytes
		return names
	}
	all := enum(k.all)
	having := func(names []string) property {
		if len(names) == 0 {
			names = k.all
		}
		return property{skillName.name, oneOf("name of the skill", told(enum(names), len(names))), true}
	}
	part := func(e entity, kind string, names []string) property {
		return property{e.name, oneOf("name of the "+kind+", as the skill lists it", told(enum(names), maxFileEnum)), true}
	}
	page := &jsonschema.Schema{Type: "integer", Description: "of a long text"}
	arguments := &jsonschema.Schema{Type: "array", Items: text(""), Description: "the script's arguments"}
	if k.inGo { // of any type: such a plan has no strict form
		arguments = &jsonschema.Schema{Description: "the script's arguments, as its schema says; a file gets each value of an object as --name value"}
	}
	read, run := having(k.withResources), having(k.withScripts) // before the files, which have less need of room
	return map[string]actions.Offer{
		LoadSkill:    {Name: LoadSkill, Schema: object(property{skillName.name, oneOf("name of the skill", all), true})},
		ReadResource: {Name: ReadResource, Schema: object(read, part(resourceName, "resource", k.resources), property{pageNumber.name, page, false})},
		RunScript:    {Name: RunScript, Schema: object(run, part(scriptName, "script", k.scripts), property{scriptArguments.name, arguments, false})},
	}
}

// entity is one entity of a tool: its name in the .NET version of the Microsoft Agent
// Framework, and in the Python one, which models write as well.
type entity struct{ name, other string }

var (
	skillName       = entity{"skillName", "skill_name"}
	resourceName    = entity{"resourceName", "resource_name"}
	pageNumber      = entity{"page", ""}
	scriptName      = entity{"scriptName", "script_name"}
	scriptArguments = entity{"arguments", "args"}
)

// registered describes the entities of a tool to its check, and to who is asked for an
// approval: any value goes, since the tool itself answers what is wrong with it, and what
// has another name is not used.
func registered(entities ...entity) *jsonschema.Schema {
	var properties []property
	for _, e := range entities {
		properties = append(properties, property{e.name, &jsonschema.Schema{}, false})
		if e.other != "" {
			properties = append(properties, property{e.other, &jsonschema.Schema{}, false})
		}
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

// oneOf is a text that is one of the names, or any where there are none.
func oneOf(description string, names []any) *jsonschema.Schema {
	s := text(description)
	s.Enum = names
	return s
}

// enum is the names, sorted, each once.
func enum(names []string) (distinct []any) {
	names = slices.Sorted(slices.Values(names))
	for _, name := range slices.Compact(names) {
		distinct = append(distinct, name)
	}
	return distinct
}

// given are the entities of a call as the model wrote them.
type given map[string]any

// value is what was given for an entity, by either of its names.
func (g given) value(e entity) any {
	if v := g[e.name]; v != nil {
		return v
	}
	return g[e.other]
}

// fault says that an entity was given by both of its names: which of them is meant nobody
// can know.
func (g given) fault() string {
	for _, e := range []entity{skillName, resourceName, scriptName, scriptArguments} {
		if g[e.name] != nil && g[e.other] != nil {
			return "Give " + e.name + " or " + e.other + ", and not both."
		}
	}
	return ""
}

// text is such a value in words.
func (g given) text(e entity) string {
	switch v := g.value(e).(type) {
	case string:
		return v
	case json.Number, float64, int:
		return fmt.Sprint(v)
	}
	return ""
}
