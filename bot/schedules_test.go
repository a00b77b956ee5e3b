package bot_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/quota"
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
	inBubble(t, met, func(t *testing.T, b *bundle) {
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
	})
}

// TestForgetEndsAScheduleThatIsDueElsewhere, behind a turn of that conversation.
func TestForgetEndsAScheduleThatIsDueElsewhere(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.notify(daily)
		end := b.behind(miasChat)
		b.tell(in(inGroup, event{"text": "<at>Planbot</at> /forget yes"}), forgotten)
		end()
		b.expect("Good morning.") // it was due
		b.ended()
	})
}

// TestForgetEndsAScheduleThatIsAboutToChange: the one that replaces it is in the queue, too.
func TestForgetEndsAScheduleThatIsAboutToChange(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.notify(daily)
		end := b.behind(miasChat)
		changed := daily
		changed.Text, changed.Every = "Moin.", "45 10 * * *"
		b.notify(changed)
		b.tell(in(inGroup, event{"text": "<at>Planbot</at> /forget yes"}), forgotten)
		end()
		b.expect("Good morning.") // it was due
		b.ended()
	})
}

// TestForgetFindsAScheduleOfASilentPerson: what is known of their conversations expires 30 days after
// their last word, and a schedule goes on.
func TestForgetFindsAScheduleOfASilentPerson(t *testing.T) {
	for name, where := range map[string]actions.Recipient{"to themselves": miasChat, "to a group": group} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, met, func(t *testing.T, b *bundle) {
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
		})
	}
}

// TestWithdrawOfASchedule by its id is for its owner, also while it is at work.
func TestWithdrawOfASchedule(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
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
	})
}

// TestTakenOutEndsSchedules: what waits in a conversation does not come back with the bot.
func TestTakenOutEndsSchedules(t *testing.T) {
	for name, removal := range map[string]event{
		"as a member": {"type": "conversationUpdate", "membersRemoved": []event{{"id": "28:bot"}}},
		"as an app":   {"type": "installationUpdate", "action": "remove"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, met, func(t *testing.T, b *bundle) {
				b.notify(daily)
				b.notify(actions.Notice{To: miasChat, Text: "Once.", At: time.Now().Add(100 * time.Hour)})
				b.deliver(in(removal, event{"text": nil}))
				b.hello()
				b.ended()
			})
		})
		t.Run(name+" when a schedule is due", func(t *testing.T) {
			inBubble(t, met, func(t *testing.T, b *bundle) {
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
		})
	}
}

// TestANoticeDoesNotMakeAChatTheOwners: /forget of who asked for it deletes the notice, and nothing of
// the person that it is for.
func TestANoticeDoesNotMakeAChatTheOwners(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.toldBy("tellOtto", func() actions.Notice {
			return actions.Notice{To: actions.Recipient{User: "29:otto"}, Text: "Mia says hi.", At: time.Now().Add(time.Hour)}
		})
		b.bot.OnCommand("/order", func(ctx context.Context, turn *bot.Turn) error {
			*state.At[string](turn.Conversation, "orderbook") = "tea"
			return turn.Tell(ctx, "Ordered.")
		})
		b.tell(otto("/order"), "Ordered.")
		b.model.Says(plan(do("tellOtto", `{}`), say("I will.")))
		b.tell(event{"text": "tell Otto"}, "I will.")
		if shown := b.myData(); strings.Contains(shown, "orderbook") || !strings.Contains(shown, "Mia says hi.") {
			t.Errorf("Mia is shown %s", shown)
		}
		b.tell(event{"text": "/forget yes"}, forgotten)
		b.gone()
		if kept := b.kept(); !strings.Contains(kept, "tea") || strings.Contains(kept, "29:mia") {
			t.Errorf("kept %s", kept)
		}
		b.connector.None(t)
	})
}

// runs adds a handler for notices that counts, as nobody of the conversation, in the person's state.
func runs(made *bot.Bot) {
	made.OnNotice("count", func(ctx context.Context, turn *bot.Turn) error {
		n := state.At[int](turn.User, "n")
		*n++
		return turn.Tell(ctx, fmt.Sprint(turn.Text, " ", *n))
	})
	made.OnNotice("plan", func(ctx context.Context, turn *bot.Turn) error { return turn.Plan(ctx) })
}

