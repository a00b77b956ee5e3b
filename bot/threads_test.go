package bot_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/state"
)

const channelOfThreads = "19:General@thread.tacv2"

// threadOf is a thread of the channel, as that person sees it. "": the channel itself.
func threadOf(kit *bottest.Kit, thread, person string) *bottest.Chat {
	id := channelOfThreads
	if thread != "" {
		id += ";messageid=" + thread
	}
	return kit.Conversation(id, "channel", person)
}

func together(c *bot.Config) { c.ThreadsTogether = true }

func asksAlways(c *bot.Config) {
	c.Policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) {
		return actions.Approval{Required: true}, nil
	}
}

// TestThreadsSideBySide: two threads of a channel do not wait for each other, unless a setting says so.
func TestThreadsSideBySide(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*bot.Config)
		took   time.Duration
	}{
		"side by side": {func(*bot.Config) {}, thinking},
		"together":     {together, 2 * thinking},
	} {
		t.Run(name, func(t *testing.T) {
			bursting(t, func(t *testing.T, kit *bottest.Kit) {
				mia, ben := threadOf(kit, "1", "Mia"), threadOf(kit, "2", "Ben")
				began := time.Now()
				mia.On(1).Mention("one")
				ben.On(1).Mention("two")
				mia.Expect("On: one")
				ben.Expect("On: two")
				if took := time.Since(began).Truncate(time.Second); took != tt.took {
					t.Errorf("both were answered after %v, want %v", took, tt.took)
				}
			}, tt.change)
		})
	}
}

// TestThreadsInOrder: in one thread one message is answered after the other, whoever writes.
func TestThreadsInOrder(t *testing.T) {
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		mia, ben := threadOf(kit, "1", "Mia"), threadOf(kit, "1", "Ben")
		began := time.Now()
		mia.On(1).Mention("one")
		ben.On(2).Mention("two")
		mia.On(2).Mention("three")
		for _, text := range []string{"one", "two", "three"} {
			mia.Expect("On: " + text)
		}
		if took := time.Since(began).Truncate(time.Second); took != 3*thinking {
			t.Errorf("it took %v", took)
		}
	})
}

// TestThreadsDuplicate: a delivery that comes again is known, in whatever layout it came first.
func TestThreadsDuplicate(t *testing.T) {
	replica := 0
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		mia := threadOf(kit, "1", "Mia")
		const at = "<at>Planbot</at>"
		message := map[string]any{"type": "message", "id": "17", "text": at + " one", "entities": []any{mia.MentionOf(at)}}
		for n := range 4 {
			mia.On(1 + n%2).Deliver(message)
		}
		mia.Expect("On: one")
		mia.ExpectNothing()
	}, func(c *bot.Config) {
		replica++
		c.ThreadsTogether = replica == 1
	})
}

// threadTally is something that all threads of a channel count in.
type threadTally struct{ N int }

// TestThreadsShareTheChannel: what two threads change in the channel's state at the same time is all there.
func TestThreadsShareTheChannel(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	actions.Add(acts, "count", "Counts", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		one := state.Of[threadTally](turn.Conversation)
		time.Sleep(time.Second) // others do so meanwhile
		one.N++
		return actions.Text(fmt.Sprint(one.N)), nil
	})
	bottest.Test(t, bottest.Config{Actions: acts, Replicas: 2, Log: t.Output()}, func(t *testing.T, kit *bottest.Kit) {
		const threads = 4
		kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) {
			return bottest.Answer{Text: plan(do("count", `{}`), say("Counted."))}, true
		})
		for n := range threads {
			threadOf(kit, fmt.Sprint(n), "Mia").On(1 + n%2).Mention("count")
		}
		for n := range threads {
			threadOf(kit, fmt.Sprint(n), "Mia").Expect("Counted.")
		}
		if n := state.Peek[threadTally](threadOf(kit, "", "Mia").Conversation()).N; n != threads {
			t.Errorf("%d were counted, want %d", n, threads)
		}
	})
}

// TestThreadsShareTheChannelAndPeople: so it is if the action changes the person's state in the same step.
func TestThreadsShareTheChannelAndPeople(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	actions.Add(acts, "count", "Counts", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		time.Sleep(time.Duration(turn.Activity.From.Name[0]) * time.Millisecond) // others do so meanwhile
		state.Of[threadTally](turn.Conversation).N++
		state.Of[threadTally](turn.User).N++
		return actions.Done, nil
	})
	bottest.Test(t, bottest.Config{Actions: acts, Replicas: 2, Log: t.Output()}, func(t *testing.T, kit *bottest.Kit) {
		people := []string{"Mia", "Ben", "Carla", "Dan"}
		kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) {
			return bottest.Answer{Text: plan(do("count", `{}`), say("Counted."))}, true
		})
		for n, person := range people {
			threadOf(kit, person, person).On(1 + n%2).Mention("count")
		}
		for _, person := range people {
			thread := threadOf(kit, person, person)
			thread.Expect("Counted.")
			if n := state.Peek[threadTally](thread.User()).N; n != 1 {
				t.Errorf("%d were counted for %s", n, person)
			}
		}
		if n := state.Peek[threadTally](threadOf(kit, "", "Mia").Conversation()).N; n != len(people) {
			t.Errorf("%d were counted", n)
		}
	})
}

