package skills

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// ProviderConfig says what a [Provider] is made of. Source is required; the zero value of
// every other field is a working default.
type ProviderConfig struct {
	// Source gives the skills of each turn.
	Source Source
	// Sandbox runs scripts that are files. nil: nothing does, and models are told so.
	Sandbox *sandbox.Sandbox

	// Approve are the tools of which a person has to approve each call: "load_skill",
	// "read_skill_resource", "run_skill_script". nil: the last alone; an empty list: nobody is asked. The newest Microsoft Agent Framework has all three.
	Approve []string
	// ScriptApproval is what early versions of that framework called the default.
	ScriptApproval bool

	// Template is what models are told of skills, with {skills} where their list goes; {0}
	// does as well. "": one that says what the tools are for.
	Template string
	// CatalogueSize is how many characters the list of skills may have. Over that
	// descriptions are cut, and no name is left out. 0: 24000.
	CatalogueSize int
	// DetailedErrors tells models what went wrong in a resource or a script, and not only
	// that something did. It may hold what is not for everybody.
	DetailedErrors bool

	runner runner // nil: one with the Sandbox
}

// Provider lets planners use skills: it lists them in the prompt, and adds the actions by
// which a model loads one, reads its resources and runs its scripts. A skill that is loaded
// stays active in its conversation until it was not used for a while, and may narrow what else
// runs. The source is asked each time which skills there are, so one that is taken away from
// somebody is gone for them at once. It is safe for concurrent use once it is registered.
type Provider struct {
	cfg      ProviderConfig
	registry *actions.Registry // nil: not registered

	mu     sync.Mutex
	recent []*catalogue // the newest first
}

var _ planner.Extension = (*Provider)(nil)

// NewProvider checks cfg whole.
func NewProvider(cfg ProviderConfig) (*Provider, error) {
	var errs []error
	if cfg.Source == nil {
		errs = append(errs, errors.New("no Source"))
	}
	if cfg.CatalogueSize < 0 {
		errs = append(errs, errors.New("CatalogueSize is negative"))
	}
	if cfg.Approve == nil {
		cfg.Approve = []string{runScript}
	}
	for _, tool := range cfg.Approve {
		if !isTool(tool) {
			errs = append(errs, fmt.Errorf("Approve: there is no tool %q, have %s, %s and %s", tool, loadSkill, readResource, runScript))
		}
	}
	if cfg.ScriptApproval && !slices.Contains(cfg.Approve, runScript) {
		errs = append(errs, fmt.Errorf("ScriptApproval contradicts Approve, which has no %s", runScript))
	}
	var err error
	cfg.Template, err = checkTemplate(cfg.Template)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("skills provider: %w", err)
	}
	cfg.CatalogueSize = cmp.Or(cfg.CatalogueSize, defaultCatalogue)
	if cfg.runner == nil {
		cfg.runner = sandboxed{cfg.Sandbox}
	}
	return &Provider{cfg: cfg}, nil
}

// Register adds the tools load_skill, read_skill_resource and run_skill_script, and the host
// value "skills", a [Reader], for actions of the bot that use resources themselves; so it
// comes before those. The error is that of a name which is taken.
func (p *Provider) Register(r *actions.Registry) error {
	type toolFunc func(context.Context, *actions.Turn, map[string]any) (actions.Result, error)
	offers := offersOf(nil)
	add := func(tool, description string, fn toolFunc, marks ...actions.Option) error {
		if p.approves(tool) { // where Policy is not asked, nothing runs
			marks = append(marks, actions.NeedsApproval)
		}
		call := func(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
			result, err := fn(ctx, turn, entities)
			if wrong := fault(""); errors.As(err, &wrong) { // in the form of the Microsoft Agent Framework
				return actions.Fail("Error: %s", string(wrong)), nil
			}
			return result, err
		}
		// Any value goes, since the tool itself answers what is wrong with it.
		schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
		for _, entity := range offers[tool].Schema.PropertyOrder {
			schema.Properties[entity] = &jsonschema.Schema{}
			if python := pythonNames[entity]; python != "" {
				schema.Properties[python] = &jsonschema.Schema{}
			}
		}
		_, err := actions.AddSchema(r, tool, description, schema, call, append(marks, actions.ReturnsData)...)
		return err
	}
	if err := errors.Join(
		add(loadSkill, "Loads a skill: its instructions, and the names of its resources and scripts", p.load, actions.StateOnly),
		add(readResource, "Reads a resource of a skill", p.read, actions.StateOnly),
		add(runScript, "Runs a script of a skill", p.run),
	); err != nil {
		return fmt.Errorf("register the tools of skills: %w", err)
	}
	actions.Provide(r, "skills", func(_ context.Context, turn *actions.Turn) (Reader, error) { return Reader{p, turn}, nil })
	p.registry = r
	return nil
}

