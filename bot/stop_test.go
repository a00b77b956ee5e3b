package bot_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/planner"
)

const nothingRuns = "Nothing that you asked me for is running here."

// stopping runs f against a bot of two replicas with slow actions, in a bubble.
func stopping(t *testing.T, f func(t *testing.T, kit *bottest.Kit), change ...func(*bot.Config)) {
	t.Helper()
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: slowActions(), Replicas: 2, Log: t.Output(), Change: func(c *bot.Config) {
		for _, f := range change {
			f(c)
		}
	}}, f)
}

// onBoth runs f with the other replica, and with the one that runs the turn, for what stops it.
func onBoth(t *testing.T, f func(t *testing.T, kit *bottest.Kit, other int)) {
	t.Helper()
	for name, replica := range map[string]int{"the same replica": 1, "another replica": 2} {
		t.Run(name, func(t *testing.T) {
			stopping(t, func(t *testing.T, kit *bottest.Kit) { f(t, kit, replica) })
		})
	}
}

// TestStopInAModelCall cancels the call within two seconds, on whatever replica it runs.
func TestStopInAModelCall(t *testing.T) {
	onBoth(t, func(t *testing.T, kit *bottest.Kit, replica int) {
		<-hanging(kit, "Tell me all")
		time.Sleep(300 * time.Millisecond)
		said := time.Now()
		mia := kit.Personal("Mia")
		mia.On(replica).Say("/stop")
		mia.Expect("I stopped.")
		if took := time.Since(said); took > 2*time.Second || !kit.Model.LastCall().Cancelled {
			t.Errorf("it took %v, and the model's call is %+v", took, kit.Model.LastCall())
		}
		mia.ExpectNothing()
		kit.Model.Says(plan(say("Fine.")))
		mia.Say("How are you?")
		mia.Expect("Fine.")
		if told := kit.Model.LastCall().Prompt(); !strings.Contains(told, "Tell me all") || !strings.Contains(told, "stopped the answer") {
			t.Errorf("the model does not know that it was stopped: %s", told)
		}
	})
}

// hanging has Mia say something to the first replica, while the model does not answer.
func hanging(kit *bottest.Kit, text string) <-chan struct{} {
	called := kit.Model.Hangs(time.Minute)
	kit.Personal("Mia").On(1).Say(text)
	return called
}

// TestStopInAnAction lets it end, makes no other call, and says what was done and what was not.
func TestStopInAnAction(t *testing.T) {
	onBoth(t, func(t *testing.T, kit *bottest.Kit, replica int) {
		kit.Model.Says(plan(do("search", `{}`), do("close", `{}`), say("I have closed it.")))
		mia := kit.Personal("Mia")
		mia.On(1).Say("Close it")
		time.Sleep(3 * time.Second)
		mia.On(replica).Say("/stop")
		mia.Expect("I'll stop as soon as the step that runs now is done. I can't interrupt it.")
		mia.Expect("I stopped. Before that I did: Search tickets. I did not do this: Close a ticket.")
		mia.ExpectNothing()
	})
}

func TestStopOfNothing(t *testing.T) {
	stopping(t, func(_ *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		mia.Say("/stop")
		mia.Expect(nothingRuns)
		kit.Model.Says(plan(say("Fine.")))
		mia.Say("How are you?")
		mia.Expect("Fine.")
		mia.Say("/stop it, please")
		mia.Expect(nothingRuns)
	})
}

// TestABareStop counts while something of the person runs. Otherwise it is for the planner.
func TestABareStop(t *testing.T) {
	for _, word := range []string{"stop", "Stop!", "Stopp.", "arrête", "para", "fermati", "止めて", "停止。"} {
		t.Run(word, func(t *testing.T) {
			stopping(t, func(_ *testing.T, kit *bottest.Kit) {
				<-hanging(kit, "Tell me all")
				mia := kit.Personal("Mia")
				mia.On(2).Say(word)
				mia.Expect("I stopped.")
				kit.Model.Says(plan(say("Machine 3 is off.")))
				mia.Say(word)
				mia.Expect("Machine 3 is off.")
			})
		})
	}
}

// TestStopOfSomebodyElse: only who asked stops it.
func TestStopOfSomebodyElse(t *testing.T) {
	stopping(t, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(bottest.Answer{Takes: 5 * time.Second, Text: plan(say("All of it."))})
		group := kit.Group("Ops", "Mia", "Ben")
		group.As("Mia").Mention("Tell me all")
		time.Sleep(time.Second)
		group.As("Ben").Mention("/stop")
		group.Expect(nothingRuns)
		group.Expect("All of it.")
		if kit.Model.LastCall().Cancelled {
			t.Error("somebody else stopped it")
		}
	})
}

