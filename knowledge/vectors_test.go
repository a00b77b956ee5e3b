package knowledge_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/knowledge"
)

// embedder counts letters, or returns what it is told to.
type embedder struct {
	model      string
	dimensions int
	returns    map[string][]float32 // nil: counts of letters
	hook       func()               // before it answers
	calls      int
	batches    []int
}

func (e *embedder) Model() string   { return e.model }
func (e *embedder) Dimensions() int { return e.dimensions }

// quiet is e without its hook.
func (e *embedder) quiet() *embedder {
	return &embedder{model: e.model, dimensions: e.dimensions, returns: e.returns}
}

func (e *embedder) Embed(_ context.Context, texts []string) ([][]float32, error) {
	e.calls++
	e.batches = append(e.batches, len(texts))
	if hook := e.hook; hook != nil {
		e.hook = nil
		hook()
	}
	var all [][]float32
	for _, text := range texts {
		v := e.returns[text]
		if e.returns == nil {
			v = make([]float32, e.dimensions)
			for _, r := range strings.ToLower(text) {
				if r >= 'a' && r <= 'z' {
					v[r-'a']++
				}
			}
		}
		all = append(all, v)
	}
	return all, nil
}

func TestFuse(t *testing.T) {
	t.Parallel()
	type ranked = knowledge.Ranked
	for _, tt := range []struct {
		lists [][]string
		want  []ranked
	}{
		{[][]string{{"a", "b", "c"}, {"c", "a", "d"}}, []ranked{{"a", 0.03252}, {"c", 0.03227}, {"b", 0.01613}, {"d", 0.01587}}},
		{[][]string{{"x", "y"}, {"z"}}, []ranked{{"x", 0.01639}, {"z", 0.01639}, {"y", 0.01613}}},
		{nil, nil},
	} {
		got := knowledge.Fuse(tt.lists...)
		for i := range got {
			got[i].Score = math.Round(got[i].Score*1e5) / 1e5
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestVectors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := &embedder{model: "A", dimensions: 3, returns: map[string][]float32{
		"ta": {2, 0, 0}, "tb": {.8, .6, 0}, "tc": {0, 1, 0}, "td": {-1, 0, 0}, "te": {.6, .8, 0},
		"question": {5, 0, 0}, "zero": {0, 0, 0}, "nan": {float32(math.NaN()), 0, 0}, "infinite": {float32(math.Inf(1)), 0, 0}, "long": {1, 0, 0, 0},
	}}
	b.Index = b.index(knowledge.IndexConfig{Embedder: e, Floor: -1})
	b.add(map[string]string{"a.txt": "ta", "b.txt": "tb", "c.txt": "tc", "d.txt": "td", "e.txt": "te"})
	search := func(x *knowledge.Index, text string, limit int) (string, []float64, error) {
		passages, err := x.Search(t.Context(), knowledge.Query{Text: text, Caller: everyone, Limit: limit})
		ids, scores := "", []float64{}
		for _, p := range passages {
			ids, scores = ids+p.Text[1:], append(scores, math.Round(p.Score*1e4)/1e4)
		}
		return ids, scores, err
	}
	ids, scores, err := search(b.Index, "question", 3)
	if diff := cmp.Diff([]float64{1, .8, .6}, scores); ids != "abe" || diff != "" || err != nil {
		t.Error(ids, err, diff)
	}
	if ids, _, err := search(b.Index, "question", 10); ids != "abecd" || err != nil {
		t.Errorf("limit 10: %s, %v", ids, err)
	}
	if ids, _, err := search(b.index(knowledge.IndexConfig{Embedder: e}), "question", 10); ids != "abe" || err != nil {
		t.Errorf("above the floor: %s, %v", ids, err)
	}
	for _, bad := range []string{"zero", "nan", "infinite", "long"} {
		if ids, _, err := search(b.Index, bad, 3); ids != "" || err == nil {
			t.Errorf("%s: %s, %v", bad, ids, err)
		}
	}
	hybrid := b.index(knowledge.IndexConfig{Embedder: e, Hybrid: true})
	e.returns["question tc"] = []float32{1, 0, 0}
	if ids, scores, err := search(hybrid, "question tc", 10); ids != "acbe" || err != nil || scores[0] != .0164 {
		t.Errorf("hybrid: %s %v, %v", ids, scores, err)
	}
	if _, _, err := search(b.index(knowledge.IndexConfig{Embedder: &embedder{model: "B", dimensions: 3}}), "question", 3); !errors.Is(err, knowledge.ErrModel) ||
		!strings.Contains(err.Error(), "A with 3") || !strings.Contains(err.Error(), "B with 3") {
		t.Errorf("another model: %v", err)
	}
	if ids, _, err := search(b.index(knowledge.IndexConfig{}), "te", 3); ids != "e" || err != nil {
		t.Errorf("without an embedder: %s, %v", ids, err)
	}
}

// TestVectorsOfTheWrongLength: a server that ignores the setting is found out in the first batch.
func TestVectorsOfTheWrongLength(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.add(map[string]string{"a.txt": "apples"})
	many := map[string]string{}
	returns := map[string][]float32{}
	for i := range 300 {
		text := "t" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		many[text+".txt"], returns[text] = text, make([]float32, 1536)
		returns[text][0] = 1
	}
	returns["apples"] = returns["taa"]
	b.files(many)
	e := &embedder{model: "A", dimensions: 256, returns: returns}
	if _, err := b.index(knowledge.IndexConfig{Embedder: e}).Add(t.Context(), b.folder()); err == nil || !strings.Contains(err.Error(), "1536 dimensions, want 256") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]int{256}, e.batches); diff != "" {
		t.Error(diff)
	}
	if got := b.found(everyone, "apples taa"); got != "a.txt#1" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestBestPassageDecides: a long document with one right passage comes before a short one that is half
// right.
func TestBestPassageDecides(t *testing.T) {
	t.Parallel()
	b := setup(t)
	e := &embedder{model: "A", dimensions: 2, returns: map[string][]float32{"question": {1, 0}}}
	for text, cosine := range map[string]float64{"A\n\nright": .9, "B\n\nwrong": .1, "C\n\nwrong too": .1, "D\n\nhalf": .5, "E\n\nhalf too": .5} {
		e.returns[text] = []float32{float32(cosine), float32(math.Sqrt(1 - cosine*cosine))}
	}
	b.Index = b.index(knowledge.IndexConfig{Embedder: e, Floor: -1})
	b.add(map[string]string{"long.md": "# A\n\nright\n\n# B\n\nwrong\n\n# C\n\nwrong too", "short.md": "# D\n\nhalf\n\n# E\n\nhalf too"})
	if got := b.found(everyone, "question"); got != "long.md#1 short.md#1 short.md#2 long.md#2 long.md#3" {
		t.Errorf("found %s", got)
	}
}
