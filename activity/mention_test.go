package activity_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
)

func TestSaid(t *testing.T) {
	t.Parallel()
	const bot = `{"type":"mention","mentioned":{"id":"28:BOT","name":"Planbot"},"text":"<at>Planbot</at>"}`
	const mia = `{"type":"mention","mentioned":{"id":"29:mia","name":"Mia"},"text":"<at>Mia</at>"}`
	for name, c := range map[string]struct {
		text, entities, want string
		addressed            bool
	}{
		"plain":             {"hello", ``, "hello", false},
		"bot first":         {"<at>Planbot</at> add milk", bot, "add milk", true},
		"bot in the middle": {"hey <at>Planbot</at> add milk", bot, "hey add milk", true},
		"bot twice":         {"<at>Planbot</at> <at>Planbot</at> hi", bot, "hi", true},
		"mention type case": {"<at>Planbot</at> hi", strings.Replace(bot, `"mention",`, `"Mention",`, 1), "hi", true},
		"empty entity text": {"<at>Planbot</at> hi", strings.Replace(bot, `"<at>Planbot</at>"`, `""`, 1), "hi", true},
		"only the mention":  {"<at>Planbot</at>&nbsp;", bot, "", true},
		"another person":    {"ask <at>Mia</at> for milk", mia, "ask Mia for milk", false},
		"both":              {"<at>Planbot</at> remind <at>Mia</at>", bot + "," + mia, "remind Mia", true},
		"forged":            {"<at>Planbot</at> hi", ``, "<at>Planbot</at> hi", false},
		"escapes":           {"add&nbsp;salt &amp; pepper &lt;3", ``, "add salt & pepper <3", false},
		"line breaks":       {" one\r\ntwo ", ``, "one\ntwo", false},
	} {
		var a activity.Activity
		in := `{"type":"message","channelId":"msteams","text":` + quote(t, c.text) + `,"recipient":{"id":"28:bot"},"entities":[` + c.entities + `]}`
		if err := json.Unmarshal([]byte(in), &a); err != nil {
			t.Fatal(err)
		}
		if got := a.Said(); got != c.want {
			t.Errorf("%s: said %q, want %q", name, got, c.want)
		}
		if got := a.Addressed(); got != c.addressed {
			t.Errorf("%s: addressed %v", name, got)
		}
	}
}

// TestMentionsCannotBlowUpTheText has each mention double what the one before it
// left, and a text that is nothing but mentions of the bot.
func TestMentionsCannotBlowUpTheText(t *testing.T) {
	t.Parallel()
	var a activity.Activity
	a.Text = "a"
	for range 200 {
		a.Entities = append(a.Entities, jsontext.Value(`{"type":"mention","mentioned":{"id":"x","name":"aa"},"text":"a"}`))
	}
	if got := a.Said(); len(got) > 1000 {
		t.Errorf("%d bytes out of one", len(got))
	}
	a.Text, a.Recipient.ID = strings.Repeat("<at>P</at>x", 60_000), "bot"
	a.Entities = []jsontext.Value{jsontext.Value(`{"type":"mention","mentioned":{"id":"bot","name":"P"},"text":"<at>P</at>"}`)}
	if got := a.Said(); got != strings.Repeat("x", 60_000) {
		t.Errorf("%d bytes left", len(got))
	}
}

func quote(t *testing.T, s string) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestTenant(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data, conversation, want string
		ok                       bool
	}{
		"none":              {`{}`, "", "", true},
		"in both":           {`{"tenant":{"id":"T1"}}`, "t1", "t1", true},
		"only in data":      {`{"tenant":{"id":"t1"}}`, "", "t1", true},
		"only conversation": {`"odd"`, "t1", "t1", true},
		"different":         {`{"tenant":{"id":"t1"}}`, "t2", "", false},
	} {
		a := activity.Activity{ChannelData: []byte(c.data)}
		a.Conversation.TenantID = c.conversation
		if got, ok := a.Tenant(); got != c.want || ok != c.ok {
			t.Errorf("%s: got %q, %v", name, got, ok)
		}
		if got := a.Reference().Conversation.TenantID; c.ok && !strings.EqualFold(got, c.want) {
			t.Errorf("%s: the reference has %q", name, got)
		}
	}
}

func TestConversationKinds(t *testing.T) {
	t.Parallel()
	thread := activity.Activity{}
	thread.Conversation.ID = "19:abc@thread.tacv2;messageid=17"
	thread.Conversation.ConversationType = "channel"
	if thread.Conversation.BaseID() != "19:abc@thread.tacv2" || thread.Conversation.Personal() {
		t.Errorf("thread: base %q, personal %v", thread.Conversation.BaseID(), thread.Conversation.Personal())
	}
	var bare activity.Conversation
	if !bare.Personal() {
		t.Error("a conversation that says nothing is personal")
	}
	bare.IsGroup = true
	if bare.Personal() {
		t.Error("isGroup without a type is no personal conversation")
	}
}

func TestThreadID(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ channel, message, want string }{
		{"19:abc@thread.tacv2", "1712345678901", "19:abc@thread.tacv2;messageid=1712345678901"},
		{"19:abc@thread.tacv2;messageid=1", "2", "19:abc@thread.tacv2;messageid=2"},
		{"19:abc@thread.tacv2", "", ""},
		{"19:abc@thread.tacv2", "0", ""},
		{"19:abc@thread.tacv2", "000", ""},
		{"19:abc@thread.tacv2", "1a", ""},
		{"19:abc@thread.tacv2", "1;messageid=2", ""},
		{"19:abc@thread.tacv2", "-1", ""},
		{"", "1", ""},
		{";messageid=1", "1", ""},
	} {
		if got, err := activity.ThreadID(tt.channel, tt.message); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("thread %q of %q: %q, %v", tt.message, tt.channel, got, err)
		}
	}
}
