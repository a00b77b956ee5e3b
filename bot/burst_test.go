package bot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/quota"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// thinking is how long the model takes in these tests.
const thinking = 3 * time.Second

// bursting runs f against a bot of two replicas whose model repeats what it is asked, after a while.
func bursting(t *testing.T, f func(t *testing.T, kit *bottest.Kit), change ...func(*bot.Config)) {
	t.Helper()
	t.Parallel()
	cfg := bottest.Config{Actions: oddActions(), Replicas: 2, Log: t.Output(), Change: func(c *bot.Config) {
		for _, f := range change {
			f(c)
		}
	}}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Decides(func(call bottest.ModelCall) (bottest.Answer, bool) {
			return bottest.Answer{Takes: thinking, Text: plan(say(on(call.Last("user"))))}, true
		})
		f(t, kit)
	})
}

// behind is a chat in which the model thinks about a first message, so that what comes now has to wait.
func behind(kit *bottest.Kit) *bottest.Chat {
	mia := kit.Personal("Mia")
	mia.Say("first")
	time.Sleep(time.Second)
	return mia
}

func sayAll(c *bottest.Chat, texts ...string) {
	for _, text := range texts {
		c.Say(text)
	}
}

// on is the answer to what the model is asked.
func on(said string) string { return "On: " + strings.ReplaceAll(said, "\n", ", ") }

// prompted is what the model was asked, in order.
func prompted(kit *bottest.Kit) (all []string) {
	for _, call := range kit.Model.Calls() {
		all = append(all, call.Last("user"))
	}
	return all
}

func expectAsked(t *testing.T, kit *bottest.Kit, want ...string) {
	t.Helper()
	kit.Settle()
	if got := prompted(kit); !slices.Equal(got, want) {
		t.Errorf("the model was asked %q, want %q", got, want)
	}
}

// TestBurst: the messages that wait behind the first one are one turn, with one reply to the last.
func TestBurst(t *testing.T) {
	all := []string{"hey", "quick question", "how do I reset my password?", "it is for the VPN", "thanks"}
	for n := 1; n <= len(all); n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			bursting(t, func(t *testing.T, kit *bottest.Kit) {
				mia := kit.Personal("Mia")
				began := time.Now()
				var last *bottest.Delivery
				for i, text := range all[:n] {
					last = mia.On(1 + i%2).Say(text)
					time.Sleep(200 * time.Millisecond)
				}
				want, took := []string{all[0]}, thinking
				if n > 1 {
					want, took = append(want, strings.Join(all[1:n], "\n")), 2*thinking
				}
				var reply bottest.Sent
				for _, text := range want {
					reply = mia.Expect(on(text))
				}
				if is := time.Since(began); is > took+time.Second {
					t.Errorf("the last answer came after %v", is)
				}
				t.Logf("%d messages: %d calls of the model, the last answer after %v", n, len(kit.Model.Calls()), time.Since(began).Round(100*time.Millisecond))
				if reply.ReplyTo != last.ID {
					t.Errorf("it replies to %q, want the last message, %q", reply.ReplyTo, last.ID)
				}
				last.Again(mia.On(1))
				last.Again(mia.On(2))
				mia.ExpectNothing()
				expectAsked(t, kit, want...)
				mia.Say("bye")
				mia.Expect("On: bye")
				prompt := kit.Model.LastCall().Prompt()
				for _, text := range all[:n] {
					if strings.Count(prompt, text) < 1 {
						t.Errorf("the history has no %q: %s", text, prompt)
					}
				}
			})
		})
	}
}