// inGroups is a bot with those handlers that was spoken to in two groups.
func inGroups(t *testing.T, change ...func(*bot.Config)) (b *bundle, groups []actions.Recipient) {
	t.Helper()
	b = setup(t, change...)
	runs(b.bot)
	for _, id := range []string{"19:one@thread.v2", "19:two@thread.v2"} {
		b.deliver(in(inGroup, event{"text": "<at>Planbot</at> help", "conversation": event{"id": id, "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"}}))
		b.connector.Next(t)
		groups = append(groups, actions.Recipient{Channel: "msteams", Bot: "28:bot", Conversation: id})
	}
	return b, groups
}

// TestNoticesOfGroupsShareNoPerson: a handler that runs in a group runs for nobody.
func TestNoticesOfGroupsShareNoPerson(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, groups := inGroups(t, limited(quota.Limits{UserTurnsPerMinute: 1, UserTokensPerDay: 1}))
		for _, want := range []string{"turn 1", "turn 2"} {
			for _, to := range groups {
				b.notify(actions.Notice{To: to, Run: "count", Text: "turn"})
				if got := b.connector.Next(t); got.Text() != want || got.To != to.Conversation {
					t.Errorf("%q to %s, want %q", got.Text(), got.To, want)
				}
			}
		}
		for range 2 { // no quota of a person counts them
			for _, to := range groups {
				b.model.Says(plan(say("Planned.")))
				b.notify(actions.Notice{To: to, Run: "plan", Text: "sum up"})
				b.expect("Planned.")
			}
		}
		b.connector.None(t)
	})
}

// TestTwoNoticesOfOneCall with handlers are two, and a second try of the call makes no more.
func TestTwoNoticesOfOneCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, groups := inGroups(t)
		var ids []string
		actions.Add(b.actions, "count", "Counts", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			for _, n := range []actions.Notice{{Run: "count", Text: "one"}, {Run: "count", Text: "two"}, {Run: "plan", Text: "two"}, {Run: "count", Text: "one"}} {
				n.To, n.At = groups[0], time.Now().Add(time.Hour)
				id, err := turn.Notifier.Notify(ctx, n)
				if err != nil {
					return actions.Result{}, err
				}
				ids = append(ids, id)
			}
			return actions.Done, nil
		})
		b.model.Says(plan(do("count", `{}`), say("Counted.")))
		b.tell(event{"text": "count"}, "Counted.")
		if len(ids) != 4 || ids[3] != ids[0] || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 3 {
			t.Fatalf("ids %q, want three, of which the first twice", ids)
		}
		b.model.Says(plan(say("Planned.")))
		b.pass(2 * time.Hour)
		var got []string
		for range 3 {
			got = append(got, b.connector.Next(t).Text())
		}
		if slices.Sort(got); !slices.Equal(got, []string{"Planned.", "one 1", "two 2"}) && !slices.Equal(got, []string{"Planned.", "one 2", "two 1"}) {
			t.Errorf("sent %q", got)
		}
		b.rest(groups[0].Conversation)
		b.connector.None(t)
	})
}

// TestAHandlerWithAKeyRunsOnce, also if the notice comes again after it ran.
func TestAHandlerWithAKeyRunsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, groups := inGroups(t)
		n := actions.Notice{To: groups[0], Run: "count", Text: "turn", Key: "k", At: time.Now().Add(time.Hour)}
		first := b.notify(n)
		b.pass(2 * time.Hour)
		b.expect("turn 1")
		b.rest(groups[0].Conversation)
		for _, at := range []time.Time{{}, time.Now().Add(3 * time.Hour)} {
			n.At = at
			if again := b.notify(n); again != first {
				t.Errorf("turns %q and %q", first, again)
			}
			b.pass(4 * time.Hour)
			b.rest(groups[0].Conversation)
			b.gone()
			b.rest(groups[0].Conversation)
		}
		b.connector.None(t)
	})
}

// TestAnApprovalThatNobodyCanGive is refused at once: nobody asked in a handler that runs in a group,
// and the bot has no approvers.
func TestAnApprovalThatNobodyCanGive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, groups := inGroups(t)
		called := false
		actions.Add(b.actions, "pay", "Pays", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			called = true
			return actions.Done, nil
		}, actions.NeedsApproval)
		b.model.Says(plan(do("pay", `{}`), say("Paid.")), plan(say("I may not pay.")))
		b.notify(actions.Notice{To: groups[0], Run: "plan", Text: "pay the bill"})
		b.expect("I may not pay.")
		b.rest(groups[0].Conversation)
		if left := b.waiting(); len(left) > 0 || called {
			t.Errorf("waiting in %v, called %v", left, called)
		}
		if asked := b.model.Calls()[1].Text(); !strings.Contains(asked, "nobody here can approve it") {
			t.Errorf("the model is not told: %s", asked)
		}
		b.connector.None(t)
	})
}
