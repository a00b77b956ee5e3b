package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// beginApproved asks for the action wipe, approves it, and kills the process in the middle of the call.
func beginApproved(b *bundle) *gate {
	b.Helper()
	wipe := addGate(b, "wipe", actions.NeedsApproval)
	first := b.addReplica()
	b.model.Says(plan(do("wipe", `{}`), say("Wiped.")))
	first.say("wipe it")
	approve, _ := buttons(b, b.connector.Next(b))
	b.post(first.url, b.activity(click(approve, nil)))
	<-wipe.entered
	first.kill()
	return wipe
}

// TestAnApprovedCallThatWasCutOffNeedsNoSecondApproval: it is made again as what it is,
// the same call.
func TestAnApprovedCallThatWasCutOffNeedsNoSecondApproval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		wipe := beginApproved(b)
		b.addReplica()
		b.expect("Wiped.")
		b.connector.None(t)
		if got := wipe.all(); len(got) != 2 || got[0].Key != got[1].Key || !got[1].Again {
			t.Errorf("attempts %+v", got)
		}
	})
}

// TestAnApprovedCallThatHadBegunIsNotSaidNotToBeDone by a version in which it is another.
func TestAnApprovedCallThatHadBegunIsNotSaidNotToBeDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		beginApproved(b)
		b.actions = actions.New()
		actions.Add(b.actions, "wipe", "Wipes", func(context.Context, *actions.Turn, struct {
			What string `json:"what,omitempty" default:"everything"`
		},
		) (actions.Result, error) {
			t.Error("wiped everything")
			return actions.Done, nil
		}, actions.NeedsApproval)
		b.addReplica()
		b.expectFault("I cannot tell whether this was done: Wipe.")
		b.connector.None(t)
	})
}

// TestACallThatHadBegunIsNotAskedAbout: by a policy that has changed since, or that fails.
func TestACallThatHadBegunIsNotAskedAbout(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]func() (actions.Approval, error){
		"it needs an approval now": func() (actions.Approval, error) { return actions.Approval{Required: true}, nil },
		"nobody can tell":          func() (actions.Approval, error) { return actions.Approval{}, errors.New("the policy is away") },
		"it is denied now":         func() (actions.Approval, error) { return actions.Approval{Denied: "not today"}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := setup(t)
				slow := addGate(b, "wipe")
				first := b.addReplica()
				b.model.Says(plan(do("wipe", `{}`), say("Wiped.")))
				first.say("wipe it")
				<-slow.entered
				first.kill()
				b.addReplica(func(c *bot.Config) {
					c.Policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) { return policy() }
				})
				b.expectFault("I cannot tell whether this was done: Wipe.")
				b.connector.None(t)
				if got := slow.all(); len(got) != 1 {
					t.Errorf("attempts %+v", got)
				}
			})
		})
	}
}

// TestWhatWasApprovedWaitsForItsTurn, also when it would be over by then: another
// question makes no room at its cost.
func TestWhatWasApprovedWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := setup(t)
		wiped := addCount(b, "wipe", actions.NeedsApproval)
		entered, open := make(chan struct{}), make(chan struct{})
		actions.Add(b.actions, "slow", "Waits", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
			close(entered)
			<-open
			return actions.Done, nil
		})
		r := b.addReplica()
		b.model.Says(plan(do("wipe", `{}`), say("Wiped.")), plan(do("slow", `{}`), do("wipe", `{}`), say("And again.")))
		r.say("wipe it")
		approve, _ := buttons(t, b.connector.Next(t))
		b.expire("/approvals/")
		r.say("slowly, and once more")
		<-entered
		b.post(r.url, b.activity(click(approve, nil)))
		close(open)
		buttons(t, b.connector.Next(t))
		b.expect("Wiped.")
		if n := wiped.Load(); n != 1 {
			t.Errorf("wiped %d times", n)
		}
	})
}

var expires = regexp.MustCompile(`"expires":"[^"]*"`)

// expire makes the documents of conversations say that approvals are over for a while.
// Those whose keys have the given part stay.
func (b *bundle) expire(not string) {
	b.Helper()
	for _, key := range b.documents() {
		doc, err := b.redis.Get(key)
		if err == nil && !strings.Contains(key, not) {
			b.must(b.redis.Set(key, expires.ReplaceAllString(doc, `"expires":"2000-01-01T00:00:00Z"`)))
		}
	}
}

// wiping has an action that needs an approval, and then has nothing to say.
func wiping() *actions.Registry {
	acts := actions.New()
	actions.Add(acts, "wipe", "Wipes", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil }, actions.NeedsApproval)
	return acts
}

// TestAnApprovalThatExpiresTellsNothingNew of where its person is: the bot was taken out of the chat since.
func TestAnApprovalThatExpiresTellsNothingNew(t *testing.T) {
	t.Parallel()
	acts := wiping()
	var made *bot.Bot
	cfg := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (_ *bot.Bot, err error) {
		c := parts.Bot
		c.Actions = acts
		if c.Planner, err = parts.Planner(ctx, "", planner.Config{Actions: acts}); err == nil {
			made, err = bot.New(c)
		}
		return made, err
	}}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("wipe", `{}`), say("Wiped.")))
		mia := kit.Personal("Mia")
		mia.Say("wipe it")
		mia.ExpectCard("May I do this?")
		mia.Deliver(map[string]any{"type": "conversationUpdate", "membersRemoved": []any{map[string]any{"id": "28:bot"}}}).Taken()
		kit.Settle()
		for _, wait := range []time.Duration{0, 25 * time.Hour} {
			time.Sleep(wait)
			kit.Settle()
			_, err := made.Notify(t.Context(), actions.Notice{To: actions.Recipient{Channel: "msteams", Bot: "28:bot", User: "29:mia"}, Text: "Hello?"})
			if !errors.Is(err, actions.ErrUnreachable) {
				t.Errorf("after %v: %v", wait, err)
			}
		}
		mia.Messages()
	})
}

