package connector_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/connector"
)

// TestWhatARefusalSays in the shapes that connectors and proxies give it.
func TestWhatARefusalSays(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, code, message string }{
		{"Microsoft's", `{"error":{"code":"ConversationNotFound","message":"Conversation not found."}}`, "ConversationNotFound", "Conversation not found."},
		{"with more", `{"error":{"code":"C","message":"m","innerHttpError":{"statusCode":400}},"x":1}`, "C", "m"},
		{"the playground's", `{"code":"BadArgument","message":"m"}`, "BadArgument", "m"},
		{"message alone", `{"message":"Authorization has been denied for this request."}`, "", "Authorization has been denied for this request."},
		{"a sentence", `{"error":"no"}`, "", "no"},
		{"another type", `{"error":{"code":7,"message":"m"}}`, "", ""},
		{"control characters", `{"error":{"code":"a\u0000b","message":"x\u2028y"}}`, "a b", "x y"},
		{"null", `null`, "", ""},
		{"a list", `[{"code":"C"}]`, "", ""},
		{"cut off", `{"error":{"code":"C"`, "", ""},
		{"HTML", `<html><title>502</title></html>`, "", ""},
		{"nothing", ``, "", ""},
		{"10 MB", `{"error":{"code":"` + strings.Repeat("x", 10<<20) + `"}}`, "", ""},
		{"nested", strings.Repeat(`{"error":`, 1<<17), "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRest(t, answer(400, tt.body))
			var e *connector.Error
			_, err := r.Send(t.Context(), r.ref, message())
			if !errors.As(err, &e) || e.Status != 400 || e.Code != tt.code || e.Message != tt.message {
				t.Errorf("err = %v, want code %q and message %q", err, tt.code, tt.message)
			}
		})
	}
}

// TestAnswersOfAQuestion that cannot be used are errors, not empty results.
func TestAnswersOfAQuestion(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"HTML": "<html>", "nothing": "", "a list": "[]", "10 MB": `{"id":"` + strings.Repeat("x", 10<<20) + `"}`, "another type": `{"id":7}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRest(t, answer(200, body))
			if team, err := r.Team(t.Context(), r.ref, "19:t"); err == nil {
				t.Errorf("team %+v", team)
			}
			if len(r.calls) != 1 && name != "10 MB" { // that one breaks off like a connection
				t.Errorf("%d calls, want 1", len(r.calls))
			}
		})
	}
}

// TestWhatWasDoneIsNotDoneAgain because the answer broke off.
func TestWhatWasDoneIsNotDoneAgain(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"HTML": "<html>", "no id": "{}", "10 MB": `{"id":"` + strings.Repeat("x", 10<<20) + `"}`} {
		r := newRest(t, answer(201, body))
		if thread, err := r.NewThread(t.Context(), r.ref, message()); err == nil || len(r.calls) != 1 {
			t.Errorf("%s: thread %+v, err %v after %d calls, want an error after one", name, thread, err, len(r.calls))
		}
	}
}

// TestHeadersHaveACap: a connector that sends without end is left.
func TestHeadersHaveACap(t *testing.T) {
	t.Parallel()
	r := newRest(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 128 {
			w.Header().Set("X-"+string(rune('a'+i%26))+strings.Repeat("y", i), strings.Repeat("z", 1<<10))
		}
	})
	if _, err := r.Send(t.Context(), r.ref, message()); !errors.Is(err, connector.ErrNoAnswer) {
		t.Errorf("err = %v, want no answer", err)
	}
	if len(r.calls) != 2 {
		t.Errorf("%d calls, want two", len(r.calls))
	}
}

// TestHangingBodies: the status counts, and the time of a try is the end of it.
func TestHangingBodies(t *testing.T) {
	t.Parallel()
	hanging := func(status int) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.WriteHeader(status)
			res := w.Result()
			res.Body = io.NopCloser(readerFunc(func([]byte) (int, error) {
				<-r.Context().Done()
				return 0, r.Context().Err()
			}))
			return res, nil
		}
	}
	tests := []struct {
		name  string
		steps []func(*http.Request) (*http.Response, error)
		took  time.Duration
		fails bool
	}{
		{"of a success", []func(*http.Request) (*http.Response, error){hanging(201)}, 15 * time.Second, false},
		{"of a refusal", []func(*http.Request) (*http.Response, error){hanging(400)}, 15 * time.Second, true},
		{"of one that passes", []func(*http.Request) (*http.Response, error){hanging(502), says(200)}, 16 * time.Second, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := &script{steps: tt.steps, start: time.Now()}
				_, err := scripted(t, script, &counter{}).Send(t.Context(), reference(serviceURL), message())
				if (err != nil) != tt.fails || len(script.at) != len(tt.steps) || time.Since(script.start) > tt.took {
					t.Errorf("err %v after %d calls and %v", err, len(script.at), time.Since(script.start))
				}
			})
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestCookiesAreNotKept: an affinity that a proxy hands out is for browsers.
func TestCookiesAreNotKept(t *testing.T) {
	t.Parallel()
	r := newRest(t, func(w http.ResponseWriter, q *http.Request) {
		if got := q.Header.Get("Cookie"); got != "" {
			t.Errorf("Cookie %q", got)
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
		answer(200, `{"id":"1"}`)(w, q)
	})
	for range 2 {
		if _, err := r.Send(t.Context(), r.ref, message()); err != nil {
			t.Fatal(err)
		}
	}
}