func (p *Provider) approves(tool string) bool { return slices.Contains(p.cfg.Approve, tool) }

// Extend is what skills add to the prompt of a turn: the list of those that it may use,
// the tools with their names, and the content of those that are active. The error is the
// source's, or that of state which cannot be read.
func (p *Provider) Extend(ctx context.Context, turn *actions.Turn) (planner.Extra, error) {
	active := activeIn(turn)
	if turn != nil && turn.Thread != nil {
		if err := turn.Thread.Err(); err != nil {
			return planner.Extra{}, fmt.Errorf("read which skills are loaded: %w", err)
		}
		active.begin(turn.ID)
		if len(active.Loaded) == 0 && turn.Thread.Has(active.StateName()) {
			turn.Thread.Remove(active.StateName())
		}
	}
	c, err := p.catalogue(ctx, turn, false)
	if err != nil {
		return planner.Extra{}, err
	}
	extra := c.extra
	if turn != nil {
		extra.Pinned = c.pinned(turn, active)
	}
	return extra, nil
}

// Reset deactivates all skills in the turn's conversation, or thread.
func (p *Provider) Reset(turn *actions.Turn) { turn.Thread.Remove(new(activeSkills).StateName()) }

// Prompt shows what a model would see in the turn, which may be nil: the list of the skills
// and the tools as they are offered, or the content of the skill of that name. Without
// skills it is empty. The provider has to be registered.
func (p *Provider) Prompt(ctx context.Context, turn *actions.Turn, skill string) (string, error) {
	c, err := p.catalogue(ctx, turn, skill != "")
	if err != nil {
		return "", err
	}
	if skill != "" {
		i, err := c.find(skill)
		if err != nil {
			return "", err
		}
		return c.told[i](), nil
	}
	if len(c.skills) == 0 {
		return "", nil
	}
	offered, err := c.offer(p.registry)
	if err != nil {
		return "", err
	}
	var tools []actions.Offer
	for _, a := range offered.All() {
		if isTool(a.Name) {
			tools = append(tools, actions.Offer{Name: a.Name})
		}
	}
	if offered, err = offered.Only(tools...); err != nil {
		return "", err
	}
	return c.extra.Text + "\n\n" + plan.List(offered, false), nil
}

// keptCatalogues differ in which skills somebody may use.
const keptCatalogues = 64

