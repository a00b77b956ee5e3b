package activity_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/activity"
)

func TestRoundTripIsLossless(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/inbound/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no inbound samples: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			a, err := activity.Decode(data)
			if err != nil {
				t.Fatal(err)
			}
			out, err := a.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(generic(t, data), generic(t, out)); diff != "" {
				t.Errorf("round trip (-in +out):\n%s", diff)
			}
			std, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(generic(t, data), generic(t, std)); diff != "" {
				t.Errorf("round trip through encoding/json (-in +out):\n%s", diff)
			}
		})
	}
}

func generic(t *testing.T, data []byte) any {
	t.Helper()
	var v any
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestDecodeAcceptsAnyJSONWhereTheChannelMay(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`"text"`, `12`, `[1,2]`, `true`, `{"a":{"b":1}}`} {
		a, err := activity.Decode([]byte(`{"type":"invoke","conversation":{"id":"c"},"value":` + value + `,"channelData":` + value + `}`))
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		if string(a.Value) != value || string(a.ChannelData) != value {
			t.Errorf("%s: got value %s, channelData %s", value, a.Value, a.ChannelData)
		}
		if a.TeamID() != "" {
			t.Errorf("%s: a team out of nothing", value)
		}
	}
}

func TestDecodeIsLenientWhereItMayBe(t *testing.T) {
	t.Parallel()
	a, err := activity.Decode([]byte(`{"type":"message","conversation":{"id":"c"},"timestamp":"not a time","localTimestamp":5,
		"text":"lone \ud800 surrogate","entities":[null,{"type":null},{"type":7},{"type":"mention","mentioned":"odd"}],
		"attachments":[null,{"contentType":"text/html","content":"<p>"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if a.Text != "lone \ufffd surrogate" {
		t.Errorf("text %q", a.Text)
	}
	if len(a.Entities) != 3 || len(a.Attachments) != 1 {
		t.Errorf("entities %d, attachments %d", len(a.Entities), len(a.Attachments))
	}
	for text := range a.Mentions() {
		t.Errorf("a mention %q", text)
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<10+1)
	deep := strings.Repeat("[", 64) + strings.Repeat("]", 64)
	for name, body := range map[string]string{
		"empty":             ``,
		"null":              `null`,
		"array":             `[]`,
		"string":            `"message"`,
		"truncated":         `{"type":"message","conversation":{"id":"c"}`,
		"trailing garbage":  `{"type":"message","conversation":{"id":"c"}} x`,
		"byte-order mark":   "\xef\xbb\xbf" + `{"type":"message","conversation":{"id":"c"}}`,
		"invalid UTF-8":     `{"type":"message","conversation":{"id":"` + "\xff" + `"}}`,
		"no type":           `{"conversation":{"id":"c"}}`,
		"type of no string": `{"type":1,"conversation":{"id":"c"}}`,
		"no conversation":   `{"type":"message"}`,
		"only a thread":     `{"type":"message","conversation":{"id":";messageid=1"}}`,
		"conversation null": `{"type":"message","conversation":null}`,
		"from of no object": `{"type":"message","conversation":{"id":"c"},"from":"me"}`,
		"duplicate key":     `{"type":"message","conversation":{"id":"c"},"serviceUrl":"https://a","serviceUrl":"https://b"}`,
		"conversation ..":   `{"type":"message","conversation":{"id":".."}}`,
		"id .":              `{"type":"message","id":".","conversation":{"id":"c"}}`,
		"id ..":             `{"type":"message","id":"..","conversation":{"id":"c"}}`,
		"long conversation": `{"type":"message","conversation":{"id":"` + long + `"}}`,
		"long id":           `{"type":"message","id":"` + long + `","conversation":{"id":"c"}}`,
		"long person":       `{"type":"message","from":{"aadObjectId":"` + long + `"},"conversation":{"id":"c"}}`,
		"long tenant":       `{"type":"message","conversation":{"id":"c","tenantId":"` + long + `"}}`,
		"too many values":   `{"type":"message","conversation":{"id":"c"},"value":[0` + strings.Repeat(",0", 1<<16) + `]}`,
		"too deep":          `{"type":"message","conversation":{"id":"c"},"value":` + deep + `}`,
	} {
		if _, err := activity.Decode([]byte(body)); err == nil || !strings.HasPrefix(err.Error(), "malformed activity: ") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestDecodeQuotesNothing: its errors are logged, and what people write is not.
func TestDecodeQuotesNothing(t *testing.T) {
	t.Parallel()
	const said, head = "theirwords", `{"type":"message","conversation":{"id":"c"},`
	long := said + strings.Repeat("x", 10_000)
	for body, want := range map[string]string{
		head + `"` + long + `":1,"` + long + `":2}`:            "duplicate key near byte 1",
		head + `"value":{"` + long + `":1,"` + long + `":2}}`:  "duplicate key near byte 1",
		head + `"value":{"` + long + `":[1}}`:                  "no JSON near byte 1",
		head + `"value":` + said + `}`:                         "no JSON near byte 53",
		head + `"text":"\u` + said + `"}`:                      "no JSON near byte",
		head + `"from":{"` + said + `":1,"name":["` + said:     "no JSON near byte",
		head + `"from":"` + said + `"}`:                        "a field of the wrong type near byte 51",
		head + `"entities":"` + said + `"}`:                    "a field of the wrong type near byte",
		head + `"attachments":[{"content":{"` + said + `":1,}`: "no JSON near byte",
		head + `"text":"` + said:                               "no JSON",
	} {
		_, err := activity.Decode([]byte(body))
		if err == nil {
			t.Errorf("%.100s: no error", body)
			continue
		}
		got := err.Error()
		if strings.Contains(got, "their") || len(got) > 100 || !strings.Contains(got, want) {
			t.Errorf("%.100s: %.300q, want %q", body, got, want)
		}
	}
}

func TestDecodeDoesNotTakeKeysOfAnotherCase(t *testing.T) {
	t.Parallel()
	a, err := activity.Decode([]byte(`{"type":"message","conversation":{"id":"c"},"serviceUrl":"https://good","ServiceURL":"https://evil","serviceurl":"https://evil"}`))
	if err != nil {
		t.Fatal(err)
	}
	if a.ServiceURL != "https://good" {
		t.Errorf("serviceUrl %q", a.ServiceURL)
	}
}

func TestEncodeWritesNoZeroValues(t *testing.T) {
	t.Parallel()
	in := &activity.Activity{Type: activity.Message, ID: "1", ChannelID: "emulator", ServiceURL: "http://localhost"}
	in.Conversation.ID = "c"
	in.From.ID, in.Recipient.ID = "user", "bot"
	out, err := in.Reply("hello").Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"message","channelId":"emulator","serviceUrl":"http://localhost","from":{"id":"bot"},"recipient":{"id":"user"},"conversation":{"id":"c"},"replyToId":"1","text":"hello"}`
	if string(out) != want {
		t.Errorf("got  %s\nwant %s", out, want)
	}
}

func FuzzDecode(f *testing.F) {
	files, _ := filepath.Glob("testdata/inbound/*.json")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"type":"message","conversation":{"id":"c"},"entities":[null,{"type":"mention"}],"x":{"y":[1e400]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := activity.Decode(data)
		if err != nil {
			return
		}
		_ = a.Said()
		_, _ = a.Tenant()
		out, err := a.Encode()
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := activity.Decode(out)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, out)
		}
		if diff := cmp.Diff(a.Text, again.Text); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	data, err := os.ReadFile("testdata/inbound/group-mention.json")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := activity.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSaid(t *testing.T) {
	t.Parallel()
	const bot = `{"type":"mention","mentioned":{"id":"28:BOT","name":"Planbot"},"text":"<at>Planbot</at>"}`
	const mia = `{"type":"mention","mentioned":{"id":"29:mia","name":"Mia"},"text":"<at>Mia</at>"}`
	const rnd = `{"type":"mention","mentioned":{"id":"28:bot","name":"R&D Bot"}}`
	for name, c := range map[string]struct {
		text, entities, want string
		addressed            bool
	}{
		"plain":                     {"hello", ``, "hello", false},
		"bot first":                 {"<at>Planbot</at> add milk", bot, "add milk", true},
		"bot in the middle":         {"hey <at>Planbot</at> add milk", bot, "hey add milk", true},
		"bot twice":                 {"<at>Planbot</at> <at>Planbot</at> hi", bot, "hi", true},
		"mention type case":         {"<at>Planbot</at> hi", strings.Replace(bot, `"mention",`, `"Mention",`, 1), "hi", true},
		"empty entity text":         {"<at>Planbot</at> hi", strings.Replace(bot, `"<at>Planbot</at>"`, `""`, 1), "hi", true},
		"only the mention":          {"<at>Planbot</at>&nbsp;", bot, "", true},
		"another person":            {"ask <at>Mia</at> for milk", mia, "ask Mia for milk", false},
		"both":                      {"<at>Planbot</at> remind <at>Mia</at>", bot + "," + mia, "remind Mia", true},
		"forged":                    {"<at>Planbot</at> hi", ``, "<at>Planbot</at> hi", false},
		"escapes":                   {"add&nbsp;salt &amp; pepper &lt;3", ``, "add salt & pepper <3", false},
		"name with &":               {"<at>R&amp;D Bot</at> /reset", rnd, "/reset", true},
		"name with & as it is":      {"<at>R&D Bot</at> /reset", rnd, "/reset", true},
		"only the text escaped":     {"<at>R&amp;D Bot</at> hi", strings.Replace(rnd, `}}`, `},"text":"<at>R&D Bot</at>"}`, 1), "hi", true},
		"only the entity escaped":   {"<at>R&D Bot</at> hi", strings.Replace(rnd, `}}`, `},"text":"<at>R&amp;D Bot</at>"}`, 1), "hi", true},
		"only an escaped mention":   {"<at>R&amp;D Bot</at>&nbsp;", rnd, "", true},
		"attributes":                {`<at id="0">Planbot</at> hi`, bot, "hi", true},
		"other case":                {"<AT>PLANBOT</AT> hi", bot, "hi", true},
		"name null":                 {"<at>Planbot</at> hi", `{"type":"mention","mentioned":{"id":"28:bot","name":null}}`, "hi", true},
		"another name":              {"<at>Planner</at> hi", bot, "hi", true},
		"zero width":                {"<at>Planbot</at>\u200b /reset", bot, "/reset", true},
		"zero width in the name":    {"<at>Plan\u200bbot</at>\ufeff/reset\u200b", bot, "/reset", true},
		"odd spaces":                {"<at>Planbot</at>\u2003\u3000/reset", bot, "/reset", true},
		"a family at the end":       {"<at>Planbot</at> 👨\u200d👩\u200d👧", bot, "👨\u200d👩\u200d👧", true},
		"no text, dollars":          {"<at>Planbot</at> ask <at>Test ($~&)</at> for milk", bot + `,{"type":"mention","mentioned":{"id":"29:t","name":"Test ($~&)"}}`, "ask Test ($~&) for milk", true},
		"another without a name":    {"<at>Planbot</at> ask <at>Mia &amp; Co</at>", bot + `,{"type":"mention","mentioned":{"id":"29:t"}}`, "ask Mia & Co", true},
		"others in another order":   {"<at>Mia</at> and <at>Otto</at>", `{"type":"mention","mentioned":{"id":"29:o","name":"Otto"}},` + mia, "Mia and Otto", false},
		"a tag without an entity":   {"<at>Planbot</at> ask <at>Mia</at>", bot, "ask <at>Mia</at>", true},
		"a tag before the entity's": {"<at>Mia</at> <at>Planbot</at> hi", bot, "<at>Mia</at> hi", true},
		"two of one name":           {"<at>Mia</at> <at>Mia</at> <at>Mia</at>", mia + "," + mia, "Mia Mia <at>Mia</at>", false},
		"two halves":                {"<at>Plan</at> <at>bot</at> hi", strings.Replace(bot, "<at>Planbot", "<at>Plan", 1) + "," + strings.Replace(bot, "<at>Planbot", "<at>bot", 1), "hi", true},
		"typed":                     {"<at>Planbot</at> what is &lt;at&gt;Planbot&lt;/at&gt;?", bot, "what is <at>Planbot</at>?", true},
		"line breaks":               {" one\r\ntwo ", ``, "one\ntwo", false},
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

func TestTheWireDoesNotSayWhoCalls(t *testing.T) {
	t.Parallel()
	for _, said := range []string{`"urn:botframework:aadappid:x"`, `"urn:botframework:azure"`, `""`, `null`} {
		a, err := activity.Decode([]byte(`{"type":"message","conversation":{"id":"c"},"callerId":` + said + `,"CallerId":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		if a.CallerID != "" || a.CallerApp() != "" || strings.Contains(string(a.Extra), `"callerId"`) {
			t.Errorf("%s: %q, %q, %s", said, a.CallerID, a.CallerApp(), a.Extra)
		}
	}
	if _, err := activity.Decode([]byte(`{"type":"message","conversation":{"id":"c"},"callerId":1}`)); err == nil {
		t.Error("a number is a callerId")
	}
}

