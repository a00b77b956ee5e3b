package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
)

// tried is what came of a run.
type tried struct {
	Fault, Result, Text, Data, Error, Entities string
	Saved                                      bool
	Cards, Notices                             []string
	Changes                                    []struct{ Path, Before, After, By string }
}

// listed is an action in the list.
type listed struct {
	Name          string
	Calls, Failed int
	MeanNS        int64
	Schema        jsonschema.Schema
	Effects       []struct{ Name, About string }
}

func (l *listed) has(effect string) bool {
	return slices.ContainsFunc(l.Effects, func(e struct{ Name, About string }) bool { return e.Name == effect })
}

func (c *bundle) actions() map[string]*listed {
	c.t.Helper()
	var all struct {
		Version int
		Actions []*listed
	}
	if err := json.Unmarshal([]byte(c.get("/dev/actions.json")), &all); err != nil || all.Version != 1 {
		c.t.Fatal(err, all.Version)
	}
	byName := map[string]*listed{}
	for _, a := range all.Actions {
		byName[a.Name] = a
	}
	return byName
}

func TestActions(t *testing.T) {
	t.Parallel()
	service := actions.New()
	actions.Add(service, "remote", "Is elsewhere", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil },
		actions.NeedsToken("graph"), actions.Parallel).Source = actions.Source{Connection: "mcp:files", Remote: "read", Digest: "abc"}
	c := setup(t, set{
		register: func(r *actions.Registry) {
			lists.Register(r)
			actions.Add(r, "break", "Fails", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
				return actions.Fail("not today"), nil
			}, actions.Example("break it"), actions.NeedsApproval)
		},
		parts: page.Parts{Services: service.All, Approvers: "Otto", Policy: func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
			switch call.Action.Name {
			case "createList":
				return actions.Approval{Denied: "not now"}, nil
			case "addItem":
				return actions.Approval{Required: true, Reason: "as settings say"}, nil
			case "deleteList":
				return actions.Approval{Required: call.Entities["list"].(string) != ""}, nil // it wants a list
			}
			return actions.DefaultPolicy(ctx, turn, call)
		}},
	})
	id := c.say("mia", "create a list Home and add milk to it")
	c.say("mia", "show Home")
	all := c.actions()
	if a := all["createList"]; a == nil || a.Calls != 1 || a.Failed != 0 || a.MeanNS <= 0 || a.Schema.Properties["list"] == nil || !a.has("StateOnly") || a.has("effects outside") {
		t.Errorf("createList is %+v", a)
	}
	if a := all["deleteList"]; a == nil || a.Calls != 0 || !a.has("Destructive") {
		t.Errorf("deleteList is %+v", a)
	}
	if a := all["break"]; a == nil || !a.has("NeedsApproval") || !a.has("effects outside") || a.has("StateOnly") {
		t.Errorf("break is %+v", a)
	}
	if a := all["createList"]; !a.has("Denied") || !strings.Contains(fmt.Sprint(all["addItem"].Effects), "as settings say; Otto approves each call") {
		t.Errorf("the policy is not shown: %+v, %+v", a, all["addItem"])
	}
	if a := all["remote"]; a == nil || !a.has("NeedsToken") || !a.has("Source") || !a.has("Parallel") || !strings.Contains(fmt.Sprint(a.Effects), "mcp:files, as read, digest abc") {
		t.Errorf("remote is %+v", a)
	}
	if body := c.get("/dev/actions"); !strings.Contains(body, `href="/dev/actions/addItem"`) || !strings.Contains(body, ">NeedsApproval<") {
		t.Error("the list lacks a link or an effect")
	}
	if body := c.get("/dev/actions/createList"); !strings.Contains(body, "/dev/turns/"+id) || !strings.Contains(body, "Create a list") {
		t.Error("the view of an action does not name the turn that called it")
	}
	if status, _, _ := c.do("GET", "/dev/actions/nothing", nil); status != http.StatusNotFound {
		t.Errorf("an unknown action: %d", status)
	}
}

