package main

import (
	"encoding/json"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bottest"
)

func someResults() results {
	return results{
		{File: "a.yaml", Name: "good", Passed: true, Seconds: 0.01},
		{File: "a.yaml", Name: "bad", Failures: []string{"step 1: expect.replies: got [\"<&>\"]", "step 2: more"}, Story: "\nwhat happened:\n    Ann  hi", Seconds: 0.02},
		{File: "b.yaml", Name: "other", Passed: true},
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	var out, verbose strings.Builder
	all := someResults()
	for i := range all {
		all[i].writeText(&out, false)
		all[i].writeText(&verbose, true)
	}
	const want = "FAIL  bad (0.02s)  a.yaml\n    step 1: expect.replies: got [\"<&>\"]\n    step 2: more\n    what happened:\n        Ann  hi\n"
	if out.String() != want {
		t.Errorf("got %s", out.String())
	}
	if !strings.HasPrefix(verbose.String(), "ok    good (0.01s)\nFAIL") || !strings.HasSuffix(verbose.String(), "ok    other (0.00s)\n") {
		t.Errorf("verbose: %s", verbose.String())
	}
	if all.String() != "2 passed, 1 failed" {
		t.Error(all.String())
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	var got struct {
		Passed, Failed int
		Scenarios      []struct {
			Name     string
			Passed   bool
			Failures []string
		}
	}
	if err := someResults().writeJSON(&out); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got.Passed != 2 || got.Failed != 1 || len(got.Scenarios) != 3 || len(got.Scenarios[1].Failures) != 2 {
		t.Errorf("%s: %+v, %v", out.String(), got, err)
	}
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := someResults().writeJUnit(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Tests != 3 || got.Failures != 1 || len(got.Suites) != 2 || len(got.Suites[0].Cases) != 2 {
		t.Fatalf("%s", out.String())
	}
	bad := got.Suites[0].Cases[1].Failure
	if bad == nil || !strings.Contains(bad.Message, "<&>") || !strings.Contains(bad.Text, "step 2: more") || got.Suites[0].Cases[0].Failure != nil {
		t.Errorf("%s", out.String())
	}
}

func TestFaultsAsResults(t *testing.T) {
	t.Parallel()
	list, err := record.Read("f.json", []byte(`[{"name": "a", "x": 1, "y": 2}, {"name": "b", "steps": 3}]`))
	if err == nil {
		t.Fatal("no faults")
	}
	var all results
	for _, s := range list {
		all = append(all, play(&s, bottest.Config{}))
	}
	if len(all) != 2 || len(all[0].Failures) != 3 || all[1].Name != "b" || all.String() != "0 passed, 2 failed" {
		t.Errorf("%+v", all)
	}
}