func TestCallerApp(t *testing.T) {
	t.Parallel()
	for callerID, want := range map[string]string{
		"": "", "urn:botframework:azure": "", "urn:botframework:azureusgov": "", "app": "", activity.CallerOf("app"): "app",
	} {
		if got := (&activity.Activity{CallerID: callerID}).CallerApp(); got != want {
			t.Errorf("%q: %q, want %q", callerID, got, want)
		}
	}
}

func TestZone(t *testing.T) {
	t.Parallel()
	const clientInfo = `"entities":[{"type":"mention"},7,{"type":"clientInfo","locale":"en-GB","timezone":"Europe/Oslo"}]`
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct{ fields, want string }{
		"nothing":               {``, "12:00 +00:00"},
		"its name":              {`"localTimezone":"Asia/Kolkata"`, "17:30 +05:30"},
		"of the client":         {clientInfo, "14:00 +02:00"},
		"its name first":        {`"localTimezone":"Asia/Kolkata",` + clientInfo, "17:30 +05:30"},
		"a name that is none":   {`"localTimezone":"Middle/Earth",` + clientInfo, "14:00 +02:00"},
		"the offset":            {`"localTimestamp":"2026-07-01T05:00:00.1234567-07:00"`, "05:00 -07:00"},
		"no offset":             {`"localTimestamp":"2026-07-01T05:00:00"`, "12:00 +00:00"},
		"a wrong type":          {`"localTimezone":7,"localTimestamp":{}`, "12:00 +00:00"},
		"that of the machine":   {`"localTimezone":"Local"`, "12:00 +00:00"},
		"a way out":             {`"localTimezone":"../../etc/passwd"`, "12:00 +00:00"},
		"a file":                {`"localTimezone":"/etc/passwd"`, "12:00 +00:00"},
		"a name without an end": {`"localTimezone":"` + strings.Repeat("a/", 1000) + `"`, "12:00 +00:00"},
	} {
		raw := `{"type":"message","conversation":{"id":"c"}`
		if test.fields != "" {
			raw += "," + test.fields
		}
		a, err := activity.Decode([]byte(raw + "}"))
		if err != nil {
			t.Fatal(name, err)
		}
		if got := noon.In(a.Zone()).Format("15:04 -07:00"); got != test.want {
			t.Errorf("%s: noon is at %s, want %s", name, got, test.want)
		}
	}
}