// catalogue is what a model may use in the turn, or a person: a model has the skills that only
// people may load while they are active.
func (p *Provider) catalogue(ctx context.Context, turn *actions.Turn, person bool) (*catalogue, error) {
	list, err := p.cfg.Source(ctx, turn)
	if err != nil {
		return nil, fmt.Errorf("skills of the turn: %w", err)
	}
	hidden := func(s *Skill) bool { return !person && s.DisableModelInvocation && !activeIn(turn).has(s.Name) }
	if slices.ContainsFunc(list, hidden) {
		list = slices.DeleteFunc(slices.Clone(list), hidden)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.IndexFunc(p.recent, func(c *catalogue) bool { return slices.Equal(c.list, list) }); i >= 0 {
		c := p.recent[i]
		copy(p.recent[1:i+1], p.recent[:i])
		p.recent[0] = c
		return c, nil
	}
	c, err := newCatalogue(list, p.offered, p.cfg.Template, p.cfg.CatalogueSize)
	if err != nil {
		return nil, err
	}
	if c.cut >= 0 {
		zerolog.Ctx(ctx).Warn().Int("skills", len(c.skills)).Int("characters", c.cut).
			Msg("descriptions of skills are cut, so that their list is not too long")
	}
	p.recent = slices.Insert(p.recent[:min(len(p.recent), keptCatalogues-1)], 0, c)
	return c, nil
}

// offered is a skill as models are told it: without scripts that cannot run here.
func (p *Provider) offered(s *Skill) *Skill {
	offered := *s
	offered.Scripts = slices.DeleteFunc(slices.Clone(s.Scripts), func(script Script) bool {
		return script.Action == nil && p.cfg.runner.Refuses(script, nil) != ""
	})
	return &offered
}

// Command is what a person says of skills behind /skill, such as "" for a list of those
// there are, "NAME" to load one, "NAME and more text" to load it for that text, which comes
// back as rest to be planned, "off" to deactivate all, and "off NAME" for one. reply is what the
// person is told, in Markdown, "" when there is a rest.
func (p *Provider) Command(ctx context.Context, turn *actions.Turn, words string) (reply, rest string, err error) {
	c, err := p.catalogue(ctx, turn, true)
	if err != nil {
		return "", "", err
	}
	words = strings.TrimSpace(words)
	name, rest := words, ""
	if at := strings.IndexAny(words, " \t\r\n\u00a0"); at >= 0 {
		name, rest = words[:at], strings.TrimSpace(words[at:])
	}
	active := activeIn(turn)
	switch {
	case name == "":
		return listing(c, active), "", nil
	case strings.EqualFold(name, "off"):
		return deactivate(c, active, rest), "", nil
	}
	i, err := c.find(name)
	if err != nil {
		return "I have no skill '" + markdown(clip(name)) + "'. " + strings.TrimSpace(markdown(didYouMean(name, c.names))+" Say **/skill** for a list."), "", nil
	}
	if rest != "" {
		active.begin(turn.ID)
	}
	switch added, err := p.activate(ctx, turn, c, i); {
	case err != nil:
		return "I cannot load " + markdown(c.names[i]) + ": " + markdown(err.Error()) + ". **/skill off** ends them, **/skill off NAME** one of them.", "", nil
	case rest != "":
		return "", rest, nil
	case !added:
		return "The skill " + markdown(c.names[i]) + " is loaded already.", "", nil
	}
	return markdown(loadedText(c.names[i])), "", nil
}

// listing is the skills of the turn for a person to read.
func listing(c *catalogue, active *activeSkills) string {
	const maxDescription = 300
	if len(c.skills) == 0 {
		return "There are no skills here."
	}
	var b strings.Builder
	b.WriteString("Skills that I can use:\n")
	for _, s := range c.skills {
		b.WriteString("\n- **" + markdown(s.Name) + "**")
		if active.has(s.Name) {
			b.WriteString(" (loaded)")
		}
		b.WriteString(": " + markdown(cut(inLine(s.Description), maxDescription)))
	}
	return b.String() + "\n\n**/skill NAME** loads one, **/skill NAME text** for what the text asks, and **/skill off** ends them."
}

// deactivate ends one skill, or with "" all that the turn knows of.
func deactivate(c *catalogue, active *activeSkills, name string) (reply string) {
	var names []string
	for _, a := range active.Loaded {
		if slices.Contains(c.names, a.Skill) {
			names = append(names, a.Skill)
		}
	}
	if name != "" {
		i := find(name, names)
		if i < 0 {
			return "The skill " + markdown(clip(name)) + " is not loaded."
		}
		names = names[i : i+1]
	}
	if len(names) == 0 {
		return "No skill is loaded."
	}
	active.drop(func(a activeSkill) bool { return slices.Contains(names, a.Skill) })
	return "No longer loaded: " + markdown(strings.Join(names, ", ")) + "."
}

var inMarkdown = strings.NewReplacer(`\`, `\\`, "&", "&amp;", "<", "&lt;", "[", `\[`, "]", `\]`, "`", "'", "*", `\*`, "_", `\_`, "~", `\~`, "|", `\|`)

// markdown is a stranger's text on one line, with no Markdown or tags in it.
func markdown(text string) string { return inMarkdown.Replace(inLine(text)) }

// activate loads a skill into the turn's conversation. added is false when it was loaded
// before. The error says in words that no more can be.
func (p *Provider) activate(ctx context.Context, turn *actions.Turn, c *catalogue, skill int) (added bool, err error) {
	s := c.skills[skill]
	if added, err = activeIn(turn).add(c, s.Name, turn.ID); err != nil || !added {
		return false, err
	}
	audit(ctx, loadSkill, s).Msg("skill used")
	return true, nil
}

// audit writes down that a skill was used: which, and never what was in it.
func audit(ctx context.Context, tool string, s *Skill) *zerolog.Event {
	return zerolog.Ctx(ctx).Info().Str("tool", tool).Str("skill", inLine(s.Name))
}

// given are the entities of a call by their .NET names.
type given map[string]any

// renamed are the entities as the model wrote them. One by both of its names is a fault: nobody
// can know which is meant.
func renamed(entities map[string]any) (given, error) {
	g := maps.Clone(entities)
	for name, python := range pythonNames {
		if g[python] == nil {
			continue
		}
		if g[name] != nil {
			return nil, faultf("Give %s or %s, and not both.", name, python)
		}
		g[name] = g[python]
	}
	return g, nil
}

// text is an entity in words.
func (g given) text(entity string) string {
	switch v := g[entity].(type) {
	case string:
		return v
	case json.Number, float64, int:
		return fmt.Sprint(v)
	}
	return ""
}

// use is what a call of a tool means: a skill to load, a resource to read or a script to run.
type use struct {
	tool      string
	catalogue *catalogue
	index     int // of the skill in the catalogue
	skill     *Skill
	resource  Resource
	script    Script
	arguments any // of a Go function, after checkArguments: a map that its action takes
}

// part is the name of the resource or script, "" for a skill.
func (u use) part() string { return cmp.Or(u.resource.Name, u.script.Name) }

// find finds what a call means.
func (p *Provider) find(ctx context.Context, turn *actions.Turn, tool string, entities map[string]any) (u use, err error) {
	var entity, kind string
	parts := (*Skill).resourceNames
	switch tool {
	case readResource:
		entity, kind = resourceName, "Resource"
	case runScript:
		entity, kind, parts = scriptName, "Script", (*Skill).scriptNames
	}
	g, err := renamed(entities)
	if err != nil {
		return u, err
	}
	skill, name := g.text(skillName), g.text(entity)
	if kind != "" && strings.TrimSpace(skill) != "" && strings.TrimSpace(name) == "" {
		return u, faultf("%s name cannot be empty.", kind)
	}
	u = use{tool: tool, arguments: g[scriptArguments]}
	if u.catalogue, err = p.catalogue(ctx, turn, false); err != nil {
		return u, err
	}
	if u.index, err = u.catalogue.find(skill); err != nil {
		return u, err
	}
	u.skill = u.catalogue.skills[u.index]
	if kind == "" {
		return u, nil
	}
	names := parts(u.skill)
	i := find(name, names)
	switch {
	case i < 0:
		missing := fmt.Sprintf("%s '%s' not found in skill '%s'.", kind, clip(name), inLine(u.skill.Name))
		return u, fault(missing + didYouMean(name, names))
	case tool == readResource:
		u.resource = u.skill.Resources[i]
	default:
		u.script = u.skill.Scripts[i]
	}
	return u, nil
}

// Reader reads resources of skills for actions of the bot, as bytes. Ask for it with a
// field of the entities:
//
//	type attach struct {
//		Skill    string        `json:"skill"`
//		Resource string        `json:"resource"`
//		Skills   skills.Reader `host:"skills"`
//	}
//
// It reads what the turn may use, and is good for that turn only. Nobody is asked to approve
// that: it is the action that can be marked.
type Reader struct {
	provider *Provider
	turn     *actions.Turn
}

// Read returns a resource. Names are found as read_skill_resource finds them. The error of one that
// does not exist says so in words for models and people.
func (r Reader) Read(ctx context.Context, skill, resource string) (Data, error) {
	u, err := r.provider.find(ctx, r.turn, readResource, map[string]any{skillName: skill, resourceName: resource})
	if err != nil {
		return Data{}, err
	}
	return u.resource.Read(ctx)
}

// load is load_skill. The instructions themselves are told by [Provider.Extend], so that
// neither the record nor the history holds them.
func (p *Provider) load(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	u, err := p.find(ctx, turn, loadSkill, entities)
	if err != nil {
		return actions.Result{}, err
	}
	if approved, ok, _ := approvedIn(turn).find(u); p.approves(loadSkill) && (!ok || approved != u.digest(Data{})) {
		return actions.Result{}, u.changed()
	}
	switch added, err := p.activate(ctx, turn, u.catalogue, u.index); {
	case err != nil:
		return actions.Result{}, faultf("%v. The person can end them with /skill off.", err)
	case !added:
		return actions.Observe("The skill " + inLine(u.skill.Name) + " is loaded already, its instructions are above."), nil
	}
	return actions.Observe(loadedText(u.skill.Name)), nil
}

// read is read_skill_resource.
func (p *Provider) read(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	u, err := p.find(ctx, turn, readResource, entities)
	if err != nil {
		return actions.Result{}, err
	}
	approved, ok, _ := approvedIn(turn).find(u)
	if p.approves(readResource) && !ok {
		return actions.Result{}, u.changed()
	}
	skill, name := inLine(u.skill.Name), inLine(u.resource.Name)
	activeIn(turn).use(u.skill.Name)
	audit(ctx, readResource, u.skill).Str("resource", name).Msg("skill used")
	data, err := u.resource.Read(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return actions.Result{}, err
	case err != nil:
		why := err
		if errors.Is(err, actions.ErrPanic) { // without its stack
			why = actions.ErrPanic
		}
		return actions.Result{}, p.failure(ctx, err, why, fmt.Sprintf("Failed to read resource '%s' from skill '%s'.", name, skill))
	case p.approves(readResource) && approved != u.digest(data):
		return actions.Result{}, u.changed()
	case data.Binary:
		return actions.Observe("The resource is no text and cannot be shown here: " + data.String() +
			". Actions that take a skill's resource can use it by its name.").UnlessSaved(), nil
	}
	return page(name, unframed(data.String()), strings.TrimSpace(given(entities).text(pageNumber)))
}

// failure logs why a part of a skill did not work. Models are told that it did not, and with
// DetailedErrors why.
func (p *Provider) failure(ctx context.Context, err, why error, text string) error {
	zerolog.Ctx(ctx).Error().Err(err).Msg("a part of a skill did not work")
	if p.cfg.DetailedErrors {
		text += " Exception: " + why.Error()
	}
	return fault(text)
}

// pageBytes is how much of a text is told at a time.
const pageBytes = 64 << 10

// page is one page of a text, counted from 1.
func page(name, text, which string) (actions.Result, error) {
	pages := max(1, (len(text)+pageBytes-1)/pageBytes)
	n := 1
	if which != "" {
		var err error
		if n, err = strconv.Atoi(which); err != nil || n < 1 || n > pages {
			return actions.Result{}, faultf("Resource '%s' has pages 1 to %d, and no page %s.", name, pages, clip(which))
		}
	}
	part := text[pageEnd(text, n-1):pageEnd(text, n)]
	switch {
	case text == "":
		part = "(the resource is empty)"
	case pages > 1:
		part += fmt.Sprintf("\n[page %d of %d]", n, pages)
	}
	return actions.Observe(part).UnlessSaved(), nil
}

// pageEnd is where a page ends: where a line does, or else never within a character.
func pageEnd(text string, page int) int {
	const near = 1 << 10
	at := page * pageBytes
	if at >= len(text) {
		return len(text)
	}
	if line := strings.LastIndexByte(text[max(0, at-near):at], '\n'); line >= 0 {
		return max(0, at-near) + line + 1
	}
	for !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// run is run_skill_script.
func (p *Provider) run(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	u, err := p.find(ctx, turn, runScript, entities)
	if err == nil {
		err = p.checkArguments(&u)
	}
	var digest string
	if err == nil {
		digest, err = p.mayRun(ctx, turn, u)
	}
	if err != nil {
		return actions.Result{}, err
	}
	activeIn(turn).use(u.skill.Name)
	log := audit(ctx, runScript, u.skill).Str("script", inLine(u.script.Name))
	if u.script.Action != nil {
		log.Msg("skill used")
		arguments, _ := u.arguments.(map[string]any)
		result, err := u.script.Action.Call(ctx, turn, arguments)
		if err != nil {
			why := errors.Unwrap(err) // what the function itself says
			if errors.Is(err, actions.ErrPanic) || why == nil {
				why = actions.ErrPanic
			}
			return actions.Result{}, p.scriptFailure(ctx, u, err, why)
		}
		return result, nil
	}
	if digest == "" { // nobody had to approve it; it is for the log
		if digest, err = p.cfg.runner.Digest(ctx, u.skill); err != nil {
			return actions.Result{}, p.scriptFailure(ctx, u, err, err)
		}
	}
	log.Str("digest", digest).Msg("skill used")
	result, err := p.cfg.runner.Run(ctx, u.skill, u.script, u.arguments, digest)
	if err != nil {
		return actions.Result{}, p.scriptFailure(ctx, u, err, err)
	}
	return result, nil
}

// scriptFailure is the error of a script: the turn's, unless models may be told why.
func (p *Provider) scriptFailure(ctx context.Context, u use, err, why error) error {
	script, skill := inLine(u.script.Name), inLine(u.skill.Name)
	if !p.cfg.DetailedErrors || ctx.Err() != nil {
		return fmt.Errorf("script %s of skill %s: %w", script, skill, err)
	}
	return p.failure(ctx, err, why, fmt.Sprintf("Failed to execute script '%s' from skill '%s'.", script, skill))
}

// checkArguments finds all that is wrong with a call as far as it can be known before it is
// tried.
func (p *Provider) checkArguments(u *use) error {
	if u.script.Action == nil {
		if refused := p.cfg.runner.Refuses(u.script, u.arguments); refused != "" {
			return fault(refused)
		}
		return nil
	}
	about := fmt.Sprintf("Script '%s' of skill '%s'", inLine(u.script.Name), inLine(u.skill.Name))
	arguments := u.arguments
	if text, ok := arguments.(string); ok { // as some servers and plans in XML write it
		arguments = unpacked(text)
	}
	if list, ok := arguments.([]any); ok && len(list) == 0 {
		arguments = nil
	}
	object, ok := arguments.(map[string]any)
	if !ok && arguments != nil {
		return faultf("%s takes its arguments as a JSON object, and not as %s.", about, kindOfJSON(arguments))
	}
	checked, err := u.script.Action.Check(object)
	if err != nil {
		return faultf("%s cannot run with these arguments: %v", about, err)
	}
	u.arguments = checked
	return nil
}

func kindOfJSON(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case []any:
		return "an array"
	case bool:
		return "a boolean"
	}
	return "a number"
}