// TestStopComesTwice: a duplicate delivery is no other stop, also once the turn is over.
func TestStopComesTwice(t *testing.T) {
	for _, word := range []string{"/stop", "stop"} {
		t.Run(word, func(t *testing.T) {
			stopping(t, func(_ *testing.T, kit *bottest.Kit) {
				<-hanging(kit, "Tell me all")
				mia := kit.Personal("Mia")
				stop := mia.On(2).Say(word)
				stop.Again(mia.On(1))
				mia.Expect("I stopped.")
				stop.Again(mia.On(2))
				mia.ExpectNothing()
			})
		})
	}
}

// TestStopOfWhatWaits: the messages that came before it are left out, each says so, and those that come later are answered.
func TestStopOfWhatWaits(t *testing.T) {
	stopping(t, func(_ *testing.T, kit *bottest.Kit) {
		<-hanging(kit, "Tell me all")
		mia := kit.Personal("Mia")
		mia.Say("And the rest").Taken()
		mia.Say("/stop").Taken()
		kit.Model.Says(plan(say("Fine.")))
		mia.Say("How are you?")
		mia.Expect("I stopped.")
		mia.Expect("You stopped me before I began with this message, so I left it out.")
		mia.Expect("Fine.")
	})
}

// TestStopIsLate: one that has to wait leaves alone what the person wrote after it.
func TestStopIsLate(t *testing.T) {
	stopping(t, func(_ *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("search", `{}`), do("close", `{}`), say("I have closed it.")))
		mia := kit.Personal("Mia")
		mia.Say("Close it")
		time.Sleep(3 * time.Second)
		mia.Say("/stop").Taken()
		mia.Say("/stop").Taken() // behind the first, which waits for the step
		time.Sleep(time.Second)
		kit.Model.Says(plan(say("Fine.")))
		mia.Say("How are you?").Taken()
		mia.Expect("I'll stop as soon as the step that runs now is done. I can't interrupt it.")
		mia.Expect("I'll stop as soon as the step that runs now is done. I can't interrupt it.")
		mia.Expect("I stopped. Before that I did: Search tickets. I did not do this: Close a ticket.")
		mia.Expect("Fine.")
	})
}

// TestStopAfterACrash: who takes the turn over stops it, and does not claim to know what the lost process did.
func TestStopAfterACrash(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration // since the message came
		said  string
	}{
		"before the stop arrives": {2 * time.Second, "I stopped. I cannot tell whether this was done: Search tickets. I did not do this: Close a ticket."},
		"after it arrived":        {4 * time.Second, "I stopped. I cannot tell whether this was done: Search tickets. I did not do this: Close a ticket."},
	} {
		t.Run(name, func(t *testing.T) {
			stopping(t, func(t *testing.T, kit *bottest.Kit) {
				kit.Model.Says(plan(do("search", `{}`), do("close", `{}`), say("I have closed it.")))
				mia := kit.Personal("Mia")
				mia.On(1).Say("Close it")
				time.AfterFunc(c.after, func() { kit.Kill(1) })
				time.Sleep(3 * time.Second)
				mia.On(2).Say("/stop")
				mia.Expect("I'll stop as soon as the step that runs now is done. I can't interrupt it.")
				mia.Expect(c.said)
				mia.ExpectNothing()
				if n := len(kit.Calls()); n != 1 {
					t.Errorf("%d calls were made, want the one of the lost process", n)
				}
			})
		})
	}
}

// TestStopWhileAnAnswerGrows replaces what was shown of it.
func TestStopWhileAnAnswerGrows(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"Here is a long story about", 9*time.Second, " a very tidy cave"+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Tell me a story")
		time.Sleep(2 * time.Second)
		mia.Say("/stop")
		mia.Expect("Here is a long story abou")
		expectWire(t, kit, "streaming Here is a long story abou", "final Here is a long story abou", "PUT I stopped.")
		if !kit.Model.Calls()[0].Cancelled {
			t.Error("the model still writes")
		}
	})
}

// TestStopInTheOutbox comes too late: the answer is on its way.
func TestStopInTheOutbox(t *testing.T) {
	stopping(t, func(_ *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(say("All of it.")))
		taken, release := kit.Connector.Holds("All of it.")
		mia := kit.Personal("Mia")
		mia.On(1).Say("Tell me all")
		<-taken
		mia.On(2).Say("/stop")
		mia.Expect("All of it.")
		mia.Expect(nothingRuns)
		close(release)
	})
}

