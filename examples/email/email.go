package main

import (
	"context"
	"net/mail"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

// summarize is what the prompt Summarize takes.
type summarize struct {
	Input string `json:"input" jsonschema:"the text"`
}

// register adds the actions. A person has to approve each mail, and sees on the
// card to whom it goes and what it says.
func register(r *actions.Registry, model models.Model, library *prompts.Library, m mailer) {
	planner.AddPrompt[summarize](r, planner.PromptActionConfig{Name: "Summarize", Model: model, Prompts: library})
	actions.Add(r, "SendEmail", "Sends an email", m.sendEmail, actions.NeedsApproval)
}

type email struct {
	To      string `json:"to" jsonschema:"address of the recipient"`
	Subject string `json:"subject"`
	Body    string `json:"body" jsonschema:"plain text"`
}

func (m mailer) sendEmail(ctx context.Context, _ *actions.Turn, in email) (actions.Result, error) {
	to, err := mail.ParseAddress(in.To)
	if err != nil {
		return actions.Fail("%q is not the address of one recipient", in.To), nil
	}
	if err := m.send(ctx, to, in.Subject, in.Body); err != nil {
		return actions.Result{}, err // for the log; the model learns only that it failed
	}
	return actions.Text("sent to %s", to.Address), nil
}
