package models

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sashabaranov/go-openai"
)

const (
	defaultDimensions = 512
	maxDimensions     = 4096
	maxEmbedded       = 256 // texts of a request
	// maxNumbers limits the numbers of an answer, so that it stays below maxAnswerBytes even where each is
	// written with 17 digits on a line of its own.
	maxNumbers = 250_000
)

// EmbedderConfig configures an [Embedder]. Server.Model is required, on Azure Server.AzureDeployment; the
// zero value of every other field is a working default.
type EmbedderConfig struct {
	// Server says which embedding model to ask. What is only for answers in words has no effect.
	Server OpenAIConfig
	// Dimensions is the length of the vectors. A server that cannot choose it has to have this one.
	// 0: 512.
	Dimensions int
	Retries    int           // as in [Chain]
	MaxWait    time.Duration // as in [Chain]
}

// Embedder turns texts into vectors, so that texts of like meaning can be found. It may be used
// concurrently.
type Embedder struct {
	cfg   EmbedderConfig
	on    *openAI
	fixed atomic.Bool // the server has refused to choose the length
}

// NewEmbedder returns an Embedder that uses the embeddings API of OpenAI, Azure OpenAI or a compatible
// server. It checks all of cfg, lists every mistake in one error, and does not touch the network.
func NewEmbedder(cfg EmbedderConfig) (*Embedder, error) {
	cfg.Dimensions = cmp.Or(cfg.Dimensions, defaultDimensions)
	var errs []error
	if cfg.Dimensions < 1 || cfg.Dimensions > maxDimensions {
		errs = append(errs, fmt.Errorf("Dimensions: %d is not from 1 to %d", cfg.Dimensions, maxDimensions))
	}
	if cfg.Server.Model == "" && cfg.Server.AzureEndpoint == "" {
		errs = append(errs, errors.New("no Model"))
	}
	model, err := NewOpenAI(cfg.Server)
	if err != nil {
		errs = append(errs, errors.Unwrap(err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("embedder config: %w", err)
	}
	return &Embedder{cfg: cfg, on: model.(*openAI)}, nil
}

// Model names the model.
func (e *Embedder) Model() string { return e.on.cfg.Model }

// Dimensions is the length of each vector.
func (e *Embedder) Dimensions() int { return e.cfg.Dimensions }

// Embed returns a vector for each text, in order. It asks the server for at most 256 texts at a time, with the
// retries of [Chain.Complete]. It fails with an [*Error], also if a vector has another length or is no
// numbers, or with the error of ctx.
func (e *Embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	if i := slices.IndexFunc(texts, func(text string) bool { return strings.TrimSpace(text) == "" }); i >= 0 {
		return nil, &Error{Kind: BadRequest, Err: fmt.Errorf("text %d is empty, which has no vector", i+1)}
	}
	var all [][]float32
	for batch := range slices.Chunk(texts, max(1, min(maxEmbedded, maxNumbers/e.cfg.Dimensions))) {
		vectors, err := again(ctx, e.Model(), cmp.Or(e.cfg.Retries, defaultRetries), cmp.Or(e.cfg.MaxWait, defaultMaxWait), func() ([][]float32, error) {
			return e.ask(ctx, batch)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, vectors...)
	}
	return all, nil
}

// ask makes one call, or two if the server refuses to choose the length of vectors.
func (e *Embedder) ask(ctx context.Context, texts []string) ([][]float32, error) {
	began := time.Now()
	call, cancel := context.WithTimeout(ctx, e.on.cfg.Timeout)
	defer cancel()
	request := openai.EmbeddingRequest{Input: texts, Model: openai.EmbeddingModel(e.Model()), EncodingFormat: openai.EmbeddingEncodingFormatFloat}
	if !e.fixed.Load() {
		request.Dimensions = e.cfg.Dimensions
	}
	answer, err := e.on.client.CreateEmbeddings(call, request)
	fault, ok := errors.AsType[*Error](err)
	if ok && fault.Kind == BadRequest && request.Dimensions > 0 && strings.Contains(strings.ToLower(fault.Said), "dimension") {
		request.Dimensions = 0
		if answer, err = e.on.client.CreateEmbeddings(call, request); err == nil {
			e.fixed.Store(true)
		}
	}
	var vectors [][]float32
	if err == nil {
		vectors, err = e.read(&answer, len(texts))
	}
	if err != nil {
		err = e.on.failed(ctx, "embed", err)
	}
	e.on.ended(ctx, err, time.Since(began)).Int("texts", len(texts)).Int("tokens", answer.Usage.PromptTokens).Msg("embedding call")
	return vectors, err
}

// read checks an answer. Servers send vectors in any order.
func (e *Embedder) read(answer *openai.EmbeddingResponse, n int) ([][]float32, error) {
	wrong := func(format string, args ...any) error {
		return &Error{Kind: Unavailable, Status: 200, Code: codeMalformed, Err: fmt.Errorf(format, args...)}
	}
	if len(answer.Data) != n {
		return nil, wrong("got %d vectors for %d texts", len(answer.Data), n)
	}
	vectors := make([][]float32, n)
	for _, d := range answer.Data {
		switch {
		case d.Index < 0 || d.Index >= n || vectors[d.Index] != nil:
			return nil, wrong("the vectors are not numbered from 0 to %d", n-1)
		case len(d.Embedding) != e.cfg.Dimensions:
			return nil, wrong("a vector of %s has %d dimensions, want %d: configure those, or a model that can have these", e.Model(), len(d.Embedding), e.cfg.Dimensions)
		case slices.ContainsFunc(d.Embedding, func(x float32) bool { return math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) }):
			return nil, wrong("a vector has something that is no number")
		}
		vectors[d.Index] = d.Embedding
	}
	return vectors, nil
}

// checkVectors looks for what is no number in the vectors of an answer: the library would make 0 of a null.
func checkVectors(body []byte) error {
	var answer struct {
		Data []struct {
			Index     int             `json:"index"`
			Embedding json.RawMessage `json:"embedding"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil //nolint:nilerr // it is no answer with vectors, and its reader says so
	}
	for _, d := range answer.Data {
		if bytes.ContainsAny(d.Embedding, `ntf"{`) { // null, true, false, a text, an object
			return &Error{Kind: Unavailable, Status: 200, Code: codeMalformed, Err: fmt.Errorf("the vector of text %d has something that is no number", d.Index+1)}
		}
	}
	return nil
}
