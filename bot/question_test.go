package bot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// asking is a bot with an action that asks how to order something.
type asking struct {
	*bottest.Kit
	bot        *bot.Bot
	log, redis logBuffer

	mu   sync.Mutex
	keys []string
	got  []string // what the calls of order got, without the first
}

const (
	orders = `{"type":"plan","commands":[{"type":"DO","action":"order","entities":{},"saveAs":"O"},{"type":"SAY","response":"$O"}]}`
	typed  = "gate 7 for Zoë"
)

// testAsking runs f with a bot whose action order asks once, or as often as it is told, and says what it
// got.
func testAsking(t *testing.T, cfg bottest.Config, f func(t *testing.T, s *asking)) {
	t.Helper()
	t.Parallel()
	s := &asking{}
	least, most := 1.0, 12.0
	form := actions.Form{Text: "Where to?\nAnd *how* many?", Fields: []actions.Field{
		{Name: "place", Title: "Place", Required: true, MinLength: 3, MaxLength: 20, Hint: "As on the sign"},
		{Name: "count", Kind: actions.IntegerField, Min: &least, Max: &most, Default: 2},
		{Name: "weight", Kind: actions.NumberField},
		{Name: "fragile", Kind: actions.YesNoField},
		{Name: "size", Choices: []actions.Choice{{Value: "s", Title: "Small"}, {Value: "l", Title: "Large"}}},
	}}
	acts := actions.New()
	add := func(name string, times int, opts ...actions.Option) {
		actions.Add(acts, name, "Orders it", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			attempt := actions.AttemptOf(ctx)
			s.keys = append(s.keys, attempt.Key)
			if name != "quick" {
				*state.At[int](turn.Conversation, "ordered")++
			}
			n := 0
			if attempt.Answer != nil {
				values, _ := json.Marshal(attempt.Answer.Values)
				s.got = append(s.got, fmt.Sprintf("%s %t %t %s", values, attempt.Answer.Declined, attempt.Answer.Unanswered, attempt.Answer.State))
				_, _ = fmt.Sscan(string(attempt.Answer.State), &n)
			}
			switch {
			case attempt.Answer != nil && attempt.Answer.Declined:
				return actions.Text("not ordered"), nil
			case n < times:
				return actions.Ask(form, fmt.Append(nil, n+1)), nil
			}
			return actions.Text("ordered"), nil
		}, opts...)
	}
	add("order", 1)
	add("orderAfterApproval", 1, actions.NeedsApproval)
	add("nag", 9)
	add("quick", 1, actions.Parallel)
	actions.Add(acts, "look", "Looks", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keys = append(s.keys, "look "+actions.AttemptOf(ctx).Key)
		return actions.Text("seen"), nil
	}, actions.Parallel)
	actions.Add(acts, "lookAway", "Fails", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.keys = append(s.keys, "look "+actions.AttemptOf(ctx).Key)
		return actions.Fail("nothing to see"), nil
	}, actions.Parallel)
	actions.Add(acts, "wrongForm", "Asks nothing", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Ask(actions.Form{}, nil), nil
	})
	cfg.Log, cfg.ToRedis = &s.log, &s.redis
	cfg.New = func(ctx context.Context, parts bottest.Parts) (b *bot.Bot, err error) {
		c := parts.Bot
		c.Actions = acts
		if c.Planner, err = parts.Planner(ctx, "", planner.Config{Actions: acts}); err != nil {
			return nil, err
		}
		if b, err = bot.New(c); err == nil {
			b.OnNotice("order", func(ctx context.Context, t *bot.Turn) error { return t.Plan(ctx) })
			s.bot = b
		}
		return b, err
	}
	bottest.Test(t, cfg, func(t *testing.T, kit *bottest.Kit) {
		s.Kit = kit
		f(t, s)
		kit.Settle()
		if i := strings.Index(s.log.String(), typed); i >= 0 {
			t.Errorf("the log has what the person typed: %s", s.log.String()[max(0, i-200):i+40])
		}
	})
}

// calls checks what the calls after a question got.
func (s *asking) calls(t *testing.T, want ...string) {
	t.Helper()
	s.Settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.got, want) {
		t.Errorf("got %q, want %q", s.got, want)
	}
}

// sameKey checks that all calls were attempts of one.
func (s *asking) sameKey(t *testing.T, calls int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.keys) != calls || len(slices.Compact(slices.Clone(s.keys))) != 1 || s.keys[0] == "" {
		t.Errorf("the attempts have the keys %q, want %d times the same", s.keys, calls)
	}
}

const fullAnswer = `{"count":3,"fragile":true,"place":"gate 7 for Zoë","size":"l","weight":1.50}`

