package skills

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// approved is what the policy has let pass in this turn: of each tool the last part of a skill
// that it was asked about, with its digest. Nothing else is done, although a source may give other
// skills a moment later. It is a value of the turn's temporary state.
type approved map[string]approvedPart

type approvedPart struct{ Part, Digest string }

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

// allow notes what passed.
func (a approved) allow(u use, digest string) {
	a[u.tool] = approvedPart{u.skill.Name + "/" + u.part(), digest}
}

// find returns the digest of what passed. asked is false where the policy was not asked about
// the tool at all, as where plans run without a bot.
func (a approved) find(u use) (digest string, ok, asked bool) {
	last, asked := a[u.tool]
	return last.Digest, last.Part == u.skill.Name+"/"+u.part(), asked
}

// changed is the fault of a call that did not pass as what it is now.
func (u use) changed() error {
	kind := map[string]string{loadSkill: "Skill", readResource: "Resource", runScript: "Script"}[u.tool]
	return faultf("%s '%s' has changed while it was being asked whether it may be used. Please try again.",
		kind, inLine(cmp.Or(u.part(), u.skill.Name)))
}

// digest tells what is used from anything else of its name: by its skill's words and by what a
// resource holds, unless that is made anew each time, or what a script in Go is said to do with
// which arguments.
func (u use) digest(data Data) string {
	words := []string{u.skill.Dir, u.skill.Name, u.skill.Content(), u.part()}
	switch {
	case u.tool == readResource && u.resource.Func == nil:
		words = append(words, string(data.Bytes))
	case u.script.Action != nil:
		schema, err := json.Marshal(u.script.Action.Schema)
		if err != nil {
			schema = []byte(err.Error())
		}
		return "built in " + digest(append(words, u.script.Description, string(schema))...)
	}
	return digest(words...)
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
		own, err := p.approval(ctx, turn, call)
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

// approval is what skills say of a call.
func (p *Provider) approval(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
	tool := call.Action.Name
	if !isTool(tool) {
		denied, err := p.denied(ctx, turn, tool, use{})
		return actions.Approval{Denied: denied}, err
	}
	passed := approvedIn(turn)
	passed[tool] = approvedPart{} // what passed before was not this call
	if tool != runScript && !p.approves(tool) {
		return actions.Approval{}, nil
	}
	u, err := p.find(ctx, turn, tool, call.Entities)
	if err != nil {
		return actions.Approval{}, err
	}
	if tool == runScript {
		return p.scriptApproval(ctx, turn, u, call.Salvaged)
	}
	data, reason := Data{}, "Loads the skill "+clip(u.skill.Name)+"."
	if tool == readResource {
		reason = "Reads " + clip(u.resource.Name) + " of the skill " + clip(u.skill.Name) + "."
		if u.resource.Func == nil { // what cannot be read now is nothing that the tool would tell
			if data, err = u.resource.Read(ctx); err != nil && ctx.Err() != nil {
				return actions.Approval{}, err
			}
		}
	}
	passed.allow(u, u.digest(data))
	return actions.Approval{Required: true, Reason: reason, Bind: u.digest(data)}, nil
}

func (p *Provider) scriptApproval(ctx context.Context, turn *actions.Turn, u use, salvaged bool) (actions.Approval, error) {
	denied, err := p.denied(ctx, turn, runScript, u)
	if err != nil || denied != "" {
		return actions.Approval{Denied: denied}, err
	}
	if err := p.checkArguments(&u); err != nil {
		return actions.Approval{}, err
	}
	script, skill := inLine(u.script.Name), inLine(u.skill.Name)
	approval := actions.Approval{
		Required: p.approves(runScript),
		Reason:   "Runs the script " + clip(script) + " of the skill " + clip(skill) + ".",
	}
	if a := u.script.Action; a != nil { // its marks count, and what the bot would fill in is approved too
		bound, err := a.Bound(ctx, turn)
		var raw []byte
		if err == nil {
			raw, err = json.Marshal(bound)
		}
		if err != nil {
			return actions.Approval{}, fmt.Errorf("script %s of skill %s: %w", script, skill, err)
		}
		approval.Required = approval.Required || a.Approval || a.Destructive && salvaged
		approval.Bind = u.digest(Data{}) + " " + digest(string(raw))
		approvedIn(turn).allow(u, u.digest(Data{}))
		return approval, nil
	}
	approval.Bind, err = p.cfg.runner.Digest(ctx, u.skill)
	switch {
	case err != nil && ctx.Err() != nil:
		return actions.Approval{}, err
	case err != nil:
		zerolog.Ctx(ctx).Error().Err(err).Str("skill", skill).Msg("the scripts of a skill cannot be read")
		return actions.Approval{Denied: fmt.Sprintf("The scripts of skill '%s' cannot be read.", skill)}, nil
	case approval.Bind == "": // nothing would run
		return actions.Approval{}, nil
	}
	approvedIn(turn).allow(u, approval.Bind)
	return approval, nil
}

// mayRun finds the digest of the script that has passed. Where the policy was not asked, as
// where a plan runs without a bot, only what needs no approval may run, with "".
func (p *Provider) mayRun(ctx context.Context, turn *actions.Turn, u use) (digest string, err error) {
	digest, ok, asked := approvedIn(turn).find(u)
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

// denied says why the active skills do not allow an action, "" when they do. Each of them that
// names tools has to name this one. u is that of a script.
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
			if command, ok := s.command(word); ok {
				return action == runScript && command(u.skill, u.script)
			}
			return strings.EqualFold(word, action)
		}
		if s.AllowedTools == nil || slices.ContainsFunc(s.AllowedTools, allows) {
			continue
		}
		zerolog.Ctx(ctx).Info().Str("skill", inLine(s.Name)).Str("action", action).Msg("a skill does not allow a call")
		return fmt.Sprintf("%s is not among the tools that the skill %s allows while it is loaded (%s). The person can end it with /skill off %s.",
			strings.TrimSpace(action+" "+inLine(u.script.Name)), inLine(s.Name), clip(strings.Join(s.AllowedTools, " ")), inLine(s.Name)), nil
	}
	return "", nil
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
