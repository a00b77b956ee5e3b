package bot_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/state"
)

const team = "19:team@thread.tacv2"

// bob is in a team that the bot knows, and has not written to it.
var bob = actions.Recipient{Channel: "msteams", Bot: "28:bot", User: "29:bob", Via: team}

// inTeam is a bot that Mia has talked with in a channel.
func inTeam(t *testing.T) *bundle {
	t.Helper()
	b := setup(t)
	b.model.Says(plan(say("Hello!")))
	b.deliver(event{"text": "<at>Planbot</at> hi", "entities": []event{mentionOfBot}, "conversation": event{"id": team + ";messageid=7", "conversationType": "channel", "isGroup": true, "tenantId": "t1"}})
	b.expect("Hello!")
	return b
}

// created are the requests that created a conversation.
func (b *bundle) created() []sent {
	return slices.DeleteFunc(b.connector.All(), func(s sent) bool { return s.To != "" })
}

func TestNotifyAPersonForTheFirstTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inTeam(t)
		for _, text := range []string{"Hello, Bob.", "Again."} {
			b.notify(actions.Notice{To: bob, Text: text})
			if got := b.connector.Next(t); got.Text() != text || got.To != "a:bob" {
				t.Errorf("sent %v to %s", got.Body, got.To)
			}
		}
		got := b.created()
		if len(got) != 1 {
			t.Fatalf("%d conversations were created, want 1", len(got))
		}
		const want = `{"bot":{"id":"28:bot"},"channelData":{"tenant":{"id":"t1"}},"isGroup":false,"members":[{"id":"29:bob"}],"tenantId":"t1"}`
		if got[0].JSON != want {
			t.Errorf("request %s, want %s", got[0].JSON, want)
		}
		b.model.Says(plan(say("Hello to you.")))
		b.deliver(event{"text": "hi", "from": event{"id": "29:bob", "name": "Bob"}, "conversation": event{"id": "a:bob", "conversationType": "personal", "tenantId": "t1"}})
		b.expect("Hello to you.")
		b.connector.None(t)
	})
}

// TestFirstContactSurvivesItsProcess: the conversation is created once more, the message arrives once.
func TestFirstContactSurvivesItsProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inTeam(t)
		r := b.addReplica()
		asked := make(chan struct{})
		b.connector.Decides(func(s bottest.Sent) bottest.Answer {
			if s.To == "" && len(b.created()) == 0 {
				r.kill()
				close(asked)
			}
			return bottest.Answer{}
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		if _, err := r.bot.Notify(ctx, actions.Notice{To: bob, Text: "Hello, Bob."}); err == nil {
			t.Fatal("a dead process saved a notice")
		}
		b.notify(actions.Notice{To: bob, Text: "Hello, Bob."})
		b.expect("Hello, Bob.")
		if n := len(b.created()); n != 2 {
			t.Errorf("%d requests created a conversation, want 2", n)
		}
		b.connector.None(t)
	})
}

func TestAPersonWhoCannotBeReached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inTeam(t)
		for _, c := range []struct {
			status int
			want   error
			says   string
		}{
			{http.StatusForbidden, actions.ErrUnreachable, "not installed for this person"},
			{http.StatusBadRequest, actions.ErrUnknownRecipient, "no conversation with this id"},
			{http.StatusNotFound, actions.ErrUnknownRecipient, "no conversation with this id"},
		} {
			b.connector.Decides(func(bottest.Sent) bottest.Answer { return bottest.Answer{Status: c.status} })
			if _, err := b.bot.Notify(t.Context(), actions.Notice{To: bob, Text: "x"}); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%d: error %v", c.status, err)
			}
		}
		elsewhere := bob
		elsewhere.Via = "19:unknown@thread.tacv2"
		if _, err := b.bot.Notify(t.Context(), actions.Notice{To: elsewhere, Text: "x"}); !errors.Is(err, actions.ErrUnknownRecipient) {
			t.Errorf("through an unknown conversation: %v", err)
		}
		b.connector.None(t)
	})
}

// TestAnActionMeetsAPerson of the turn's conversation, and /forget deletes that.
func TestAnActionMeetsAPerson(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		actions.Add(b.actions, "tell", "Tells Bob", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			_, err := turn.Notifier.Notify(ctx, actions.Notice{To: actions.Recipient{User: "29:bob"}, Text: "Mia says hi."})
			return actions.Done, err
		})
		b.model.Says(plan(do("tell", `{}`), say("Told.")))
		b.say("tell Bob hi")
		texts := []string{b.connector.Next(t).Text(), b.connector.Next(t).Text()}
		if slices.Sort(texts); !slices.Equal(texts, []string{"Mia says hi.", "Told."}) {
			t.Errorf("sent %q", texts)
		}
		b.rest("a:bob")
		b.deliver(event{"text": "/forget yes", "from": event{"id": "29:bob", "name": "Bob"}, "conversation": event{"id": "a:bob", "conversationType": "personal", "tenantId": "t1"}})
		b.expect("I've deleted everything I kept about you.")
		b.rest("a:bob")
		if _, err := b.bot.Notify(t.Context(), actions.Notice{To: actions.Recipient{Channel: "msteams", Bot: "28:bot", User: "29:bob"}, Text: "x"}); !errors.Is(err, actions.ErrUnknownRecipient) {
			t.Errorf("error %v", err)
		}
	})
}

