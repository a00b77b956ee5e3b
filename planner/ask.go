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

// asker is what the planners that ask for a whole plan at once share: the prompt,
// and the loop in which the model may correct itself.
type asker struct {
	cfg     SequenceConfig
	system  string
	counter prompts.Counter
	form    string              // what the model is asked for once more
	retell  func(string) string // writes an answer of the history in that form; nil: it is
}

// newAsker checks cfg whole and renders the prompt of that name: the part of the
// messages that is the same for every turn.
func newAsker(ctx context.Context, prompt, form string, cfg SequenceConfig) (asker, error) {
	if err := cfg.check(); err != nil {
		return asker{}, err
	}
	cfg.HistoryTokens = cmp.Or(cfg.HistoryTokens, 4000)
	cfg.MaxRepairs = cmp.Or(cfg.MaxRepairs, 2)
	cfg.MaxTokens = cmp.Or(cfg.MaxTokens, 2000)
	system, err := renderSystem(ctx, prompt, cfg)
	if err != nil {
		return asker{}, err
	}
	return asker{cfg: cfg, system: system, counter: prompts.NewCounter(), form: form}, nil
}

// plan asks the model until read takes its answer, at most MaxRepairs times more
// than once. Failed answers are forgotten.
func (a *asker) plan(ctx context.Context, turn *actions.Turn, read func(answer string) (Plan, error)) (Plan, error) {
	messages := a.messages(turn)
	for attempt := 0; ; attempt++ {
		answer, err := a.ask(ctx, turn, &models.Request{Messages: messages, MaxTokens: a.cfg.MaxTokens})
		if err != nil {
			return Plan{}, err
		}
		plan, err := read(answer.Text)
		if err == nil && plan.Prose && answer.Finish == models.FinishLength {
			// A plan that is whole may stand in an answer that was cut off behind
			// it; prose that was cut off is not what the model meant to say.
			err = fail(Truncated, "the answer was cut off before its end; be brief")
		}
		if err == nil {
			logPlan(ctx, plan, attempt)
			return plan, nil
		}
		if attempt >= a.cfg.MaxRepairs {
			return Plan{}, err
		}
		logRefusal(ctx, err, attempt+1)
		messages = append(messages,
			models.Message{Role: models.Assistant, Text: answer.Text},
			models.Message{Role: models.System, Text: feedback(err, a.form)})
	}
}

func (a *asker) messages(turn *actions.Turn) []models.Message {
	return a.assemble(turn, results(turn.Outcomes()))
}

// opening is the messages of the turn but for its results.
func (a *asker) opening(turn *actions.Turn) []models.Message { return a.assemble(turn, "") }

func (a *asker) assemble(turn *actions.Turn, results string) []models.Message {
	history := state.Of[prompts.History](turn.Thread)
	earlier := history.Within(a.cfg.HistoryTokens, a.counter)
	for i := range earlier {
		if a.retell != nil && earlier[i].Role == prompts.Assistant {
			earlier[i].Text = a.retell(earlier[i].Text)
		}
	}
	assembled := prompts.Assemble(prompts.AssembleInput{
		System:  a.system,
		History: earlier,
		Context: situation(turn, time.Now()),
		Input:   turn.Text,
		Results: results,
	})
	messages := make([]models.Message, len(assembled))
	for i, m := range assembled {
		messages[i] = models.Message{Role: models.Role(m.Role), Text: m.Text}
	}
	return messages
}

func (a *asker) ask(ctx context.Context, turn *actions.Turn, request *models.Request) (*models.Response, error) {
	turn.Usage.ModelCalls++
	response, err := a.cfg.Model.Complete(ctx, request)
	if err != nil {
		return nil, err
	}
	turn.Usage.PromptTokens += response.Usage.Prompt
	turn.Usage.CompletionTokens += response.Usage.Completion
	return response, nil
}

// feedback tells the model what was wrong with its answer, and what is wanted.
func feedback(err error, form string) string {
	return "Your answer could not be used and nothing of it was done: " + err.Error() + "\nAnswer again with " + form + "."
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

// renderSystem renders a planner's prompt. It may list the registered actions as
// {{actions}}, a line each, or as {{manual}}, as the sequential planner does.
func renderSystem(ctx context.Context, prompt string, cfg SequenceConfig) (string, error) {
	template, err := cfg.Prompts.Prompt(prompt)
	if err != nil {
		return "", err
	}
	if variables := template.Variables(); len(variables) > 0 {
		return "", fmt.Errorf("prompt %s: it reads %s, but is rendered once, before any turn", prompt, strings.Join(variables, ", "))
	}
	list := func(render func([]prompts.Action) string) prompts.Func {
		return func(context.Context, []string) (any, error) { return render(Describe(cfg.Actions)), nil }
	}
	return template.Render(ctx, prompts.Data{Funcs: map[string]prompts.Func{
		"actions": list(prompts.RenderActions),
		"manual":  list(prompts.RenderManual),
	}})
}
