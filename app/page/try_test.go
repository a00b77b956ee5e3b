package page_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// attempted is a bot with its page. Once it is armed, whatever touches its actions, its channel or its store
// fails the test.
type attempted struct {
	*testing.T
	url    string
	token  string
	bot    *bot.Bot
	page   *page.Page
	folder string // for tests
	armed  atomic.Bool

	mu      sync.Mutex
	answers []string      // of the model
	asked   int           // questions to the model of what-ifs
	hold    chan struct{} // nil: what-ifs do not wait
}

func (s *attempted) touched(what string) {
	if s.armed.Load() {
		s.Errorf("the %s was touched", what)
	}
}

// Complete is the model.
func (s *attempted) Complete(ctx context.Context, _ *models.Request) (*models.Response, error) {
	s.mu.Lock()
	hold := s.hold
	if s.armed.Load() {
		s.asked++
	}
	answer := bottest.Plan(bottest.Say("I have nothing to say."))
	if len(s.answers) > 0 {
		answer, s.answers = s.answers[0], s.answers[1:]
	}
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &models.Response{Text: answer, Finish: "stop", Usage: models.Usage{Prompt: 1000, Completion: 100}}, nil
}

func (s *attempted) says(answers ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, answers...)
}

// watchedChannel and watchedConn fail the test when they are touched.
type watchedChannel struct {
	turn.Channel
	of *attempted
}

func (c watchedChannel) Send(ctx context.Context, to activity.Reference, a *activity.Activity) (string, error) {
	c.of.touched("channel")
	return c.Channel.Send(ctx, to, a)
}

func (c watchedChannel) Reply(ctx context.Context, to activity.Reference, replyTo string, a *activity.Activity) (string, error) {
	c.of.touched("channel")
	return c.Channel.Reply(ctx, to, replyTo, a)
}

type watchedConn struct {
	net.Conn
	of *attempted
}

func (c watchedConn) Write(p []byte) (int, error) {
	c.of.touched("store")
	return c.Conn.Write(p)
}

// registry has lists, and actions that only say that they ran.
func (s *attempted) registry() *actions.Registry {
	r := actions.New()
	s.register(r)
	return r
}

func (s *attempted) register(r *actions.Registry) {
	lists.Register(r)
	type in struct {
		What string `json:"what" jsonschema:"what"`
	}
	does := func(text string) func(context.Context, *actions.Turn, in) (actions.Result, error) {
		return func(context.Context, *actions.Turn, in) (actions.Result, error) {
			s.touched("action " + text)
			if text == "" {
				return actions.Fail("it is broken"), nil
			}
			return actions.JSON(map[string]any{"id": text}), nil
		}
	}
	actions.Add(r, "deploy", "Deploys", does("d-1"), actions.NeedsApproval)
	actions.Add(r, "ticket", "Makes a ticket", does("t-1"))
	actions.Add(r, "forbidden", "Is not allowed", does("f-1"))
	actions.Add(r, "breakIt", "Fails", does(""))
	actions.Add(r, "tell", "Tells somebody", func(ctx context.Context, t *actions.Turn, in in) (actions.Result, error) {
		_, err := t.Notifier.Notify(ctx, actions.Notice{To: actions.Recipient{User: in.What}, Text: "It is **time**."})
		return actions.Done, err
	})
}

