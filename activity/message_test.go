package activity_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/activity"
)

// fitted is what goes out of an activity, as JSON.
func fitted(t *testing.T, a *activity.Activity) string {
	t.Helper()
	out, err := a.Fit().Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

const root = `{"type":"https://schema.org/Message","@type":"Message","@context":"https://schema.org","@id":"","additionalType":["AIGeneratedContent"]`

func TestFit(t *testing.T) {
	t.Parallel()
	const (
		label    = root + `}`
		mia      = `{"type":"mention","mentioned":{"id":"29:mia","name":"Mia"},"text":"<at>Mia</at>"}`
		one      = `{"@type":"Claim","position":1,"appearance":{"@type":"DigitalDocument","name":"One","abstract":"A"}}`
		two      = `{"@type":"Claim","position":2,"appearance":{"@type":"DigitalDocument","name":"Two","abstract":"B"}}`
		buttons  = `{"actions":[{"type":"imBack","title":"a","value":"a"}]}`
		submit   = `{"type":"Action.Submit","title":"Yes","value":{"choice":"yes"}}`
		compose  = `{"type":"Action.Compose","title":"Ask","value":{"type":"Teams.chatMessage","data":{"body":{"additionalData":{},"content":"Hi"}}}}`
		quote    = `{"type":"quotedReply","quotedReply":{"messageId":"7"}}`
		group    = `"conversation":{"id":"c","conversationType":"groupChat"}`
		personal = `"conversation":{"id":"c","conversationType":"personal"}`
	)
	labelled := func(n int, usage string) string {
		if usage != "" {
			usage = `,"usageInfo":` + usage
		}
		return `{"@type":"Claim","position":` + strconv.Itoa(n) + `,"appearance":{"name":"N","abstract":"A"` + usage + `}}`
	}
	teams := func(fields string) string { return `{"type":"message","channelId":"msteams",` + fields + `}` }
	webchat := func(fields string) string { return `{"type":"message","channelId":"webchat",` + fields + `}` }
	for name, c := range map[string]struct{ in, want string }{
		"nothing to mend": {
			teams(`"text":"Hi <at>Mia</at> [1]","textFormat":"markdown","entities":[` + mia + `,` + root + `,"citation":[` + one + `]}]`),
			"",
		},
		"two root entities": {
			teams(`"text":"[1]","entities":[` + label + `,{"type":"x"},` + root + `,"citation":[` + one + `]}]`),
			teams(`"text":"[1]","entities":[{"type":"x"},` + root + `,"citation":[` + one + `]}]`),
		},
		"a sensitivity in the second": {
			teams(`"text":"a","entities":[` + label + `,{"type":"https://schema.org/Message","@id":"","usageInfo":{"@type":"CreativeWork","@id":"s","name":"Secret"}}]`),
			teams(`"text":"a","entities":[` + root + `,"usageInfo":{"@type":"CreativeWork","@id":"s","name":"Secret"}}]`),
		},
		"a root entity of another shape": {
			teams(`"text":"a","entities":[{"type":"https://schema.org/Message","citation":7},` + label + `]`),
			teams(`"text":"a","entities":[` + label + `]`),
		},
		"a root entity that says nothing": {
			teams(`"text":"a","entities":[{"type":"https://schema.org/Message","@id":"","additionalType":[]}]`),
			teams(`"text":"a"`),
		},
		"citations that the text does not name": {
			teams(`"text":"see [2]","entities":[` + root + `,"citation":[` + one + `,` + two + `,` + two + `]}]`),
			teams(`"text":"see [2]","entities":[` + root + `,"citation":[` + two + `]}]`),
		},

		"a mention at the end":     {teams(`"text":"Hi @Bobby and @Bob","entities":[{"type":"mention","mentioned":{"id":"29:bob"},"text":"@Bob"}]`), ""},
		"a mention before Chinese": {teams(`"text":"@王小明请看","entities":[{"type":"mention","mentioned":{"id":"29:wang"},"text":"@王小明"}]`), ""},
		"Latin before Chinese":     {teams(`"text":"@Bob请看","entities":[{"type":"mention","mentioned":{"id":"29:bob"},"text":"@Bob"}]`), ""},
		"a mention before Thai":    {teams(`"text":"@สมชายดู","entities":[{"type":"mention","mentioned":{"id":"29:som"},"text":"@สมชาย"}]`), ""},
		"a mention in Korean":      {teams(`"text":"@민수는","entities":[{"type":"mention","mentioned":{"id":"29:min"},"text":"@민수"}]`), ""},
		"a mention with no name":   {webchat(`"text":"Hi <at>B&amp;B</at> please","entities":[{"type":"mention","mentioned":{"id":"29:1"},"text":"<at>B&amp;B</at>"}]`), webchat(`"text":"Hi B&B please"`)},
		"a mention with a number":  {webchat(`"text":"Hi <at id=1>Bob</at>, <at id=\"2\">Mia</at>","entities":[{"type":"mention","mentioned":{"id":"29:1"},"text":"<at id=1>Bob</at>"},{"type":"mention","mentioned":{"id":"29:2","name":"Mia M."},"text":"<at id=\"2\">Mia</at>"}]`), webchat(`"text":"Hi Bob, Mia M."`)},
		"a mention that is no tag": {webchat(`"text":"Hi <attic>","entities":[{"type":"mention","mentioned":{"id":"29:1"},"text":"<attic>"}]`), ""},
		"parts of attachments":     {teams(`"attachments":[{"thumbnailUrl":"https://x/1"},{"contentType":"x","more":1},{"contentType":"x"}]`), teams(`"attachments":[{"thumbnailUrl":"https://x/1"},{"contentType":"x","more":1}]`)},
		"a citation twice, one unnamed": {
			teams(`"text":"see [2]","entities":[` + root + `,"citation":[` + one + `,` + two + `,` + two + `]}]`),
			teams(`"text":"see [2]","entities":[` + root + `,"citation":[` + two + `]}]`),
		},
		"an empty citation": {
			teams(`"text":"[1] [2]","entities":[` + root + `,"citation":[{"@type":"Claim","position":1,"appearance":{}},` + two + `]}]`),
			teams(`"text":"[1] [2]","entities":[` + root + `,"citation":[` + two + `]}]`),
		},
		"a mention without its text":  {teams(`"text":"Hi","entities":[` + mia + `]`), teams(`"text":"Hi"`)},
		"a mention of nobody":         {teams(`"text":"Hi","entities":[{"type":"mention","text":"Hi"}]`), teams(`"text":"Hi"`)},
		"a mention of another shape":  {teams(`"text":"Hi","entities":[{"type":"Mention","mentioned":7,"text":"Hi"}]`), teams(`"text":"Hi"`)},
		"one in the text, two meant":  {teams(`"text":"<at>Mia</at>","entities":[` + mia + `,{"type":"mention","mentioned":{"id":"29:other"},"text":"<at>Mia</at>"}]`), teams(`"text":"<at>Mia</at>","entities":[` + mia + `]`)},
		"two in the text":             {teams(`"text":"<at>Mia</at><at>Mia</at>","entities":[` + mia + `,{"type":"mention","mentioned":{"id":"29:other"},"text":"<at>Mia</at>"}]`), ""},
		"a mention beyond the text":   {teams(`"text":"<at>Mia</at>a","entities":[` + mia + `,{"type":"mention","mentioned":{"id":"29:m"},"text":"<at>M</at>"}]`), teams(`"text":"<at>Mia</at>a","entities":[` + mia + `]`)},
		"mentions elsewhere":          {webchat(`"text":"Hi <at>Mia</at>, <at>Mia</at>","entities":[` + mia + `,` + mia + `]`), webchat(`"text":"Hi Mia, Mia"`)},
		"mentions of another channel": {webchat(`"text":"Hi @mia","entities":[{"type":"mention","mentioned":{"id":"m","name":"Mia"},"text":"@mia"}]`), ""},
		"a label elsewhere":           {webchat(`"text":"a","entities":[` + label + `]`), webchat(`"text":"a"`)},
		"suggestions":                 {teams(personal + `,"text":"a","suggestedActions":` + buttons), ""},
		"in a group":                  {teams(group + `,"text":"a","suggestedActions":` + buttons), ""},
		"for one of a group":          {teams(group + `,"text":"a","suggestedActions":{"to":["29:mia"],"actions":[{"type":"imBack","title":"a","value":"a"}]}`), teams(group + `,"text":"a","suggestedActions":` + buttons)},
		"all that Teams has":          {teams(group + `,"text":"a","suggestedActions":{"actions":[null,{"type":"postBack","title":"p","value":1},` + submit + `,` + compose + `]}`), teams(group + `,"text":"a","suggestedActions":{"actions":[` + submit + `,` + compose + `]}`)},
		"what only Teams has":         {webchat(`"text":"a","suggestedActions":{"actions":[` + submit + `,` + compose + `]}`), webchat(`"text":"a","suggestedActions":{"actions":[{"type":"imBack","title":"Yes","value":"Yes"}]}`)},
		"a label of a source alone": {
			teams(`"text":"[1]","entities":[` + root + `,"citation":[` + labelled(1, `{"@id":"s","name":"S"}`) + `]}]`),
			teams(`"text":"[1]","entities":[` + root + `,"usageInfo":{"@id":"s","@type":"CreativeWork","name":"S"},"citation":[` + labelled(1, `{"@id":"s","@type":"CreativeWork","name":"S"}`) + `]}]`),
		},
		"a label of a source that is not shown": {
			teams(`"text":"[1]","entities":[` + root + `,"citation":[` + labelled(1, "") + `,` + labelled(2, `{"@id":"s","name":"S"}`) + `]}]`),
			teams(`"text":"[1]","entities":[` + root + `,"citation":[` + labelled(1, "") + `]}]`),
		},
		"a label of a source without anything": {
			teams(`"text":"[1]","entities":[` + root + `,"citation":[` + labelled(1, `{"@id":"","description":"x"}`) + `]}]`),
			teams(`"text":"[1]","entities":[` + root + `,"citation":[` + labelled(1, "") + `]}]`),
		},
		"a Purview label":          {teams(`"text":"a","entities":[` + root + `,"usageInfo":{"@type":"CreativeWork","@id":"9f2c1a3e-0000-4000-8000-00000000c0de"}}]`), ""},
		"a label without anything": {teams(`"text":"a","entities":[` + root + `,"usageInfo":{"@id":"","description":"x"}}]`), teams(`"text":"a","entities":[` + label + `]`)},
		"labels of sources": {
			teams(`"text":"[1][2]","entities":[` + root + `,"usageInfo":{"@id":"s","@type":"CreativeWork"},"citation":[` + labelled(1, `{"@id":"other"}`) + `,` + labelled(2, `{"@id":"s","name":"S"}`) + `]}]`),
			teams(`"text":"[1][2]","entities":[` + root + `,"usageInfo":{"@id":"s","@type":"CreativeWork"},"citation":[` + labelled(1, "") + `,` + labelled(2, `{"@id":"s","@type":"CreativeWork"}`) + `]}]`),
		},
		"a source in plain http":       {teams(`"text":"[1]","entities":[` + root + `,"citation":[{"@type":"Claim","position":1,"appearance":{"name":"One","abstract":"A","url":"http://x"}}]}]`), teams(`"text":"[1]","entities":[` + root + `,"citation":[{"@type":"Claim","position":1,"appearance":{"name":"One","abstract":"A"}}]}]`)},
		"a source with a high number":  {teams(`"text":"[31]","entities":[` + root + `,"citation":[{"@type":"Claim","position":31,"appearance":{"name":"One","abstract":"A"}}]}]`), ""},
		"a quotation":                  {teams(`"text":"<quoted messageId=\"7\"/> so","entities":[` + quote + `]`), ""},
		"a quotation for one person":   {teams(`"recipient":{"id":"29:mia","isTargeted":true},"text":"<quoted messageId=\"7\"/> so","entities":[` + quote + `]`), teams(`"recipient":{"id":"29:mia","isTargeted":true},"text":"so"`)},
		"a quotation elsewhere":        {webchat(`"text":"<quoted messageId=\"7\"/> so","entities":[` + quote + `,{"type":"targetedMessageInfo","messageId":"1"}]`), webchat(`"text":"so"`)},
		"a format of Teams elsewhere":  {webchat(`"text":"| a |","textFormat":"extendedmarkdown"`), webchat(`"text":"| a |","textFormat":"markdown"`)},
		"a format that somebody chose": {teams(`"text":"| a |","textFormat":"extendedmarkdown"`), ""},
		"beside a card":                {teams(personal + `,"text":"a","attachments":[{"contentType":"x","content":{}}],"suggestedActions":` + buttons), teams(personal + `,"text":"a","attachments":[{"contentType":"x","content":{}}]`)},
		"without a text":               {teams(personal + `,"suggestedActions":` + buttons), teams(personal)},
		"none":                         {webchat(`"text":"a","suggestedActions":{"actions":[null]}`), webchat(`"text":"a"`)},
		"of any kind elsewhere":        {webchat(`"text":"a","suggestedActions":{"actions":[{"type":"postBack","title":"a","value":1}]}`), ""},
		"feedback":                     {teams(`"text":"a","channelData":{"feedbackLoop":{"type":"default"},"x":1}`), ""},
		"feedback in its old form":     {teams(`"text":"a","channelData":{"feedbackLoopEnabled":true}`), ""},
		"feedback elsewhere":           {webchat(`"text":"a","channelData":{"feedbackLoop":{"type":"default"},"notification":{"alert":true},"x":1}`), webchat(`"text":"a","channelData":{"x":1}`)},
		"channelData that is a string": {webchat(`"text":"a","channelData":"x"`), ""},
		"empty parts":                  {teams(`"textFormat":"markdown","entities":[null],"attachments":[null,{"contentType":"application/vnd.microsoft.card.adaptive","content":null}],"channelData":{}`), `{"type":"message","channelId":"msteams"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := read(t, c.in)
			if c.want == "" {
				c.want = c.in
			}
			got := fitted(t, a)
			if diff := cmp.Diff(generic(t, []byte(c.want)), generic(t, []byte(got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(generic(t, []byte(got)), generic(t, []byte(fitted(t, read(t, got))))); diff != "" {
				t.Errorf("the second time it is another (-first +second):\n%s", diff)
			}
		})
	}
}

// read is an outbound activity, which need not have what Decode wants.
func read(t *testing.T, in string) *activity.Activity {
	t.Helper()
	in = strings.Replace(in, `{"type":"message",`, `{"type":"message","conversation":{"id":"c"},`, 1)
	if strings.Count(in, `"conversation":`) > 1 {
		in = strings.Replace(in, `"conversation":{"id":"c"},`, ``, 1)
	}
	a, err := activity.Decode([]byte(in))
	if err != nil {
		t.Fatal(err, in)
	}
	if !strings.Contains(in, `"conversationType"`) {
		a.Conversation = activity.Conversation{}
	}
	return a
}

func account(id, name string) (a activity.Account) {
	a.ID, a.Name = id, name
	return a
}

func TestBuilders(t *testing.T) {
	t.Parallel()
	m := activity.Activity{Type: activity.Message, ChannelID: activity.Teams}
	m.Text = "Ask " + m.At(account("29:mia", "<Mia> & co")) + " or " + m.At(account("", "Otto")) + ": [1] [3]"
	m.LabelAI()
	m.Cite(
		activity.Citation{Title: strings.Repeat("t", 79) + "😀", Abstract: strings.Repeat("a", 161), URL: "https://x/1"},
		activity.Citation{Title: "not named"},
	)
	m.LabelAI()
	m.Cite(activity.Citation{Title: "Three", URL: "javascript:alert(1)"})
	m.LabelSensitivity("Confidential", "For us only")
	m.AskFeedback("default")
	m.ChannelData = append(m.ChannelData[:len(m.ChannelData)-1], `,"notification":{"alert":true}}`...)
	want := `{"type":"message","channelId":"msteams","text":"Ask <at>&lt;Mia&gt; &amp; co</at> or Otto: [1] [3]","entities":[
		{"type":"mention","mentioned":{"id":"29:mia","name":"<Mia> & co"},"text":"<at>&lt;Mia&gt; &amp; co</at>"},
		` + root + `,"usageInfo":{"@type":"CreativeWork","@id":"sensitivity","name":"Confidential","description":"For us only"},"citation":[
			{"@type":"Claim","position":1,"appearance":{"@type":"DigitalDocument","name":"` + strings.Repeat("t", 79) + `…","abstract":"` + strings.Repeat("a", 159) + `…","url":"https://x/1"}},
			{"@type":"Claim","position":3,"appearance":{"@type":"DigitalDocument","name":"Three","abstract":"Three"}}]}],
		"channelData":{"feedbackLoop":{"type":"default"},"notification":{"alert":true}}}`
	if diff := cmp.Diff(generic(t, []byte(want)), generic(t, []byte(fitted(t, &m)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.ChannelID = "webchat"
	want = `{"type":"message","channelId":"webchat","text":"Ask <Mia> & co or Otto: [1] [3]"}`
	if got := fitted(t, &m); got != want {
		t.Errorf("elsewhere %s", got)
	}
}

func TestManyCitationsAndSuggestions(t *testing.T) {
	t.Parallel()
	m := activity.Activity{Type: activity.Message}
	for i := range 25 {
		m.Text += "[" + strconv.Itoa(i+1) + "]"
		m.Cite(activity.Citation{Title: "T" + strconv.Itoa(i+1)})
	}
	m.Suggest("a", "b", " ", "c", "d")
	got := fitted(t, &m)
	if n := strings.Count(got, `"Claim"`); n != 20 || !strings.Contains(got, `"position":20,`) {
		t.Errorf("%d citations in %s", n, got)
	}
	if n := strings.Count(got, `"imBack"`); n != 3 || !strings.Contains(got, `"value":"c"`) {
		t.Errorf("%d suggestions in %s", n, got)
	}
}

// TestCutting: what is too long is cut between characters as people see them.
func TestCutting(t *testing.T) {
	t.Parallel()
	const family = "👨‍👩‍👧" // eight code units
	m := activity.Activity{Type: activity.Message, ChannelID: activity.Teams, Text: "[1]"}
	m.Cite(activity.Citation{
		Title: strings.Repeat("t", 75) + family, Abstract: strings.Repeat("e\u0301", 81),
		Keywords: []string{" ", "a", strings.Repeat("b", 27) + "🇩🇪", "c", "d"},
	})
	want := `{"type":"message","channelId":"msteams","text":"[1]","entities":[{"type":"https://schema.org/Message","@type":"Message","@context":"https://schema.org","@id":"","citation":[{"@type":"Claim","position":1,"appearance":{"@type":"DigitalDocument",
		"name":"` + strings.Repeat("t", 75) + `…","abstract":"` + strings.Repeat("e\u0301", 79) + `…","keywords":["a","` + strings.Repeat("b", 27) + `…","c"]}}]}]}`
	if diff := cmp.Diff(generic(t, []byte(want)), generic(t, []byte(fitted(t, &m)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestSuggestions: the three kinds, as Teams wants them.
func TestSuggestions(t *testing.T) {
	t.Parallel()
	m := activity.Activity{Type: activity.Message, ChannelID: activity.Teams, Text: "Well?"}
	m.SuggestSubmit("Yes", map[string]string{"choice": "yes"})
	m.Suggest("Lists")
	m.SuggestCompose("Ask Mia", "Could you …")
	want := `{"type":"message","channelId":"msteams","text":"Well?","suggestedActions":{"actions":[
		{"type":"Action.Submit","title":"Yes","value":{"choice":"yes"}},
		{"type":"imBack","title":"Lists","value":"Lists"},
		{"type":"Action.Compose","title":"Ask Mia","value":{"type":"Teams.chatMessage","data":{"body":{"additionalData":{},"content":"Could you …"}}}}]}}`
	if diff := cmp.Diff(generic(t, []byte(want)), generic(t, []byte(fitted(t, &m)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestQuotes: what a message quotes is no part of what the person says, and only entities count.
func TestQuotes(t *testing.T) {
	t.Parallel()
	in := func(text, entities string) *activity.Activity {
		return read(t, `{"type":"message","channelId":"msteams","text":`+text+`,"entities":[`+entities+`]}`)
	}
	const (
		ben  = `{"type":"quotedReply","quotedReply":{"messageId":"1","senderId":"29:ben","senderName":"Ben","preview":"reset","time":"1","validatedMessageReference":true}}`
		gone = `{"type":"quotedReply","quotedReply":{"messageId":"2","senderName":7,"preview":"secret","isReplyDeleted":true}}`
		card = `{"type":"quotedReply","quotedReply":{"messageId":"3","preview":null}}`
		none = `{"type":"quotedReply","quotedReply":7}`
	)
	a := in(`"<quoted messageId=\"2\"/> and <quoted messageId=\"1\"></quoted>\nwhat is <quoted messageId=\"9\"/>? &lt;quoted messageId=\"1\"/&gt;"`, ben+`,`+gone+`,`+card+`,`+none)
	if got, want := a.Said(), "and what is <quoted messageId=\"9\"/>? <quoted messageId=\"1\"/>"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
	want := []activity.Quote{{ID: "1", From: account("29:ben", "Ben"), Text: "reset"}, {ID: "2"}, {ID: "3"}}
	if diff := cmp.Diff(want, a.Quotes()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	many := in(`"a"`, strings.Repeat(ben+",", 11)+`{"type":"quotedReply","quotedReply":{"messageId":"last","preview":"`+strings.Repeat("x", 2000)+`"}}`)
	if got := many.Quotes(); len(got) != 10 {
		t.Errorf("%d quotes", len(got))
	}
	long := in(`"a"`, `{"type":"quotedReply","quotedReply":{"messageId":"1","preview":"`+strings.Repeat("x", 2000)+`"}}`)
	if got := long.Quotes()[0].Text; len(utf16.Encode([]rune(got))) != 1000 {
		t.Errorf("a quote of %d code units", len(utf16.Encode([]rune(got))))
	}
	m := activity.Activity{Type: activity.Message, ChannelID: activity.Teams, Text: "Yes."}
	m.Quote("17")
	if got, want := fitted(t, &m), `{"type":"message","channelId":"msteams","text":"<quoted messageId=\"17\"/> Yes.","entities":[{"quotedReply":{"messageId":"17"},"type":"quotedReply"}]}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestMentionInFront(t *testing.T) {
	t.Parallel()
	for channel, want := range map[string]string{activity.Teams: "<at>Mia</at>: tea", "webchat": "Mia: tea"} {
		m := activity.Activity{ChannelID: channel, Text: "tea"}
		m.Mention(account("29:mia", "Mia"))
		if got := m.Fit().Text; got != want {
			t.Errorf("%s: %q", channel, got)
		}
		nobody := activity.Activity{ChannelID: channel, Text: "tea"}
		nobody.Mention(activity.Account{})
		if nobody.Text != "tea" || nobody.Entities != nil {
			t.Errorf("%s: %q of nobody", channel, nobody.Text)
		}
	}
}

// What [activity.Activity.EncodeToSend] allows.
const (
	maxUTF16 = 80 << 10
	maxBytes = 256 << 10
)

func TestEncodeToSend(t *testing.T) {
	t.Parallel()
	text := func(s string) activity.Activity { return activity.Activity{Type: activity.Message, Text: s} }
	value := func(s string) activity.Activity {
		return activity.Activity{Type: activity.Message, Value: jsontext.Value(s)}
	}
	const most = maxUTF16/2 - len(`{"type":"message","text":""}`)
	picture := `"data:image/png;base64,` + strings.Repeat("A", 100<<10) + `"`
	for name, c := range map[string]struct {
		message activity.Activity
		ok      bool
	}{
		"letters":             {text(strings.Repeat("x", most)), true},
		"one more":            {text(strings.Repeat("x", most+1)), false},
		"of three bytes":      {text(strings.Repeat("語", most)), true},
		"outside the plane":   {text(strings.Repeat("😀", most/2)), true},
		"one more of these":   {text(strings.Repeat("😀", most/2+1)), false},
		"pictures aside":      {value(`{"a":` + picture + `,"b":"` + strings.Repeat("x", 1000) + `"}`), true},
		"beside a picture":    {value(`{"a":` + picture + `,"b":"` + strings.Repeat("x", 80<<10) + `"}`), false},
		"a picture in a text": {value(`{"text":"<img src=\` + picture[:len(picture)-1] + `\">"}`), true},
		"a text like one":     {text("data:image/png;base64,AAAA is how it begins " + strings.Repeat("x", 200<<10)), false},
		"pictures beyond":     {value(`{"a":` + picture + `,"b":` + picture + `,"c":` + picture + `}`), false},
	} {
		if _, err := c.message.EncodeToSend(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyMentions are cut, so that what they cost is bounded.
func TestManyMentions(t *testing.T) {
	t.Parallel()
	for channel, want := range map[string]int{activity.Teams: 200, "webchat": 0} {
		m := activity.Activity{Type: activity.Message, ChannelID: channel}
		for i := range 5000 {
			m.Text += m.At(account("29:"+strconv.Itoa(i), "P"+strconv.Itoa(i)))
		}
		out := m.Fit()
		if len(out.Entities) != want {
			t.Errorf("%s: %d entities", channel, len(out.Entities))
		}
		if want == 0 && !strings.HasSuffix(out.Text, "P4998P4999") {
			t.Errorf("%s: %s", channel, out.Text[len(out.Text)-50:])
		}
	}
}

// FuzzFit holds what goes out to Teams to its rules, whatever somebody made.
func FuzzFit(f *testing.F) {
	f.Add([]byte(`{"type":"message","conversation":{"id":"c"},"channelId":"msteams","text":"[1] <at>M</at>","entities":[`+root+`,"citation":[{"position":1,"appearance":{"name":"N"}}]},`+root+`},{"type":"mention","mentioned":{"id":"m"},"text":"<at>M</at>"}],"suggestedActions":{"actions":[{"type":"imBack","title":"a","value":"a"}]},"channelData":{"feedbackLoop":{"type":"default"}}}`), "a", 5)
	f.Add([]byte(`{"type":"message","conversation":{"id":"c","isGroup":true},"channelId":"webchat","entities":[{"type":"mention","mentioned":{"name":"<at>"},"text":"<at>"}],"channelData":[]}`), "[1]\xff", 0)
	f.Fuzz(func(t *testing.T, data []byte, said string, sources int) {
		a, err := activity.Decode(data)
		if err != nil {
			return
		}
		before, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		built := *a
		built.Entities = slices.Clone(a.Entities)
		built.Text += built.At(account(said, said))
		built.LabelAI()
		for range min(max(sources, 0), 30) {
			built.Cite(activity.Citation{Title: said, Abstract: said})
		}
		built.AskFeedback(said)
		for _, one := range []*activity.Activity{a, &built} {
			checkFit(t, one)
		}
		if after, err := a.Encode(); err != nil || string(after) != string(before) {
			t.Fatalf("changed to %s (%v)\nfrom %s", after, err, before)
		}
	})
}

func checkFit(t *testing.T, a *activity.Activity) {
	t.Helper()
	out := a.Fit()
	raw, err := out.Encode()
	if err != nil {
		t.Fatalf("cannot be written: %v", err)
	}
	again, err := out.Fit().Encode()
	if err != nil || string(again) != string(raw) {
		t.Fatalf("the second time %s (%v)\nthe first time %s", again, err, raw)
	}
	roots := 0
	for _, e := range out.Entities {
		if strings.Contains(strings.ToLower(string(e)), `"type":"https://schema.org/message"`) {
			roots++
		}
	}
	if teams := a.ChannelID == "" || a.ChannelID == activity.Teams; roots > 1 || roots > 0 && !teams {
		t.Fatalf("%d root entities in %s", roots, raw)
	}
	for text := range out.Mentions() {
		if a.ChannelID == activity.Teams && !strings.Contains(out.Text, text) {
			t.Fatalf("mention %q is not in %q", text, out.Text)
		}
	}
	if _, err := out.EncodeToSend(); (err != nil) != (len(raw) > maxBytes || 2*len(utf16.Encode([]rune(string(raw)))) > maxUTF16) && !strings.Contains(string(raw), "data:image/") {
		t.Fatalf("size: %v", err)
	}
}

// TestStream: parts of a growing message say so twice, keep what else channelData has, and stay so
// for every channel.
func TestStream(t *testing.T) {
	t.Parallel()
	for _, channel := range []string{"msteams", "webchat"} {
		a := &activity.Activity{Type: activity.Message, ChannelID: channel, Text: "Hi"}
		a.AskFeedback("default")
		a.LabelAI()
		a.SetStream(activity.StreamInfo{Type: activity.StreamText, Sequence: 1})
		a.SetStream(activity.StreamInfo{ID: "s1", Type: activity.StreamFinal})
		fit := a.Fit()
		encoded, err := fit.Encode()
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{`{"type":"streaminfo","streamId":"s1","streamType":"final"}`, `"streamId":"s1","streamType":"final"}`} {
			if !strings.Contains(string(encoded), part) {
				t.Errorf("%s: %s is not in %s", channel, part, encoded)
			}
		}
		if got := fit.Stream(); got != (activity.StreamInfo{ID: "s1", Type: activity.StreamFinal}) {
			t.Errorf("%s: %+v", channel, got)
		}
		a.SetStream(activity.StreamInfo{})
		if got := a.Stream(); got != (activity.StreamInfo{}) || strings.Contains(string(a.ChannelData), "stream") || !strings.Contains(string(a.ChannelData), "feedbackLoop") {
			t.Errorf("%s: %+v, %s", channel, got, a.ChannelData)
		}
	}
	plain := &activity.Activity{Type: activity.Message, Text: "Hi"}
	plain.SetStream(activity.StreamInfo{ID: "s1", Type: activity.StreamFinal})
	plain.SetStream(activity.StreamInfo{})
	if len(plain.Entities) > 0 || plain.ChannelData != nil {
		t.Errorf("%s %s", plain.Entities, plain.ChannelData)
	}
}

// TestStrictestLabel: a message is as confidential as the sources that it shows.
func TestStrictestLabel(t *testing.T) {
	t.Parallel()
	public := activity.Sensitivity{Name: "Public", Level: 1}
	secret := activity.Sensitivity{ID: "9f2c1a3e-0000-4000-8000-00000000c0de", Level: 3}
	legal := activity.Sensitivity{Name: "Confidential", Description: "Legal", Level: 2}
	none := activity.Sensitivity{}
	for name, tt := range map[string]struct {
		message activity.Sensitivity
		sources []activity.Sensitivity
		want    string   // the message's label
		shown   []string // those of the sources
	}{
		"no label":                  {none, []activity.Sensitivity{none}, "", []string{""}},
		"only the message's":        {public, []activity.Sensitivity{none}, "Public", []string{""}},
		"only a source's":           {none, []activity.Sensitivity{none, legal}, "Confidential", []string{"", "Confidential"}},
		"a source is stricter":      {public, []activity.Sensitivity{legal}, "Confidential", []string{"Confidential"}},
		"the message is stricter":   {secret, []activity.Sensitivity{legal}, secret.ID, []string{""}},
		"the strictest of three":    {none, []activity.Sensitivity{public, secret, legal}, secret.ID, []string{"", secret.ID, ""}},
		"the same":                  {legal, []activity.Sensitivity{legal, public}, "Confidential", []string{"Confidential", ""}},
		"nobody knows which is":     {activity.Sensitivity{Name: "A"}, []activity.Sensitivity{{Name: "B"}}, "A", []string{""}},
		"a source without its mark": {public, []activity.Sensitivity{none, none, none, secret}, "Public", []string{"", "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &activity.Activity{Type: activity.Message, ChannelID: activity.Teams, Text: "It says [1] [2] [3]."}
			m.Label(tt.message)
			for _, s := range tt.sources {
				m.Cite(activity.Citation{Title: "A source", Sensitivity: s})
			}
			raw, err := m.Fit().Encode()
			if err != nil {
				t.Fatal(err)
			}
			type label struct {
				ID   string `json:"@id"`
				Name string `json:"name"`
			}
			var sent struct {
				Entities []struct {
					UsageInfo label
					Citation  []struct{ Appearance struct{ UsageInfo label } }
				}
			}
			if err := json.Unmarshal(raw, &sent, json.MatchCaseInsensitiveNames(true)); err != nil {
				t.Fatal(err)
			}
			of := func(l label) string {
				if l.Name != "" {
					return l.Name
				}
				return l.ID
			}
			var shown []string
			for _, c := range sent.Entities[0].Citation {
				shown = append(shown, of(c.Appearance.UsageInfo))
			}
			if got := of(sent.Entities[0].UsageInfo); got != tt.want || !slices.Equal(shown, tt.shown) || strings.Contains(string(raw), "evel") {
				t.Errorf("the message has %q, its sources %q: %s", got, shown, raw)
			}
		})
	}
}
