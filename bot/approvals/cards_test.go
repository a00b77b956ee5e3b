package approvals

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/titles"
)

// TestCardsOnTheWire compares the cards of the bot with how they always were, since
// cards of earlier versions are clicked, and clients know these.
func TestCardsOnTheWire(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	type ticket struct {
		ID   int64  `json:"id"`
		Note string `json:"note"`
	}
	actions.Add(registry, "closeTicket", "Closes a <ticket>", func(context.Context, *actions.Turn, ticket) (actions.Result, error) { return actions.Done, nil })
	turn := &actions.Turn{Activity: &activity.Activity{Type: activity.Message, ID: "1", ChannelID: activity.Teams}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	v := view{
		View: titles.View{Say: turn.Translate, Zone: turn.Activity.Zone()}, Title: titles.Words, Action: registry.Lookup,
	}
	v.Asker.ID, v.Asker.Name = "29:mia", "Mia"
	a := &approval{
		ID: "ask1", Hash: "h", Action: "closeTicket", Entities: []byte(`{"id":12345678901234567,"note":"*bold* <b>\u202e","more":[1]}`), Reason: "It is final.",
		Approvers: []string{"29:boss"}, Expires: at,
	}
	compareCard(t, "approval", a.Card(v, ""))
	a.Approvers, a.Decision = nil, &decision{Approved: true, By: "Mia", At: at}
	compareCard(t, "decided", a.Closed(v))
}

func compareCard(t *testing.T, name string, card activity.Card) {
	t.Helper()
	golden, err := os.ReadFile("testdata/cards/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var want, got any
	if err := json.Unmarshal(golden, &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(card.Attachment().Content, &got); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestClearedValues: a null takes a value away, which looks like no text and no empty list.
func TestClearedValues(t *testing.T) {
	t.Parallel()
	v := view{
		View: titles.View{Say: new(actions.Turn).Translate, Zone: time.UTC}, Title: titles.Words,
		Action: func(string) (*actions.Action, bool) { return nil, false },
	}
	a := &approval{ID: "a1", Action: "updateIssue", Entities: []byte(`{"body":{"assignee":null,"due":"cleared","labels":[],"title":"New"},"note":null}`)}
	words := a.Words(v)
	for _, want := range []string{"assignee: cleared, ", `due: "cleared"`, "labels: (–)", "`note`: `cleared`"} {
		if !strings.Contains(words, want) {
			t.Errorf("%q is not in %s", want, words)
		}
	}
}

// TestRead reads what clients send when a button is pressed, and what people write.
func TestRead(t *testing.T) {
	t.Parallel()
	const execute = `{"action":{"type":"Action.Execute","verb":"planbot/%[1]s","data":{"verb":"planbot/%[1]s",%[2]s}}}`
	const refresh = `{"action":{"type":"Action.Execute","verb":"planbot/%[1]s",` +
		`"data":{"verb":"planbot/%[1]s","approval":"a1","question":"q1","hash":"h"}},"trigger":"%[2]s"}`
	for _, tt := range []struct {
		name string
		a    activity.Activity
		text string
		want string // the id, with a question mark for an answer; "": nothing
	}{
		{name: "approve", a: pressed(execute, "approve", `"approval":"a1","hash":"h"`), want: "a1"},
		{name: "reject by an old client", a: pressed(`{"approval":"a1","hash":"h","verb":"planbot/reject"}`), want: "a1"},
		{name: "without the hash", a: pressed(execute, "approve", `"approval":"a1"`)},
		{name: "an unknown verb", a: pressed(execute, "forget", `"approval":"a1","hash":"h"`)},
		{name: "the button of a bot", a: pressed(`{"action":{"type":"Action.Execute","verb":"x","data":{"approval":"a1","hash":"h","verb":"planbot/approve"}}}`)},
		{name: "another kind of action", a: pressed(`{"action":{"type":"Action.Submit","verb":"planbot/approve","data":{"approval":"a1","hash":"h","verb":"planbot/approve"}}}`)},
		{name: "answer", a: pressed(execute, "answer", `"question":"q1","f0":"x"`), want: "q1?"},
		{name: "decline", a: pressed(`{"question":"q1","verb":"planbot/decline"}`), want: "q1?"},
		{name: "an answer to an approval", a: pressed(execute, "answer", `"approval":"a1","hash":"h"`)},
		{name: "a refresh", a: pressed(refresh, "approve", "automatic")},
		{name: "a refresh that approves always", a: pressed(refresh, "approve-always", "automatic")},
		{name: "a refresh that rejects", a: pressed(refresh, "reject", "automatic")},
		{name: "a refresh that answers", a: pressed(refresh, "answer", "automatic")},
		{name: "a refresh that declines", a: pressed(refresh, "decline", "automatic")},
		{name: "a refresh in other letters", a: pressed(refresh, "approve", "Automatic")},
		{name: "a trigger that is not known", a: pressed(refresh, "approve", "opened")},
		{name: "a trigger of another type", a: pressed(strings.Replace(fmt.Sprintf(refresh, "approve", ""), `"trigger":""`, `"trigger":true`, 1))},
		{name: "two triggers", a: pressed(strings.Replace(fmt.Sprintf(refresh, "approve", "manual"), "{", `{"Trigger":"automatic",`, 1))},
		{name: "a click", a: pressed(refresh, "approve", "Manual"), want: "a1"},
		{name: "no trigger", a: pressed(strings.Replace(fmt.Sprintf(refresh, "approve", ""), `"trigger":""`, `"trigger":null`, 1)), want: "a1"},
		{name: "no object", a: pressed(`"planbot/approve"`)},
		{name: "words", text: " /Approve  a1 ALWAYS", want: "a1"},
		{name: "words that only begin so", text: "/approve a1 twice"},
		{name: "no id", text: "/reject"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.a.Type = cmp.Or(tt.a.Type, activity.Message)
			got := ""
			if c, ok := read(&tt.a, tt.text); ok && c.Answers {
				got = c.ID + "?"
			} else if ok {
				got = c.ID
			}
			if got != tt.want {
				t.Errorf("read %q, want %q", got, tt.want)
			}
		})
	}
}

// pressed is what a client sends: an invoke or, if the value is the data itself, a message.
func pressed(value string, args ...any) (a activity.Activity) {
	if len(args) > 0 {
		value = fmt.Sprintf(value, args...)
	}
	a.Type, a.Value = activity.Message, []byte(value)
	if strings.Contains(value, `"action"`) {
		a.Type, a.Name = activity.Invoke, "adaptiveCard/action"
	}
	return a
}

// TestDecide has one click after another decide an approval: none but the one that counts changes it.
func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	a := approval{ID: "a1", Hash: "h", Approvers: []string{"29:boss"}, Expires: now, Standing: true}
	v := view{View: titles.View{Say: new(actions.Turn).Translate, Zone: time.UTC}}
	decide := func(hash, from string, at time.Time) string {
		said := pressed(`{"approval":"a1","hash":"` + hash + `","verb":"planbot/approve-always"}`)
		said.ID, said.ReplyToID, said.From.ID = "click", "card", from
		c, ok := read(&said, "")
		if !ok {
			t.Fatal("the click is not read")
		}
		return a.Decide(v, c, at)
	}
	for want, got := range map[string]string{
		"This card is for a different call. Nothing was done.": decide("other", "29:boss", now),
		"This was not decided in time. Nothing was done.":      decide("h", "29:boss", now.Add(1)),
		"You can't decide this. Nothing was done.":             decide("h", "29:mia", now),
	} {
		if got != want || a.Decision != nil || a.CardID != "" {
			t.Errorf("%q, want %q: %+v", got, want, a)
		}
	}
	got := decide("h", "29:boss", now)
	want := decision{Approved: true, Always: true, By: "29:boss", ID: "29:boss", At: now, Click: "click"}
	if got != "" || *a.Decision != want || a.CardID != "card" {
		t.Errorf("%q: %+v, want %+v", got, a, want)
	}
	if late := a.Late(v); late != "This was already decided: Approved for good by 29:boss, 2026-01-02 03:04 UTC." {
		t.Error(late)
	}
}

func Example() {
	a := approval{ID: "a1", Action: "closeTicket", Approvers: []string{"29:boss"}, Expires: time.Now().Add(time.Hour)}
	said := &activity.Activity{Type: activity.Message, Text: "/reject a1"}
	said.From.ID = "29:boss"
	if click, ok := read(said, said.Text); ok && click.ID == a.ID {
		v := view{View: titles.View{Say: new(actions.Turn).Translate, Zone: time.UTC}}
		fmt.Printf("%q\n", a.Decide(v, click, time.Now()))
	}
	fmt.Println("approved:", a.Decision.Approved)
	// Output:
	// ""
	// approved: false
}

// TestMerge: what two threads of a channel change at the same time is all there.
func TestMerge(t *testing.T) {
	t.Parallel()
	list := func(ids ...string) *approvals {
		a := &approvals{}
		for _, id := range ids {
			a.Standing = append(a.Standing, standing{Hash: id, Asker: "mia"})
			a.Decided = append(a.Decided, decided{ID: id})
			a.Elsewhere = append(a.Elsewhere, asked{ID: id})
		}
		return a
	}
	ours, was, theirs := list("1", "3", "4", "new"), list("1", "2", "3", "4"), list("1", "2", "4", "other", "new")
	theirs.Elsewhere[0].Card, ours.Elsewhere[2].Card = "7", "8"
	want := list("1", "4", "new", "other")
	want.Elsewhere[0].Card, want.Elsewhere[1].Card = "7", "8"
	theirs.Reminded = time.Unix(1, 0)
	want.Reminded = theirs.Reminded
	ours.Merge(was, theirs)
	if diff := gocmp.Diff(want, ours); diff != "" {
		t.Error(diff)
	}
}

// TestEachCardOfAQuestionIsKnown, so that none keeps its buttons: one came twice after a crash, and one of them was clicked.
func TestEachCardOfAQuestionIsKnown(t *testing.T) {
	t.Parallel()
	q := &question{ID: "q1", Expires: time.Now().Add(time.Hour)}
	q.Shown("first")
	q.Shown("again")
	if refusal := q.Answer(view{View: titles.View{Say: new(actions.Turn).Translate}}, &click{ID: "q1", Answers: true, card: "unknown"}, time.Now()); refusal != "" {
		t.Fatal(refusal)
	}
	if all := once(append([]string{q.CardID}, q.Clicked...)); !slices.Equal(all, []string{"again", "first", "unknown"}) {
		t.Errorf("known are %q", all)
	}
}

// TestChain says who was asked when, by which rule, and who decided.
func TestChain(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	ben := activity.Account{}
	ben.ID, ben.Name = "29:ben", "Ben"
	a := &approval{
		Asked: at, Expires: at.Add(time.Hour), Quorum: 2, Here: []string{"Emil"}, Sent: []sent{
			{To: "aad-ben", Name: "Ben\n", At: at, Rule: byPolicy}, {To: "aad-carla", Name: "Carla", At: at, Rule: byDelegation, For: &delegation{By: ben}},
		},
		Votes:    []decision{{Approved: true, By: "Carla", For: &ben, At: at.Add(time.Minute)}},
		Escalate: []escalation{{At: at.Add(30 * time.Minute), To: []string{"aad-board"}}},
	}
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	rec := &turn.Record{Wait: &turn.Wait{}}
	rec.Wait.Pauses = map[string]jsontext.Value{"approval": raw}
	want := []string{
		"2026-01-02 09:00:00 UTC: asked for approval until 2026-01-02 10:00:00 UTC", "who can decide in the conversation: Emil",
		"2026-01-02 09:00:00 UTC: asked Ben\\n aad-ben (policy)", "2026-01-02 09:00:00 UTC: asked Carla aad-carla (delegation of Ben)",
		"2026-01-02 09:01:00 UTC: approved by Carla (for Ben)", "1 of 2 approvals",
		"2026-01-02 09:30:00 UTC: asks aad-board as well (escalation), if nobody has decided",
	}
	if diff := gocmp.Diff(want, Chain(rec)); diff != "" {
		t.Error(diff)
	}
	if Chain(&turn.Record{}) != nil {
		t.Error("a record that waits for nothing has a chain")
	}
}

// TestAClockThatJumps ahead of the end lets nobody decide and spends nothing; back again, the approver decides, once.
func TestAClockThatJumps(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
	ben := activity.Account{}
	ben.ID, ben.Name = "29:ben", "Ben"
	v := view{View: titles.View{Say: new(actions.Turn).Translate, Zone: time.UTC}}
	a := &approval{ID: "a1", Hash: "h", Approvers: []string{"29:ben"}, Asked: now, Expires: now.Add(time.Hour)}
	approve := &click{ID: "a1", by: ben, said: data{Approval: "a1", Hash: "h", Verb: verbApprove}}
	for _, step := range []struct {
		at   time.Time
		want string
	}{
		{now.Add(1000 * time.Hour), string(tooLate)},
		{now.Add(-1000 * time.Hour), ""},
		{now.Add(time.Minute), "This was already decided: Approved by Ben, 2025-11-21 17:00 UTC."},
		{now.Add(1000 * time.Hour), "This was already decided: Approved by Ben, 2025-11-21 17:00 UTC."},
	} {
		if said := a.Decide(v, approve, step.at); said != step.want {
			t.Errorf("at %v: %q, want %q", step.at, said, step.want)
		}
	}
}

// TestEveryFaultOfAnApproval is said at once.
func TestEveryFaultOfAnApproval(t *testing.T) {
	t.Parallel()
	people := []string{"", "otto@contoso.com"}
	got := faultOf(actions.Approval{Approvers: people, Quorum: 3, Within: -1}, people, time.Hour)
	const want = "an approver has no id; an approver is given by a user principal name, which is no id; " +
		"its time to decide is negative, or longer than 720 hours; its quorum is larger than the number of approvers"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTimeToDecide is not longer than state is kept.
func TestTimeToDecide(t *testing.T) {
	t.Parallel()
	for within, fits := range map[time.Duration]bool{-1: false, 0: true, MaxWithin: true, MaxWithin + 1: false} {
		if fault := faultOf(actions.Approval{Within: within}, nil, time.Hour); (fault == "") != fits {
			t.Errorf("%s: %q", within, fault)
		}
	}
}
