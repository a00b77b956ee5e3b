package scenario

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Results are those of several scenarios, in their order.
type Results []Result

// Failed counts those that failed.
func (r Results) Failed() int {
	n := 0
	for _, one := range r {
		if !one.Passed {
			n++
		}
	}
	return n
}

// String is the line that sums them up.
func (r Results) String() string {
	return fmt.Sprintf("%d passed, %d failed", len(r)-r.Failed(), r.Failed())
}

// WriteText writes a result for people to read: of one that passed a line, if it is
// verbose, of another its failures and what happened.
func (r *Result) WriteText(w io.Writer, verbose bool) {
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

// WriteJSON writes all results as one JSON object, with what happened in those that failed.
func (r Results) WriteJSON(w io.Writer) error {
	list := append(Results{}, r...)
	for i := range list {
		if list[i].Passed {
			list[i].Story = ""
		}
	}
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(struct {
		Passed    int     `json:"passed"`
		Failed    int     `json:"failed"`
		Scenarios Results `json:"scenarios"`
	}{len(r) - r.Failed(), r.Failed(), list})
}

// junitSuite is the form that CI systems read: a suite for each file.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes all results as JUnit's XML, as CI systems show it.
func (r Results) WriteJUnit(w io.Writer) error {
	all := struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}{Tests: len(r), Failures: r.Failed()}
	for from := 0; from < len(r); {
		to := from
		for to < len(r) && r[to].File == r[from].File {
			to++
		}
		all.Suites = append(all.Suites, r[from:to].suite())
		from = to
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	out := xml.NewEncoder(w)
	out.Indent("", "  ")
	if err := out.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// suite is that of the scenarios of one file.
func (r Results) suite() junitSuite {
	s := junitSuite{Name: r[0].File, Tests: len(r), Failures: r.Failed()}
	total := 0.0
	for i := range r {
		one := &r[i]
		total += one.Seconds
		c := junitCase{Name: one.Name, Class: one.File, Time: fmt.Sprintf("%.3f", one.Seconds)}
		if !one.Passed {
			text := strings.Join(one.Failures, "\n") + "\n\n" + strings.TrimSpace(one.Story)
			c.Failure = &junitFailure{one.Failures[0], text}
		}
		s.Cases = append(s.Cases, c)
	}
	s.Time = fmt.Sprintf("%.3f", total)
	return s
}
