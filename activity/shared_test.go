package activity_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/activity"
)

// TestShared: what a person put into a message is known by the texts that people see of it, in their order.
func TestShared(t *testing.T) {
	t.Parallel()
	const kinds = "application/vnd.microsoft."
	for name, c := range map[string]struct {
		kind, content, want string
	}{
		"an Adaptive Card": {
			kinds + "card.adaptive", `{"type":"AdaptiveCard","fallbackText":"f","body":[{"type":"TextBlock","text":"Ticket 4711: VPN is down"},
			{"type":"FactSet","facts":[{"title":"Owner","value":"Ann"}]},
			{"type":"ColumnSet","columns":[{"type":"Column","items":[{"type":"RichTextBlock","inlines":["due ",{"type":"TextRun","text":"on 3 May"}]}]}]},
			{"type":"Input.Text","id":"a","label":"Reply","value":"secret"},{"type":"Image","url":"https://x","altText":"A plug"}],
			"actions":[{"type":"Action.Execute","title":"Close it","verb":"close","data":{"text":"hidden"}}],"refresh":{"action":{"title":"no"}}}`,
			"card: Ticket 4711: VPN is down\nOwner\nAnn\ndue\non 3 May\nReply\nA plug\nClose it",
		},
		"one as a string":  {kinds + "card.adaptive", `"{\"type\":\"AdaptiveCard\",\"body\":[{\"text\":\"VPN\"}]}"`, "card: VPN"},
		"a fallback":       {kinds + "card.adaptive", `{"type":"AdaptiveCard","fallbackText":"VPN"}`, "card: VPN"},
		"a hero card":      {kinds + "card.hero", `{"title":"VPN","subtitle":"down","text":"since 9","buttons":[{"type":"openUrl","title":"Open","value":"https://x"}]}`, "card: VPN\ndown\nsince 9\nOpen"},
		"a thumbnail card": {kinds + "card.thumbnail", `"{\"title\":\"VPN\"}"`, "card: VPN"},
		"a connector card": {kinds + "teams.card.o365connector", `{"summary":"Build","sections":[{"activityTitle":"failed","facts":[{"name":"Branch","value":"main"}]}]}`, "card: Build\nfailed\nBranch\nmain"},
		"a list card":      {kinds + "teams.card.list", `{"title":"Files","items":[{"type":"file","title":"Report","subtitle":"new"}]}`, "card: Files\nReport\nnew"},
		"a snippet":        {kinds + "card.codesnippet", `"{\"name\":\"x.py\",\"language\":\"python\",\"lines\":\"print(1)\"}"`, "snippet: x.py\npython\nprint(1)"},
		"a Loop component": {kinds + "card.fluidEmbedCard", `"{\"componentUrl\":\"https://contoso.example/loop\",\"sourceType\":\"Compose\"}"`, "Loop component: https://contoso.example/loop"},
		"a meeting":        {"meetingReference", `{"subject":"Planning","startDateTime":"2026-05-03T09:00:00Z","exchangeId":"AAA"}`, "meeting: Planning\n2026-05-03T09:00:00Z"},
		"an announcement":  {kinds + "card.announcement", `"{\"title\":\"Hello all\",\"cardImageType\":\"x\"}"`, "announcement: Hello all"},
		"other case":       {"Application/VND.microsoft.card.Adaptive", `{"body":[{"Text":"VPN"}]}`, "card: VPN"},
		"HTML in it":       {kinds + "card.hero", `"<p>VPN &amp; more</p>"`, "card: VPN & more"},
		"nothing":          {kinds + "card.adaptive", `null`, ""},
		"another shape":    {kinds + "card.adaptive", `[1,[2,{"text":{"text":["VPN"]}}]]`, "card: VPN"},
		"a file":           {kinds + "teams.file.download.info", `{"downloadUrl":"https://x"}`, ""},
		"a file's card":    {kinds + "teams.card.file.info", `{"fileType":"txt"}`, ""},
		"a picture":        {"image/png", `{"title":"x"}`, ""},
		"a message":        {"messageReference", `{"text":"x"}`, ""},
	} {
		a := withHTML(t, "x", "<p>x</p>", `{"contentType":"`+c.kind+`","content":`+c.content+`},`)
		got := ""
		for _, s := range a.Shared() {
			got += s.Kind + ": " + s.Text
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		if shows := c.want != ""; a.Strangers() != shows && name != "a message" {
			t.Errorf("%s: strangers %v", name, a.Strangers())
		}
	}
}

// TestHostileShared: what is shown is limited, whatever is in it.
func TestHostileShared(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		strings.Repeat(`[`, 60) + `{"text":"a"}` + strings.Repeat(`]`, 60),
		`{"body":[` + strings.Repeat(`{"text":"`+strings.Repeat("x", 50)+`"},`, 3000) + `{}]}`,
		`{"text":"` + strings.Repeat("é", 30_000) + `"}`,
		`{"body":[` + strings.Repeat(`{"t":[{}]},`, 10_000) + `{"text":"end"}]}`,
	} {
		a := withHTML(t, "x", "<p>x</p>", strings.Repeat(`{"contentType":"application/vnd.microsoft.card.adaptive","content":`+content+`},`, 3))
		shared := a.Shared()
		if len(shared) != 3 {
			t.Errorf("%d cards", len(shared))
		}
		for _, s := range shared {
			if len([]rune(s.Text)) > 2000 {
				t.Errorf("%d characters", len([]rune(s.Text)))
			}
		}
	}
	var none activity.Activity
	if none.Shared() != nil {
		t.Error("nothing is something")
	}
}
