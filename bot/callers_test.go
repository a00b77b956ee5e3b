package bot_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
)

const (
	ownApp     = "0b0c0d0e-1111-2222-3333-444455556666"
	callingApp = "9c9d9e9f-1111-2222-3333-444455556666"
	ownTenant  = "7a7b7c7d-1111-2222-3333-444455556666"
	ofChannel  = "Bearer for-https://api.botframework.com/.default"
	ofCaller   = "Bearer for-" + callingApp + "/.default"
)

// callersDoor lets everybody in, as a channel or as the bot that the Authorization
// header names: a stand-in for what the guard has proved.
type callersDoor struct{}

func (callersDoor) Authenticate(r *http.Request) (bot.Caller, error) {
	return caller(r.Header.Get("Authorization")), nil
}

type caller string

func (caller) Permit(*activity.Activity) error { return nil }
func (caller) Trusted() bool                   { return true }

func (c caller) ID() string {
	if c == "" {
		return "urn:botframework:azure"
	}
	return activity.CallerOf(string(c))
}

// called makes a bot one that other bots call, with tokens that name their scope.
func called(t *testing.T, callers connector.Callers) func(*bot.Config) {
	t.Helper()
	return loggedIn(t, callers, loginServer{})
}

// loggedIn makes a bot one with an app id, whose tokens come from login.
func loggedIn(t *testing.T, callers connector.Callers, login http.RoundTripper) func(*bot.Config) {
	t.Helper()
	_, client, err := connector.New(connector.Config{
		AppID: ownApp, Credentials: connector.Credentials{Password: "p"}, Callers: callers,
		AllowedHosts: []string{"127.0.0.1"}, Transport: withLogin{login},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return func(c *bot.Config) { c.Authenticator, c.Channel = callersDoor{}, client }
}

// withLogin carries requests to the login server over its own transport.
type withLogin struct{ login http.RoundTripper }

func (w withLogin) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Host == "login.microsoftonline.com" {
		return w.login.RoundTrip(r)
	}
	return overWires.RoundTrip(r)
}

type loginServer struct{}

func (loginServer) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(body))
	w := httptest.NewRecorder()
	_, _ = fmt.Fprintf(w, `{"access_token":"for-%s","expires_in":3600}`, form.Get("scope"))
	return w.Result(), err
}

func listedCaller() connector.Callers {
	return connector.Callers{Tenant: ownTenant, Bots: []string{callingApp}}
}

// skill is a bundle that others call.
type skill struct {
	*bundle
	change func(*bot.Config)
}

func newSkill(t *testing.T) skill {
	t.Helper()
	change := called(t, listedCaller())
	return skill{setup(t, change), change}
}

// from delivers as that caller; "" is the channel.
func (s skill) from(app, url string, over event) answer {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, url, strings.NewReader(string(s.activity(over))))
	s.must(err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", app)
	resp, err := overWires.RoundTrip(req)
	s.must(err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	s.must(err)
	return answer{resp.StatusCode, string(raw), resp.Header}
}

// expectFor takes the next message and looks at whom it is for.
func (s skill) expectFor(token, want string) {
	s.Helper()
	if got := s.connector.Next(s); got.Authorization != token || !strings.Contains(got.Text(), want) {
		s.Errorf("%q with %q, want %q with %q", got.Text(), got.Authorization, want, token)
	}
}

// TestACallerGetsTokensOfItsOwn, for all that a turn sends.
func TestACallerGetsTokensOfItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSkill(t)
		slow := addGate(s.bundle, "wait")
		s.model.Says(plan(do("wait", `{}`), say("Hello.")))
		done := make(chan answer)
		go func() { done <- s.from(callingApp, s.url, event{"text": "hi"}) }()
		<-slow.entered
		s.connector.AwaitTyping(s)
		slow.open <- struct{}{}
		s.expectFor(ofCaller, "Hello.")
		<-done
		s.model.Says(plan(say("Hello, channel.")))
		s.from("", s.url, event{"text": "hi"})
		s.expectFor(ofChannel, "Hello, channel.")
		for _, sent := range s.connector.All() {
			if want := map[bool]string{true: ofChannel, false: ofCaller}[sent.Text() == "Hello, channel."]; sent.Authorization != want {
				t.Errorf("%s %q with %q", sent.Type(), sent.Text(), sent.Authorization)
			}
		}
	})
}

