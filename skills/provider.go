package skills

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// ProviderConfig configures a [Provider]. The zero value works; without Skills and Sources there
// are no skills.
type ProviderConfig struct {
	// Skills are written in Go, or found by [Config.Discover]. Everybody has them.
	Skills []*Skill
	// Sources return the other skills of each turn. If several skills share a name, in any letter
	// case, the first counts, and the log warns about the others.
	Sources []Source
	// Sandbox runs script files. nil: they cannot run, and models are told so.
	Sandbox Sandbox

	// Approve lists the tools whose every call a person must approve: "load_skill",
	// "read_skill_resource", "run_skill_script". nil: only the last; an empty list: none. The
	// newest Microsoft Agent Framework has all three.
	Approve []string

	// Template is what models are told about skills, with {skills} or {0} in place of the list. "":
	// a text that explains the tools.
	Template string
	// DetailedErrors tells models what went wrong in a resource or a script, not just that
	// something did. The details may not be fit for everybody.
	DetailedErrors bool

	runner runner // nil: one that uses Sandbox
}

// Provider lets planners use skills. It lists them in the prompt, and adds the actions by which a
// model loads one, reads its resources and runs its scripts. A loaded skill stays active in its
// conversation until it goes unused for a while, and may narrow what else can run. The sources are
// asked each time, so a skill taken away from somebody is gone at once. A registered Provider is
// safe for concurrent use.
type Provider struct {
	cfg      ProviderConfig
	registry *actions.Registry // nil: not registered

	mu     sync.Mutex
	recent []*catalogue // newest last
}

var _ actions.Extension = (*Provider)(nil)