// TestARejectionThatCannotBeSaid takes no other turn out of the history than its own.
func TestARejectionThatCannotBeSaid(t *testing.T) {
	t.Parallel()
	acts := wiping()
	bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		kit.Model.Says(plan(do("wipe", `{}`), say("Wiped.")), plan(say("I like tea.")))
		mia.Say("wipe it")
		mia.ExpectCard("May I do this?")
		mia.Say("what do you like?")
		mia.Expect("I like tea.")
		kit.Connector.Fails(bottest.Answer{Status: http.StatusBadRequest})
		mia.Press("Reject")
		mia.ExpectMatch("part of my answer could not be sent")
		kit.Model.Says(plan(say("Tea.")))
		mia.Say("again?")
		mia.Expect("Tea.")
		if prompt := kit.Model.LastCall().Prompt(); !strings.Contains(prompt, "what do you like?") {
			t.Errorf("the model is told\n%s", prompt)
		}
	})
}

// TestAnApprovedCallIsDone, and says so if nothing else does, as it would without an approval.
func TestAnApprovedCallIsDone(t *testing.T) {
	t.Parallel()
	acts := wiping()
	bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		kit.Model.Says(plan(do("wipe", `{}`)))
		mia.Say("wipe it")
		mia.ExpectCard("May I do this?").Press("Approve")
		mia.Expect("Done.")
	})
}

// TestACallThatNobodyKnowsOf leaves nothing half done in state.
func TestACallThatNobodyKnowsOf(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	actions.Add(acts, "note", "Notes", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil })
	actions.Add(acts, "half", "Does half of it", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		lists.Of(turn).All = append(lists.Of(turn).All, lists.List{Name: "half"})
		return actions.Done, fmt.Errorf("it broke off: %w", actions.ErrUncertain)
	})
	bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		kit.Model.Says(plan(do("note", `{}`), do("half", `{}`), say("Done.")))
		mia.Say("do it")
		mia.ExpectMatch("I cannot tell|I can't tell")
		if all := state.Of[lists.Lists](mia.User()).All; len(all) != 0 {
			t.Errorf("kept %d lists", len(all))
		}
	})
}

// TestAnOpenCardIsClosed, also if nobody clicked it: the time is up, or the person wrote the command.
func TestAnOpenCardIsClosed(t *testing.T) {
	t.Parallel()
	acts := wiping()
	bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		for _, answers := range []func(card string){
			func(string) { time.Sleep(25 * time.Hour) },
			func(card string) {
				mia.Say("/approve " + regexp.MustCompile(`/approve (\w+)`).FindStringSubmatch(card)[1])
			},
		} {
			kit.Model.Says(plan(do("wipe", `{}`), say("Wiped.")))
			mia.Say("wipe it")
			asks := mia.ExpectCard("May I do this?")
			answers(asks.Card())
			kit.Settle()
			closed := ""
			mia.Messages()
			for _, m := range kit.Connector.Sent() {
				if m.Method == http.MethodPut && m.ID == asks.ID {
					closed = m.Card()
				}
			}
			if closed == "" || strings.Contains(closed, "Action.Execute") {
				t.Errorf("the card is %s", closed)
			}
		}
	})
}

// TestAClickWhileATurnIsBusy reads what has become of what it decides, once that is known, although it was told
// to wait.
func TestAClickWhileATurnIsBusy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first func(mia *bottest.Chat, card bottest.Sent) // before the click that counts
		says  []string
		never string
	}{
		"nobody waits for it": {func(mia *bottest.Chat, _ bottest.Sent) {
			mia.Say("/reset")
			mia.ExpectMatch("cleared our conversation")
			mia.Say("be slow")
		}, []string{"I'm no longer waiting for this decision. Nothing was done."}, "Wiped."},
		"another one was first": {func(mia *bottest.Chat, card bottest.Sent) {
			mia.Say("be slow")
			card.Press("Approve")
		}, []string{"This was already decided: Approved by Mia", "Wiped."}, "Nothing was done"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			acts := wiping()
			actions.Add(acts, "slow", "Takes a while", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
				time.Sleep(30 * time.Second) // of the bubble
				return actions.Done, nil
			})
			bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
				mia := kit.Personal("Mia")
				kit.Model.Says(plan(do("wipe", `{}`), say("Wiped.")), plan(do("slow", `{}`), say("Slowly done.")))
				mia.Say("wipe it")
				card := mia.ExpectCard("May I do this?")
				c.first(mia, card)
				card.Press("Reject")
				kit.Settle()
				texts := ""
				for _, m := range mia.Messages() {
					texts += m.Activity.Text + "\n"
				}
				for _, want := range c.says {
					if !strings.Contains(texts, want) {
						t.Errorf("the bot did not say %q: %s", want, texts)
					}
				}
				if strings.Contains(texts, c.never) {
					t.Errorf("the bot said %s", texts)
				}
			})
		})
	}
}
