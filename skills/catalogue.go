package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"
	"golang.org/x/text/unicode/norm"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/planner"
)

// Names of the tools.
const (
	loadSkill    = "load_skill"
	readResource = "read_skill_resource"
	runScript    = "run_skill_script"
)

// tools says of each tool what it is about, and the entity that names a part of a skill.
var tools = map[string]struct{ kind, part string }{
	loadSkill: {"Skill", ""}, readResource: {"Resource", resourceName}, runScript: {"Script", scriptName},
}

func isTool(name string) bool { return tools[name].kind != "" }

// Names of the tools' entities, in the .NET version of the Microsoft Agent Framework, and what
// the Python version calls them, which models write as well.
const (
	skillName       = "skillName"
	resourceName    = "resourceName"
	scriptName      = "scriptName"
	scriptArguments = "arguments"
	pageNumber      = "page"
)

var pythonNames = map[string]string{
	skillName: "skill_name", resourceName: "resource_name", scriptName: "script_name", scriptArguments: "args",
}

// defaultTemplate tells any planner what skills are, without the syntax of one of them.
const defaultTemplate = `Skills are instructions for certain tasks, with resources to read and scripts to run. Those you have, a line each, name: what it is for:
<available_skills>
{skills}
</available_skills>
Where a task fits a skill, load it with load_skill before anything else, and follow it. Read its resources with read_skill_resource and run its scripts with run_skill_script, by their names as it lists them. Load only what the task needs.`

// maxCatalogue is how many characters the list of skills may have.
const maxCatalogue = 24_000

// catalogue is the skills that a turn may use, and what models are told of them. It does not
// change, so turns with the same skills share one.
type catalogue struct {
	list   []*Skill // as the source gave it
	skills []*Skill // by name, one of each name
	names  []string // of skills
	extra  planner.Extra
	offers map[string]actions.Offer // of the tools; none when there are no skills
	told   []func() string          // content of skills
}

// newCatalogue makes the catalogue of a list. offered returns a skill without scripts that
// cannot run.
func newCatalogue(ctx context.Context, list []*Skill, offered func(*Skill) *Skill, template string) *catalogue {
	first, others := distinct(list)
	for _, s := range others {
		zerolog.Ctx(ctx).Warn().Str("skill", s.Name).Str("dir", s.Dir).Msg("another skill of this name comes first: this one is left out")
	}
	slices.SortFunc(first, func(a, b *Skill) int { return strings.Compare(a.Name, b.Name) })
	c := &catalogue{list: slices.Clone(list), skills: first}
	var all []*Skill
	for _, s := range c.skills {
		s := offered(s)
		all = append(all, s)
		c.names = append(c.names, s.Name)
		c.told = append(c.told, sync.OnceValue(func() string { return framed(s) }))
	}
	c.extra = planner.Extra{Offer: c.offer, Tell: c.tell}
	if len(all) > 0 {
		c.extra.Text = strings.ReplaceAll(template, "{skills}", c.lines(ctx, maxCatalogue))
		c.offers = offersOf(all)
	}
	key, _ := json.Marshal([]any{c.extra.Text, c.offers}) // schemas can be written
	c.extra.Key = "skills " + digest(string(key))
	return c
}

// lines lists the skills for models, a line each. Over the budget, in characters, descriptions
// are cut, the longest ones first and all of those to the same length, and that is said. Names
// are always told.
func (c *catalogue) lines(ctx context.Context, budget int) string {
	render := func(most int) string {
		var lines []string
		for _, s := range c.skills {
			if s.DisableModelInvocation {
				continue
			}
			line := inElement.Replace(inLine(s.Name))
			if description := cut(inLine(s.Description), most); description != "" {
				line += ": " + inElement.Replace(description)
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	}
	fits := func(most int) bool { return utf8.RuneCountInString(render(most)) <= budget }
	if fits(math.MaxInt) {
		return render(math.MaxInt)
	}
	most := sort.Search(maxDescription, func(most int) bool { return !fits(most + 1) })
	zerolog.Ctx(ctx).Warn().Int("skills", len(c.skills)).Int("characters", most).
		Msg("descriptions of skills are cut, so that their list is not too long")
	return render(most) + "\n(Descriptions are cut: there are many skills.)"
}

// maxEnum is of how many names models are told in a tool's schema, so that they make none up. Those
// of skills that can be loaded are always told.
const maxEnum = 64

// offersOf describes the tools for a turn with these skills.
func offersOf(list []*Skill) map[string]actions.Offer {
	var all, reading, running, resources, scripts []string
	arguments := &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}, Description: "the script's arguments"}
	for _, s := range list {
		if !s.DisableModelInvocation {
			all = append(all, s.Name)
		}
		if len(s.Resources) > 0 {
			reading = append(reading, s.Name)
		}
		if len(s.Scripts) > 0 {
			running = append(running, s.Name)
		}
		resources = append(resources, partsOf(s, readResource)...)
		scripts = append(scripts, partsOf(s, runScript)...)
		if slices.ContainsFunc(s.Scripts, func(script Script) bool { return script.Action != nil }) { // of any type: such a plan has no strict form
			arguments = &jsonschema.Schema{Description: "the script's arguments, as its schema says; a file gets each value of an object as --name value"}
		}
	}
	oneOf := func(entity, description string, names []string, most int) property {
		schema := &jsonschema.Schema{Type: "string", Description: description}
		names = slices.Compact(slices.Sorted(slices.Values(names)))
		for i := 0; len(names) <= most && i < len(names); i++ {
			schema.Enum = append(schema.Enum, names[i])
		}
		return property{entity, schema}
	}
	const skill = "name of the skill"
	return map[string]actions.Offer{
		loadSkill: offerOf(loadSkill, 1, oneOf(skillName, skill, all, math.MaxInt)),
		readResource: offerOf(readResource, 2,
			oneOf(skillName, skill, reading, maxEnum),
			oneOf(resourceName, "name of the resource, as the skill lists it", resources, maxEnum),
			property{pageNumber, &jsonschema.Schema{Type: "integer", Description: "of a long text"}}),
		runScript: offerOf(runScript, 2,
			oneOf(skillName, skill, running, maxEnum),
			oneOf(scriptName, "name of the script, as the skill lists it", scripts, maxEnum),
			property{scriptArguments, arguments}),
	}
}

