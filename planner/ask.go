package planner

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// defaultHistoryTokens bounds the part of a prompt that is history.
const defaultHistoryTokens = 4000

// asker is what the planners that ask for a whole plan at once share: the prompt,
// and the loop in which the model may correct itself.
type asker struct {
	cfg    SequenceConfig
	briefs *latest[*briefing]
	form   string              // what the model is asked for once more
	retell func(string) string // writes an answer of the history in that form; nil: it is
}

// newAsker checks cfg whole, and the prompt for a planner of that kind. finish
// adds to a briefing what only that planner needs; it may be nil.
func newAsker(ctx context.Context, kind, form string, cfg SequenceConfig, finish func(*briefing) error) (asker, error) {
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
	briefs, err := newLatest(ctx, cfg.Prompts, cmp.Or(cfg.Prompt, kind), func(ctx context.Context, prompt *prompts.Prompt) (*briefing, error) {
		return newBriefing(ctx, kind, prompt, &cfg, finish)
	})
	return asker{cfg: cfg, briefs: briefs, form: form}, err
}

// plan asks the model until read takes its answer, at most MaxRepairs times more
// than once. Failed answers are forgotten. A plan may do what the prompt offers.
func (a *asker) plan(ctx context.Context, turn *actions.Turn, read func(answer string, offered *actions.Registry) (plan.Plan, error)) (plan.Plan, error) {
	brief, err := a.briefing(ctx, turn)
	if err != nil {
		return plan.Plan{}, err
	}
	in, err := a.whole(ctx, turn, brief)
	if err != nil {
		return plan.Plan{}, err
	}
	var refused []plan.FaultKind
	var fork []models.Message // the refused answers, each with its fault
	for attempt := 0; ; attempt++ {
		answer, err := brief.ask(ctx, turn, in, fork)
		if err != nil {
			return plan.Plan{}, err
		}
		p, err := read(answer.Text, brief.offered)
		if left := turn.Budget.Messages - turn.Usage.Messages; err == nil && turn.Budget.Messages > 0 && p.Says() > left {
			err = plan.Faultf(plan.InvalidPlan, "the plan has %d SAYs, but this turn has only %d left; combine them", p.Says(), max(left, 0))
		}
		if answer.Finish == models.FinishLength && (p.Prose || err != nil && faultKind(err) == plan.NoPlan) {
			// A plan that is whole may stand in an answer that was cut off behind
			// it; prose that was cut off is not what the model meant to say, and
			// nothing may be all that was left behind the reasoning.
			err = plan.Faultf(plan.Truncated, "the answer was cut off before its end; be brief")
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
	why := models.Message{Role: models.System, Text: feedback(err, form)}
	if strings.TrimSpace(answer.Text) == "" {
		return []models.Message{why} // servers refuse messages that say nothing
	}
	return []models.Message{{Role: models.Assistant, Text: answer.Text}, why}
}

func (a *asker) messages(ctx context.Context, turn *actions.Turn) ([]models.Message, error) {
	brief, err := a.briefing(ctx, turn)
	if err != nil {
		return nil, err
	}
	in, err := a.whole(ctx, turn, brief)
	if err != nil {
		return nil, err
	}
	return brief.layOut(in, 0)
}

// whole is what the model is told of a turn, with what was done in it.
func (a *asker) whole(ctx context.Context, turn *actions.Turn, brief *briefing) (prompts.AssembleInput, error) {
	in, err := a.opening(ctx, turn, brief)
	in.Results = brief.results(turn)
	return in, err
}

// opening is what the model is told of a turn before anything was done in it.
func (a *asker) opening(ctx context.Context, turn *actions.Turn, brief *briefing) (prompts.AssembleInput, error) {
	system, err := brief.system(ctx, turn)
	if err != nil {
		return prompts.AssembleInput{}, err
	}
	in := prompts.AssembleInput{System: system, Pinned: brief.pinned, Context: situation(turn, time.Now())}
	completion := &brief.prompt.Config.Completion
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
func (a *asking) ask(ctx context.Context, turn *actions.Turn, in prompts.AssembleInput, fork []models.Message) (*models.Response, error) {
	messages, err := a.layOut(in, a.sizeOf(fork, nil))
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
		if fault.Code == models.CodeCutOff {
			response.Finish = models.FinishLength
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
