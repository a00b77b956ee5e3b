package bot_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

// group is the conversation of inGroup.
var group = actions.Recipient{Channel: "msteams", Bot: "28:bot", Conversation: "19:g@thread.v2"}

// toldBy adds an action that sends the notice for whoever asks. It tells the notice's id.
func (b *bundle) toldBy(action string, n func() actions.Notice) {
	actions.Add(b.actions, action, "Sends a notice", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		id, err := turn.Notifier.Notify(ctx, n())
		return actions.Text("%s", id), err
	})
}

// queued waits until so many records are in the queue of the conversation.
func (b *bundle) queued(conversation string, n int) {
	b.Helper()
	in := b.openInbox()
	b.until(fmt.Sprintf("%d records in the queue", n), func() bool {
		have, err := in.Queued(b.Context(), state.ConversationKey("msteams", "28:bot", conversation))
		b.must(err)
		return have == n
	})
}

// behind has the schedule of a conversation due behind a turn that goes on until end is called.
func (b *bundle) behind(to actions.Recipient) (end func()) {
	b.Helper()
	taken, release := b.connector.Holds("Wait.")
	b.notify(actions.Notice{To: to, Text: "Wait."})
	<-taken
	b.expect("Wait.")
	b.overdueIn(to.Conversation, time.Now().Add(-time.Second))
	b.queued(to.Conversation, 2)
	return func() { close(release) }
}

// ended expects that no schedule is left, at work or waiting.
func (b *bundle) ended() {
	b.Helper()
	b.rest("a:mia")
	b.rest(group.Conversation)
	if left := b.waiting(); len(left) > 0 {
		b.Errorf("there are schedules left in %v", left)
	}
	b.connector.None(b)
}

// TestForgetEndsAScheduleThatIsDueJustThen, while /forget is at work in the same conversation.
func TestForgetEndsAScheduleThatIsDueJustThen(t *testing.T) {
	b := met(t)
	entered, open := make(chan struct{}), make(chan struct{})
	b.actions.OnForget(func(context.Context, *actions.Turn) (string, error) {
		close(entered)
		<-open
		return "", nil
	})
	b.notify(daily)
	r := b.addReplica(func(c *bot.Config) { c.Lease = 6 * time.Second })
	r.say("/forget yes")
	<-entered
	b.overdue(time.Now().Add(-time.Second))
	b.queued("a:mia", 2)
	close(open)
	b.expect(forgotten)
	b.expect("Good morning.") // it was due
	b.ended()
}

// TestForgetEndsAScheduleThatIsDueElsewhere, behind a turn of that conversation.
func TestForgetEndsAScheduleThatIsDueElsewhere(t *testing.T) {
	b := met(t)
	b.notify(daily)
	end := b.behind(miasChat)
	b.tell(in(inGroup, event{"text": "<at>Planbot</at> /forget yes"}), forgotten)
	end()
	b.expect("Good morning.") // it was due
	b.ended()
}

// TestForgetEndsAScheduleThatIsAboutToChange: the one that replaces it is in the queue, too.
func TestForgetEndsAScheduleThatIsAboutToChange(t *testing.T) {
	b := met(t)
	b.notify(daily)
	end := b.behind(miasChat)
	changed := daily
	changed.Text, changed.Every = "Moin.", "45 10 * * *"
	b.notify(changed)
	b.tell(in(inGroup, event{"text": "<at>Planbot</at> /forget yes"}), forgotten)
	end()
	b.expect("Good morning.") // it was due
	b.ended()
}

