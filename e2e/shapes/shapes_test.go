// Package shapes_test plays what model servers and models send in public, and our own fakes do not: a file
// a family, a line a shape. README.md says what the members of a line are.
package shapes_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/builtbot"
)

var bot = builtbot.New("../..")

// shape is a line of a file. One of Body, Text and FinishReason says what the server answers.
type shape struct {
	Name         string
	Status       int
	Body         string
	Text         string
	FinishReason any    `json:"finish_reason"`
	Kind         string // of the fault
	Reply        string // what the person reads; "again": the answer to the second request
}

// replies are what the person reads after a fault of a kind. The model that is asked next says "Second.".
var replies = map[string]string{
	"again":    "Again.",
	"too_long": "Again.", // without the older turns
	"quota":    "Second.",
	"filtered": "Sorry, the content filter of the AI model stopped this. Please try other words.",
	"auth":     "Sorry, the AI model refused my credentials. Whoever runs this bot has to fix that.",
}

func TestShapes(t *testing.T) {
	t.Parallel()
	for _, family := range []struct {
		name, file, contentType string
		env                     []string
		least                   int
	}{
		{"errors", "errors.jsonl", "application/json", nil, 65},
		{"finish reasons", "finish_reasons.jsonl", "application/json", nil, 44},
		{"thinking", "thinking.jsonl", "application/json", nil, 145},
		{"answers", "answers.jsonl", "application/json", nil, 47},
		{"answers to a stream", "answers.jsonl", "application/json", []string{"BOT_MODEL_STREAM=true"}, 47},
		{"streams", "streams.jsonl", "text/event-stream", []string{"BOT_MODEL_STREAM=true"}, 34},
		{"streams unasked", "streams.jsonl", "application/json", nil, 34},
	} {
		t.Run(family.name, func(t *testing.T) {
			t.Parallel()
			shapes := read(t, family.file)
			if len(shapes) < family.least {
				t.Fatalf("only %d shapes", len(shapes))
			}
			got := play(t, shapes, family.contentType, family.env)
			for i, s := range shapes {
				want := s.Reply
				if known, ok := replies[s.Kind+s.Reply]; ok {
					want = known
				}
				said := "nothing"
				if i < len(got) {
					said, _, _ = strings.Cut(got[i], " (turn ")
				}
				if said != want {
					t.Errorf("%s: the person reads %q, want %q", s.Name, said, want)
				}
			}
		})
	}
}

func read(t *testing.T, file string) (shapes []shape) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var s shape
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		shapes = append(shapes, s)
	}
	return shapes
}

// play has a person send a message for each shape to the built bot, and returns the replies. A message
// before each keeps the history from being empty, and the first model from being left out.
func play(t *testing.T, shapes []shape, contentType string, env []string) (got []string) {
	t.Helper()
	path, err := bot.Path()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&server{shapes: shapes, contentType: contentType, asked: map[int]int{}})
	defer server.Close()
	var said strings.Builder
	for i := range shapes {
		fmt.Fprintf(&said, "before it\ncase %d\n", i)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "chat")
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=sk-0123456789", "OPENAI_MODEL=first",
		"BOT_FALLBACK_MODELS=second", "BOT_LOG_LEVEL=disabled", "BOT_STREAM=false",
	}, env...)
	cmd.Stdin = strings.NewReader(said.String())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	const opening = 3 // lines
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i := opening + 1; i < len(lines); i += 2 {
		got = append(got, strings.ReplaceAll(lines[i], "\u200b", "")) // in tags, so that no client takes them for HTML
	}
	return got
}

// server is a model server that answers the first request of a case with its shape.
type server struct {
	shapes      []shape
	contentType string
	mu          sync.Mutex
	asked       map[int]int
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Model    string
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	at := -1
	for _, m := range request.Messages {
		if number, ok := strings.CutPrefix(m.Content, "case "); ok && m.Role == "user" {
			at, _ = strconv.Atoi(number)
		} else if m.Role == "user" && m.Content == "before it" {
			at = -1
		}
	}
	s.mu.Lock()
	s.asked[at]++
	first := s.asked[at] == 1
	s.mu.Unlock()
	switch {
	case request.Model == "second":
		answer(w, say("Second."), "stop")
	case at < 0:
		answer(w, say("Before."), "stop")
	case !first:
		answer(w, say("Again."), "stop")
	case s.shapes[at].Body != "":
		w.Header().Set("Content-Type", s.contentType)
		if status := s.shapes[at].Status; status != 0 {
			w.WriteHeader(status)
		}
		_, _ = w.Write([]byte(s.shapes[at].Body))
	case s.shapes[at].FinishReason != nil:
		answer(w, s.shapes[at].Text, s.shapes[at].FinishReason)
	default:
		answer(w, s.shapes[at].Text, "stop")
	}
}

func say(text string) string {
	return fmt.Sprintf(`{"type":"answer","commands":[{"type":"SAY","response":%q}]}`, text)
}

func answer(w http.ResponseWriter, text string, finish any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"model": "m", "choices": []any{
		map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": text}, "finish_reason": finish},
	}})
}
