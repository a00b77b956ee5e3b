// Package planner asks a model for a plan. A [Sequence] asks for JSON, a [Sequential] for
// the XML of Semantic Kernel, and [Tools] lets the model call functions. Each makes a
// [plan.Plan] of the answer, and one that was validated.
package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// SequenceConfig says what a [Sequence], or a [Sequential], is made of. Model and Actions are
// required; the zero value of every other field is a working default.
type SequenceConfig struct {
	Model   models.Model
	Actions *actions.Registry

	// Prompts are where the prompt is found. nil: the embedded ones.
	Prompts *prompts.Library
	// Exclude are actions that the model is not told of and may not plan: names of
	// actions, with their plugin as in Writer-Translate or Writer.Translate or
	// without it, and names of plugins, all without regard to case.
	Exclude []string
	// Extension adds to the prompt and to what may be planned, turn by turn. nil: nothing
	// is added.
	Extension Extension

	// Prompt is the name of the prompt in Prompts. "": that of the planner,
	// "sequence", "sequential" or "tools".
	Prompt string
	// Functions are what the prompt may call beside {{actions}}, {{manual}} and
	// {{skills}}, by name. A prompt that calls one is rendered for each turn.
	Functions map[string]Function
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
	// ResponseFormat is how the server holds the model to the format of plans:
	// those of a [Sequence]. "": [JSONSchema].
	ResponseFormat ResponseFormat
}

// Sequence asks the model for a whole plan at once, as one JSON object of DO and
// SAY commands: the sequence planner of Teams AI. It is safe for concurrent use.
type Sequence struct{ asker asker }

// NewSequence renders the part of the prompt that is the same for every turn,
// from the prompt "sequence" or the one that cfg names. Every fault of cfg is in the one error.
func NewSequence(ctx context.Context, cfg SequenceConfig) (*Sequence, error) {
	asker, err := newAsker(ctx, "sequence", "one JSON object in the plan format and nothing else", cfg, nil)
	if err != nil {
		return nil, fmt.Errorf("sequence planner: %w", err)
	}
	return &Sequence{asker}, nil
}

// check lists every fault, in the order of the fields.
func (c *SequenceConfig) check() error {
	var faults []error
	for _, field := range []struct {
		wrong bool
		fault string
	}{
		{c.Model == nil, "no Model"},
		{c.Actions == nil, "no Actions"},
		{c.HistoryTokens < 0, "HistoryTokens is negative"},
		{c.MaxTokens < 0, "MaxTokens is negative"},
		{!c.ResponseFormat.isKnown(), fmt.Sprintf("ResponseFormat is %q, not json_schema, json_object or text", c.ResponseFormat)},
		{c.Functions["actions"] != nil, "Functions has actions, which is the planner's"},
		{c.Functions["manual"] != nil, "Functions has manual, which is the planner's"},
		{c.Functions[skillsFunction] != nil, "Functions has skills, which is the planner's"},
	} {
		if field.wrong {
			faults = append(faults, errors.New(field.fault))
		}
	}
	return errors.Join(faults...)
}

// Plan asks the model until its answer is a plan that can run, with the fault
// fed back each time, at most MaxRepairs times more than once. It returns a
// [*models.Error] or, when no answer was good, the last [*plan.Fault]. Failed
// answers are forgotten.
func (s *Sequence) Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error) {
	return s.asker.plan(ctx, turn, readJSON)
}

// Messages is the prompt of the turn: what never changes first, so that the
// provider's prompt cache serves it, then the history, then what is true now,
// then the person's text with nothing around it. The error is that of a prompt
// which has to be rendered for the turn.
func (s *Sequence) Messages(ctx context.Context, turn *actions.Turn) ([]models.Message, error) {
	return s.asker.messages(ctx, turn)
}

// readJSON reads an answer in the format of the sequence planner.
func readJSON(answer string, reg *actions.Registry) (plan.Plan, error) {
	p, err := plan.Decode(answer)
	if err != nil {
		return plan.Plan{}, err
	}
	return plan.Validate(p, reg)
}