// TestRunOnACopy runs an action on a copy of the state, and then on the state itself.
func TestRunOnACopy(t *testing.T) {
	t.Parallel()
	c := setup(t, set{register: lists.Register})
	c.say("mia", "create a list Home and add milk to it")
	lists := func(room string) string {
		var seen tried
		c.post("/dev/actions/summarizeLists", url.Values{"room": {room}}, &seen)
		return seen.Text + seen.Data
	}
	if got := lists("mia"); !strings.Contains(got, "milk") {
		t.Fatalf("the action does not see the conversation's state: %s", got)
	}
	if got := lists("otto"); strings.Contains(got, "milk") {
		t.Errorf("the action sees another conversation's state: %s", got)
	}
	var got tried
	form := url.Values{"room": {"mia"}, "as": {"mia"}, "e.list": {"Home"}}
	c.post("/dev/actions/deleteList", form, &got)
	gone := func(c struct{ Path, Before, After, By string }) bool {
		return c.Before == `"Home"` && c.After == "" && c.By == "deleteList"
	}
	if got.Result != "ok" || got.Saved || !slices.ContainsFunc(got.Changes, gone) {
		t.Errorf("got %+v", got)
	}
	if !strings.Contains(lists("mia"), "milk") {
		t.Error("what ran on a copy has changed the state")
	}
	form["throw"] = []string{"asked", "1"} // as a browser sends it when the box is ticked
	if c.post("/dev/actions/deleteList", form, &got); got.Saved || !strings.Contains(lists("mia"), "milk") {
		t.Error("the box is ticked, and the state was saved")
	}
	form["throw"] = []string{"asked"}
	got = tried{}
	if c.post("/dev/actions/deleteList", form, &got); got.Saved || !strings.Contains(got.Fault, "This cannot be undone") || !strings.Contains(lists("mia"), "milk") {
		t.Errorf("nobody ticked that it cannot be undone: %+v", got)
	}
	form.Set("destroy", "1")
	if c.post("/dev/actions/deleteList", form, &got); !got.Saved || strings.Contains(lists("mia"), "milk") {
		t.Errorf("the box is not ticked, and the state was not saved: %+v", got)
	}
	if err := c.page.Turns().Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	saved := 0
	for _, head := range c.page.Turns().Turns() {
		rec, _ := c.page.Turns().Turn(head.ID)
		if head.Type == "event by hand" && rec.Commands[0].Action == "deleteList" && rec.Outcome == "ok" && len(rec.Changes) > 0 {
			saved++
			view, test := c.get("/dev/turns/"+head.ID), c.get("/dev/turns/save.json?turn="+head.ID)
			if strings.Contains(view, "What if") || strings.Contains(view, "Save as test") || !strings.Contains(test, "which no test can repeat") {
				t.Errorf("a run by hand is offered as something to plan again, or to test: %s", test)
			}
		}
	}
	if saved != 1 || !strings.Contains(c.get("/dev/turns"), ">by hand<") {
		t.Errorf("%d runs by hand are turns that changed the state", saved)
	}
}

// TestRunNeedsToken sends what could come from a program that cannot read the page.
func TestRunNeedsToken(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	c := setup(t, set{register: func(r *actions.Registry) {
		actions.Add(r, "count", "Counts", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			calls.Add(1)
			return actions.Done, nil
		}, actions.StateOnly)
	}})
	for _, token := range []string{"", "x", c.token + "x"} {
		if status, _, _ := c.do("POST", "/dev/actions/count", url.Values{"token": {token}}); status != http.StatusForbidden {
			t.Errorf("token %q: %d", token, status)
		}
	}
	c.get("/dev/actions/count?token=" + c.token + "&run=x")
	if calls.Load() != 0 {
		t.Error("the action ran")
	}
	if body := c.submit("/dev/actions/count", url.Values{}); calls.Load() != 1 || !strings.Contains(body, `data-result="ok"`) {
		t.Errorf("the form does not run the action: %d calls", calls.Load())
	}
}

// TestRunOutside runs an action that may have effects outside: only if somebody ticks that.
func TestRunOutside(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var r *actions.Registry
	c := setup(t, set{register: func(registry *actions.Registry) {
		r = registry
		reminders.Register(r)
		actions.Add(r, "order", "Orders", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			calls.Add(1)
			return actions.Text("ordered for %s, who said %s in %s", turn.Activity.From.Name, turn.Text, turn.Activity.Conversation.ConversationType), nil
		})
		actions.Add(r, "nest", "Calls order", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			inner, _ := r.Lookup("order")
			if err := turn.Gate(ctx, actions.Call{Action: inner}); err != nil {
				return actions.Result{}, err
			}
			return inner.Call(ctx, turn, nil)
		}, actions.StateOnly)
	}})
	var got tried
	form := url.Values{"room": {"lunch"}, "as": {"otto"}, "said": {"please"}}
	if status := c.post("/dev/actions/order", form, &got); status != http.StatusUnprocessableEntity || !strings.Contains(got.Fault, "This has effects outside") || calls.Load() != 0 {
		t.Errorf("it ran, or does not say why not: %d %+v", status, got)
	}
	if c.post("/dev/actions/nest", form, &got); got.Result != "failed" || calls.Load() != 0 {
		t.Errorf("it ran inside of another one: %+v", got)
	}
	form.Set("outside", "1")
	got = tried{}
	if c.post("/dev/actions/order", form, &got); got.Text != "ordered for Otto Oduya, who said please in groupChat" || calls.Load() != 1 {
		t.Errorf("got %+v", got)
	}
	if body := c.get("/dev/actions/order"); !strings.Contains(body, `name="outside" value="1">`) {
		t.Error("the box is not there, or ticked from the beginning")
	}
	c.say("mia", "help") // the bot has to know the conversation
	got = tried{}
	c.post("/dev/actions/remindMe", url.Values{"e.what": {"the tea"}, "e.in_minutes": {"5"}, "outside": {"1"}}, &got)
	if got.Result != "ok" || len(got.Notices) != 1 || !strings.Contains(got.Notices[0], "the tea") {
		t.Errorf("the reminder: %+v", got)
	}
}

