package bot_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// daily is a recurring notice to Mia.
var daily = actions.Notice{To: miasChat, Text: "Good morning.", Key: "morning", Every: "0 9 * * *"}

// due is the only record that waits in Mia's conversation.
func (b *bundle) due() inbox.Waiting { return b.dueIn("a:mia") }

func (b *bundle) dueIn(conversation string) inbox.Waiting {
	b.Helper()
	key, id, _ := b.record(`"every":`)
	b.until("a schedule that waits", func() bool { return b.redis.Exists(strings.TrimSuffix(key, "records") + "waits") })
	w, err := b.openInbox().Waiting(b.Context(), state.ConversationKey("msteams", "28:bot", conversation))
	b.must(err)
	if len(w) != 1 || w[0].ID != id {
		b.Fatalf("waiting %+v, want one", w)
	}
	return w[0]
}

// come lets the time of the schedule come, and a bit more.
func (b *bundle) come(later time.Duration) time.Time {
	b.Helper()
	at := b.due().Until
	b.redis.SetTime(at.Add(later))
	return at
}

func TestANoticeRecurs(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.addReplica() // two of them sweep
		b.notify(daily)
		b.connector.None(t)
		first := b.come(time.Second)
		b.expect("Good morning.")
		b.rest("a:mia")
		if hour, minute, _ := first.UTC().Clock(); hour != 9 || minute != 0 {
			t.Errorf("due at %v", first)
		}
		if second := b.come(time.Second); second.Sub(first) != 24*time.Hour {
			t.Errorf("due at %v and %v", first, second)
		}
		b.expect("Good morning.")
		b.rest("a:mia")
		b.connector.None(t)
	})
}

// TestARecurringNoticeSurvivesItsProcess, killed while it sends and while nobody is there.
func TestARecurringNoticeSurvivesItsProcess(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.must(b.bot.Drain(t.Context()))
		r := b.addReplica()
		_, err := r.bot.Notify(t.Context(), daily)
		b.must(err)
		first := b.due().Until
		taken, release := b.connector.Holds("Good morning.")
		b.come(time.Second)
		<-taken
		r.kill()
		close(release)
		b.expect("Good morning.")
		b.redis.SetTime(first.Add(time.Minute)) // the lease is over
		b.addReplica()
		b.expect("Good morning.") // it was on its way
		b.rest("a:mia")
		if next := b.due().Until; next.Sub(first) != 24*time.Hour {
			t.Errorf("due at %v and %v", first, next)
		}
		b.connector.None(t)
	})
}

// overdue makes the schedule in Mia's conversation due since that time.
func (b *bundle) overdue(since time.Time) {
	b.Helper()
	b.overdueIn("a:mia", since)
}

func (b *bundle) overdueIn(conversation string, since time.Time) {
	b.Helper()
	w := b.dueIn(conversation)
	key, id, record := b.record(`"every":`)
	from, to := w.Until.UTC().Format(time.RFC3339), since.UTC().Format(time.RFC3339)
	b.redis.HSet(key, id, strings.ReplaceAll(record, from, to))
	waits := strings.TrimSuffix(key, "records") + "waits"
	b.redis.HSet(waits, id, strings.Replace(b.redis.HGet(waits, id), fmt.Sprint(w.Until.UnixMilli()), fmt.Sprint(since.UnixMilli()), 1))
	for _, timers := range b.redis.Keys() {
		if strings.HasSuffix(timers, "/timers") {
			_, err := b.redis.ZAdd(timers, float64(since.UnixMilli()), w.Queue.String()+"\n"+id)
			b.must(err)
		}
	}
}

// TestMissedTimesAreDueOnce, also when the schedule is registered again at the start.
func TestMissedTimesAreDueOnce(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.notify(daily)
		next := b.due().Until
		b.must(b.bot.Drain(t.Context()))
		missed := next.AddDate(0, 0, -3)
		b.overdue(missed)
		_, err := b.wire(b.bot.Store()).Notify(t.Context(), daily) // before it works on anything
		b.must(err)
		if got := b.due().Until; !got.Equal(missed) {
			t.Errorf("due at %v, want %v", got, missed)
		}
		b.addReplica()
		b.addReplica()
		b.expect("Good morning.")
		b.expect("This was due on " + missed.UTC().Format("Monday, 2 January at 15:04") + ".")
		b.rest("a:mia")
		if got := b.due().Until; !got.Equal(next) {
			t.Errorf("due at %v, want %v", got, next)
		}
		b.connector.None(t)
	})
}

// TestASecondStartKeepsTheSchedule, and a change replaces it.
func TestASecondStartKeepsTheSchedule(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		id := b.notify(daily)
		first := b.due()
		changed := daily
		changed.Text = "Moin."
		if again := b.notify(changed); again != id {
			t.Errorf("turns %q and %q", id, again)
		}
		if again := b.due(); !again.Until.Equal(first.Until) {
			t.Errorf("due at %v, then at %v", first.Until, again.Until)
		}
		changed.Every, changed.Zone = "30 9 * * *", "Asia/Tokyo"
		b.notify(changed)
		if hour, minute, _ := b.come(time.Second).UTC().Clock(); hour != 0 || minute != 30 {
			t.Errorf("due at %d:%d UTC", hour, minute)
		}
		b.expect("Moin.")
		b.rest("a:mia")
		b.connector.None(t)
	})
}