// NewProvider checks all of cfg. It is an error if one of Skills has no name, a name with invalid
// characters, or no description.
func NewProvider(cfg ProviderConfig) (*Provider, error) {
	var errs []error
	if slices.Contains(cfg.Skills, nil) {
		errs = append(errs, errors.New("Skills has nil"))
	}
	if slices.ContainsFunc(cfg.Sources, func(s Source) bool { return s == nil }) {
		errs = append(errs, errors.New("Sources has nil"))
	}
	for _, s := range cfg.Skills {
		if s == nil {
			continue
		}
		p := parsing{path: "skill " + quoted(s.Name), lenient: true}
		p.check(s)
		for _, f := range p.faults {
			if !f.Warning {
				errs = append(errs, errors.New(f.String()))
			}
		}
	}
	if cfg.Approve == nil {
		cfg.Approve = []string{runScript}
	}
	for _, tool := range cfg.Approve {
		if !isTool(tool) {
			errs = append(errs, fmt.Errorf("Approve: there is no tool %q, have %s, %s and %s", tool, loadSkill, readResource, runScript))
		}
	}
	cfg.Template = cmp.Or(cfg.Template, defaultTemplate)
	if !strings.Contains(cfg.Template, "{skills}") { // early versions of the framework had {0} instead
		cfg.Template = strings.ReplaceAll(cfg.Template, "{0}", "{skills}")
	}
	if !strings.Contains(cfg.Template, "{skills}") {
		errs = append(errs, errors.New("Template has no {skills}, where the list of skills goes"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("skills provider: %w", err)
	}
	if cfg.runner == nil {
		cfg.runner = sandboxed{cfg.Sandbox}
	}
	return &Provider{cfg: cfg}, nil
}

// Register adds the tools load_skill, read_skill_resource and run_skill_script, and p as the host
// value "skills" for actions of the bot that read resources themselves. Call it before you register
// those. It fails if a name is taken.
func (p *Provider) Register(r *actions.Registry) error {
	type toolFunc func(context.Context, *actions.Turn, map[string]any) (actions.Result, error)
	offers := offersOf(nil)
	add := func(tool, title, description string, fn toolFunc, marks ...actions.Option) error {
		if p.approves(tool) { // without Policy, nothing runs unapproved
			marks = append(marks, actions.NeedsApproval)
		}
		call := func(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
			result, err := fn(ctx, turn, entities)
			if wrong := fault(""); errors.As(err, &wrong) { // in the form of the Microsoft Agent Framework
				return actions.Fail("Error: %s", string(wrong)), nil
			}
			return result, err
		}
		// Allow any value: the tool itself says what is wrong with it.
		schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
		for _, entity := range offers[tool].Schema.PropertyOrder {
			schema.Properties[entity] = &jsonschema.Schema{Title: titles.Words(entity)}
			if python := pythonNames[entity]; python != "" {
				schema.Properties[python] = schema.Properties[entity]
			}
		}
		_, err := actions.AddSchema(r, tool, description, schema, call, append(marks, actions.ReturnsData, actions.Title(title))...)
		return err
	}
	if err := errors.Join(
		add(loadSkill, "Load a skill", "Loads a skill: its instructions, and the names of its resources and scripts", p.load, actions.StateOnly),
		add(readResource, "Read a resource of a skill", "Reads a resource of a skill", p.read, actions.StateOnly),
		add(runScript, "Run a script of a skill", "Runs a script of a skill", p.run),
	); err != nil {
		return fmt.Errorf("register the tools of skills: %w", err)
	}
	actions.Provide(r, "skills", func(context.Context, *actions.Turn) (*Provider, error) { return p, nil })
	p.registry = r
	return nil
}

func (p *Provider) approves(tool string) bool { return slices.Contains(p.cfg.Approve, tool) }

// Extend returns what skills add to a turn's prompt: the list of skills it may use, the tools with
// their names, and the content of the active skills. It fails if a source does, or if state cannot
// be read.
func (p *Provider) Extend(ctx context.Context, turn *actions.Turn) (actions.Extra, error) {
	active := activeIn(turn)
	if turn != nil && turn.Thread != nil {
		if err := turn.Thread.Err(); err != nil {
			return actions.Extra{}, fmt.Errorf("read which skills are loaded: %w", err)
		}
		active.begin(turn.ID)
		if len(active.Loaded) == 0 && turn.Thread.Has(active.StateName()) {
			turn.Thread.Remove(active.StateName())
		}
	}
	c, err := p.catalogue(ctx, turn, false)
	if err != nil {
		return actions.Extra{}, err
	}
	extra := c.extra
	if turn != nil {
		extra.Pinned = c.pinned(turn, active)
	}
	return extra, nil
}

// Reset deactivates all skills in the turn's conversation or thread.
func (p *Provider) Reset(turn *actions.Turn) { turn.Thread.Remove(new(activeSkills).StateName()) }

// Prompt shows what a model would see in the turn, which may be nil: the skill list and the offered
// actions, or the content of the named skill. Without skills it is empty. The provider must be
// registered.
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
		if c, err = p.whole(ctx, c, i); err != nil {
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
	return c.extra.Text + "\n\n" + plan.List(offered, false), nil
}

const keptCatalogues = 64 // how many catalogues to cache; they differ in which skills somebody may use

// catalogue is what a model, or a person, may use in the turn. A model gets skills that only people
// may load only while they are active.
func (p *Provider) catalogue(ctx context.Context, turn *actions.Turn, person bool) (*catalogue, error) {
	list := p.cfg.Skills
	for i, source := range p.cfg.Sources {
		more, err := source(ctx, turn)
		if err != nil {
			return nil, fmt.Errorf("source %d of skills: %w", i+1, err)
		}
		list = append(list[:len(list):len(list)], more...)
	}
	hidden := func(s *Skill) bool { return !person && s.DisableModelInvocation && !activeIn(turn).has(s.Name) }
	if slices.ContainsFunc(list, hidden) {
		list = slices.DeleteFunc(slices.Clone(list), hidden)
	}
	active := activeIn(turn)
	return p.catalogueOf(ctx, withInstructions(ctx, list, func(s *Skill) bool { return active.has(s.Name) })), nil
}

func (p *Provider) catalogueOf(ctx context.Context, list []*Skill) *catalogue {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.recent {
		if slices.Equal(c.list, list) {
			return c
		}
	}
	c := newCatalogue(ctx, list, p.offered, p.cfg.Template)
	p.recent = append(p.recent[max(0, len(p.recent)+1-keptCatalogues):], c)
	return c
}

// whole reads the instructions of a skill that a server has, before it is loaded. The catalogue that it returns
// has the same names in the same order. The error is a [fault], or that of ctx.
func (p *Provider) whole(ctx context.Context, c *catalogue, i int) (*catalogue, error) {
	part := c.skills[i]
	if part.remote == nil || part.remote.whole {
		return c, nil
	}
	s, err := part.remote.fill(ctx, part)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, p.failure(ctx, err, fmt.Sprintf("Failed to load skill '%s'.", inLine(part.Name)))
	}
	list := slices.Clone(c.list)
	list[slices.Index(list, part)] = s
	return p.catalogueOf(ctx, list), nil
}

// offered is the skill as models see it: without scripts that cannot run here.
func (p *Provider) offered(s *Skill) *Skill {
	offered := *s
	offered.Scripts = slices.DeleteFunc(slices.Clone(s.Scripts), func(script Script) bool {
		return script.Action == nil && p.cfg.runner.Refuses(script, nil) != ""
	})
	return &offered
}

// Command handles what a person types after /skill: "" lists the skills, "NAME" loads one, "NAME
// and more text" loads it for that text, which is returned as rest for planning, "off" deactivates
// all, and "off NAME" one. reply is the answer to the person, in Markdown; "" if there is a rest.
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
		return listing(turn, c, active), "", nil
	case strings.EqualFold(name, "off"):
		return deactivate(turn, c, active, rest), "", nil
	}
	i, err := c.find(name)
	if err != nil {
		hint := strings.TrimSpace(markdown(didYouMean(name, c.names)) + " " + turn.Translate("Say **/skill** for a list."))
		return turn.Translate("I have no skill '%s'.", markdown(clip(name))) + " " + hint, "", nil
	}
	whole, err := p.whole(ctx, c, i)
	if err != nil {
		wrong := fault("")
		if !errors.As(err, &wrong) {
			return "", "", err
		}
		return "**" + markdown(clip(c.names[i])) + "**: " + turn.Translate("cannot be read"), "", nil
	}
	c = whole
	if rest != "" {
		active.begin(turn.ID)
	}
	switch added, err := p.activate(ctx, turn, c, c.skills[i]); {
	case err != nil:
		return turn.Translate("I can't load %s: %s. **/skill off** unloads all skills, **/skill off NAME** unloads one.", markdown(c.names[i]), markdown(err.Error())), "", nil
	case rest != "":
		return "", rest, nil
	case !added:
		return turn.Translate("The skill %s is already loaded.", markdown(c.names[i])), "", nil
	}
	return turn.Translate("Loaded the skill %s.", markdown(c.names[i])), "", nil
}

