package models_test

import (
	"context"
	"errors"
	"testing"

	"github.com/planbot-go/planbot/models"
)

// used answers with a fixed usage.
type used models.Usage

func (u used) Complete(context.Context, *models.Request) (*models.Response, error) {
	return &models.Response{Text: "hi", Usage: models.Usage(u)}, nil
}

func TestPriced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		usage models.Usage
		price models.Price
		want  float64
	}{
		{models.Usage{Prompt: 1_000_000, Completion: 500_000}, models.Price{Prompt: 2, Completion: 8}, 6},
		{models.Usage{Prompt: 1_000_000, Cached: 500_000}, models.Price{Prompt: 2, Cached: 1}, 1.5},
		{models.Usage{Prompt: 1_000_000, Cached: 500_000}, models.Price{Prompt: 2}, 2},
	} {
		answer, err := models.Priced(used(test.usage), test.price).Complete(t.Context(), &models.Request{})
		if err != nil || answer.Usage.Cost != test.want {
			t.Errorf("%+v at %+v: %v, %v", test.usage, test.price, answer.Usage.Cost, err)
		}
	}
	wasted := models.Usage{Completion: 500_000}
	_, err := models.Priced(scripted("m", &models.Error{Kind: models.Empty, Usage: wasted}), models.Price{Completion: 8}).Complete(t.Context(), &models.Request{})
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Usage.Cost != 4 {
		t.Errorf("an empty answer: %v", err)
	}
	if sum := (models.Usage{Cost: 1}).Add(models.Usage{Cost: 2}); sum.Cost != 3 {
		t.Errorf("sum %v", sum.Cost)
	}
}
