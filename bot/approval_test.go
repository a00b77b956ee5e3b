package bot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

type ticket struct {
	ID   int64  `json:"id"`
	Note string `json:"note,omitempty"`
}

// desk is a bundle whose closeTicket needs approval.
type desk struct {
	*bundle
	closed *[]ticket
}

func newDesk(t *testing.T, change ...func(*bot.Config)) desk {
	t.Helper()
	b := setup(t, change...)
	closed := &[]ticket{}
	actions.Add(b.actions, "closeTicket", "Closes a ticket", func(_ context.Context, turn *actions.Turn, in ticket) (actions.Result, error) {
		*closed = append(*closed, in)
		*state.At[int](turn.User, "closed")++
		if in.ID == 13 {
			return actions.Fail("ticket 13 is locked"), nil
		}
		return actions.Text("closed %d for %s", in.ID, turn.Activity.From.ID), nil
	}, actions.NeedsApproval)
	return desk{b, closed}
}

// buttons are the data of the card's two buttons.
func buttons(t testing.TB, card sent) (approve, reject map[string]any) {
	t.Helper()
	list := asCard(t, card)["actions"].([]any)
	if len(list) != 2 {
		t.Fatalf("%d buttons", len(list))
	}
	for i, b := range list {
		button := b.(map[string]any)
		fallback := button["fallback"].(map[string]any)
		if button["type"] != "Action.Execute" || fallback["type"] != "Action.Submit" {
			t.Errorf("button %v", button)
		}
		if diff := cmp.Diff(button["data"], fallback["data"]); diff != "" {
			t.Error(diff)
		}
		if i == 0 {
			approve = button["data"].(map[string]any)
		} else {
			reject = button["data"].(map[string]any)
		}
	}
	return approve, reject
}

func asCard(t testing.TB, m sent) map[string]any {
	t.Helper()
	list, _ := m.Body["attachments"].([]any)
	if len(list) != 1 {
		t.Fatalf("no card in %v", m.Body)
	}
	return list[0].(map[string]any)["content"].(map[string]any)
}

// click is the invoke of an Action.Execute with that data.
func click(data map[string]any, over event) event {
	e := event{
		"type": "invoke", "name": "adaptiveCard/action", "replyToId": "1",
		"value": event{"action": event{"type": "Action.Execute", "verb": data["verb"], "data": data}, "trigger": "manual"},
	}
	for k, v := range over {
		e[k] = v
	}
	return e
}

func (d desk) ask(over event, text string) sent {
	d.Helper()
	e := event{"text": text}
	for k, v := range over {
		e[k] = v
	}
	if got := d.deliver(e); got.status != http.StatusOK {
		d.Fatalf("status %d %s", got.status, got.body)
	}
	return d.connector.Next(d)
}

var closePlan = plan(do("closeTicket", `{"id":12345678901234567,"note":"*bold* [x](http://evil)\u202e"}`), say("Closed it."))

func TestApprovalYes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(closePlan)
		card := d.ask(nil, "close it")
		if len(*d.closed) != 0 {
			t.Fatal("ran before it was approved")
		}
		shown, err := json.Marshal(asCard(t, card))
		d.must(err)
		for _, want := range []string{"Close ticket", "12345678901234567", `*bold* [x](http://evil)\\u202e`, "Asked by Mia"} {
			if !strings.Contains(string(shown), want) {
				t.Errorf("the card does not show %s: %s", want, shown)
			}
		}
		d.model.Says(plan(say("Sure.")))
		d.say("how are you meanwhile?") // the conversation goes on
		d.expect("Sure.")

		approve, _ := buttons(t, card)
		got := d.deliver(click(approve, nil))
		if got.status != http.StatusOK || !strings.Contains(got.body, "Approved by Mia") || !strings.Contains(got.body, "application/vnd.microsoft.card.adaptive") {
			t.Errorf("answer %d %s", got.status, got.body)
		}
		d.expect("Closed it.")
		if update := d.connector.NextUpdate(t); !strings.Contains(fmt.Sprint(update.Body), "Approved by Mia") {
			t.Errorf("updated with %v", update.Body)
		}
		if diff := cmp.Diff([]ticket{{12345678901234567, "*bold* [x](http://evil)\u202e"}}, *d.closed); diff != "" {
			t.Error(diff)
		}
		if n := len(d.model.Calls()); n != 2 {
			t.Errorf("%d model calls", n)
		}

		again := d.deliver(click(approve, event{"id": "late"}))
		if !strings.Contains(again.body, "already decided: Approved by Mia") || len(*d.closed) != 1 {
			t.Errorf("a second click: %s, closed %d", again.body, len(*d.closed))
		}
		d.model.Says(plan(say("You did.")))
		d.say("did I approve?")
		d.expect("You did.")
		calls := d.model.Calls()
		for _, want := range []string{"user: close it", "[closeTicket was approved.]", "Closed it."} {
			if prompt := calls[len(calls)-1].Text(); !strings.Contains(prompt, want) {
				t.Errorf("the history lacks %q: %s", want, prompt)
			}
		}
	})
}

