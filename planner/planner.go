// Package planner asks a model for a plan. A planner of [NewSequence] asks for JSON, one of
// [NewSequential] for the XML of Semantic Kernel, and one of [NewTools] lets the model call
// functions. Each makes a [plan.Plan] of the answer, and one that was validated.
package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// The kinds of planners, as a config.json says them.
const (
	sequence   = "sequence"
	sequential = "sequential"
	tools      = "tools"
)

// Response formats, by the names that servers give them.
const (
	jsonSchema = "json_schema"
	jsonObject = "json_object"
	plainText  = "text"
)

// Config says what a [Planner] is made of. Model and Actions are required; the zero value of
// every other field is a working default.
type Config struct {
	Model   models.Model
	Actions *actions.Registry

	// Prompts are where the prompt is found. nil: the embedded ones.
	Prompts *prompts.Library
	// Include are the only actions that the model is told of and may plan: names of
	// actions, with their plugin as in Writer-Translate or Writer.Translate or without it,
	// and names of plugins, all without regard to case. None: all of them.
	Include []string
	// Exclude are actions, named in the same way, that the model is not told of and may
	// not plan.
	Exclude []string
	// Extension adds to the prompt and to what may be planned, turn by turn. nil: nothing
	// is added.
	Extension Extension

	// Prompt is the name of the prompt in Prompts. "": that of the planner,
	// "sequence", "sequential" or "tools".
	Prompt string
	// Functions are what the prompt may call as {{name word 'a text' $variable}} beside
	// {{actions}}, {{manual}} and {{skills}}, by name. A prompt that calls one is rendered for
	// each turn, for several turns at once; the result is put into the prompt as
	// [prompts.Format] writes it. An error ends the turn.
	Functions map[string]func(ctx context.Context, turn *actions.Turn, args []string) (any, error)
	// Named makes the model of a name, for a prompt whose config.json names one.
	// It is called when the planner is made, and for a prompt that has changed. nil:
	// a prompt must not name a model.
	Named func(name string) (models.Model, error)

	// HistoryTokens bounds the part of the prompt that is history. 0: 4000.
	HistoryTokens int
	// MaxRepairs is how often the model may correct a plan that cannot run.
	// 0: 2; negative: never.
	MaxRepairs int
	// MaxTokens bounds the model's answer, unless the prompt's config.json does.
	// 0: 2000.
	MaxTokens int

	// ResponseFormat is how the server holds the model to the format of plans, with
	// [NewSequence]: json_schema, to the schema of the plans that the actions allow;
	// json_object, for which the prompt has to hold the word JSON; text, not at all. What a
	// server does not take it is asked without, see [models.Format]; the plan is checked all
	// the same. "": json_schema.
	ResponseFormat string

	// What follows is for [NewTools].

	// Choice says whether the model has to call, unless the prompt's config.json says so. One
	// that has to, has to in the first round of a turn only: in the others it may also answer.
	Choice string
	// OneCallAtMost takes one call an answer, and no more, unless the config.json says so.
	OneCallAtMost bool
	// Strict asks the server to hold the model to the schema of each action, as
	// far as the schema can be said in what OpenAI calls strict.
	Strict bool
	// MaxRounds is how often the model may call in one turn. After that it is
	// asked once more and may not call, so that the person gets an answer. 0: 10.
	MaxRounds int
}

// check lists every fault, in the order of the fields.
func (c *Config) check() error {
	var faults []error
	for _, field := range []struct {
		wrong bool
		fault string
	}{
		{c.Model == nil, "no Model"},
		{c.Actions == nil, "no Actions"},
		{c.HistoryTokens < 0, "HistoryTokens is negative"},
		{c.MaxTokens < 0, "MaxTokens is negative"},
		{
			!slices.Contains([]string{"", jsonSchema, jsonObject, plainText}, c.ResponseFormat),
			fmt.Sprintf("ResponseFormat is %q, not json_schema, json_object or text", c.ResponseFormat),
		},
		{c.Functions["actions"] != nil || c.Functions["manual"] != nil || c.Functions["skills"] != nil, "Functions has actions, manual or skills, which are the planner's"},
		{
			!slices.Contains([]string{"", "required", "none"}, c.Choice),
			fmt.Sprintf("no Choice %q", c.Choice),
		},
		{c.MaxRounds < 0, "MaxRounds is negative"},
	} {
		if field.wrong {
			faults = append(faults, errors.New(field.fault))
		}
	}
	return errors.Join(faults...)
}

