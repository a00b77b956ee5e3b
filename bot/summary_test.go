package bot_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/quota"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner"
)

// summarized is a bot that keeps two turns and a summary.
func summarized(change ...func(*bot.Config)) bottest.Config {
	return bottest.Config{Actions: oddActions(), Change: func(cfg *bot.Config) {
		cfg.HistoryTurns = 2
		cfg.Summarize = cfg.Planner.(*planner.Planner).Summarize
		for _, f := range change {
			f(cfg)
		}
	}}
}

// talk has the person say something and the bot answer it.
func talk(kit *bottest.Kit, chat *bottest.Chat, texts ...string) {
	for _, text := range texts {
		kit.Model.Says(plan(say("I heard " + text + ".")))
		chat.Say(text)
		chat.Expect("I heard " + text + ".")
	}
}

// shownTo is what the model saw in its last call.
func shownTo(kit *bottest.Kit) string { return fmt.Sprint(kit.Model.LastCall().Messages) }

const inShort = "What was said before, in short:\n  Mia said one and two."

func TestSummary(t *testing.T) {
	t.Parallel()
	bottest.Test(t, summarized(), func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		talk(kit, mia, "one", "two", "three")
		kit.Model.Says(plan(say("I heard four.")), "Mia said one and two.\n")
		mia.Say("four")
		mia.Expect("I heard four.")
		kit.Settle()
		if asked := shownTo(kit); !strings.Contains(asked, "Sum up") || !strings.Contains(asked, "I heard two.") || strings.Contains(asked, "three") {
			t.Errorf("asked for a summary with\n%s", asked)
		}
		talk(kit, mia, "five")
		if prompt := shownTo(kit); !strings.Contains(prompt, inShort) || strings.Contains(prompt, "I heard two.") || !strings.Contains(prompt, "I heard three.") {
			t.Errorf("the model sees\n%s", prompt)
		}
		kit.Model.Says(plan(say("I heard six.")), "Mia said one to four.")
		mia.Say("six")
		mia.Expect("I heard six.")
		kit.Settle()
		if asked := shownTo(kit); !strings.Contains(asked, "summary of what was said before: Mia said one and two.") {
			t.Errorf("the next summary does not see the one before:\n%s", asked)
		}
		for _, command := range []string{"/reset", "/forget yes"} {
			if kept := keptOf(mia); !strings.Contains(kept, "Mia said one") {
				t.Fatalf("before %s: %s", command, kept)
			}
			mia.Say(command)
			mia.Next()
			if kept := keptOf(mia); strings.Contains(kept, "Mia said one") {
				t.Errorf("after %s: %s", command, kept)
			}
			if command == "/reset" {
				talk(kit, mia, "one", "two", "three")
				kit.Model.Says(plan(say("I heard four.")), "Mia said one and two.")
				mia.Say("four")
				mia.Expect("I heard four.")
				kit.Settle()
			}
		}
	})
}

// TestForgetInAGroupDropsTheSummary: nobody knows whose words are in it.
func TestForgetInAGroupDropsTheSummary(t *testing.T) {
	t.Parallel()
	bottest.Test(t, summarized(), func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Group("team", "Mia", "Otto")
		for i, text := range []string{"one", "two", "three", "four"} {
			kit.Model.Says(plan(say("I heard " + text + ".")))
			if i == 3 {
				kit.Model.Says("Otto likes tea.")
			}
			mia.Mention(text)
			mia.Expect("I heard " + text + ".")
		}
		kit.Settle()
		if kept := keptOf(mia); !strings.Contains(kept, "Otto likes tea.") {
			t.Fatal(kept)
		}
		mia.Mention("/forget yes")
		mia.Next()
		if kept := keptOf(mia); strings.Contains(kept, "Otto likes tea.") {
			t.Error(kept)
		}
	})
}