func TestApprovalNo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(closePlan)
		_, reject := buttons(t, d.ask(nil, "close it"))
		if got := d.deliver(click(reject, nil)); !strings.Contains(got.body, "Rejected by Mia") {
			t.Errorf("answer %s", got.body)
		}
		d.expect("OK, I won't do this: Close ticket.")
		if len(*d.closed) != 0 || len(d.model.Calls()) != 1 {
			t.Errorf("closed %v, %d model calls", *d.closed, len(d.model.Calls()))
		}
	})
}

func TestApprovalIsForTheRightPersonAndCard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		group := event{"conversation": event{"id": "19:g", "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"}}
		mention := event{
			"conversation": group["conversation"],
			"entities":     []event{{"type": "mention", "text": "<at>Bot</at>", "mentioned": event{"id": "28:bot"}}},
		}
		otto := event{"conversation": group["conversation"], "from": event{"id": "29:otto", "name": "Otto", "aadObjectId": "aad-otto"}}
		d.model.Says(closePlan)
		approve, _ := buttons(t, d.ask(mention, "<at>Bot</at> close it"))

		if got := d.deliver(click(approve, otto)); got.status != http.StatusOK || !strings.Contains(got.body, "You can't decide this") {
			t.Errorf("a stranger: %d %s", got.status, got.body)
		}
		forged := map[string]any{"approval": approve["approval"], "hash": strings.Repeat("0", 64), "verb": approve["verb"]}
		if got := d.deliver(click(forged, group)); !strings.Contains(got.body, "is for a different call") {
			t.Errorf("another call: %s", got.body)
		}
		unknown := map[string]any{"approval": "nothere", "hash": approve["hash"], "verb": approve["verb"]}
		if got := d.deliver(click(unknown, group)); !strings.Contains(got.body, "no longer waiting") {
			t.Errorf("an unknown one: %s", got.body)
		}
		mismatch := click(approve, group)
		mismatch["value"] = event{"action": event{"type": "Action.Execute", "verb": "planbot/reject", "data": approve}}
		if got := d.deliver(mismatch); !strings.Contains(got.body, `"statusCode":400`) {
			t.Errorf("two verbs: %d %s", got.status, got.body)
		}
		if len(*d.closed) != 0 {
			t.Fatal("ran")
		}
		d.connector.None(t)
		d.deliver(click(approve, group))
		d.expect("Closed it.")
	})
}

func TestApprovalBySubmitByWordsAndByNamedApprovers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, func(c *bot.Config) { c.Approvers = []string{"AAD-otto"} })
		otto := event{"from": event{"id": "29:otto", "name": "Otto", "aadObjectId": "aad-otto"}}
		d.model.Says(closePlan)
		approve, _ := buttons(t, d.ask(inGroup, "<at>Planbot</at> close it"))
		d.deliver(event{"text": nil, "value": approve, "replyToId": "1", "conversation": inGroup["conversation"]})
		d.expect("You can't decide this. Nothing was done.")
		d.deliver(event{"text": nil, "value": approve, "replyToId": "1", "from": otto["from"], "conversation": inGroup["conversation"]})
		d.expect("Closed it.")

		d.model.Says(closePlan)
		group := event{"id": "g", "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"}
		mention := []event{{"type": "mention", "text": "@Bot", "mentioned": event{"id": "28:bot"}}}
		console := event{"channelId": "console", "conversation": group, "entities": mention}
		question := d.ask(console, "@Bot close it").Text()
		id := question[strings.Index(question, "/approve ")+len("/approve "):][:12]
		if !strings.Contains(question, `"*bold* [x](http://evil)\u202e"`) {
			t.Errorf("question %q", question)
		}
		words := event{"channelId": "console", "from": otto["from"], "conversation": group, "entities": mention}
		words["text"] = "@Bot /approve " + id
		d.deliver(words)
		d.expect("Closed it.")
		words["id"], words["text"] = nil, "@Bot /reject "+id
		d.deliver(words)
		if got := d.connector.Next(t).Text(); !strings.HasPrefix(got, "This was already decided: Approved by Otto") {
			t.Errorf("got %q", got)
		}
		if len(*d.closed) != 2 {
			t.Errorf("closed %v", *d.closed)
		}
	})
}

func TestApprovalOnAnotherReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(plan(do("addItem", `{"list":"l","item":"i"}`), do("closeTicket", `{"id":7}`), do("closeTicket", `{"id":8}`), say("Both.")))
		approve, _ := buttons(t, d.ask(nil, "close 7 and 8"))
		other := d.replica()
		d.post(other, d.activity(click(approve, nil)))
		second, _ := buttons(t, d.connector.Next(t))
		d.deliver(click(second, nil))
		d.expect("Both.")
		if diff := cmp.Diff([]ticket{{ID: 7}, {ID: 8}}, *d.closed); diff != "" {
			t.Error(diff)
		}
	})
}

