package connector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

func reference(serviceURL string) schema.ConversationReference {
	return schema.ConversationReference{
		ServiceURL: serviceURL, ChannelID: activity.Teams, ActivityID: "in-1",
		Bot: schema.ChannelAccount{ID: "28:bot", Name: "Bot"}, User: schema.ChannelAccount{ID: "29:mia", Name: "Mia"},
		Conversation: schema.ConversationAccount{ID: "a:1;messageid=2", IsGroup: true},
	}
}

// sent is what reached the stand-in connector.
type sent struct{ Method, URI, Authorization, Body string }

// rest stands in for the connector.
type rest struct {
	*httptest.Server
	*connector.Client
	ref schema.ConversationReference

	mu     sync.Mutex
	calls  []sent
	answer http.HandlerFunc
}

func newRest(t *testing.T, answer http.HandlerFunc) *rest {
	t.Helper()
	r := &rest{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		r.calls = append(r.calls, sent{q.Method, q.RequestURI, q.Header.Get("Authorization"), string(body)})
		answer := r.answer
		r.mu.Unlock()
		answer(w, q)
	}))
	t.Cleanup(r.Server.Close)
	r.Client = newClient(t, withApp(nil, strings.TrimPrefix(r.URL, "http://")), fixedToken("secret-token"))
	r.ref = reference(r.URL + "/amer/")
	return r
}

func (r *rest) want(t *testing.T, want ...sent) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if diff := cmp.Diff(want, r.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	const (
		token        = "Bearer secret-token"
		conversation = "/amer/v3/conversations/a:1%3Bmessageid=2"
		body         = `{"type":"message","channelId":"msteams","from":{"id":"28:bot"},"conversation":{"id":"a:1;messageid=2"},"text":"hi"}`
	)
	ctx := t.Context()
	out := func(r *rest) *activity.Activity {
		a := activity.To(r.ref, activity.Message)
		a.ReplyToID = ""
		a.Text = "hi"
		return a
	}
	tests := []struct {
		name, answer string
		do           func(*rest) (string, error)
		want         sent
		result       string
	}{
		{
			"send", `{"id":"out-1"}`, func(r *rest) (string, error) { return r.Send(ctx, r.ref, out(r)) },
			sent{"POST", conversation + "/activities", token, body},
			"out-1",
		},
		{
			"reply", `{"id":"out-2"}`, func(r *rest) (string, error) { return r.Reply(ctx, r.ref, "in/1", out(r)) },
			sent{"POST", conversation + "/activities/in%2F1", token, strings.Replace(body, `"text"`, `"replyToId":"in/1","text"`, 1)},
			"out-2",
		},
		{
			"update", `{}`, func(r *rest) (string, error) { return "", r.Update(ctx, r.ref, "out-1", out(r)) },
			sent{"PUT", conversation + "/activities/out-1", token, body},
			"",
		},
		{
			"delete", ``, func(r *rest) (string, error) { return "", r.Delete(ctx, r.ref, "out-1", false) },
			sent{"DELETE", conversation + "/activities/out-1", token, ""},
			"",
		},
		{
			"react", ``, func(r *rest) (string, error) { return "", r.React(ctx, r.ref, "in/1", "1f44d_+/tone1", true) },
			sent{"PUT", conversation + "/activities/in%2F1/reactions/1f44d_+%2Ftone1", token, ""},
			"",
		},
		{
			"react no more", ``, func(r *rest) (string, error) { return "", r.React(ctx, r.ref, "in-1", "like", false) },
			sent{"DELETE", conversation + "/activities/in-1/reactions/like", token, ""},
			"",
		},
		{
			"typing", ``, func(r *rest) (string, error) { return r.Send(ctx, r.ref, activity.To(r.ref, activity.Typing)) },
			sent{
				"POST", conversation + "/activities", token,
				`{"type":"typing","channelId":"msteams","from":{"id":"28:bot"},"conversation":{"id":"a:1;messageid=2"},"replyToId":"in-1"}`,
			},
			"",
		},
		{"team", `{"id":"19:t","aadGroupId":"g-1","name":"Sales","memberCount":7}`, func(r *rest) (string, error) {
			team, err := r.Team(ctx, r.ref, "19:t/x")
			return fmt.Sprint(team), err
		}, sent{"GET", "/amer/v3/teams/19:t%2Fx", token, ""}, `{g-1 Sales 7}`},
		{"create", `{"id":"a:new","activityId":"1"}`, func(r *rest) (string, error) {
			first := out(r)
			first.ID = "mine"
			r.ref.Conversation.TenantID = "t1"
			created, err := r.CreateConversation(ctx, r.ref, "29:mia", first)
			return created.Conversation.ID + created.ActivityID + strings.TrimPrefix(created.ServiceURL, r.URL), err
		}, sent{
			"POST", "/amer/v3/conversations", token,
			`{"activity":{"type":"message","channelId":"msteams","from":{"id":"28:bot"},"text":"hi"},"bot":{"id":"28:bot"},` +
				`"channelData":{"tenant":{"id":"t1"}},"isGroup":false,"members":[{"id":"29:mia"}],"tenantId":"t1"}`,
		}, "a:new1/amer/"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status := http.StatusCreated
			if tt.want.Method == http.MethodGet {
				status = http.StatusOK
			}
			r := newRest(t, answer(status, tt.answer))
			got, err := tt.do(r)
			if err != nil || got != tt.result {
				t.Errorf("got %q, %v; want %q", got, err, tt.result)
			}
			r.want(t, tt.want)
		})
	}
}