// TestNoticeFromAThread: what an action sends to its own thread at once comes after the answer, as elsewhere.
func TestNoticeFromAThread(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	actions.Add(acts, "tell", "Tells", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		_, err := turn.Notifier.Notify(ctx, actions.Notice{Text: "By the way."})
		time.Sleep(time.Second) // in which it would be sent
		return actions.Done, err
	})
	bottest.Test(t, bottest.Config{Actions: acts, Replicas: 2, Log: t.Output()}, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("tell", `{}`), say("Told.")))
		mia := threadOf(kit, "1", "Mia")
		mia.Mention("tell")
		mia.Expect("Told.")
		mia.Expect("By the way.")
	})
}

// TestAThreadThatIsGone: what the channel refuses in one thread, whose first message was deleted, says nothing about the
// others.
func TestAThreadThatIsGone(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	actions.Add(acts, "remind", "Reminds", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		_, err := turn.Notifier.Notify(ctx, actions.Notice{Text: "It is time.", At: time.Now().Add(time.Hour)})
		return actions.Done, err
	})
	bottest.Test(t, bottest.Config{Actions: acts, Log: t.Output()}, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("remind", `{}`), say("I will.")), plan(say("Hello.")))
		mia, ben := threadOf(kit, "1", "Mia"), threadOf(kit, "2", "Ben")
		mia.Mention("remind me")
		mia.Expect("I will.")
		kit.Connector.Fails(bottest.Answer{Status: http.StatusNotFound, Code: "ConversationNotFound"})
		ben.Mention("hello")
		time.Sleep(2 * time.Hour)
		mia.Expect("It is time.")
	})
}

// TestApprovalInAThread: a click finds what waits in a thread, also if it names only the channel.
func TestApprovalInAThread(t *testing.T) {
	for name, thread := range map[string]string{"names the thread": "1", "names the channel": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := bottest.Config{Actions: slowActions(), Replicas: 2, Log: t.Output(), Change: asksAlways}
			bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
				mia := threadOf(kit, "1", "Mia")
				kit.Model.Says(plan(do("close", `{}`), say("Closed.")))
				mia.On(1).Mention("Close it")
				card := mia.ExpectCard("Close a ticket")
				for _, button := range card.Buttons() {
					if button["title"] == "Approve" {
						click, err := card.Click(button)
						if err != nil {
							t.Fatal(err)
						}
						threadOf(kit, thread, "Mia").On(2).Deliver(click)
					}
				}
				mia.Expect("Closed.")
			})
		})
	}
}

// TestApprovalsInThreads: a person approves in many threads at the same time, and all is done that they approved, although
// it changes their own state in the same step.
func TestApprovalsInThreads(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	actions.Add(acts, "count", "Counts", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		time.Sleep(time.Second) // others do so meanwhile
		*state.Of[state.Counter](turn.User)++
		return actions.Done, nil
	}, actions.StateOnly)
	bottest.Test(t, bottest.Config{Actions: acts, Replicas: 2, Log: t.Output(), Change: asksAlways}, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) {
			return bottest.Answer{Text: plan(do("count", `{}`), say("Counted."))}, true
		})
		var threads []*bottest.Chat
		for n := range 12 {
			threads = append(threads, threadOf(kit, fmt.Sprint(n), "Mia"))
			threads[n].On(1 + n%2).Mention("count")
			threads[n].ExpectCard("Count")
		}
		for _, thread := range threads {
			thread.Approve()
		}
		for _, thread := range threads {
			thread.Expect("Counted.")
		}
		if n := *state.Peek[state.Counter](threads[0].User()); n != state.Counter(len(threads)) {
			t.Errorf("%d were counted", n)
		}
	})
}

// TestEditWhileAThreadRuns: an edit that names only the channel counts for the turn that runs in a thread.
func TestEditWhileAThreadRuns(t *testing.T) {
	for _, event := range []string{"editMessage", "softDeleteMessage"} {
		t.Run(event, func(t *testing.T) {
			bursting(t, func(t *testing.T, kit *bottest.Kit) {
				const at = "<at>Planbot</at>"
				mia, bare := threadOf(kit, "1", "Mia"), threadOf(kit, "", "Mia")
				id := fmt.Sprint(time.Now().UnixMilli())
				team := map[string]any{"team": map[string]any{"id": channelOfThreads}, "tenant": map[string]any{"id": "tenant-1"}}
				mention := []any{mia.MentionOf(at)}
				mia.Deliver(map[string]any{"type": "message", "id": id, "text": at + " it is hunter2", "entities": mention, "channelData": team})
				time.Sleep(time.Second)
				edit := map[string]any{"type": "messageDelete", "id": id}
				if event == "editMessage" {
					edit["type"], edit["text"], edit["entities"] = "messageUpdate", at+" it is a secret", mention
				}
				team["eventType"] = event
				edit["channelData"] = team
				bare.Deliver(edit)
				if event == "editMessage" {
					mia.Expect("On: it is a secret")
				}
				kit.Settle()
				mia.Mention("next")
				mia.Expect("On: next")
				if told := kit.Model.LastCall().Prompt(); strings.Contains(told, "hunter2") {
					t.Errorf("the model still sees the old words: %s", told)
				}
			})
		})
	}
}

