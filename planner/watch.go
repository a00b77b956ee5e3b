package planner

import (
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// Event is one step of making a plan, as [Config].Watch sees it: exactly one of the pointers is set.
// Nobody changes what it holds any more.
type Event struct {
	Turn     string // the turn's id
	At       time.Time
	Asked    *Asked
	Answered *Answered
}

// Asked is what the model is asked.
type Asked struct {
	Planner  string // sequence, sequential or tools
	Prompt   string // its name
	Sections []Section
	Request  models.Request // without Stream
	// HistoryTokens limits the sections summary and history.
	HistoryTokens int
}

// Section is a part of the prompt. Its names are prompt, pinned, summary, history, context, person,
// results and correction, in this order.
type Section struct {
	Name string
	models.Message
	Left bool // there was no room for it
}

// Answered is what came of the model's answer.
type Answered struct {
	Response *models.Response // nil: there was none
	Err      error            // why not
	Fault    error            // why the answer is not a plan that can run, often a [*plan.Fault]
	Told     string           // what the model is told about that; "": it is not asked again
	Plan     *plan.Plan       // nil: there is none
	Took     time.Duration
}

// see tells the watcher, if there is one.
func (p *Planner) see(turn string, e Event) {
	if p.cfg.Watch != nil {
		e.Turn, e.At = turn, time.Now()
		p.cfg.Watch(e)
	}
}

// asked describes a request that fit made of t and the fork.
func (b *plannerPrompt) asked(t told, fork []models.Message, request *models.Request) *Asked {
	a := &Asked{Planner: b.kind, Prompt: b.prompt.Name(), Request: *request, HistoryTokens: b.historyTokens}
	a.Request.Stream = nil
	rest := request.Messages
	take := func(n int, name func(i int, m models.Message) string) {
		for i, m := range rest[:n] {
			if m.WithSchema != "" && request.Format != nil && request.Format.Schema != nil {
				m.Text = m.WithSchema
			}
			a.Sections = append(a.Sections, Section{Name: name(i, m), Message: m})
		}
		rest = rest[n:]
	}
	called := func(name string) func(int, models.Message) string {
		return func(int, models.Message) string { return name }
	}
	leave := func(name string, m models.Message) {
		a.Sections = append(a.Sections, Section{Name: name, Message: m, Left: true})
	}
	take(len(t.opening), func(i int, _ models.Message) string {
		if i == 0 {
			return "prompt"
		}
		return "pinned"
	})
	for _, m := range t.summary {
		if len(rest) > 0 && rest[0].Text == m.Text {
			take(1, called("summary"))
		} else {
			leave("summary", m)
		}
	}
	history := len(rest) - len(t.ending) - len(fork)
	all, told := 0, 0
	for _, m := range rest[:history] {
		if m.Role != "system" { // else it names the speaker
			told++
		}
	}
	for _, turn := range t.history {
		all += len(turn.messages)
	}
	for _, turn := range t.history {
		for _, m := range turn.messages {
			if all > told {
				leave("history", m)
			}
			all--
		}
	}
	take(history, called("history"))
	results := false
	take(len(t.ending), func(_ int, m models.Message) string {
		switch {
		case m.Role == "user":
			results = true
			return "person"
		case results || len(m.Calls) > 0 || m.CallID != "" || strings.HasPrefix(m.Text, resultsOf):
			return "results"
		}
		return "context"
	})
	take(len(fork), called("correction"))
	return a
}

// resultsOf begins the message with the results of a plan.
const resultsOf = "Results of the last plan:\n"

// lastText is the text of the last message, which says what is wrong with an answer.
func lastText(messages []models.Message) string {
	if i := slices.IndexFunc(messages, func(m models.Message) bool { return m.Role == "tool" }); i >= 0 {
		return messages[i].Text
	}
	if len(messages) == 0 {
		return ""
	}
	return messages[len(messages)-1].Text
}
