package bot_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
)

// whisper delivers a question of Mia to the bot alone, in a group.
func (b *bundle) whisper(text string, over ...event) {
	b.Helper()
	if got := b.deliver(private(append([]event{{"text": text}}, over...)...)); got.status != http.StatusOK {
		b.Fatalf("%q was answered with %d %s", text, got.status, got.body)
	}
}

// private are the fields of an activity that nobody else in the group sees.
func private(over ...event) event {
	all := event{
		"conversation": event{"id": "19:g@thread.v2", "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"},
		"recipient":    event{"id": "28:bot", "name": "Planbot", "isTargeted": true},
	}
	for _, one := range over {
		for name, value := range one {
			all[name] = value
		}
	}
	return all
}

// open are those of one that everybody sees.
func open(text string) event {
	return private(event{
		"text": "<at>Planbot</at> " + text, "recipient": event{"id": "28:bot", "name": "Planbot"},
		"entities": []event{{"type": "mention", "text": "<at>Planbot</at>", "mentioned": event{"id": "28:bot"}}},
	})
}

// onlyMia fails the test unless Mia alone sees it.
func (b *bundle) onlyMia(s sent) {
	b.Helper()
	if !s.Targeted || s.Activity.Recipient.ID != "29:mia" {
		b.Errorf("not for Mia alone: %s", s.JSON)
	}
}

// TestPrivateQuestion: what is asked in private is answered in private, also when it fails, and no
// model tells others of it.
func TestPrivateQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout = 0 })
		b.model.Says(plan(say("You earn a lot.")))
		b.whisper("what do I earn?")
		first := b.connector.Next(t)
		if b.onlyMia(first); first.Text() != "You earn a lot." {
			t.Errorf("reply %q", first.Text())
		}
		b.model.Fails(http.StatusUnauthorized, "invalid_api_key")
		b.whisper("and what next?")
		second := b.connector.Next(t)
		b.onlyMia(second)
		if told := b.told(); !strings.Contains(told, "what do I earn?") {
			t.Errorf("the next private question was told %s", told)
		}
		b.whisper("help")
		b.onlyMia(b.connector.Next(t))
		b.model.Says(plan(say("Hello!")))
		b.deliver(open("hi"))
		if got := b.connector.Next(t); got.Targeted || got.Text() != "Hello!" {
			t.Errorf("to all: %s", got.JSON)
		}
		if told := b.told(); strings.Contains(told, "earn") {
			t.Errorf("an open question was told of a private one: %s", told)
		}
	})
}

// told is what the model was told last.
func (b *bundle) told() string {
	calls := b.model.Calls()
	var all strings.Builder
	for _, m := range calls[len(calls)-1].Messages {
		all.WriteString(m.Role + ": " + m.Text + "\n")
	}
	return all.String()
}