// TestAMessageWaitsForItsBurst where a setting says so: all is one turn, also if the process dies meanwhile or the last
// ones come to another replica. What is no question does not wait.
func TestAMessageWaitsForItsBurst(t *testing.T) {
	waits := func(c *bot.Config) { c.Burst = time.Second }
	t.Run("all together", func(t *testing.T) {
		bursting(t, func(t *testing.T, kit *bottest.Kit) {
			mia, ben := kit.Personal("Mia"), kit.Personal("Ben")
			began := time.Now()
			for i, text := range []string{"hey", "quick question", "how do I reset my password?"} {
				mia.On(1 + i%2).Say(text)
				time.Sleep(200 * time.Millisecond)
			}
			ben.Say("help")
			ben.Next()
			if is := time.Since(began); is > time.Second {
				t.Errorf("help waited %v", is)
			}
			mia.Expect("On: hey, quick question, how do I reset my password?")
			if is := time.Since(began); is > time.Second+thinking+thinking/2 {
				t.Errorf("the answer came after %v", is)
			}
			sayAll(mia, "one", "two")
			mia.Expect("On: one, two")
			time.Sleep(time.Minute)
			mia.Say("three")
			mia.Expect("On: three")
			mia.ExpectNothing()
		}, waits)
	})
	t.Run("under a kill", func(t *testing.T) {
		bursting(t, func(t *testing.T, kit *bottest.Kit) {
			mia := kit.Personal("Mia")
			mia.Say("one")
			time.Sleep(500 * time.Millisecond)
			mia.Say("two")
			kit.Kill(1)
			mia.On(2).Say("three")
			mia.Expect("On: one")
			mia.Expect("On: two, three")
			mia.ExpectNothing()
		}, waits)
	})
}

