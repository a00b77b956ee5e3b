package scenario

import (
	"maps"
	"regexp"
	"slices"

	"github.com/planbot-go/planbot/bottest"
)

// sayings are the texts of the bot for which a word in <…> stands. Those without a text
// here are looked at otherwise. What a sentence says more than its beginning is for
// the bot to word.
var sayings = map[string]*regexp.Regexp{
	"approval_card":  nil,
	"split":          nil,
	"resumed":        nil,
	"honest":         nil,
	"too_many_steps": regexp.MustCompile(`^Sorry, (this took too many steps|I was going in circles|this would take more than I may spend|answering that would take too many messages)`),
	"reset_done":     regexp.MustCompile(`^I forgot our conversation\.`),
	"fallback":       regexp.MustCompile(`^Sorry, `),
	"denied":         regexp.MustCompile(`^As you wish: I did not do `),
	"not_allowed":    regexp.MustCompile(`^(You may not decide this|Sorry, I may not talk with you)`),
	"already_done":   regexp.MustCompile(`^(This was decided already|I do not wait for this decision any more|This was not decided in time)`),
	"filtered":       regexp.MustCompile(`^Sorry, the content filter `),
	"welcome":        regexp.MustCompile(`^Hello, I am `),
	"busy":           regexp.MustCompile(`^Sorry, (the AI model has too much to do|the AI model cannot be used)`),
	"timeout":        regexp.MustCompile(`^Sorry, (this took too long|the AI model did not answer in time)`),
}

// others are the sentences that fallback does not stand for: they say what happened.
var others = []string{"too_many_steps", "filtered", "timeout"}

func placeholderNames() []string { return slices.Sorted(maps.Keys(sayings)) }

var (
	placeholderForm = regexp.MustCompile(`^<([a-zA-Z][a-zA-Z_]*)\b[^<>]*>$`)
	approvalForm    = regexp.MustCompile(`(?s)^<approval_card([\s:].*)?>$`) // its values may hold anything
)

// wordOf is the first word of a reply that is all in <…>, else "".
func wordOf(reply string) string {
	if m := placeholderForm.FindStringSubmatch(reply); m != nil {
		return m[1]
	}
	if approvalForm.MatchString(reply) {
		return "approval_card"
	}
	return ""
}

// placeholderOf is the placeholder that a reply is, else "": then it is a text.
func placeholderOf(reply string) string {
	word := wordOf(reply)
	if _, known := sayings[word]; known {
		return word
	}
	return ""
}

// reply is what came to a channel.
type reply struct {
	text string
	card *bottest.Card // nil: it is a text
	turn string        // that says it; "" in the answer to a click
}

func (r reply) String() string {
	if r.card != nil {
		return "card " + r.card.JSON
	}
	return r.text
}

// is reports whether the reply is what is wanted.
func (r reply) is(want string, resumed func(reply) bool) bool {
	name := placeholderOf(want)
	switch name {
	case "":
		return r.card == nil && r.text == want
	case "split": // of as many texts as there are
		return r.card == nil
	case "approval_card":
		return r.card != nil && wantedOf(want).by(questionOf(r.card.JSON))
	case "resumed", "honest":
		return resumed(r)
	case "fallback":
		return sayings[name].MatchString(r.text) && !slices.ContainsFunc(others, func(other string) bool { return sayings[other].MatchString(r.text) })
	}
	return sayings[name].MatchString(r.text)
}