// TestStopOfAnApproval takes it back, as who asked can with the card.
func TestStopOfAnApproval(t *testing.T) {
	stopping(t, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("search", `{}`), do("close", `{}`), say("I have closed it.")))
		mia := kit.Personal("Mia")
		mia.Say("Close it")
		card := mia.ExpectCard("May I do this?", "Close a ticket")
		mia.Say("/stop")
		mia.Expect("OK, I won't do this: Close a ticket.")
		if said := card.Press("Approve").Shown(); !strings.Contains(said, "Taken back by Mia") {
			t.Errorf("a late click reads %q", said)
		}
		mia.Say("/stop")
		mia.Expect(nothingRuns)
		if n := len(kit.Calls()); n != 1 {
			t.Errorf("%d calls were made", n)
		}
	}, func(c *bot.Config) {
		c.Policy = func(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
			return actions.Approval{Required: call.Action.Name == "close"}, nil
		}
	})
}

// TestStopInAThread leaves the person's other threads alone.
func TestStopInAThread(t *testing.T) {
	stopping(t, func(_ *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(bottest.Answer{Takes: 5 * time.Second, Text: plan(say("All of it."))})
		one := kit.Conversation("19:General;messageid=1", "channel", "Mia")
		other := kit.Conversation("19:General;messageid=2", "channel", "Mia")
		one.Mention("Tell me all")
		time.Sleep(time.Second)
		other.Mention("/stop")
		other.Expect(nothingRuns)
		one.Expect("All of it.")
	})
}

// TestOwnStop: a bot may have a command of its own, or none.
func TestOwnStop(t *testing.T) {
	t.Parallel()
	made := func(change func(*bot.Bot), off ...string) bottest.Config {
		return bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
			cfg := parts.Bot
			cfg.CommandsOff, cfg.Actions = off, slowActions()
			p, err := parts.Planner(ctx, "", planner.Config{Actions: cfg.Actions})
			if err != nil {
				return nil, err
			}
			cfg.Planner = p
			b, err := bot.New(cfg)
			if err == nil {
				change(b)
			}
			return b, err
		}}
	}
	own := func(b *bot.Bot) {
		b.OnCommand("/stop", func(ctx context.Context, t *bot.Turn) error { return t.Tell(ctx, "The belt stands still.") })
	}
	bottest.Test(t, made(own), func(_ *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		mia.Say("/stop")
		mia.Expect("The belt stands still.")
	})
	bottest.Test(t, made(func(*bot.Bot) {}, "/stop"), func(_ *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		mia.Say("/stop")
		mia.Expect("/stop is switched off here.")
	})
}

// TestStopAtEveryCrash: a person stops their turn while it books, and processes die at each place. What comes after the
// stop does not run, and they read that it stopped.
func TestStopAtEveryCrash(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it dies at each place of a turn")
	_, _, steps := liveWith(t, world{stops: true})
	for _, at := range places(len(steps)) {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			sent, died, _ := liveWith(t, world{stops: true}, at)
			times, stopped := map[string]int{}, 0
			for _, text := range sent {
				times[text]++
				if strings.HasPrefix(text, "I stopped.") {
					stopped++
				}
			}
			switch {
			case died == 0: // this time it has fewer steps
			case times["All done."] > 0 && times[nothingRuns] > 0 && stopped == 0: // its process died before it took the stop
			case times["All done."]+times["Noted."] > 0, stopped == 0:
				t.Errorf("the turn went on: %q", sent)
			}
			for text, n := range times {
				if n > 1+died {
					t.Errorf("%q was said %d times", text, n)
				}
			}
		})
	}
}

// TestStopOfAQuestion declines it, and does not make the call that asked.
func TestStopOfAQuestion(t *testing.T) {
	testAsking(t, bottest.Config{Replicas: 2}, func(t *testing.T, s *asking) {
		s.Model.Says(orders)
		mia := s.Personal("Mia")
		mia.On(1).Say("order it")
		card := mia.ExpectCard("I have a question.")
		mia.On(2).Say("/stop")
		mia.Expect("I stopped. I did not do this: Order.")
		s.calls(t)
		if shown := card.Press("Decline").Body; !strings.Contains(string(shown), "You declined to answer") {
			t.Errorf("a late click reads %s", shown)
		}
	})
}

// TestStopOfASignIn cancels it.
func TestStopOfASignIn(t *testing.T) {
	testSignIn(t, bottest.Config{}, func(t *testing.T, s *signing) {
		s.Model.Says(plan(do("readMail", `{}`), say("Read.")))
		mia := s.Personal("Mia")
		mia.Say("read my mail")
		wantCard(t, mia.Next(), "graph")
		mia.Say("/stop")
		mia.Expect("OK, I won't do this: Read mail.")
		s.ran(t)
		mia.Say("/stop")
		mia.Expect(nothingRuns)
	})
}
