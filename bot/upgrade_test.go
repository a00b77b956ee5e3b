package bot_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// yard is the inbox of a bundle, as other versions of the bot have left it and as an
// operator sees it.
type yard struct {
	*bundle
	inbox *state.Inbox
	lane  state.Lane
}

func newYard(b *bundle) *yard {
	b.Helper()
	store, err := state.Open(b.Context(), "redis://"+b.redis.Addr(), state.Config{})
	b.must(err)
	b.Cleanup(func() { _ = store.Close() })
	inbox, err := store.Inbox(state.InboxConfig{})
	b.must(err)
	b.Cleanup(inbox.Close)
	return &yard{b, inbox, state.ConversationKey("msteams", "28:bot", "a:mia").Lane("")}
}

// item is one of the form of this version, of a message.
func (y *yard) item() string {
	return `{"v":1,"activity":` + string(y.activity(event{"text": "go"})) + `}`
}

// leave puts an item into the conversation's lane, with the journal and as often taken
// over as a process leaves it that is gone.
func (y *yard) leave(turn, body, journal string, tries int) {
	y.Helper()
	receipt, err := y.inbox.Accept(y.Context(), state.Entry{Lane: y.lane, Turn: turn, Body: []byte(body), Take: true})
	y.must(err)
	if journal != "" {
		y.must(receipt.Hold.Save(y.Context(), []byte(journal)))
	}
	y.redis.HSet(y.lane.String()+"/lease", "tries", fmt.Sprint(tries))
	y.must(receipt.Hold.Release(y.Context(), 0))
}

// parked waits for so many parked turns.
func (y *yard) parked(n int) []state.Parked {
	y.Helper()
	timeout := time.After(10 * time.Second)
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-tick.C:
			if list, err := y.inbox.Parked(y.Context()); err != nil || len(list) == n {
				y.must(err)
				return list
			}
		case <-timeout:
			y.Fatalf("there are not %d parked turns:\n%s", n, y.log)
		}
	}
}

// TestItemsOfOtherVersionsAreParked as they are. The person is told where it can be
// read who that is, and the conversation goes on.
func TestItemsOfOtherVersionsAreParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body   func(y *yard) string
		reason string
		told   bool
	}{
		"a later one":                     {func(y *yard) string { return strings.Replace(y.item(), `"v":1`, `"v":2,"more":[1]`, 1) }, "version 2, this one knows 1", true},
		"a later one without an activity": {func(*yard) string { return `{"v":2,"activities":[]}` }, "version 2", false},
		"no activity":                     {func(*yard) string { return `{"v":1,"activity":"x"}` }, "read item", false},
		"no JSON":                         {func(*yard) string { return `{"v":1,` }, "read item", false},
		"of a type that is not answered": {func(y *yard) string {
			return `{"v":2,"activity":` + string(y.activity(event{"type": "conversationUpdate"})) + `}`
		}, "version 2", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(setup(t))
			body := c.body(y)
			y.leave("turn1", body, "", 0)
			r := y.addReplica()
			if c.told {
				y.expectFault("I could not finish this, and put it aside for whoever runs me. (turn turn1)")
			}
			got := y.parked(1)[0]
			if got.Turn != "turn1" || string(got.Body) != body || got.Journal != nil || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("parked %q with %s: %s", got.Turn, got.Body, got.Reason)
			}
			y.model.Says(plan(say("Still here.")))
			r.say("are you there?")
			y.expect("Still here.")
			y.connector.None(t)
		})
	}
}

// journalOf is a journal of this version at the second of three commands.
func journalOf(change ...string) string {
	j := `{"v":1,"run":{"execution":{"plan":{"commands":[` + do("before", `{}`) + `,` + do("later", `{"n":1}`) + `,` + say("All done.") +
		`]},"next":1,"variables":null},"in_flight":1,"steps":1,"rounds":[{"outcomes":[{"action":"before"}]}],` +
		`"executed":[` + do("before", `{}`) + `],"kept":[{"action":"before"}],"usage":{}}}`
	return strings.NewReplacer(change...).Replace(j)
}

