package bot_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/state"
)

const beganReport = "I've started this: Report. I'll tell you when it's done."

// reports counts those that are written.
type reports struct{ N int }

// laters are an action that takes as many seconds as it is told, and at most a minute, and one that takes no time.
func laters(opts ...actions.Option) *actions.Registry {
	r := actions.New()
	opts = append(opts, actions.Later(time.Minute))
	actions.Add(r, "report", "Writes a report.", func(ctx context.Context, turn *actions.Turn, in struct {
		Seconds int    `json:"seconds"`
		About   string `json:"about,omitempty"`
	},
	) (actions.Result, error) {
		select {
		case <-time.After(time.Duration(in.Seconds) * time.Second):
			state.Of[reports](turn.Conversation).N++
			return actions.Text("The report about %s has %d pages.", in.About, 3*in.Seconds), nil
		case <-ctx.Done():
			return actions.Result{}, ctx.Err()
		}
	}, opts...)
	actions.Add(r, "note", "Notes.", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Done, nil
	})
	return r
}

// testLaters runs f with two replicas whose turns have ten seconds.
func testLaters(t *testing.T, registry *actions.Registry, f func(t *testing.T, kit *bottest.Kit)) {
	t.Helper()
	t.Parallel()
	short := func(c *bot.Config) { c.TurnTimeout = 10 * time.Second }
	bottest.Test(t, bottest.Config{Actions: registry, Replicas: 2, Change: short, Log: t.Output()}, f)
}

// beginReport has the person ask for a report, and read that it has begun.
func beginReport(kit *bottest.Kit, chat *bottest.Chat, seconds, after string) {
	kit.Model.Says(
		plan(do("report", `{"seconds":`+seconds+`,"about":"mice"}`), say("The report is finished!")),
		plan(say("I am writing it.")))
	chat.Mention("write a report")
	chat.Expect(after)
}

// TestLater: the conversation goes on, nothing is said to be done before it is, and the result comes in the same thread.
func TestLater(t *testing.T) {
	for name, chat := range map[string]func(kit *bottest.Kit) *bottest.Chat{
		"a personal chat": func(kit *bottest.Kit) *bottest.Chat { return kit.Personal("Mia") },
		"a thread": func(kit *bottest.Kit) *bottest.Chat {
			return kit.Conversation("19:General;messageid=1", "channel", "Mia")
		},
	} {
		t.Run(name, func(t *testing.T) {
			testLaters(t, laters(), func(t *testing.T, kit *bottest.Kit) {
				mia := chat(kit)
				beginReport(kit, mia, "30", "I am writing it.")
				if told := kit.Model.LastCall().Prompt(); !strings.Contains(told, beganReport) {
					t.Errorf("the model does not know that it has begun: %s", told)
				}
				kit.Model.Says(plan(say("Fine, thanks.")))
				mia.Mention("How are you?")
				mia.Expect("Fine, thanks.")
				kit.Model.Says(plan(say("It has 90 pages.")))
				time.Sleep(31 * time.Second)
				mia.Expect("It has 90 pages.")
				told := kit.Model.LastCall().Prompt()
				for _, want := range []string{"The report about mice has 90 pages.", "write a report", "Fine, thanks."} {
					if !strings.Contains(told, want) {
						t.Errorf("the model does not read %q: %s", want, told)
					}
				}
				kit.Model.Says(plan(say("About mice.")))
				mia.Mention("What was it about?")
				mia.Expect("About mice.")
				if told := kit.Model.LastCall().Prompt(); !strings.Contains(told, "It has 90 pages.") {
					t.Errorf("the history does not have the result: %s", told)
				}
				if n := state.Of[reports](mia.Conversation()).N; n != 1 || len(kit.Calls()) != 1 {
					t.Errorf("%d reports are noted, by the calls %+v", n, kit.Calls())
				}
				mia.ExpectNothing()
			})
		})
	}
}

// TestLaterGoesOnWithItsPlan makes the commands that come after it.
func TestLaterGoesOnWithItsPlan(t *testing.T) {
	testLaters(t, laters(), func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(
			plan(do("report", `{"seconds":1}`), do("note", `{}`), say("Both are done.")),
			plan(say("I noted it, and I am writing the report.")),
			plan(say("It has 3 pages.")))
		mia := kit.Personal("Mia")
		mia.Say("write a report and note it")
		mia.Expect("I noted it, and I am writing the report.")
		time.Sleep(2 * time.Second)
		mia.Expect("It has 3 pages.")
		mia.ExpectNothing()
	})
}

// TestLaterSurvives: whoever works on it dies, in the call and after it. It is told once.
func TestLaterSurvives(t *testing.T) {
	testLaters(t, laters(), func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		beginReport(kit, mia.On(1), "30", "I am writing it.")
		time.Sleep(10 * time.Second)
		kit.Kill(1)
		kit.Model.Says(plan(say("It has 90 pages.")))
		time.Sleep(31 * time.Second)
		mia.On(2).Expect("It has 90 pages.")
		mia.ExpectNothing()
	})
}

func TestLaterSurvivesItsOutcome(t *testing.T) {
	testLaters(t, laters(), func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		beginReport(kit, mia.On(1), "5", "I am writing it.")
		kit.CrashAfter(1)
		kit.Model.Says(plan(say("It has 15 pages.")))
		time.Sleep(20 * time.Second)
		mia.Expect("It has 15 pages.")
		if n := state.Of[reports](mia.Conversation()).N; n != 1 {
			t.Errorf("%d reports are noted", n)
		}
		mia.ExpectNothing()
	})
}