// Sequential asks the model for a whole plan at once, as one XML element with a
// tag for each function to call: the sequential planner of Semantic Kernel. Its
// plans are run as those of any other planner. It is safe for concurrent use.
//
// A model that answers with a plan of the [Sequence] planner is understood too.
type Sequential struct{ asker asker }

// NewSequential renders the part of the prompt that is the same for every turn,
// from the prompt "sequential" or the one that cfg names. Every fault of cfg is in the one error.
func NewSequential(ctx context.Context, cfg SequenceConfig) (*Sequential, error) {
	asker, err := newAsker(ctx, "sequential", "one XML plan and nothing else or, if there is nothing to do, with plain text", cfg, nil)
	if err != nil {
		return nil, fmt.Errorf("sequential planner: %w", err)
	}
	asker.retell = func(transcript string) string {
		if p, ok := readTranscript(transcript); ok {
			return p.TranscriptXML()
		}
		return transcript
	}
	return &Sequential{asker}, nil
}

// Plan asks the model for a plan that reaches the goal, which is the turn's text.
// It is repaired, and fails, as that of [Sequence.Plan].
func (s *Sequential) Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error) {
	return s.asker.plan(ctx, turn, func(answer string, offered *actions.Registry) (plan.Plan, error) {
		return plan.DecodeXML(answer, turn.Text, offered)
	})
}

// Messages is the prompt of the turn, laid out as that of [Sequence.Messages].
// The history shows earlier plans as XML.
func (s *Sequential) Messages(ctx context.Context, turn *actions.Turn) ([]models.Message, error) {
	return s.asker.messages(ctx, turn)
}

// readTranscript reads what [plan.Plan.Transcript] has written; ok says that it is that, and
// whole.
func readTranscript(text string) (p plan.Plan, ok bool) {
	err := p.UnmarshalJSON([]byte(text))
	return p, err == nil && strings.HasPrefix(text, `{"type":"plan"`)
}

// defaultHistoryTokens bounds the part of a prompt that is history.
const defaultHistoryTokens = 4000

// asker is what the planners that ask for a whole plan at once share: the prompt,
// and the loop in which the model may correct itself.
type asker struct {
	cfg    SequenceConfig
	prompt *latest[*plannerPrompt]
	form   string              // what the model is asked for once more
	retell func(string) string // writes an answer of the history in that form; nil: it is
}

// newAsker checks cfg whole, and the prompt for a planner of that kind. finish
// adds to a plannerPrompt what only that planner needs; it may be nil.
func newAsker(ctx context.Context, kind, form string, cfg SequenceConfig, finish func(*plannerPrompt) error) (asker, error) {
	if err := cfg.check(); err != nil {
		return asker{}, err
	}
	if cfg.Prompts == nil {
		embedded, err := prompts.Load("")
		if err != nil {
			return asker{}, err
		}
		cfg.Prompts = embedded
	}
	cfg.HistoryTokens = cmp.Or(cfg.HistoryTokens, defaultHistoryTokens)
	cfg.MaxRepairs = cmp.Or(cfg.MaxRepairs, 2)
	cfg.MaxTokens = cmp.Or(cfg.MaxTokens, 2000)
	latest, err := newLatest(ctx, cfg.Prompts, cmp.Or(cfg.Prompt, kind), func(ctx context.Context, prompt *prompts.Prompt) (*plannerPrompt, error) {
		return newPlannerPrompt(ctx, kind, prompt, &cfg, finish)
	})
	return asker{cfg: cfg, prompt: latest, form: form}, err
}