func try(t *testing.T) *attempted {
	t.Helper()
	s := &attempted{T: t, folder: filepath.Join(t.TempDir(), "scenarios")}
	p, err := page.New(page.Config{Name: "Listbot", Secrets: []string{"correct horse"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	s.page = p
	redis, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Close() })
	store, err := state.Open(t.Context(), "redis://store", state.Config{Server: redis, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := redis.Dial(ctx, network, addr)
		return watchedConn{conn, s}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	guard, client, err := connector.New(connector.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	t.Cleanup(guard.Close)
	acts := s.registry()
	maker, err := planner.NewSequence(t.Context(), planner.Config{Model: s, Actions: acts, Watch: p.Turns().WatchPlanner})
	if err != nil {
		t.Fatal(err)
	}
	policy := func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if call.Action.Name == "forbidden" {
			return actions.Approval{Denied: "nobody may"}, nil
		}
		if call.Entities["what"] == "both" {
			both := []string{"29:1x7Qm2otto-T9yH3uLf6cXaJq", "29:1x7Qm2ada-W5vB1iNg7rZoMe"} // of the page
			return actions.Approval{Required: true, Approvers: both, Quorum: 2}, nil
		}
		return actions.DefaultPolicy(ctx, turn, call)
	}
	s.bot, err = bot.New(bot.Config{
		Actions: acts, Planner: maker, Store: store, Policy: policy, Authenticator: bot.Guarded(guard),
		Channel: p.Turns().Channel(watchedChannel{client, s}), Features: []bot.Feature{{Event: p.Turns().WatchTurn}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	shown, err := p.Handler(server.Listener.Addr(), page.Parts{
		Bot: s.bot, Scenarios: s.folder,
		WhatIf: func(ctx context.Context, c page.Change) (page.Trial, error) {
			own := acts
			if c.Actions != nil {
				var offers []actions.Offer
				for _, name := range c.Actions {
					offers = append(offers, actions.Offer{Name: name})
				}
				if own, err = acts.Only(offers...); err != nil {
					return page.Trial{}, err
				}
			}
			maker, err := planner.NewSequence(ctx, planner.Config{Model: s, Actions: own, Watch: c.Watch})
			return page.Trial{Planner: maker, Actions: own, Policy: policy, Model: "the scripted model", Price: [3]float64{1, 1, 10}}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", shown)
	mux.Handle("/api/messages", s.bot)
	server.Config.Handler = mux
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(p.HangUp)
	s.bot.Start()
	t.Cleanup(func() { _ = s.bot.Drain(context.WithoutCancel(t.Context())) })
	s.url = server.URL
	s.token = regexp.MustCompile(`planbot-token" content="([^"]+)"`).FindStringSubmatch(s.get("/dev/"))[1]
	return s
}

// arm stops the bot, whose queues look at the store, and then lets nothing be touched.
func (s *attempted) arm() {
	s.Helper()
	if err := s.bot.Drain(s.Context()); err != nil {
		s.Fatal(err)
	}
	s.armed.Store(true)
	s.Cleanup(func() { s.armed.Store(false) })
}

func (s *attempted) do(method, path string, form url.Values) (status int, body, to string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		s.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatal(err)
	}
	return res.StatusCode, string(raw), res.Header.Get("Location")
}

func (s *attempted) get(path string) string {
	s.Helper()
	status, body, _ := s.do(http.MethodGet, path, nil)
	if status != http.StatusOK {
		s.Fatalf("GET %s: %d %s", path, status, body)
	}
	return body
}

// say says something and returns the id of the turn once that is over.
func (s *attempted) say(room, text string) (id string) {
	s.Helper()
	had := len(s.page.Turns().Turns())
	if status, body, _ := s.do(http.MethodPost, "/dev/chat/say", url.Values{"room": {room}, "as": {"mia"}, "text": {text}}); status >= 400 {
		s.Fatalf("say: %d %s", status, body)
	}
	return s.over(had)
}

// over waits until there are more turns than before and all are over.
func (s *attempted) over(had int) (id string) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err := s.page.Turns().Settle(s.Context()); err != nil { // what it was told so far is in the log
			s.Fatal(err)
		}
		all := s.page.Turns().Turns()
		if len(all) > had && !slices.ContainsFunc(all, func(h turnlog.Head) bool { return h.Outcome == turnlog.Running }) {
			return all[0].ID
		}
	}
	s.Fatal("no turn came to its end")
	return ""
}

// whatIf runs a what-if and returns its result as the page has it.
func (s *attempted) whatIf(id string, form url.Values) (status int, body string, res whatIfResult) {
	s.Helper()
	var at struct {
		Changes struct{ State string }
	}
	if err := json.Unmarshal([]byte(s.get("/dev/turns/"+id+"/what-if.json")), &at); err != nil {
		s.Fatal(err)
	}
	all := url.Values{"token": {s.token}, "text": {"something else"}, "state": {at.Changes.State}, "told": {"9999"}}
	for name, values := range form {
		all[name] = values
	}
	status, body, to := s.do(http.MethodPost, "/dev/turns/"+id+"/what-if", all)
	if status == http.StatusSeeOther {
		body = s.get(to)
		var twin struct{ Result whatIfResult }
		if err := json.Unmarshal([]byte(s.get(strings.Replace(to, "what-if?", "what-if.json?", 1))), &twin); err != nil {
			s.Fatal(err)
		}
		res = twin.Result
	}
	return status, body, res
}

type whatIfResult struct {
	Runs []struct {
		Calls []struct{ Action, Text, Verdict, Result string }
		Stops string
		Fault string
		Plans []json.RawMessage
	}
	Plans []struct {
		Text  string
		Times int
	}
	Same    bool
	Stopped string
}

func (r whatIfResult) verdicts() (all []string) {
	for _, c := range r.Runs[0].Calls {
		all = append(all, cmp.Or(c.Action, "SAY")+": "+c.Verdict)
	}
	return all
}

// doAs saves the result of a call under a name.
func doAs(name, action string, pairs ...any) plan.Command {
	c := bottest.Do(action, pairs...)
	c.SaveAs = name
	return c
}

// TestWhatIf plans again while nothing may be touched, and leaves all as it was.
func TestWhatIf(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.says(
		bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk"), bottest.Say("Milk is there.")),
		bottest.Plan(doAs("T", "ticket", "what", "VPN"), bottest.Say("Ticket $T.id is open.")),
		bottest.Plan(bottest.Do("breakIt", "what", "x")),
		bottest.Plan(bottest.Say("It is broken.")),
	)
	s.say("mia", "add milk to groceries")
	ticket := s.say("mia", "the VPN is down")
	broken := s.say("mia", "break it")
	s.arm()
	before := s.get("/dev/turns.json") + s.get("/dev/parts/messages?room=mia") + s.get("/dev/turns/"+ticket+".json")
	for name, c := range map[string]struct {
		turn    string
		answers []string
		form    url.Values
		want    []string
		stops   string
		fault   string
	}{
		"the recorded result": {
			turn: ticket, answers: []string{bottest.Plan(doAs("N", "ticket", "what", "VPN"), bottest.Say("It is $N.id."))},
			want: []string{"ticket: gets the recorded result", "SAY: would be said"},
		},
		"another call": {
			turn: ticket, answers: []string{bottest.Plan(doAs("N", "ticket", "what", "printer"), bottest.Do("deleteList", "list", "groceries"), bottest.Say("It is $N.id."))},
			want: []string{"ticket: would run; fits the schema; needs no approval", "deleteList: would run; fits the schema; needs no approval"}, stops: "needs the result of ticket",
		},
		"an approval": {
			turn: ticket, answers: []string{bottest.Plan(bottest.Do("deploy", "what", "it"), bottest.Say("Deployed."))},
			want: []string{"deploy: would run; fits the schema; needs approval", "SAY: would be said"},
		},
		"a denied call": {
			turn: ticket, answers: []string{bottest.Plan(bottest.Do("forbidden", "what", "it")), bottest.Plan(bottest.Say("I may not."))},
			want: []string{"forbidden: would not run; fits the schema; the policy denies it: nobody may", "SAY: would be said"},
		},
		"a call that needs an unknown result": {
			turn: ticket, answers: []string{bottest.Plan(doAs("N", "ticket", "what", "printer"), bottest.Do("deploy", "what", "$N.id"))},
			want: []string{"ticket: would run; fits the schema; needs no approval"}, stops: "needs the result of ticket",
		},
		"a result for the model": {
			turn: ticket, answers: []string{bottest.Plan(bottest.Do("ticket", "what", "VPN")), bottest.Plan(bottest.Say("It was t-1."))},
			want: []string{"ticket: gets the recorded result", "SAY: would be said"},
		},
		"an unknown result for the model": {
			turn: ticket, answers: []string{bottest.Plan(bottest.Do("ticket", "what", "else"))},
			want: []string{"ticket: would run; fits the schema; needs no approval"}, stops: "the model would see the result of ticket",
		},
		"a recorded failure": {
			turn: broken, answers: []string{bottest.Plan(bottest.Do("breakIt", "what", "x"), bottest.Say("Done.")), bottest.Plan(bottest.Say("It still is."))},
			want: []string{"breakIt: gets the recorded result", "SAY: would be said"},
		},
		"an action that is not offered": {
			turn: ticket, answers: slices.Repeat([]string{bottest.Plan(bottest.Do("ticket", "what", "VPN"))}, 3), form: url.Values{"choose": {"1"}, "action": {"deploy"}},
			fault: "ticket",
		},
	} {
		s.mu.Lock()
		s.answers = nil
		s.mu.Unlock()
		s.says(c.answers...)
		status, body, res := s.whatIf(c.turn, c.form)
		if status != http.StatusSeeOther || len(res.Runs) != 1 {
			t.Errorf("%s: got %d %s", name, status, body)
			continue
		}
		if got := res.verdicts(); !slices.Equal(got, c.want) || !strings.Contains(res.Runs[0].Stops, c.stops) || c.stops == "" && res.Runs[0].Stops != "" {
			t.Errorf("%s: got %q, %q; want %q, %q", name, got, res.Runs[0].Stops, c.want, c.stops)
		}
		if !strings.Contains(res.Runs[0].Fault, c.fault) || c.fault == "" && res.Runs[0].Fault != "" {
			t.Errorf("%s: fault %q, want %q", name, res.Runs[0].Fault, c.fault)
		}
		for _, part := range []string{"<h2 id=\"w-plans\">Both plans", ">Recorded</h3>", ">New</h3>", "something else", "Tokens in"} {
			if !strings.Contains(body, part) {
				t.Errorf("%s: no %q in the view", name, part)
			}
		}
	}
	s.says(slices.Repeat([]string{bottest.Plan(bottest.Say("One.")), bottest.Plan(bottest.Say("Two."))}, 2)[:3]...)
	if _, _, res := s.whatIf(ticket, url.Values{"runs": {"3"}}); len(res.Runs) != 3 || len(res.Plans) != 2 || res.Plans[0].Times != 2 {
		t.Errorf("three runs: %+v", res)
	}
	s.says(bottest.Plan(doAs("T", "ticket", "what", "VPN"), bottest.Say("Ticket $T.id is open.")))
	if _, _, res := s.whatIf(ticket, nil); !res.Same {
		t.Error("the same plan is another one")
	}
	if after := s.get("/dev/turns.json") + s.get("/dev/parts/messages?room=mia") + s.get("/dev/turns/"+ticket+".json"); after != before {
		t.Error("the list of turns, the conversation or the turn is not as it was")
	}
}

// TestWhatIfRefuses what is no what-if, and asks no model for it.
func TestWhatIfRefuses(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.says(bottest.Plan(bottest.Say("Hello.")))
	id := s.say("mia", "hello")
	s.arm()
	if !strings.Contains(s.get("/dev/turns/"+id+"/what-if"), "200000 of 200000 tokens are left") {
		t.Error("the form does not say what a run may cost")
	}
	for name, c := range map[string]struct {
		form   url.Values
		status int
		want   string
	}{
		"no token":          {url.Values{"token": {"x"}}, 403, "token"},
		"no text":           {url.Values{"text": {" "}}, 200, "there is no text"},
		"no number":         {url.Values{"runs": {"11"}}, 200, "from 1 to 10"},
		"no JSON":           {url.Values{"state": {"{"}}, 200, "the state is no JSON"},
		"no scope":          {url.Values{"state": {`{"team":{}}`}}, 200, "no scope"},
		"cost was not told": {url.Values{"told": {"100"}}, 200, "Nothing was asked yet"},
	} {
		if status, body, _ := s.whatIf(id, c.form); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: got %d %s", name, status, body)
		}
	}
	if status, _, _ := s.do(http.MethodPost, "/dev/turns/nothing/what-if", url.Values{"token": {s.token}}); status != 404 {
		t.Errorf("a turn that is not there: %d", status)
	}
	if s.asked != 0 {
		t.Errorf("the model was asked %d times", s.asked)
	}
}

// TestWhatIfOneAtATime: a second one is refused as long as the first runs.
func TestWhatIfOneAtATime(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.says(bottest.Plan(bottest.Say("Hello.")))
	id := s.say("mia", "hello")
	s.arm()
	s.mu.Lock()
	s.hold = make(chan struct{})
	s.mu.Unlock()
	var first sync.WaitGroup
	first.Go(func() {
		if status, body, _ := s.whatIf(id, nil); status != http.StatusSeeOther {
			t.Errorf("the first: %d %s", status, body)
		}
	})
	for asked := 0; asked == 0; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		asked = s.asked
		s.mu.Unlock()
	}
	if status, body, _ := s.whatIf(id, nil); status != http.StatusConflict || !strings.Contains(body, "One runs at a time") {
		t.Errorf("the second: %d %s", status, body)
	}
	close(s.hold)
	first.Wait()
}

// TestWhatIfBudget: when it is used up, no model is asked any more.
func TestWhatIfBudget(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.says(bottest.Plan(bottest.Say("Hello.")))
	id := s.say("mia", "hello")
	s.arm()
	for range 200_000/1100/10 + 1 {
		_, _, res := s.whatIf(id, url.Values{"runs": {"10"}})
		if res.Stopped != "" {
			break
		}
	}
	asked := s.asked
	if status, body, _ := s.whatIf(id, nil); status != http.StatusOK || !strings.Contains(body, "The budget of 200000 tokens") || s.asked != asked || asked > 190 {
		t.Errorf("got %d after %d questions, then %d: %s", status, asked, s.asked, body)
	}
}

// lastSaid is the last message that a turn sent: a typing indicator may come after it.
func lastSaid(rec turnlog.Record) (text string) {
	for _, s := range rec.Sent {
		if len(s.Activity) > 0 {
			text = s.Text
		}
	}
	return text
}

// TestGoOn: a conversation goes on under new ids, and the old one is as it was.
// shows waits until the messages of a conversation show a text.
func (s *attempted) shows(room, text string) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(s.get("/dev/parts/messages?room="+room), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s does not show %q", room, text)
		}
	}
}

// press clicks on the newest card of a conversation, and returns the turn of the click once that is over.
func (s *attempted) press(room, as, title string) (id string) {
	s.Helper()
	var chat struct {
		Messages []struct {
			ID       string
			Activity struct {
				Attachments []struct {
					Content struct{ Actions []map[string]any }
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(s.get("/dev/.json?room="+room+"&as="+as)), &chat); err != nil {
		s.Fatal(err)
	}
	had := len(s.page.Turns().Turns())
	for _, m := range slices.Backward(chat.Messages) {
		for _, at := range m.Activity.Attachments {
			for _, button := range at.Content.Actions {
				if button["title"] != title {
					continue
				}
				maps.Copy(button, map[string]any{"room": room, "as": as, "message": m.ID})
				raw, _ := json.Marshal(button) // it was JSON
				req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.url+"/dev/chat/click", bytes.NewReader(raw))
				if err != nil {
					s.Fatal(err)
				}
				req.Header.Set("Content-Type", "application/json")
				res, err := http.DefaultClient.Do(req)
				if err != nil || res.StatusCode != http.StatusNoContent {
					s.Fatal(res, err)
				}
				_ = res.Body.Close() // nothing is read
				return s.over(had)
			}
		}
	}
	s.Fatalf("%s has no button %s", room, title)
	return ""
}

// TestFilter: a turn is found by what went wrong in it, also if it ended well, and the list says that none matches.
func TestFilter(t *testing.T) {
	t.Parallel()
	s := try(t)
	if rows := s.get("/dev/turns?q=x"); !strings.Contains(rows, "No turn yet.") {
		t.Errorf("without turns: %s", rows)
	}
	s.says(bottest.Plan(bottest.Do("breakIt", "what", "it"), bottest.Do("ticket", "what", "it"), bottest.Say("It is done.")), bottest.Plan(bottest.Say("I cannot.")), bottest.Plan(bottest.Say("Hello.")))
	id := s.say("mia", "break it, please")
	s.say("mia", "hello")
	for _, path := range []string{"/dev/turns", "/dev/parts/turns"} {
		if rows := s.get(path + "?q=It+IS+broken"); strings.Count(rows, "data-turn=") != 1 || !strings.Contains(rows, id) {
			t.Errorf("%s by an error: %s", path, rows)
		}
		if rows := s.get(path + "?q=nowhere"); !strings.Contains(rows, "No turn matches.") {
			t.Errorf("%s without a match: %s", path, rows)
		}
	}
	s.do(http.MethodPost, "/dev/chat/again", nil)
	s.over(2)
	if rows := s.get("/dev/turns?q=hello"); strings.Count(rows, "came 2 times") != 1 || !strings.Contains(rows, `data-outcome="duplicate"`) {
		t.Errorf("what was delivered twice is %s", rows)
	}
	if view := s.get("/dev/turns/" + id); strings.Count(view, "The action breakIt failed before it: it is broken") != 2 {
		t.Errorf("what came after the failure does not say why it did not run: %s", view)
	}
	// Each of its two plans is numbered from 1.
	if view := s.get("/dev/turns/" + id); !strings.Contains(view, "Plan 1<") || strings.Index(view, "Plan 2<") < strings.Index(view, "Plan 1<") {
		t.Errorf("the plans are not told apart: %s", view)
	}
}

// TestNotApproved: a turn whose call was rejected is not shown as one that went well.
func TestNotApproved(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.says(bottest.Plan(bottest.Do("deploy", "what", "it"), bottest.Say("It is out.")))
	id := s.say("mia", "deploy it")
	s.press("mia", "mia", "Reject")
	s.shows("mia", "OK, I won&#39;t do this")
	s.over(1)
	if rows := s.get("/dev/turns?outcome=not+approved"); strings.Count(rows, "data-turn=") != 1 ||
		!strings.Contains(rows, `data-turn="`+id+`" data-outcome="not approved"`) {
		t.Errorf("not approved are %s", rows)
	}
	if view := s.get("/dev/turns/" + id); strings.Count(view, "A person rejected it, or nobody approved it in time.") != 2 {
		t.Errorf("the commands do not say why they did not run: %s", view)
	}
}

// TestAnsweredTogether: messages that another turn answers lead there, from the list and from the chat.
func TestAnsweredTogether(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.hold = make(chan struct{})
	for i := range 4 {
		s.do(http.MethodPost, "/dev/chat/say", url.Values{"room": {"mia"}, "as": {"mia"}, "text": {fmt.Sprint("number ", i)}})
	}
	close(s.hold)
	s.shows("mia", "I have nothing to say.")
	joined := regexp.MustCompile(`data-outcome="joined".*?in turn (\w+)</span>`)
	found := [][]string{}
	for deadline := time.Now().Add(time.Minute); len(found) < 2 && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		found = joined.FindAllStringSubmatch(s.get("/dev/turns"), -1)
	}
	if len(found) != 2 || found[0][1] != found[1][1] {
		t.Fatalf("joined are %v in %s", found, s.get("/dev/turns"))
	}
	if chat := s.get("/dev/?room=mia"); strings.Count(chat, `data-of="`+found[0][1]) < 3 {
		t.Errorf("the messages do not lead to %s: %s", found[0][1], chat)
	}
}

// TestNotice: a turn that nobody asked for says what it is, for whom it is and which turn made it, and one can filter for it.
func TestNotice(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.says(bottest.Plan(bottest.Do("tell", "what", "a42d7b90-15e3-4f6a-8d2c-7e90b3c5f102"), bottest.Say("Otto knows.")))
	s.do(http.MethodPost, "/dev/chat/say", url.Values{"room": {"lunch"}, "as": {"mia"}, "text": {"@Listbot tell Otto"}})
	s.shows("otto", "It is <strong>time</strong>.")
	s.over(1)
	var list struct {
		Turns []struct{ ID, Type, Text, Parent string }
	}
	if err := json.Unmarshal([]byte(s.get("/dev/turns.json")), &list); err != nil {
		t.Fatal(err)
	}
	notice := list.Turns[0]
	if notice.Type != "event notice" {
		notice = list.Turns[1]
	}
	if view := s.get("/dev/turns/" + notice.ID); !strings.Contains(view, "notice: It is **time**.") || !strings.Contains(view, "Follows <a") {
		t.Errorf("the notice is %s", view)
	}
	if view := s.get("/dev/turns/" + notice.Parent); !strings.Contains(view, "Sent a notice to Otto Oduya in <a") {
		t.Errorf("what made the notice is %s", view)
	}
	if rows := s.get("/dev/activities?q=otto+oduya"); strings.Count(rows, "<tr data-status") != 1 || !strings.Contains(rows, "It is **time**.") {
		t.Errorf("the activities of Otto are %s", rows)
	}
	if rows := s.get("/dev/activities?q=lunch"); strings.Count(rows, "Mia Meyer in Lunch</td>") != 2 {
		t.Errorf("the activities of the group are %s", rows)
	}
}

// TestRunningTurn: it is not over, and its answers are not there yet.
func TestRunningTurn(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.hold = make(chan struct{})
	release := sync.OnceFunc(func() { close(s.hold) })
	defer release()
	if status, body, _ := s.do(http.MethodPost, "/dev/chat/say", url.Values{"room": {"mia"}, "as": {"mia"}, "text": {"hello"}}); status >= 400 {
		t.Fatalf("say: %d %s", status, body)
	}
	view := ""
	for deadline := time.Now().Add(time.Minute); !strings.Contains(view, "no answers yet"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the turn is %s", view)
		}
		if all := s.page.Turns().Turns(); len(all) > 0 {
			view = s.get("/dev/turns/" + all[0].ID)
		}
	}
	if list := s.get("/dev/turns"); !strings.Contains(view, ", not over") || !strings.Contains(list, ">not over<") || strings.Contains(list, "0 ms") {
		t.Errorf("the list is %s, the turn %s", list, view)
	}
	release()
	s.over(0)
}

// TestOwnCards: the card that answers a click is for that person, so others can still decide.
func TestOwnCards(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.says(bottest.Plan(bottest.Do("deploy", "what", "both"), bottest.Say("It is out.")))
	s.say("lunch", "@Listbot deploy both")
	s.press("lunch", "otto", "Approve")
	for who, want := range map[string]bool{"otto": false, "ada": true} {
		if body := s.get("/dev/.json?room=lunch&as=" + who); strings.Contains(body, `"title": "Approve"`) != want {
			t.Errorf("%s sees %s", who, body)
		}
	}
	s.press("lunch", "ada", "Approve")
	s.shows("lunch", "It is out.")
}

// TestDecidedBy: who may not decide has not decided, and the refusal goes with the card that it was about.
func TestDecidedBy(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.says(bottest.Plan(bottest.Do("deploy", "what", "it"), bottest.Say("It is out.")))
	asks := s.say("lunch", "@Listbot deploy it")
	refused := s.press("lunch", "otto", "Approve")
	const no = "You can&#39;t decide this. Nothing was done."
	if body := s.get("/dev/parts/messages?room=lunch"); !strings.Contains(body, no) {
		t.Errorf("the chat lacks the refusal: %s", body)
	}
	decided := s.press("lunch", "mia", "Approve")
	s.shows("lunch", "It is out.")
	if body := s.get("/dev/parts/messages?room=lunch"); strings.Contains(body, no) {
		t.Errorf("the refusal is still there: %s", body)
	}
	view := s.get("/dev/turns/" + asks)
	for _, want := range []string{"Not decided by Otto Oduya in <a", refused + "</a>: " + no, "<p>Decided by Mia Meyer in <a", decided + "</a>.</p>"} {
		if !strings.Contains(view, want) {
			t.Errorf("the turn lacks %q: %s", want, view)
		}
	}
	rows := s.get("/dev/turns?outcome=refused")
	if !strings.Contains(rows, "clicked Approve on “deploy it”") || strings.Count(rows, "data-turn=") != 1 {
		t.Errorf("refused are %s", rows)
	}
}

func TestGoOn(t *testing.T) {
	t.Parallel()
	s := try(t)
	milk := bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk"), bottest.Say("Milk is there."))
	tea := bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "tea"), bottest.Say("Tea is there."))
	all := bottest.Plan(doAs("ALL", "summarizeLists"), bottest.Say("$ALL"))
	for _, room := range []string{"mia", "lunch"} {
		s.says(milk, tea)
		s.say(room, "@Listbot add milk to groceries")
		id := s.say(room, "@Listbot add tea to groceries")
		old, _ := s.page.Turns().Turn(id)
		for i, c := range []struct{ at, want, not string }{{"after", "tea", "nothing"}, {"before", "milk", "tea"}} {
			status, body, to := s.do(http.MethodPost, "/dev/turns/"+id+"/go-on", url.Values{"token": {s.token}, "at": {c.at}})
			key := room + "-" + string(rune('2'+i))
			if status != http.StatusSeeOther || !strings.HasPrefix(to, "/dev/?room="+key) {
				t.Fatalf("got %d to %s: %s", status, to, body)
			}
			if shown := s.get("/dev/parts/messages?room=" + key); strings.Contains(shown, "Tea is there") != (c.at == "after") || !strings.Contains(shown, "Milk is there") {
				t.Errorf("%s %s: the messages are %s", key, c.at, shown)
			}
			s.says(all)
			rec, _ := s.page.Turns().Turn(s.say(key, "@Listbot what is there?"))
			said := lastSaid(rec)
			if !strings.Contains(said, c.want) || strings.Contains(said, c.not) {
				t.Errorf("%s %s: it said %q", key, c.at, said)
			}
			if chat := s.get("/dev/?room=" + key); !strings.Contains(chat, fmt.Sprintf("(copy %d)", i+1)) {
				t.Errorf("%s does not say that it is a copy: %s", key, chat)
			}
			if rec.Conversation == old.Conversation || rec.PersonID == old.PersonID {
				t.Errorf("%s has old ids: %s, %s", key, rec.Conversation, rec.PersonID)
			}
			history := string(rec.Before["conversation"]["history"])
			if !strings.Contains(history, "add milk") || strings.Contains(history, old.PersonID) || strings.Contains(history, "add tea") != (c.at == "after") {
				t.Errorf("%s %s: the history is %s", key, c.at, history)
			}
		}
		s.says(all)
		rec, _ := s.page.Turns().Turn(s.say(room, "@Listbot what is there?"))
		if said := lastSaid(rec); !strings.Contains(said, "milk") || !strings.Contains(said, "tea") {
			t.Errorf("the old conversation says %q", said)
		}
	}
	// A turn that went well after a repair has a chip for it, and where several people speak the place.
	s.says("{", all)
	mended := s.say("lunch", "@Listbot what is there?")
	view := s.get("/dev/turns/" + mended)
	if !strings.Contains(view, ">repaired<") || !strings.Contains(view, `class="why note"`) || !strings.Contains(view, `class="note">Answer 1 was no plan`) || strings.Contains(view, "data-wrong") {
		t.Errorf("the turn %s is shown as one that went wrong", mended)
	}
	if rows := s.get("/dev/turns"); strings.Count(rows, ">repaired<") != 1 || !strings.Contains(rows, "in Lunch") || strings.Contains(rows, `class="why"`) {
		t.Errorf("the turns are %s", rows)
	}
	// A turn that failed has saved nothing, so the state after it is the one before it.
	s.says("{", "{", "{")
	failed, _ := s.page.Turns().Turn(s.say("mia", "@Listbot add rye to groceries"))
	if failed.Outcome != "failed" || len(failed.Changes) != 0 || fmt.Sprint(failed.After) != fmt.Sprint(failed.Before) {
		t.Errorf("%s: %v; %v became %v", failed.Outcome, failed.Changes, failed.Before, failed.After)
	}
	if view := s.get("/dev/turns/" + failed.ID); strings.Contains(view, "Failed:") || !strings.Contains(view, `class="fault">Answer 1 was no plan`) || !strings.Contains(view, "×3") {
		t.Errorf("turn %s does not say once why it failed", failed.ID)
	}
	_, _, to := s.do(http.MethodPost, "/dev/turns/"+failed.ID+"/go-on", url.Values{"token": {s.token}, "at": {"after"}})
	room, _, _ := strings.Cut(strings.TrimPrefix(to, "/dev/?room="), "&")
	s.says(all)
	rec, _ := s.page.Turns().Turn(s.say(room, "@Listbot what is there?"))
	if said := rec.Sent[len(rec.Sent)-1].Text; !strings.Contains(said, "milk") || !strings.Contains(said, "tea") {
		t.Errorf("behind a turn that failed it says %q", said)
	}
	id := s.page.Turns().Turns()[0].ID
	if status, _, _ := s.do(http.MethodPost, "/dev/turns/"+id+"/go-on", url.Values{"at": {"after"}}); status != http.StatusForbidden {
		t.Errorf("without a token: %d", status)
	}
	status := 0
	for range 60 {
		if status, _, _ = s.do(http.MethodPost, "/dev/turns/"+id+"/go-on", url.Values{"token": {s.token}}); status != http.StatusSeeOther {
			break
		}
	}
	if status != http.StatusConflict {
		t.Errorf("there is no end of conversations: %d", status)
	}
}

