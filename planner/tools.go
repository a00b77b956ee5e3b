package planner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// ToolsConfig says what a [Tools] is made of: what any planner is, and how the
// model may call, unless the prompt's config.json says so. The zero value of every field of its own is a working default.
type ToolsConfig struct {
	SequenceConfig

	// Choice says whether the model has to call. One that has to, has to in the
	// first round of a turn only: in the others it may also answer.
	Choice string
	// OneCallAtMost takes one call an answer, and no more.
	OneCallAtMost bool
	// Strict asks the server to hold the model to the schema of each action, as
	// far as the schema can be said in what OpenAI calls strict.
	Strict bool
	// Include are the names of the only actions that are offered. None: all that
	// are not excluded.
	Include []string
	// MaxRounds is how often the model may call in one turn. After that it is
	// asked once more and may not call, so that the person gets an answer. 0: 10.
	MaxRounds int
}

// Tools lets the model call the actions as functions of its own, round by round,
// until it answers with text. A round is a plan like any other: it is checked
// whole before any of it runs. It is safe for concurrent use.
type Tools struct {
	asker asker
	cfg   ToolsConfig
}

// NewTools renders the part of the prompt that is the same for every turn, from
// the prompt "tools", and describes the actions. Every fault of cfg is in the one
// error.
func NewTools(ctx context.Context, cfg ToolsConfig) (*Tools, error) {
	asker, err := newAsker(ctx, prompts.AugmentTools, "", cfg.SequenceConfig, cfg.addTools)
	if err := errors.Join(err, cfg.checkCalls()); err != nil {
		return nil, fmt.Errorf("tools planner: %w", err)
	}
	cfg.MaxRounds = cmp.Or(cfg.MaxRounds, 10)
	return &Tools{asker: asker, cfg: cfg}, nil
}

// addTools describes the actions that the prompt offers. An [Extension] may have left
// out some of those that are included.
func (c *ToolsConfig) addTools(pr *plannerPrompt) error {
	include := c.Include
	if extended := pr.tools.offered != nil; extended {
		include = slices.DeleteFunc(slices.Clone(include), func(name string) bool { return !pr.offers(name) })
	}
	if len(c.Include) > 0 && len(include) == 0 {
		pr.tools = toolset{offered: actions.New()}
		return nil
	}
	offered, err := choose(include, pr.offered)
	if err == nil {
		pr.tools, err = newToolset(offered, c.Strict)
	}
	return err
}

// checkCalls lists every fault of the fields that are this planner's own.
func (c *ToolsConfig) checkCalls() error {
	var faults []error
	if !slices.Contains([]string{"", "required", "none"}, c.Choice) {
		faults = append(faults, fmt.Errorf("no Choice %q", c.Choice))
	}
	if c.MaxRounds < 0 {
		faults = append(faults, errors.New("MaxRounds is negative"))
	}
	return errors.Join(faults...)
}

// choose returns the registry of those of the actions that are included.
func choose(include []string, offered *actions.Registry) (*actions.Registry, error) {
	if len(include) == 0 {
		return offered, nil
	}
	included := make([]actions.Offer, len(include))
	for i, name := range include {
		included[i].Name = name
	}
	only, err := offered.Only(included...)
	if err != nil {
		return nil, fmt.Errorf("Include: %w", err)
	}
	return only, nil
}

// Plan asks the model for the next round of the turn: its calls, which it waits
// for, or the text that ends it. Calls that cannot run, and text that is meant to
// be run, are sent back with their faults, at most MaxRepairs times. A model that calls
// though it may not is asked once more, without functions. It fails as [Sequence.Plan]
// does.
func (t *Tools) Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error) {
	pr, err := t.asker.current(ctx, turn)
	if err != nil {
		return plan.Plan{}, err
	}
	request, story, err := t.request(ctx, turn, pr)
	if err != nil {
		return plan.Plan{}, err
	}
	var refused []plan.FaultKind
	for attempt := 0; ; attempt++ {
		answer, err := complete(ctx, turn, pr.model, request)
		if err != nil {
			return plan.Plan{}, err
		}
		round := pr.tools.read(answer, request, turn)
		if round.fault == nil {
			round.plan.Refused = refused
			logPlan(ctx, round.plan, attempt)
			return round.plan, nil
		}
		forbidden := len(answer.Calls) > 0 && !mayCall(request)
		if attempt >= t.asker.cfg.MaxRepairs || forbidden && len(request.Tools) == 0 {
			return plan.Plan{}, after(refused, round.fault)
		}
		refused = append(refused, faultKind(round.fault))
		logRefusal(ctx, round.fault, attempt+1)
		story.refused(answer, round, mayCall(request))
		request.Messages = story.messages
		if forbidden { // the server does not know the wish
			request.Tools = nil
		}
	}
}

