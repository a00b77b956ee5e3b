package planner

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

// SequentialConfig says what a [Sequential] is made of. Its fields are those of
// [SequenceConfig], with the same defaults.
type SequentialConfig SequenceConfig

// Sequential asks the model for a whole plan at once, as one XML element with a
// tag for each function to call: the sequential planner of Semantic Kernel. Its
// plans are run as those of any other planner. It is safe for concurrent use.
//
// A model that answers with a plan of the [Sequence] planner is understood too.
type Sequential struct{ asker asker }

// NewSequential renders the part of the prompt that is the same for every turn,
// from the prompt "sequential" or the one that cfg names. Every fault of cfg is in the one error.
func NewSequential(ctx context.Context, cfg SequentialConfig) (*Sequential, error) {
	asker, err := newAsker(ctx, "sequential", "one XML plan and nothing else or, if there is nothing to do, with plain text", SequenceConfig(cfg), nil)
	if err != nil {
		return nil, fmt.Errorf("sequential planner: %w", err)
	}
	asker.retell = plan.TranscriptXML
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
