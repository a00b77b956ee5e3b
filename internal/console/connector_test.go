package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/activity"
)

func TestReplies(t *testing.T) {
	t.Parallel()
	const adaptive = `"type":"message","attachments":[{"contentType":"application/vnd.microsoft.card.adaptive","content":`
	for name, c := range map[string]struct{ members, want string }{
		"line breaks":      {`"type":"message","text":"one\r\n\ttwo"`, "one\n\ttwo"},
		"escape sequences": {`"type":"message","text":"\u001b]0;title\u0007red \u001b[31m\u009b2J"`, "]0;title" + "red [31m2J"},
		"empty":            {`"type":"message"`, "(an empty message)"},
		"suggestions": {
			`"type":"message","text":"Sure?","suggestedActions":{"actions":[{"title":"Yes"},{"title":"No"},7]}`,
			"Sure?\n[Yes] [No]",
		},
		"text blocks": {adaptive + `{"type":"AdaptiveCard","fallbackText":"unused","body":[
			{"type":"TextBlock","text":"Your lists"},
			{"type":"ColumnSet","columns":[{"items":[{"type":"TextBlock","text":"milk"}]},{"items":[{"type":"Container","items":[{"type":"TextBlock","text":"eggs"}]}]}]},
			{"type":"RichTextBlock","inlines":["a ",{"type":"TextRun","text":"b"}]},
			{"type":"FactSet","facts":[{"title":"items","value":"2"}]},
			{"type":"ActionSet","actions":[{"title":"More"}]}],
			"actions":[{"type":"Action.Submit","title":"OK"},{"type":"Action.Submit"}]}}]`, "Your lists\nmilk\neggs\na b\nitems: 2\n[More] [OK]"},
		"fallback text":  {adaptive + `{"type":"AdaptiveCard","fallbackText":"Plain words","body":[]}}]`, "Plain words"},
		"card of no use": {adaptive + `{"type":"AdaptiveCard"}}]`, "[a card without text]"},
		"card of a list": {adaptive + `["x"]}]`, "[a card that cannot be shown here]"},
		"hero card": {
			`"type":"message","attachments":[{"contentType":"application/vnd.microsoft.card.hero","content":{"title":"T","text":"x","buttons":[{"title":"Go"}]}}]`,
			"T\nx\n[Go]",
		},
		"file":  {`"type":"message","text":"See","attachments":[{"contentType":"image/png","contentUrl":"http://x/y.png","name":"y.png"}]`, "See\n[y.png image/png]"},
		"trace": {`"type":"trace","text":"internals"`, ""},
		"end":   {`"type":"endOfConversation"`, "(the bot ended the conversation)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(b *bundle, a *activity.Activity) int {
				b.reply(a, c.members)
				return http.StatusOK
			})
			if err := b.run(""); err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSuffix(b.out.String(), "\n"); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestConnector(t *testing.T) {
	t.Parallel()
	b := setup(t, func(b *bundle, a *activity.Activity) int {
		message := `{"type":"message","text":"new text","conversation":{"id":"` + a.Conversation.ID + `"}}`
		stranger := *a
		stranger.Conversation.ID = "another"
		for _, c := range []struct {
			method, path, body string
			to                 *activity.Activity
			status             int
			answer             string
		}{
			{http.MethodPost, "", message, a, http.StatusOK, `{"id":"`},
			{http.MethodPut, "/console-1", message, a, http.StatusOK, `{"id":"console-1"}`},
			{http.MethodDelete, "/console-1", "", a, http.StatusOK, ""},
			{http.MethodPost, "", message, &stranger, http.StatusNotFound, "not found"},
			{http.MethodPost, "", `{"type":`, a, http.StatusBadRequest, "JSON"},
			{http.MethodPost, "", strings.Repeat(" ", 2<<20), a, http.StatusRequestEntityTooLarge, "too large"},
		} {
			if status, answer := b.call(c.method, c.to, c.path, c.body); status != c.status || !strings.Contains(answer, c.answer) {
				b.Errorf("%s %q: got %d %s", c.method, c.path, status, answer)
			}
		}
		return http.StatusOK
	})
	if err := b.run(""); err != nil {
		t.Fatal(err)
	}
	want := "new text\nnew text (edited)\n(the bot deleted a message)\n"
	if got := b.out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