// listing lists the turn's skills for a person.
func listing(turn *actions.Turn, c *catalogue, active *activeSkills) string {
	const maxDescription = 300
	if len(c.skills) == 0 {
		return turn.Translate("I have no skills here.")
	}
	var b strings.Builder
	b.WriteString(turn.Translate("Skills that I can use:") + "\n")
	for _, s := range c.skills {
		b.WriteString("\n- **" + markdown(s.Name) + "**")
		if active.has(s.Name) {
			b.WriteString(" " + turn.Translate("(loaded)"))
		}
		b.WriteString(": " + markdown(spelling.Limit(inLine(s.Description), maxDescription)))
	}
	return b.String() + "\n\n" + turn.Translate("**/skill NAME** loads one, **/skill NAME text** uses it for that text, and **/skill off** unloads them all.")
}

// deactivate deactivates one skill or, with "", all that the turn may use.
func deactivate(turn *actions.Turn, c *catalogue, active *activeSkills, name string) (reply string) {
	var names []string
	for _, a := range active.Loaded {
		if slices.Contains(c.names, a.Skill) {
			names = append(names, a.Skill)
		}
	}
	if name != "" {
		i := find(name, names)
		if i < 0 {
			return turn.Translate("The skill %s is not loaded.", markdown(clip(name)))
		}
		names = names[i : i+1]
	}
	if len(names) == 0 {
		return turn.Translate("No skill is loaded.")
	}
	active.drop(func(a activeSkill) bool { return slices.Contains(names, a.Skill) })
	return turn.Translate("Unloaded: %s.", markdown(strings.Join(names, ", ")))
}

