package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

func mayCall(r *models.Request) bool { return len(r.Tools) > 0 && r.Choice != "none" }

// toolsOf returns the actions as functions that a model may call.
func toolsOf(offered *actions.Registry, strict bool) ([]models.Tool, error) {
	const maxDescription = 1024 // bytes; a limit of servers
	var all []models.Tool
	for _, a := range offered.All() {
		described := spelling.Shorten(a.Description, maxDescription)
		tool := models.Tool{Name: a.Name, Description: described, Title: a.Title, Examples: a.Examples}
		var err error
		if tool.Schema, tool.Strict, err = plan.ToolSchema(a, strict); err != nil {
			return nil, fmt.Errorf("schema of action %s: %w", a.Name, err)
		}
		if tool.Labelled, err = json.Marshal(a.ForModels()); err != nil {
			return nil, fmt.Errorf("schema of action %s: %w", a.Name, err)
		}
		all = append(all, tool)
	}
	return all, nil
}

// find finds the action that a model means by name. Models write the separator of a plugin function
// differently (Lists.add, lists_add for Lists-add), omit the plugin, or prefix "functions". A name
// that may mean several actions means none.
func find(offered *actions.Registry, name string) (*actions.Action, *plan.Fault) {
	bare := strings.TrimPrefix(strings.TrimSpace(name), "functions.")
	for _, means := range [...]func(*actions.Action) bool{
		func(a *actions.Action) bool { return a.Name == bare },
		func(a *actions.Action) bool { return strings.EqualFold(a.Name, bare) },
		func(a *actions.Action) bool { return joined(a.Name) == joined(bare) },
		func(a *actions.Action) bool {
			_, function := splitPlugin(a.Name)
			return joined(function) == joined(bare)
		},
	} {
		var found []*actions.Action
		var names []string
		for _, a := range offered.All() {
			if means(a) {
				found, names = append(found, a), append(names, a.Name)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			names = names[:min(len(names), spelling.Most)]
			return nil, plan.UnknownAction.Faultf("%q may mean %s; use the whole name", spelling.Clip(name), list(names))
		}
	}
	return nil, plan.UnknownAction.Faultf("there is no function %q%s", spelling.Clip(name), offered.Suggest(bare))
}

// joined is a name in lower case with one separator between all its words.
func joined(name string) string {
	return strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToLower(name))
}

const maxCalls = 128 // limits the calls in one answer

// readProse reads an answer without calls. It never runs a plan in it: the model has functions to
// call, and the text may be an example.
func readProse(answer *models.Response) (plan.Plan, *plan.Fault) {
	p, err := plan.Decode(answer.Text)
	fault := faultOf(err)
	switch {
	case fault != nil && fault.Kind == plan.NoPlan && answer.Finish != "length":
		return plan.Plan{}, fault
	case fault != nil && (fault.Kind == plan.Truncated || fault.Kind == plan.NoPlan), err == nil && answer.Finish == "length":
		return plan.Plan{}, plan.Truncated.Faultf("the answer was cut off before its end; be brief")
	case err != nil || !p.Prose:
		return plan.Plan{}, plan.InvalidPlan.Faultf("it is a plan or a call written as text, which is not run")
	}
	return p, nil
}

// wholeFault finds a fault that concerns all calls of an answer.
func wholeFault(answer *models.Response, request *models.Request) *plan.Fault {
	switch n := len(answer.Calls); {
	case !mayCall(request):
		return plan.InvalidPlan.Faultf("functions cannot be called any more")
	case answer.Finish == "length":
		return plan.Truncated.Faultf("the answer was cut off before its end; call less at once")
	case n > maxCalls:
		return plan.InvalidPlan.Faultf("%d calls at once, of which only %d are possible", n, maxCalls)
	}
	return nil
}

// answer is what the model is told about call i in a round that did not run.
func (r *reading) answer(i int) string {
	switch {
	case r.faults == nil:
		return "Not run: " + r.fault.Detail
	case r.faults[i] != nil:
		return "Error: " + r.faults[i].Detail
	default:
		return "Not run: another call of the same answer is wrong. Make this one again together with the corrected one."
	}
}