func TestApprovedCallThatFailsIsToldTheModel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(plan(do("closeTicket", `{"id":13}`), say("Closed it.")), plan(say("It is locked.")))
		approve, _ := buttons(t, d.ask(nil, "close 13"))
		d.deliver(click(approve, nil))
		d.expect("It is locked.")
		if prompt := d.model.Calls()[1].Text(); !strings.Contains(prompt, "closeTicket failed: ticket 13 is locked") || !strings.Contains(prompt, "close 13") {
			t.Errorf("prompt %s", prompt)
		}
	})
}

func TestApprovalExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := func(_ context.Context, _ *actions.Turn, c actions.Call) (actions.Approval, error) {
			return actions.Approval{Required: c.Action.Approval, Within: time.Nanosecond, Reason: "It is final."}, nil
		}
		d := newDesk(t, func(c *bot.Config) { c.Policy = policy })
		d.model.Says(closePlan)
		card := d.ask(nil, "close it")
		if shown := fmt.Sprint(asCard(t, card)); !strings.Contains(shown, "It is final.") {
			t.Errorf("card %s", shown)
		}
		approve, _ := buttons(t, card)
		if got := d.deliver(click(approve, nil)); !strings.Contains(got.body, "not decided in time") {
			t.Errorf("answer %s", got.body)
		}
		if len(*d.closed) != 0 {
			t.Error("ran")
		}
	})
}

func TestApprovalWithinTheReplies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(closePlan)
		replies := event{"deliveryMode": "expectReplies", "channelId": "console"}
		got := d.deliver(event{"deliveryMode": "expectReplies", "channelId": "console", "text": "close it"})
		id := got.body[strings.Index(got.body, "/approve ")+len("/approve "):][:12]
		replies["text"] = "/approve " + id
		if got := d.deliver(replies); !strings.Contains(got.body, "Closed it.") || len(*d.closed) != 1 {
			t.Errorf("answer %s", got.body)
		}
	})
}

func TestResetForgetsWhatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, command := range []string{"/reset", "/forget yes"} {
			d := newDesk(t)
			d.model.Says(closePlan)
			approve, _ := buttons(t, d.ask(nil, "close it"))
			d.say(command)
			d.connector.Next(t)
			if got := d.deliver(click(approve, nil)); !strings.Contains(got.body, "no longer waiting") || len(*d.closed) != 0 {
				t.Errorf("%s: %s", command, got.body)
			}
		}
	})
}

func TestTooMuchToShowIsNotAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(plan(do("closeTicket", `{"id":1,"note":"`+strings.Repeat("x", 27_000)+`"}`), say("Closed.")), plan(say("Too long.")))
		d.say("close")
		d.expect("Too long.")
		if prompt := d.model.Calls()[1].Text(); !strings.Contains(prompt, "too long to be shown") {
			t.Error(prompt)
		}
	})
}

func TestManyApprovalsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		for range 16 {
			d.model.Says(closePlan)
			d.ask(nil, "close it")
		}
		d.model.Says(closePlan, plan(say("No.")))
		d.say("close it")
		d.expect("No.")
	})
}

func TestAClickDoesNotWaitForATurnAtWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		working, release := make(chan struct{}), make(chan struct{})
		actions.Add(d.actions, "slow", "Is slow", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			*state.At[int](turn.Conversation, "slow")++
			close(working)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return actions.Done, nil
		})
		d.model.Says(closePlan)
		approve, _ := buttons(t, d.ask(nil, "close it"))
		d.model.Says(plan(do("slow", `{}`), say("Slowly done.")))
		slow := d.activity(event{"text": "be slow"})
		answered := make(chan answer)
		go func() { answered <- d.post(d.url, slow) }()
		<-working
		if got := d.deliver(click(approve, nil)); !strings.Contains(got.body, "Approved by Mia") {
			t.Errorf("answer %d %s", got.status, got.body)
		}
		close(release)
		<-answered
		d.expect("Slowly done.")
		d.expect("Closed it.")
	})
}

func TestTwoClicksAtOnceRunOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.model.Says(closePlan)
		approve, _ := buttons(t, d.ask(nil, "close it"))
		urls := []string{d.url, d.replica(), d.replica()}
		answers := make(chan answer, len(urls))
		for i, url := range urls {
			body := d.activity(click(approve, event{"id": fmt.Sprint("click", i)}))
			go func() { answers <- d.post(url, body) }()
		}
		approved := 0
		for range urls {
			if got := <-answers; strings.Contains(got.body, "adaptive") {
				approved++
			} else if !strings.Contains(got.body, "already decided") {
				t.Errorf("answer %d %s", got.status, got.body)
			}
		}
		d.expect("Closed it.")
		d.connector.None(t)
		if approved == 0 || len(*d.closed) != 1 {
			t.Errorf("%d approved, closed %v", approved, *d.closed)
		}
	})
}