// Messages is the prompt of the turn, laid out as that of [Sequence.Messages],
// then each round of the turn as the model made it, with an answer to each call.
// The history shows earlier plans as calls, too. The actions are not in it: they
// travel beside the messages.
func (t *Tools) Messages(ctx context.Context, turn *actions.Turn) ([]models.Message, error) {
	pr, err := t.asker.current(ctx, turn)
	if err != nil {
		return nil, err
	}
	request, _, err := t.request(ctx, turn, pr)
	if err != nil {
		return nil, err
	}
	return request.Messages, nil
}

// noMoreCalls tells the model that its functions are there for show only.
const noMoreCalls = "You cannot call functions any more in this turn. Tell the person what was done, and what was not."

// request is what the model is asked in this round, with the story behind it.
func (t *Tools) request(ctx context.Context, turn *actions.Turn, pr *plannerPrompt) (*models.Request, *story, error) {
	request := pr.request(nil)
	request.Tools = pr.tools.tools
	said := &pr.prompt.Config.Completion
	if said.ToolChoice == "" {
		request.Choice = t.cfg.Choice
	}
	if said.ParallelCalls == nil {
		request.OneCallAtMost = t.cfg.OneCallAtMost
	}
	if request.Choice == "required" && len(turn.Rounds) > 0 {
		request.Choice = ""
	}
	if len(turn.Rounds) >= t.cfg.MaxRounds {
		// Servers that know tool_choice refuse calls in the messages of a request
		// without tools; those that do not take them.
		request.Choice = "none"
	}
	opening, err := t.asker.opening(ctx, turn, pr)
	if err != nil {
		return nil, nil, err
	}
	story, err := t.tell(turn, pr, opening, request.Tools)
	if err != nil {
		return nil, nil, err
	}
	request.Messages = story.messages
	return request, story, nil
}

// tell tells the turn, with less of the history where the prompt bounds what the
// model is told: as calls, the history may be longer than it was as plans.
func (t *Tools) tell(turn *actions.Turn, pr *plannerPrompt, opening prompts.AssembleInput, tools []models.Tool) (*story, error) {
	budget := pr.prompt.Config.Completion.MaxInputTokens
	reserved := 0
	if budget > 0 {
		reserved = pr.sizeOf(t.story(nil, turn, pr).messages, tools)
	}
	for {
		messages, err := pr.inBudget(opening, reserved)
		if err != nil {
			return nil, err
		}
		story := t.story(messages, turn, pr)
		over := pr.sizeOf(story.messages, tools) - budget
		if over <= 0 {
			return story, nil
		}
		reserved += over
	}
}

// story is the rounds of the turn behind what was said before.
func (t *Tools) story(opening []models.Message, turn *actions.Turn, pr *plannerPrompt) *story {
	s := newStory(opening)
	for _, round := range turn.Rounds {
		s.round(pr.told(round))
	}
	if len(turn.Rounds) >= t.cfg.MaxRounds {
		s.add(models.Message{Role: "system", Text: noMoreCalls})
	}
	return s
}

// mayCall reports whether the model may call anything.
func mayCall(r *models.Request) bool { return len(r.Tools) > 0 && r.Choice != "none" }

// maxToolDescription is how many bytes servers take of a description.
const maxToolDescription = 1024

// toolset is the actions that a model may call.
type toolset struct {
	offered *actions.Registry
	tools   []models.Tool
}

