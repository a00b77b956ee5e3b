package planner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// invoice is what a model is asked for.
type invoice struct {
	Number string    `json:"number"`
	Kind   string    `json:"kind" enum:"bill,refund"`
	Total  float64   `json:"total"`
	Lines  []line    `json:"lines"`
	Due    time.Time `json:"due,omitzero"`
	Note   *string   `json:"note,omitempty"`
}

type line struct {
	What  string `json:"what"`
	Count int    `json:"count" default:"1"`
}

const anInvoice = `{"number":"A-1","kind":"bill","total":12.5,"lines":[{"what":"tea","count":2},{"what":"milk"}],"due":null,"note":null}`

// whole is anInvoice as a Go value.
var whole = invoice{Number: "A-1", Kind: "bill", Total: 12.5, Lines: []line{{"tea", 2}, {"milk", 1}}}

// TestAskReadsWhatModelsWrite over HTTP: each answer is the invoice at once.
func TestAskReadsWhatModelsWrite(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"strict JSON":         anInvoice,
		"in a fence":          "```json\n" + anInvoice + "\n```",
		"between words":       "Here is the invoice:\n\n" + anInvoice + "\n\nDo you need more?",
		"behind reasoning":    `<think>{"number":"B"}?</think>` + anInvoice,
		"as a JSON string":    quoted(anInvoice),
		"in an array":         "[" + anInvoice + "]",
		"a comma too many":    strings.Replace(anInvoice, "null}", "null,}", 1),
		"single quotes":       strings.ReplaceAll(anInvoice, `"`, `'`),
		"Python":              strings.ReplaceAll(anInvoice, "null", "None"),
		"twice the same":      anInvoice + "\n" + anInvoice,
		"a number as a text":  strings.Replace(anInvoice, "12.5", `"12.5"`, 1),
		"a field too many":    strings.Replace(anInvoice, `{"number"`, `{"currency":"EUR","number"`, 1),
		"the brace is absent": anInvoice[:len(anInvoice)-1] + "\n}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := fakemodel.New(t)
			server.Says(answer)
			got, err := planner.Ask[invoice](t.Context(), planner.Question{Model: streaming(t, server), Text: "Tea, milk, 12.50"})
			if err != nil || cmp.Diff(whole, got) != "" {
				t.Errorf("%v\n%s", err, cmp.Diff(whole, got))
			}
		})
	}
}

func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// TestAskRepairs: the model reads why its answer does not fit, and answers again.
func TestAskRepairs(t *testing.T) {
	t.Parallel()
	for answer, why := range map[string]string{
		strings.Replace(anInvoice, `"bill"`, `"invoice"`, 1):            `entity kind: want one of bill, refund, got the string "invoice"`,
		strings.Replace(anInvoice, `{"what":"milk"}`, `{"count":1}`, 1): `entity lines.1.what`,
		strings.Replace(anInvoice, `"count":2`, `"count":2.5`, 1):       `entity lines.0.count: want an integer, got the number 2.5`,
		strings.Replace(anInvoice, `"due":null`, `"due":"tomorrow"`, 1): `entity due: want`,
		strings.Replace(anInvoice, `"A-1"`, `" "`, 1):                   `missing required entity number`,
		strings.Replace(anInvoice, `"lines":[`, `"lines":{"0":`, 1):     "the JSON",
		`{"kind":"bill"}`:     `missing required entities number, total`,
		"I cannot read this.": "the answer has no JSON object",
		anInvoice + "\nor\n" + strings.Replace(anInvoice, "A-1", "A-2", 1): "there are several JSON objects, and they differ",
		anInvoice[:60]:            "it was cut off before its end",
		"Well: " + anInvoice[:60]: "it was cut off before its end",
		"[1,2]":                   "JSON",
		"[" + anInvoice + "," + strings.Replace(anInvoice, "A-1", "A-2", 1) + "]": "JSON that is no object",
	} {
		server := fakemodel.New(t)
		server.Says(answer, anInvoice)
		turn := &actions.Turn{}
		got, err := planner.Ask[invoice](t.Context(), planner.Question{Model: streaming(t, server), Text: "Tea, milk, 12.50", Turn: turn})
		if err != nil || got.Number != "A-1" || turn.Usage.ModelCalls != 2 || turn.Usage.PromptTokens != 20 {
			t.Errorf("%s: %+v, %v, cost %+v", answer, got, err, turn.Usage)
		}
		call := server.Calls()[1]
		if said := call.Last("system"); !strings.Contains(said, why) || !strings.Contains(said, "Answer again with one JSON object") || call.Last("assistant") != strings.TrimSpace(answer) {
			t.Errorf("%s: the model reads %q", answer, said)
		}
	}
}