// TestWhatJoinsNot: each is a turn of its own, and nothing joins across it.
func TestWhatJoinsNot(t *testing.T) {
	message := func(text string, over ...any) map[string]any {
		a := map[string]any{"type": "message", "text": text}
		for i := 0; i < len(over); i += 2 {
			a[over[i].(string)] = over[i+1]
		}
		return a
	}
	picture := []any{map[string]any{"contentType": "image/png", "contentUrl": "https://contoso.example/x.png"}}
	quote := []any{map[string]any{"contentType": "text/html", "content": `<blockquote itemtype="http://schema.skype.com/Reply" itemid="1"><p>old</p></blockquote><p>two</p>`}}
	for name, tt := range map[string]struct {
		send func(mia *bottest.Chat)
		want []string
	}{
		"a command":             {func(mia *bottest.Chat) { sayAll(mia, "one", "two", "/help", "three", "four") }, []string{"one\ntwo", "three\nfour"}},
		"a command at the head": {func(mia *bottest.Chat) { sayAll(mia, "help", "one", "two") }, []string{"one\ntwo"}},
		"a picture": {func(mia *bottest.Chat) {
			mia.Say("one")
			mia.Deliver(message("two", "attachments", picture)).Taken()
			sayAll(mia, "three", "four")
		}, []string{"one", "two", "three\nfour"}},
		"a quotation": {func(mia *bottest.Chat) {
			mia.Say("one")
			mia.Deliver(message("two", "attachments", quote)).Taken()
			mia.Say("three")
		}, []string{"one", "two", "three"}},
		"a click": {func(mia *bottest.Chat) {
			mia.Say("one")
			mia.Deliver(message("", "value", map[string]any{"x": 1})).Taken()
			mia.Say("two")
		}, []string{"one", "two"}},
		"another event": {func(mia *bottest.Chat) {
			mia.Say("one")
			mia.Deliver(map[string]any{"type": "event", "name": "x"}).Taken()
			mia.Say("two")
		}, []string{"one\ntwo"}}, // nobody handles it, so it stands in no queue
		"another address": {func(mia *bottest.Chat) {
			mia.Say("one")
			mia.Deliver(message("two", "replyToId", "17")).Taken()
			mia.Say("three")
		}, []string{"one", "two", "three"}},
		"many":      {func(mia *bottest.Chat) { sayAll(mia, slices.Repeat([]string{"x"}, 20)...) }, []string{strings.Repeat("x\n", 7) + "x", strings.Repeat("x\n", 7) + "x", strings.Repeat("x\n", 3) + "x"}},
		"long ones": {func(mia *bottest.Chat) { sayAll(mia, slices.Repeat([]string{strings.Repeat("x", 5000)}, 3)...) }, slices.Repeat([]string{strings.Repeat("x", 5000)}, 3)},
		"one after another": {func(mia *bottest.Chat) {
			mia.Say("one")
			time.Sleep(10 * thinking)
			mia.Say("two")
		}, []string{"one", "two"}},
	} {
		t.Run(name, func(t *testing.T) {
			bursting(t, func(t *testing.T, kit *bottest.Kit) {
				mia := behind(kit)
				tt.send(mia)
				time.Sleep(time.Minute)
				for range mia.Messages() {
					mia.Next()
				}
				got := prompted(kit)
				if len(got) > 0 && got[0] == "first" {
					got = got[1:]
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("the model was asked %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestFiftyWithPictures: each picture is a turn of its own, nothing is lost, and an edit among them counts.
func TestFiftyWithPictures(t *testing.T) {
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		var want []string
		for i := range 25 {
			picture := []any{map[string]any{"contentType": "image/png", "contentUrl": "https://contoso.example/x.png"}}
			mia.Deliver(map[string]any{"type": "message", "text": fmt.Sprint("picture ", i), "attachments": picture}).Taken()
			said := mia.Say(fmt.Sprint("text ", i))
			want = append(want, fmt.Sprint("picture ", i), fmt.Sprint("text ", i))
			if i == 12 {
				said.Edit("other words")
				want[len(want)-1] = "other words"
			}
		}
		time.Sleep(60 * thinking)
		for range mia.Messages() {
			mia.Next()
		}
		expectAsked(t, kit, want...)
	})
}

// TestTwoPeopleInABurst: nobody's messages join those of somebody else, nor across them.
func TestTwoPeopleInABurst(t *testing.T) {
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Group("Ops", "Mia", "Ben")
		ben := mia.As("Ben")
		mia.Mention("first")
		time.Sleep(time.Second)
		mia.Mention("one")
		mia.Mention("two")
		ben.Mention("three")
		mia.Mention("four")
		ben.Mention("five")
		ben.Mention("six")
		for _, text := range []string{"first", "one\ntwo", "three", "four", "five\nsix"} {
			mia.Expect(on(text))
		}
		expectAsked(t, kit, "first", "one\ntwo", "three", "four", "five\nsix")
	})
}

// TestThreadsOfABurst: two threads of a channel may share a queue, and no turn.
func TestThreadsOfABurst(t *testing.T) {
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		one := kit.Conversation("19:General;messageid=1", "channel", "Mia")
		other := kit.Conversation("19:General;messageid=2", "channel", "Mia")
		one.Mention("first")
		time.Sleep(time.Second)
		one.Mention("one")
		one.Mention("two")
		other.Mention("three")
		other.Mention("four")
		one.Expect("On: first")
		one.Expect("On: one, two")
		other.Expect("On: three, four")
	}, together)
}

// TestEditsInABurst: the turn follows what the author does with each of its messages, before it asks the model and while
// that thinks, and so does the history.
func TestEditsInABurst(t *testing.T) {
	for name, tt := range map[string]struct {
		does func(two, three *bottest.Delivery)
		want []string
	}{
		"edits the first": {func(two, _ *bottest.Delivery) { two.Edit("zwei") }, []string{"zwei\nthree"}},
		"edits the last": {func(_, three *bottest.Delivery) {
			three.Edit("drei")
			time.Sleep(time.Millisecond)
			three.Edit("trois")
		}, []string{"two\ntrois"}},
		"deletes the first": {func(two, _ *bottest.Delivery) { two.Delete() }, []string{"three"}},
		"deletes the last":  {func(_, three *bottest.Delivery) { three.Delete() }, []string{"two"}},
		"deletes both":      {func(two, three *bottest.Delivery) { two.Delete(); three.Delete() }, nil},
		"edits later": {func(two, _ *bottest.Delivery) {
			time.Sleep(thinking)
			two.Edit("zwei")
		}, []string{"two\nthree", "zwei\nthree"}},
		"deletes later": {func(two, _ *bottest.Delivery) {
			time.Sleep(thinking)
			two.Delete()
		}, []string{"two\nthree", "three"}},
	} {
		t.Run(name, func(t *testing.T) {
			bursting(t, func(t *testing.T, kit *bottest.Kit) {
				mia := behind(kit)
				two, three := mia.Say("two"), mia.Say("three")
				tt.does(two, three)
				time.Sleep(time.Minute)
				want := append([]string{"first"}, tt.want...)
				expectAsked(t, kit, want...)
				mia.Expect("On: first")
				if len(tt.want) > 0 {
					mia.Expect(on(want[len(want)-1]))
				}
				mia.ExpectNothing()
			})
		})
	}
}

// TestTheHistoryOfABurst has each message as one of its own, which its author may still edit.
func TestTheHistoryOfABurst(t *testing.T) {
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		mia := behind(kit)
		two := mia.Say("two")
		three := mia.Say("three")
		mia.Expect("On: first")
		mia.Expect("On: two, three")
		two.Edit("zwei")
		kit.Settle()
		said := func() (all []string) {
			turns := state.Peek[prompts.History](mia.Conversation()).Turns
			for _, turn := range turns[1:] {
				for _, m := range turn.Messages {
					if m.Role == "user" {
						all = append(all, m.Text)
					}
				}
			}
			return all
		}
		if got := said(); !slices.Equal(got, []string{"zwei", "three"}) {
			t.Errorf("the history has %q", got)
		}
		three.Delete()
		kit.Settle()
		if got := said(); len(got) > 0 {
			t.Errorf("after a deletion the history has %q", got)
		}
	})
}

