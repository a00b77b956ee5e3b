// Package planner asks a model for a plan. A [Sequence] asks for JSON, a [Sequential] for
// the XML of Semantic Kernel, and [Tools] lets the model call functions. Each makes a
// [plan.Plan] of the answer, and one that was validated.
package planner

import (
	"context"
	"errors"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// SequenceConfig says what a [Sequence] is made of. Model and Actions are
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
