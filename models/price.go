package models

import (
	"context"
	"errors"
)

// Price is what a million tokens cost, in any currency. A zero Cached is the price
// of Prompt.
type Price struct{ Prompt, Cached, Completion float64 }

// Priced is m with the cost of each answer in its Usage, also of one that is of no use.
func Priced(m Model, p Price) Model { return &priced{m, p} }

type priced struct {
	Model
	price Price
}

// Name is the model's own, "" when it has none.
func (p *priced) Name() string { return nameOf(p.Model) }

func (p *priced) Complete(ctx context.Context, req *Request) (*Response, error) {
	answer, err := p.Model.Complete(ctx, req)
	if err == nil {
		answer.Usage.Cost = p.price.of(answer.Usage)
	} else if fault, ok := errors.AsType[*Error](err); ok && fault.Usage.Total() > 0 {
		fault.Usage.Cost = p.price.of(fault.Usage)
	}
	return answer, err
}

func (p Price) of(u Usage) float64 {
	cached := p.Cached
	if cached == 0 {
		cached = p.Prompt
	}
	fresh := u.Prompt - u.Cached
	return (float64(fresh)*p.Prompt + float64(u.Cached)*cached + float64(u.Completion)*p.Completion) / 1e6
}