// commandOf checks a call, which comes after other commands of the turn, and turns it into a command.
func commandOf(call models.Call, before []plan.Command, offered *actions.Registry) (plan.Command, *plan.Fault) {
	action, fault := find(offered, call.Name)
	if fault != nil {
		return plan.Command{}, fault
	}
	entities, fault := readArguments(call.Arguments)
	if fault != nil {
		return plan.Command{}, fault
	}
	entities = plan.Complete(action, entities, before, offered)
	if err := action.CheckBefore(entities, nil); err != nil {
		kind := plan.InvalidEntities
		if e, ok := errors.AsType[*actions.EntityError](err); ok && e.Missing != nil {
			kind = plan.MissingEntities
		}
		return plan.Command{}, kind.Faultf("%s", err)
	}
	return plan.Command{Kind: plan.Do, Action: action.Name, Entities: entities}, nil
}

// readArguments reads the arguments of a call. They must be strict JSON: with a duplicate name or a
// truncated text, the meaning is unknown.
func readArguments(text string) (map[string]any, *plan.Fault) {
	text = strings.TrimSpace(text)
	if text == "" || text == "null" {
		return map[string]any{}, nil
	}
	var value jsontext.Value
	if err := jsonv2.Unmarshal([]byte(text), &value); err != nil {
		return nil, plan.InvalidEntities.Faultf("the arguments are no valid JSON: %s", spelling.Clip(err.Error()))
	}
	if value.Kind() != '{' {
		return nil, plan.InvalidEntities.Faultf("the arguments are no JSON object")
	}
	var entities map[string]any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	_ = dec.Decode(&entities) // it is an object
	return entities, nil
}

// answered is a call and the answer to it.
type answered struct {
	call   models.Call
	answer string
}

// withAnswers is a message of the model with its calls, each directly followed by its answer:
// servers reject anything else.
func withAnswers(text string, calls ...answered) []models.Message {
	message := models.Message{Role: "assistant", Text: text}
	answers := make([]models.Message, len(calls))
	for i, c := range calls {
		message.Calls = append(message.Calls, c.call)
		answers[i] = models.Message{Role: "tool", Text: c.answer, CallID: c.call.ID}
	}
	return append([]models.Message{message}, answers...)
}

// tooLong replaces an answer of the history that cannot be read.
const tooLong = "(What was done and said here is too long to be shown.)"

// readTranscript reads an answer of the history. One that is not a plan, or that the history cut,
// is text.
func readTranscript(transcript string) (commands []plan.Command, text string) {
	if !strings.HasPrefix(transcript, `{"type":"plan"`) {
		return nil, transcript
	}
	var p plan.Plan
	if p.UnmarshalJSON([]byte(transcript)) != nil {
		return nil, tooLong
	}
	return p.Commands, ""
}

// answeredBy turns an outcome into a call and its answer.
func answeredBy(o actions.Outcome) answered {
	answer := strings.TrimSpace(o.Text)
	switch {
	case o.Failed && answer == "":
		answer = "Error: it failed and gave no reason"
	case o.Failed:
		answer = "Error: " + strings.TrimPrefix(answer, "Error: ")
	case answer == "":
		answer = "done"
	}
	if o.Shown != "" {
		answer += "\n" + models.ShownAsCard
	}
	return answered{models.Call{ID: o.CallID, Name: o.Action, Arguments: arguments(o.Entities)}, answer}
}

func arguments(entities map[string]any) string {
	raw, err := plainjson.Marshal(entities)
	if len(entities) == 0 || err != nil {
		return "{}"
	}
	return string(raw)
}

// callIDs are the call ids in use.
type callIDs map[string]bool

var goodID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,40}$`)

// own returns the id for one more call, or a new one if the id is taken or some server does not
// accept it.
func (ids callIDs) own(id string) string {
	for n := len(ids) + 1; !goodID.MatchString(id) || ids[id]; n++ {
		id = fmt.Sprintf("call%05d", n) // Mistral requires nine letters and digits
	}
	ids[id] = true
	return id
}