// shown keeps the id of a message in state.
type shown struct{ ID string }

// changes are commands that change and delete a message.
func changes(made *bot.Bot) {
	made.OnCommand("/show", func(ctx context.Context, turn *bot.Turn) error {
		if err := turn.Tell(ctx, "Open."); err != nil {
			return err
		}
		state.Of[shown](turn.Conversation).ID = turn.Sent()[0]
		return turn.Save(ctx)
	})
	made.OnCommand("/close", func(ctx context.Context, turn *bot.Turn) error {
		m := turn.Message("Closed.")
		m.Type, m.ID = activity.MessageUpdate, state.Of[shown](turn.Conversation).ID
		return turn.Send(ctx, m, turn.Message("Done."))
	})
	made.OnCommand("/delete", func(ctx context.Context, turn *bot.Turn) error {
		return turn.Send(ctx, &activity.Activity{Type: activity.MessageDelete, ID: state.Of[shown](turn.Conversation).ID}, turn.Message("Done."))
	})
	made.OnCommand("/wrong", func(ctx context.Context, turn *bot.Turn) error {
		return turn.Send(ctx, &activity.Activity{Type: activity.MessageDelete})
	})
}

func TestAHandlerChangesASentMessage(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		changes(b.bot)
		b.say("/show")
		id := b.connector.Next(t).ID
		b.say("/close")
		b.expect("Done.")
		if got := b.connector.NextUpdate(t); got.ID != id || got.Text() != "Closed." || got.Type() != "message" || got.To != "a:mia" {
			t.Errorf("updated %s with %v", got.ID, got.Body)
		}
		b.say("/delete")
		b.expect("Done.")
		deleted := func(s sent) bool { return s.Method == http.MethodDelete }
		if got := b.connector.await(t, "delete", deleted); got.ID != id || got.To != "a:mia" {
			t.Errorf("deleted %s in %s", got.ID, got.To)
		}
		status := http.StatusNotFound
		b.connector.Decides(func(s bottest.Sent) bottest.Answer {
			if s.Method == http.MethodDelete {
				return bottest.Answer{Status: status}
			}
			return bottest.Answer{}
		})
		b.say("/delete")
		b.expect("Done.") // it is gone
		status = http.StatusForbidden
		b.say("/delete")
		b.expect("Done.") // the rest is still sent, and so is what comes later
		_, err := b.bot.Notify(t.Context(), actions.Notice{To: actions.Recipient{Channel: "msteams", Bot: "28:bot", Conversation: "a:mia"}, Text: "Later."})
		b.must(err)
		b.expect("Later.")
		b.say("/wrong")
		b.expectFault("Sorry, something went wrong on my side.")
		b.connector.None(t)
	})
}

// TestAChangeOfAMessageSurvivesItsProcess: it is in the outbox.
func TestAChangeOfAMessageSurvivesItsProcess(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		r := b.addRouted(changes)
		r.say("/show")
		id := b.connector.Next(t).ID
		b.rest("a:mia")
		b.must(b.bot.Drain(t.Context()))
		killed := make(chan struct{})
		b.connector.Decides(func(s bottest.Sent) bottest.Answer {
			select {
			case <-killed:
			default:
				if s.Method == http.MethodDelete {
					r.kill()
					close(killed)
				}
			}
			return bottest.Answer{}
		})
		r.say("/delete")
		<-killed
		b.addRouted(changes)
		b.expect("Done.")
		b.rest("a:mia")
		var deleted []string
		for _, s := range b.connector.All() {
			if s.Method == http.MethodDelete {
				deleted = append(deleted, s.ID)
			}
		}
		if !slices.Equal(deleted, []string{id, id}) {
			t.Errorf("deleted %q, want %q twice: once by each process", deleted, id)
		}
		b.connector.None(t)
	})
}

// TestANoticeChangesAMessage from outside of a turn.
func TestANoticeChangesAMessage(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.notify(actions.Notice{To: mia, Activities: []*activity.Activity{{Type: activity.MessageUpdate, ID: "1", Text: "Changed."}}})
		if got := b.connector.NextUpdate(t); got.ID != "1" || got.Text() != "Changed." {
			t.Errorf("updated %s with %v", got.ID, got.Body)
		}
		if _, err := b.bot.Notify(t.Context(), actions.Notice{To: mia, Activities: []*activity.Activity{{Type: activity.MessageDelete}}}); err == nil {
			t.Error("a message without an id was to be deleted")
		}
		b.connector.None(t)
	})
}
