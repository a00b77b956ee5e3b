package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/planbot-go/planbot/models/moderation"
)

const (
	openAIURL     = "https://api.openai.com/v1"
	openAIModel   = "omni-moderation-latest"
	authorization = "Authorization"
	maxInputs     = 32 // of one request
)

// openAICategories are those that OpenAI has. It may add some.
var openAICategories = []string{
	"harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent", "self-harm", "self-harm/intent",
	"self-harm/instructions", "sexual", "sexual/minors", "violence", "violence/graphic",
}

// OpenAIConfig says how to ask OpenAI. Key is required, except on this machine; the zero value of
// every other field is a working default.
type OpenAIConfig struct {
	Key   string
	URL   string // up to and excluding /moderations; https, or http on this machine. "": OpenAI's
	Model string // "": omni-moderation-latest
	// Threshold is a score, at most 1, from which a category counts although OpenAI does not flag it.
	// Limits has other thresholds for some categories. 0: only what OpenAI flags counts.
	Threshold float64
	Limits    map[string]float64
	Timeout   time.Duration     // of one of two tries; 0: 3 seconds
	Transport http.RoundTripper // carries the requests; nil: its own connection pool
}

type openAI struct {
	service
	model     string
	threshold float64
	limits    map[string]float64
}

// NewOpenAI returns a moderator that asks OpenAI's moderation endpoint, or a server that answers
// like it. It flags what OpenAI flags and what reaches a threshold of cfg. It judges pictures but
// not documents. The error lists every mistake in cfg. Nothing is asked before Judge.
func NewOpenAI(cfg OpenAIConfig) (moderation.Moderator, error) {
	var faults []error
	s := service{name: "OpenAI", base: cmp.Or(cfg.URL, openAIURL), header: authorization, key: cfg.Key, timeout: cfg.Timeout}
	s = newService(s, cfg.Transport, &faults)
	if s.key != "" {
		s.key = "Bearer " + s.key
	}
	if !(cfg.Threshold >= 0 && cfg.Threshold <= 1) {
		faults = append(faults, fmt.Errorf("Threshold: %v is no score up to 1", cfg.Threshold))
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Limits)) {
		if limit := cfg.Limits[name]; !(limit > 0 && limit <= 1) {
			faults = append(faults, fmt.Errorf("Limits: %v of %.40q is no score above 0 and up to 1", limit, name))
		}
		if !slices.Contains(openAICategories, name) {
			faults = append(faults, fmt.Errorf("Limits: OpenAI has no category %.40q", name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, fmt.Errorf("openai moderation config: %w", err)
	}
	return &openAI{service: s, model: cmp.Or(cfg.Model, openAIModel), threshold: cfg.Threshold, limits: maps.Clone(cfg.Limits)}, nil
}

// Judge is documented at [moderation.Moderator].
func (o *openAI) Judge(ctx context.Context, pieces []moderation.Piece) (moderation.Verdict, error) {
	requests, err := batches(pieces, maxInputs, moderation.Said, moderation.PlannedSay, moderation.PlannedEntity)
	if err != nil {
		return moderation.Verdict{}, o.unjudged(err)
	}
	var asks []ask
	for _, inputs := range requests {
		asks = append(asks, func(ctx context.Context) (moderation.Verdict, error) { return o.ask(ctx, inputs.texts, inputs.pieces) })
	}
	for _, i := range pictures(pieces) { // one in a request is what the endpoint takes
		part := map[string]any{"type": "image_url", "image_url": map[string]string{"url": dataURL(pieces[i].Picture)}}
		asks = append(asks, func(ctx context.Context) (moderation.Verdict, error) { return o.ask(ctx, []any{part}, []int{i}) })
	}
	return o.judge(ctx, asks)
}

// openAIResult is the verdict about one input.
type openAIResult struct {
	Flagged    *bool              `json:"flagged"`
	Categories map[string]bool    `json:"categories"`
	Scores     map[string]float64 `json:"category_scores"`
}

// ask asks about inputs, which are of these pieces.
func (o *openAI) ask(ctx context.Context, inputs any, pieces []int) (v moderation.Verdict, err error) {
	var answer struct {
		Results []openAIResult `json:"results"`
	}
	if err := o.post(ctx, "/moderations", map[string]any{"model": o.model, "input": inputs}, &answer); err != nil {
		return moderation.Verdict{}, err
	}
	if len(answer.Results) != len(pieces) {
		return moderation.Verdict{}, fmt.Errorf("the answer has %d results for %d texts or pictures", len(answer.Results), len(pieces))
	}
	for i, result := range answer.Results {
		if result.Flagged == nil {
			return moderation.Verdict{}, errors.New("a result of the answer does not say whether it is flagged")
		}
		if len(result.Scores) == 0 && !*result.Flagged && (o.threshold > 0 || len(o.limits) > 0) {
			return moderation.Verdict{}, errors.New("a result of the answer has no scores, and thresholds are set")
		}
		if found := o.found(result); len(found) > 0 {
			v.Categories, v.Pieces = append(v.Categories, found...), append(v.Pieces, pieces[i])
		}
	}
	return v, nil
}

func (o *openAI) found(r openAIResult) (all []string) {
	for name, is := range r.Categories {
		if is && (*r.Flagged || slices.Contains(openAICategories, name)) {
			all = append(all, category(name))
		}
	}
	for name, score := range r.Scores {
		if limit := cmp.Or(o.limits[name], o.threshold); limit > 0 && score >= limit {
			all = append(all, category(name))
		}
	}
	if *r.Flagged && len(all) == 0 {
		all = append(all, other)
	}
	return all
}