// TestStopOfABurst stops all of it, and what came later is answered.
func TestStopOfABurst(t *testing.T) {
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		mia := behind(kit)
		sayAll(mia, "two", "three")
		mia.Expect("On: first")
		time.Sleep(time.Second)
		mia.On(2).Say("/stop")
		mia.Expect("I stopped.")
		mia.Say("four")
		mia.Expect("On: four")
		mia.ExpectNothing()
	})
}

// TestStopBeforeABurst: what was stopped in the queue joins nothing that came later.
func TestStopBeforeABurst(t *testing.T) {
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		mia := behind(kit)
		sayAll(mia, "two", "/stop", "three")
		mia.Expect("I stopped.")
		mia.Expect("You stopped me before I began with this message, so I left it out.")
		mia.Expect("On: three")
		mia.ExpectNothing()
	})
}

// TestQuotaOfABurst counts each message.
func TestQuotaOfABurst(t *testing.T) {
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		mia := behind(kit)
		sayAll(mia, "two", "three", "four")
		mia.Expect("On: first")
		mia.Expect("On: two, three, four")
		mia.Say("five")
		mia.Expect("You've sent a lot of messages. Please wait a minute.")
	}, func(c *bot.Config) { c.Quota = quota.Limits{UserTurnsPerMinute: 4} })
}

// TestModerationOfABurst judges each message, and all that the model is about to see.
func TestModerationOfABurst(t *testing.T) {
	by := &lenient{}
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		mia := behind(kit)
		sayAll(mia, "two", "three")
		mia.Expect("On: first")
		mia.Expect("On: two, three")
		for _, want := range []string{"two", "three", "two\nthree"} {
			if !slices.Contains(by.texts, want) {
				t.Errorf("%q was not judged: %q", want, by.texts)
			}
		}
	}, func(c *bot.Config) { c.Moderation.Moderator = by })
}

// lenient is a moderator that lets everything pass.
type lenient struct {
	mu    sync.Mutex
	texts []string // what people said
}

func (j *lenient) Judge(_ context.Context, all []moderation.Piece) (moderation.Verdict, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, p := range all {
		if p.Kind == moderation.Said {
			j.texts = append(j.texts, p.Text)
		}
	}
	return moderation.Verdict{}, nil
}

// TestEveryCrashOfABurst has processes die at each place while three messages come. What is answered together once stays
// together, each message is answered, and a death repeats one reply at most.
func TestEveryCrashOfABurst(t *testing.T) {
	t.Parallel()
	ci.NotUnderRace(t, "it dies at each place of a burst")
	_, steps, _ := liveBurst(t)
	if !slices.Contains(steps, "send On: two, three") {
		t.Fatalf("the steps are %q", steps)
	}
	for _, first := range places(len(steps)) {
		t.Run(first.String(), func(t *testing.T) {
			t.Parallel()
			for _, deaths := range [][]place{{first}, {first, first}} {
				sent, _, died := liveBurst(t, deaths...)
				told := slices.Compact(slices.Clone(sent))
				whole := []string{"On: one", "On: two, three"}
				apart := []string{"On: one", "On: two", "On: three"}
				joined := []string{"On: one, two, three"}
				if !slices.Equal(told, whole) && !(died > 0 && (slices.Equal(told, apart) || slices.Equal(told, joined))) {
					t.Errorf("with deaths %v: %q", deaths, sent)
				}
				if len(sent)-len(told) > died {
					t.Errorf("with deaths %v: %d of %q came twice", deaths, len(sent)-len(told), sent)
				}
			}
		})
	}
}

