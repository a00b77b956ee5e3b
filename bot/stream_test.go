package bot_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	plans "github.com/planbot-go/planbot/planner/plan"
)

// streamed runs f against a bot that shows answers while they are written, in a bubble.
func streamed(t *testing.T, acts *actions.Registry, f func(t *testing.T, kit *bottest.Kit), change ...func(*bot.Config)) {
	t.Helper()
	t.Parallel()
	if acts == nil {
		acts = actions.New()
	}
	bottest.Test(t, bottest.Config{Actions: acts, Log: t.Output(), Change: func(c *bot.Config) {
		c.Stream = true
		for _, f := range change {
			f(c)
		}
	}}, f)
}

// writes is an answer that a model writes in pieces, one each after a time since the request.
func writes(pieces ...any) bottest.Answer {
	var a bottest.Answer
	for i := 0; i < len(pieces); i += 2 {
		a.Pieces = append(a.Pieces, bottest.Piece{At: pieces[i].(time.Duration), Text: pieces[i+1].(string)})
	}
	return a
}

const (
	answerOpens = `{"type":"answer","commands":[{"type":"SAY","response":"`
	answerEnds  = `"}]}`
)

// wire is what the bot sent, a line each, typing indicators aside: what it is, and its text.
func wireOf(kit *bottest.Kit) (lines []string) {
	for _, s := range kit.Connector.Sent() {
		what := s.Activity.Stream().Type
		switch {
		case s.Method != http.MethodPost:
			what = s.Method
		case what == "" && s.Activity.Type == activity.Typing:
			continue
		case what == "":
			what = "message"
		}
		lines = append(lines, what+" "+s.Activity.Text)
	}
	return lines
}

func expectWire(t *testing.T, kit *bottest.Kit, want ...string) {
	t.Helper()
	kit.Settle()
	if got := wireOf(kit); !slices.Equal(got, want) {
		t.Errorf("the bot sent\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAnswersAppearWhileTheyAreWritten(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"You have ", 600*time.Millisecond, "two lists: groceries ",
			1400*time.Millisecond, "and garden. ", 2600*time.Millisecond, "Shall I show one?", 2800*time.Millisecond, answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Which lists do I have?")
		mia.Expect("You have two lists: groceries and garden. Shall I show one?")
		expectWire(t, kit, "streaming You have two lists: groceries", "streaming You have two lists: groceries and garden.",
			"final You have two lists: groceries and garden. Shall I show one?")
	})
}

// TestAReplyThatIsReadyFirst is one message, also if all of it comes late and at once.
func TestAReplyThatIsReadyFirst(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia")
		for _, at := range []time.Duration{400 * time.Millisecond, 900 * time.Millisecond} {
			kit.Model.Answers(writes(100*time.Millisecond, answerOpens+"Hello", at, " Mia, what shall I do for you today?"+answerEnds))
			mia.Say("Hello")
			mia.Expect("Hello Mia, what shall I do for you today?")
		}
		expectWire(t, kit, "message Hello Mia, what shall I do for you today?", "message Hello Mia, what shall I do for you today?")
	})
}

// slowActions are one that takes long, says what it does and how far it is, and one that says
// nothing.
func slowActions() *actions.Registry {
	acts := actions.New()
	actions.Add(acts, "search", "Searches tickets", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		time.Sleep(4 * time.Second)
		turn.Progress("Read 3 of 12 files")
		time.Sleep(4 * time.Second)
		return actions.Done, nil
	}, actions.Doing("Searching tickets"), actions.Title("Search tickets"))
	actions.Add(acts, "close", "Closes a ticket", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		time.Sleep(4 * time.Second)
		return actions.Done, nil
	}, actions.Title("Close a ticket"))
	return acts
}

func TestAStatusShowsWhatTheBotIsDoing(t *testing.T) {
	streamed(t, slowActions(), func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(2*time.Second, plan(do("search", `{}`), do("close", `{}`), say("I have closed it."))))
		mia := kit.Personal("Mia")
		mia.Deliver(map[string]any{"type": "message", "text": "Close it", "locale": "de-DE"}).Taken()
		mia.Expect("I have closed it.")
		expectWire(t, kit, "informative Ich denke nach …", "informative Searching tickets", "informative Read 3 of 12 files",
			"informative Ich arbeite daran …", "final I have closed it.")
	})
}