func answerAll(card bottest.Sent) *bottest.Delivery {
	return card.Press("Send", "f0", typed, "f1", 3, "f2", "1.50", "f3", "true", "f4", "l")
}

func TestQuestion(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		s.Model.Says(orders)
		chat := s.Personal("Mia")
		chat.Say("order it")
		card := chat.ExpectCard("I have a question.", "Where to?", "And *how* many?", "As on the sign", "I need this for: Order.")
		for _, want := range []string{
			`"id":"f0","isMultiline":false,"isRequired":true,"label":"Place"`, `"maxLength":20`, `"max":12`, `"min":1`, `"value":2`, `"label":"Count"`,
			`"type":"Input.Number"`, `"type":"Input.Toggle"`, `"choices":[{"title":"Small","value":"s"},{"title":"Large","value":"l"}]`, `"associatedInputs":"none"`,
		} {
			if !strings.Contains(card.JSON, want) {
				t.Errorf("the card lacks %s: %s", want, card.JSON)
			}
		}
		if strings.Contains(card.JSON, "isTargeted") {
			t.Error("a targeted card in a personal chat")
		}
		s.Model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"Still here."}]}`)
		chat.Say("are you there?") // the conversation goes on
		chat.Expect("Still here.")
		if prompt := s.Model.LastCall().Prompt(); !strings.Contains(prompt, "[The person was asked something that order needs") {
			t.Errorf("the model was told %s", prompt)
		}
		if shown := answerAll(card).Body; !strings.Contains(string(shown), "You answered this") || strings.Contains(string(shown), typed) {
			t.Errorf("the click was answered with %s", shown)
		}
		chat.Expect("ordered")
		s.calls(t, fullAnswer+" false false 1")
		s.sameKey(t, 2)
		if n := *state.At[int](chat.Conversation(), "ordered"); n != 1 {
			t.Errorf("the state counts %d calls: the one that asked is not taken back", n)
		}
		if shown := card.Press("Send", "f0", "another").Body; !strings.Contains(string(shown), "You answered this") {
			t.Errorf("a second click was answered with %s", shown)
		}
		if shown := card.Press("Decline").Body; !strings.Contains(string(shown), "You answered this") {
			t.Errorf("a late decline was answered with %s", shown)
		}
		s.calls(t, fullAnswer+" false false 1")
		s.Model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"I did."}]}`)
		chat.Say("did you?")
		chat.Expect("I did.")
		if prompt := s.Model.LastCall().Prompt(); strings.Contains(prompt, "[The person was asked") || !strings.Contains(prompt, "order it") {
			t.Errorf("the model was told %s", prompt)
		}
	})
}

func TestQuestionInAGroup(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		for _, chat := range []*bottest.Chat{s.Group("team", "Mia", "Ben"), s.Channel("general", "Mia", "Ben")} {
			s.Model.Says(orders)
			chat.Mention("order it")
			card := chat.ExpectCard("Where to?")
			if !strings.Contains(card.JSON, `"isTargeted":true`) || !strings.Contains(card.JSON, "29:mia") {
				t.Errorf("others see the card: %s", card.JSON)
			}
			if shown := answerAll(card.As("Ben")).Body; !strings.Contains(string(shown), "for somebody else") {
				t.Errorf("another person was answered with %s", shown)
			}
			if shown := card.As("Ben").Press("Decline").Body; !strings.Contains(string(shown), "for somebody else") {
				t.Errorf("another person was answered with %s", shown)
			}
			s.calls(t)
			answerAll(card)
			chat.Expect("ordered")
			s.calls(t, fullAnswer+" false false 1")
			s.got = nil
		}
		if !strings.Contains(s.log.String(), `"audit":"question"`) {
			t.Error("the log does not say that somebody else answered")
		}
	})
}

// TestQuestionOfADroppedPlan: no call of the next plan gets a key that a call of the last one had.
func TestQuestionOfADroppedPlan(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		s.Model.Says(
			`{"type":"plan","commands":[{"type":"DO","action":"quick"},{"type":"DO","action":"lookAway"}]}`,
			`{"type":"plan","commands":[{"type":"DO","action":"look","saveAs":"L"},{"type":"SAY","response":"$L"}]}`,
		)
		chat := s.Personal("Mia")
		chat.Say("order it, and look")
		chat.Expect("seen")
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := range s.keys {
			s.keys[i] = strings.TrimPrefix(s.keys[i], "look ")
		}
		if slices.Sort(s.keys); len(s.keys) != 3 || len(slices.Compact(slices.Clone(s.keys))) != 3 {
			t.Errorf("the keys are %q, want three", s.keys)
		}
	})
}