type property struct {
	name   string
	schema *jsonschema.Schema
}

// offerOf describes a tool by its entities, of which the first ones are required.
func offerOf(tool string, required int, entities ...property) actions.Offer {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, p := range entities {
		s.Properties[p.name] = p.schema
		s.PropertyOrder = append(s.PropertyOrder, p.name)
	}
	s.Required = s.PropertyOrder[:required:required]
	return actions.Offer{Name: tool, Schema: s}
}

// partsOf are the names of what a tool can use of a skill.
func partsOf(s *Skill, tool string) (names []string) {
	if tool == runScript {
		for _, script := range s.Scripts {
			names = append(names, script.Name)
		}
		return names
	}
	for _, r := range s.Resources {
		names = append(names, r.Name)
	}
	return names
}

// offer describes the tools of the turn in place of what is registered of them. Without
// skills there are none.
func (c *catalogue) offer(all *actions.Registry) (*actions.Registry, error) {
	var offers []actions.Offer
	for _, a := range all.All() {
		if o, ours := c.offers[a.Name]; ours {
			offers = append(offers, o)
		} else if !isTool(a.Name) {
			offers = append(offers, actions.Offer{Name: a.Name})
		}
	}
	return all.Only(offers...)
}

const loadedPrefix = "Loaded the skill "

// loadedText is the result of load_skill. What it has loaded is told from the source.
func loadedText(name string) string { return loadedPrefix + inLine(name) + "." }

// tell puts the content of a skill in the place of what load_skill has answered. A skill
// that was taken away since then says nothing any more.
func (c *catalogue) tell(o actions.Outcome) (string, bool) {
	if o.Action != loadSkill || o.Failed || !strings.HasPrefix(o.Text, loadedPrefix) {
		return "", false
	}
	i := slices.IndexFunc(c.names, func(name string) bool { return loadedText(name) == o.Text })
	if i < 0 {
		return "The skill is not available any more.", true
	}
	return c.told[i](), true
}

// pinned is the content of the active skills that this turn may use, but for those that it
// has loaded itself: they are told where that was done.
func (c *catalogue) pinned(turn *actions.Turn, active *activeSkills) []string {
	here := map[string]bool{}
	for _, round := range turn.Rounds {
		for _, o := range round.Outcomes {
			here[o.Text] = here[o.Text] || o.Action == loadSkill && !o.Failed
		}
	}
	var contents []string
	for _, a := range active.Loaded {
		if i, ok := slices.BinarySearch(c.names, a.Skill); ok && !here[loadedText(a.Skill)] {
			contents = append(contents, c.told[i]())
		}
	}
	return contents
}

// fault says in words for the model what is wrong with a call.
type fault string

func (f fault) Error() string { return string(f) }

func faultf(format string, args ...any) error { return fault(fmt.Sprintf(format, args...)) }

// find finds the skill that a model means. The error is a [fault].
func (c *catalogue) find(name string) (int, error) {
	if strings.TrimSpace(name) == "" {
		return -1, fault("Skill name cannot be empty.")
	}
	i := find(name, c.names)
	if i < 0 {
		return -1, faultf("Skill '%s' not found.%s", clip(name), didYouMean(name, c.names))
	}
	return i, nil
}

// find returns the index of the one name that a model means by another, -1 when it is none
// or may be several. Models add "./", change the case, and leave out folders and the ends
// of file names.
func find(name string, names []string) int {
	if i := slices.Index(names, name); i >= 0 { // as it is listed
		return i
	}
	bare := strings.TrimPrefix(strings.ReplaceAll(norm.NFKC.String(strings.TrimSpace(name)), `\`, "/"), "./")
	for _, means := range [...]func(string) bool{
		func(n string) bool { return n == bare },
		func(n string) bool { return strings.EqualFold(n, bare) },
		func(n string) bool { return strings.EqualFold(path.Base(n), bare) }, // none that has a folder
		func(n string) bool { return strings.EqualFold(stem(n), bare) },
		func(n string) bool { return strings.EqualFold(stem(path.Base(n)), bare) },
	} {
		found := -1
		for i, n := range names {
			if !means(norm.NFKC.String(n)) { // files from some systems have decomposed names
				continue
			}
			if found >= 0 {
				return -1
			}
			found = i
		}
		if found >= 0 {
			return found
		}
	}
	return -1
}

func stem(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// didYouMean suggests the names that are nearest to an unknown one, with a space in front;
// "" when there are none.
func didYouMean(name string, names []string) string {
	name = spelling.Plain(path.Base(strings.ReplaceAll(clip(name), `\`, "/")))
	near := spelling.Nearest(names, func(n string) (int, bool) {
		base := path.Base(n)
		edits := min(spelling.Edits(name, spelling.Plain(base)), spelling.Edits(name, spelling.Plain(stem(base))))
		return edits, edits <= len(name)/3 || len(name) > 2 && strings.Contains(spelling.Plain(n), name)
	})
	if near == nil {
		return ""
	}
	return " Did you mean '" + inLine(strings.Join(near, "' or '")) + "'?"
}
