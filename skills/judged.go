package skills

import (
	"crypto/sha256"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// judged is what the policy has let pass in this turn, so that nothing else is done than
// what was judged, and maybe approved, although a source may tell of other skills a moment
// later: of each tool that it was asked about, the parts of skills, and what stands for what
// they were. It is a value of the turn's temporary state.
type judged map[string]map[string]string

// StateName is the name under which state keeps it.
func (judged) StateName() string { return "skillsJudged" }

func judgedIn(turn *actions.Turn) judged {
	if turn.Temp == nil {
		return judged{}
	}
	seen := state.Of[judged](turn.Temp)
	if *seen == nil {
		*seen = judged{}
	}
	return *seen
}

// asked begins to judge a call. What was judged before of the tool's calls was not this one.
func (j judged) asked(tool string) { j[tool] = map[string]string{} }

// allow notes a part of a skill, which for a skill itself is "".
func (j judged) allow(tool, skill, part, is string) { j[tool][skill+"/"+part] = is }

// find returns what was judged of a part. asked is false where the policy was not asked
// about the tool at all, as where plans run without a bot.
func (j judged) find(tool, skill, part string) (is string, ok, asked bool) {
	parts, asked := j[tool]
	is, ok = parts[skill+"/"+part]
	return is, ok, asked
}

// unjudged is what is told of a call that was not judged as what it is now.
const unjudged = "%s '%s' has changed while it was being asked whether it may be used. Please try again."

// identity stands for what something is.
func identity(is string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(is))) }

func (s *Skill) identity() string { return identity(s.Dir + "\n" + s.Content()) }
