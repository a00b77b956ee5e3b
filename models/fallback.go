package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/rs/zerolog"
)

// FallbackConfig is an ordered chain of models. Models is required; the zero value
// of every other field is a working default.
type FallbackConfig struct {
	Models  []Link
	Retry   RetryConfig   // of the last model
	Breaker BreakerConfig // of each model but the last
}

// Link is one model of a chain, with its own parameters in place of the request's.
type Link struct {
	Model       Model
	Name        string   // for logs; "": the model's own Name(), if it has one, else its place in the chain
	MaxTokens   int      // 0: the request's
	Temperature *float64 // nil: the request's
}

// Fallback asks the first model of a chain that can answer. Make one with
// [NewFallback] and share it.
type Fallback struct {
	links []link
	last  Link
}

// link is a model that has another one behind it.
type link struct {
	Link
	breaker *breaker
}

// NewFallback checks cfg whole. A chain of one model is [Retry] of it.
func NewFallback(cfg FallbackConfig) (*Fallback, error) {
	if len(cfg.Models) == 0 {
		return nil, errors.New("fallback config: no Models")
	}
	var faults []error
	f := &Fallback{}
	for i, l := range cfg.Models {
		if l.Model == nil {
			faults = append(faults, fmt.Errorf("fallback config: Models[%d]: no Model", i))
		}
		l.Name = cmp.Or(l.Name, nameOf(l.Model), fmt.Sprintf("#%d", i+1))
		if i < len(cfg.Models)-1 {
			f.links = append(f.links, link{l, newBreaker(cfg.Breaker)})
			continue
		}
		l.Model = Retry(l.Model, cfg.Retry)
		f.last = l
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return f, nil
}

// Complete goes down the chain. A model that is throttled (429), broken (5xx), not
// reached or too slow gives way to the next at once, and after several such faults
// in a row it is left out for a while. The last model is never left out, and is
// the only one that is retried. Every other fault is returned as it is: another
// model is no way around a refused request, a wrong key or a content filter.
//
// The error is that of the last model asked. Each change to another model writes
// one info line to ctx's logger; Response.Model is the one that answered.
func (f *Fallback) Complete(ctx context.Context, req *Request) (*Response, error) {
	for i := range f.links {
		l := &f.links[i]
		if !l.breaker.allows() {
			f.log(ctx, i, "circuit_open", 0)
			continue
		}
		answer, err := l.complete(ctx, req)
		if l.breaker.record(ctx, err) {
			zerolog.Ctx(ctx).Warn().Str("model", l.Name).Int("failures", l.breaker.failures).Msg("model left out for a while")
		}
		fault, ok := errors.AsType[*Error](err)
		if !ok || ctx.Err() != nil || !fault.elsewhere() {
			return answer, err
		}
		f.log(ctx, i, fault.Kind.String(), fault.Status)
	}
	return f.last.complete(ctx, req)
}

func (f *Fallback) log(ctx context.Context, from int, reason string, status int) {
	next := f.last.Name
	if from+1 < len(f.links) {
		next = f.links[from+1].Name
	}
	e := zerolog.Ctx(ctx).Info().Str("model", f.links[from].Name).Str("next", next).Str("reason", reason)
	if status != 0 {
		e = e.Int("status", status)
	}
	e.Msg("model gives way to the next")
}

// complete asks the model with its own parameters.
func (l *Link) complete(ctx context.Context, req *Request) (*Response, error) {
	if l.MaxTokens != 0 || l.Temperature != nil {
		own := *req
		if l.MaxTokens != 0 {
			own.MaxTokens = l.MaxTokens
		}
		if l.Temperature != nil {
			own.Temperature = l.Temperature
		}
		req = &own
	}
	return l.Model.Complete(ctx, req)
}