// TestWhereItCameFrom: what tells the channels apart.
func TestWhereItCameFrom(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]struct {
		product, said      string
		targeted, personal bool
		quotes             int
	}{
		"copilot-message":     {product: "COPILOT", said: "What is on my lists?", personal: true},
		"targeted-quote":      {said: "put that on my list", targeted: true, quotes: 1},
		"webchat-message":     {said: "Was steht auf meinen Listen?", personal: true},
		"directline-postback": {personal: true},
	} {
		raw, err := os.ReadFile("testdata/inbound/" + file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		a, err := activity.Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		if a.Product() != want.product || a.Said() != want.said || a.Targeted() != want.targeted || a.Conversation.Personal() != want.personal || len(a.Quotes()) != want.quotes {
			t.Errorf("%s: product %q, said %q, targeted %v, personal %v, quotes %v", file, a.Product(), a.Said(), a.Targeted(), a.Conversation.Personal(), a.Quotes())
		}
	}
}

// TestAgentsChannel: the Agents SDK names the product in the channel.
func TestAgentsChannel(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][2]string{
		`"msteams:COPILOT"`: {"msteams", "COPILOT"},
		`"msteams:COPILOT","entities":[{"type":"productInfo","id":"COPILOT"}]`: {"msteams", "COPILOT"},
		`"msteams:","entities":[{"type":"ProductInfo","id":7}]`:                {"msteams", ""},
		`"email:COPILOT"`: {"email:COPILOT", ""},
	} {
		a, err := activity.Decode([]byte(`{"type":"message","conversation":{"id":"c"},"channelId":` + in + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if a.ChannelID != want[0] || a.Product() != want[1] || len(a.Entities) > 1 {
			t.Errorf("%s: channel %q, product %q, entities %s", in, a.ChannelID, a.Product(), a.Entities)
		}
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	m := activity.Activity{Type: activity.Message}
	if m.Targeted() {
		t.Error("it is for one person")
	}
	m.Target("29:mia")
	raw, err := m.Encode()
	if err != nil || !m.Targeted() || string(raw) != `{"type":"message","recipient":{"id":"29:mia","isTargeted":true}}` {
		t.Errorf("%v %s", err, raw)
	}
	for _, flag := range []string{"false", `"true"`, "null"} {
		a, err := activity.Decode([]byte(`{"type":"message","conversation":{"id":"c"},"recipient":{"id":"28:bot","isTargeted":` + flag + `}}`))
		if err != nil || a.Targeted() {
			t.Errorf("%s: %v", flag, err)
		}
	}
}