var inMarkdown = strings.NewReplacer(`\`, `\\`, "&", "&amp;", "<", "&lt;", "[", `\[`, "]", `\]`, "`", "'", "*", `\*`, "_", `\_`, "~", `\~`, "|", `\|`)

// markdown puts foreign text on one line and escapes Markdown and tags.
func markdown(text string) string { return inMarkdown.Replace(inLine(text)) }

// activate loads a skill into the turn's conversation. added is false if it was already loaded. The
// error says in words that no more can be loaded.
func (p *Provider) activate(ctx context.Context, turn *actions.Turn, c *catalogue, s *Skill) (added bool, err error) {
	if added, err = activeIn(turn).add(c, s.Name, turn.ID); err != nil || !added {
		return false, err
	}
	audit(ctx, loadSkill, s).Msg("skill used")
	return true, nil
}

// audit logs which skill was used, but never its content.
func audit(ctx context.Context, tool string, s *Skill) *zerolog.Event {
	return zerolog.Ctx(ctx).Info().Str("tool", tool).Str("skill", inLine(s.Name))
}

// renamed gives a call's entities their .NET names. Using both names of one entity is a fault: it
// is unclear which is meant.
func renamed(entities map[string]any) (map[string]any, error) {
	all := maps.Clone(entities)
	for name, python := range pythonNames {
		if all[python] == nil {
			continue
		}
		if all[name] != nil {
			return nil, faultf("Give %s or %s, and not both.", name, python)
		}
		all[name] = all[python]
	}
	return all, nil
}

func words(entity any) string {
	switch entity.(type) {
	case nil, []any, map[string]any:
		return ""
	}
	return strings.TrimSpace(fmt.Sprint(entity))
}

// use is the skill, resource or script that a tool call means.
type use struct {
	tool      string
	catalogue *catalogue
	skill     *Skill
	resource  Resource
	script    Script
	arguments any // of a Go function, after checkArguments: a map that its action accepts
}

// part is the name of the resource or script; "" for a skill.
func (u use) part() string { return cmp.Or(u.resource.Name, u.script.Name) }

// find resolves a call to what it uses.
func (p *Provider) find(ctx context.Context, turn *actions.Turn, tool string, entities map[string]any) (u use, err error) {
	entities, err = renamed(entities)
	if err != nil {
		return u, err
	}
	kind := tools[tool].kind
	skill, name := words(entities[skillName]), words(entities[tools[tool].part])
	if tool != loadSkill && skill != "" && name == "" {
		return u, faultf("%s name cannot be empty.", kind)
	}
	u = use{tool: tool, arguments: entities[scriptArguments]}
	if u.catalogue, err = p.catalogue(ctx, turn, false); err != nil {
		return u, err
	}
	i, err := u.catalogue.find(skill)
	if err != nil {
		return u, err
	}
	if tool == loadSkill {
		if u.catalogue, err = p.whole(ctx, u.catalogue, i); err != nil {
			return u, err
		}
	}
	u.skill = u.catalogue.skills[i]
	if tool == loadSkill {
		return u, nil
	}
	names := partsOf(u.skill, tool)
	switch i = find(name, names); {
	case i < 0:
		return u, faultf("%s '%s' not found in skill '%s'.%s", kind, clip(name), inLine(u.skill.Name), didYouMean(name, names))
	case tool == readResource:
		u.resource = u.skill.Resources[i]
	default:
		u.script = u.skill.Scripts[i]
	}
	return u, nil
}

// Read returns a resource's bytes to an action of the bot, which gets the provider through a field of
// its entities:
//
//	type attach struct {
//		Skill    string           `json:"skill"`
//		Resource string           `json:"resource"`
//		Skills   *skills.Provider `host:"skills"`
//	}
//
// It reads only what the turn may use. It asks for no approval; mark the action instead. Names are
// matched as in read_skill_resource. If there is no such resource, the error says so in words for
// models and people.
func (p *Provider) Read(ctx context.Context, turn *actions.Turn, skill, resource string) (Data, error) {
	u, err := p.find(ctx, turn, readResource, map[string]any{skillName: skill, resourceName: resource})
	if err != nil {
		return Data{}, err
	}
	return u.resource.Read(ctx)
}

// load is load_skill. [Provider.Extend] adds the instructions themselves, so neither the record nor
// the history contains them.
func (p *Provider) load(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	u, err := p.find(ctx, turn, loadSkill, entities)
	if err != nil {
		return actions.Result{}, err
	}
	if approved, ok := u.approved(turn); p.approves(loadSkill) && (!ok || approved != u.digest(Data{})) {
		return actions.Result{}, u.changed()
	}
	switch added, err := p.activate(ctx, turn, u.catalogue, u.skill); {
	case err != nil:
		return actions.Result{}, faultf("%v. The person can end them with /skill off.", err)
	case !added:
		return actions.Observe("The skill " + inLine(u.skill.Name) + " is already loaded; its instructions are above."), nil
	}
	return actions.Observe(loadedText(u.skill.Name)), nil
}

func (p *Provider) read(ctx context.Context, turn *actions.Turn, entities map[string]any) (actions.Result, error) {
	u, err := p.find(ctx, turn, readResource, entities)
	if err != nil {
		return actions.Result{}, err
	}
	approved, ok := u.approved(turn)
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
		return actions.Result{}, p.failure(ctx, err, fmt.Sprintf("Failed to read resource '%s' from skill '%s'.", name, skill))
	case p.approves(readResource) && approved != u.digest(data):
		return actions.Result{}, u.changed()
	case data.Binary:
		return actions.Observe("The resource is no text and cannot be shown here: " + data.String() +
			". Actions that take a skill's resource can use it by its name.").UnlessSaved(), nil
	}
	return page(name, unframed(data.String()), words(entities[pageNumber]))
}

