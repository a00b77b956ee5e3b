package models_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/models"
)

// embeddings is a server whose vectors have their text's length in front, and are in reverse order. Of
// what it is asked it ignores the dimensions, if it has some of its own.
type embeddings struct {
	own    int
	refuse bool // to choose dimensions
	faults []int
	asked  []int // texts of the requests
	path   string
	header http.Header
}

func (s *embeddings) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Input      []string
		Model      string
		Dimensions int
	}
	raw, _ := io.ReadAll(r.Body)
	if json.Unmarshal(raw, &in) != nil || slices.Contains(in.Input, "") {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.path, s.header = r.URL.String(), r.Header
	s.asked = append(s.asked, len(in.Input))
	if len(s.faults) > 0 {
		status := s.faults[0]
		s.faults = s.faults[1:]
		w.Header().Set("Retry-After-Ms", "1")
		w.WriteHeader(status)
		return
	}
	if s.refuse && in.Dimensions > 0 {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"This model does not support specifying dimensions."}}`)
		return
	}
	var data []map[string]any
	for i, text := range in.Input {
		vector := make([]float32, max(s.own, in.Dimensions*min(1, 1-min(s.own, 1))))
		vector[0] = float32(len(text))
		data = append(data, map[string]any{"object": "embedding", "index": i, "embedding": vector})
	}
	slices.Reverse(data)
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data, "model": in.Model, "usage": map[string]int{"prompt_tokens": 3, "total_tokens": 3}})
}

func embedder(t *testing.T, s http.Handler, edit func(*models.EmbedderConfig, string)) *models.Embedder {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	pool := &http.Transport{}
	t.Cleanup(pool.CloseIdleConnections)
	cfg := models.EmbedderConfig{Server: models.OpenAIConfig{Key: testKey, BaseURL: server.URL + "/v1", Model: "small", Transport: pool}, Dimensions: 8}
	if edit != nil {
		edit(&cfg, server.URL)
	}
	e, err := models.NewEmbedder(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEmbed(t *testing.T) {
	t.Parallel()
	s := &embeddings{}
	e := embedder(t, s, nil)
	texts := make([]string, 600)
	for i := range texts {
		texts[i] = strings.Repeat("x", i+1)
	}
	vectors, err := e.Embed(t.Context(), texts)
	if err != nil || len(vectors) != 600 || fmt.Sprint(s.asked) != "[256 256 88]" {
		t.Fatalf("%d vectors, %v, requests %v", len(vectors), err, s.asked)
	}
	for i, v := range vectors {
		if len(v) != 8 || v[0] != float32(i+1) {
			t.Fatalf("text %d has %v", i, v)
		}
	}
	if e.Model() != "small" || e.Dimensions() != 8 || s.path != "/v1/embeddings" || s.header.Get("Authorization") != "Bearer "+testKey {
		t.Errorf("%s %d %s %v", e.Model(), e.Dimensions(), s.path, s.header)
	}
	if _, err := e.Embed(t.Context(), []string{"a", " "}); err == nil || !strings.Contains(err.Error(), "text 2 is empty") {
		t.Errorf("%v", err)
	}
}

// TestEmbedAgain: the rules of chat calls hold for retries.
func TestEmbedAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		faults []int
		asked  int
		kind   string
	}{
		{[]int{429, 503}, 3, ""}, {[]int{500, 500, 500, 500, 500}, 4, models.Unavailable}, {[]int{401}, 1, models.Auth}, {[]int{400}, 1, models.BadRequest},
	} {
		s := &embeddings{faults: tt.faults}
		_, err := embedder(t, s, nil).Embed(t.Context(), []string{"a"})
		kind := ""
		if fault, ok := errors.AsType[*models.Error](err); ok {
			kind = fault.Kind
		}
		if len(s.asked) != tt.asked || kind != tt.kind {
			t.Errorf("%v: asked %d times, %v", tt.faults, len(s.asked), err)
		}
		if err != nil && strings.Contains(err.Error(), testKey) {
			t.Error(err)
		}
	}
}

// TestEmbedLength: a server that ignores the dimensions is found out, and one that refuses them may have the
// right ones.
func TestEmbedLength(t *testing.T) {
	t.Parallel()
	_, err := embedder(t, &embeddings{own: 16}, nil).Embed(t.Context(), []string{"a"})
	if err == nil || !strings.Contains(err.Error(), "a vector of small has 16 dimensions, want 8") {
		t.Errorf("%v", err)
	}
	s := &embeddings{own: 8, refuse: true}
	e := embedder(t, s, nil)
	for range 2 {
		if _, err := e.Embed(t.Context(), []string{"a"}); err != nil {
			t.Error(err)
		}
	}
	if len(s.asked) != 3 {
		t.Errorf("asked %d times", len(s.asked))
	}
	for _, body := range []string{
		`{"data":[]}`, `{"data":[{"index":5,"embedding":[1,2,3,4,5,6,7,8]}]}`, `{"data":[{"index":0,"embedding":[1e99,2,3,4,5,6,7,8]}]}`, `{"data":7}`, `[]`, `nothing`,
	} {
		if v, err := embedder(t, answer(200, body), nil).Embed(t.Context(), []string{"a"}); err == nil {
			t.Errorf("%s: %v", body, v)
		}
	}
}

// TestEmbedNoNumbers: what is no number in a vector is a fault that names the text, and no 0.
func TestEmbedNoNumbers(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"null", `"0.5"`, "true", "{}", "[1]"} {
		body := fmt.Sprintf(`{"data":[{"index":0,"embedding":[1,2,3,4,5,6,7,8]},{"index":1,"embedding":[1,2,3,%s,5,6,7,8]}]}`, value)
		_, err := embedder(t, answer(200, body), nil).Embed(t.Context(), []string{"a", "b"})
		if err == nil || value != "[1]" && !strings.Contains(err.Error(), "the vector of text 2 has something that is no number") {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestEmbedAzure(t *testing.T) {
	t.Parallel()
	s := &embeddings{}
	e := embedder(t, s, func(cfg *models.EmbedderConfig, url string) {
		cfg.Server = models.OpenAIConfig{AzureEndpoint: url, AzureKey: "k", AzureDeployment: "emb", Transport: cfg.Server.Transport}
	})
	if _, err := e.Embed(t.Context(), []string{"a"}); err != nil || e.Model() != "emb" || s.header.Get("Api-Key") != "k" ||
		s.path != "/openai/deployments/emb/embeddings?api-version=2024-10-21" {
		t.Errorf("%v %s %v", err, s.path, s.header)
	}
}

func TestEmbedEndsWithItsContext(t *testing.T) {
	t.Parallel()
	var asked atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Store(true)
		_, _ = io.ReadAll(r.Body)
		cancel()
		<-r.Context().Done()
	})
	if _, err := embedder(t, hangs, nil).Embed(ctx, []string{"a"}); !errors.Is(err, context.Canceled) || !asked.Load() {
		t.Errorf("%v", err)
	}
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		<-r.Context().Done()
	})
	_, err := embedder(t, slow, func(cfg *models.EmbedderConfig, _ string) { cfg.Server.Timeout = 50 * time.Millisecond }).Embed(t.Context(), []string{"a"})
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Timeout {
		t.Errorf("%v", err)
	}
}

func TestEmbedderConfig(t *testing.T) {
	t.Parallel()
	_, err := models.NewEmbedder(models.EmbedderConfig{Dimensions: 100_000, Server: models.OpenAIConfig{BaseURL: "x"}})
	for _, want := range []string{"Dimensions: 100000 is not from 1 to 4096", "no Model", "BaseURL: not an absolute"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func ExampleNewEmbedder() {
	server := httptest.NewServer(&embeddings{})
	defer server.Close()
	e, err := models.NewEmbedder(models.EmbedderConfig{Server: models.OpenAIConfig{BaseURL: server.URL + "/v1", Model: "nomic-embed-text"}, Dimensions: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	vectors, err := e.Embed(context.Background(), []string{"leave", "sick"})
	fmt.Println(vectors, err)
	// Output: [[5 0 0] [4 0 0]] <nil>
}