// Planner asks a model for plans. It is safe for concurrent use.
type Planner struct {
	cfg    Config
	prompt *latest[*plannerPrompt]
}

// NewSequence makes a planner that asks the model for a whole plan at once, as one JSON object of
// DO and SAY commands: the sequence planner of Teams AI. It renders the part of the prompt
// that is the same for every turn, from the prompt "sequence" or the one that cfg names. Every
// fault of cfg is in the one error.
func NewSequence(ctx context.Context, cfg Config) (*Planner, error) {
	return newPlanner(ctx, sequence, cfg)
}

// NewSequential is [NewSequence] with plans in XML, an element with a tag for each function to
// call, and the prompt "sequential": the sequential planner of Semantic Kernel. The goal is
// the turn's text. A model that answers with a plan in JSON is understood too.
func NewSequential(ctx context.Context, cfg Config) (*Planner, error) {
	return newPlanner(ctx, sequential, cfg)
}

// NewTools makes a planner that lets the model call the actions as functions of its own, round by
// round, until it answers with text. A round is a plan like any other: it is checked whole
// before any of it runs. The prompt is "tools" or the one that cfg names; the actions travel
// beside it. Every fault of cfg is in the one error.
func NewTools(ctx context.Context, cfg Config) (*Planner, error) {
	return newPlanner(ctx, tools, cfg)
}

func newPlanner(ctx context.Context, kind string, cfg Config) (p *Planner, err error) {
	defer func() {
		if err != nil {
			p, err = nil, fmt.Errorf("%s planner: %w", kind, err)
		}
	}()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.Prompts == nil {
		if cfg.Prompts, err = prompts.Load(""); err != nil {
			return nil, err
		}
	}
	cfg.HistoryTokens = cmp.Or(cfg.HistoryTokens, defaultHistoryTokens)
	cfg.MaxRepairs = cmp.Or(cfg.MaxRepairs, 2)
	cfg.MaxTokens = cmp.Or(cfg.MaxTokens, defaultMaxTokens)
	cfg.MaxRounds = cmp.Or(cfg.MaxRounds, 10)
	p = &Planner{cfg: cfg}
	p.prompt, err = newLatest(ctx, cfg.Prompts, cmp.Or(cfg.Prompt, kind), func(ctx context.Context, prompt *prompts.Prompt) (*plannerPrompt, error) {
		return newPlannerPrompt(ctx, kind, prompt, &p.cfg)
	})
	return p, err
}

// Plan asks the model until its answer is a plan that can run, with the fault
// fed back each time, at most MaxRepairs times more than once. It returns a
// [*models.Error] or, when no answer was good, the last [*plan.Fault]. Failed
// answers are forgotten. With [NewTools] the plan is the next round of the turn: the calls,
// which the model waits for, or the text that ends it. A model that calls though it may not is
// asked once more, without functions.
func (p *Planner) Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error) {
	pr, told, err := p.tell(ctx, turn)
	if err != nil {
		return plan.Plan{}, err
	}
	request := pr.request(turn)
	var refused []plan.FaultKind
	var fork []models.Message // the refused answers, each with its fault
	for attempt := 0; ; attempt++ {
		if request.Messages, err = pr.fit(told, fork, request.Tools); err != nil {
			return plan.Plan{}, err
		}
		answer, err := complete(ctx, turn, pr.model, request)
		if err != nil {
			return plan.Plan{}, err
		}
		r := pr.read(answer, request, turn)
		if r.fault == nil {
			r.plan.Refused = refused
			logPlan(ctx, r.plan, attempt)
			return r.plan, nil
		}
		forbidden := len(answer.Calls) > 0 && !mayCall(request)
		if attempt >= p.cfg.MaxRepairs || forbidden && len(request.Tools) == 0 {
			return plan.Plan{}, after(refused, r.fault)
		}
		refused = append(refused, faultKind(r.fault))
		logRefusal(ctx, r.fault, attempt+1)
		fork = append(fork, pr.refusal(answer, r, request)...)
		if forbidden { // the server does not know the wish
			request.Tools = nil
		}
	}
}

