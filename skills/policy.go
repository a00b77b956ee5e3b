package skills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// approved is what the policy has let pass in this turn: of each tool that it was asked about,
// the parts of skills with their digests. Nothing else is done, although a source may give other
// skills a moment later. It is a value of the turn's temporary state.
type approved map[string]map[string]string

// StateName is the name under which state keeps it.
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

// allow notes a part of a skill, "" being the skill itself.
func (a approved) allow(tool, skill, part, digest string) { a[tool][skill+"/"+part] = digest }

// find returns the digest of a part that passed. asked is false where the policy was not asked
// about the tool at all, as where plans run without a bot.
func (a approved) find(tool, skill, part string) (digest string, ok, asked bool) {
	parts, asked := a[tool]
	digest, ok = parts[skill+"/"+part]
	return digest, ok, asked
}

// changedText is told of a call that did not pass as what it is now.
const changedText = "%s '%s' has changed while it was being asked whether it may be used. Please try again."

func (s *Skill) digest() string { return digest(s.Dir, s.Content()) }

// resourceDigest is of the skill and of what the resource holds, unless that is made anew each
// time.
func (s *Skill) resourceDigest(r Resource, data Data) string {
	if r.Size < 0 {
		return s.digest()
	}
	return digest(s.Dir, s.Content(), string(data.Bytes))
}

// digest tells a script that is a Go function from any other of its name: by its skill's
// words, and by what it is said to do with which arguments.
func (c scriptCall) digest() string {
	schema, err := json.Marshal(c.script.Action.Schema)
	if err != nil {
		schema = []byte(err.Error())
	}
	return "built in " + digest(c.skill.Name, c.skill.Content(), c.script.Name, c.script.Description, string(schema))
}

// Policy adds to next, which may be nil for [actions.DefaultPolicy], what skills say of a
// call: that one of their tools needs approval, bound to the digest of what would run, and that a
// call is not among the allowed-tools of an active skill. It only ever asks for more.
func (p *Provider) Policy(next actions.Policy) actions.Policy {
	if next == nil {
		next = actions.DefaultPolicy
	}
	return func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if isTool(call.Action.Name) { // its mark is for bots that do not ask here
			unmarked := *call.Action
			unmarked.Approval = false
			call.Action = &unmarked
		}
		approval, err := next(ctx, turn, call)
		if err != nil || approval.Denied != "" {
			return approval, err
		}
		own, err := p.judge(ctx, turn, call)
		if wrong := fault(""); errors.As(err, &wrong) { // the tool itself says what is wrong: nobody is asked
			return approval, nil
		}
		if err != nil || own.Denied != "" {
			return own, err
		}
		// An approval is bound to what would run, whoever wants it; that it may be a standing one
		// is for both to say.
		approval.Bind = strings.TrimSpace(approval.Bind + " " + own.Bind)
		if own.Required {
			approval.Standing = !approval.Required || approval.Standing
			approval.Required = true
			approval.Reason = strings.TrimSpace(approval.Reason + " " + own.Reason)
		}
		return approval, nil
	}
}

// judge is what skills say of a call.
func (p *Provider) judge(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
	tool, g := call.Action.Name, given(call.Entities)
	if !isTool(tool) {
		denied, err := p.denied(ctx, turn, tool, scriptCall{})
		return actions.Approval{Denied: denied}, err
	}
	passed := approvedIn(turn)
	passed[tool] = map[string]string{} // what passed before was not this call
	switch {
	case tool == RunScript:
		return p.judgeScript(ctx, turn, call)
	case !p.approves(tool):
		return actions.Approval{}, nil
	case tool == LoadSkill:
		c, i, err := p.findSkill(ctx, turn, g)
		if err != nil {
			return actions.Approval{}, err
		}
		s := c.skills[i]
		passed.allow(LoadSkill, s.Name, "", s.digest())
		return actions.Approval{Required: true, Reason: "Loads the skill " + clip(s.Name) + ".", Bind: s.digest()}, nil
	}
	s, r, err := p.findResource(ctx, turn, g)
	if err != nil {
		return actions.Approval{}, err
	}
	data := Data{} // what cannot be read now is nothing that the tool would tell
	if r.Size >= 0 {
		if data, err = r.Read(ctx); err != nil && ctx.Err() != nil {
			return actions.Approval{}, err
		}
	}
	bind := s.resourceDigest(r, data)
	passed.allow(ReadResource, s.Name, r.Name, bind)
	return actions.Approval{Required: true, Reason: "Reads " + clip(r.Name) + " of the skill " + clip(s.Name) + ".", Bind: bind}, nil
}