// TestADOAfterShownText: what was shown ends before the command runs, and the outcome replaces it.
func TestADOAfterShownText(t *testing.T) {
	acts := slowActions()
	streamed(t, acts, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(
			writes(300*time.Millisecond, answerOpens+"Let me look at your groceries list", 900*time.Millisecond, `."},`+do("close", "{}")+`]}`),
			writes(400*time.Millisecond, plan(do("close", `{}`), say("It is closed."))))
		mia := kit.Personal("Mia")
		mia.Say("Close it")
		mia.Expect("Let me look at your groceries lis")
		expectWire(t, kit, "streaming Let me look at your groceries lis", "final Let me look at your groceries lis", "PUT It is closed.")
	})
}

// TestStopWhileAnAnswerIsWritten ends the model's call. Nothing more is said, and the history has
// what was read.
func TestStopWhileAnAnswerIsWritten(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"Here is a long story about", 1800*time.Millisecond, " a dragon who kept",
			9*time.Second, " a very tidy cave"+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Tell me a story")
		time.Sleep(time.Second)
		kit.Connector.PressStop("a:Mia")
		mia.ExpectNothing()
		expectWire(t, kit, "streaming Here is a long story abou", "streaming Here is a long story about a dragon who kep")
		if !kit.Model.Calls()[0].Cancelled {
			t.Error("the model still writes")
		}
		expectHistory(t, kit, mia, "Here is a long story about", "dragon who")
	})
}

// expectHistory asks once more and fails unless the model is told what was read of the answer before,
// that it was stopped, and not the text that nobody saw.
func expectHistory(t *testing.T, kit *bottest.Kit, who *bottest.Chat, read, unseen string) {
	t.Helper()
	kit.Model.Says(plan(say("A dragon.")))
	who.Say("What was it about?")
	who.Expect("A dragon.")
	if asked := kit.Model.LastCall().Prompt(); !strings.Contains(asked, read) || strings.Contains(asked, unseen) || !strings.Contains(asked, "stopped the answer") {
		t.Errorf("the history is not what was read: %s", asked)
	}
}

// TestStopWhileACommandRuns lets it end, runs no other, and says what was done.
func TestStopWhileACommandRuns(t *testing.T) {
	streamed(t, slowActions(), func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("search", `{}`), do("close", `{}`), say("I have closed it.")))
		mia := kit.Personal("Mia")
		mia.Say("Close it")
		time.Sleep(2 * time.Second)
		kit.Connector.PressStop("a:Mia")
		mia.Expect("I stopped. Before that I did: Search tickets. I did not do this: Close a ticket.")
		expectWire(t, kit, "informative Searching tickets", "informative Read 3 of 12 files", "message I stopped. Before that I did: Search tickets. I did not do this: Close a ticket.")
	})
}

// TestStopWhileACommandFails: the person reads what they have to know of, and nothing else.
func TestStopWhileACommandFails(t *testing.T) {
	for name, c := range map[string]struct {
		progress string // with which the bot notices that they pressed Stop; "": it notices with its next message
		failure  error
		said     string
	}{
		"nobody knows what it did":      {"Waiting for it", actions.ErrUncertain, "^Sorry, .* I cannot tell whether this was done: Order it"},
		"nobody knows, noticed late":    {"", actions.ErrUncertain, "^Sorry, .* I cannot tell whether this was done: Order it"},
		"it did nothing that they miss": {"Waiting for it", errors.New("torn"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			acts := slowActions()
			actions.Add(acts, "order", "Orders it", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
				time.Sleep(4 * time.Second)
				turn.Progress(c.progress)
				time.Sleep(4 * time.Second)
				return actions.Done, c.failure
			}, actions.Doing("Ordering"), actions.Title("Order it"))
			streamed(t, acts, func(t *testing.T, kit *bottest.Kit) {
				kit.Model.Says(plan(do("order", `{}`), say("I have ordered it.")))
				mia := kit.Personal("Mia")
				mia.Say("Order it")
				time.Sleep(2 * time.Second)
				kit.Connector.PressStop("a:Mia")
				if c.said != "" {
					mia.ExpectMatch(c.said)
				}
				mia.ExpectNothing()
			})
		})
	}
}

// TestStopThatIsNoticedAtTheEnd is silent, too.
func TestStopThatIsNoticedAtTheEnd(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"Here is a long story about", 1800*time.Millisecond, " a dragon."+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Tell me a story")
		time.Sleep(1700 * time.Millisecond)
		kit.Connector.PressStop("a:Mia")
		mia.ExpectNothing()
		expectHistory(t, kit, mia, "Here is a long story", "a dragon.")
	})
}

