package models_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/models"
)

// remindPrompt is the prompt of a bot with reminders, on a Saturday.
func remindPrompt(texts ...string) *models.Request {
	req := prompt(texts...)
	req.Messages[0].Text += "\nremindMe(what: string, in_minutes?: number, at?: string)\nlistReminders()\ncancelReminder(reminder: string)"
	last := len(req.Messages) - 1
	clock := models.Message{Role: models.System, Text: `2026-11-21 12:39 +01:00, Saturday; group chat; "Mia" writes:`}
	req.Messages = append(req.Messages[:last], clock, req.Messages[last])
	return req
}

func TestOfflineReminds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"remind me in 10 minutes to drink water":         `{"in_minutes":10,"what":"drink water"}`,
		"Please remind me to drink water in 10 minutes.": `{"in_minutes":10,"what":"drink water"}`,
		"remind me in 1.5 hours: tea":                    `{"in_minutes":90,"what":"tea"}`,
		"remind me in half an hour about the soup":       `{"in_minutes":30,"what":"the soup"}`,
		"remind me of the cake in an hour":               `{"in_minutes":60,"what":"the cake"}`,
		"set a reminder to breathe in a minute":          `{"in_minutes":1,"what":"breathe"}`,
		"remind us in 2 days to buy milk, eggs and tea":  `{"in_minutes":2880,"what":"buy milk, eggs and tea"}`,
		"remind me to check the oven and call Bob in 5m": `{"in_minutes":5,"what":"check the oven and call Bob"}`,
		"remind me to look in the office in 2 weeks":     `{"in_minutes":20160,"what":"look in the office"}`,
		"remind me at 15:30 to call Bob":                 `{"at":"2026-11-21T15:30:00+01:00","what":"call Bob"}`,
		"remind me at 3 p.m. to call Bob":                `{"at":"2026-11-21T15:00:00+01:00","what":"call Bob"}`,
		"remind me to call Bob at 9":                     `{"at":"2026-11-22T09:00:00+01:00","what":"call Bob"}`,
		"remind me at 12am to sleep":                     `{"at":"2026-11-22T00:00:00+01:00","what":"sleep"}`,
		"remind me tomorrow at 14:00 to call Bob":        `{"at":"2026-11-22T14:00:00+01:00","what":"call Bob"}`,
		"remind me to call Bob at 9 on Monday":           `{"at":"2026-11-23T09:00:00+01:00","what":"call Bob"}`,
		"remind me on saturday at 9 to call Bob":         `{"at":"2026-11-28T09:00:00+01:00","what":"call Bob"}`,
		"remind me today at 23:00 to call Bob":           `{"at":"2026-11-21T23:00:00+01:00","what":"call Bob"}`,
		"what reminders do I have?":                      `null`,
		"list my reminders":                              `null`,
		"cancel the reminder about water":                `{"reminder":"water"}`,
		"delete reminder k3v9x":                          `{"reminder":"k3v9x"}`,
		"cancel my water reminder":                       `{"reminder":"water"}`,
	} {
		commands := offline(t, remindPrompt(text))
		if len(commands) != 2 || commands[1].Response != "$RESULT" {
			t.Errorf("%q: %+v", text, commands)
			continue
		}
		if got, _ := json.Marshal(commands[0].Entities); string(got) != want {
			t.Errorf("%q: %s(%s), want %s", text, commands[0].Action, got, want)
		}
	}
}

func TestOfflineAsksForWhatAReminderNeeds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"remind me":                               "When shall I remind you?",
		"remind me to drink water":                "When shall I remind you?",
		"remind me at 25:00 to drink water":       "When shall I remind you?",
		"remind me at 13pm to drink water":        "When shall I remind you?",
		"remind me today at 9 to drink water":     "When shall I remind you?",
		"remind me in 10 minutes":                 "What shall I remind you of?",
		"cancel the reminder":                     "Which reminder do you mean?",
		"what is a reminder of our time together": "I did not understand that.",
	} {
		if got := offline(t, remindPrompt(text)); len(got) != 1 || !strings.HasPrefix(got[0].Response, want) {
			t.Errorf("%q: %+v, want %q", text, got, want)
		}
	}
	if got := offline(t, prompt("remind me in 10 minutes to drink water")); !strings.Contains(got[0].Response, "which this bot does not have") {
		t.Errorf("without the action: %+v", got)
	}
	if got := offline(t, remindPrompt("hi")); !strings.Contains(got[0].Response, "remind me in 10 minutes to drink water") {
		t.Errorf("about itself: %q", got[0].Response)
	}
}

// TestOfflineDoesNotGuessWhatTimeItIs where the prompt does not say.
func TestOfflineDoesNotGuessWhatTimeItIs(t *testing.T) {
	t.Parallel()
	req := remindPrompt("remind me at 15:30 to call Bob")
	req.Messages = append(req.Messages[:1], req.Messages[2:]...)
	if got := offline(t, req); len(got) != 1 || !strings.HasPrefix(got[0].Response, "When shall I") {
		t.Errorf("%+v", got)
	}
}
