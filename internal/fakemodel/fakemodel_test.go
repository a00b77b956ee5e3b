package fakemodel_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
)

var milk = models.Call{ID: "call_1", Name: "addItem", Arguments: `{"item":"Milch für Mia"}`}

// ask posts body and is what came back, up to where it broke off.
func ask(t *testing.T, s *fakemodel.Server, body string) (text string, err error) {
	t.Helper()
	res, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	return string(raw), err
}

func TestAnswersInTheFormThatIsAskedFor(t *testing.T) {
	t.Parallel()
	s := fakemodel.New(t)
	s.CallsTools("Well.", milk)
	s.CallsTools("Well.", milk)
	whole, err := ask(t, s, `{"stream":false}`)
	if err != nil || !strings.Contains(whole, `"finish_reason":"tool_calls"`) || !strings.Contains(whole, `"content":"Well."`) {
		t.Errorf("%s, %v", whole, err)
	}
	stream, err := ask(t, s, `{"stream":true,"stream_options":{"include_usage":true}}`)
	if err != nil || !strings.HasSuffix(stream, "data: [DONE]\n\n") || !strings.Contains(stream, "prompt_tokens") || strings.Count(stream, "data: ") < 6 {
		t.Errorf("%s, %v", stream, err)
	}
}

func TestCutsOff(t *testing.T) {
	t.Parallel()
	s := fakemodel.New(t)
	for _, body := range []string{`{"stream":true}`, `{}`} {
		s.CutsOff("Hello", milk)
		if text, err := ask(t, s, body); err == nil || strings.Contains(text, "[DONE]") {
			t.Errorf("%s: %s, %v", body, text, err)
		}
	}
}

func TestCallsShowWhatWasSent(t *testing.T) {
	t.Parallel()
	s := fakemodel.New(t)
	s.Says("Done.")
	const body = `{"model":"m","tool_choice":"required","parallel_tool_calls":false,
		"tools":[{"type":"function","function":{"name":"addItem","description":"d","parameters":{"type":"object"},"strict":true}}],
		"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"addItem","arguments":"{\"item\":\"Milch für Mia\"}"}}]},
			{"role":"tool","tool_call_id":"call_1","content":"ok"}]}`
	if _, err := ask(t, s, body); err != nil {
		t.Fatal(err)
	}
	no := false
	want := fakemodel.Call{
		Model: "m", ToolChoice: "required", ParallelToolCalls: &no,
		Tools: []models.Tool{{Name: "addItem", Description: "d", Schema: []byte(`{"type":"object"}`), Strict: true}},
		Messages: []models.Message{
			{Role: "user", Text: "hi"}, {Role: "assistant", Calls: []models.Call{milk}}, {Role: "tool", CallID: "call_1", Text: "ok"},
		},
	}
	got := s.Calls()
	if diff := cmp.Diff([]fakemodel.Call{want}, got); diff != "" {
		t.Error(diff)
	}
	if text := got[0].Text(); !strings.Contains(text, "assistant calls addItem: "+milk.Arguments) {
		t.Error(text)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{true, false} {
		answer := fakemodel.Answer{Text: "Hi.", Usage: models.Usage{Prompt: 1234, Completion: 56, Cached: 1000, Reasoning: 7}}
		w := httptest.NewRecorder()
		answer.Write(w, httptest.NewRequest(http.MethodPost, "/", nil), fakemodel.Call{Stream: stream, WithUsage: true})
		for _, want := range []string{`"total_tokens":1290`, `"cached_tokens":1000`, `"reasoning_tokens":7`} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("stream %v: no %s in %s", stream, want, w.Body)
			}
		}
	}
}