func newToolset(offered *actions.Registry, strict bool) (toolset, error) {
	s := toolset{offered: offered}
	for _, a := range offered.All() {
		tool := models.Tool{Name: a.Name, Description: a.Description, Examples: a.Examples}
		if len(tool.Description) > maxToolDescription {
			tool.Description = spelling.Shorten(tool.Description, maxToolDescription)
		}
		var err error
		if tool.Schema, tool.Strict, err = plan.ToolSchema(a, strict); err != nil {
			return toolset{}, fmt.Errorf("schema of action %s: %w", a.Name, err)
		}
		s.tools = append(s.tools, tool)
	}
	return s, nil
}

// find finds the action that a model means by name. Models write the marks of a
// plugin's function in other ways (Lists.add, lists_add for Lists-add), leave the
// plugin out, or put functions before it; where that may mean several actions, it
// means none.
func (s *toolset) find(name string) (*actions.Action, *plan.Fault) {
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
		for _, a := range s.offered.All() {
			if means(a) {
				found = append(found, a)
			}
		}
		switch len(found) {
		case 0:
		case 1:
			return found[0], nil
		default:
			return nil, plan.UnknownAction.Faultf("%q may mean %s; use the whole name", spelling.Clip(name), names(found))
		}
	}
	return nil, plan.UnknownAction.Faultf("there is no function %q%s", spelling.Clip(name), plan.Suggest(bare, s.offered))
}

// joined is a name with one mark for all between its words, in lower case.
func joined(name string) string {
	return strings.NewReplacer(".", "_", "-", "_").Replace(strings.ToLower(name))
}

func names(list []*actions.Action) string {
	out := make([]string, min(len(list), spelling.Most))
	for i := range out {
		out[i] = list[i].Name
	}
	return strings.Join(out, ", ")
}

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
	case fault != nil && fault.Kind == plan.NoPlan && answer.Finish != "length":
		return plan.Plan{}, fault
	case fault != nil && (fault.Kind == plan.Truncated || fault.Kind == plan.NoPlan), err == nil && answer.Finish == "length":
		return plan.Plan{}, plan.Truncated.Faultf("the answer was cut off before its end; be brief")
	case err != nil || !p.Prose:
		return plan.Plan{}, plan.InvalidPlan.Faultf("it is a plan or a call written as text, which is not run")
	}
	return p, nil
}

// wholeFault finds what is wrong with all calls of an answer at once.
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
		return plan.Command{}, kind.Faultf("%s", err)
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
		return nil, plan.InvalidEntities.Faultf("the arguments are longer than %d bytes", maxArguments)
	}
	var value jsontext.Value
	if err := jsonv2.Unmarshal([]byte(text), &value); err != nil {
		return nil, plan.InvalidEntities.Faultf("the arguments are no valid JSON: %s", jsonFault(err))
	}
	if value.Kind() != '{' {
		return nil, plan.InvalidEntities.Faultf("the arguments are no JSON object")
	}
	var entities map[string]any
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&entities); err != nil {
		return nil, plan.InvalidEntities.Faultf("the arguments are no valid JSON: %s", spelling.Clip(err.Error()))
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
		if m.Role == "assistant" {
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
	message := models.Message{Role: "assistant", Text: text}
	var answers []models.Message
	for _, c := range calls {
		c.call.ID = s.ids.own(c.call.ID)
		message.Calls = append(message.Calls, c.call)
		answers = append(answers, models.Message{Role: "tool", Text: c.answer, CallID: c.call.ID})
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
	p, ok := readTranscript(transcript)
	if !ok {
		if strings.HasPrefix(transcript, `{"type":"plan"`) { // the history has cut it
			transcript = tooLong
		}
		s.add(models.Message{Role: "assistant", Text: transcript})
		return
	}
	var texts []string
	for _, c := range p.Commands {
		if c.Kind == plan.Say {
			texts = append(texts, c.Response)
			continue
		}
		s.calls(strings.Join(texts, "\n"), toldOf(actions.Outcome{Action: c.Action, Entities: c.Entities, Text: c.Result, CallID: c.CallID}))
		texts = nil
	}
	if len(texts) > 0 {
		s.add(models.Message{Role: "assistant", Text: strings.Join(texts, "\n")})
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