// busy has the schedule in Mia's queue, behind a turn that goes on until end is called.
func (b *bundle) busy() (end func()) {
	b.Helper()
	b.notify(daily)
	taken, release := b.connector.Holds("Wait.")
	b.notify(actions.Notice{To: miasChat, Text: "Wait."})
	<-taken
	b.overdue(time.Now().Add(-time.Second))
	b.until("the schedule in the queue", func() bool {
		w, _ := b.openInbox().Queued(b.Context(), state.ConversationKey("msteams", "28:bot", "a:mia"))
		return w == 2
	})
	return func() {
		close(release)
		b.expect("Wait.")
	}
}

func TestAScheduleIsReplacedWhileItIsAtWork(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		end := b.busy()
		changed := daily
		changed.Every, changed.Text = "45 10 * * *", "Moin."
		b.notify(changed)
		end()
		b.expect("Good morning.")
		b.rest("a:mia")
		if hour, minute, _ := b.come(time.Second).UTC().Clock(); hour != 10 || minute != 45 {
			t.Errorf("due at %d:%d UTC", hour, minute)
		}
		b.expect("Moin.")
		b.rest("a:mia")
		b.connector.None(t)
	})
}

func TestAScheduleIsWithdrawn(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		withdraw := func(want bool) {
			t.Helper()
			if got, err := b.bot.Withdraw(t.Context(), actions.Notice{To: mia, Key: "morning"}); err != nil || got != want {
				t.Errorf("withdrawn %v, error %v", got, err)
			}
		}
		withdraw(false)
		b.gone()
		b.notify(daily)
		withdraw(true)
		b.gone()
		end := b.busy()
		withdraw(true)
		end()
		b.expect("Good morning.") // it was due
		b.rest("a:mia")
		b.gone()
		once := actions.Notice{To: miasChat, Text: "Once.", Key: "morning", At: time.Now().Add(100 * time.Hour)}
		b.notify(once)
		withdraw(true)
		b.gone()
		b.connector.None(t)
		if _, err := b.bot.Withdraw(t.Context(), actions.Notice{To: mia}); err == nil {
			t.Error("everything was withdrawn")
		}
	})
}

func TestANoticeRunsAHandler(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.must(b.bot.Drain(t.Context()))
		r := b.addRouted(func(made *bot.Bot) {
			made.OnNotice("summary", func(ctx context.Context, turn *bot.Turn) error {
				if turn.Activity.Conversation.ID != "a:mia" || turn.Activity.From.ID != "29:mia" {
					t.Errorf("activity %+v", turn.Activity)
				}
				if turn.Text == "fail" {
					return errors.New("no summary")
				}
				return turn.Plan(ctx)
			})
		})
		n := actions.Notice{To: miasChat, Text: "sum up the day", Key: "summary", Every: "0 17 * * MON-FRI", Zone: "Europe/Berlin", Run: "summary"}
		_, err := r.bot.Notify(t.Context(), n)
		b.must(err)
		for range 2 {
			b.model.Says(plan(do("addItem", `{"list":"days","item":"quiet"}`), say("A quiet day.")))
			b.come(time.Second)
			b.expect("A quiet day.")
			b.rest("a:mia")
		}
		b.connector.None(t)
		n.Text = "fail"
		_, err = r.bot.Notify(t.Context(), n)
		b.must(err)
		at := b.come(time.Second)
		b.until("a failure", func() bool { return strings.Contains(b.log.String(), "no summary") })
		b.rest("a:mia")
		if next := b.due().Until; !next.After(at) {
			t.Errorf("due at %v after a failure at %v", next, at)
		}
		b.connector.None(t)
	})
}

// TestAHandlerThatIsGone makes a dead letter, and its schedule goes on.
func TestAHandlerThatIsGone(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		b.must(b.bot.Drain(t.Context()))
		r := b.addRouted(func(made *bot.Bot) {
			made.OnNotice("old", func(context.Context, *bot.Turn) error { return nil })
		})
		_, err := r.bot.Notify(t.Context(), actions.Notice{To: miasChat, Key: "old", Every: "0 9 * * *", Run: "old"})
		b.must(err)
		b.must(r.bot.Drain(t.Context()))
		b.addReplica()
		b.come(time.Second)
		if dead := b.deadLetters(1); !strings.Contains(readRecord(t, dead[0].Record).Wait.Reason, "no handler for its notice old") {
			t.Errorf("dead letter %s", dead[0].Record)
		}
	})
}

func TestSchedulesThatAreRefused(t *testing.T) {
	inBubble(t, met, func(t *testing.T, b *bundle) {
		for name, n := range map[string]actions.Notice{
			"is no cron expression":      {Every: "61 9 * * *"},
			"of five fields":             {Every: "0 0 9 * * *"},
			"no cron expression of":      {Every: "daily"},
			"is never due":               {Every: "0 9 30 2 *"},
			"also is never due":          {Every: "* * 31 4 *"},
			`zone "Mars/Base"`:           {Every: "0 9 * * *", Zone: "Mars/Base"},
			`zone "Local"`:               {Every: "0 9 * * *", Zone: "Local"},
			"has an At":                  {Every: "0 9 * * *", At: time.Now().Add(time.Hour)},
			"Zone without Every":         {Zone: "Europe/Berlin"},
			`with OnNotice for "nobody"`: {Run: "nobody"},
		} {
			n.To, n.Text, n.Key = miasChat, "x", "k"
			if _, err := b.bot.Notify(t.Context(), n); err == nil || !strings.Contains(err.Error(), strings.TrimPrefix(name, "also ")) {
				t.Errorf("%s: error %v", name, err)
			}
		}
		if _, err := b.bot.Notify(t.Context(), actions.Notice{To: miasChat, Text: "x", Every: "0 9 * * *"}); err == nil || !strings.Contains(err.Error(), "no Key") {
			t.Errorf("without a key: error %v", err)
		}
		b.gone()
		b.connector.None(t)
	})
}
