package teams_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var vectors = flag.String("vectors", "", "a file with other cases to play")

const ownVectors = "testdata/stream.jsonl"

// vector is a case: what happens, and what is expected to come of it.
type vector struct {
	ID     string  `json:"id"`
	Kind   string  `json:"kind"`
	Area   string  `json:"area"`
	Level  string  `json:"level"`
	Why    string  `json:"why"`
	Given  given   `json:"given"`
	In     []event `json:"in"`
	Expect expect  `json:"expect"`
}

// given says which bot it is about.
type given struct {
	Scope   string `json:"scope"` // the posts say it too
	Options struct {
		Stream   bool   `json:"stream"`
		Fallback bool   `json:"fallback"` // a second model
		Planner  string `json:"planner"`
	} `json:"options"`
	Actions []struct {
		Name    string `json:"name"`
		Title   string `json:"title"`
		Result  string `json:"result"`
		TakesMS int    `json:"takes_ms"`
	} `json:"actions"`
	Hooks struct {
		BeforeSay *struct {
			Replace [2]string `json:"replace"` // from, to
		} `json:"BeforeSay"`
	} `json:"hooks"`
}

// event is something that happens at a time, the next answer of the model, or rules for the
// connector.
type event struct {
	AtMS int `json:"at_ms"`

	Post map[string]any `json:"post"`

	Restart  bool `json:"restart"`
	BackAtMS int  `json:"back_at_ms"` // 0: at once

	Model []struct {
		AtMS     int     `json:"at_ms"` // after the request
		Delta    *string `json:"delta"`
		Content  *string `json:"content"`
		ToolCall *struct {
			ID        string `json:"id"`
			Name      string `json:"name"`
			Arguments any    `json:"arguments"` // JSON, or a text of it
		} `json:"tool_call"`
	} `json:"model"`
	Finish string `json:"finish"` // stop, length, tool_calls or broken

	Connector []*rule `json:"connector"`
}

// rule is how the connector answers calls that match.
type rule struct {
	Match struct {
		Method string `json:"method"`
		Path   string `json:"path"`
		Stream string `json:"stream"`
		Nth    int    `json:"nth"` // of those that match the rest; 0: each
	} `json:"match"`
	Status   int               `json:"status"`
	Body     any               `json:"body"`
	Headers  map[string]string `json:"headers"`
	TakesMS  int               `json:"takes_ms"`
	NoAnswer bool              `json:"no_answer"` // until the bot gives up
	Times    int               `json:"times"`     // how often at most; 0: no limit

	matched, used int
}

// decode reads a case. A member that nobody reads is a mistake.
func decode(line []byte) (v vector, err error) {
	var about struct{ ID, Kind string }
	if err := json.Unmarshal(line, &about); err != nil {
		return v, err
	}
	v.ID, v.Kind = about.ID, about.Kind
	if !strings.HasPrefix(v.Kind, "stream.") {
		return v, fmt.Errorf("kind %q not known yet", v.Kind)
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return v, d.Decode(&v)
}

// read returns the lines of a file of cases.
func read(t *testing.T, file string) (lines [][]byte) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("%s has no case", file)
	}
	return lines
}

// TestVectors plays the cases of a file. It prints which ones fail and why.
func TestVectors(t *testing.T) {
	file := ownVectors
	if *vectors != "" {
		file = *vectors
	}
	passed, failed := 0, 0
	for _, line := range read(t, file) {
		v, err := decode(line)
		if file == ownVectors && err == nil && !streams && v.streams() {
			continue
		}
		var faults []string
		if err != nil {
			faults = []string{err.Error()}
		} else {
			p := play(t, v)
			if faults = p.check(v.Expect); len(faults) > 0 {
				faults = append(faults, p.told())
			}
		}
		if len(faults) == 0 {
			passed++
			fmt.Printf("ok      %s %s\n", v.ID, v.Kind)
			continue
		}
		failed++
		fmt.Printf("FAILED  %s %s\n%s\n", v.ID, v.Kind, indent(strings.Join(faults, "\n")))
	}
	if failed > 0 {
		t.Fail()
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
}

// streams reports whether the case expects a stream.
func (v vector) streams() bool {
	return slices.ContainsFunc(v.Expect.Calls, func(w want) bool { return w.Stream != "none" })
}

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }
