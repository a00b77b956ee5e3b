package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// SequenceConfig says what a [Sequence] is made of. Model, Prompts and Actions
// are required; the zero value of every other field is a working default.
type SequenceConfig struct {
	Model   models.Model
	Prompts *prompts.Library
	Actions *actions.Registry

	// HistoryTokens bounds the part of the prompt that is history. 0: 4000.
	HistoryTokens int
	// MaxRepairs is how often the model may correct a plan that cannot run.
	// 0: 2; negative: never.
	MaxRepairs int
	// MaxTokens bounds the model's answer. 0: 2000.
	MaxTokens int
}

// Sequence asks the model for a whole plan at once, as one JSON object of DO and
// SAY commands: the sequence planner of Teams AI. It is safe for concurrent use.
type Sequence struct {
	cfg     SequenceConfig
	system  string
	counter prompts.Counter
}

// NewSequence renders the part of the prompt that is the same for every turn.
// Every fault of cfg is in the one error.
func NewSequence(ctx context.Context, cfg SequenceConfig) (*Sequence, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("sequence planner: %w", err)
	}
	cfg.HistoryTokens = cmp.Or(cfg.HistoryTokens, 4000)
	cfg.MaxRepairs = cmp.Or(cfg.MaxRepairs, 2)
	cfg.MaxTokens = cmp.Or(cfg.MaxTokens, 2000)
	system, err := renderSystem(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("sequence planner: %w", err)
	}
	return &Sequence{cfg: cfg, system: system, counter: prompts.NewCounter()}, nil
}

// check lists every fault, in the order of the fields.
func (c *SequenceConfig) check() error {
	var faults []error
	for _, field := range []struct {
		wrong bool
		fault string
	}{
		{c.Model == nil, "no Model"},
		{c.Prompts == nil, "no Prompts"},
		{c.Actions == nil, "no Actions"},
		{c.HistoryTokens < 0, "HistoryTokens is negative"},
		{c.MaxTokens < 0, "MaxTokens is negative"},
	} {
		if field.wrong {
			faults = append(faults, errors.New(field.fault))
		}
	}
	return errors.Join(faults...)
}

// Plan asks the model until its answer is a plan that can run, with the fault
// fed back each time, at most MaxRepairs times more than once. It returns a
// [*models.Error] or, when no answer was good, the last [*DecodeError]. Failed
// answers are forgotten.
func (s *Sequence) Plan(ctx context.Context, turn *actions.Turn) (Plan, error) {
	messages := s.Messages(turn)
	for attempt := 0; ; attempt++ {
		answer, err := s.ask(ctx, turn, messages)
		if err != nil {
			return Plan{}, err
		}
		plan, err := s.read(answer.Text, answer.Finish)
		if err == nil {
			logPlan(ctx, plan, attempt)
			return plan, nil
		}
		if attempt >= s.cfg.MaxRepairs {
			return Plan{}, err
		}
		logRefusal(ctx, err, attempt+1)
		messages = append(messages,
			models.Message{Role: models.Assistant, Text: answer.Text},
			models.Message{Role: models.System, Text: feedback(err)})
	}
}

// Messages is the prompt of the turn: what never changes first, so that the
// provider's prompt cache serves it, then the history, then what is true now,
// then the person's text with nothing around it.
func (s *Sequence) Messages(turn *actions.Turn) []models.Message {
	history := state.Of[prompts.History](turn.Thread)
	assembled := prompts.Assemble(prompts.AssembleInput{
		System:  s.system,
		History: history.Within(s.cfg.HistoryTokens, s.counter),
		Context: situation(turn, time.Now()),
		Input:   turn.Text,
		Results: results(turn.Outcomes),
	})
	messages := make([]models.Message, len(assembled))
	for i, m := range assembled {
		messages[i] = models.Message{Role: models.Role(m.Role), Text: m.Text}
	}
	return messages
}

func (s *Sequence) ask(ctx context.Context, turn *actions.Turn, messages []models.Message) (*models.Response, error) {
	turn.Usage.ModelCalls++
	response, err := s.cfg.Model.Complete(ctx, &models.Request{Messages: messages, MaxTokens: s.cfg.MaxTokens})
	if err != nil {
		return nil, err
	}
	turn.Usage.PromptTokens += response.Usage.Prompt
	turn.Usage.CompletionTokens += response.Usage.Completion
	return response, nil
}

// read reads an answer. A plan that is whole may stand in an answer that was cut
// off behind it; prose that was cut off is not what the model meant to say.
func (s *Sequence) read(answer string, finish models.Finish) (Plan, error) {
	plan, err := Decode(answer)
	if err != nil {
		return Plan{}, err
	}
	if plan.Prose && finish == models.FinishLength {
		return Plan{}, fail(Truncated, "the answer was cut off before its end; be brief")
	}
	return Validate(plan, s.cfg.Actions)
}

// logRefusal reports why an answer was refused. The detail quotes the model, so it
// is for debugging only.
func logRefusal(ctx context.Context, err error, attempt int) {
	var fault *DecodeError
	if !errors.As(err, &fault) {
		fault = &DecodeError{}
	}
	log := zerolog.Ctx(ctx)
	log.Warn().Str("kind", string(fault.Kind)).Int("attempt", attempt).Msg("plan refused, asking again")
	log.Debug().Str("detail", fault.Detail).Int("attempt", attempt).Msg("why the plan was refused")
}

// logPlan reports how the plan came about; at info only where the model strayed
// from the format, so that drift is seen.
func logPlan(ctx context.Context, p Plan, refused int) {
	log := zerolog.Ctx(ctx).Debug()
	if len(p.Repairs) > 0 || p.Salvaged {
		log = zerolog.Ctx(ctx).Info()
	}
	log.Int("commands", len(p.Commands)).Strs("repairs", p.Repairs).
		Bool("salvaged", p.Salvaged).Int("refused", refused).Msg("planned")
}

// feedback tells the model what was wrong with its answer.
func feedback(err error) string {
	return "Your answer could not be used and nothing of it was done: " + err.Error() +
		"\nAnswer again with one JSON object in the plan format and nothing else."
}

// situation is what is true now and was not a turn ago.
func situation(turn *actions.Turn, now time.Time) string {
	s := prompts.Situation{Now: now.UTC()}
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

// renderSystem renders the prompt "sequence" with the registered actions.
func renderSystem(ctx context.Context, cfg SequenceConfig) (string, error) {
	template, err := cfg.Prompts.Prompt("sequence")
	if err != nil {
		return "", err
	}
	if variables := template.Variables(); len(variables) > 0 {
		return "", fmt.Errorf("prompt sequence: it reads %s, but is rendered once, before any turn", strings.Join(variables, ", "))
	}
	return template.Render(ctx, prompts.Data{Funcs: map[string]prompts.Func{
		"actions": func(context.Context, []string) (any, error) {
			return prompts.RenderActions(Describe(cfg.Actions)), nil
		},
	}})
}