type order struct {
	Drink string   `json:"drink" title:"What to drink" jsonschema:"its name"`
	Size  string   `json:"size,omitempty" enum:"s,l" labels:"Small,Large" default:"s"`
	Count int      `json:"count,omitempty"`
	Iced  bool     `json:"iced,omitempty"`
	With  []string `json:"with,omitempty"`
}

// TestForm fills in a form made of a schema, rightly and wrongly.
func TestForm(t *testing.T) {
	t.Parallel()
	var made *actions.Action
	var ran order
	c := setup(t, set{register: func(r *actions.Registry) {
		made = actions.Add(r, "order", "Orders", func(_ context.Context, _ *actions.Turn, in order) (actions.Result, error) {
			ran = in
			return actions.JSON(in), nil
		}, actions.StateOnly)
	}})
	body := c.get("/dev/actions/order")
	for _, want := range []string{
		`<label for="e0">What to drink`, `<input id="e0" name="e.drink"`, "(required)", `<option value="&#34;l&#34;">Large</option>`,
		`name="e.count" value="" inputmode="decimal"`, `<option value="true">yes</option>`, `<textarea id="e4" name="e.with"`, "its name", `name="throw" value="1" checked`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the form lacks %s", want)
		}
	}
	var got tried
	c.post("/dev/actions/order", url.Values{"e.drink": {"tea"}, "e.size": {`"l"`}, "e.count": {"3"}, "e.iced": {"true"}, "e.with": {`["milk"]`}}, &got)
	if fmt.Sprint(ran) != "{tea l 3 true [milk]}" || got.Result != "ok" || !strings.Contains(got.Data, `"count": 3`) {
		t.Errorf("ran with %v, %+v", ran, got)
	}
	c.post("/dev/actions/order", url.Values{"e.drink": {"tea"}, "entities": {`{"drink":"juice","count":2}`}}, nil)
	if fmt.Sprint(ran) != "{juice s 2 false []}" {
		t.Errorf("all entities as JSON: ran with %v", ran)
	}
	ran = order{}
	for name, wrong := range map[string]struct {
		form     url.Values
		entities map[string]any // that the check gets
		field    string
	}{
		"missing":      {url.Values{}, map[string]any{}, "e0"},
		"no number":    {url.Values{"e.drink": {"x"}, "e.count": {"many"}}, map[string]any{"drink": "x", "count": "many"}, "e2"},
		"another size": {url.Values{"e.drink": {"x"}, "e.size": {`"xl"`}}, map[string]any{"drink": "x", "size": "xl"}, "e1"},
		"no JSON":      {url.Values{"e.drink": {"x"}, "e.with": {"milk"}}, nil, "e4"},
		"no object":    {url.Values{"entities": {"[]"}}, nil, ""},
	} {
		got = tried{}
		status := c.post("/dev/actions/order", wrong.form, &got)
		want := "no JSON"
		if wrong.entities != nil {
			_, err := made.Check(wrong.entities)
			want = err.Error()
		}
		if status != http.StatusUnprocessableEntity || !strings.Contains(got.Fault, want) || ran.Drink != "" {
			t.Errorf("%s: %d %q, want %q; ran with %v", name, status, got.Fault, want, ran)
		}
		if wrong.field == "" {
			continue
		}
		body := c.submit("/dev/actions/order", wrong.form)
		at := strings.Index(body, `id="`+wrong.field+`"`)
		if end := strings.Index(body[at:], "</div>"); !strings.Contains(body[at:at+end], `aria-invalid="true"`) || !strings.Contains(body[at:at+end], `class="fault"`) {
			t.Errorf("%s: the fault is not at its field", name)
		}
		if typed := wrong.form.Get("e.drink"); typed != "" && !strings.Contains(body, `name="e.drink" value="`+typed+`"`) {
			t.Errorf("%s: what was typed is gone", name)
		}
	}
}

