package recording

import (
	"slices"
	"strings"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bottest/scenario"
)

// Why nothing is expected of a step.
const (
	notOver    = "Its turn was not over when this was written, or another process did it: what comes of it is not known."
	otherCard  = "It decides an older card than the newest, and which one a scenario cannot say."
	noCard     = "It decides a card of before this scenario."
	byOthers   = "Somebody else decided it than who asked, whom the settings of the bot let: a scenario has no such settings."
	standing   = "A call in it had been approved for good, which a scenario cannot say."
	takenOut   = "The bot was taken out, which a scenario cannot say."
	ofSettings = "What the bot said may come of these settings, which a scenario does not have: "
)

// pendingCard is a card that asks for an approval.
type pendingCard struct {
	approval string
	decided  bool
}

// verdicts say why nothing can be expected of the steps; "": it can.
func (c *conversation) verdicts(cfg *Config) []string {
	out := make([]string, len(c.steps))
	var cards []pendingCard
	for i, s := range c.steps {
		if c.begins(i, out) {
			cards = nil
		}
		if out[i] = s.verdict(cfg, cards); out[i] != "" {
			continue
		}
		for _, r := range s.replies {
			if r.card != "" && r.card != anotherCard {
				cards = append(cards, pendingCard{approval: r.approval})
			}
		}
	}
	return out
}

// begins reports whether a scenario begins with that step: with the first one, and where
// nobody knows what was left by what happened before it.
func (c *conversation) begins(i int, verdicts []string) bool {
	return i == 0 || verdicts[i-1] != "" || c.steps[i].apart
}

// verdict is that of one step, where these cards are there to be decided.
func (s *step) verdict(cfg *Config, cards []pendingCard) string {
	if why := s.clickVerdict(cards); why != "" {
		return why
	}
	if left(s.activity) {
		return takenOut
	}
	if slices.ContainsFunc(s.done, func(d *done) bool { return d.unasked }) {
		return standing
	}
	if s.isOpen() {
		return notOver
	}
	return s.settingsVerdict(cfg)
}

// clickVerdict marks the card that the step decides, if it does: the newest that is not
// decided, or else the newest, is the one that a scenario decides.
func (s *step) clickVerdict(cards []pendingCard) string {
	if s.decision == nil {
		return ""
	}
	at := slices.IndexFunc(cards, func(c pendingCard) bool { return c.approval == s.decision.approval })
	if at < 0 {
		return noCard
	}
	next := len(cards) - 1
	for i, c := range slices.Backward(cards) {
		if !c.decided {
			next = i
			break
		}
	}
	switch {
	case next != at:
		return otherCard
	case s.asker != "" && s.asker != s.activity.From.ID:
		return byOthers
	}
	cards[at].decided = cards[at].decided || s.asker != ""
	return ""
}

// settingsVerdict looks for what the bot says because of settings.
func (s *step) settingsVerdict(cfg *Config) string {
	if len(cfg.Settings) == 0 {
		return ""
	}
	for _, r := range s.replies {
		switch scenario.Placeholder(r.text) {
		case "<not_allowed>", "<too_many_steps>", "<timeout>", "<already_done>":
			return ofSettings + strings.Join(cfg.Settings, ", ")
		}
	}
	return ""
}

// isOpen reports whether the bot may not have done all that it does for the step.
func (s *step) isOpen() bool {
	over := 0
	for _, ended := range s.turns {
		if !ended {
			return true
		}
		over++
	}
	if s.decision != nil && s.activity.Type == activity.Invoke && s.answered && !s.refused {
		return over < 2 // one took the decision, one follows it
	}
	return over == 0 && s.isWork()
}

// isWork reports whether a turn comes of the activity, whatever routes the bot has.
func (s *step) isWork() bool {
	a := s.activity
	if a.Type == activity.Message {
		unheard := a.ChannelID == activity.Teams && !a.Conversation.Personal() && !a.Addressed() && (a.Text != "" || len(a.Value) == 0)
		return !unheard && !a.FromBot()
	}
	return installed(a) || slices.ContainsFunc(a.MembersAdded, func(who activity.Account) bool { return isBot(a, who) })
}

func isBot(a *activity.Activity, who activity.Account) bool {
	return who.ID != "" && who.ID == a.Recipient.ID
}

func installed(a *activity.Activity) bool {
	return a.Type == activity.InstallationUpdate && strings.EqualFold(a.Action, "add")
}

// left reports whether the bot was taken out of the conversation.
func left(a *activity.Activity) bool {
	return a.Type == activity.InstallationUpdate && strings.EqualFold(a.Action, "remove") ||
		slices.ContainsFunc(a.MembersRemoved, func(who activity.Account) bool { return isBot(a, who) })
}
