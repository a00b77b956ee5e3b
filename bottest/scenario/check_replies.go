package scenario

import (
	"strings"

	"github.com/planbot-go/planbot/internal/spelling"
)

func (r *reader) checkReplies(s *Scenario, e *Expect, p place) {
	splits := 0
	for i, reply := range e.Replies {
		at := p.in("expect.replies").at(i)
		switch name := placeholderOf(reply); name {
		case "":
			r.checkText(s, reply, at)
			r.checkForbidden(e, reply, at)
		case "approval_card":
			if w := wantedOf(reply); w.values != "" && !strings.Contains(w.values, "=") {
				r.fault(at, "want <approval_card ACTION NAME=VALUE …>")
			}
		case "split":
			splits++
		}
	}
	if splits > 1 {
		r.fault(p.in("expect.replies"), "<split> may be there once: where one ends and the next begins could not be told")
	}
	if e.Replies != nil && len(e.Replies) == 0 && e.JoinedReplyEquals != nil && *e.JoinedReplyEquals != "" {
		r.fault(p.in("expect.joined_reply_equals"), "is a text, and replies are none")
	}
}

// checkText finds placeholders that are misspelt. A text that only looks like one has to
// come from somewhere.
func (r *reader) checkText(s *Scenario, reply string, at place) {
	word := wordOf(reply)
	if word == "" || s.writes(reply) {
		return
	}
	whole := reply[1:min(len(reply)-1, maxWord)]
	near := spelling.Nearest(placeholderNames(), func(name string) (edits int, ok bool) {
		plain := spelling.Plain(name)
		edits = min(spelling.Edits(spelling.Plain(whole), plain), spelling.Edits(spelling.Plain(word[:min(len(word), maxWord)]), plain))
		return edits, edits <= len(plain)/3
	})
	hint := ""
	if len(near) > 0 {
		hint = "; did you mean <" + strings.Join(near, "> or <") + ">?"
	}
	r.fault(at, "<%s> stands for nothing, and nothing in the scenario writes this text%s; there are: %s", word, hint, strings.Join(placeholderNames(), ", "))
}

// maxWord is how much of what is unknown is compared with the names that there are.
const maxWord = 80

func (r *reader) checkForbidden(e *Expect, reply string, at place) {
	for _, no := range e.ReplyMustNotContain {
		if strings.Contains(reply, no) {
			r.fault(at, "contains %q, which reply_must_not_contain forbids", no)
		}
	}
}

// writes reports whether the text is in anything of the scenario that can become a reply:
// what the model writes, what actions give back, what people say, or what was there before.
func (s *Scenario) writes(text string) bool {
	if strings.Contains(asJSON(s.Seed), inJSON(text)) {
		return true
	}
	for i := range s.Steps {
		for _, d := range append(s.Steps[i].deliveries(), &s.Steps[i].Delivery) {
			if d.writes(text) {
				return true
			}
		}
	}
	return false
}

func (d *Delivery) writes(text string) bool {
	for _, a := range d.Model {
		if a.Text != nil && wrote(*a.Text, text) {
			return true
		}
	}
	for _, a := range d.Expect.Actions {
		if wrote(textOf(a.Result), text) {
			return true
		}
	}
	return d.Event != nil && d.Event.Text != nil && wrote(*d.Event.Text, text)
}

// wrote reports whether the text is in what was written, as it is or as JSON has it.
func wrote(written, text string) bool {
	plain := angles.Replace(written)
	return strings.Contains(plain, text) || strings.Contains(plain, inJSON(text))
}

// angles undoes what some writers of JSON do to < and >.
var angles = strings.NewReplacer(`\u003c`, "<", `\u003C`, "<", `\u003e`, ">", `\u003E`, ">")

// inJSON is a text as it stands between the quotes of JSON.
func inJSON(text string) string {
	quoted := asJSON(text)
	return quoted[1 : len(quoted)-1]
}
