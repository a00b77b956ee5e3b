package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/planner"
)

// TestEveryCrashOfAStream kills a process at each of its requests to the channel, just before it
// arrives or just after. The next process ends the message that grew, and the person is left with
// one finished answer.
func TestEveryCrashOfAStream(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it dies at each place of a turn")
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

// TestACrashAtAnyTimeOfAStream is the same for a process that dies between its requests.
func TestACrashAtAnyTimeOfAStream(t *testing.T) {
	t.Parallel()
	replies := []string{"You have milk and bread and butter.", "There are beans and bread."}
	for at := 50 * time.Millisecond; at < 5*time.Second; at += 310 * time.Millisecond {
		t.Run(at.String(), func(t *testing.T) {
			t.Parallel()
			cfg := bottest.Config{Actions: actions.New(), Replicas: 2, Log: t.Output(), Change: func(c *bot.Config) { c.Stream = true }}
			bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
				asked := 0
				kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) {
					asked++
					if asked == 1 {
						return writes(300*time.Millisecond, answerOpens+"You have milk and bread", 3200*time.Millisecond, " and butter."+answerEnds), true
					}
					return writes(2*time.Second, answerOpens+"There are beans and bread."+answerEnds), true
				})
				kit.Personal("Mia").Say("What do I have?")
				time.Sleep(at)
				kit.Kill(1)
				kit.Settle()
				if fault := screen(kit, replies, false); fault != "" {
					t.Errorf("%s\n%q", fault, wireOf(kit))
				}
			})
		})
	}
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

// TestEveryAnswerOfTheChannel: whatever the channel answers to a part of a message, or to its end,
// the person reads the answer once. After Stop they read nothing more.
func TestEveryAnswerOfTheChannel(t *testing.T) {
	t.Parallel()
	refused := func(status int, code, message string) bottest.Answer {
		return bottest.Answer{Status: status, Body: fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, code, message)}
	}
	const no, reply = "ContentStreamNotAllowed", "You have milk and bread and butter, and then honey."
	for name, answer := range map[string]bottest.Answer{
		"payload":     refused(400, "BadSyntax", "Invalid activity"),
		"not here":    refused(405, "BadArgument", "Streaming api is not enabled"),
		"not allowed": refused(403, no, "Content stream is not allowed"),
		"time":        refused(403, no, "Content stream finished due to exceeded streaming time."),
		"done":        refused(403, no, "Content stream is not allowed on an already completed streamed message"),
		"no prefix":   refused(403, no, "Request streamed content should contain the previously streamed content"),
		"size":        refused(413, "MessageSizeTooBig", "Message size too large"),
		"gone":        refused(404, "ConversationNotFound", "Conversation not found."),
		"too fast":    refused(429, "TooManyRequests", "API calls quota exceeded"),
		"server":      refused(500, "ServiceError", "Something went wrong"),
		"busy server": refused(503, "ServiceUnavailable", ""),
		"nothing":     {CutOff: true},
		"slowly":      {Takes: 12 * time.Second},
		"stop":        refused(403, no, "Content stream was cancelled by user."),
	} {
		for n := range 4 { // three parts and the end
			t.Run(fmt.Sprint(name, " to request ", n), func(t *testing.T) {
				t.Parallel()
				cfg := bottest.Config{Actions: actions.New(), Log: t.Output(), Change: func(c *bot.Config) { c.Stream = true }}
				bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
					requests := 0
					kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
						if requests++; requests-1 != n {
							return bottest.Answer{}
						}
						return answer
					})
					kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"You have milk and bread", 2500*time.Millisecond, " and butter,",
						4*time.Second, " and then", 4100*time.Millisecond, " honey."+answerEnds))
					kit.Personal("Mia").Say("What do I have?")
					kit.Settle()
					fault := screen(kit, []string{reply, "You have milk and bread and butter,"}, n == 0)
					said := strings.Join(wireOf(kit), "\n")
					switch whole := strings.Contains(said, reply) || name == "size"; {
					case name == "stop" && n > 0 && n < 3 && strings.Contains(said, "honey"):
						t.Errorf("after Stop the bot said more\n%s", said)
					case name == "stop", name == "done" && n == 3:
					case fault != "" && name != "size", !whole:
						t.Errorf("%s\n%s", fault, said)
					}
				})
			})
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

// TestShutdownWhileAMessageOpens: the process learns the id of the message before it leaves the turn to
// another, which ends the message.
func TestShutdownWhileAMessageOpens(t *testing.T) {
	t.Parallel()
	var bots []*bot.Bot
	cfg := bottest.Config{Replicas: 2, Log: t.Output(), New: streaming(&bots)}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		const whole = "You have milk and bread and butter."
		kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) {
			return writes(300*time.Millisecond, answerOpens+"You have milk and bread", 5*time.Second, " and butter."+answerEnds), true
		})
		var sent atomic.Int64
		kit.Connector.Decides(func(bottest.Sent) bottest.Answer {
			if sent.Add(1) > 1 {
				return bottest.Answer{}
			}
			return bottest.Answer{Takes: 300 * time.Millisecond}
		})
		kit.Personal("Mia").Say("What do I have?")
		time.Sleep(600 * time.Millisecond)
		shutDown(t, bots[0])
		kit.Settle()
		if fault := screen(kit, []string{whole}, false); fault != "" {
			t.Errorf("%s\n%q", fault, wireOf(kit))
		}
	})
}

// streaming makes bots that stream, and keeps them.
func streaming(bots *[]*bot.Bot) func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
	return func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		cfg := parts.Bot
		cfg.Actions, cfg.Stream = actions.New(), true
		var err error
		if cfg.Planner, err = parts.Planner(ctx, "sequence", planner.Config{Actions: cfg.Actions, Model: parts.Model}); err != nil {
			return nil, err
		}
		made, err := bot.New(cfg)
		*bots = append(*bots, made)
		return made, err
	}
}

// shutDown is a shutdown whose time is over.
func shutDown(t *testing.T, b *bot.Bot) {
	t.Helper()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Drain(over); !errors.Is(err, context.Canceled) {
		t.Errorf("drained with %v", err)
	}
}

// TestADeadLetterBesideAnOldStatus: the message that a lost process has left open is too old to be ended, so the
// person reads of the dead letter in one of its own.
func TestADeadLetterBesideAnOldStatus(t *testing.T) {
	acts := actions.New()
	actions.Add(acts, "order", "Orders it", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
		<-ctx.Done()
		return actions.Done, ctx.Err()
	}, actions.Doing("Ordering"), actions.Title("Order it"))
	streamed(t, acts, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("order", `{}`), say("I have ordered it.")))
		mia := kit.Personal("Mia")
		mia.Say("Order it")
		for range 2 {
			time.Sleep(20 * time.Second)
			kit.Restart()
		}
		time.Sleep(20 * time.Second)
		kit.Kill(1)
		time.Sleep(2 * time.Minute)
		kit.Restart()
		mia.ExpectMatch("Somebody has to look at it. I cannot tell whether this was done: Order it")
	})
}
