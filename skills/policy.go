package skills

import (
	"cmp"
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

// approved is what the policy has approved in this turn: for each tool, the last part of a skill it
// was asked about, and its digest. Only that may run, even if a source returns other skills a
// moment later. It is a value of the turn's temporary state.
type approved map[string]approvedPart

type approvedPart struct{ Part, Digest string }

// StateName is its name in state.
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
