package models_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/models"
)

// talk writes messages: s, u and a are the roles, then a text; n bytes of it when
// it is a number of dots. c is a call with these arguments, t its answer.
func talk(lines ...string) []models.Message {
	role := map[byte]models.Role{'s': models.System, 'u': models.User, 'a': models.Assistant, 'c': models.Assistant, 't': models.ToolRole}
	out := make([]models.Message, len(lines))
	for i, l := range lines {
		out[i] = models.Message{Role: role[l[0]], Text: l[2:]}
		switch l[0] {
		case 'c':
			out[i].Text, out[i].Calls = "", []models.Call{{ID: "1", Name: "f", Arguments: l[2:]}}
		case 't':
			out[i].CallID = "1"
		}
	}
	return out
}

func TestTrim(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(".", 100)
	tests := []struct {
		name     string
		messages []models.Message
		want     []models.Message // nil: not asked again
	}{
		{"older turns go", talk("s rules", "u 1"+long, "a 1"+long, "u 2"+long, "a 2"+long, "u 3", "a 3", "s now", "u hi"), talk("s rules", "u 3", "a 3", "s now", "u hi")},
		{"turns go whole", talk("s rules", "u 1", "a 1"+long, "u 2"+long, "a 2", "u hi"), talk("s rules", "u hi")},
		{"one turn too long", talk("s rules", "u 1"+long, "a 1", "u hi"), talk("s rules", "u hi")},
		{"a repair stays", talk("s rules", "u 1", "a 1", "u hi", "a bad", "s wrong"), talk("s rules", "u hi", "a bad", "s wrong")},
		{"results stay", talk("s rules", "s more", "u 1", "a 1", "s now", "u hi", "s results"), talk("s rules", "s more", "s now", "u hi", "s results")},
		{"rounds of this turn stay", talk("s rules", "u 1", "a 1", "u hi", "c {}", "t 1"+long, "c {}"+long, "t 2", "s now"), talk("s rules", "u hi", "c {}", "t 1"+long, "c {}"+long, "t 2", "s now")},
		{"rounds go with their turn", talk("u 1", "c {}", "t 1"+long, "a 1"+long, "u 2", "c {}", "t 2", "a 2", "u hi"), talk("u 2", "c {}", "t 2", "a 2", "u hi")},
		{"calls count", talk("u 1", "a 1"+long, "u 2", "c {}"+long, "t 2", "u hi"), talk("u hi")},
		{"answers without their turn go", talk("s rules", "c {}", "t 1", "a 1", "u hi"), talk("s rules", "u hi")},
		{"no instructions", talk("u 1", "a 1", "u hi"), talk("u hi")},
		{"no history", talk("s rules", "s now", "u hi"+long), nil},
		{"nobody spoke", talk("s rules", "a hi"), nil},
		{"only the system", talk("s rules", "s more"), nil},
		{"nothing", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			model, temp := scripted("m", tooLong, nil), 0.5
			req := &models.Request{Messages: tt.messages, MaxTokens: 7, Temperature: &temp, Format: &models.Format{}}
			before := clone(t, req)
			got, err := models.Trim(model).Complete(t.Context(), req)
			if tt.want == nil {
				if !same(err, tooLong) || model.count() != 1 {
					t.Errorf("got %v, %v after %d calls", got, err, model.count())
				}
				return
			}
			if err != nil || model.count() != 2 {
				t.Fatalf("got %v, %v after %d calls", got, err, model.count())
			}
			want := models.Request{Messages: tt.want, MaxTokens: 7, Temperature: &temp, Format: &models.Format{}}
			if diff := cmp.Diff(want, model.calls[1]); diff != "" {
				t.Error(diff)
			}
			if before != clone(t, req) {
				t.Error("the request was changed")
			}
		})
	}
}

func TestTrimOnlyOnceAndOnlyWhenTooLong(t *testing.T) {
	t.Parallel()
	req := &models.Request{Messages: talk("s rules", "u 1", "a 1", "u 2", "a 2", "u hi")}
	for _, tt := range []struct {
		steps []error
		calls int
		err   error
	}{
		{[]error{nil}, 1, nil},
		{[]error{tooLong, tooLong, nil}, 2, tooLong},
		{[]error{tooLong, noKey, nil}, 2, noKey},
		{[]error{down, nil}, 1, down},
		{[]error{bad, nil}, 1, bad},
	} {
		model := scripted("m", tt.steps...)
		if _, err := models.Trim(model).Complete(t.Context(), req); !same(err, tt.err) || model.count() != tt.calls {
			t.Errorf("%v: %v after %d calls", tt.steps, err, model.count())
		}
	}
}

func TestTrimIsVisible(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	ctx := zerolog.New(&out).Level(zerolog.InfoLevel).WithContext(t.Context())
	_, _ = models.Trim(scripted("m", tooLong, nil)).Complete(ctx, &models.Request{Messages: talk("s rules", "u secret", "a 1", "u hi")})
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"left_out":2,"of":4`) || strings.Contains(text, "secret") {
		t.Errorf("log %q", text)
	}
}
