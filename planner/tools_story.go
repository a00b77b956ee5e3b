package planner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// story is the messages of a request in which every call is answered right
// behind it, under an id that no other call of the request has: servers refuse
// anything else.
type story struct {
	messages []models.Message
	ids      callIDs
}

// told is a call and the answer to it.
type told struct {
	call   models.Call
	answer string
}

// newStory begins with what was said up to the person's text, in which the
// answers of the assistant are transcripts.
func newStory(opening []models.Message) *story {
	s := &story{ids: callIDs{}}
	for _, m := range opening {
		if m.Role == models.Assistant {
			s.retell(m.Text)
		} else {
			s.add(m)
		}
	}
	return s
}

func (s *story) add(m models.Message) { s.messages = append(s.messages, m) }

// calls adds a message of the model with its calls, and their answers.
func (s *story) calls(text string, calls ...told) {
	message := models.Message{Role: models.Assistant, Text: text}
	var answers []models.Message
	for _, c := range calls {
		c.call.ID = s.ids.own(c.call.ID)
		message.Calls = append(message.Calls, c.call)
		answers = append(answers, models.Message{Role: models.ToolRole, Text: c.answer, CallID: c.call.ID})
	}
	s.add(message)
	s.messages = append(s.messages, answers...)
}

// tooLong stands for an answer of the history that cannot be read.
const tooLong = "(What was done and said here is too long to be shown.)"

// retell tells an earlier turn from its transcript: each DO as a call of its own,
// whichever planner has made it, so that the model is not shown plans for
// examples.
func (s *story) retell(transcript string) {
	commands, ok := plan.ReadTranscript(transcript)
	if !ok {
		if strings.HasPrefix(transcript, `{"type":"plan"`) { // the history has cut it
			transcript = tooLong
		}
		s.add(models.Message{Role: models.Assistant, Text: transcript})
		return
	}
	var texts []string
	for _, c := range commands {
		if c.Kind == plan.Say {
			texts = append(texts, c.Response)
			continue
		}
		s.calls(strings.Join(texts, "\n"), toldOf(actions.Outcome{Action: c.Action, Entities: c.Entities, Text: c.Result, CallID: c.CallID}))
		texts = nil
	}
	if len(texts) > 0 {
		s.add(models.Message{Role: models.Assistant, Text: strings.Join(texts, "\n")})
	}
}

// round tells a round of this turn. What no call has led to, because another
// planner made the plan, is told as the other planners do.
func (s *story) round(r actions.Round) {
	var calls []told
	var others []actions.Outcome
	for _, o := range r.Outcomes {
		if o.CallID == "" {
			others = append(others, o)
		} else {
			calls = append(calls, toldOf(o))
		}
	}
	if len(calls) > 0 {
		s.calls(r.Preface, calls...)
	}
	if len(others) > 0 {
		s.messages = append(s.messages, converted(prompts.Assemble(prompts.AssembleInput{Results: results(others)}))...)
	}
}

// toldOf is an outcome as a call and its answer.
func toldOf(o actions.Outcome) told {
	answer := strings.TrimSpace(o.Text)
	switch {
	case o.Failed && answer == "":
		answer = "Error: it failed and gave no reason"
	case o.Failed:
		answer = "Error: " + strings.TrimPrefix(answer, "Error: ")
	case answer == "":
		answer = "done"
	}
	return told{models.Call{ID: o.CallID, Name: o.Action, Arguments: arguments(o.Entities)}, answer}
}

// arguments writes entities as the arguments of a call.
func arguments(entities map[string]any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // the model reads it
	if len(entities) == 0 || enc.Encode(entities) != nil {
		return "{}"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// refused adds an answer that cannot be used, and why.
func (s *story) refused(answer *models.Response, r round, mayCall bool) {
	if len(answer.Calls) == 0 {
		form := "plain text"
		if mayCall {
			form += ", or call the functions that you are given"
		}
		s.messages = append(s.messages, refusal(answer, r.fault, form)...)
		return
	}
	calls := make([]told, len(answer.Calls))
	for i, call := range answer.Calls {
		calls[i] = told{call, r.answer(i)}
	}
	s.calls(answer.Text, calls...)
}

// callIDs are the ids of calls that are in use.
type callIDs map[string]bool

var goodID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// own returns the id for one more call, or another where that one is taken or is
// none that every server takes.
func (ids callIDs) own(id string) string {
	for n := len(ids) + 1; !goodID.MatchString(id) || ids[id]; n++ {
		id = fmt.Sprintf("call%05d", n) // Mistral wants nine letters and digits
	}
	ids[id] = true
	return id
}