// plan asks the model until read takes its answer, at most MaxRepairs times more
// than once. Failed answers are forgotten. A plan may do what the prompt offers.
func (a *asker) plan(ctx context.Context, turn *actions.Turn, read func(answer string, offered *actions.Registry) (plan.Plan, error)) (plan.Plan, error) {
	pr, err := a.current(ctx, turn)
	if err != nil {
		return plan.Plan{}, err
	}
	in, err := a.whole(ctx, turn, pr)
	if err != nil {
		return plan.Plan{}, err
	}
	var refused []plan.FaultKind
	var fork []models.Message // the refused answers, each with its fault
	for attempt := 0; ; attempt++ {
		answer, err := pr.ask(ctx, turn, in, fork)
		if err != nil {
			return plan.Plan{}, err
		}
		p, err := read(answer.Text, pr.offered)
		if left := turn.Budget.Messages - turn.Usage.Messages; err == nil && turn.Budget.Messages > 0 && p.Says() > left {
			err = plan.InvalidPlan.Faultf("the plan has %d SAYs, but this turn has only %d left; combine them", p.Says(), max(left, 0))
		}
		if answer.Finish == "length" && (p.Prose || err != nil && faultKind(err) == plan.NoPlan) {
			// A plan that is whole may stand in an answer that was cut off behind
			// it; prose that was cut off is not what the model meant to say, and
			// nothing may be all that was left behind the reasoning.
			err = plan.Truncated.Faultf("the answer was cut off before its end; be brief")
		}
		if err == nil {
			p.Refused = refused
			logPlan(ctx, p, attempt)
			return p, nil
		}
		if attempt >= a.cfg.MaxRepairs {
			return plan.Plan{}, after(refused, err)
		}
		refused = append(refused, faultKind(err))
		logRefusal(ctx, err, attempt+1)
		fork = append(fork, refusal(answer, err, a.form)...)
	}
}

// refusal tells the model its answer and why that cannot be used.
func refusal(answer *models.Response, err error, form string) []models.Message {
	why := models.Message{Role: "system", Text: feedback(err, form)}
	if strings.TrimSpace(answer.Text) == "" {
		return []models.Message{why} // servers refuse messages that say nothing
	}
	return []models.Message{{Role: "assistant", Text: answer.Text}, why}
}

func (a *asker) messages(ctx context.Context, turn *actions.Turn) ([]models.Message, error) {
	pr, err := a.current(ctx, turn)
	if err != nil {
		return nil, err
	}
	in, err := a.whole(ctx, turn, pr)
	if err != nil {
		return nil, err
	}
	return pr.inBudget(in, 0)
}

// whole is what the model is told of a turn, with what was done in it.
func (a *asker) whole(ctx context.Context, turn *actions.Turn, pr *plannerPrompt) (prompts.AssembleInput, error) {
	in, err := a.opening(ctx, turn, pr)
	in.Results = pr.results(turn)
	return in, err
}

// opening is what the model is told of a turn before anything was done in it.
func (a *asker) opening(ctx context.Context, turn *actions.Turn, pr *plannerPrompt) (prompts.AssembleInput, error) {
	system, err := pr.system(ctx, turn)
	if err != nil {
		return prompts.AssembleInput{}, err
	}
	in := prompts.AssembleInput{System: system, Pinned: pr.pinned, Context: situation(turn, time.Now())}
	completion := &pr.prompt.Config.Completion
	if includes(completion.IncludeHistory) {
		in.History = a.history(turn)
	}
	if includes(completion.IncludeInput) {
		in.Input = turn.Text
	}
	return in, nil
}

// history is what was said before, as the model is shown it.
func (a *asker) history(turn *actions.Turn) func(budget int) []prompts.Message {
	history := state.Of[prompts.History](turn.Thread)
	if a.retell != nil {
		history = history.Retold(a.retell)
	}
	return func(budget int) []prompts.Message {
		return history.Within(min(budget, a.cfg.HistoryTokens), a.cfg.Prompts.Counter())
	}
}