// TestAnotherTextThanWasShown replaces it, also if it is a failure.
func TestAnotherTextThanWasShown(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		broken := writes(300*time.Millisecond, answerOpens+"There are about twelve items here", 1200*time.Millisecond, "")
		broken.CutOff = true
		kit.Model.Answers(broken)
		kit.Model.Answers(writes(500*time.Millisecond, answerOpens+"Your list has eleven items."+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("How many items are there?")
		mia.Expect("There are about twelve items her")
		expectWire(t, kit, "streaming There are about twelve items her", "final There are about twelve items her", "PUT Your list has eleven items.")
	})
}

// TestTwoMinutes: what was shown ends before the channel ends it, and more of it, and the reply,
// change it.
func TestTwoMinutes(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"Roses are red, I was told at school,", 60*time.Second, " violets are blue, ",
			125*time.Second, "and so are", 126*time.Second, " you."+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Write a very long poem")
		time.Sleep(2 * time.Minute)
		mia.Expect("Roses are red, I was told at school, violets are blue,")
		expectWire(t, kit, "streaming Roses are red, I was told at school", "streaming Roses are red, I was told at school, violets are blue,",
			"final Roses are red, I was told at school, violets are blue,", "PUT Roses are red, I was told at school, violets are blue, and so ar",
			"PUT Roses are red, I was told at school, violets are blue, and so are you.")
	}, func(c *bot.Config) { c.TurnTimeout = 10 * time.Minute })
}

// TestLessInCopilot: Copilot ends a message that grows sooner than Teams.
func TestLessInCopilot(t *testing.T) {
	for _, product := range []string{"COPILOT", "OFFICE"} {
		t.Run(product, func(t *testing.T) {
			streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
				kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"Roses are red, I was told at school,", 105*time.Second, " and so are you.", 106*time.Second, answerEnds))
				kit.Personal("Mia").Deliver(map[string]any{"type": "message", "text": "Write a poem", "entities": []any{map[string]any{"type": "ProductInfo", "id": product}}})
				kit.Settle()
				if ended := slices.Contains(wireOf(kit), "final Roses are red, I was told at school"); ended != (product == "COPILOT") {
					t.Errorf("ended early: %v\n%q", ended, wireOf(kit))
				}
			}, func(c *bot.Config) { c.TurnTimeout = 10 * time.Minute })
		})
	}
}

// TestNoSilenceInCopilot: a status is sent again before Copilot takes the silence for a failure.
func TestNoSilenceInCopilot(t *testing.T) {
	for product, want := range map[string]int{"COPILOT": 3, "OFFICE": 1} {
		t.Run(product, func(t *testing.T) {
			streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
				kit.Model.Answers(writes(80*time.Second, answerOpens+"Roses are red."+answerEnds))
				kit.Personal("Mia").Deliver(map[string]any{"type": "message", "text": "Write a poem", "entities": []any{map[string]any{"type": "ProductInfo", "id": product}}})
				kit.Settle()
				expectWire(t, kit, append(slices.Repeat([]string{"informative Thinking…"}, want), "final Roses are red.")...)
			}, func(c *bot.Config) { c.TurnTimeout = 10 * time.Minute })
		})
	}
}

// TestTwoMinutesWithNothingToShow says so, and the reply is a message of its own.
func TestTwoMinutesWithNothingToShow(t *testing.T) {
	acts := actions.New()
	actions.Add(acts, "think", "Thinks", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		time.Sleep(3 * time.Minute)
		return actions.Done, nil
	})
	streamed(t, acts, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("think", `{}`), say("Here it is.")))
		mia := kit.Personal("Mia")
		mia.Say("Think hard")
		time.Sleep(2 * time.Minute)
		mia.Expect("This is taking a while. I'll message you when it's done.")
		mia.Expect("Here it is.")
		expectWire(t, kit, "informative Working on it…", "final This is taking a while. I'll message you when it's done.", "message Here it is.")
	}, func(c *bot.Config) { c.TurnTimeout = 10 * time.Minute })
}

// TestAConversationThatTakesNoStreams gets whole messages, for a day.
func TestAConversationThatTakesNoStreams(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		refusals := 0
		kit.Connector.Decides(func(s bottest.Sent) bottest.Answer {
			if s.Activity.Stream() == (activity.StreamInfo{}) {
				return bottest.Answer{}
			}
			refusals++
			return bottest.Answer{Status: http.StatusMethodNotAllowed, Body: `{"code":"BadArgument","message":"Streaming api is not enabled"}`}
		})
		mia := kit.Personal("Mia")
		for _, want := range []int{1, 1, 2} {
			kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"There is no news about your", 4*time.Second, " lists."+answerEnds))
			mia.Say("Any news?")
			mia.Expect("There is no news about your lists.")
			if kit.Settle(); refusals != want {
				t.Errorf("%d tries to stream, want %d", refusals, want)
			}
			time.Sleep(13 * time.Hour)
		}
		kit.Connector.Sent()
	})
}