// TestStopInOneThread ends what runs there, and nothing in another thread.
func TestStopInOneThread(t *testing.T) {
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		one, other := threadOf(kit, "1", "Mia"), threadOf(kit, "2", "Mia")
		one.On(1).Mention("one")
		other.On(1).Mention("two")
		time.Sleep(time.Second)
		one.On(2).Mention("/stop")
		one.Expect("I stopped.")
		other.Expect("On: two")
		one.ExpectNothing()
	})
}

// TestForgetBesideAThread: what another thread answers meanwhile is forgotten, or found by the next /forget.
func TestForgetBesideAThread(t *testing.T) {
	bursting(t, func(t *testing.T, kit *bottest.Kit) {
		one, other := threadOf(kit, "1", "Mia"), threadOf(kit, "2", "Mia")
		other.On(1).Mention("I live in Sandhausen")
		time.Sleep(time.Second)
		one.On(2).Mention("/forget yes")
		one.Next()
		other.Expect("On: I live in Sandhausen")
		one.Mention("/forget yes")
		one.Next()
		other.Mention("Where do I live?")
		other.Expect("On: Where do I live?")
		if told := kit.Model.LastCall().Prompt(); strings.Contains(told, "Sandhausen") {
			t.Errorf("it was not forgotten: %s", told)
		}
	})
}

// TestThreadsChangeLayout: what waits from one layout is found and goes on in the other.
func TestThreadsChangeLayout(t *testing.T) {
	for name, first := range map[string]bool{"from together": true, "to together": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			later := false
			bottest.Test(t, bottest.Config{Actions: slowActions(), Replicas: 2, Log: t.Output(), Change: func(c *bot.Config) {
				c.ThreadsTogether = first != later
				asksAlways(c)
			}}, func(t *testing.T, kit *bottest.Kit) {
				mia := threadOf(kit, "1", "Mia")
				kit.Model.Says(plan(do("close", `{}`), say("Closed.")))
				mia.Mention("Close it")
				mia.ExpectCard("Close a ticket")
				later = true
				kit.Restart()
				mia.Approve()
				mia.Expect("Closed.")
			})
		})
	}
}

// TestThreadsSpeakAndChange: a turn that has said something runs again from there when another thread was faster, so that
// all is said once and done once.
func TestThreadsSpeakAndChange(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	type count struct {
		Slow bool `json:"slow,omitempty"`
	}
	actions.Add(acts, "count", "Counts", func(_ context.Context, turn *actions.Turn, in count) (actions.Result, error) {
		one := state.Of[threadTally](turn.Conversation)
		if one.N++; in.Slow && one.N == 2 {
			time.Sleep(time.Second) // in which the other thread counts
		}
		return actions.Text(fmt.Sprint(one.N)), nil
	}, actions.StateOnly)
	bottest.Test(t, bottest.Config{Actions: acts, Replicas: 2, Log: t.Output()}, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(
			plan(do("count", `{}`), say("One."), do("count", `{"slow":true}`), say("Two.")),
			plan(do("count", `{}`), say("Between.")),
		)
		mia, ben := threadOf(kit, "1", "Mia"), threadOf(kit, "2", "Ben")
		mia.On(1).Mention("count twice")
		mia.Expect("One.")
		ben.On(2).Mention("count")
		ben.Expect("Between.")
		mia.Expect("Two.")
		mia.ExpectNothing()
		if n := state.Peek[threadTally](threadOf(kit, "", "Mia").Conversation()).N; n != 3 {
			t.Errorf("%d were counted, want 3", n)
		}
	})
}

// TestManyThreads: five hundred threads of a channel at once are all answered, and a click finds what waits in one of them.
func TestManyThreads(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: slowActions(), Replicas: 2, Change: asksAlways}, func(t *testing.T, kit *bottest.Kit) {
		const threads = 500
		kit.Model.Decides(func(call bottest.ModelCall) (bottest.Answer, bool) {
			if call.Last("user") == "Close it" {
				return bottest.Answer{Text: plan(do("close", `{}`), say("Closed."))}, true
			}
			return bottest.Answer{Takes: thinking, Text: plan(say("Hello."))}, true
		})
		mia := threadOf(kit, "mine", "Mia")
		mia.Mention("Close it")
		card := mia.ExpectCard("Close a ticket")
		for n := range threads {
			threadOf(kit, fmt.Sprint(n), "Ben").On(1 + n%2).Mention("Hello")
		}
		time.Sleep(thinking / 2)
		card.Press("Approve")
		mia.Expect("Closed.")
		for n := range threads {
			threadOf(kit, fmt.Sprint(n), "Ben").Expect("Hello.")
		}
	})
}
