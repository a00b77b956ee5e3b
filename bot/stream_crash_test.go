package bot_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
)

// TestEveryCrashOfAStream kills a process at each of its requests to the channel, just before it
// arrives or just after. The next process ends the message that grew, and the person is left with
// one finished answer.
func TestEveryCrashOfAStream(t *testing.T) {
	t.Parallel()
	answer := func(text string) bottest.Answer {
		return writes(300*time.Millisecond, answerOpens+text, 2500*time.Millisecond, " and butter, and then", 4*time.Second, " honey."+answerEnds)
	}
	acts := actions.New()
	actions.Add(acts, "close", "Closes a ticket", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		time.Sleep(4 * time.Second)
		return actions.Done, nil
	}, actions.StateOnly)
	for name, tt := range map[string]struct {
		answers  []bottest.Answer // of the first process, and of those after it
		requests int
		replies  []string
	}{
		"the same answer": {[]bottest.Answer{answer("You have milk and bread")}, 4, []string{"You have milk and bread and butter, and then honey."}},
		"another answer": {
			[]bottest.Answer{answer("You have milk and bread"), answer("There are beans and bread")},
			4,
			[]string{"You have milk and bread and butter, and then honey.", "There are beans and bread and butter, and then honey."},
		},
		"a plan after it": {
			[]bottest.Answer{answer("You have milk and bread"), writes(2*time.Second, plan(do("close", "{}"), say("It is closed.")))},
			4,
			[]string{"You have milk and bread and butter, and then honey.", "It is closed."},
		},
		"a status": {[]bottest.Answer{writes(2*time.Second, plan(do("close", "{}"), say("It is closed.")))}, 3, []string{"It is closed."}},
	} {
		for n := range tt.requests {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprint(name, ", request ", n, ", after ", after), func(t *testing.T) {
					t.Parallel()
					cfg := bottest.Config{Actions: acts, Replicas: 2, Log: t.Output(), Change: func(c *bot.Config) { c.Stream = true }}
					bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
						var asked, sent atomic.Int64
						kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) {
							return tt.answers[min(int(asked.Add(1)), len(tt.answers))-1], true
						})
						kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
							if sent.Add(1) != int64(n)+1 {
								return bottest.Answer{}
							}
							kit.Kill(1)
							if after {
								return bottest.Answer{CutOff: true}
							}
							return bottest.Answer{Status: http.StatusServiceUnavailable}
						})
						kit.Personal("Mia").Say("What do I have?")
						kit.Settle()
						if fault := screen(kit, tt.replies, n == 0 && after); fault != "" {
							t.Errorf("%s\n%q", fault, wireOf(kit))
						}
					})
				})
			}
		}
	}
}

// TestAfterALostStream: nobody knows the id of a message that a process began as it was killed. As long
// as it may grow the channel takes no other in that chat, which the bot does not take for a refusal of
// all of them.
func TestAfterALostStream(t *testing.T) {
	t.Parallel()
	cfg := bottest.Config{Actions: actions.New(), Replicas: 2, Log: t.Output(), Change: func(c *bot.Config) { c.Stream = true }}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) {
			return writes(time.Second, answerOpens+"You have milk and bread", 5*time.Second, " and butter."+answerEnds), true
		})
		var sent atomic.Int64
		kit.Connector.Decides(func(bottest.Sent) bottest.Answer {
			if sent.Add(1) > 1 {
				return bottest.Answer{}
			}
			kit.Kill(1)
			return bottest.Answer{CutOff: true}
		})
		const whole = "You have milk and bread and butter."
		mia := kit.Personal("Mia")
		mia.Say("What do I have?")
		mia.Expect(whole)
		mia = mia.On(2)
		mia.Say("What do I have?")
		mia.Expect(whole)
		time.Sleep(2 * time.Minute)
		mia.Say("What do I have?")
		mia.Expect(whole)
		expectWire(t, kit, "streaming You have milk and brea", "message "+whole, "message "+whole, "streaming You have milk and brea", "final "+whole)
	})
}

// screen says what is wrong with what the person sees in the end, or nothing.
// With lost, nobody knows the id of the first message, which the channel ends by itself.
func screen(kit *bottest.Kit, replies []string, lost bool) string {
	texts, open, shown := map[string]string{}, map[string]bool{}, 0
	for _, s := range kit.Connector.Sent() {
		if s.Status >= http.StatusBadRequest {
			continue
		}
		id := s.ID
		switch part := s.Activity.Stream(); {
		case part.Type == activity.StreamStatus || part.Type == activity.StreamText:
			open[id], texts[id] = true, s.Activity.Text
		case s.Activity.Type == activity.Typing:
		case s.Method == http.MethodDelete:
			delete(texts, id)
		default:
			open[id], texts[id] = false, s.Activity.Text
		}
	}
	for id, text := range texts {
		switch {
		case open[id] && lost:
		case open[id]:
			return "the message " + id + " is left open"
		case !slices.Contains(replies, text):
			return fmt.Sprintf("%q is left", text)
		default:
			shown++
		}
	}
	if shown != 1 {
		return fmt.Sprint("answers: ", shown)
	}
	return ""
}
