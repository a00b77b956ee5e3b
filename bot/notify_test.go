package bot_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/metrics"
	"github.com/planbot-go/planbot/bot/turn"
)

// mia is her own conversation with the bot, and how to find it.
var (
	miasChat = actions.Recipient{Channel: "msteams", Bot: "28:bot", Conversation: "a:mia"}
	mia      = actions.Recipient{Channel: "msteams", Bot: "28:bot", User: "29:mia"}
)

// met is a bot that Mia has talked with.
func met(t *testing.T, change ...func(*bot.Config)) *bundle {
	t.Helper()
	b := setup(t, change...)
	b.hello()
	return b
}

func (b *bundle) hello() {
	b.Helper()
	b.model.Says(plan(say("Hello!")))
	b.say("hi")
	b.expect("Hello!")
}

func (b *bundle) notify(n actions.Notice) string {
	b.Helper()
	turn, err := b.bot.Notify(b.Context(), n)
	b.must(err)
	return turn
}

func TestNotifyAConversationAndAPerson(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		if turn := b.notify(actions.Notice{To: miasChat, Text: "The build is **green**."}); turn == "" {
			t.Error("no turn")
		}
		got := b.connector.Next(t)
		if got.Text() != "The build is **green**." || got.Body["textFormat"] != "markdown" || got.To != "a:mia" || got.ReplyTo != "" {
			t.Errorf("sent %v to %s", got.Body, got.To)
		}
		if got.Body["entities"] != nil || got.Body["replyToId"] != nil {
			t.Errorf("it is labelled as AI or answers something: %v", got.Body)
		}
		b.notify(actions.Notice{To: mia, Text: "For you."})
		b.expect("For you.")
		card := &activity.Activity{Type: activity.Message, Attachments: []activity.Attachment{activity.Card{Fallback: "A card."}.Attachment()}}
		b.notify(actions.Notice{To: mia, Text: "First the text.", Activities: []*activity.Activity{card}})
		b.expect("First the text.")
		if got := b.connector.Next(t); got.Body["attachments"] == nil {
			t.Errorf("no card: %v", got.Body)
		}
		b.connector.None(t)
		for _, sent := range b.connector.All() {
			if sent.Type() == "typing" {
				t.Error("the bot is shown as typing though nobody asked")
			}
		}
	})
}

func TestNotifyAThread(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		const thread = "19:team@thread.tacv2;messageid=7"
		b.model.Says(plan(say("Hello!")))
		b.deliver(event{"text": "<at>Planbot</at> hi", "entities": []event{mentionOfBot}, "conversation": event{"id": thread, "conversationType": "channel", "isGroup": true, "tenantId": "t1"}})
		b.expect("Hello!")
		b.notify(actions.Notice{To: actions.Recipient{Channel: "msteams", Bot: "28:bot", Conversation: thread}, Text: "News."})
		if got := b.connector.Next(t); got.Text() != "News." || !strings.Contains(got.To, "messageid=7") {
			t.Errorf("sent %v to %s", got.Body, got.To)
		}
		if _, err := b.bot.Notify(t.Context(), actions.Notice{To: mia, Text: "Alone."}); !errors.Is(err, actions.ErrUnknownRecipient) {
			t.Errorf("somebody who only spoke in a channel: %v", err)
		}
	})
}

var mentionOfBot = event{"type": "mention", "text": "<at>Planbot</at>", "mentioned": event{"id": "28:bot", "name": "Planbot"}}

func TestWhatCannotBeNotified(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		for name, n := range map[string]actions.Notice{
			"unknown conversation": {To: actions.Recipient{Channel: "msteams", Bot: "28:bot", Conversation: "a:nobody"}, Text: "x"},
			"unknown person":       {To: actions.Recipient{Channel: "msteams", Bot: "28:bot", User: "29:nobody"}, Text: "x"},
			"another bot":          {To: actions.Recipient{Channel: "msteams", Bot: "28:other", User: "29:mia"}, Text: "x"},
		} {
			if _, err := b.bot.Notify(t.Context(), n); !errors.Is(err, actions.ErrUnknownRecipient) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for name, n := range map[string]actions.Notice{
			"nobody":           {Text: "x"},
			"nothing":          {To: mia},
			"blank":            {To: mia, Text: " \n"},
			"a typeless thing": {To: mia, Activities: []*activity.Activity{{}}},
			"nil":              {To: mia, Activities: []*activity.Activity{nil}},
		} {
			if turn, err := b.bot.Notify(t.Context(), n); err == nil || turn != "" {
				t.Errorf("%s: turn %q, error %v", name, turn, err)
			}
		}
		b.connector.None(t)
	})
}