// TestJournalsThatDoNotFitAreParked as they are, and the person is told what the
// journal knows.
func TestJournalsThatDoNotFitAreParked(t *testing.T) {
	t.Parallel()
	const cannotBeRead, plain = "its journal cannot be read", "put it aside for whoever runs me. (turn turn1)"
	const known = "put it aside for whoever runs me. Before that I did: before. I cannot tell whether this was done: later. (turn turn1)"
	for name, c := range map[string]struct{ journal, reason, said string }{
		"a later version":        {journalOf(`"v":1`, `"v":2`), "its journal has version 2, this program knows 1", plain},
		"no JSON":                {`{"v":1,`, cannotBeRead, plain},
		"other types":            {journalOf(`"steps":1`, `"steps":"one"`), cannotBeRead, plain},
		"a plan with more in it": {journalOf(`"next":1`, `"next":1,"loop":true`), cannotBeRead, plain},
		"a command too far":      {journalOf(`"next":1`, `"next":4`), cannotBeRead, plain},
		"more begun than left":   {journalOf(`"in_flight":1`, `"in_flight":3`), cannotBeRead, plain},
		"begun without a plan":   {`{"v":1,"run":{"in_flight":1,"usage":{}}}`, cannotBeRead, plain},
		"a plan without a round": {journalOf(`{"outcomes":[{"action":"before"}]}`, ``), cannotBeRead, plain},
		"a message too far": {
			`{"v":1,"send":{"messages":[{"type":"message","text":"Hi","conversation":{"id":"a:mia"},"from":{"id":"28:bot"},"recipient":{"id":"29:mia"},"channelId":"msteams"}],"next":2}}`,
			cannotBeRead, plain,
		},
		"a message that is none":  {`{"v":1,"send":{"messages":[7]}}`, cannotBeRead, plain},
		"an action that is gone":  {journalOf(`"later"`, `"sooner"`), "its plan does not fit this version of the bot: no plan that could run: unknown_action", strings.Replace(known, "later", "sooner", 1)},
		"entities that are wrong": {journalOf(`{"n":1}`, `{"n":"x"}`), "its plan does not fit this version of the bot: no plan that could run: invalid_entities", known},
		"lost too often":          {journalOf(), "its process was lost 3 times", known},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := newYard(setup(t))
			before, later := addCount(y.bundle, "before"), addLater(y.bundle)
			tries := 0
			if name == "lost too often" {
				tries = 3
			}
			body := y.item()
			y.leave("turn1", body, c.journal, tries)
			r := y.addReplica()
			y.expectFault(c.said)
			got := y.parked(1)[0]
			if string(got.Body) != body || string(got.Journal) != c.journal || !strings.Contains(got.Reason, c.reason) || got.Tries != tries {
				t.Errorf("parked with %d tries: %s\n%s\n%s", got.Tries, got.Reason, got.Body, got.Journal)
			}
			y.model.Says(plan(say("Still here.")))
			r.say("are you there?")
			y.expect("Still here.")
			y.connector.None(t)
			if before.Load() != 0 || len(*later) != 0 {
				t.Errorf("before ran %d times, later %v", before.Load(), *later)
			}
		})
	}
}

// addLater registers an action with an entity, and returns what it was called with.
func addLater(b *bundle) *[]string {
	calls := &[]string{}
	type in struct {
		N int `json:"n"`
	}
	actions.Add(b.actions, "later", "Notes", func(ctx context.Context, _ *actions.Turn, in in) (actions.Result, error) {
		a := actions.AttemptOf(ctx)
		*calls = append(*calls, fmt.Sprint(in.N, " ", a.Key, " ", a.Again))
		return actions.Done, nil
	})
	return calls
}

// TestATurnWhoseParkingTakesItsProcessIsParkedUnread, so that nothing goes in circles.
func TestATurnWhoseParkingTakesItsProcessIsParkedUnread(t *testing.T) {
	t.Parallel()
	y := newYard(setup(t))
	y.leave("turn1", y.item(), journalOf(), 7)
	y.addReplica()
	if got := y.parked(1)[0]; !strings.Contains(got.Reason, "lost 7 times") || string(got.Journal) != journalOf() {
		t.Errorf("%s: %s", got.Reason, got.Journal)
	}
	y.connector.None(t)
}