// TestACallerReachesNothingOfTheChannel by naming its conversations and people.
func TestACallerReachesNothingOfTheChannel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSkill(t)
		s.model.Says(plan(do("createList", `{"list":"mine"}`), say("Made.")))
		s.from("", s.url, event{"text": "make a list"})
		s.expectFor(ofChannel, "Made.")
		before := s.documents()
		s.model.Says(plan(`{"type":"DO","action":"summarizeLists","entities":{},"saveAs":"IT"}`, say("$IT")))
		s.from(callingApp, s.url, event{"text": "which lists?"})
		if got := s.connector.Next(s); strings.Contains(got.Text(), "mine") || got.Authorization != ofCaller {
			t.Errorf("the caller was told %q with %q", got.Text(), got.Authorization)
		}
		s.from(callingApp, s.url, event{"text": "/forget yes"})
		s.expectFor(ofCaller, "I've deleted everything")
		if got := s.documents(); len(got) < len(before) {
			t.Errorf("left %q of %q", got, before)
		}
		// Where the conversation of the channel is, has not changed.
		if _, err := s.bot.Notify(t.Context(), actions.Notice{To: miasChat, Text: "News."}); err != nil {
			t.Fatal(err)
		}
		s.expectFor(ofChannel, "News.")
		its := actions.Recipient{Channel: "msteams", Bot: "28:bot", Caller: callingApp, Conversation: "a:mia"}
		if _, err := s.bot.Notify(t.Context(), actions.Notice{To: its, Text: "News."}); err == nil {
			t.Error("what the caller had forgotten was notified")
		}
	})
}

// TestACallerIsRemindedByAnyReplica: who the caller is goes with what waits.
func TestACallerIsRemindedByAnyReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSkill(t)
		s.model.Says(remindPlan(`{"what":"drink","in_minutes":10}`))
		s.from(callingApp, s.url, event{"text": "remind me"})
		s.expectFor(ofCaller, "drink")
		s.addReplica(s.change)
		s.pass(11 * time.Minute)
		s.expectFor(ofCaller, "Reminder: drink")
	})
}

// TestACallerThatWasTakenOffTheListIsSentNothing, also what has waited for it.
func TestACallerThatWasTakenOffTheListIsSentNothing(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		s := skill{b, called(t, listedCaller())}
		first := s.addReplica(s.change, func(c *bot.Config) { c.AckTimeout = 10 * time.Second })
		s.model.Says(remindPlan(`{"what":"drink","in_minutes":10}`))
		s.from(callingApp, first.url, event{"text": "remind me"})
		s.expectFor(ofCaller, "drink")
		first.kill()
		s.addReplica(called(t, connector.Callers{}))
		s.pass(11 * time.Minute)
		s.until("that it was given up", func() bool {
			return slices.ContainsFunc(strings.Split(s.log.String(), "\n"), func(line string) bool {
				return strings.Contains(line, "the calling bot is not allowed") && strings.Contains(line, `"message":"turn ended"`)
			})
		})
		s.connector.None(t)
	})
}

// TestATurnOfACallerIsTakenOver with what was proved of it, a decision and its card
// included; what the wire says is not believed.
func TestATurnOfACallerIsTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := skill{setup(t), called(t, listedCaller())}
		slow := addGate(s.bundle, "wipe", actions.NeedsApproval)
		actions.Add(s.actions, "who", "Who", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			return actions.Text("%s", turn.Activity.CallerApp()), nil
		})
		first := s.addReplica(s.change)
		s.model.Says(plan(do("wipe", `{}`), `{"type":"DO","action":"who","entities":{},"saveAs":"WHO"}`, say("Wiped for $WHO.")))
		s.from(callingApp, first.url, event{"text": "wipe it", "callerId": "urn:botframework:azure"})
		card := s.connector.Next(s)
		approve, _ := buttons(t, card)
		s.from(callingApp, first.url, click(approve, event{"callerId": "urn:botframework:azure"}))
		<-slow.entered
		first.kill()
		s.addReplica(s.change)
		s.expectFor(ofCaller, "Wiped for "+callingApp+".")
		if update := s.connector.NextUpdate(s); card.Authorization != ofCaller || update.Authorization != ofCaller {
			t.Errorf("card with %q, updated with %q", card.Authorization, update.Authorization)
		}
		s.connector.None(t)
	})
}
