package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/cli"
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
	type failure struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type testcase struct {
		Name    string   `xml:"name,attr"`
		Class   string   `xml:"classname,attr"`
		Time    string   `xml:"time,attr"`
		Failure *failure `xml:"failure"`
	}
	type testsuite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Time     string     `xml:"time,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	all := struct {
		XMLName  xml.Name    `xml:"testsuites"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Suites   []testsuite `xml:"testsuite"`
	}{Tests: len(r), Failures: r.failed()}
	seconds := func(n float64) string { return fmt.Sprintf("%.3f", n) }
	for from := 0; from < len(r); {
		var of results
		var cases []testcase
		total := 0.0
		for _, one := range r[from:] {
			if one.File != r[from].File {
				break
			}
			of, total = append(of, one), total+one.Seconds
			c := testcase{Name: one.Name, Class: one.File, Time: seconds(one.Seconds)}
			if !one.Passed {
				c.Failure = &failure{one.Failures[0], strings.Join(one.Failures, "\n") + "\n\n" + strings.TrimSpace(one.Story)}
			}
			cases = append(cases, c)
		}
		all.Suites = append(all.Suites, testsuite{of[0].File, len(of), of.failed(), seconds(total), cases})
		from += len(of)
	}
	raw, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, raw)
	return err
}
