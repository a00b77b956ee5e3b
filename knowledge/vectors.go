package knowledge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Embedder turns texts into vectors of a model. Several goroutines may call it at once.
type Embedder interface {
	// Model names the model and whatever else decides about its vectors. Vectors of two names are
	// never compared.
	Model() string
	// Dimensions is the length of each vector.
	Dimensions() int
	// Embed returns a vector for each text, in order. It gets at most 256 texts, none of them empty,
	// and must return when ctx ends.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

const embedBatch = 256

// embed returns a vector of length 1 for each text.
func embed(ctx context.Context, e Embedder, texts []string) ([][]float32, error) {
	var all [][]float32
	for batch := range slices.Chunk(texts, embedBatch) {
		vectors, err := e.Embed(ctx, batch)
		if err != nil {
			return nil, fmt.Errorf("embed %d texts with %s: %w", len(batch), e.Model(), err)
		}
		if len(vectors) != len(batch) {
			return nil, fmt.Errorf("embed with %s: got %d vectors for %d texts", e.Model(), len(vectors), len(batch))
		}
		for _, v := range vectors {
			if len(v) != e.Dimensions() {
				return nil, fmt.Errorf("embed with %s: a vector has %d dimensions, want %d; the server may ignore the setting", e.Model(), len(v), e.Dimensions())
			}
			v = slices.Clone(v)
			if err := normalize(v); err != nil {
				return nil, fmt.Errorf("embed with %s: %w", e.Model(), err)
			}
			all = append(all, v)
		}
	}
	return all, nil
}

// normalize makes the length of v 1.
func normalize(v []float32) error {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if !(sum > 0) || math.IsInf(sum, 0) { // NaN is not more than 0
		return errors.New("a vector is zero, infinite or no number")
	}
	length := math.Sqrt(sum)
	for i := range v {
		v[i] = float32(float64(v[i]) / length)
	}
	return nil
}

// cosines compares the query with each vector for which among returns true; the others have 0. All vectors have
// length 1 and lie one after another.
func cosines(vectors, query []float32, among func(int) bool) []float64 {
	n := len(query)
	scores := make([]float64, len(vectors)/n)
	for i := range scores {
		if !among(i) {
			continue
		}
		v := vectors[i*n : i*n+n : i*n+n]
		var a, b, c, d float32
		j := 0
		for ; j+4 <= len(v) && j+4 <= len(query); j += 4 {
			a += v[j] * query[j]
			b += v[j+1] * query[j+1]
			c += v[j+2] * query[j+2]
			d += v[j+3] * query[j+3]
		}
		for ; j < len(v); j++ {
			a += v[j] * query[j]
		}
		scores[i] = float64(a + b + c + d)
	}
	return scores
}

// ranked is something in a list, with its score there.
type ranked[ID cmp.Ordered] struct {
	id    ID
	score float64
}

// fuse ranks what several lists rank: the sum of 1/(60+rank), and of equals by id.
func fuse[ID cmp.Ordered](lists ...[]ID) []ranked[ID] {
	scores := map[ID]float64{}
	for _, list := range lists {
		for i, id := range list {
			scores[id] += 1 / float64(60+i+1)
		}
	}
	var all []ranked[ID]
	for id, score := range scores {
		all = append(all, ranked[ID]{id, score})
	}
	slices.SortFunc(all, func(a, b ranked[ID]) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id)) })
	return all
}