func (p *Provider) judgeScript(ctx context.Context, turn *actions.Turn, asked actions.Call) (actions.Approval, error) {
	call, err := p.findScript(ctx, turn, asked.Entities)
	if err != nil {
		return actions.Approval{}, err
	}
	denied, err := p.denied(ctx, turn, RunScript, call)
	if err != nil || denied != "" {
		return actions.Approval{Denied: denied}, err
	}
	if err := p.checkArguments(&call); err != nil {
		return actions.Approval{}, err
	}
	script, skill := inLine(call.script.Name), inLine(call.skill.Name)
	approval := actions.Approval{
		Required: p.approves(RunScript),
		Reason:   "Runs the script " + clip(script) + " of the skill " + clip(skill) + ".",
	}
	if a := call.script.Action; a != nil { // its marks count, and what the bot would fill in is approved too
		bound, err := a.Bound(ctx, turn)
		var raw []byte
		if err == nil {
			raw, err = json.Marshal(bound)
		}
		if err != nil {
			return actions.Approval{}, fmt.Errorf("script %s of skill %s: %w", script, skill, err)
		}
		approval.Required = approval.Required || a.Approval || a.Destructive && asked.Salvaged
		approval.Bind = call.digest() + " " + digest(string(raw))
		approvedIn(turn).allow(RunScript, call.skill.Name, call.script.Name, call.digest())
		return approval, nil
	}
	approval.Bind, err = p.cfg.Runner.Digest(ctx, call.skill)
	switch {
	case err != nil && ctx.Err() != nil:
		return actions.Approval{}, err
	case err != nil:
		zerolog.Ctx(ctx).Error().Err(err).Str("skill", skill).Msg("the scripts of a skill cannot be read")
		return actions.Approval{Denied: fmt.Sprintf("The scripts of skill '%s' cannot be read.", skill)}, nil
	case approval.Bind == "": // nothing would run
		return actions.Approval{}, nil
	}
	approvedIn(turn).allow(RunScript, call.skill.Name, call.script.Name, approval.Bind)
	return approval, nil
}

// mayRun finds the digest of the script that has passed. Where the policy was not asked, as
// where a plan runs without a bot, only what needs no approval may run, with "".
func (p *Provider) mayRun(ctx context.Context, turn *actions.Turn, call scriptCall) (digest string, err error) {
	digest, ok, asked := approvedIn(turn).find(RunScript, call.skill.Name, call.script.Name)
	a := call.script.Action
	switch {
	case ok && (a == nil || digest == call.digest()):
		return digest, nil
	case asked, p.approves(RunScript), a != nil && (a.Approval || a.Destructive):
		return "", faultf(changedText, "Script", inLine(call.script.Name))
	}
	denied, err := p.denied(ctx, turn, RunScript, call)
	if err == nil && denied != "" {
		err = fault(denied)
	}
	return "", err
}

// denied says why the active skills do not allow an action, "" when they do. Each of them that
// names tools has to name this one. call is that of a script.
func (p *Provider) denied(ctx context.Context, turn *actions.Turn, action string, call scriptCall) (string, error) {
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
			if command, ok := parseCommand(word); ok {
				return action == RunScript && command.allows(s, call)
			}
			return strings.EqualFold(word, action)
		}
		if s.AllowedTools == nil || slices.ContainsFunc(s.AllowedTools, allows) {
			continue
		}
		zerolog.Ctx(ctx).Info().Str("skill", inLine(s.Name)).Str("action", action).Msg("a skill does not allow a call")
		return fmt.Sprintf("%s is not among the tools that the skill %s allows while it is loaded (%s). The person can end it with /skill off %s.",
			strings.TrimSpace(action+" "+inLine(call.script.Name)), inLine(s.Name), clip(strings.Join(s.AllowedTools, " ")), inLine(s.Name)), nil
	}
	return "", nil
}

// command is what a word such as Bash(python scripts/x.py:*) allows: all scripts, or those
// of an interpreter, or one of the skill's own.
type command struct {
	interpreter, script string
	unknown             bool // it is none that runs here
}

// interpreters are what people call the programs that run scripts.
var interpreters = map[string][]string{
	".py":  {"python", "python3"},
	".js":  {"node", "nodejs"},
	".sh":  {"bash", "sh"},
	".ps1": {"pwsh", "powershell"},
	".cs":  {"dotnet"},
	".csx": {"dotnet-script", "dotnet"},
}

// parseCommand reads the word Bash, alone or with a command behind it. ok is false for any
// other word.
func parseCommand(word string) (c command, ok bool) {
	name, inner, opened := strings.Cut(word, "(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !strings.EqualFold(name, "bash") || opened != closed {
		return command{}, false
	}
	if !opened || inner == "*" {
		return command{}, true
	}
	prefix, free := strings.CutSuffix(inner, ":*")
	fields := strings.Fields(prefix)
	if !free || len(fields) == 0 || len(fields) > 2 {
		return command{unknown: true}, true
	}
	first := strings.ToLower(fields[0])
	for _, names := range interpreters {
		if slices.Contains(names, first) {
			c.interpreter, fields[0] = first, ""
		}
	}
	c.script = strings.TrimPrefix(strings.TrimSpace(strings.Join(fields, " ")), "./")
	return c, true
}

// allows says that the command, of the skill s, is a call.
func (c command) allows(s *Skill, call scriptCall) bool {
	if c.unknown || c.script != "" && (c.script != call.script.Name || call.skill.Name != s.Name) {
		return false
	}
	known := interpreters[strings.ToLower(path.Ext(call.script.Name))]
	return c.interpreter == "" || call.script.Action == nil && slices.Contains(known, c.interpreter)
}

// understands says that a word of the skill's allowed-tools can allow something.
func (p *Provider) understands(s *Skill, word string) bool {
	if c, ok := parseCommand(word); ok {
		return !c.unknown && (c.script == "" || slices.ContainsFunc(s.Scripts, func(script Script) bool { return script.Name == c.script }))
	}
	if p.registry == nil || strings.EqualFold(word, "read") { // resources can always be read
		return true
	}
	_, ok := p.registry.Lookup(word)
	return ok
}