// TestWhereNothingIsStreamed are groups, answers in the HTTP response, and bots that judge texts.
func TestWhereNothingIsStreamed(t *testing.T) {
	answer := writes(300*time.Millisecond, answerOpens+"There is no news about your", 4*time.Second, " lists."+answerEnds)
	t.Run("group", func(t *testing.T) {
		streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
			kit.Model.Answers(answer)
			team := kit.Group("team")
			team.Mention("Any news?")
			team.Expect("There is no news about your lists.")
			expectWire(t, kit, "message There is no news about your lists.")
		})
	})
	t.Run("expectReplies", func(t *testing.T) {
		streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
			kit.Model.Answers(answer)
			d := kit.Personal("Mia").Deliver(map[string]any{"type": "message", "text": "Any news?", "deliveryMode": "expectReplies"}).Taken()
			if !strings.Contains(string(d.Body), "There is no news about your lists.") {
				t.Error(d)
			}
			expectWire(t, kit)
		})
	})
	t.Run("hook", func(t *testing.T) {
		streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
			kit.Model.Answers(answer)
			mia := kit.Personal("Mia")
			mia.Say("Any news?")
			mia.Expect("There is no news about your lists.")
			expectWire(t, kit, "message There is no news about your lists.")
		}, func(c *bot.Config) {
			c.Features = append(c.Features, bot.Feature{Say: func(_ context.Context, _ *bot.Turn, text string) (string, error) { return text, nil }})
		})
	})
}

// TestAnApprovalEndsAStatus: the card comes with the end of the message, which never has no text.
func TestAnApprovalEndsAStatus(t *testing.T) {
	acts := actions.New()
	actions.Add(acts, "close", "Closes a ticket", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil },
		actions.NeedsApproval, actions.Title("Close a ticket"))
	streamed(t, acts, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(2*time.Second, plan(do("close", `{}`), say("I have closed it."))))
		mia := kit.Personal("Mia")
		mia.Say("Close it")
		mia.ExpectCard("May I do this?").Press("Approve")
		mia.Expect("I have closed it.")
		expectWire(t, kit, "informative Thinking…", "final Approval needed: Close a ticket", "PUT ", "message I have closed it.")
	})
}

// TestACardEndsAStatus: what the card says becomes the text of the message, and no picture in it is loaded.
func TestACardEndsAStatus(t *testing.T) {
	acts := actions.New()
	show := func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Card(activity.Card{Fallback: "The list ![x](https://evil.example/?q=1)"}, ""), nil
	}
	actions.Add(acts, "show", "Shows a list", show)
	streamed(t, acts, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(2*time.Second, plan(do("show", `{}`))))
		mia := kit.Personal("Mia")
		mia.Say("Show it")
		mia.ExpectCard("The list")
		expectWire(t, kit, "informative Thinking…", "final The list x (evil.example)")
	})
}

// TestALongAnswer: the message that grew has its first part, which begins with what was shown.
func TestALongAnswer(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		first, second := strings.Repeat("one ", 2500), strings.Repeat("two ", 2500)
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+first+`\n\n`+second, 4*time.Second, "End."+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Write")
		got := mia.Next().Activity.Text + mia.Next().Activity.Text
		if got != first+"\n\n"+second+"End." {
			t.Errorf("the answer is %d bytes long: …%.40q", len(got), got[max(0, len(got)-40):])
		}
	})
}

// TestALongAnswerOfCode: what was shown stays where it is, and each message shows its part as code.
func TestALongAnswerOfCode(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		lines := strings.Repeat(`key: __value__\n`, 1400)
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"Here:\\n\\n```yaml\\n"+lines, 4*time.Second, "```\\n\\nEnd."+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Write")
		first, second := mia.Next(), mia.Next()
		for _, m := range []bottest.Sent{first, second} {
			if strings.Count(m.Activity.Text, "```") != 2 || !strings.Contains(m.Activity.Text, "```yaml\n") {
				t.Errorf("code without its fences: %.40q … %.40q", m.Activity.Text, m.Activity.Text[len(m.Activity.Text)-40:])
			}
		}
		if got := strings.Count(first.Activity.Text+second.Activity.Text, "key: __value__\n"); got != 1400 {
			t.Errorf("%d lines of 1400", got)
		}
		for _, sent := range kit.Connector.Sent() {
			if sent.Method == http.MethodPut {
				t.Errorf("the message was replaced, although it goes on: %.60s", sent.JSON)
			}
		}
	})
}