// TestRunThatGoesWrong keeps nothing of what an action changed before it went wrong.
func TestRunThatGoesWrong(t *testing.T) {
	t.Parallel()
	type note struct{ Text string }
	how := map[string]func() (actions.Result, error){
		"fails": func() (actions.Result, error) { return actions.Fail("not today"), nil },
		"errs": func() (actions.Result, error) {
			return actions.Result{}, errors.New("the cable is cut, key sk-verysecret1")
		},
		"panics": func() (actions.Result, error) { panic("no cable") },
		"asks":   func() (actions.Result, error) { return actions.Ask(actions.Form{Text: "Which one?"}, nil), nil },
		"says":   func() (actions.Result, error) { return actions.Text("the key is sk-verysecret1"), nil },
	}
	var b interface{ Store() *state.Store }
	c := setup(t, set{secrets: []string{"sk-verysecret1"}, register: func(r *actions.Registry) {
		for name, result := range how {
			actions.Add(r, name, "Does", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
				state.Of[note](turn.User).Text = name
				return result()
			}, actions.StateOnly)
		}
		actions.Add(r, "races", "Loses a race", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			scopes, err := b.Store().Load(ctx, turn.User.Key())
			if err != nil {
				return actions.Result{}, err
			}
			state.Of[note](scopes[0]).Text, state.Of[note](turn.User).Text = "theirs", "mine"
			return actions.Done, b.Store().Save(ctx, scopes...)
		}, actions.StateOnly)
		actions.Add(r, "signs", "Wants a token", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			_, err := turn.UserToken(ctx, "graph")
			return actions.Done, err
		}, actions.NeedsToken("graph"), actions.StateOnly)
	}, parts: page.Parts{UserToken: func(_ context.Context, of activity.Reference, connection string) (connector.UserToken, error) {
		return connector.UserToken{}, fmt.Errorf("%s of %s: %w", connection, of.User.Name, connector.ErrNoUserToken)
	}}})
	b = c.bot
	for name, want := range map[string]tried{
		"fails": {Result: "failed", Text: "not today"}, "errs": {Result: "failed", Error: "the cable is cut, key [secret]"}, "panics": {Result: "failed", Error: "no cable"},
		"asks": {Result: "asks", Text: "Which one?"}, "races": {Result: "ok", Error: "A turn changed the same state"}, "signs": {Result: "failed", Error: "graph of Mia Meyer"},
		"says": {Result: "ok", Text: "the key is [secret]", Saved: true},
	} {
		var got tried
		c.post("/dev/actions/"+name, url.Values{"throw": {"asked"}}, &got)
		if got.Result != want.Result || got.Text != want.Text || !strings.Contains(got.Error, want.Error) || got.Saved != want.Saved {
			t.Errorf("%s: got %+v", name, got)
		}
		if body := c.submit("/dev/actions/"+name, url.Values{"throw": {"asked"}}); strings.Contains(body, "verysecret") {
			t.Errorf("%s: the view shows a secret", name)
		}
	}
}

// TestHostileAction shows and runs an action whose texts strangers wrote.
func TestHostileAction(t *testing.T) {
	t.Parallel()
	long, endless := strings.Repeat("A", 40<<10), strings.Repeat("A", 1<<20)
	c := setup(t, set{register: func(r *actions.Registry) {
		schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
			hostile: {Type: "string", Title: hostile, Description: hostile + long, Enum: []any{hostile, long}},
			"deep":  {Type: "object", Description: long, Default: json.RawMessage(`"` + long + `"`)},
		}}
		a, err := actions.AddSchema(r, "strange", hostile+endless, schema, func(context.Context, *actions.Turn, map[string]any) (actions.Result, error) {
			return actions.JSON(map[string]string{hostile: long}).WithCard(activity.Card{Fallback: hostile, Body: []any{}}), nil
		}, actions.Title(hostile), actions.StateOnly, actions.Doing(hostile+long), actions.Returns[map[string]string]())
		if err != nil {
			t.Error(err)
			return
		}
		a.Examples, a.Detail, a.Source = []string{hostile + long}, hostile+long, actions.Source{Connection: hostile, Remote: long, Digest: long}
		many := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
		for i := range 1000 {
			many.Properties[fmt.Sprint("p", i)] = &jsonschema.Schema{Type: "string"}
		}
		if _, err := actions.AddSchema(r, "many", "Has many entities", many, func(context.Context, *actions.Turn, map[string]any) (actions.Result, error) {
			return actions.Done, nil
		}); err != nil {
			t.Error(err)
		}
	}})
	for _, body := range []string{
		c.get("/dev/actions"), c.get("/dev/actions/strange"), c.get("/dev/actions/many"),
		c.submit("/dev/actions/strange", url.Values{"entities": {`{"deep":` + long}}),
		c.submit("/dev/actions/strange", url.Values{"entities": {`{"deep":{}}`}}),
		c.submit("/dev/actions/strange", url.Values{"e.#0": {"#1"}, "e.deep": {hostile + endless}}), // too long to be filled in again
	} {
		noScript(t, body)
	}
	if body := c.get("/dev/actions/many"); strings.Contains(body, "e.p7") || !strings.Contains(body, `name="entities"`) {
		t.Error("a form with a thousand fields")
	}
}