// TestADeadConversationIsLeftAloneUntilItIsHeardOf again, also by notices that wait.
func TestADeadConversationIsLeftAloneUntilItIsHeardOf(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			inBubble(t, met, func(t *testing.T, b *bundle) {
				b.connector.Fails(0, status)
				b.notify(actions.Notice{To: mia, Text: "Lost."})
				b.rest("a:mia")
				if _, err := b.bot.Notify(t.Context(), actions.Notice{To: mia, Text: "Refused."}); !errors.Is(err, actions.ErrUnreachable) || !strings.Contains(err.Error(), "Fault") {
					t.Errorf("error %v", err)
				}
				b.hello()
				b.notify(actions.Notice{To: mia, Text: "Alive."})
				b.expect("Alive.")
				b.connector.None(t)
			})
		})
	}
}

// rest waits until nothing of the conversation is left to do.
func (b *bundle) rest(conversation string) {
	b.Helper()
	queue := func(key string) bool { return strings.HasSuffix(key, "/conversations/"+conversation+"/queue") }
	b.until(conversation+" at rest", func() bool { return !slices.ContainsFunc(b.redis.Keys(), queue) })
}

func TestOtherRefusalsDoNotRetireAConversation(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusGone, http.StatusRequestEntityTooLarge} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			inBubble(t, met, func(t *testing.T, b *bundle) {
				b.connector.Fails(0, status)
				b.notify(actions.Notice{To: mia, Text: "Lost."})
				b.notify(actions.Notice{To: mia, Text: "There."})
				b.expect("There.")
				b.connector.None(t)
			})
		})
	}
}

// TestARefusedNoticeComesBack, as nobody would ask for it again.
func TestARefusedNoticeComesBack(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusUnauthorized, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				b := met(t, func(c *bot.Config) { c.Channel, c.Metrics = hasty(t), metrics.To(registry) })
				b.connector.Fails(0, status)
				b.notify(actions.Notice{To: mia, Text: "Refused once."})
				b.expect("Refused once.")
				b.rest("a:mia")
				b.connector.None(t)
				if got := b.gather(registry); got["planbot_replies_total retried"] != 1 || got["planbot_replies_total ok"] != 2 || got["planbot_replies_total failed"] != 0 {
					t.Errorf("replies %v", got)
				}
			})
		})
	}
}

// TestANoticeThatIsRefusedForTooLongIsParked for an operator.
func TestANoticeThatIsRefusedForTooLongIsParked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		b := met(t, func(c *bot.Config) { c.Metrics = metrics.To(registry) })
		b.connector.Fails(0, http.StatusInternalServerError, http.StatusInternalServerError)
		id := b.notify(actions.Notice{To: mia, Text: "Refused."})
		b.awayForLong()
		dead := b.deadLetters(1)
		if rec := readRecord(t, dead[0].Record); dead[0].ID != id || !strings.Contains(rec.Wait.Reason, "did not take its message") {
			t.Errorf("dead letter %s", dead[0].Record)
		}
		b.connector.None(t)
		if got := b.gather(registry); got["planbot_replies_total given_up"] != 1 {
			t.Errorf("metrics %v", got)
		}
	})
}

// awayForLong waits until a message to Mia is refused, and makes that long ago.
func (b *bundle) awayForLong() {
	b.Helper()
	away := regexp.MustCompile(`"away":"[0-9]{4}`)
	b.until("a refusal", func() bool {
		key, id, record := b.record(`"away":"`)
		if key != "" {
			b.redis.HSet(key, id, away.ReplaceAllString(record, `"away":"1990`))
		}
		return key != ""
	})
}

// TestANoticeToADeadConversationIsCounted, of those that wait for their time.
func TestANoticeToADeadConversationIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		b := met(t, func(c *bot.Config) { c.Metrics = metrics.To(registry) })
		b.notify(actions.Notice{To: mia, Text: "Later.", At: time.Now().Add(time.Hour)})
		b.connector.Fails(0, http.StatusForbidden)
		b.notify(actions.Notice{To: mia, Text: "Refused."})
		b.rest("a:mia")
		b.pass(2 * time.Hour)
		b.gone()
		b.rest("a:mia")
		b.connector.None(t)
		if got := b.gather(registry); got["planbot_replies_total given_up"] != 1 || got["planbot_replies_total failed"] != 1 {
			t.Errorf("metrics %v", got)
		}
	})
}

// TestEachTryOfAMessageIsCounted, also those of one call.
func TestEachTryOfAMessageIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		b := setup(t, func(c *bot.Config) { c.Metrics = metrics.To(registry) })
		b.connector.Fails(0, http.StatusTooManyRequests, http.StatusBadGateway)
		b.hello()
		b.rest("a:mia")
		if got := b.gather(registry); got["planbot_replies_total retried"] != 2 || got["planbot_replies_total ok"] != 1 {
			t.Errorf("metrics %v", got)
		}
	})
}