// TestAParkedTurnGoesOnAfterTheFix: another version of the bot has the action again, and
// runs what is left, with the key of the call that had begun.
func TestAParkedTurnGoesOnAfterTheFix(t *testing.T) {
	t.Parallel()
	y := newYard(setup(t))
	before := addCount(y.bundle, "before")
	y.leave("turn1", y.item(), journalOf(), 0)
	r := y.addReplica()
	y.expectFault("put it aside")
	y.parked(1)
	y.must(y.inbox.Unpark(t.Context(), "turn1"))
	y.expectFault("put it aside") // it still does not fit
	y.parked(1)
	y.must(r.bot.Drain(t.Context()))

	y.actions = actions.New()
	addCount(y.bundle, "before")
	later := addLater(y.bundle)
	y.addReplica()
	y.must(y.inbox.Unpark(t.Context(), "turn1"))
	y.expect("All done.")
	if got := fmt.Sprint(*later); got != "[1 turn1.1 true]" || before.Load() != 0 {
		t.Errorf("later was called with %s, before %d times", got, before.Load())
	}
	y.parked(0)
	y.connector.None(t)
}

// TestAParkedInvokeIsAnswered, so that nobody waits for it in vain.
func TestAParkedInvokeIsAnswered(t *testing.T) {
	t.Parallel()
	y := newYard(setup(t))
	y.leave("turn1", `{"v":1,"awaited":true,"activity":`+string(y.activity(event{"type": "invoke", "name": "x"}))+`}`, `{"v":2}`, 0)
	y.addReplica()
	y.parked(1)
	raw, err := y.inbox.Answer(t.Context(), y.lane, "turn1")
	y.must(err)
	if string(raw) != `{"status":500}` {
		t.Errorf("answer %s", raw)
	}
	y.connector.None(t)
}

// TestAParkedTurnThatFollowsAClickSaysSo, although a click is no message.
func TestAParkedTurnThatFollowsAClickSaysSo(t *testing.T) {
	t.Parallel()
	y := newYard(setup(t))
	invoke := y.activity(click(map[string]any{"verb": "planbot/approve", "approval": "a", "hash": "h"}, nil))
	y.leave("turn1", `{"v":1,"approval":"a","activity":`+string(invoke)+`}`, `{"v":2}`, 0)
	y.addReplica()
	y.expectFault("put it aside for whoever runs me. (turn turn1)")
	y.parked(1)
}

// TestAParkedTurnWhoseRepliesAreAwaitedSaysSo in them.
func TestAParkedTurnWhoseRepliesAreAwaitedSaysSo(t *testing.T) {
	t.Parallel()
	y := newYard(setup(t))
	body := `{"v":1,"awaited":true,"activity":` + string(y.activity(event{"text": "go", "deliveryMode": "expectReplies"})) + `}`
	y.leave("turn1", body, `{"v":2}`, 0)
	y.addReplica()
	y.parked(1)
	raw, err := y.inbox.Answer(t.Context(), y.lane, "turn1")
	y.must(err)
	if !strings.Contains(string(raw), "put it aside for whoever runs me. (turn turn1)") {
		t.Errorf("answer %s", raw)
	}
	y.connector.None(t)
}

// approvalDocument is that of an approval as it was kept before turns had journals: its
// values are the same by now. What is in % is the test's.
const approvalDocument = `{"id":"oldapproval1","hash":"%hash","action":"closeTicket","entities":{"id":7},"turn":"oldturn1",` +
	`"asker":{"id":"29:mia","name":"Mia","aad":"aad-mia"},"expires":"2999-01-01T00:00:00Z","card":"1",` +
	`"run":{"v":%v,"activity":{"type":"message","id":"old1","channelId":"msteams","serviceUrl":"http://moved.example/",` +
	`"from":{"id":"29:mia","name":"Mia","aadObjectId":"aad-mia"},"recipient":{"id":"28:bot","name":"Planbot"},` +
	`"conversation":{"id":"a:mia","conversationType":"personal","tenantId":"t1"},"channelData":{"tenant":{"id":"t1"}}},` +
	`"text":"close 7","steps":0,"execution":{"plan":{"commands":[` +
	`{"type":"DO","action":"closeTicket","entities":{"id":7}},{"type":"SAY","response":"Closed 7."}]},"next":0,"variables":null},` +
	`"rounds":[{}],"usage":{"ModelCalls":1}}%decided}`

