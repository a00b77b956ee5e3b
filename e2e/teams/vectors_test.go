package teams_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var vectors = flag.String("vectors", "", "a file with other cases to play")

// ownVectors are the cases that are played without the flag.
const ownVectors = "testdata/*.jsonl"

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
		Stream      bool     `json:"stream"`
		Fallback    bool     `json:"fallback"` // a second model
		Planner     string   `json:"planner"`
		Feedback    string   `json:"feedback"`     // custom: the bot's own form
		Connection  string   `json:"connection"`   // where people sign in
		Tenants     []string `json:"tenants"`      // that may talk to the bot
		Welcome     string   `json:"welcome"`      // what the bot says when it is added
		UploadPiece int      `json:"upload_piece"` // bytes of a file that go up at once
	} `json:"options"`
	Actions []struct {
		Name       string `json:"name"`
		Title      string `json:"title"`
		Result     string `json:"result"`
		TakesMS    int    `json:"takes_ms"`
		NeedsToken string `json:"needs_token"` // of that connection
	} `json:"actions"`
	Approval *approval                  `json:"approval"` // that each call needs
	Handlers map[string]handler         `json:"handlers"` // by route
	State    map[string]json.RawMessage `json:"state"`    // what was there before
	Hooks    struct {
		BeforeSay *struct {
			Replace [2]string `json:"replace"` // from, to
		} `json:"BeforeSay"`
	} `json:"hooks"`
}

// event is something that happens at a time, the next answer of the model, or rules for the
// connector, the token service and the host of files.
type event struct {
	AtMS int `json:"at_ms"`

	Post  map[string]any `json:"post"`
	Press *press         `json:"press"`

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

	Connector    []*rule `json:"connector"`
	TokenService []*rule `json:"token_service"`
	FileHost     []*rule `json:"file_host"`
}

// rule is how a service answers calls that match.
type rule struct {
	to string // as in want

	Match struct {
		Method string         `json:"method"`
		Path   string         `json:"path"`
		Query  map[string]any `json:"query"`
		Stream string         `json:"stream"`
		Nth    int            `json:"nth"` // of those that match the rest; 0: each
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
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	return v, d.Decode(&v)
}

// read returns the lines of the files of cases that a pattern names.
func read(t *testing.T, pattern string) (lines [][]byte) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var raw []byte
	for _, file := range files {
		one, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(append(raw, one...), '\n')
	}
	for line := range bytes.Lines(raw) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("%s has no case", pattern)
	}
	return lines
}

// TestVectors plays the cases of a file. It prints which ones fail and why. A case of our own also has to fail if one of its
// expectations is changed.
func TestVectors(t *testing.T) {
	file := ownVectors
	if *vectors != "" {
		file = *vectors
	}
	passed, failed := 0, 0
	for _, line := range read(t, file) {
		v, err := decode(line)
		var faults []string
		if err != nil {
			faults = []string{err.Error()}
		} else {
			p := play(t, v)
			if faults = p.check(v.Expect); len(faults) > 0 {
				faults = append(faults, p.told())
			} else if file == ownVectors {
				faults = toothless(t, p, line)
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

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }
