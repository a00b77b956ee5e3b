package models_test

import (
	"context"
	"errors"
	"testing"

	"github.com/planbot-go/planbot/models"
)

// failing fails with a fixed error.
type failing struct{ err error }

func (f failing) Complete(context.Context, *models.Request) (*models.Response, error) {
	return nil, f.err
}

func TestObserved(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		model models.Model
		want  string
	}{
		{used{Prompt: 3}, "ok"},
		{failing{&models.Error{Kind: models.Throttled}}, "throttled"},
		{failing{context.Canceled}, "canceled"},
	} {
		var seen []models.Observation
		m := models.Observed(test.model, func(o models.Observation) { seen = append(seen, o) })
		_, err := m.Complete(t.Context(), &models.Request{})
		if len(seen) != 1 || seen[0].Kind != test.want || (err == nil) != (test.want == "ok") {
			t.Errorf("want %s, saw %+v, %v", test.want, seen, err)
		}
		if fail, ok := test.model.(failing); ok && !errors.Is(err, fail.err) {
			t.Errorf("error %v", err)
		}
		if test.want == "ok" && seen[0].Usage.Prompt != 3 {
			t.Errorf("usage %+v", seen[0].Usage)
		}
	}
}