// TestApprovalsOfTheVersionBefore: one that waits, and one that was decided without that
// anything followed, go on.
func TestApprovalsOfTheVersionBefore(t *testing.T) {
	t.Parallel()
	for name, decided := range map[string]string{
		"waits":                 "",
		"decided and not begun": `,"decided":{"approved":true,"by":"Mia","at":"2026-11-01T00:00:00Z"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.keepApproval(1, decided)
			d.say("/approve oldapproval1")
			d.expect("Closed 7.")
			d.say("/approve oldapproval1")
			if got := d.connector.Next(t).Text(); !strings.Contains(got, "decided already: Approved by Mia") {
				t.Errorf("the second time: %q", got)
			}
			if len(*d.closed) != 1 {
				t.Errorf("closed %v", *d.closed)
			}
		})
	}
}

// keepApproval puts a document where the bot looks for approvals. Its hash is learned
// from one that the bot makes itself of the same call.
func (d desk) keepApproval(version int, decided string) {
	d.Helper()
	d.model.Says(plan(do("closeTicket", `{"id":7}`), say("Closed 7.")))
	approve, _ := buttons(d.T, d.ask(nil, "close 7"))
	own := state.ConversationKey("msteams", "28:bot", "a:mia").Under("approvals", fmt.Sprint(approve["approval"])).String()
	doc, err := d.redis.Get(own)
	d.must(err)
	text := strings.NewReplacer("%hash", fmt.Sprint(approve["hash"]), "%v", fmt.Sprint(version), "%decided", decided).Replace(approvalDocument)
	at := regexp.MustCompile(`\{.*\}`).FindStringIndex(doc)
	if at == nil {
		d.Fatalf("no JSON in %q", doc)
	}
	d.must(d.redis.Set(strings.Replace(own, fmt.Sprint(approve["approval"]), "oldapproval1", 1), doc[:at[0]]+text+doc[at[1]:]))
}

// TestAnApprovedRunOfALaterVersionIsParked, and goes on when that version is back.
func TestAnApprovedRunOfALaterVersionIsParked(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	y := newYard(d.bundle)
	d.keepApproval(2, "")
	d.say("/approve oldapproval1")
	d.expectFault("I could not finish this, and put it aside for whoever runs me.")
	parked := y.parked(1)[0]
	if !strings.Contains(parked.Reason, "version 2") || len(*d.closed) != 0 {
		t.Errorf("%s; closed %v", parked.Reason, *d.closed)
	}
	d.say("/approve oldapproval1") // makes sure
	d.expectFault("I could not finish this, and put it aside for whoever runs me.")
	y.parked(2)

	key := state.ConversationKey("msteams", "28:bot", "a:mia").Under("approvals", "oldapproval1").String()
	doc, err := d.redis.Get(key)
	d.must(err)
	d.must(d.redis.Set(key, strings.Replace(doc, `"run":{"v":2`, `"run":{"v":1`, 1)))
	y.must(y.inbox.Unpark(t.Context(), parked.Turn))
	d.expect("Closed 7.")
	y.must(y.inbox.Unpark(t.Context(), y.parked(1)[0].Turn)) // of the second yes
	d.model.Says(plan(say("Hello.")))
	d.say("hello")
	d.expect("Hello.")
	d.connector.None(t)
	if len(*d.closed) != 1 {
		t.Errorf("closed %v", *d.closed)
	}
}

// TestAnApprovedPlanThatDoesNotFitIsParked, and goes on with a version that it fits.
func TestAnApprovedPlanThatDoesNotFitIsParked(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	y := newYard(d.bundle)
	d.model.Says(plan(do("closeTicket", `{"id":7}`), say("Closed it.")))
	approve, _ := buttons(t, d.ask(nil, "close it"))
	y.must(d.bot.Drain(t.Context()))
	with := d.actions
	d.actions = actions.New()
	r := d.addReplica()
	d.actions = with
	if got := d.post(r.url, d.activity(click(approve, nil))); got.status != http.StatusOK || !strings.Contains(got.body, "Approved by Mia") {
		t.Errorf("answer %d %s", got.status, got.body)
	}
	d.expectFault("things have changed since I asked for approval, so I did not do it, and put it aside for whoever runs me.")
	parked := y.parked(1)[0]
	if !strings.Contains(parked.Reason, "the approved plan does not fit this version of the bot") {
		t.Errorf("reason %s", parked.Reason)
	}
	y.must(r.bot.Drain(t.Context()))
	d.addReplica()
	y.must(y.inbox.Unpark(t.Context(), parked.Turn))
	d.expect("Closed it.")
	if len(*d.closed) != 1 {
		t.Errorf("closed %v", *d.closed)
	}
}
