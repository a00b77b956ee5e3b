package planner

import (
	"slices"
	"time"

	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// Event is one question to a model or its answer, as [Config].Watch sees it: exactly one of the
// pointers is set.
// Nobody changes what it holds any more.
type Event struct {
	Turn     string // the turn's id
	At       time.Time
	Asked    *Asked
	Answered *Answered
}

// Asked is what the model is asked.
type Asked struct {
	Planner  string // sequence, sequential, tools, or action if an action that is a prompt asks
	Prompt   string // its name
	Sections []Section
	Request  models.Request // without Stream
	// HistoryTokens limits the sections summary and history.
	HistoryTokens int
	InputTokens   int // limits the whole question; 0: nothing does
}

// Section is a part of the prompt. Its names are prompt, pinned, summary, history, context, person,
// results and correction, in this order.
type Section struct {
	Name string
	models.Message
	Left bool // there was no room for it
}

// Answered is what came of the model's answer. That to an action is no plan.
type Answered struct {
	Response *models.Response // nil: there was none
	Err      error            // why not
	Fault    error            // why the answer is not a plan that can run, often a [*plan.Fault]
	Told     string           // what the model is told about that; "": it is not asked again
	Plan     *plan.Plan       // nil: there is none
	Took     time.Duration
}

// see tells the watcher, if there is one.
func (c *Config) see(turn string, e Event) {
	if c.Watch != nil {
		e.Turn, e.At = turn, time.Now()
		c.Watch(e)
	}
}

// lastText is the text of the last message, which says what is wrong with an answer.
func lastText(messages []models.Message) string {
	if i := slices.IndexFunc(messages, func(m models.Message) bool { return m.Role == "tool" }); i >= 0 {
		return messages[i].Text
	}
	return messages[len(messages)-1].Text
}
