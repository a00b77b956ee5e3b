package scenario

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"

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
	"too_many_steps": regexp.MustCompile(`^Sorry, (this took too many steps|I was going in circles|this would take more than I may spend)`),
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

func isPlaceholder(name string) bool { _, ok := sayings[name]; return ok }

func placeholderNames() []string { return slices.Sorted(maps.Keys(sayings)) }

var placeholderForm = regexp.MustCompile(`^<([a-z][a-z_]*)\b[^<>]*>$`)

// placeholderOf is the first word of a reply that is all in <…>, else "".
func placeholderOf(reply string) string {
	if m := placeholderForm.FindStringSubmatch(reply); m != nil {
		return m[1]
	}
	return ""
}

// reply is what came to a channel.
type reply struct {
	text string
	card *bottest.Card // nil: it is a text
}

func (r reply) String() string {
	if r.card != nil {
		return "card " + r.card.JSON
	}
	return r.text
}

// is reports whether the reply is what is wanted. Those that the model wrote for the
// scenario are said: of an answer that was resumed, any of them will do.
func (r reply) is(want string, said func(text string) bool) bool {
	name := placeholderOf(want)
	switch name {
	case "":
		return r.card == nil && r.text == want
	case "approval_card":
		return r.card != nil && r.asksFor(want)
	case "resumed", "honest":
		return said(r.text) || strings.Contains(r.text, "I cannot tell whether this was done")
	case "fallback":
		return sayings[name].MatchString(r.text) && !slices.ContainsFunc(others, func(other string) bool { return sayings[other].MatchString(r.text) })
	}
	return sayings[name].MatchString(r.text)
}

// asksFor reports whether the card asks for the approval of that call: <approval_card
// ACTION ENTITY=VALUE …>, with the values as JSON, a text also without its quotes. Without
// an action, any call will do.
func (r reply) asksFor(want string) bool {
	words := strings.Fields(strings.Trim(want, "<>"))
	lines := cardLines(r.card.JSON)
	if !slices.Contains(lines, "May I do this?") || len(words) > 1 && !slices.Contains(lines, words[1]) {
		return false
	}
	var pairs []string
	for _, word := range words[min(2, len(words)):] {
		if last := len(pairs) - 1; last >= 0 && !strings.Contains(word, "=") {
			pairs[last] += " " + word // of a value with spaces
			continue
		}
		pairs = append(pairs, word)
	}
	return !slices.ContainsFunc(pairs, func(pair string) bool {
		name, value, _ := strings.Cut(pair, "=")
		return !slices.Contains(lines, name+": "+value) && !slices.Contains(lines, name+": "+`"`+value+`"`)
	})
}

// cardLines are the texts of a card, of each element of it those of its parts together.
func cardLines(raw string) []string {
	var tree any
	if json.Unmarshal([]byte(raw), &tree) != nil {
		return nil
	}
	var lines []string
	var walk func(node any)
	walk = func(node any) {
		switch node := node.(type) {
		case []any:
			for _, one := range node {
				walk(one)
			}
		case map[string]any:
			if text, ok := node["text"].(string); ok {
				lines = append(lines, text)
			}
			if parts, ok := node["inlines"].([]any); ok {
				line := ""
				for _, part := range parts {
					run, _ := part.(map[string]any)
					text, _ := run["text"].(string)
					line += text
				}
				lines = append(lines, line)
			}
			for _, one := range node {
				walk(one)
			}
		}
	}
	walk(tree)
	return lines
}