// Messages is the prompt of the turn: what never changes first, so that the
// provider's prompt cache serves it, then the history, then the person's text with nothing
// around it, then what was done in this turn. The history shows earlier plans in the planner's
// own form. The error is that of a prompt which has to be rendered for the turn.
func (p *Planner) Messages(ctx context.Context, turn *actions.Turn) ([]models.Message, error) {
	pr, told, err := p.tell(ctx, turn)
	if err != nil {
		return nil, err
	}
	return pr.fit(told, nil, pr.request(turn).Tools)
}

// tell returns the prompt that counts for a plan that is asked for now, and what the model is
// told with it.
func (p *Planner) tell(ctx context.Context, turn *actions.Turn) (*plannerPrompt, told, error) {
	pr := p.prompt.get(ctx)
	if p.cfg.Extension != nil {
		extra, err := p.cfg.Extension.Extend(ctx, turn)
		if err == nil {
			pr, err = pr.extend(ctx, extra)
		}
		if err != nil {
			return nil, told{}, fmt.Errorf("extend the prompt: %w", err)
		}
	}
	t, err := pr.tell(ctx, turn)
	return pr, t, err
}

// complete asks a model, and adds the cost to the turn. An empty answer is an
// answer like any other.
func complete(ctx context.Context, turn *actions.Turn, model models.Model, request *models.Request) (*models.Response, error) {
	if err := turn.Afford(); err != nil {
		return nil, err
	}
	turn.Usage.ModelCalls++
	response, err := model.Complete(ctx, request)
	if fault, ok := errors.AsType[*models.Error](err); ok {
		response = &models.Response{Usage: fault.Usage}
		if fault.Code == "length" {
			response.Finish = "length"
		}
		if fault.Kind == models.Empty {
			err = nil
		}
	} else if err != nil {
		return nil, err
	}
	turn.Usage.PromptTokens += response.Usage.Prompt
	turn.Usage.CompletionTokens += response.Usage.Completion
	turn.Usage.Cost += response.Usage.Cost
	return response, err
}

// reading is what an answer of the model comes to: a plan, or why it is none.
type reading struct {
	plan   plan.Plan
	fault  error         // the first one
	faults []*plan.Fault // of each call; nil when the fault is the whole answer's
}

// read reads an answer to request. A plan may do what the prompt offers.
func (b *plannerPrompt) read(answer *models.Response, request *models.Request, turn *actions.Turn) reading {
	if b.kind == tools {
		return b.readCalls(answer, request, turn)
	}
	p, err := plan.Plan{}, error(nil)
	if b.kind == sequential {
		p, err = plan.DecodeXML(answer.Text, turn.Text, b.offered)
	} else if p, err = plan.Decode(answer.Text); err == nil {
		p, err = p.Validate(b.offered)
	}
	if left := turn.Budget.Messages - turn.Usage.Messages; err == nil && turn.Budget.Messages > 0 && p.Says() > left {
		err = plan.InvalidPlan.Faultf("the plan has %d SAYs, but this turn has only %d left; combine them", p.Says(), max(left, 0))
	}
	if answer.Finish == "length" && (p.Prose || err != nil && faultKind(err) == plan.NoPlan) {
		// A plan that is whole may stand in an answer that was cut off behind
		// it; prose that was cut off is not what the model meant to say, and
		// nothing may be all that was left behind the reasoning.
		err = plan.Truncated.Faultf("the answer was cut off before its end; be brief")
	}
	return reading{plan: p, fault: err}
}

