// Package retrieval measures how well documents answer questions: whether the right passage is found, and
// whether a model cites it.
package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/knowledge"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/state"
)

// Set is questions about a folder of documents.
type Set struct {
	// Documents is the folder. In a file it is relative to it.
	Documents string     `yaml:"documents"`
	Questions []Question `yaml:"questions"`
}

// Question is one question. Find is the passage that answers it: a document, and after # the heading.
type Question struct {
	Lang string `yaml:"lang"`
	Ask  string `yaml:"ask"`
	Find string `yaml:"find"`
}

// IsSet reports whether a YAML file has questions, not utterances to plan for.
func IsSet(text []byte) bool { return regexp.MustCompile(`(?m)^questions:`).Match(text) }

// Read reads a file with that name and text. The error lists every fault.
func Read(name string, text []byte) (*Set, error) {
	var s Set
	if err := yaml.UnmarshalWithOptions(text, &s, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var faults []error
	if s.Documents == "" {
		faults = append(faults, fmt.Errorf("%s: documents: name their folder", name))
	}
	if len(s.Questions) == 0 {
		faults = append(faults, fmt.Errorf("%s: there are no questions", name))
	}
	for i, q := range s.Questions {
		if q.Ask == "" || !strings.Contains(q.Find, "#") {
			faults = append(faults, fmt.Errorf("%s: question %d: needs ask, and find such as leave.md#Vacation", name, i+1))
		}
	}
	s.Documents = filepath.Join(filepath.Dir(name), s.Documents)
	return &s, errors.Join(faults...)
}

// Score is what came of some questions. The zero value is that of none.
type Score struct {
	Questions int     `json:"questions"`
	Recall    float64 `json:"recallAt5"` // share with the right passage among the first five
	NDCG      float64 `json:"ndcgAt5"`   // 1 if it always comes first
	Cited     float64 `json:"cited"`     // share of the answers that cite the right passage
	Precision float64 `json:"precision"` // share of the citations that are of the right passage
}

// Report is what an evaluation has found.
type Report struct {
	All      Score            `json:"all"`
	Lang     map[string]Score `json:"languages"`
	Missed   []Question       `json:"missed"`   // the right passage is not among the first five
	Miscited []Question       `json:"miscited"` // the answer does not cite the right passage
	Search   time.Duration    `json:"-"`        // median time of a search
	Usage    models.Usage     `json:"usage"`
}

const (
	found       = 5
	answerTime  = 2 * time.Minute
	instruction = "You answer questions from passages of documents, briefly, in the language of the question. " +
		"Write the mark of a passage, such as [1], behind what it supports."
)

// Run puts the documents into an index of its own, asks all questions and has the model answer them. The
// embedder may be nil. It fails if the documents cannot be read, a passage that a question wants is not there,
// or the model cannot be asked.
func Run(ctx context.Context, s *Set, model models.Model, embedder knowledge.Embedder, hybrid bool) (*Report, error) {
	store, err := state.Open(ctx, "", state.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }() // it is forgotten
	cfg := knowledge.IndexConfig{Store: store, Tenant: "evaluation", Hybrid: hybrid, Embedder: embedder}
	index, err := knowledge.NewIndex(cfg)
	if err != nil {
		return nil, err
	}
	const folder = "documents"
	if _, err := index.Add(ctx, knowledge.Folder{Path: s.Documents, Name: folder, Access: []string{knowledge.EveryoneInTenant}}); err != nil {
		return nil, err
	}
	base, err := knowledge.New(knowledge.Config{Sources: []knowledge.NamedSource{{Name: folder, Source: index, Trusted: true}}})
	if err != nil {
		return nil, err
	}
	all, err := index.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, q := range s.Questions {
		document, _, _ := strings.Cut(q.Find, "#")
		if !slices.ContainsFunc(all, func(d knowledge.Document) bool { return d.ID == folder+"/"+document }) {
			return nil, fmt.Errorf("%q wants %s, which is not among the documents", q.Ask, document)
		}
	}
	r := &Report{Lang: map[string]Score{}}
	sums, took := map[string]*sum{"": {}}, []time.Duration{}
	for _, q := range s.Questions {
		turn := turnOf(q.Ask)
		began := time.Now()
		got, err := index.Search(ctx, knowledge.Query{Text: q.Ask, Limit: found, Caller: knowledge.Caller{Tenant: "evaluation", Conversation: "c"}})
		took = append(took, time.Since(began))
		if err != nil {
			return nil, err
		}
		rank := 1 + slices.IndexFunc(got, func(p knowledge.Passage) bool { return q.wants(p, folder) })
		result, err := base.Search(ctx, turn, knowledge.Question{Text: q.Ask})
		if err != nil {
			return nil, err
		}
		cited, right, usage, err := answer(ctx, model, q, result, folder)
		if err != nil {
			return nil, fmt.Errorf("answer %q: %w", q.Ask, err)
		}
		r.Usage = r.Usage.Add(usage)
		if rank == 0 {
			r.Missed = append(r.Missed, q)
		}
		if right == 0 {
			r.Miscited = append(r.Miscited, q)
		}
		if sums[q.Lang] == nil {
			sums[q.Lang] = &sum{}
		}
		sums[""].add(rank, cited, right)
		if q.Lang != "" {
			sums[q.Lang].add(rank, cited, right)
		}
	}
	for lang, one := range sums {
		if r.All = sums[""].score(); lang != "" {
			r.Lang[lang] = one.score()
		}
	}
	slices.Sort(took)
	r.Search = took[len(took)/2]
	return r, nil
}

// sum adds up questions.
type sum struct {
	questions, found, answered, cited, right int
	gain                                     float64
}

func (s *sum) add(rank, cited, right int) {
	s.questions++
	if rank > 0 {
		s.found++
		s.gain += 1 / math.Log2(float64(rank)+1)
	}
	if right > 0 {
		s.answered++
	}
	s.cited, s.right = s.cited+cited, s.right+right
}

func (s *sum) score() Score {
	n := float64(max(s.questions, 1))
	return Score{s.questions, float64(s.found) / n, s.gain / n, float64(s.answered) / n, float64(s.right) / float64(max(s.cited, 1))}
}

// wants reports whether the passage answers the question.
func (q *Question) wants(p knowledge.Passage, folder string) bool {
	document, heading, _ := strings.Cut(q.Find, "#")
	return p.Document == folder+"/"+document && (p.Path == heading || strings.HasSuffix(p.Path, " › "+heading))
}

var mark = regexp.MustCompile(`\[(\d{1,3})\]`)

// answer has the model answer from what was found, and counts its citations and the right ones.
func answer(ctx context.Context, model models.Model, q Question, result knowledge.Found, folder string) (cited, right int, usage models.Usage, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	response, err := model.Complete(ctx, &models.Request{MaxTokens: 1000, Messages: []models.Message{
		{Role: "system", Text: instruction},
		{Role: "user", Text: q.Ask},
		{Role: "system", Text: "Results of the last plan:\n- searchKnowledge: see below"},
		{Role: "user", Text: result.Text},
	}})
	if err != nil {
		return 0, 0, usage, err
	}
	seen := map[string]bool{}
	for _, m := range mark.FindAllStringSubmatch(response.Text, -1) {
		n, _ := strconv.Atoi(m[1]) // digits
		if seen[m[1]] {
			continue
		}
		seen[m[1]] = true
		cited++
		if n >= 1 && n <= len(result.Passages) && q.wants(result.Passages[n-1], folder) {
			right++
		}
	}
	return cited, right, response.Usage, nil
}

func turnOf(said string) *actions.Turn {
	a := &activity.Activity{Type: activity.Message, ChannelID: "console", Text: said}
	a.Conversation.ID, a.ChannelData = "evaluation", []byte(`{"tenant":{"id":"evaluation"}}`)
	temp := state.NewScope()
	return &actions.Turn{ID: "evaluation", Activity: a, Text: said, Conversation: temp, Thread: temp, User: temp, Temp: temp}
}

// String is a table of the scores, and the questions whose passage was not found or not cited.
func (r *Report) String() string {
	var out strings.Builder
	row := func(name string, s Score) {
		fmt.Fprintf(&out, "%-8s %9d %9.3f %9.3f %9.3f %9.3f\n", name, s.Questions, s.Recall, s.NDCG, s.Cited, s.Precision)
	}
	fmt.Fprintf(&out, "%-8s %9s %9s %9s %9s %9s\n", "language", "questions", "recall@5", "nDCG@5", "cited", "precision")
	for _, lang := range slices.Sorted(maps.Keys(r.Lang)) {
		row(lang, r.Lang[lang])
	}
	row("all", r.All)
	for _, q := range r.Missed {
		fmt.Fprintf(&out, "not found: %s (%s)\n", q.Ask, q.Find)
	}
	for _, q := range r.Miscited {
		fmt.Fprintf(&out, "not cited: %s (%s)\n", q.Ask, q.Find)
	}
	fmt.Fprintf(&out, "a search took %s (median)", cmp.Or(r.Search.Round(time.Microsecond), time.Microsecond))
	if n := r.Usage.Total(); n > 0 {
		fmt.Fprintf(&out, "; the answers took %d tokens", n)
	}
	return out.String() + "\n"
}