// TestNobodyWaitsForASummary: the conversation goes on, only one is written at a time, and /reset is
// not undone by one that comes late.
func TestNobodyWaitsForASummary(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	var release chan struct{}
	config := summarized(func(cfg *bot.Config) {
		cfg.Summarize = func(ctx context.Context, _ *actions.Turn, _ int) (string, int, error) {
			calls.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return "a late summary", 1, ctx.Err()
		}
	})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		release = make(chan struct{}) // belongs to the bubble
		mia := kit.Personal("Mia")
		talk(kit, mia, "one", "two", "three")
		if n := calls.Load(); n != 1 {
			t.Errorf("%d summaries at once", n)
		}
		mia.Say("/reset")
		mia.Next()
		close(release)
		kit.Settle()
		if kept := keptOf(mia); strings.Contains(kept, "summary") || strings.Contains(kept, "I heard") {
			t.Errorf("after /reset: %s", kept)
		}
		talk(kit, mia, "four")
		kit.Settle()
		if kept := keptOf(mia); calls.Load() != 2 || !strings.Contains(kept, "a late summary") {
			t.Errorf("%d calls, kept %s", calls.Load(), kept)
		}
	})
}

// TestASummaryThatFails is tried again after the next turn, and in the end the oldest turns are forgotten.
func TestASummaryThatFails(t *testing.T) {
	t.Parallel()
	tries := 0
	config := summarized(func(cfg *bot.Config) {
		cfg.Summarize = func(_ context.Context, _ *actions.Turn, keep int) (string, int, error) {
			switch tries++; tries {
			case 1:
				return "", 0, errors.New("the model is away")
			case 2:
				panic("a bug")
			case 3:
				return "much too many", 99, nil
			}
			return "", 0, nil
		}
	})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		for i := range 9 {
			talk(kit, mia, fmt.Sprint("number ", i))
			kit.Settle()
		}
		kept := keptOf(mia)
		if tries != 9 || strings.Contains(kept, "number 2") || !strings.Contains(kept, "number 3") || strings.Contains(kept, "summary") {
			t.Errorf("%d tries, kept %s", tries, kept)
		}
	})
}

// TestASummaryThatIsCutOff stands for nothing: a later turn tries again.
func TestASummaryThatIsCutOff(t *testing.T) {
	t.Parallel()
	bottest.Test(t, summarized(), func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		talk(kit, mia, "one", "two", "three")
		kit.Model.Says(plan(say("I heard four.")))
		kit.Model.Answers(bottest.Answer{Text: "Mia said o", Finish: "length"})
		mia.Say("four")
		mia.Expect("I heard four.")
		kit.Settle()
		if kept := keptOf(mia); strings.Contains(kept, "Mia said o") || !strings.Contains(kept, "I heard one.") {
			t.Errorf("kept %s", kept)
		}
	})
}

// TestASummaryCounts towards the quota of the person.
func TestASummaryCounts(t *testing.T) {
	t.Parallel()
	config := summarized(func(cfg *bot.Config) {
		cfg.Quota = quota.Limits{UserTokensPerDay: 1_000_000}
		cfg.Summarize = func(_ context.Context, t *actions.Turn, _ int) (string, int, error) {
			t.Usage.PromptTokens += 1_000_000
			return "all of it", 1, nil
		}
	})
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		talk(kit, mia, "one")
		kit.Settle()
		mia.Say("two")
		mia.Expect(usedUp)
		if kept := keptOf(mia); !strings.Contains(kept, "all of it") {
			t.Error(kept)
		}
	})
}

// TestASummarySurvivesItsProcess once it is written.
func TestASummarySurvivesItsProcess(t *testing.T) {
	t.Parallel()
	calls := 0
	config := summarized()
	change := config.Change
	config.Replicas, config.Change = 2, func(cfg *bot.Config) {
		change(cfg)
		cfg.Summarize = func(context.Context, *actions.Turn, int) (string, int, error) {
			calls++
			return "all of it", 1, nil
		}
	}
	bottest.Test(t, config, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		kit.Model.Says(plan(say("I heard one.")))
		mia.Say("one")
		mia.Expect("I heard one.")
		kit.Settle()
		kit.Kill(1)
		talk(kit, mia.On(2), "two")
		if kept := keptOf(mia); !strings.Contains(kept, "all of it") || strings.Contains(kept, "I heard one") {
			t.Errorf("%d calls: %s", calls, kept)
		}
	})
}