// ask asks the model as the prompt says. The messages of the fork come behind all
// others.
func (a *modelPrompt) ask(ctx context.Context, turn *actions.Turn, in prompts.AssembleInput, fork []models.Message) (*models.Response, error) {
	messages, err := a.inBudget(in, a.sizeOf(fork, nil))
	if err != nil {
		return nil, err
	}
	return complete(ctx, turn, a.model, a.request(append(messages, fork...)))
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

// feedback tells the model what was wrong with its answer, and what is wanted.
func feedback(err error, form string) string {
	return "Your answer could not be used and nothing of it was done: " + err.Error() + "\nAnswer again with " + form + "."
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
	var fault *plan.Fault
	if !errors.As(err, &fault) {
		fault = &plan.Fault{}
	}
	log := zerolog.Ctx(ctx)
	log.Warn().Str("kind", string(fault.Kind)).Int("attempt", attempt).Msg("plan refused, asking again")
	log.Debug().Str("detail", fault.Detail).Int("attempt", attempt).Msg("why the plan was refused")
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

// situation is what is true now and was not a turn ago.
func situation(turn *actions.Turn, now time.Time) string {
	s := prompts.Situation{Now: now.In(turn.Activity.Zone())}
	if c := &turn.Activity.Conversation; !c.Personal() {
		s.Kind, s.Speaker = "group chat", turn.Activity.From.Name
		if c.ConversationType == "channel" {
			s.Kind = c.ConversationType
		}
	}
	return s.String()
}

// results are the outcomes of the turn so far, each from the start of a line.
// The lines of a longer text are set in, whatever parts them, so that it cannot
// pose as the outcome of something else.
func results(outcomes []actions.Outcome) string {
	var b strings.Builder
	for _, o := range outcomes {
		word, text := ": ", cmp.Or(strings.TrimSpace(o.Text), "done")
		if o.Failed {
			word, text = " failed: ", cmp.Or(strings.TrimSpace(o.Text), "no reason given")
		}
		b.WriteString("- " + o.Action + word + setIn.Replace(text) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// setIn sets in every line but the first.
var setIn = strings.NewReplacer("\r\n", "\n  ", "\n", "\n  ", "\r", "\n  ", "\v", "\n  ", "\f", "\n  ",
	"\u0085", "\n  ", "\u2028", "\n  ", "\u2029", "\n  ")

// ResponseFormat says how the server holds the model to the format of plans. What
// the server does not take it is asked without, see [models.Format]; the plan is
// checked all the same. The zero value is [JSONSchema].
type ResponseFormat string

// The response formats, by the names that servers give them.
const (
	JSONSchema ResponseFormat = "json_schema" // to the [plan.Schema] of the actions
	JSONObject ResponseFormat = "json_object" // to JSON; the prompt has to hold that word
	PlainText  ResponseFormat = "text"        // not at all
)

func (r ResponseFormat) isKnown() bool {
	switch r {
	case "", JSONSchema, JSONObject, PlainText:
		return true
	}
	return false
}

// of is the format of requests for plans that do what is offered; nil for text.
func (r ResponseFormat) of(ctx context.Context, offered *actions.Registry) (*models.Format, error) {
	switch r {
	case PlainText:
		return nil, nil
	case JSONObject:
		return &models.Format{}, nil
	}
	schema, grammar, strict, err := plan.Schema(offered)
	if err != nil {
		return nil, fmt.Errorf("schema of the plans: %w", err)
	}
	if !strict {
		zerolog.Ctx(ctx).Info().Strs("actions", looseActions(offered)).Msg("the schema of plans is not strict")
	}
	return &models.Format{Name: "plan", Schema: schema, Loose: !strict, Grammar: grammar}, nil
}

// checkFormat finds a prompt with which OpenAI refuses json_object. One that is
// rendered for each turn may still meet that refusal, which costs a call.
func (b *plannerPrompt) checkFormat() error {
	if b.format == nil || b.format.Schema != nil || strings.Contains(strings.ToUpper(*b.static), "JSON") {
		return nil
	}
	return fmt.Errorf("prompt %s: the response format json_object needs the word JSON in it", b.prompt.Name())
}

// looseActions names the actions to which a server cannot be strict.
func looseActions(registry *actions.Registry) []string {
	var names []string
	for _, action := range registry.All() {
		if _, strict, _ := plan.ToolSchema(action, true); !strict {
			names = append(names, action.Name)
		}
	}
	return names
}

// Extension adds to what a model is told and may plan, turn by turn. A skill provider
// is one.
type Extension interface {
	// Extend is called each time before a model is asked for a plan, by several turns
	// at once. An error ends the turn.
	Extend(ctx context.Context, turn *actions.Turn) (Extra, error)
}

// Extra is what an [Extension] adds in a turn. The zero value adds nothing.
type Extra struct {
	// Key stands for Text and Offer: what is made of them is kept under it, and they
	// are looked at once for a Key and a version of the prompt. "": there are none.
	Key string
	// Text is told where the prompt says {{skills}}, else behind the prompt.
	Text string
	// Offer chooses what a plan may do among the actions that the prompt offers, and how
	// models are told of it. nil: all of them, as they are.
	Offer func(all *actions.Registry) (*actions.Registry, error)
	// Pinned are texts that the model is told whole right behind the prompt, however long
	// the conversation gets.
	Pinned []string
	// Tell returns what the model is told of an outcome of this turn in place of its
	// text, if there is something. nil: there is not.
	Tell func(o actions.Outcome) (text string, ok bool)
}

// maxExtended is how many versions of one prompt with different extras are kept.
const maxExtended = 64

// extended keeps briefings by the keys of what was added to them. It is safe for
// concurrent use.
type extended struct {
	mu   sync.Mutex
	made map[string]*plannerPrompt
}

// get returns the plannerPrompt of that key, or makes it. Beyond maxExtended all are
// forgotten: who has as many skill sets as that has others by then.
func (e *extended) get(key string, make func() (*plannerPrompt, error)) (*plannerPrompt, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b, ok := e.made[key]; ok {
		return b, nil
	}
	b, err := make()
	if err != nil {
		return nil, err
	}
	if e.made == nil || len(e.made) >= maxExtended {
		e.made = map[string]*plannerPrompt{}
	}
	e.made[key] = b
	return b, nil
}

// current is what counts for a plan that is asked for now.
func (a *asker) current(ctx context.Context, turn *actions.Turn) (*plannerPrompt, error) {
	base := a.prompt.get(ctx)
	if a.cfg.Extension == nil {
		return base, nil
	}
	extra, err := a.cfg.Extension.Extend(ctx, turn)
	if err != nil {
		return nil, fmt.Errorf("extend the prompt: %w", err)
	}
	with := base
	if extra.Key != "" {
		with, err = base.extended.get(extra.Key, func() (*plannerPrompt, error) { return base.extend(ctx, extra) })
	}
	if err != nil {
		return nil, fmt.Errorf("extend the prompt %s: %w", base.prompt.Name(), err)
	}
	now := *with
	now.pinned, now.tell = extra.Pinned, extra.Tell
	return &now, nil
}

// extend is b with a text and with other actions.
func (b *plannerPrompt) extend(ctx context.Context, extra Extra) (*plannerPrompt, error) {
	with := *b
	with.skills = extra.Text
	if extra.Offer != nil {
		var err error
		if with.offered, err = extra.Offer(b.offered); err != nil {
			return nil, err
		}
	}
	with.lists = listsOf(with.offered, with.skills)
	return &with, with.complete(ctx)
}

// offers says whether a plan may do the action of exactly that name.
func (b *plannerPrompt) offers(name string) bool {
	action, ok := b.offered.Lookup(name)
	return ok && action.Name == name
}

// told is a round of this turn as the model is told it.
func (b *plannerPrompt) told(round actions.Round) actions.Round {
	if b.tell == nil {
		return round
	}
	outcomes := make([]actions.Outcome, len(round.Outcomes))
	for i, o := range round.Outcomes {
		if text, ok := b.tell(o); ok {
			o.Text = text
		}
		outcomes[i] = o
	}
	round.Outcomes = outcomes
	return round
}

// results are the outcomes of all rounds of the turn.
func (b *plannerPrompt) results(turn *actions.Turn) string {
	var all []actions.Outcome
	for _, round := range turn.Rounds {
		all = append(all, b.told(round).Outcomes...)
	}
	return results(all)
}
