package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// maxTokens is enough for any plan of these actions; what is longer runs in circles.
const maxTokens = 300

// greedy is as good as zero: the likeliest token each time.
const greedy = 1e-6

// cell is one way to ask all the utterances.
type cell struct {
	name        string
	teams       bool // the prompt of Teams AI in place of ours
	format      planner.ResponseFormat
	history     bool // behind earlier turns
	clock       bool // with the line of our planner that says what time it is
	temperature float64
}

var cells = []cell{
	{name: "ours, schema", format: planner.JSONSchema, clock: true, temperature: greedy},
	{name: "ours", format: planner.PlainText, clock: true, temperature: greedy},
	{name: "Teams AI's", format: planner.PlainText, teams: true, temperature: greedy},
	{name: "ours, schema, earlier turns", format: planner.JSONSchema, history: true, clock: true, temperature: greedy},
	{name: "ours, earlier turns", format: planner.PlainText, history: true, clock: true, temperature: greedy},
	{name: "ours without the clock, earlier turns", format: planner.PlainText, history: true, temperature: greedy},
	{name: "Teams AI's, earlier turns", format: planner.PlainText, history: true, teams: true, temperature: greedy},
	{name: "Teams AI's with our clock, earlier turns", format: planner.PlainText, history: true, teams: true, clock: true, temperature: greedy},
}

// hotCells are for the decoder: the model is let loose.
var hotCells = []cell{
	{name: "ours without the clock, earlier turns, temperature 1", format: planner.PlainText, history: true, temperature: 1},
	{name: "Teams AI's, earlier turns, temperature 1", format: planner.PlainText, history: true, teams: true, temperature: 1},
	{name: "Teams AI's, json_object, temperature 1", format: planner.JSONObject, teams: true, temperature: 1},
}

// judgePlans asks every utterance in every cell, prints the tables and returns how
// many checks failed.
func (b *bench) judgePlans(ctx context.Context) (failed int, err error) {
	said, err := utterances()
	if err != nil {
		return 0, err
	}
	out := io.Discard
	if b.answers != "" {
		f, err := os.Create(b.answers)
		if err != nil {
			return 0, err
		}
		defer f.Close() //nolint:errcheck // a log for people; the figures are printed
		out = f
	}
	var tallies []*tally
	asked := cells
	if b.hot {
		asked = hotCells
	}
	for i := range asked {
		t, err := b.judgeCell(ctx, &asked[i], said, json.NewEncoder(out))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", asked[i].name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %d turns in %s\n", t.cell.name, t.asked, t.took.Round(time.Second))
		tallies = append(tallies, t)
	}
	printPlans(os.Stdout, tallies)
	return checkPlans(os.Stdout, tallies), nil
}

func (b *bench) judgeCell(ctx context.Context, c *cell, said []utterance, out *json.Encoder) (*tally, error) {
	reg := actions.New()
	lists.Register(reg)
	model, err := b.newModel()
	if err != nil {
		return nil, err
	}
	defer model.Close() //nolint:errcheck // never fails
	ear := &listener{model: model, cell: c}
	sequence, err := newSequence(ctx, c, ear, reg)
	if err != nil {
		return nil, err
	}
	t := &tally{cell: c}
	start := time.Now()
	for _, u := range said {
		ear.answers = nil
		p, err := sequence.Plan(ctx, turnOf(u.Text, c))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		t.count(u, p, err, ear.answers, reg)
		if err := out.Encode(map[string]any{"cell": c.name, "said": u.Text, "answers": ear.answers, "plan": p, "fault": text(err)}); err != nil {
			return nil, err
		}
	}
	t.took = time.Since(start)
	return t, nil
}

func newSequence(ctx context.Context, c *cell, model models.Model, reg *actions.Registry) (*planner.Sequence, error) {
	load := func() (*prompts.Library, error) { return prompts.Load("") }
	if c.teams {
		load = func() (*prompts.Library, error) { return teamsPrompts(reg) }
	}
	library, err := load()
	if err != nil {
		return nil, err
	}
	return planner.NewSequence(ctx, planner.SequenceConfig{
		Model: model, Prompts: library, Actions: reg, MaxTokens: maxTokens, ResponseFormat: c.format,
	})
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// kindOf names why an answer is no plan that may run.
func kindOf(err error) string {
	if fault, ok := errors.AsType[*plan.Fault](err); ok {
		return string(fault.Kind)
	}
	return "no answer"
}