// TestStopOfLater ends the call at once, on any replica, and only its person can.
func TestStopOfLater(t *testing.T) {
	for name, replica := range map[string]int{"the same replica": 1, "another replica": 2} {
		t.Run(name, func(t *testing.T) {
			testLaters(t, laters(), func(t *testing.T, kit *bottest.Kit) {
				mia := kit.Group("mice", "Mia", "Ben")
				beginReport(kit, mia.On(1), "30", "I am writing it.")
				time.Sleep(5 * time.Second)
				mia.As("Ben").On(replica).Mention("/stop")
				mia.Expect(nothingRuns)
				mia.On(replica).Mention("stop")
				mia.Expect("I stopped. I cannot tell whether this was done: Report.")
				time.Sleep(time.Minute)
				mia.ExpectNothing()
				if n := state.Of[reports](mia.Conversation()).N; n != 0 {
					t.Errorf("%d reports are noted", n)
				}
				mia.Mention("/stop")
				mia.Expect(nothingRuns)
			})
		})
	}
}

// TestLaterForTooLong ends the call, and says that nobody knows what it did.
func TestLaterForTooLong(t *testing.T) {
	testLaters(t, laters(), func(_ *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		beginReport(kit, mia, "90", "I am writing it.")
		time.Sleep(61 * time.Second)
		mia.ExpectMatch(`^Sorry, .*I cannot tell whether this was done: Report\.`)
		mia.ExpectNothing()
	})
}

// TestLaterThatFails is told by the model, too.
func TestLaterThatFails(t *testing.T) {
	r := actions.New()
	actions.Add(r, "report", "Writes a report", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Fail("There is no paper."), nil
	}, actions.Later(time.Minute))
	testLaters(t, r, func(_ *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("report", `{}`)), plan(say("I am writing it.")), plan(say("There was no paper.")))
		mia := kit.Personal("Mia")
		mia.Say("write a report")
		mia.Expect("I am writing it.")
		mia.Expect("There was no paper.")
		mia.ExpectNothing()
	})
}

// TestLaterWithoutAModel tells the result in the action's own words if the model is away when it is over.
func TestLaterWithoutAModel(t *testing.T) {
	testLaters(t, laters(), func(_ *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		beginReport(kit, mia, "5", "I am writing it.")
		for range 4 {
			kit.Model.Fails(500, "down")
		}
		time.Sleep(6 * time.Second)
		mia.Expect("The report about mice has 15 pages.")
		mia.ExpectNothing()
	})
}

// TestLaterWithDataWithoutAModel tells what was done if the result is no sentence.
func TestLaterWithDataWithoutAModel(t *testing.T) {
	for name, result := range map[string]actions.Result{"data": actions.JSON(map[string]int{"pages": 3}), "nothing": actions.Done} {
		t.Run(name, func(t *testing.T) {
			r := actions.New()
			actions.Add(r, "report", "Writes a report", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
				return result, nil
			}, actions.Later(time.Minute))
			testLaters(t, r, func(_ *testing.T, kit *bottest.Kit) {
				kit.Model.Says(plan(do("report", `{}`)), plan(say("I am writing it.")))
				for range 4 {
					kit.Model.Fails(500, "down")
				}
				mia := kit.Personal("Mia")
				mia.Say("write a report")
				mia.Expect("I am writing it.")
				mia.Expect("I did this: Report.")
				mia.ExpectNothing()
			})
		})
	}
}

// TestLaterIsApproved once, before it begins.
func TestLaterIsApproved(t *testing.T) {
	testLaters(t, laters(actions.NeedsApproval), func(_ *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("report", `{"seconds":5,"about":"mice"}`)), plan(say("I am writing it.")), plan(say("It has 15 pages.")))
		mia := kit.Personal("Mia")
		mia.Say("write a report")
		mia.ExpectCard("mice")
		mia.Approve()
		mia.Expect("I am writing it.")
		time.Sleep(6 * time.Second)
		mia.Expect("It has 15 pages.")
		mia.ExpectNothing()
	})
}

// TestManyLaters: five of a person at once.
func TestManyLaters(t *testing.T) {
	testLaters(t, laters(), func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		for range 5 {
			beginReport(kit, mia, "50", "I am writing it.")
		}
		beginReport(kit, mia, "50", "I am writing it.")
		if told := kit.Model.LastCall().Prompt(); !strings.Contains(told, "5 calls that take long are under way here already") {
			t.Errorf("the model does not read why: %s", told)
		}
		mia.Say("/stop")
		for range 5 {
			mia.Expect("I stopped. I cannot tell whether this was done: Report.")
		}
		mia.ExpectNothing()
	})
}

// TestLaterWithin is checked where it is said.
func TestLaterWithin(t *testing.T) {
	for _, within := range []time.Duration{0, -time.Second, 25 * time.Hour} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Later(%s) is fine", within)
				}
			}()
			laters(actions.Later(within))
		}()
	}
}

// TestLaterAsks: the question is asked in the conversation, and the answer finds the call beside it.
func TestLaterAsks(t *testing.T) {
	r := actions.New()
	actions.Add(r, "report", "Writes a report", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
		answer := actions.AttemptOf(ctx).Answer
		if answer == nil {
			time.Sleep(time.Second)
			about := actions.Field{Name: "about", Title: "About", Required: true}
			return actions.Ask(actions.Form{Text: "About what?", Fields: []actions.Field{about}}, nil), nil
		}
		return actions.Text("A report about %s.", answer.Values["about"]), nil
	}, actions.Later(time.Minute))
	testLaters(t, r, func(_ *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("report", `{}`)), plan(say("I am writing it.")), plan(say("It is about mice.")))
		mia := kit.Personal("Mia")
		mia.Say("write a report")
		mia.Expect("I am writing it.")
		mia.ExpectCard("About what?").Press("Send", "f0", "mice")
		mia.Expect("It is about mice.")
		mia.ExpectNothing()
	})
}
