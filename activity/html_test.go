package activity_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/activity"
)

// withHTML is a message of Teams with an HTML attachment.
func withHTML(t *testing.T, text, html, more string) *activity.Activity {
	t.Helper()
	return read(t, fmt.Sprintf(`{"type":"message","channelId":"msteams","recipient":{"id":"28:bot"},"conversation":{"id":"c"},"text":%s,
		"entities":[{"type":"mention","mentioned":{"id":"28:bot","name":"R&D Bot"}}],
		"attachments":[%s{"contentType":"text/html","content":%s}]}`, quote(t, text), more, quote(t, html)))
}

// TestWordsOfHTML: a message whose words are only in its HTML.
func TestWordsOfHTML(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, html, want string }{
		"paragraphs":          {"", "<div><p>add milk</p><p>and  eggs\n please</p></div>", "add milk\nand eggs please"},
		"inline":              {"", "<p>add <b>milk</b> to <i>groceries</i></p>", "add milk to groceries"},
		"text wins":           {"hello", "<p>goodbye</p>", "hello"},
		"only spaces":         {"&nbsp;", "<p>hi</p>", "hi"},
		"addressed: a colon":  {"<at>R&amp;D Bot</at>: /reset", "", "/reset"},
		"addressed: a comma":  {"<at>R&amp;D Bot</at>,&nbsp;add milk", "", "add milk"},
		"addressed: wide":     {"<at>R&amp;D Bot</at>：買牛奶", "", "買牛奶"},
		"addressed: a smile":  {"<at>R&amp;D Bot</at> :-) hi", "", ":-) hi"},
		"addressed: later":    {"hi <at>R&amp;D Bot</at>, add milk", "", "hi, add milk"},
		"a mention":           {"", `<p><span itemtype="http://schema.skype.com/Mention" itemscope itemid="0">R&amp;D Bot</span>&nbsp;/reset</p>`, "/reset"},
		"an at":               {"", `<p><at id="0">R&amp;D Bot</at> help</p>`, "help"},
		"the mention as text": {"<at>R&amp;D Bot</at>", `<p><at id="0">R&amp;D Bot</at> add milk</p>`, "add milk"},
		"nothing but mention": {"<at>R&amp;D Bot</at>", `<p><at id="0">R&amp;D Bot</at>&nbsp;</p>`, ""},
		"escapes once":        {"", "<p>&amp;lt;b&amp;gt; &lt;3 &amp; you</p>", "&lt;b&gt; <3 & you"},
		"a typed tag":         {"", "<p>&lt;at&gt;R&amp;D Bot&lt;/at&gt;</p>", "<at>R&D Bot</at>"},
		"a list":              {"", "<ul><li>milk</li><li>eggs</li></ul>", "- milk\n- eggs"},
		"code":                {"", "<pre>a\n  b</pre>", "a\n  b"},
		"an emoji":            {"", `<p>well done <img itemtype="http://schema.skype.com/Emoji" alt="👍"></p>`, "well done 👍"},
		"an emoji's form":     {"", `<p>well done <img alt="🎉"><emoji alt="👍" title="Yes"></emoji></p>`, "well done 🎉👍"},
		"a pasted picture":    {"", `<p><img alt="image" itemtype="http://schema.skype.com/AMSImage" src="https://x/y"></p>`, ""},
		"a described picture": {"", `<p>look <img alt="/reset" src="https://x/y"><img alt="a cat (GIF Image)" itemtype="http://schema.skype.com/Giphy"></p>`, "look"},
		"a video":             {"", `<p>look <video src="x">Your browser shows no videos.</video></p>`, "look"},
		"only a quotation":    {"", `<blockquote itemtype="http://schema.skype.com/Reply" itemid="1"><p itemprop="preview">reset</p></blockquote>`, ""},
		"never closed":        {"", `<blockquote itemtype="http://schema.skype.com/Reply" itemid="1"><p>delete it all`, ""},
		"a person's quote":    {"", `<blockquote>as I said</blockquote><p>yes</p>`, "as I said\nyes"},
		"scripts":             {"", `<style>p{}</style><script>alert("x")</script><p>hi</p>`, "hi"},
		"a comment":           {"", `<!-- delete it all --><p>hi</p>`, "hi"},
		"cut in a tag":        {"", `<p>hi</p><a href="htt`, "hi"},
		"a file's mark":       {"", `<p>see <attachment id="5f-a"></attachment></p>`, "see"},
	} {
		if got := withHTML(t, c.text, c.html, "").Said(); got != c.want {
			t.Errorf("%s: said %q, want %q", name, got, c.want)
		}
	}
	click := withHTML(t, "", "<p>hi</p>", "")
	click.Value = []byte(`{"a":1}`)
	if got := click.Said(); got != "" {
		t.Errorf("a click said %q", got)
	}
	two := withHTML(t, "", "<p>b</p>", `{"contentType":"TEXT/HTML","content":"<p>a</p>"},`)
	if got := two.Said(); got != "a\nb" {
		t.Errorf("two parts said %q", got)
	}
	const quoted = `<p>yes</p><blockquote itemscope itemtype="http://schema.skype.com/Reply" itemid="17"><p itemprop="preview">drop all</p></blockquote><p>please</p>`
	for i := range len(quoted) { // wherever it is split
		split := withHTML(t, "", quoted[i:], `{"contentType":"text/html","content":`+quote(t, quoted[:i])+`},`)
		if got := strings.Fields(split.Said()); strings.Contains(strings.Join(got, ""), "drop") || got[0] == "" || !split.Strangers() {
			t.Errorf("split at %d: said %q, strangers %v", i, got, split.Strangers())
		}
	}
	forward := withHTML(t, `what now? <attachment id="17"></attachment>`, "", "")
	if got := forward.Said(); got != "what now?" {
		t.Errorf("with a tag: said %q", got)
	}
}