// TestATableWhileItIsWritten: a row is shown when it is whole.
func TestATableWhileItIsWritten(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+`Here are the people of today:\n\n| Name | Age |\n|---|`, 2*time.Second, `---|\n| Ann | 5 |\n| Bo`,
			4*time.Second, `b | 6 |`+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Who?")
		mia.Expect("Here are the people of today:\n\n- **Name:** Ann · **Age:** 5\n- **Name:** Bob · **Age:** 6")
		expectWire(t, kit, "streaming Here are the people of today:", "streaming Here are the people of today:\n\n- **Name:** Ann · **Age:** 5",
			"final Here are the people of today:\n\n- **Name:** Ann · **Age:** 5\n- **Name:** Bob · **Age:** 6")
	})
}

// TestARepairedPlanWithNothingToSay does not leave the words of the refused one: they are replaced.
func TestARepairedPlanWithNothingToSay(t *testing.T) {
	streamed(t, slowActions(), func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(
			writes(300*time.Millisecond, answerOpens+"Let me look at your groceries list", 900*time.Millisecond, `."},`+do("close", "{}")+`]}`),
			writes(400*time.Millisecond, plan(do("close", `{}`))))
		mia := kit.Personal("Mia")
		mia.Say("Close it")
		mia.Expect("Let me look at your groceries lis")
		expectWire(t, kit, "streaming Let me look at your groceries lis", "final Let me look at your groceries lis", "PUT Done.")
	})
}

// TestACardAfterRefusedWords is a new message, which tells the person, and the words go away.
func TestACardAfterRefusedWords(t *testing.T) {
	acts := actions.New()
	actions.Add(acts, "close", "Closes a ticket", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil },
		actions.NeedsApproval, actions.Title("Close a ticket"))
	streamed(t, acts, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(
			writes(300*time.Millisecond, answerOpens+"Let me look at your groceries list", 900*time.Millisecond, `."},`+do("close", "{}")+`]}`),
			writes(400*time.Millisecond, plan(do("close", `{}`), say("I have closed it."))))
		mia := kit.Personal("Mia")
		mia.Say("Close it")
		mia.Expect("Let me look at your groceries lis")
		mia.ExpectCard("May I do this?").Press("Approve")
		mia.Expect("I have closed it.")
		expectWire(t, kit, "streaming Let me look at your groceries lis", "final Let me look at your groceries lis", "DELETE ",
			"message ", "PUT ", "message I have closed it.")
	})
}

// TestWhatAHookAttaches comes with the end of the message.
func TestWhatAHookAttaches(t *testing.T) {
	streamed(t, nil, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"There is no news about your", 4*time.Second, " lists."+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Any news?")
		if m := mia.Next(); len(m.Activity.Attachments) != 1 {
			t.Errorf("%d attachments", len(m.Activity.Attachments))
		}
		expectWire(t, kit, "streaming There is no news about you", "final There is no news about your lists.")
	}, func(c *bot.Config) {
		c.Features = append(c.Features, bot.Feature{Send: func(_ context.Context, _ *bot.Turn, m *activity.Activity) {
			m.Attachments = []activity.Attachment{activity.Card{Fallback: "A card."}.Attachment()}
		}})
	})
}

// TestAHookThatAddsADO to an answer of which nothing was shown yet: it is shown after the command.
func TestAHookThatAddsADO(t *testing.T) {
	streamed(t, slowActions(), func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Answers(writes(300*time.Millisecond, answerOpens+"I closed your ticket for you."+answerEnds))
		mia := kit.Personal("Mia")
		mia.Say("Close it")
		mia.Expect("I closed your ticket for you.")
		expectWire(t, kit, "informative Working on it…", "final I closed your ticket for you.")
	}, func(c *bot.Config) {
		c.Features = append(c.Features, bot.Feature{Plan: func(ctx context.Context, _ *bot.Turn, next func(context.Context) (plans.Plan, error)) (plans.Plan, error) {
			p, err := next(ctx)
			p.Commands = append([]plans.Command{{Kind: plans.Do, Action: "close"}}, p.Commands...)
			return p, err
		}})
	})
}

// TestProgressWithoutText is none.
func TestProgressWithoutText(t *testing.T) {
	acts := actions.New()
	actions.Add(acts, "close", "Closes a ticket", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		turn.Progress(" \n")
		time.Sleep(4 * time.Second)
		return actions.Done, nil
	})
	streamed(t, acts, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("close", `{}`), say("I have closed it.")))
		mia := kit.Personal("Mia")
		mia.Say("Close it")
		mia.Expect("I have closed it.")
		expectWire(t, kit, "informative Working on it…", "final I have closed it.")
	})
}