// liveBurst lets three messages meet these deaths.
func liveBurst(t *testing.T, deaths ...place) (sent, steps []string, died int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(aLongTime) })
		server, err := state.Open(t.Context(), "", state.Config{})
		must(t, err)
		t.Cleanup(func() { _ = server.Close() })
		warm(t, server, world{})
		c := &crashes{t: t, server: server, world: world{bare: true}, deaths: deaths, next: make(chan struct{}, 100), thinks: repeats}
		m := c.begin()
		left := []string{fromMia("a1", "one"), fromMia("a2", "two"), fromMia("a3", "three")}
		for quiet := false; !quiet || len(left) > 0; {
			if len(left) > 0 && c.send(m, left[0]) {
				left = left[1:]
			}
			wait := 300 * time.Millisecond
			if len(left) == 0 {
				wait = aLongTime
			}
			select {
			case <-c.next:
				m = c.begin()
				quiet = false
			case <-time.After(wait):
				quiet = len(left) == 0
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		sent, steps, died = append(sent, c.sent...), c.steps, c.died
	})
	return sent, steps, died
}

// repeats is a model that thinks for a while and repeats what it is asked.
func repeats(request []byte) string {
	time.Sleep(thinking)
	var call struct {
		Messages []struct{ Role, Content string }
	}
	_ = json.Unmarshal(request, &call) // another request has no message
	for _, m := range slices.Backward(call.Messages) {
		if m.Role == "user" {
			return plan(say(on(m.Content)))
		}
	}
	return ""
}

// slowSearch is an action that takes a while, and whose result the model reads.
func slowSearch() *actions.Registry {
	acts := actions.New()
	actions.Add(acts, "search", "Searches tickets", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		time.Sleep(4 * time.Second)
		return actions.Text("Two tickets."), nil
	})
	return acts
}

// TestSteer: what the person writes while a plan runs joins the turn before it plans again, in the order in which it came,
// and quotas count it.
func TestSteer(t *testing.T) {
	for name, steer := range map[string]bool{"with the setting": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := bottest.Config{Actions: slowSearch(), Replicas: 2, Log: t.Output(), Change: func(c *bot.Config) {
				c.Steer = steer
				c.Quota = quota.Limits{UserTurnsPerMinute: 3}
			}}
			bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
				kit.Model.Says(plan(do("search", `{}`)), plan(say("I have looked for tickets of Ben.")))
				mia := kit.Personal("Mia")
				mia.Say("Look for tickets")
				time.Sleep(time.Second)
				mia.Say("of Ben")
				mia.Say("please")
				if !steer {
					kit.Model.Says(plan(say("Yes.")))
				}
				answer := mia.Next()
				if answer.Activity.Text != "I have looked for tickets of Ben." || (answer.ReplyTo == "activity-3") != steer {
					t.Errorf("the answer to %s is %q", answer.ReplyTo, answer.Activity.Text)
				}
				if !steer {
					mia.Expect("Yes.")
				}
				prompt := kit.Model.Calls()[1].Prompt()
				if strings.Contains(prompt, "of Ben") != steer || !strings.Contains(prompt, "Look for tickets") {
					t.Errorf("the second plan was made from %s", prompt)
				}
				mia.Say("One more")
				mia.ExpectMatch("lot of messages")
			})
		})
	}
}

// TestSteerAfterADeath: what has joined stays, whatever process plans.
func TestSteerAfterADeath(t *testing.T) {
	t.Parallel()
	cfg := bottest.Config{Actions: slowSearch(), Replicas: 2, Log: t.Output(), Change: func(c *bot.Config) { c.Steer = true }}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("search", `{}`)))
		mia := kit.Personal("Mia")
		mia.On(1).Say("Look for tickets")
		time.Sleep(time.Second)
		mia.On(2).Say("of Ben")
		asked := kit.Model.Hangs(time.Minute)
		kit.Model.Says(plan(say("I have looked for tickets of Ben.")))
		<-asked
		kit.Kill(1)
		mia.Expect("I have looked for tickets of Ben.")
		mia.ExpectNothing()
		if prompt := kit.Model.LastCall().Prompt(); !strings.Contains(prompt, "of Ben") || !strings.Contains(prompt, "Two tickets.") {
			t.Errorf("the plan was made from %s", prompt)
		}
	})
}