// TestPrivateThings: cards, changes of them, notices and approvals.
func TestPrivateThings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout = 0 })
		actions.Add(b.actions, "wipe", "Wipes it", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil }, actions.NeedsApproval)
		ids := make(chan string, 1)
		b.bot.OnCommand("show", func(ctx context.Context, turn *bot.Turn) error {
			err := turn.Show(ctx, activity.Card{Fallback: "a card", Body: []any{activity.TextBlock{Text: "a"}}})
			sent := turn.Sent()
			ids <- sent[0]
			return errors.Join(err, turn.Send(ctx, &activity.Activity{Type: activity.MessageUpdate, ID: sent[0], Text: "another"}, &activity.Activity{Type: activity.MessageDelete, ID: sent[0]}, &activity.Activity{Type: activity.MessageDelete, ID: "open"}))
		})
		b.bot.OnCommand("later", func(ctx context.Context, turn *bot.Turn) error {
			_, err := turn.Notifier.Notify(ctx, actions.Notice{Text: "it is time", At: time.Now().Add(10 * time.Millisecond)})
			return err
		})
		b.bot.OnCommand("open", func(ctx context.Context, turn *bot.Turn) error {
			if err := turn.Tell(ctx, "for you"); err != nil {
				return err
			}
			turn.AnswerOpenly()
			return turn.Tell(ctx, "for all")
		})
		b.bot.OnMessage((*bot.Turn).IsSubmit, func(ctx context.Context, turn *bot.Turn) error { return turn.Tell(ctx, "clicked") })
		b.whisper("show")
		b.onlyMia(b.connector.Next(t))
		id := <-ids
		for method, targeted := range map[string]string{http.MethodPut: id, http.MethodDelete: id} {
			got := b.connector.await(t, method, func(s sent) bool { return s.Method == method && s.ID == targeted })
			if !got.Targeted || got.Activity.Recipient.ID != "" {
				t.Errorf("%s: targeted %v, %s", method, got.Targeted, got.JSON)
			}
		}
		if got := b.connector.await(t, "delete", func(s sent) bool { return s.ID == "open" }); got.Targeted {
			t.Error("an open message was deleted as a private one")
		}
		b.whisper("later")
		notice := b.connector.Next(t)
		if b.onlyMia(notice); notice.Text() != "it is time" {
			t.Errorf("notice %s", notice.JSON)
		}
		b.whisper("open", event{"id": "question"})
		b.onlyMia(b.connector.Next(t))
		if got := b.connector.Next(t); got.Targeted || got.Text() != "for all" || !strings.Contains(got.JSON, `{"messageId":"question","type":"targetedMessageInfo"}`) {
			t.Errorf("openly %s", got.JSON)
		}
		b.model.Says(plan(do("wipe", `{}`), say("Wiped.")))
		b.whisper("wipe it")
		question := b.connector.Next(t)
		b.onlyMia(question)
		approve := question.Buttons()[0]
		click, err := question.Click(approve)
		must(t, err)
		b.deliver(private(event(click)))
		done := b.connector.Next(t)
		if b.onlyMia(done); done.Text() != "Wiped." {
			t.Errorf("after the approval %s", done.JSON)
		}
		b.connector.await(t, "update of the card", func(s sent) bool { return s.Method == http.MethodPut && s.ID == question.ID && s.Targeted })
		b.deliver(private(event{"value": event{"a": 1}, "replyToId": question.ID, "recipient": event{"id": "28:bot"}}))
		if got := b.connector.Next(t); got.Text() != "clicked" || !got.Targeted {
			t.Errorf("after a click on a private card: %s", got.JSON)
		}
		b.deliver(private(event{"value": event{"a": 2}, "replyToId": "open", "recipient": event{"id": "28:bot"}}))
		if got := b.connector.Next(t); got.Text() != "clicked" || got.Targeted {
			t.Errorf("after a click on an open card: %s", got.JSON)
		}
	})
}

// TestPrivateApproval: who would have to approve sees the question only if its person agrees.
func TestPrivateApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(c *bot.Config) { c.AckTimeout, c.Approvers = 0, []string{"29:boss"} })
		ran := make(chan bool, 1)
		actions.Add(b.actions, "wipe", "Wipes it", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			ran <- true
			return actions.Done, nil
		}, actions.NeedsApproval)
		b.model.Says(plan(do("addItem", `{"list":"a","item":"b"}`), do("wipe", `{}`), say("Wiped.")))
		b.whisper("wipe it")
		question := b.connector.Next(t)
		if b.onlyMia(question); !strings.Contains(question.JSON, "May I ask boss to approve this?") {
			t.Errorf("reply %s", question.JSON)
		}
		b.connector.None(t)
		click, err := question.Click(question.Buttons()[1])
		must(t, err)
		b.deliver(private(event(click)))
		if got := b.connector.Next(t); !strings.HasPrefix(got.Text(), "OK, I won't do this: ") || !got.Targeted {
			t.Errorf("reply %s", got.JSON)
		}
		b.gone()
		b.connector.None(t)
		if len(ran) > 0 {
			t.Error("it ran")
		}
	})
}

// TestPrivateForgotten: /forget finds what was said in private, and from there what was said openly.
func TestPrivateForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, inPrivate := range []bool{false, true} {
			b := setup(t, func(c *bot.Config) { c.AckTimeout = 0 })
			b.model.Says(plan(say("Noted.")), plan(say("Noted.")))
			b.whisper("my secret is tea")
			b.connector.Next(t)
			b.deliver(open("my open secret is coffee"))
			b.connector.Next(t)
			b.until("the history", func() bool { return strings.Contains(b.kept(), "is tea") && strings.Contains(b.kept(), "is coffee") })
			if inPrivate {
				b.whisper("/forget yes")
			} else {
				b.say("/forget yes")
			}
			if got := b.connector.Next(t); got.Targeted != inPrivate || !strings.HasPrefix(got.Text(), "I've deleted everything") {
				t.Errorf("reply %s", got.JSON)
			}
			b.until("that it is forgotten", func() bool { return !strings.Contains(b.kept(), "secret") })
		}
	})
}
