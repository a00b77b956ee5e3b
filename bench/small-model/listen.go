package main

import (
	"context"
	"regexp"

	"github.com/planbot-go/planbot/models"
)

// answer is one answer of the model, or why there was none.
type answer struct {
	Text   string        `json:"text,omitempty"`
	Finish models.Finish `json:"finish,omitempty"`
	Usage  models.Usage  `json:"usage"`
	Err    string        `json:"error,omitempty"`
}

// listener is a model between the planner and the real one. It sets what belongs
// to the cell, and keeps the answers.
type listener struct {
	model   models.Model
	cell    *cell
	answers []answer // since the last turn began
}

// theClock is what the planner says of the time.
var theClock = regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d [^;]*day\b`)

// Complete stops the clock of the prompt, so that a run can be repeated.
func (l *listener) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	own := *req
	own.Temperature = &l.cell.temperature
	own.Messages = nil
	for _, m := range req.Messages {
		if m.Role == models.System && theClock.MatchString(m.Text) {
			if !l.cell.clock {
				continue
			}
			m.Text = theClock.ReplaceAllString(m.Text, "2026-11-21 09:00 +00:00, Saturday")
		}
		own.Messages = append(own.Messages, m)
	}
	res, err := l.model.Complete(ctx, &own)
	a := answer{}
	if err != nil {
		a.Err = err.Error()
	} else {
		a.Text, a.Finish, a.Usage = res.Text, res.Finish, res.Usage
	}
	l.answers = append(l.answers, a)
	return res, err
}
