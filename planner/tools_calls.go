package planner

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// maxArguments is how long the arguments of a call may be, in bytes.
const maxArguments = 1 << 20

// maxCalls is how many calls one answer may have.
const maxCalls = 128

// round is what an answer of the model comes to: a plan, or why it is none.
type round struct {
	plan   plan.Plan
	fault  error         // the first one
	faults []*plan.Fault // of each call; nil when the fault is the whole answer's
}

// read reads an answer to request as the next plan of the turn.
func (s *toolset) read(answer *models.Response, request *models.Request, turn *actions.Turn) round {
	if len(answer.Calls) == 0 {
		p, err := readProse(answer)
		return round{plan: p, fault: err}
	}
	if fault := wholeFault(answer, request); fault != nil {
		return round{fault: fault}
	}
	ids := callIDs{}
	for _, o := range turn.Outcomes() {
		ids[o.CallID] = true
	}
	r := round{plan: plan.Plan{Observe: true, Preface: strings.TrimSpace(answer.Text)}, faults: make([]*plan.Fault, len(answer.Calls))}
	for i, call := range answer.Calls {
		command, fault := s.command(call)
		if r.faults[i] = fault; fault != nil && r.fault == nil {
			r.fault = fault
		}
		command.CallID = ids.own(call.ID)
		r.plan.Commands = append(r.plan.Commands, command)
	}
	return r
}

// readProse reads an answer without calls. A plan in it is not run: the model has
// functions to call, and what it wrote may be an example.
func readProse(answer *models.Response) (plan.Plan, error) {
	p, err := plan.Decode(answer.Text)
	fault, _ := errors.AsType[*plan.Fault](err)
	switch {
	case fault != nil && fault.Kind == plan.NoPlan && answer.Finish != models.FinishLength:
		return plan.Plan{}, fault
	case fault != nil && (fault.Kind == plan.Truncated || fault.Kind == plan.NoPlan), err == nil && answer.Finish == models.FinishLength:
		return plan.Plan{}, plan.Faultf(plan.Truncated, "the answer was cut off before its end; be brief")
	case err != nil || !p.Prose:
		return plan.Plan{}, plan.Faultf(plan.InvalidPlan, "it is a plan or a call written as text, which is not run")
	}
	return p, nil
}

// wholeFault finds what is wrong with all calls of an answer at once.
func wholeFault(answer *models.Response, request *models.Request) *plan.Fault {
	switch n := len(answer.Calls); {
	case !mayCall(request):
		return plan.Faultf(plan.InvalidPlan, "functions cannot be called any more")
	case answer.Finish == models.FinishLength:
		return plan.Faultf(plan.Truncated, "the answer was cut off before its end; call less at once")
	case n > maxCalls:
		return plan.Faultf(plan.InvalidPlan, "%d calls at once, of which only %d are possible", n, maxCalls)
	}
	return nil
}

// answer is what the model is told of the call at i in a round that did not run.
func (r *round) answer(i int) string {
	switch {
	case r.faults == nil:
		return "Not run: " + detail(r.fault)
	case r.faults[i] != nil:
		return "Error: " + r.faults[i].Detail
	default:
		return "Not run: another call of the same answer is wrong. Make this one again together with the corrected one."
	}
}

// detail is a fault in words for the model.
func detail(err error) string {
	if fault, ok := errors.AsType[*plan.Fault](err); ok {
		return fault.Detail
	}
	return err.Error()
}

// command checks a call and makes a command of it.
func (s *toolset) command(call models.Call) (plan.Command, *plan.Fault) {
	action, fault := s.find(call.Name)
	if fault != nil {
		return plan.Command{}, fault
	}
	entities, fault := readArguments(call.Arguments)
	if fault != nil {
		return plan.Command{}, fault
	}
	if err := action.CheckBefore(entities, nil); err != nil {
		kind := plan.InvalidEntities
		if _, missing := errors.AsType[*actions.MissingError](err); missing {
			kind = plan.MissingEntities
		}
		return plan.Command{}, plan.Faultf(kind, "%s", err)
	}
	return plan.Command{Kind: plan.Do, Action: action.Name, Entities: entities}, nil
}

// readArguments reads the arguments of a call. They are strict JSON or nothing:
// of two values of one name, or of a text that breaks off, nobody knows what was
// meant.
func readArguments(text string) (map[string]any, *plan.Fault) {
	text = strings.TrimSpace(text)
	if text == "" || text == "null" {
		return map[string]any{}, nil
	}
	if len(text) > maxArguments {
		return nil, plan.Faultf(plan.InvalidEntities, "the arguments are longer than %d bytes", maxArguments)
	}
	var value jsontext.Value
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return nil, plan.Faultf(plan.InvalidEntities, "the arguments are no valid JSON: %s", jsonFault(err))
	}
	if value.Kind() != '{' {
		return nil, plan.Faultf(plan.InvalidEntities, "the arguments are no JSON object")
	}
	var entities map[string]any
	dec := stdjson.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&entities); err != nil {
		return nil, plan.Faultf(plan.InvalidEntities, "the arguments are no valid JSON: %s", spelling.Clip(err.Error()))
	}
	return entities, nil
}

// jsonFault says what is wrong with a text, and where.
func jsonFault(err error) string {
	fault, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return spelling.Clip(err.Error())
	}
	text := fmt.Sprintf("%s, at byte %d", spelling.Clip(fault.Err.Error()), fault.ByteOffset)
	if fault.JSONPointer != "" {
		text += " in " + spelling.Clip(string(fault.JSONPointer))
	}
	return text
}