// failure logs why a part of a skill did not work. Models learn only that it failed, and with
// DetailedErrors why.
func (p *Provider) failure(ctx context.Context, err error, text string) error {
	zerolog.Ctx(ctx).Error().Err(err).Msg("a part of a skill did not work")
	switch {
	case !p.cfg.DetailedErrors:
		return fault(text)
	case errors.Is(err, actions.ErrPanic): // drop the stack
		err = actions.ErrPanic
	}
	return fault(text + " Exception: " + err.Error())
}

const pageBytes = 64 << 10 // how much of a text one call returns

// page is one page of a text, counted from 1. It ends at a line end if possible, and never inside a
// character.
func page(name, text, which string) (actions.Result, error) {
	var pages []string
	for rest := text; rest != ""; {
		end := min(len(rest), pageBytes)
		if line := strings.LastIndexByte(rest[:end], '\n'); end < len(rest) && line >= end-1024 {
			end = line + 1
		}
		for end < len(rest) && !utf8.RuneStart(rest[end]) {
			end--
		}
		pages, rest = append(pages, rest[:end]), rest[end:]
	}
	n, err := strconv.Atoi(cmp.Or(which, "1"))
	switch {
	case err != nil || n < 1 || n > max(1, len(pages)):
		return actions.Result{}, faultf("Resource '%s' has pages 1 to %d, and no page %s.", name, max(1, len(pages)), clip(which))
	case len(pages) == 0:
		return actions.Observe("(the resource is empty)").UnlessSaved(), nil
	case len(pages) > 1:
		pages[n-1] += fmt.Sprintf("\n[page %d of %d]", n, len(pages))
	}
	return actions.Observe(pages[n-1]).UnlessSaved(), nil
}

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
	script, skill := inLine(u.script.Name), inLine(u.skill.Name)
	log := audit(ctx, runScript, u.skill).Str("script", script)
	var result actions.Result
	if u.script.Action != nil {
		log.Msg("skill used")
		arguments, _ := u.arguments.(map[string]any)
		if result, err = u.script.Action.Call(ctx, turn, arguments); err != nil {
			err = cmp.Or(errors.Unwrap(err), err) // the function's own message
		}
	} else {
		if digest == "" { // nobody had to approve it; the log needs the digest
			digest, err = p.cfg.runner.Digest(ctx, u.skill)
		}
		if err == nil {
			log.Str("digest", digest).Msg("skill used")
			result, err = p.cfg.runner.Run(ctx, u.skill, u.script, u.arguments, digest)
		}
	}
	switch {
	case err == nil:
		return result, nil
	case p.cfg.DetailedErrors && ctx.Err() == nil:
		return actions.Result{}, p.failure(ctx, err, fmt.Sprintf("Failed to execute script '%s' from skill '%s'.", script, skill))
	}
	return actions.Result{}, fmt.Errorf("script %s of skill %s: %w", script, skill, err)
}