// TestAskGivesUp after so many repairs, with an error that has nothing of the answers.
func TestAskGivesUp(t *testing.T) {
	t.Parallel()
	bad := strings.Replace(anInvoice, `"bill"`, `"hunter2"`, 1)
	for repairs, calls := range map[int]int{0: 3, 1: 2, -1: 1} {
		server := fakemodel.New(t)
		for range calls {
			server.Says(bad)
		}
		got, err := planner.Ask[invoice](t.Context(), planner.Question{Model: streaming(t, server), Text: "Tea", MaxRepairs: repairs})
		if !errors.Is(err, planner.ErrUnfit) || cmp.Diff(invoice{}, got) != "" || len(server.Calls()) != calls {
			t.Errorf("%d repairs: %+v, %v after %d calls", repairs, got, err, len(server.Calls()))
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "ask a model for planner_test.invoice: no answer of the model fits: entity kind: want") {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestAskFails as the model, the budget and the caller do.
func TestAskFails(t *testing.T) {
	t.Parallel()
	server := fakemodel.New(t)
	server.Fails(401, "invalid_api_key")
	_, err := planner.Ask[invoice](t.Context(), planner.Question{Model: streaming(t, server), Text: "Tea"})
	if fault, ok := errors.AsType[*models.Error](err); !ok || fault.Kind != models.Auth {
		t.Errorf("the error is %v", err)
	}
	poor := &actions.Turn{Budget: actions.Budget{Tokens: 10}, Usage: actions.Usage{PromptTokens: 10}}
	_, err = planner.Ask[invoice](t.Context(), planner.Question{Model: streaming(t, server), Text: "Tea", Turn: poor})
	if budget, ok := errors.AsType[*actions.BudgetError](err); !ok || budget.Of != "tokens" {
		t.Errorf("the error is %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = planner.Ask[invoice](gone, planner.Question{Model: streaming(t, server), Text: "Tea"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	_, err = planner.Ask[invoice](t.Context(), planner.Question{Text: " ", MaxTokens: -1, ResponseFormat: "yaml"})
	if want := "no Model\nno Text\nMaxTokens is negative\nResponseFormat is \"yaml\", not json_schema, json_object or text"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v", err)
	}
	if _, err = planner.Ask[chan int](t.Context(), planner.Question{Model: models.Offline{}, Text: "Tea"}); err == nil || errors.Is(err, planner.ErrUnfit) {
		t.Errorf("the error is %v", err)
	}
}

// TestAskAsksInEachFormat: with the schema where the server enforces it, else with the schema in words.
func TestAskAsksInEachFormat(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{"": "schema", "json_schema": "schema", "json_object": "object", "text": "none"} {
		model := &recorder{answer: anInvoice}
		if _, err := planner.Ask[invoice](t.Context(), planner.Question{Model: model, Text: "Tea", Instructions: "Read the bill.", ResponseFormat: format, MaxTokens: 77}); err != nil {
			t.Fatal(err)
		}
		request := model.asked[0]
		got := "none"
		if f := request.Format; f != nil {
			if got = "object"; f.Schema != nil && !f.Loose {
				got = "schema"
			}
		}
		system := request.Messages[0]
		if got != want || request.MaxTokens != 77 || !strings.HasPrefix(system.Text, "Read the bill.\n") || !strings.Contains(system.Text, `"enum":["bill","refund"]`) ||
			!strings.Contains(system.WithSchema, "JSON") || strings.Contains(system.WithSchema, "refund") || request.Messages[1].Text != "Tea" || request.Messages[1].Role != "user" {
			t.Errorf("%q: %s, %+v", format, got, request)
		}
	}
}

// TestAskForOtherTypes than structs.
func TestAskForOtherTypes(t *testing.T) {
	t.Parallel()
	server := fakemodel.New(t)
	server.Says(`{"value":["tea","milk"]}`, `{"value":3}`, `{"value":"2026-11-24T10:00:00Z"}`, `{"value":{"tea":2}}`, `{"value":true}`)
	q := planner.Question{Model: streaming(t, server), Text: "Tea"}
	if got, err := planner.Ask[[]string](t.Context(), q); err != nil || cmp.Diff([]string{"tea", "milk"}, got) != "" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := planner.Ask[int](t.Context(), q); err != nil || got != 3 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := planner.Ask[time.Time](t.Context(), q); err != nil || !got.Equal(time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := planner.Ask[map[string]int](t.Context(), q); err != nil || got["tea"] != 2 {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := planner.Ask[bool](t.Context(), q); err != nil || !got {
		t.Errorf("%v, %v", got, err)
	}
}