func TestANoticeIsSentOnce(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		first := b.notify(actions.Notice{To: mia, Text: "Once.", Key: "k"})
		if again := b.notify(actions.Notice{To: mia, Text: "Once.", Key: "k"}); again != first {
			t.Errorf("turns %q and %q", first, again)
		}
		b.expect("Once.")
		b.notify(actions.Notice{To: mia, Text: "Other.", Key: "l"})
		b.expect("Other.")
		for range 2 {
			b.notify(actions.Notice{To: mia, Text: "Twice."})
			b.expect("Twice.")
		}
		b.connector.None(t)
	})
}

// TestNoticesKeepTheOrderOfTheConversation that they come into.
func TestNoticesKeepTheOrderOfTheConversation(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		r := b.addReplica()
		asked := b.model.Waits()
		r.say("think about it")
		<-asked
		_, err := b.bot.Notify(t.Context(), actions.Notice{To: mia, Text: "Later."})
		b.must(err)
		b.connector.None(t)
		r.kill() // the model never answers
		b.model.Says(plan(say("Thought.")))
		b.addReplica()
		b.expect("Thought.")
		b.expect("Later.")
	})
}

func TestANoticeSurvivesItsProcess(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		r := b.addReplica()
		taken, release := b.connector.Holds("Important.")
		_, err := r.bot.Notify(t.Context(), actions.Notice{To: mia, Text: "Important."})
		b.must(err)
		<-taken
		r.kill()
		close(release)
		b.addReplica()
		b.expect("Important.")
		b.expect("Important.") // it was on its way
		b.connector.None(t)
	})
}

func TestANoticeWaitsWhileTheChannelIsAway(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		r := b.addReplica(func(c *bot.Config) { c.Channel = hasty(t) })
		b.connector.Fails(0, http.StatusServiceUnavailable)
		_, err := r.bot.Notify(t.Context(), actions.Notice{To: mia, Text: "One."})
		b.must(err)
		_, err = r.bot.Notify(t.Context(), actions.Notice{To: mia, Text: "Two."})
		b.must(err)
		b.expect("One.")
		b.expect("Two.")
		b.connector.None(t)
	})
}

// TestAnActionNotifies another person, once however often it is tried.
func TestAnActionNotifies(t *testing.T) {
	inBubble(t, setup, func(t *testing.T, b *bundle) {
		entered := make(chan struct{}, 2)
		open := make(chan struct{})
		t.Cleanup(func() { close(open) })
		actions.Add(b.actions, "tell", "Tells Bob", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
			for _, text := range []string{"Mia says hi.", "Answer her."} {
				if _, err := turn.Notifier.Notify(ctx, actions.Notice{To: actions.Recipient{User: "29:bob"}, Text: text}); err != nil {
					return actions.Result{}, err
				}
			}
			if entered <- struct{}{}; !actions.AttemptOf(ctx).Again {
				<-open
			}
			return actions.Done, nil
		})
		b.model.Says(plan(say("Hello, Bob.")))
		b.deliver(event{"text": "hi", "from": event{"id": "29:bob", "name": "Bob"}, "conversation": event{"id": "a:bob", "conversationType": "personal"}})
		b.expect("Hello, Bob.")
		r := b.addReplica()
		b.model.Says(plan(do("tell", `{}`), say("Told.")))
		r.say("tell Bob hi")
		<-entered
		b.expect("Mia says hi.")
		b.expect("Answer her.")
		b.rest("a:bob")
		r.kill()
		b.addReplica()
		b.expect("Told.")
		b.connector.None(t)
	})
}

// TestABotWithAnAppIDNeedsASignature for the address of a conversation, which one
// without an app id has kept.
func TestABotWithAnAppIDNeedsASignature(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		withID := b.wire(b.openStore(b.toRedis), func(c *bot.Config) { c.Channel = identified{c.Channel} })
		if _, err := withID.Notify(t.Context(), actions.Notice{To: mia, Text: "Secret."}); !errors.Is(err, actions.ErrUnreachable) {
			t.Errorf("error %v", err)
		}
		b.connector.None(t)
	})
}

// identified is a channel that shows the bot's token.
type identified struct{ turn.Channel }

func (identified) Identified() bool { return true }

func TestWhoIsForgottenIsNotNotified(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.say("/forget yes")
		b.expect("I've deleted everything I kept about you.")
		for _, to := range []actions.Recipient{mia, miasChat} {
			if _, err := b.bot.Notify(t.Context(), actions.Notice{To: to, Text: "x"}); !errors.Is(err, actions.ErrUnknownRecipient) {
				t.Errorf("%+v: error %v", to, err)
			}
		}
	})
}
