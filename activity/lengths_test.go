package activity_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/activity"
)

// TestFitLengths: what is no part of a message itself never makes it too large to send.
func TestFitLengths(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70_000)
	for _, channel := range []string{activity.Teams, "webchat", ""} {
		a := &activity.Activity{Type: activity.Message, ChannelID: channel, Text: "Hello", Locale: long, Summary: long}
		a.From.Name, a.Recipient.Name, a.Conversation.Name = long, long, long
		a.Suggest(long, "Yes")
		a.SuggestSubmit("Send", map[string]string{"a": long})
		a.SuggestSubmit(long[:5000], map[string]int{"a": 1})
		sent, err := a.Fit().EncodeToSend()
		if err != nil || len(sent) > 8000 || !strings.Contains(string(sent), `"Hello"`) || !strings.Contains(string(sent), `"Yes"`) {
			t.Errorf("%s: %d bytes, %v", channel, len(sent), err)
		}
		if strings.Contains(string(sent), "locale") {
			t.Errorf("%s: a locale went out", channel)
		}
		if kept := len(a.Fit().SuggestedActions.Actions); channel == activity.Teams && kept != 2 {
			t.Errorf("%d suggestions: %s", kept, sent)
		}
	}
	for locale, want := range map[string]bool{
		"": true, "de": true, "DE": true, "de_DE": true, "de-CH-1996": true, "fr-x-private": true, "zh-Hans-CN": true,
		"x": false, "../../etc": false, "de-": false, "en;q=1": false, strings.Repeat("en-", 40) + "us": false, "\x00": false,
	} {
		if got := activity.LanguageTag(locale); (got == locale) != want {
			t.Errorf("%q becomes %q", locale, got)
		}
	}
}

// TestFitSuggestions: a long title is cut and keeps its value, an empty one is the words that it says, and a
// button that nobody could read goes.
func TestFitSuggestions(t *testing.T) {
	t.Parallel()
	a := &activity.Activity{Type: activity.Message, ChannelID: activity.Teams, Text: "Hello"}
	a.SuggestSubmit(strings.Repeat("é", 300), map[string]int{"id": 7})
	a.SuggestSubmit(" ", map[string]int{"id": 8})
	a.Suggest(strings.Repeat("word ", 60))
	got := a.Fit().SuggestedActions.Actions
	if len(got) != 2 || len(got[0]) > 400 || !strings.Contains(string(got[0]), `{"id":7}`) {
		t.Fatalf("%s", got)
	}
	if said := strings.Repeat("word ", 60); !strings.Contains(string(got[1]), `"value":"`+said+`"`) || strings.Contains(string(got[1]), `"title":"`+said) {
		t.Errorf("%s", got[1])
	}
}