// checkArguments finds everything wrong with a call that is known before it runs.
func (p *Provider) checkArguments(u *use) error {
	if u.script.Action == nil {
		if refused := p.cfg.runner.Refuses(u.script, u.arguments); refused != "" {
			return fault(refused)
		}
		return nil
	}
	about := fmt.Sprintf("Script '%s' of skill '%s'", inLine(u.script.Name), inLine(u.skill.Name))
	arguments := u.arguments
	if text, ok := arguments.(string); ok { // some servers and XML plans write it so
		arguments = unpacked(text)
	}
	object, _ := arguments.(map[string]any)
	kind := "a number"
	switch value := arguments.(type) {
	case nil, map[string]any:
		kind = ""
	case bool:
		kind = "a boolean"
	case string:
		kind = "a string"
	case []any:
		if kind = "an array"; len(value) == 0 {
			kind = ""
		}
	}
	if kind != "" {
		return faultf("%s takes its arguments as a JSON object, and not as %s.", about, kind)
	}
	checked, err := u.script.Action.Check(object)
	if err != nil {
		return faultf("%s cannot run with these arguments: %v", about, err)
	}
	u.arguments = checked
	return nil
}

// approved is what the policy has approved in this turn: for each tool, the last part of a skill it
// was asked about, and its digest. Only that may run, even if a source returns other skills a
// moment later. It is a value of the turn's temporary state.
type approved map[string]approvedPart

type approvedPart struct{ Part, Digest string }

func (approved) StateName() string { return "skillsApproved" }

func approvedIn(turn *actions.Turn) approved {
	if turn.Temp == nil {
		return approved{}
	}
	a := state.Of[approved](turn.Temp)
	if *a == nil {
		*a = approved{}
	}
	return *a
}

// approved returns the digest that the policy approved for this use.
func (u use) approved(turn *actions.Turn) (digest string, ok bool) {
	last, ok := approvedIn(turn)[u.tool]
	return last.Digest, ok && last.Part == u.skill.Name+"/"+u.part()
}

// changed is the fault of a use that is not what was approved.
func (u use) changed() error {
	return faultf("%s '%s' has changed while it was being asked whether it may be used. Please try again.",
		tools[u.tool].kind, inLine(cmp.Or(u.part(), u.skill.Name)))
}

// digest identifies what is used: the skill's content plus a resource's bytes (unless a function
// makes them each time), or the description and schema of a script in Go, or all files of a skill that a
// server has.
func (u use) digest(data Data) string {
	words := []string{u.skill.Dir, u.skill.Name, u.skill.Content(), u.part()}
	if u.skill.remote != nil {
		words = append(words, u.skill.remote.listed.Digest) // that of all files
	}
	switch {
	case u.tool == readResource && u.resource.Func == nil:
		words = append(words, string(data.Bytes))
	case u.script.Action != nil: // its schema is part of the content
		return "built in " + digest(append(words, u.script.Description)...)
	}
	return digest(words...)
}