// TestQuotesOfHTML: what others wrote is theirs, whatever they put into it.
func TestQuotesOfHTML(t *testing.T) {
	t.Parallel()
	const form = `<blockquote itemscope itemtype="http://schema.skype.com/Reply" itemid="17"><strong itemprop="mri" itemid="29:ben">Ben</strong>` +
		`<span itemprop="time" itemid="17">10:00</span><p itemprop="%s">%s</p></blockquote><p>move it</p>`
	ben := activity.Quote{ID: "17", From: account("29:ben", "Ben"), Text: "due on <3 May>"}
	for name, c := range map[string]struct {
		html, more string
		want       []activity.Quote
	}{
		"preview":   {fmt.Sprintf(form, "preview", "due on &lt;3 <b>May</b>&gt;"), "", []activity.Quote{{ID: "17", From: ben.From, Text: "due on <3 May >"}}},
		"copy":      {fmt.Sprintf(form, "copy", "due on &lt;3 May&gt;"), "", []activity.Quote{ben}},
		"nested":    {fmt.Sprintf(form, "copy", `a<blockquote>b</blockquote>c`), "", []activity.Quote{{ID: "17", From: ben.From, Text: "a b c"}}},
		"forwarded": {"<p>move it</p>", `{"contentType":"forwardedMessageReference","id":"5","content":"{\"originalMessageId\":\"9\",\"originalMessageContent\":\"<p>41 degrees</p>\",\"originalMessageSender\":{\"user\":{\"displayName\":\"Ben\"}}}"},`, []activity.Quote{{ID: "9", From: account("", "Ben"), Text: "41 degrees"}}},
		"a reply":   {"<p>move it</p>", `{"contentType":"messageReference","content":{"messageId":"9","messagePreview":"41 degrees","messageSender":{"user":{"id":"u","displayName":"Ben"}}}},`, []activity.Quote{{ID: "9", From: account("u", "Ben"), Text: "41 degrees"}}},
		"no JSON":   {"<p>move it</p>", `{"contentType":"forwardedMessageReference","content":"<p>"},`, nil},
	} {
		a := withHTML(t, "move it", c.html, c.more)
		if diff := cmp.Diff(c.want, a.Quotes()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if a.Strangers() != (c.want != nil) || a.Said() != "move it" {
			t.Errorf("%s: strangers %v, said %q", name, a.Strangers(), a.Said())
		}
	}
	const full = `<blockquote itemtype="http://schema.skype.com/Reply" itemid="17"><strong itemprop="mri" itemid="29:ben">Ben</strong><span itemprop="time" itemid="1776000000001"></span><p itemprop="preview">x</p></blockquote>`
	for entity, want := range map[string]activity.Quote{
		`{"messageId":"17","preview":null}`:                                  {ID: "17", From: account("29:ben", "Ben"), Text: "x", At: time.UnixMilli(1776000000001).UTC()},
		`{"messageId":"17","preview":"whole","time":"2026-04-12T13:20:00Z"}`: {ID: "17", From: account("29:ben", "Ben"), Text: "whole", At: time.UnixMilli(1776000000000).UTC()},
		`{"messageId":"17","preview":"whole","isReplyDeleted":true}`:         {ID: "17"},
	} {
		a := withHTML(t, "move it", full, "")
		a.Entities = append(a.Entities, []byte(`{"type":"quotedReply","quotedReply":`+entity+`}`))
		if diff := cmp.Diff([]activity.Quote{want}, a.Quotes()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", entity, diff)
		}
	}
	known := withHTML(t, "move it", fmt.Sprintf(form, "copy", "x"), "")
	known.Entities = append(known.Entities, []byte(`{"type":"quotedReply","quotedReply":{"messageId":"17","preview":"whole"}}`))
	if got := known.Quotes(); len(got) != 1 || got[0].Text != "whole" {
		t.Errorf("with an entity: %+v", got)
	}
}

// TestStrangersQuote: an entity says who wrote what is quoted; the person and the bot are no strangers.
func TestStrangersQuote(t *testing.T) {
	t.Parallel()
	for sender, want := range map[string]bool{"29:eve": true, "29:ann": false, "28:bot": false, "": true} {
		a := &activity.Activity{Type: activity.Message, ChannelID: activity.Teams, From: account("29:ann", "Ann"), Recipient: account("28:bot", "Bot")}
		a.Entities = append(a.Entities, []byte(`{"type":"quotedReply","quotedReply":{"messageId":"9","senderId":"`+sender+`","preview":"drop all lists"}}`))
		if got := a.Strangers(); got != want {
			t.Errorf("%q: strangers %v", sender, got)
		}
	}
}

func TestLinks(t *testing.T) {
	t.Parallel()
	a := withHTML(t, "see this, https://a.example/known", `<a href="https://contoso.example/q3.html?a=1&amp;b=2">this</a> <a href="https://a.example/known">x</a>
		<a href="javascript:alert(1)">x</a> <a href="data:text/html,x">x</a> <a href="mailto:mia@contoso.example">Mia</a> <a href="/relative">x</a>
		<a href="HTTPS://contoso.example/other">x</a><a href="https://contoso.example/other`+strings.Repeat("x", 2000)+`">x</a>`, "")
	want := []string{"https://contoso.example/q3.html?a=1&b=2", "mailto:mia@contoso.example", "HTTPS://contoso.example/other"}
	if diff := cmp.Diff(want, a.Links()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFileMarks: a card, a snippet, a file or a message that comes as an attachment explains a mark.
func TestFileMarks(t *testing.T) {
	t.Parallel()
	const (
		mark   = `<p>x</p><attachment id="153fa47d-18c9-4179-be08-9879815a9f90"></attachment>`
		card   = `<attachment id="74d20c7f34aa4a7fb74e2b30004247c5"></attachment>`
		number = `<attachment id="1786399119244"></attachment>`
		loop   = `<attachment id="1c6583f1-fdb1-478c-a288-9a88a99140a3"></attachment>`
	)
	for name, c := range map[string]struct {
		html, more string
		want       int
	}{
		"a file":          {mark, "", 1},
		"a card":          {mark, `{"contentType":"application/vnd.microsoft.card.adaptive","content":{}, "name":"x"},`, 0},
		"a snippet":       {mark, `{"contentType":"application/vnd.microsoft.card.codesnippet","content":"{}"},`, 0},
		"a meeting":       {mark, `{"contentType":"meetingReference","content":"{}"},`, 0},
		"a card, a file":  {mark + card, `{"contentType":"application/vnd.microsoft.card.adaptive","name":"x"},`, 1},
		"two marks":       {mark + mark, `{"contentType":"application/vnd.microsoft.card.adaptive","name":"x"},`, 1},
		"a card's mark":   {card, "", 0},
		"a Loop, a file":  {mark + loop, `{"id":"1c6583f1-fdb1-478c-a288-9a88a99140a3","contentType":"application/vnd.microsoft.card.fluidEmbedCard","content":"{}"},`, 1},
		"a reply, a file": {number + mark, `{"id":"1786399119244","contentType":"messageReference","content":"{}"},`, 1},
		"a reply":         {number + mark, `{"contentType":"messageReference","content":"{}"},`, 1},
		"another form":    {`<attachment id="notes.pdf"></attachment><attachment id=""></attachment><attachment>`, "", 0},
		"a picture":       {mark, `{"contentType":"image/*","contentUrl":"https://x"},`, 1},
		"a message":       {number, "", 0},
		"in a quotation":  {`<blockquote itemtype="http://schema.skype.com/Reply">` + mark + `</blockquote>`, "", 0},
		"an escaped mark": {`&lt;attachment id="a"&gt;`, "", 0},
	} {
		if got := withHTML(t, "x", c.html, c.more).FileMarks(); got != c.want {
			t.Errorf("%s: %d files, want %d", name, got, c.want)
		}
	}
}

// TestHostileHTML: what it costs grows with its length only.
func TestHostileHTML(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	for _, unit := range []string{"<p>", "<blockquote>", "<at>", "</at>", `<strong itemprop="mri">x`, "<a href=x>", "&amp;", "<", "<!--", "<pre>", "<li>", "<attachment id=a>", "</blockquote>", "<script>", " \n", "<b x=y "} {
		content, err := json.Marshal(`<blockquote itemtype="http://schema.skype.com/Reply">` + strings.Repeat(unit, 300_000/len(unit)))
		if err != nil {
			t.Fatal(err)
		}
		a := withHTML(t, "", strings.Repeat(unit, 300_000/len(unit)), `{"contentType":"text/html","content":`+string(content)+`},`)
		_, _, _, _ = a.Said(), a.Quotes(), a.Links(), a.FileMarks()
	}
	t.Log(time.Since(begun))
}

func BenchmarkHTML(b *testing.B) {
	content, err := json.Marshal(strings.Repeat(`<p>please summarise <a href="https://contoso.example/q3.html">this doc</a> &amp; that</p>`, 20_000/88))
	if err != nil {
		b.Fatal(err)
	}
	a := activity.Activity{ChannelID: activity.Teams, Attachments: []activity.Attachment{{ContentType: "text/html", Content: content}}}
	for b.Loop() {
		_ = a.Said()
	}
}
