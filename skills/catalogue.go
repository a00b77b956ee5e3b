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
	"github.com/planbot-go/planbot/state"
)

// Names of the tools.
const (
	loadSkill    = "load_skill"
	readResource = "read_skill_resource"
	runScript    = "run_skill_script"
)

// tools says for each tool what it uses, and which entity names that part of a skill.
var tools = map[string]struct{ kind, part string }{
	loadSkill: {"Skill", ""}, readResource: {"Resource", resourceName}, runScript: {"Script", scriptName},
}

func isTool(name string) bool { return tools[name].kind != "" }

// Names of the tools' entities in the .NET version of the Microsoft Agent Framework, and the Python
// version's names, which models also write.
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

// defaultTemplate explains skills to any planner, without the syntax of a particular one.
const defaultTemplate = `Skills are instructions for certain tasks, with resources to read and scripts to run. Those you have, a line each, name: what it is for:
<available_skills>
{skills}
</available_skills>
Where a task fits a skill, load it with load_skill before anything else, and follow it. Read its resources with read_skill_resource and run its scripts with run_skill_script, by their names as it lists them. Load only what the task needs.`

const maxCatalogue = 24_000 // limits the characters of the skill list

// catalogue is the skills that a turn may use, and what models see of them. It never changes, so
// turns with the same skills share one.
type catalogue struct {
	list   []*Skill // as the sources returned it
	skills []*Skill // sorted by name, without duplicates
	names  []string // of skills, in the same order
	extra  actions.Extra
	offers map[string]actions.Offer // by tool; none without skills
	told   []func() string          // content of skills, in the same order
}

// newCatalogue makes the catalogue of a list. offered returns a skill without the scripts that
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
	c.extra = actions.Extra{Offer: c.offer, Tell: c.tell}
	if len(all) > 0 {
		c.extra.Text = strings.ReplaceAll(template, "{skills}", c.lines(ctx, maxCatalogue))
		c.offers = offersOf(all)
	}
	key, _ := json.Marshal([]any{c.extra.Text, c.offers}) // cannot fail: schemas are valid JSON
	c.extra.Key = "skills " + digest(string(key))
	return c
}

