package planner

import (
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/prompts"
)

// layOut are the messages of a request, in at most the max_input_tokens of the
// prompt's config.json, of which some are for what comes behind them.
func (a *asking) layOut(in prompts.AssembleInput, reserved int) ([]models.Message, error) {
	budget := a.prompt.Config.Completion.MaxInputTokens
	if budget == 0 {
		return converted(prompts.Assemble(in)), nil
	}
	messages, err := in.Within(budget-reserved, a.counter)
	if err != nil {
		return nil, &models.Error{Kind: models.TooLong, Err: err}
	}
	return converted(messages), nil
}

// converted are messages of a prompt as those of a model.
func converted(assembled []prompts.Message) []models.Message {
	messages := make([]models.Message, len(assembled))
	for i, m := range assembled {
		messages[i] = models.Message{Role: models.Role(m.Role), Text: m.Text}
	}
	return messages
}

// sizeOf is how many tokens messages with calls and functions have; 0 where
// nobody asks, because the prompt has no max_input_tokens.
func (a *asking) sizeOf(messages []models.Message, tools []models.Tool) int {
	if a.prompt.Config.Completion.MaxInputTokens == 0 {
		return 0
	}
	size := 0
	add := func(texts ...string) {
		size += prompts.MessageTokens
		for _, text := range texts {
			size += a.counter.Count(text)
		}
	}
	for _, m := range messages {
		add(m.Text)
		for _, c := range m.Calls {
			add(c.Name, c.Arguments)
		}
	}
	for _, t := range tools {
		add(t.Name, t.Description, string(t.Schema))
	}
	return size
}