func TestMembersGoesThroughAllPages(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"":      `{"members":[{"id":"1"},{"id":"2"}],"continuationToken":"a b&c"}`,
		"a b&c": `{"members":[{"id":"3"}]}`,
	}
	r := newRest(t, func(w http.ResponseWriter, q *http.Request) {
		answer(200, pages[q.URL.Query().Get("continuationToken")])(w, q)
	})
	var ids string
	for m, err := range r.Members(t.Context(), r.ref) {
		if err != nil {
			t.Fatal(err)
		}
		ids += m.ID
	}
	if ids != "123" {
		t.Errorf("members %q, want 123", ids)
	}
}

func TestMembersEndsWithAnError(t *testing.T) {
	t.Parallel()
	r := newRest(t, answer(404, `{"error":{"code":"ConversationNotFound"}}`))
	n := 0
	for _, err := range r.Members(t.Context(), r.ref) {
		var e *connector.Error
		if n++; !errors.As(err, &e) || e.Code != "ConversationNotFound" {
			t.Errorf("err = %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d yields, want 1", n)
	}
}

func TestAnswersOfASend(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"200", 200, `{"id":"x"}`, "x"},
		{"201", 201, `{"id":"x","more":{"id":1}}`, "x"},
		{"202 empty object", 202, `{}`, ""},
		{"204", 204, ``, ""},
		{"HTML", 200, `<html>`, ""},
		{"array", 200, `[]`, ""},
		{"id of another type", 200, `{"id":7}`, ""},
		{"10 MB", 200, `{"id":"` + strings.Repeat("x", 10<<20) + `"}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRest(t, answer(tt.status, tt.body))
			id, err := r.Send(t.Context(), r.ref, message())
			if err != nil || id != tt.want {
				t.Errorf("id %q, err %v; want %q", id, err, tt.want)
			}
			if len(r.calls) != 1 {
				t.Errorf("%d calls, want 1", len(r.calls))
			}
		})
	}
}

func TestAnActivityWithoutATypeIsNotSent(t *testing.T) {
	t.Parallel()
	r := newRest(t, answer(200, `{}`))
	if _, err := r.Send(t.Context(), reference(r.URL), &activity.Activity{Text: "Hi"}); !errors.Is(err, connector.ErrBadCall) || len(r.calls) > 0 {
		t.Errorf("err = %v after %d calls, want ErrBadCall and none", err, len(r.calls))
	}
}

func TestIDsStayOneSegment(t *testing.T) {
	t.Parallel()
	tests := []struct{ id, want string }{
		{"../../evil", "/v3/conversations/..%2F..%2Fevil/activities"},
		{"a/b", "/v3/conversations/a%2Fb/activities"},
		{"x?y#z", "/v3/conversations/x%3Fy%23z/activities"},
		{"%2e%2e%2f", "/v3/conversations/%252e%252e%252f/activities"},
		{"a\x00b\nc d", "/v3/conversations/a%00b%0Ac%20d/activities"},
		{`a\b`, "/v3/conversations/a%5Cb/activities"},
		{"19:x@thread.tacv2;messageid=1", "/v3/conversations/19:x@thread.tacv2%3Bmessageid=1/activities"},
		{"ü", "/v3/conversations/%C3%BC/activities"},
		{"..", ""},
		{".", ""},
		{"", ""},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			t.Parallel()
			r := newRest(t, answer(200, `{}`))
			ref := reference(r.URL)
			ref.Conversation.ID = tt.id
			_, err := r.Send(t.Context(), ref, message())
			if (err == nil) != (tt.want != "") || err != nil && !errors.Is(err, connector.ErrBadCall) {
				t.Errorf("err = %v", err)
			}
			var uri string
			if len(r.calls) > 0 {
				uri = r.calls[0].URI
			}
			if uri != tt.want {
				t.Errorf("request for %q, want %q", uri, tt.want)
			}
		})
	}
}

func TestWhatGoesOut(t *testing.T) {
	t.Parallel()
	in := `{"type":"message","id":"1","serviceUrl":"https://x/","channelId":"msteams","from":{"id":"b","name":"Bot"},"recipient":{"id":"u"},
		"conversation":{"id":"c","isGroup":true,"tenantId":"t"},"text":"hi <b> & \u2028<at>u</at>","entities":[{"type":"mention","mentioned":{"id":"u"},"text":"<at>u</at>"}],
		"suggestedActions":{},"importance":"high","value":[1],"channelData":{"notification":{"alert":true}}}`
	a, err := activity.Decode([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	a.CallerID = activity.CallerOf(callerID)
	before, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	r := newRest(t, answer(200, `{}`))
	if _, err := r.Send(t.Context(), r.ref, a); err != nil {
		t.Fatal(err)
	}
	want := `{"type":"message","channelId":"msteams","from":{"id":"b"},"conversation":{"id":"c","tenantId":"t"},"text":"hi <b> & \u2028<at>u</at>",
		"entities":[{"type":"mention","mentioned":{"id":"u"},"text":"<at>u</at>"}],"importance":"high","value":[1],"channelData":{"notification":{"alert":true}}}`
	if diff := cmp.Diff(decoded(t, want), decoded(t, r.calls[0].Body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if after, err := a.Encode(); err != nil || string(after) != string(before) {
		t.Errorf("the activity was changed to %s (%v)", after, err)
	}
}

func TestTargetedMessageKeepsItsRecipient(t *testing.T) {
	t.Parallel()
	r := newRest(t, answer(200, `{}`))
	a := message()
	a.Recipient.ID = "29:mia"
	a.Recipient.Extra = jsontext.Value(`{"isTargeted":true}`)
	if _, err := r.Send(t.Context(), r.ref, a); err != nil {
		t.Fatal(err)
	}
	if body := r.calls[0].Body; !strings.Contains(body, `"recipient":{"id":"29:mia","isTargeted":true}`) {
		t.Errorf("body %s", body)
	}
}

func TestTargetedMessagesAreMarked(t *testing.T) {
	t.Parallel()
	r := newRest(t, answer(200, `{"id":"1"}`))
	a := message()
	a.Recipient.ID = "29:mia"
	a.Recipient.Extra = jsontext.Value(`{"isTargeted":true}`)
	if _, err := r.Reply(t.Context(), r.ref, "in-1", a); err != nil {
		t.Fatal(err)
	}
	if err := r.Update(t.Context(), r.ref, "1", a); err != nil {
		t.Fatal(err)
	}
	if err := r.Delete(t.Context(), r.ref, "1", true); err != nil {
		t.Fatal(err)
	}
	const path = "/amer/v3/conversations/a:1%3Bmessageid=2/activities/"
	const rest = `"text":"hello"}`
	r.want(
		t, sent{
			"POST", path + "in-1?isTargetedActivity=true", "Bearer secret-token",
			`{"type":"message","channelId":"msteams","recipient":{"id":"29:mia","isTargeted":true},"replyToId":"in-1",` + rest,
		},
		sent{"PUT", path + "1?isTargetedActivity=true", "Bearer secret-token", `{"type":"message","channelId":"msteams",` + rest},
		sent{"DELETE", path + "1?isTargetedActivity=true", "Bearer secret-token", ""},
	)
}

func decoded(t *testing.T, s string) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return v
}

func TestForbiddenHostsAreNeverCalled(t *testing.T) {
	t.Parallel()
	r := newRest(t, answer(200, `{}`))
	_, port, _ := strings.Cut(strings.TrimPrefix(r.URL, "http://"), ":")
	for _, u := range []string{"http://localhost:" + port, "http://127.0.0.2:" + port, "http://evil.example", "https://10.0.0.1/", ""} {
		if _, err := r.Send(t.Context(), reference(u), message()); !errors.Is(err, connector.ErrHostNotAllowed) {
			t.Errorf("%s: err = %v, want ErrHostNotAllowed", u, err)
		}
	}
	r.want(t)
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	var strayed bool
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed = true }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		r := newRest(t, func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, other.URL, status) })
		var e *connector.Error
		if _, err := r.Send(t.Context(), r.ref, message()); !errors.As(err, &e) || e.Status != status {
			t.Errorf("err = %v, want status %d", err, status)
		}
	}
	if strayed {
		t.Error("a redirect was followed")
	}
}

func TestErrorsAreTyped(t *testing.T) {
	t.Parallel()
	for _, status := range []int{400, 403, 404, 409, 413, 500, 501} {
		r := newRest(t, answer(status, `{"error":{"code":"Bad\nThing","message":"`+strings.Repeat("long ", 1000)+`"}}`))
		_, err := r.Send(t.Context(), r.ref, message())
		var e *connector.Error
		if !errors.As(err, &e) || e.Status != status || e.Code != "Bad Thing" || len(e.Message) > 300 {
			t.Errorf("err = %v, want status %d with code and a cut message", err, status)
		}
		if strings.Contains(err.Error(), "secret-token") {
			t.Errorf("the token is in %v", err)
		}
		if len(r.calls) != 1 {
			t.Errorf("%d calls after %d, want 1", len(r.calls), status)
		}
	}
}

func TestLocalModeSendsNoToken(t *testing.T) {
	t.Parallel()
	r := newRest(t, answer(200, `{"id":"1"}`))
	c := newClient(t, connector.Config{}, nil)
	if _, err := c.Send(t.Context(), r.ref, message()); err != nil {
		t.Fatal(err)
	}
	if got := r.calls[0].Authorization; got != "" {
		t.Errorf("Authorization %q", got)
	}
}

func TestEmptyTokenIsNeverSent(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "a b", "a\r\nX: y"} {
		cfg := withApp(unreachable(t))
		cfg.Tries = 1
		c := newClient(t, cfg, fixedToken(bad))
		var e *connector.TokenError
		if _, err := c.Send(t.Context(), reference(serviceURL), message()); !errors.As(err, &e) {
			t.Errorf("token %q: err = %v, want a TokenError", bad, err)
		}
	}
}

func unreachable(t *testing.T) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		t.Errorf("%s %s was called", r.Method, r.URL)
		return nil, errors.New("unreachable")
	})
}

// script answers each call of a client with the next of its steps, in the time
// of a synctest bubble.
type script struct {
	steps []func(*http.Request) (*http.Response, error)
	at    []time.Duration // when each call came
	start time.Time
	auth  []string
}

func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	s.at = append(s.at, time.Since(s.start))
	s.auth = append(s.auth, r.Header.Get("Authorization"))
	if len(s.at) > len(s.steps) {
		return nil, errors.New("script is over")
	}
	return s.steps[len(s.at)-1](r)
}

func says(status int, header ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.WriteString(`{"id":"done"}`)
		return w.Result(), nil
	}
}

func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func breaks(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection reset by peer")
}

// counter gives out a new token after a refusal.
func counter() connector.Tokens {
	n := -1
	return connector.TokensFrom(func(context.Context) (string, error) { n++; return fmt.Sprint("token", n), nil })
}

func TestRetries(t *testing.T) {
	t.Parallel()
	type step = func(*http.Request) (*http.Response, error)
	const s = time.Second
	tests := []struct {
		name  string
		steps []step
		calls int
		least time.Duration // before the last call
		most  time.Duration
		fails bool
	}{
		{"412", []step{says(412), says(200)}, 2, s / 4, s, false},
		{"429", []step{says(429), says(200)}, 2, s / 4, s, false},
		{"429 with seconds", []step{says(429, "Retry-After", "7"), says(200)}, 2, 7 * s, 7 * s, false},
		{"429 with a date", []step{says(429, "Retry-After", "Sat, 01 Jan 2000 00:00:09 GMT"), says(200)}, 2, 9 * s, 9 * s, false},
		{"429 with a past date", []step{says(429, "Retry-After", "Fri, 31 Dec 1999 00:00:09 GMT"), says(200)}, 2, s / 4, s, false},
		{"429 with nonsense", []step{says(429, "Retry-After", "soon"), says(200)}, 2, s / 4, s, false},
		{"429 for an hour", []step{says(429, "Retry-After", "3600"), says(200)}, 1, 0, 0, true},
		{"429 for a minute and a half", []step{says(429, "Retry-After", "90"), says(200)}, 1, 0, 0, true},
		{"502", []step{says(502), says(201)}, 2, s / 4, s, false},
		{"503", []step{says(503, "Retry-After", "2"), says(201)}, 2, 2 * s, 2 * s, false},
		{"504 twice", []step{says(504), says(504), says(202)}, 3, s, 3 * s, false},
		{"for ever 503", []step{says(503), says(503), says(503), says(503), says(503), says(200)}, 5, 4 * s, 12 * s, true},
		{"401 once", []step{says(401), says(200)}, 2, 0, 0, false},
		{"401 twice", []step{says(401), says(401), says(200)}, 2, 0, 0, true},
		{"no answer once", []step{hangs, says(200)}, 2, 15 * s, 17 * s, false},
		{"no answer twice", []step{hangs, hangs, says(200)}, 2, 15 * s, 17 * s, true},
		{"reset", []step{breaks, says(200)}, 2, s / 4, s, false},
		{"400", []step{says(400), says(200)}, 1, 0, 0, true},
		{"403", []step{says(403), says(200)}, 1, 0, 0, true},
		{"404", []step{says(404), says(200)}, 1, 0, 0, true},
		{"408", []step{says(408), says(200)}, 1, 0, 0, true},
		{"413", []step{says(413), says(200)}, 1, 0, 0, true},
		{"500", []step{says(500), says(200)}, 1, 0, 0, true},
		{"505", []step{says(505), says(200)}, 1, 0, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				script := &script{steps: tt.steps, start: time.Now()}
				c := scripted(t, script, counter())
				id, err := c.Send(t.Context(), reference(serviceURL), message())
				if (err != nil) != tt.fails || !tt.fails && id != "done" {
					t.Errorf("id %q, err %v", id, err)
				}
				if len(script.at) != tt.calls {
					t.Fatalf("%d calls, want %d", len(script.at), tt.calls)
				}
				if last := script.at[tt.calls-1]; last < tt.least || last > tt.most {
					t.Errorf("last call after %v, want %v to %v", last, tt.least, tt.most)
				}
			})
		})
	}
}

func scripted(t *testing.T, rt http.RoundTripper, tokens connector.Tokens) *connector.Client {
	t.Helper()
	return newClient(t, withApp(rt), tokens)
}

func TestARefusedTokenIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := &script{steps: []func(*http.Request) (*http.Response, error){says(401), says(200)}}
		if _, err := scripted(t, script, counter()).Send(t.Context(), reference(serviceURL), message()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"Bearer token0", "Bearer token1"}, script.auth); diff != "" {
			t.Errorf("tokens (-want +got):\n%s", diff)
		}
	})
}

func TestACallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		script := &script{steps: []func(*http.Request) (*http.Response, error){says(429, "Retry-After", "30"), says(200)}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start := time.Now()
		_, err := scripted(t, script, counter()).Send(ctx, reference(serviceURL), message())
		var e *connector.Error
		if !errors.As(err, &e) || e.RetryAfter != 30*time.Second || time.Since(start) != 0 {
			t.Errorf("err = %v after %v, want the 429 at once", err, time.Since(start))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		script := &script{steps: []func(*http.Request) (*http.Response, error){hangs}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err := scripted(t, script, counter()).Send(ctx, reference(serviceURL), message())
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second || len(script.at) > 1 {
			t.Errorf("err = %v after %v and %d calls", err, time.Since(start), len(script.at))
		}
	})
}

// TestNoAnswerIsToldFromNoCall: only what was made may have arrived.
func TestNoAnswerIsToldFromNoCall(t *testing.T) {
	t.Parallel()
	drop := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}
	r := newRest(t, drop)
	if _, err := r.Send(t.Context(), r.ref, message()); !errors.Is(err, connector.ErrNoAnswer) {
		t.Errorf("of an answer that broke off: %v", err)
	}
	refuses := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }
	r.mu.Lock()
	r.answer = func(w http.ResponseWriter, q *http.Request) {
		drop(w, q)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.answer = refuses
	}
	r.mu.Unlock()
	var refused *connector.Error
	if _, err := r.Send(t.Context(), r.ref, message()); !errors.Is(err, connector.ErrNoAnswer) || !errors.As(err, &refused) {
		t.Errorf("of an answer that broke off, and then a refusal: %v", err)
	}
	if _, err := r.Send(t.Context(), r.ref, message()); errors.Is(err, connector.ErrNoAnswer) {
		t.Errorf("of a refusal: %v", err)
	}
	r.Client.Close() // else what is left of a connection may take the call
	r.Server.Close()
	if _, err := r.Send(t.Context(), r.ref, message()); err == nil || errors.Is(err, connector.ErrNoAnswer) {
		t.Errorf("of a server that is gone: %v", err)
	}
}

// deaf is a connection that takes nothing.
type deaf struct{ net.Conn }

func (deaf) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
}

// TestWhatWasNotWrittenIsNotUnanswered, although net/http says that it wrote a request once
// that is in its buffer.
func TestWhatWasNotWrittenIsNotUnanswered(t *testing.T) {
	t.Parallel()
	client := newClient(t, connector.Config{Tries: 1, Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, _ := net.Pipe()
			return deaf{here}, nil
		},
	}}, nil)
	to := activity.Reference{ServiceURL: "http://127.0.0.1:7001/", ChannelID: "msteams"}
	to.Conversation.ID = "a:mia"
	if _, err := client.Send(t.Context(), to, activity.To(to, activity.Message)); err == nil || errors.Is(err, connector.ErrNoAnswer) {
		t.Errorf("of a request that was not written: %v", err)
	}
}

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
		"HTML": "<html>", "nothing": "", "a list": "[]", "10 MB": `{"id":"` + strings.Repeat("x", 10<<20) + `"}`, "another type": `{"memberCount":"x"}`,
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
		if chat, err := r.CreateConversation(t.Context(), r.ref, "29:mia", message()); err == nil || len(r.calls) != 1 {
			t.Errorf("%s: chat %+v, err %v after %d calls, want an error after one", name, chat, err, len(r.calls))
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
				_, err := scripted(t, script, counter()).Send(t.Context(), reference(serviceURL), message())
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

// TestGovernmentCommunityCloud: what its tenants are told by other hosts is followed
// within Microsoft's public connector, and nowhere else.
func TestGovernmentCommunityCloud(t *testing.T) {
	t.Parallel()
	const (
		public = "https://smba.trafficmanager.net/amer/"
		gcc    = "https://smba.infra.gcc.teams.microsoft.com/teams"
	)
	tests := []struct {
		name, cloud, listed, service string
		status                       int
		code                         string
		stubborn                     bool // every host says so
		want                         []string
	}{
		{"moved", "public", "", public, 403, "InvalidBotApiHost", false, []string{public, gcc + "/"}},
		{"everywhere refused", "public", "", public, 403, "InvalidBotApiHost", true, []string{public, gcc + "/"}},
		{"refused there", "public", "", gcc, 403, "InvalidBotApiHost", true, []string{gcc + "/"}},
		{"another refusal", "public", "", public, 403, "BotNotInConversationRoster", false, []string{public}},
		{"another status", "public", "", public, 400, "InvalidBotApiHost", false, []string{public}},
		{"another cloud", "gcch", "", "https://smba.infra.gov.teams.microsoft.us/gcch/", 403, "InvalidBotApiHost", false, []string{"https://smba.infra.gov.teams.microsoft.us/gcch/"}},
		{"a listed host", "public", "connector.example", "https://connector.example/", 403, "InvalidBotApiHost", false, []string{"https://connector.example/"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, strings.TrimSuffix(r.URL.String(), "v3/conversations/a:1%3Bmessageid=2/activities"))
				w := httptest.NewRecorder()
				if len(asked) == 1 || tt.stubborn {
					answer(tt.status, `{"error":{"code":"`+tt.code+`"}}`)(w, r)
				} else {
					answer(201, `{"id":"1"}`)(w, r)
				}
				return w.Result(), nil
			})
			cfg := withApp(transport, tt.listed)
			cfg.Cloud = tt.cloud
			c := newClient(t, cfg, fixedToken("t"))
			var e *connector.Error
			id, err := c.Send(t.Context(), reference(tt.service), message())
			if moved := len(tt.want) == 2 && !tt.stubborn; moved != (id == "1") || !moved && (!errors.As(err, &e) || e.Status != tt.status) {
				t.Errorf("id %q, err %v", id, err)
			}
			if diff := cmp.Diff(tt.want, asked); diff != "" {
				t.Errorf("hosts (-want +got):\n%s", diff)
			}
		})
	}
}