// Policy adds the skills' rules to next, which may be nil for [actions.DefaultPolicy]. It requires
// approval for calls of the skill tools, bound to the digest of what would run, and denies calls
// that are not in the allowed-tools of an active skill. It never permits more than next.
func (p *Provider) Policy(next actions.Policy) actions.Policy {
	if next == nil {
		next = actions.DefaultPolicy
	}
	return func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if isTool(call.Action.Name) { // its mark is for bots without this Policy
			unmarked := *call.Action
			unmarked.Approval = false
			call.Action = &unmarked
		}
		approval, err := next(ctx, turn, call)
		if err != nil || approval.Denied != "" {
			return approval, err
		}
		own, err := p.approval(ctx, turn, call)
		if wrong := fault(""); errors.As(err, &wrong) { // the tool itself reports the fault; ask nobody
			return approval, nil
		}
		if err != nil || own.Denied != "" {
			return own, err
		}
		// Whoever requires the approval, bind it to what would run. It can be a standing one only
		// if both allow that.
		approval.Bind = strings.TrimSpace(approval.Bind + " " + own.Bind)
		if own.Required {
			approval.Standing = !approval.Required || approval.Standing
			approval.Required = true
			approval.Reason = strings.TrimSpace(approval.Reason + " " + own.Reason)
		}
		return approval, nil
	}
}

// findActions only makes actions of connections known to the model, see connections.Choice. Without it, a skill
// could not use those that its allowed-tools name.
const findActions = "findActions"

// approval is the skills' decision about a call.
func (p *Provider) approval(ctx context.Context, turn *actions.Turn, call actions.Call) (a actions.Approval, err error) {
	tool := call.Action.Name
	if tool == findActions && call.Action.StateOnly { // calls of what it finds are judged like any other
		return a, nil
	}
	if !isTool(tool) {
		a.Denied, err = p.denied(ctx, turn, tool, use{})
		return a, err
	}
	passed := approvedIn(turn)
	passed[tool] = approvedPart{} // drop what an earlier call got approved
	if tool != runScript && !p.approves(tool) {
		return a, nil
	}
	u, err := p.find(ctx, turn, tool, call.Entities)
	if err != nil {
		return a, err
	}
	a.Required = p.approves(tool)
	skill, part := clip(u.skill.Name), clip(u.part())
	switch tool {
	case loadSkill:
		a.Reason, a.Bind = turn.Translate("Loads the skill %s.", skill), u.digest(Data{})
	case readResource:
		a.Reason = turn.Translate("Reads %s of the skill %s.", part, skill)
		var data Data
		if u.resource.Func == nil { // if it cannot be read now, the tool would not return it either
			if data, err = u.resource.Read(ctx); err != nil && ctx.Err() != nil {
				return a, err
			}
		}
		a.Bind = u.digest(data)
	default:
		a.Reason = turn.Translate("Runs the script %s of the skill %s.", part, skill)
		if a.Denied, err = p.denied(ctx, turn, runScript, u); err == nil && a.Denied == "" {
			err = p.checkArguments(&u)
		}
		if err != nil || a.Denied != "" {
			return a, err
		}
		if u.script.Action != nil {
			a.Bind = u.digest(Data{})
			break
		}
		a.Bind, err = p.cfg.runner.Digest(ctx, u.skill)
		switch {
		case err != nil && ctx.Err() != nil:
			return a, err
		case err != nil:
			zerolog.Ctx(ctx).Error().Err(err).Str("skill", skill).Msg("the scripts of a skill cannot be read")
			return actions.Approval{Denied: fmt.Sprintf("The scripts of skill '%s' cannot be read.", skill)}, nil
		case a.Bind == "": // nothing would run
			return actions.Approval{}, nil
		}
	}
	passed[tool] = approvedPart{u.skill.Name + "/" + u.part(), a.Bind}
	if fn := u.script.Action; fn != nil { // honour its marks, and include what the bot would fill in
		a.Required = a.Required || fn.Approval || fn.Destructive && call.Salvaged
		bound, err := fn.Bound(ctx, turn)
		raw, failed := json.Marshal(bound)
		if err = cmp.Or(err, failed); err != nil {
			return a, fmt.Errorf("script %s of skill %s: %w", part, skill, err)
		}
		a.Bind += " " + digest(string(raw))
	}
	return a, nil
}

