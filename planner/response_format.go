package planner

import (
	"context"
	"fmt"
	"strings"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
)

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
	schema, strict, err := plan.Schema(offered)
	if err != nil {
		return nil, fmt.Errorf("schema of the plans: %w", err)
	}
	if !strict {
		zerolog.Ctx(ctx).Info().Strs("actions", looseActions(offered)).Msg("the schema of plans is not strict")
	}
	grammar, err := plan.Grammar(offered)
	if err != nil {
		return nil, fmt.Errorf("grammar of the plans: %w", err)
	}
	return &models.Format{Name: "plan", Schema: schema, Loose: !strict, Grammar: grammar}, nil
}

// checkFormat finds a prompt with which OpenAI refuses json_object. One that is
// rendered for each turn may still meet that refusal, which costs a call.
func (b *briefing) checkFormat() error {
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