func TestQuestionWithWrongValues(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		s.Model.Says(orders)
		chat := s.Personal("Mia")
		chat.Say("order it")
		card := chat.ExpectCard("Where to?")
		for want, inputs := range map[string][]any{
			"Please fill in Place.":                 {"f0", " "},
			"Place needs at least 3 characters.":    {"f0", "Oé"},
			"Place may have at most 20 characters.": {"f0", strings.Repeat("é", 21)},
			"Count has to be a whole number.":       {"f0", typed, "f1", "1.5"},
			"Count has to be at least 1.":           {"f0", typed, "f1", -1},
			"Count has to be at most 12.":           {"f0", typed, "f1", "13"},
			"Count has to be a number.":             {"f0", typed, "f1", "two"},
			"Weight has to be a number.":            {"f0", typed, "f2", "0x10"},
			"Fragile has to be yes or no.":          {"f0", typed, "f3", "perhaps"},
			"Size has to be one of the choices.":    {"f0", typed, "f4", "xl"},
		} {
			if shown := card.Press("Send", inputs...).Body; !strings.Contains(string(shown), want) {
				t.Errorf("%v was answered with %s, want %s", inputs, shown, want)
			}
		}
		s.calls(t)
		chat.ExpectNothing()
		card.Press("Send", "f0", typed, "f1", "", "f3", "false")
		chat.Expect("ordered")
		s.calls(t, `{"fragile":false,"place":"`+typed+`"} false false 1`)
	})
}

func TestQuestionDeclined(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		s.Model.Says(orders)
		chat := s.Personal("Mia")
		chat.Say("order it")
		card := chat.ExpectCard("Where to?")
		if shown := card.Press("Decline").Body; !strings.Contains(string(shown), "You declined to answer") {
			t.Errorf("the click was answered with %s", shown)
		}
		chat.Expect("not ordered")
		s.calls(t, "null true false 1")
		s.sameKey(t, 2)
	})
}

func TestQuestionExpires(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		s.Model.Says(orders)
		chat := s.Personal("Mia")
		chat.Say("order it")
		card := chat.ExpectCard("Where to?")
		time.Sleep(15*time.Minute + 2*time.Second)
		if shown := answerAll(card).Body; !strings.Contains(string(shown), "not answered in time") {
			t.Errorf("the click was answered with %s", shown)
		}
		time.Sleep(time.Minute)
		chat.Expect("not ordered")
		s.calls(t, "null true true 1")
		if shown := answerAll(card).Body; !strings.Contains(string(shown), "not answered in time") {
			t.Errorf("a late click was answered with %s", shown)
		}
	})
}

// TestQuestionCrashes kills the process around each step of a question. The call that asked is made again
// as the same one.
func TestQuestionCrashes(t *testing.T) {
	t.Run("between question and answer", func(t *testing.T) {
		testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
			s.Model.Says(orders)
			chat := s.Personal("Mia")
			chat.Say("order it")
			card := chat.ExpectCard("Where to?")
			s.Kill(1)
			s.Restart()
			answerAll(card)
			chat.Expect("ordered")
			s.calls(t, fullAnswer+" false false 1")
			s.sameKey(t, 2)
		})
	})
	t.Run("while the card is sent", func(t *testing.T) {
		testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
			var once sync.Once
			s.Connector.Decides(func(sent bottest.Sent) bottest.Answer {
				if sent.Card() != "" {
					once.Do(func() { s.Kill(1) })
				}
				return bottest.Answer{}
			})
			s.Model.Says(orders)
			chat := s.Personal("Mia")
			chat.Say("order it")
			first := chat.ExpectCard("Where to?")
			s.Restart()
			second := chat.ExpectCard("Where to?") // nobody knows that the first arrived
			answerAll(first)
			chat.Expect("ordered")
			if shown := answerAll(second).Body; !strings.Contains(string(shown), "You answered this") {
				t.Errorf("the other card was answered with %s", shown)
			}
			s.calls(t, fullAnswer+" false false 1")
		})
	})
	t.Run("with another replica", func(t *testing.T) {
		testAsking(t, bottest.Config{Replicas: 2}, func(t *testing.T, s *asking) {
			s.Model.Says(orders)
			chat := s.Personal("Mia").On(2)
			chat.On(1).Say("order it")
			card := chat.ExpectCard("Where to?")
			s.Kill(1)
			answerAll(card)
			chat.Expect("ordered")
			s.calls(t, fullAnswer+" false false 1")
			s.sameKey(t, 2)
		})
	})
}

func TestQuestionAfterApproval(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		s.Model.Says(strings.Replace(orders, `"order"`, `"orderAfterApproval"`, 1))
		chat := s.Personal("Mia")
		chat.Say("order it")
		chat.ExpectCard("May I do this?").Press("Approve")
		answerAll(chat.ExpectCard("Where to?")) // the approval holds for the call that is made again
		chat.Expect("ordered")
		s.calls(t, fullAnswer+" false false 1")
		s.sameKey(t, 2)
	})
}