// TestForgetFindsAScheduleOfASilentPerson: what is known of their conversations expires 30 days after
// their last word, and a schedule goes on.
func TestForgetFindsAScheduleOfASilentPerson(t *testing.T) {
	for name, where := range map[string]actions.Recipient{"to themselves": miasChat, "to a group": group} {
		t.Run(name, func(t *testing.T) {
			b := met(t)
			b.toldBy("greet", func() actions.Notice {
				return actions.Notice{To: where, Text: "Good morning.", Every: "0 9 * * *"} // without a Key it is the person's, also in a group
			})
			b.model.Says(plan(say("Hello, Otto.")), plan(do("greet", `{}`), say("I will.")))
			b.tell(in(inGroup, event{"from": event{"id": "29:otto", "name": "Otto"}}), "Hello, Otto.")
			b.tell(event{"text": "greet me"}, "I will.")
			b.rest("a:mia")
			places := state.UserKey("msteams", "28:bot", "29:mia").Under("notes", "places").String()
			if !b.redis.Exists(places) {
				t.Fatal("nothing is known of Mia's conversations")
			}
			b.redis.Del(places)
			b.redis.SetTime(b.dueIn(where.Conversation).Until.Add(time.Second))
			b.expect("Good morning.")
			b.rest(where.Conversation)
			b.dueIn(where.Conversation)
			b.tell(event{"text": "/forget yes", "conversation": event{"id": "a:other", "conversationType": "personal", "tenantId": "t1"}}, forgotten)
			b.rest("a:other")
			b.ended()
		})
	}
}

// TestWithdrawOfASchedule by its id is for its owner, also while it is at work.
func TestWithdrawOfASchedule(t *testing.T) {
	b := met(t)
	b.toldBy("greet", func() actions.Notice {
		return actions.Notice{Text: "Good morning.", Every: "0 9 * * *", Topic: "greetings"}
	})
	var mias []actions.Notice
	actions.Add(b.actions, "find", "Finds a schedule", func(ctx context.Context, turn *actions.Turn, _ struct{}) (_ actions.Result, err error) {
		mias, err = turn.Notifier.Notices(ctx, "greetings")
		return actions.Done, err
	})
	actions.Add(b.actions, "end", "Ends it", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		gone, err := turn.Notifier.Withdraw(ctx, mias[0])
		return actions.Text("%v", gone), err
	})
	b.model.Says(plan(do("greet", `{}`), do("find", `{}`), say("I will.")))
	b.tell(in(inGroup, event{}), "I will.")
	b.rest(group.Conversation)
	if len(mias) != 1 || mias[0].Every != "0 9 * * *" {
		t.Fatalf("found %+v", mias)
	}
	otto := event{"from": event{"id": "29:otto", "name": "Otto"}, "conversation": event{"id": "a:otto", "conversationType": "personal", "tenantId": "t1"}}
	if got := b.ask("end", `{}`, otto); got != "false" {
		t.Errorf("Otto withdrew what waits: %s", got)
	}
	end := b.behind(group)
	if got := b.ask("end", `{}`, otto); got != "false" {
		t.Errorf("Otto withdrew what is at work: %s", got)
	}
	b.queued(group.Conversation, 2)
	if got := b.ask("end", `{}`, event{}); got != "true" {
		t.Errorf("Mia withdrew what is at work: %s", got)
	}
	b.queued(group.Conversation, 3)
	end()
	b.expect("Good morning.") // it was due
	b.ended()
}

// TestTakenOutEndsSchedules: what waits in a conversation does not come back with the bot.
func TestTakenOutEndsSchedules(t *testing.T) {
	for name, removal := range map[string]event{
		"as a member": {"type": "conversationUpdate", "membersRemoved": []event{{"id": "28:bot"}}},
		"as an app":   {"type": "installationUpdate", "action": "remove"},
	} {
		t.Run(name, func(t *testing.T) {
			b := met(t)
			b.notify(daily)
			b.notify(actions.Notice{To: miasChat, Text: "Once.", At: time.Now().Add(100 * time.Hour)})
			b.deliver(in(removal, event{"text": nil}))
			b.hello()
			b.ended()
		})
		t.Run(name+" when a schedule is due", func(t *testing.T) {
			b := met(t)
			b.notify(daily)
			r := b.addReplica(func(c *bot.Config) { c.Lease = 6 * time.Second })
			taken, release := b.connector.Holds("Wait.")
			_, err := r.bot.Notify(t.Context(), actions.Notice{To: miasChat, Text: "Wait."})
			b.must(err)
			<-taken
			b.post(r.url, b.activity(in(removal, event{"text": nil})))
			b.overdue(time.Now().Add(-time.Second))
			b.queued("a:mia", 3)
			close(release)
			b.expect("Wait.")
			b.rest("a:mia")
			for _, s := range b.connector.All() {
				if s.Text() == "Good morning." { // it was due
					b.connector.Next(t)
				}
			}
			b.hello()
			b.ended()
		})
	}
}
