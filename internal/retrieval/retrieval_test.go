package retrieval_test

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/retrieval"
	"github.com/planbot-go/planbot/models"
)

const handbook = "../../examples/handbook/questions.yaml"

func load(t *testing.T) *retrieval.Set {
	t.Helper()
	text, err := os.ReadFile(handbook)
	if err != nil {
		t.Fatal(err)
	}
	if !retrieval.IsSet(text) {
		t.Fatal("these are no questions")
	}
	set, err := retrieval.Read(handbook, text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestHandbook: fifty questions in four languages, by words alone.
func TestHandbook(t *testing.T) {
	t.Parallel()
	r, err := retrieval.Run(t.Context(), load(t), models.Offline{}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if r.All.Questions != 50 || len(r.Lang) != 4 || r.All.Recall < 0.9 || r.All.NDCG < 0.8 || r.All.Cited < 0.75 {
		t.Errorf("%s", r)
	}
	if r.All.Recall < r.All.Cited || r.All.NDCG > r.All.Recall || len(r.Missed) > len(r.Miscited) {
		t.Errorf("the figures contradict each other: %+v", r.All)
	}
}

// says is a model that always writes the same.
type says string

func (s says) Complete(context.Context, *models.Request) (*models.Response, error) {
	if s == "" {
		return nil, errors.New("no model")
	}
	return &models.Response{Text: string(s), Usage: models.Usage{Prompt: 3}}, nil
}

func TestScore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"a.md": "# A\n\nred apples grow here", "b.md": "# B\n\nred\n\n## Two\n\nblue plums"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	set := &retrieval.Set{Documents: dir, Questions: []retrieval.Question{
		{Lang: "en", Ask: "apples", Find: "a.md#A"}, {Lang: "en", Ask: "red", Find: "a.md#A"}, {Lang: "de", Ask: "pears", Find: "b.md#Two"},
	}}
	r, err := retrieval.Run(t.Context(), set, says("[1] and [1] and [9]"), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	// found: first, second, not. Cited: 1 of [1] [9], 0 of two, 0 of two.
	want := retrieval.Score{Questions: 3, Recall: 2.0 / 3, NDCG: (1 + 0.6309297535714575) / 3, Cited: 1.0 / 3, Precision: 1.0 / 6}
	if got := r.All; math.Abs(got.NDCG-want.NDCG) > 1e-9 {
		t.Errorf("%+v, want %+v", r.All, want)
	}
	if r.All.NDCG = want.NDCG; r.All != want || r.Lang["de"].Recall != 0 || r.Lang["en"].Recall != 1 || r.Usage.Prompt != 9 {
		t.Errorf("%+v, want %+v", r.All, want)
	}
	if text := r.String(); !strings.Contains(text, "not found: pears (b.md#Two)") || !strings.Contains(text, "not cited: red (a.md#A)") {
		t.Error(text)
	}
	if _, err := retrieval.Run(t.Context(), set, says(""), nil, false); err == nil {
		t.Error("a model that cannot be asked")
	}
	set.Questions[0].Find = "c.md#A"
	if _, err := retrieval.Run(t.Context(), set, says("x"), nil, false); err == nil || !strings.Contains(err.Error(), "c.md, which is not among") {
		t.Errorf("%v", err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"questions: []":                            "documents: name their folder\nq.yaml: there are no questions",
		"documents: d\nquestions: [{ask: x}]":      "question 1: needs ask, and find",
		"documents: d\nquestions: [{question: x}]": "unknown field",
	} {
		if _, err := retrieval.Read("q.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if retrieval.IsSet([]byte("cases:\n  - say: x")) {
		t.Error("cases are no questions")
	}
}
