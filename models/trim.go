package models

import (
	"context"
	"errors"
	"slices"

	"github.com/rs/zerolog"
)

// Trim asks the model once more, with most of the earlier conversation left out,
// when the prompt was too long for it ([TooLong]). What stays: the messages of the
// system at the start, the last turn from its person's text on with the messages
// of the system right before it, and of the turns between the newest that make up
// a quarter of their bytes. Turns are left out whole, from a person's text to the
// next, so that no answer and no call is parted from what it belongs to. When
// there is nothing to leave out, or it is still too long, [TooLong] is returned.
//
// The caller's history is not changed. Each trim writes one info line to ctx's
// logger.
func Trim(m Model) Model { return &trimmer{m} }

type trimmer struct{ model Model }

// Complete asks at most twice.
func (t *trimmer) Complete(ctx context.Context, req *Request) (*Response, error) {
	answer, err := t.model.Complete(ctx, req)
	fault, ok := errors.AsType[*Error](err)
	if !ok || fault.Kind != TooLong || ctx.Err() != nil {
		return answer, err
	}
	from, to := oldTurns(req.Messages)
	if from == to {
		return answer, err
	}
	zerolog.Ctx(ctx).Info().Int("left_out", to-from).Int("of", len(req.Messages)).Msg("prompt too long for the model, asking without older turns")
	shorter := *req
	shorter.Messages = slices.Concat(req.Messages[:from], req.Messages[to:])
	return t.model.Complete(ctx, &shorter)
}

// oldTurns is the range of messages that can be left out.
func oldTurns(messages []Message) (from, to int) {
	for from < len(messages) && messages[from].Role == System {
		from++
	}
	end := thisTurn(messages)
	if end <= from {
		return from, from
	}
	quarter := 0
	for i := range messages[from:end] {
		quarter += messages[from+i].bytes()
	}
	quarter /= 4
	to = end
	for i := end - 1; i > from; i-- {
		if quarter -= messages[i].bytes(); quarter < 0 {
			break
		}
		if messages[i].Role == User {
			to = i
		}
	}
	return from, to
}

// thisTurn is where the last turn begins: at the last text of a person, or at the
// messages of the system before it.
func thisTurn(messages []Message) int {
	i := len(messages) - 1
	for i >= 0 && messages[i].Role != User {
		i--
	}
	for i > 0 && messages[i-1].Role == System {
		i--
	}
	return i
}

// bytes is what the message takes of a prompt, near enough to compare by.
func (m *Message) bytes() int {
	n := len(m.Text)
	for _, c := range m.Calls {
		n += len(c.Name) + len(c.Arguments)
	}
	return n
}
