package cassette_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/internal/cassette"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/models"
)

func TestReadBack(t *testing.T) {
	t.Parallel()
	s := scrub.New("hunter2")
	req := &models.Request{Messages: []models.Message{{Role: "system", Text: "You are \"it\".\n\n- a: b"}, {Role: "user", Text: "my word is hunter2"}}}
	answers := []*models.Response{
		{Text: "Hi hunter2,\nwell.", Finish: "stop", Model: "m-1", Usage: models.Usage{Prompt: 1, Completion: 2, Cached: 3, Reasoning: 4, Cost: 0.5}},
		{Calls: []models.Call{{ID: "c1", Name: "add", Arguments: `{"pass":"hunter2"}`}, {ID: "c2", Name: "x"}}, Finish: "tool_calls"},
	}
	var calls []cassette.Call
	for _, answer := range answers {
		call, ok := cassette.New(req, answer, nil)
		if !ok {
			t.Fatal("an answer is not to be kept")
		}
		calls = append(calls, call.Scrub(s))
	}
	fault := &models.Error{Kind: models.Throttled, Status: 429, Code: "rate", RetryAfter: 2 * time.Second, Said: "hunter2", Err: errors.New("hunter2")}
	call, _ := cassette.New(req, nil, fault)
	call = call.Scrub(s)
	calls = append(calls, call)
	if _, ok := cassette.New(req, nil, context.Canceled); ok {
		t.Error("a call that was given up is to be kept")
	}

	raw, err := cassette.Write(calls)
	if err != nil || strings.Contains(string(raw), "hunter2") {
		t.Fatalf("%v\n%s", err, raw)
	}
	if !strings.Contains(string(raw), "  - asked: |\n      === system\n      You are \"it\".\n      \n      - a: b\n") {
		t.Errorf("the prompt is not to be read:\n%s", raw)
	}
	got, err := callsIn(t, string(raw))
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	if diff := cmp.Diff(calls, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for i, want := range answers {
		want.Text = strings.ReplaceAll(want.Text, "hunter2", scrub.Secret)
		for n := range want.Calls {
			want.Calls[n].Arguments = strings.ReplaceAll(want.Calls[n].Arguments, "hunter2", scrub.Secret)
		}
		answer, err := got[i].Response()
		if diff := cmp.Diff(want, answer); err != nil || diff != "" {
			t.Errorf("%v, -want +got\n%s", err, diff)
		}
	}
	_, err = got[2].Response()
	failed, ok := errors.AsType[*models.Error](err)
	if !ok || failed.Kind != models.Throttled || failed.Status != 429 || failed.Code != "rate" || failed.RetryAfter != 2*time.Second {
		t.Errorf("%+v", err)
	}
}

func TestCassetteFaults(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"calls: [":                          "read cassette ",
		"calls: [{asked: a}]":               "call 1: want an answer or a fault",
		"calls: [{asked: a, says: b}]":      `unknown object member name "says"`,
		"calls: [{fault: {kind: bad}}]":     `there is no kind "bad" of fault`,
		"calls: [{fault: {kind: unknown}}]": `there is no kind "unknown" of fault`,
	} {
		if _, err := callsIn(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: %v, want %s", text, err, want)
		}
	}
	if _, err := cassette.Read("testdata/none"); err == nil {
		t.Error("there is no such file")
	}
}

// callsIn reads a cassette.
func callsIn(t *testing.T, text string) ([]cassette.Call, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return cassette.Read(file)
}