// TestQuestionsOfOneCall: three are asked, a fourth is declined at once.
func TestQuestionsOfOneCall(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		s.Model.Says(strings.Replace(orders, `"order"`, `"nag"`, 1))
		chat := s.Personal("Mia")
		chat.Say("order it")
		for range 3 {
			answerAll(chat.ExpectCard("Where to?"))
		}
		chat.Expect("not ordered")
		s.calls(t, fullAnswer+" false false 1", fullAnswer+" false false 2", fullAnswer+" false false 3", "null true true 4")
		s.sameKey(t, 5)
	})
}

// TestQuestionsOfParallelCalls are asked one after another, and what ran beside them runs once.
func TestQuestionsOfParallelCalls(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		s.Model.Says(`{"type":"plan","commands":[{"type":"DO","action":"quick","entities":{},"saveAs":"A"},{"type":"DO","action":"look","entities":{},"saveAs":"B"},` +
			`{"type":"DO","action":"quick","entities":{},"saveAs":"C"},{"type":"DO","action":"look","entities":{},"saveAs":"D"},{"type":"SAY","response":"$A $B $C $D"}]}`)
		chat := s.Personal("Mia")
		chat.Say("order them")
		answerAll(chat.ExpectCard("Where to?"))
		chat.ExpectCard("Where to?").Press("Decline")
		chat.Expect("ordered seen not ordered seen")
		s.calls(t, fullAnswer+" false false 1", "null true false 1")
		s.mu.Lock()
		defer s.mu.Unlock()
		turn, _, _ := strings.Cut(s.keys[len(s.keys)-1], ".")
		slices.Sort(s.keys[:4])
		want := []string{"look T.1", "look T.3", "T.0", "T.2", "T.0", "T.2", "T.2"}
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], "T", turn)
		}
		slices.Sort(want[:4])
		if !slices.Equal(s.keys, want) {
			t.Errorf("the keys are %q, want %q", s.keys, want)
		}
	})
}

// TestQuestionOfNobody is declined at once.
func TestQuestionOfNobody(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		chat := s.Personal("Mia")
		s.Model.Says(`{"type":"plan","commands":[{"type":"SAY","response":"Hello."}]}`, orders)
		chat.Say("hello")
		chat.Expect("Hello.")
		to := actions.Recipient{Channel: "msteams", Bot: "28:bot", User: "29:mia"}
		if _, err := s.bot.Notify(t.Context(), actions.Notice{To: to, Run: "order", Text: "order it"}); err != nil {
			t.Fatal(err)
		}
		chat.Expect("not ordered")
		s.Model.Says(orders)
		chat.Deliver(map[string]any{"type": "message", "text": "order it", "channelId": "console"})
		chat.Expect("not ordered")
		s.calls(t, "null true true 1", "null true true 1")
		s.Model.Says(strings.Replace(orders, `"order"`, `"wrongForm"`, 1), `{"type":"plan","commands":[{"type":"SAY","response":"It failed."}]}`)
		chat.Say("ask nothing")
		chat.Expect("It failed.")
	})
}

func TestQuestionsGoWithWhatIsForgotten(t *testing.T) {
	for _, command := range []string{"/reset", "/forget yes"} {
		t.Run(command, func(t *testing.T) {
			testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
				s.Model.Says(orders)
				chat := s.Personal("Mia")
				chat.Say("order it")
				card := chat.ExpectCard("Where to?")
				chat.Say("/mydata")
				if data := chat.Next(); !strings.Contains(data.JSON, "Where to?") {
					t.Errorf("/mydata says %s", data.JSON)
				}
				chat.Say(command)
				chat.Next()
				if shown := answerAll(card).Body; !strings.Contains(string(shown), "no longer waiting for this answer") {
					t.Errorf("the click was answered with %s", shown)
				}
				s.calls(t)
			})
		})
	}
}

// TestQuestionToAClientWithoutExecute is answered with a message.
func TestQuestionToAClientWithoutExecute(t *testing.T) {
	testAsking(t, bottest.Config{}, func(t *testing.T, s *asking) {
		s.Model.Says(orders)
		chat := s.Personal("Mia")
		chat.Say("order it")
		card := chat.ExpectCard("Where to?")
		data := card.Buttons()[0]["fallback"].(map[string]any)["data"].(map[string]any)
		submit := func(place string) {
			value := map[string]any{"question": data["question"], "verb": data["verb"], "f0": place}
			chat.Deliver(map[string]any{"type": "message", "replyToId": card.ID, "value": value})
		}
		submit("")
		chat.Expect("Please fill in Place.")
		submit(typed)
		chat.Expect("ordered")
		s.calls(t, `{"fragile":false,"place":"`+typed+`"} false false 1`)
	})
}