// lines lists the skills for models, one per line. If the list exceeds the budget, in characters,
// it cuts the longest descriptions, all to the same length, and says so. It never drops names.
func (c *catalogue) lines(ctx context.Context, budget int) string {
	render := func(most int) string {
		var lines []string
		for _, s := range c.skills {
			if s.DisableModelInvocation {
				continue
			}
			line := inElement.Replace(inLine(s.Name))
			if s.remote != nil {
				line += " (of the server " + s.remote.server() + ")"
			}
			if description := spelling.Limit(inLine(s.Description), most); description != "" {
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

// maxEnum is how many names a tool's schema lists, so that models do not invent any. It always
// lists the skills that can be loaded.
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

// offerOf describes a tool by its entities; the first ones are required.
func offerOf(tool string, required int, entities ...property) actions.Offer {
	s := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, p := range entities {
		s.Properties[p.name] = p.schema
		s.PropertyOrder = append(s.PropertyOrder, p.name)
	}
	s.Required = s.PropertyOrder[:required:required]
	return actions.Offer{Name: tool, Schema: s}
}

// partsOf returns the names of a skill's parts that a tool can use.
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

// offer replaces the registered tools with the turn's descriptions of them. Without skills it drops
// the tools.
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

// loadedText is the result of load_skill. The skill's content comes from the source.
func loadedText(name string) string { return loadedPrefix + inLine(name) + "." }

// tell replaces the result of load_skill with the skill's content. If the skill has since been
// taken away, it says so instead.
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

// pinned is the content of the active skills that this turn may use, except those it loaded itself:
// their content is in the result of load_skill.
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

// fault tells the model what is wrong with a call.
type fault string

func (f fault) Error() string { return string(f) }

func faultf(format string, args ...any) error { return fault(fmt.Sprintf(format, args...)) }

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

// find returns the index of the one name that the model most likely means, or -1 if there is none
// or it could be several. Models add "./", change the case, and omit folders and file extensions.
func find(name string, names []string) int {
	if i := slices.Index(names, name); i >= 0 { // exactly as listed
		return i
	}
	bare := strings.TrimPrefix(strings.ReplaceAll(norm.NFKC.String(strings.TrimSpace(name)), `\`, "/"), "./")
	for _, means := range [...]func(string) bool{
		func(n string) bool { return n == bare },
		func(n string) bool { return strings.EqualFold(n, bare) },
		func(n string) bool { return strings.EqualFold(path.Base(n), bare) }, // the base name of a file in a folder
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

// didYouMean suggests the names closest to an unknown one, with a leading space; "" if there are
// none.
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

const (
	maxActive = 8         // how many skills may be active at once: the prompt includes each one whole
	maxTold   = 256 << 10 // how many bytes of active skills a prompt may have when more than one is active
	// maxLoaded limits the active skills of all people in a conversation, who may have different
	// ones.
	maxLoaded = 64
	idleTurns = 5 // for how many turns an unused skill stays active: as many as the history keeps
)

// activeSkills are the skills loaded in a conversation, or in a channel thread. It keeps names
// only; the content comes from the source each time. It is a value of the thread's state.
type activeSkills struct {
	Turns  int           `json:"turns,omitzero"` // since the first skill was loaded
	Turn   string        `json:"turn,omitzero"`  // the last counted turn
	Loaded []activeSkill `json:"loaded,omitempty"`
}

type activeSkill struct {
	Skill string `json:"skill"`
	Used  int    `json:"used,omitzero"` // the turn of its last use
}

func (*activeSkills) StateName() string { return "skills" }

// activeIn returns the turn's active skills. Outside of conversations it is empty and not saved.
func activeIn(turn *actions.Turn) *activeSkills {
	if turn == nil || turn.Thread == nil {
		return new(activeSkills)
	}
	return state.Of[activeSkills](turn.Thread)
}

// begin counts the turn, once, and drops skills unused for too long.
func (a *activeSkills) begin(turn string) {
	if len(a.Loaded) == 0 || a.Turn == turn {
		return
	}
	a.Turn = turn
	a.Turns++
	a.drop(func(s activeSkill) bool { return s.Used+idleTurns < a.Turns })
}

func (a *activeSkills) drop(which func(activeSkill) bool) {
	if a.Loaded = slices.DeleteFunc(a.Loaded, which); len(a.Loaded) == 0 {
		*a = activeSkills{}
	}
}

func (a *activeSkills) has(skill string) bool {
	return slices.ContainsFunc(a.Loaded, func(s activeSkill) bool { return s.Skill == skill })
}

// use marks the skill as used in this turn, if it is active.
func (a *activeSkills) use(skill string) {
	for i := range a.Loaded {
		if a.Loaded[i].Skill == skill {
			a.Loaded[i].Used = a.Turns
		}
	}
}

// add activates a skill of c. added is false if it was already active. The limits count only active
// skills that the turn may use, which are all that its prompt includes: nobody loses places to
// skills that they cannot see. The error says in words that no more can be loaded.
func (a *activeSkills) add(c *catalogue, skill, turn string) (added bool, err error) {
	if a.has(skill) {
		a.use(skill)
		return false, nil
	}
	others, bytes := 0, 0
	for i, name := range c.names {
		if active := a.has(name); active || name == skill && len(a.Loaded) > 0 {
			bytes += len(c.told[i]())
			if active {
				others++
			}
		}
	}
	switch {
	case others > 0 && bytes > maxTold:
		return false, faultf("with the skills that are loaded it would be more than %d KiB to tell in each request", maxTold>>10)
	case others >= maxActive:
		return false, fault(fmt.Sprintf("%d skills are loaded, and no more can be", maxActive))
	case len(a.Loaded) == 0:
		a.Turn = turn
	case len(a.Loaded) == maxLoaded: // drop the least recently used one
		oldest := slices.MinFunc(a.Loaded, func(a, b activeSkill) int { return a.Used - b.Used })
		a.drop(func(s activeSkill) bool { return s == oldest })
	}
	a.Loaded = append(a.Loaded, activeSkill{skill, a.Turns})
	return true, nil
}