// TestSave: a test of two turns passes at once, and no file is written over.
func TestSave(t *testing.T) {
	t.Parallel()
	s := try(t)
	s.says(
		bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk"), bottest.Say("Milk is there.")),
		bottest.Plan(doAs("ALL", "summarizeLists"), bottest.Say("$ALL")),
	)
	one, two := s.say("mia", "add milk to groceries, correct horse"), s.say("mia", "what is there?")
	shown := s.get("/dev/turns/save?turn=" + one + "&turn=" + two)
	for _, part := range []string{"Milk is there.", "what is there?", `name="name"`, "[secret]"} {
		if !strings.Contains(shown, part) {
			t.Errorf("no %q in %s", part, shown)
		}
	}
	form := func(name string) url.Values {
		return url.Values{"token": {s.token}, "turn": {one, two}, "name": {name}}
	}
	if status, body, _ := s.do(http.MethodPost, "/dev/turns/save", url.Values{"turn": {one}, "name": {"a.yaml"}}); status != http.StatusForbidden {
		t.Errorf("without a token: %d %s", status, body)
	}
	for _, name := range []string{"", "A.yaml", "../a.yaml", "a.json", ".yaml", strings.Repeat("a", 65) + ".yaml"} {
		if status, _, _ := s.do(http.MethodPost, "/dev/turns/save", form(name)); status != http.StatusBadRequest {
			t.Errorf("%q: %d", name, status)
		}
	}
	status, body, to := s.do(http.MethodPost, "/dev/turns/save", form("two-turns.yaml"))
	if status != http.StatusSeeOther || !strings.Contains(s.get(to), "bottest run") {
		t.Fatalf("got %d %s", status, body)
	}
	file := filepath.Join(s.folder, "two-turns.yaml")
	raw, err := os.ReadFile(file) //nolint:gosec // of the test
	if err != nil {
		t.Fatal(err)
	}
	list, err := record.Read(file, raw)
	if err != nil || len(list) != 1 || len(list[0].Steps) != 2 {
		t.Fatalf("%v %v", list, err)
	}
	if failures, story := bottest.Play(&list[0], bottest.Config{Actions: s.registry()}); failures != nil {
		t.Errorf("%q\n%s\n%s", failures, raw, story)
	}
	bottest.RunScenarios(t, app.Bot{Name: "Listbot", Register: s.register}, file)
	if got := s.get("/dev/turns/save.yaml?name=two-turns.yaml&turn=" + one + "&turn=" + two); got != string(raw) {
		t.Errorf("downloaded\n%s\nsaved\n%s", got, raw)
	}
	status, body, _ = s.do(http.MethodPost, "/dev/turns/save", url.Values{"token": {s.token}, "turn": {one}, "name": {"two-turns.yaml"}})
	if again, _ := os.ReadFile(file); status != http.StatusConflict || !strings.Contains(body, "It was not changed") || !strings.Contains(body, `name="name" value="two-turns.yaml"`) || string(again) != string(raw) { //nolint:gosec // of the test
		t.Errorf("a second time: %d %s", status, body)
	}
	if entries, _ := os.ReadDir(s.folder); len(entries) != 1 {
		t.Errorf("in the folder are %v", entries)
	}
}

// TestSaveNowhere: a folder that cannot be one is an error for people.
func TestSaveNowhere(t *testing.T) {
	t.Parallel()
	s := try(t)
	if err := os.WriteFile(s.folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.says(bottest.Plan(bottest.Say("Hello.")))
	id := s.say("mia", "hello")
	status, body, _ := s.do(http.MethodPost, "/dev/turns/save", url.Values{"token": {s.token}, "turn": {id}, "name": {"a.yaml"}})
	if status != http.StatusInternalServerError || !strings.Contains(body, "nothing was saved") {
		t.Errorf("got %d %s", status, body)
	}
	s.say("otto", "hello")
	other := s.page.Turns().Turns()[0].ID
	if shown := s.get("/dev/turns/save?turn=" + id + "&turn=" + other); !strings.Contains(shown, "different conversations") {
		t.Errorf("shown is %s", shown)
	}
}
