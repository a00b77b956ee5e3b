package models_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/models"
)

// script is a model in memory: each call takes the next step, the last one for
// ever. It is safe for concurrent use.
type script struct {
	steps []error // nil: it answers
	name  string
	takes time.Duration // each call

	mu    sync.Mutex
	calls []models.Request
	times []time.Time
}

func scripted(name string, steps ...error) *script { return &script{name: name, steps: steps} }

func (s *script) Name() string { return s.name }

func (s *script) Complete(ctx context.Context, req *models.Request) (*models.Response, error) {
	s.mu.Lock()
	err := s.steps[min(len(s.calls), len(s.steps)-1)]
	s.calls = append(s.calls, *req)
	s.times = append(s.times, time.Now())
	s.mu.Unlock()
	if s.takes > 0 {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return nil, &models.Error{Kind: models.Timeout, Err: ctx.Err()}
		}
	}
	if err != nil {
		return nil, err
	}
	return &models.Response{Text: "yes", Model: s.name}, nil
}

func (s *script) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.calls)
}

func throttled(after time.Duration) error {
	return &models.Error{Kind: models.Throttled, Status: 429, RetryAfter: after}
}

// Faults by what they mean to retry, fallback and breaker.
var (
	down       = &models.Error{Kind: models.Unavailable, Status: 503}
	noNetwork  = &models.Error{Kind: models.Unavailable, Err: errors.New("connection refused")}
	gateway    = &models.Error{Kind: models.Timeout, Status: 504}
	tooSlow    = &models.Error{Kind: models.Timeout, Err: context.DeadlineExceeded}
	noMoney    = &models.Error{Kind: models.Quota, Status: 429, Code: "insufficient_quota"}
	malformed  = &models.Error{Kind: models.Unavailable, Status: 200, Code: "malformed_response"}
	tooLarge   = &models.Error{Kind: models.Unavailable, Code: "response_too_large"}
	bad        = &models.Error{Kind: models.BadRequest, Status: 400}
	noKey      = &models.Error{Kind: models.Auth, Status: 401}
	tooLong    = &models.Error{Kind: models.TooLong, Status: 400}
	filtered   = &models.Error{Kind: models.Filtered, Status: 400}
	cut        = &models.Error{Kind: models.Filtered, Status: 200}
	empty      = &models.Error{Kind: models.Empty, Status: 200}
	errForeign = errors.New("some other error")
)

// patient is a chain of one model.
func patient(t testing.TB, m models.Model, cfg *models.Chain) *models.Chain {
	t.Helper()
	if cfg == nil {
		cfg = &models.Chain{}
	}
	cfg.Models = []models.Model{m}
	return cfg
}