// refusal tells the model its answer, why that cannot be used, and what is wanted.
func (b *plannerPrompt) refusal(answer *models.Response, r reading, request *models.Request) []models.Message {
	form := "one JSON object in the plan format and nothing else"
	switch {
	case len(answer.Calls) > 0 && b.kind == tools:
		calls := make([]answered, len(answer.Calls))
		for i, call := range answer.Calls {
			calls[i] = answered{call, r.answer(i)}
		}
		return withAnswers(answer.Text, calls...)
	case b.kind == tools && mayCall(request):
		form = "plain text, or call the functions that you are given"
	case b.kind == tools:
		form = "plain text"
	case b.kind == sequential:
		form = "one XML plan and nothing else or, if there is nothing to do, with plain text"
	}
	why := "Your answer could not be used and nothing of it was done: " + r.fault.Error() + "\nAnswer again with " + form + "."
	messages := []models.Message{{Role: "system", Text: why}}
	if strings.TrimSpace(answer.Text) == "" {
		return messages // servers refuse messages that say nothing
	}
	return slices.Insert(messages, 0, models.Message{Role: "assistant", Text: answer.Text})
}

// faultKind is the kind of a fault in an answer.
func faultKind(err error) plan.FaultKind {
	if fault, ok := errors.AsType[*plan.Fault](err); ok {
		return fault.Kind
	}
	return plan.InvalidPlan
}

// after adds the faults of earlier answers to the last.
func after(refused []plan.FaultKind, err error) error {
	if fault, ok := errors.AsType[*plan.Fault](err); ok && len(refused) > 0 {
		return &plan.Fault{Kind: fault.Kind, Detail: fault.Detail, Before: refused}
	}
	return err
}

// logRefusal reports why an answer was refused. The detail quotes the model, so it
// is for debugging only.
func logRefusal(ctx context.Context, err error, attempt int) {
	log := zerolog.Ctx(ctx)
	log.Warn().Str("kind", string(faultKind(err))).Int("attempt", attempt).Msg("plan refused, asking again")
	log.Debug().Str("detail", detail(err)).Int("attempt", attempt).Msg("why the plan was refused")
}

// logPlan reports how the plan came about; at info only where the model strayed
// from the format, so that drift is seen.
func logPlan(ctx context.Context, p plan.Plan, refused int) {
	log := zerolog.Ctx(ctx).Debug()
	if len(p.Repairs) > 0 || p.Salvaged {
		log = zerolog.Ctx(ctx).Info()
	}
	log.Int("commands", len(p.Commands)).Strs("repairs", p.Repairs).
		Bool("salvaged", p.Salvaged).Int("refused", refused).Msg("planned")
}

// readCalls reads an answer to request as the next plan of the turn.
func (b *plannerPrompt) readCalls(answer *models.Response, request *models.Request, turn *actions.Turn) reading {
	if len(answer.Calls) == 0 {
		p, err := readProse(answer)
		return reading{plan: p, fault: err}
	}
	if fault := wholeFault(answer, request); fault != nil {
		return reading{fault: fault}
	}
	ids := callIDs{}
	for _, o := range turn.Outcomes() {
		ids[o.CallID] = true
	}
	r := reading{plan: plan.Plan{Observe: true, Preface: strings.TrimSpace(answer.Text)}, faults: make([]*plan.Fault, len(answer.Calls))}
	for i, call := range answer.Calls {
		command, fault := commandOf(call, b.offered)
		if r.faults[i] = fault; fault != nil && r.fault == nil {
			r.fault = fault
		}
		command.CallID = ids.own(call.ID)
		r.plan.Commands = append(r.plan.Commands, command)
	}
	return r
}
