// Package junit writes results of tests in the XML of JUnit, which CI systems read.
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"time"
)

// Case is the result of one test.
type Case struct {
	Suite, Name string
	Took        time.Duration
	Failure     string // in one line; "": it passed
	Details     string // of the failure
}

// Write writes the cases. Those of one suite stand next to each other.
func Write(w io.Writer, cases []Case) error {
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
		took     time.Duration
	}
	all := struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Suites   []*testsuite `xml:"testsuite"`
	}{Tests: len(cases)}
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }
	var of *testsuite
	for _, one := range cases {
		if of == nil || of.Name != one.Suite {
			of = &testsuite{Name: one.Suite}
			all.Suites = append(all.Suites, of)
		}
		c := testcase{Name: one.Name, Class: one.Suite, Time: seconds(one.Took)}
		if one.Failure != "" {
			c.Failure = &failure{one.Failure, one.Details}
			of.Failures++
			all.Failures++
		}
		of.Tests++
		of.took += one.Took
		of.Time = seconds(of.took)
		of.Cases = append(of.Cases, c)
	}
	raw, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, raw)
	return err
}