// mayRun returns the digest of the approved script. If the policy was not asked, as when a plan
// runs without a bot, only a script that needs no approval may run, with digest "".
func (p *Provider) mayRun(ctx context.Context, turn *actions.Turn, u use) (digest string, err error) {
	digest, ok := u.approved(turn)
	_, asked := approvedIn(turn)[runScript]
	a := u.script.Action
	switch {
	case ok && (a == nil || digest == u.digest(Data{})):
		return digest, nil
	case asked, p.approves(runScript), a != nil && (a.Approval || a.Destructive):
		return "", u.changed()
	}
	denied, err := p.denied(ctx, turn, runScript, u)
	if err == nil && denied != "" {
		err = fault(denied)
	}
	return "", err
}

// denied says why the active skills do not allow an action, or "" if they do. Every active skill
// that lists tools must list this one. u is the use of a script.
func (p *Provider) denied(ctx context.Context, turn *actions.Turn, action string, u use) (string, error) {
	active := activeIn(turn).Loaded
	if len(active) == 0 {
		return "", nil
	}
	c, err := p.catalogue(ctx, turn, false)
	if err != nil {
		return "", err
	}
	for _, a := range active {
		i, ok := slices.BinarySearch(c.names, a.Skill)
		if !ok {
			continue
		}
		s := c.skills[i]
		allows := func(word string) bool {
			return strings.EqualFold(word, action) || action == runScript && allowsScript(s, word, u)
		}
		if s.AllowedTools == nil || slices.ContainsFunc(s.AllowedTools, allows) {
			continue
		}
		name, call := inLine(s.Name), strings.TrimSpace(action+" "+inLine(u.script.Name))
		zerolog.Ctx(ctx).Info().Str("skill", name).Str("action", action).Msg("a skill does not allow a call")
		return fmt.Sprintf("%s is not among the tools that the skill %s allows while it is loaded (%s). The person can end it with /skill off %s.",
			call, name, clip(strings.Join(s.AllowedTools, " ")), name), nil
	}
	return "", nil
}

// allowsScript interprets a word of a skill's allowed-tools: Bash and Bash(*) allow all scripts,
// Bash(python:*) those of an interpreter, Bash(scripts/x.py:*) and Bash(python scripts/x.py:*) one
// of the skill's own.
func allowsScript(s *Skill, word string, u use) bool {
	name, inner, opened := strings.Cut(word, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !strings.EqualFold(name, "bash") || opened != closed {
		return false
	}
	if !opened || inner == "*" {
		return true
	}
	command, free := strings.CutSuffix(inner, ":*")
	words := strings.Fields(command)
	if !free || len(words) == 0 {
		return false
	}
	if u.script.Action == nil && slices.Contains(interpreters[strings.ToLower(path.Ext(u.script.Name))], strings.ToLower(words[0])) {
		if words = words[1:]; len(words) == 0 {
			return true
		}
	}
	return len(words) == 1 && u.skill == s && strings.TrimPrefix(words[0], "./") == u.script.Name
}

// interpreters maps each interpreter to the names people use for it.
var interpreters = map[string][]string{
	".py":  {"python", "python3"},
	".js":  {"node", "nodejs"},
	".sh":  {"bash", "sh"},
	".ps1": {"pwsh", "powershell"},
	".cs":  {"dotnet"},
	".csx": {"dotnet-script", "dotnet"},
}
