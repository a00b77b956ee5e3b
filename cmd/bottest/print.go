package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/junit"
)

// result is the outcome of a scenario.
type result struct {
	File     string   `json:"file,omitempty"`
	Name     string   `json:"name"`
	Passed   bool     `json:"passed"`
	Failures []string `json:"failures,omitempty"`
	Story    string   `json:"story,omitempty"` // what happened, as text
	Seconds  float64  `json:"seconds"`
}

// play plays one scenario.
func play(s *record.Scenario, cfg bottest.Config) result {
	began := time.Now()
	failures, story := bottest.Play(s, cfg)
	return result{s.File, s.Name, len(failures) == 0, failures, story, time.Since(began).Seconds()}
}

// results are those of several scenarios, in order.
type results []result

// failed counts the failed ones.
func (r results) failed() int {
	n := 0
	for _, one := range r {
		if !one.Passed {
			n++
		}
	}
	return n
}

// String summarizes them in one line.
func (r results) String() string {
	return fmt.Sprintf("%d passed, %d failed", len(r)-r.failed(), r.failed())
}

// writeText writes a result for people: one line if it passed and verbose is set, otherwise its
// failures and what happened.
func (r *result) writeText(w io.Writer, verbose bool) {
	if r.Passed {
		if verbose {
			fmt.Fprintf(w, "ok    %s (%.2fs)\n%s", r.Name, r.Seconds, inset(r.Story))
		}
		return
	}
	fmt.Fprintf(w, "FAIL  %s (%.2fs)  %s\n", r.Name, r.Seconds, r.File)
	for _, failure := range r.Failures {
		fmt.Fprint(w, inset(failure))
	}
	fmt.Fprint(w, inset(r.Story))
}

// inset is a text below a line that names it.
func inset(text string) string {
	text = strings.Trim(text, "\n")
	if text == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
}

// writeJSON writes all results as one JSON object, with the story of those that failed.
func (r results) writeJSON(w io.Writer) error {
	list := append(results{}, r...)
	for i := range list {
		if list[i].Passed {
			list[i].Story = ""
		}
	}
	return cli.PrintJSON(w, struct {
		Passed    int     `json:"passed"`
		Failed    int     `json:"failed"`
		Scenarios results `json:"scenarios"`
	}{len(r) - r.failed(), r.failed(), list})
}

// writeJUnit writes all results as JUnit XML for CI systems: one suite per file.
func (r results) writeJUnit(w io.Writer) error {
	var cases []junit.Case
	for _, one := range r {
		c := junit.Case{Suite: one.File, Name: one.Name, Took: time.Duration(one.Seconds * float64(time.Second))}
		if !one.Passed {
			c.Failure = one.Failures[0]
			c.Details = strings.Join(one.Failures, "\n") + "\n\n" + strings.TrimSpace(one.Story)
		}
		cases = append(cases, c)
	}
	return junit.Write(w, cases)
}
