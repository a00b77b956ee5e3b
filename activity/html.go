package activity

import (
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode"

	nethtml "golang.org/x/net/html"

	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Limits of what is read of an HTML attachment.
const (
	maxHTML     = 256 << 10 // bytes of all of them
	maxLinks    = 10
	maxLink     = 2000 // bytes
	maxMarks    = 100
	htmlContent = "text/html"
)

// markup is what the HTML of a message says that its text does not.
type markup struct {
	words  string   // what the person wrote, escaped as in a text of Teams, with <at> for mentions
	quotes []Quote  // what others wrote
	links  []string // addresses behind links
	marks  []string // ids of what the HTML only points to, such as files and cards
}

// plain is the text of HTML that somebody else wrote.
func plain(content string) string {
	var m markup
	m.read(content[:min(len(content), maxHTML)])
	return html.UnescapeString(m.words)
}

// htmlReader reads HTML tag by tag, so that nothing in it costs more than its length.
type htmlReader struct {
	*markup

	words   strings.Builder
	hidden  string // the element whose content nobody sees
	pre     int
	quote   *Quote // that is being read
	depth   int    // of blockquotes in it
	part    string // of the quote: mri, time, preview or copy
	partTag string
	text    strings.Builder // of the quote
}

func (m *markup) read(content string) {
	z := nethtml.NewTokenizer(strings.NewReader(content))
	r := &htmlReader{markup: m}
	for {
		kind := z.Next()
		switch kind {
		case nethtml.ErrorToken:
			r.endQuote()
			m.words = strings.TrimSpace(r.words.String())
			return
		case nethtml.TextToken:
			r.addText(string(z.Text()))
		case nethtml.StartTagToken, nethtml.SelfClosingTagToken:
			r.begin(z.Token())
		case nethtml.EndTagToken:
			name, _ := z.TagName()
			r.end(string(name))
		}
	}
}

func attr(t nethtml.Token, name string) string {
	at := slices.IndexFunc(t.Attr, func(a nethtml.Attribute) bool { return a.Key == name })
	if at < 0 {
		return ""
	}
	return t.Attr[at].Val
}

func (r *htmlReader) begin(t nethtml.Token) {
	if r.hidden != "" {
		return
	}
	kind := ""
	if t.Data == "blockquote" || t.Data == "span" || t.Data == "img" {
		kind = strings.ToLower(attr(t, "itemtype"))
	}
	switch {
	case t.Type == nethtml.StartTagToken && isHidden(t.Data):
		r.hidden = t.Data
	case r.quote != nil:
		r.beginInQuote(t)
	case t.Data == "blockquote" && (strings.HasSuffix(kind, "skype.com/reply") || strings.HasSuffix(kind, "skype.com/forward")):
		r.quote = &Quote{ID: spelling.Cut(attr(t, "itemid"), maxWho)}
		r.depth = 1
		r.text.Reset()
	case t.Data == "attachment":
		if len(r.marks) < maxMarks {
			r.marks = append(r.marks, attr(t, "id"))
		}
	case t.Data == "at", t.Data == "span" && strings.HasSuffix(kind, "skype.com/mention"):
		r.words.WriteString("<at>")
		r.partTag = t.Data
	case t.Data == "a":
		r.addLink(attr(t, "href"))
	case t.Data == "emoji", t.Data == "img":
		if alt := attr(t, "alt"); t.Data == "emoji" || strings.HasSuffix(kind, "skype.com/emoji") || !strings.ContainsFunc(alt, isWordy) {
			r.words.WriteString(html.EscapeString(alt))
		}
	case t.Data == "li":
		r.words.WriteString("\n- ")
	default:
		r.breakLine(t.Data)
	}
	if t.Data == "pre" && r.quote == nil {
		r.pre++
	}
}

// isWordy matches what an emoji does not have: the words about a picture are not the person's.
func isWordy(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }

// isHidden reports whether people do not see what is in an element.
func isHidden(name string) bool {
	switch name {
	case "script", "style", "title", "template", "iframe", "noscript", "xmp", "textarea", "video", "audio", "object":
		return true
	}
	return false
}

// isBlock reports whether an element begins on a line of its own.
func isBlock(name string) bool {
	switch name {
	case "p", "div", "br", "tr", "table", "ul", "ol", "blockquote", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "hr":
		return true
	}
	return false
}

func (r *htmlReader) beginInQuote(t nethtml.Token) {
	switch part := strings.ToLower(attr(t, "itemprop")); {
	case t.Data == "blockquote":
		r.depth++
	case part != "":
		r.part, r.partTag = part, t.Data
		switch part {
		case "mri":
			r.quote.From.ID = spelling.Cut(attr(t, "itemid"), maxWho)
		case "time":
			r.quote.At = quotedAt(attr(t, "itemid"))
		}
		if r.text.Len() > 0 { // a second part repeats the first one
			r.part = "repeated"
		}
	}
}

func (r *htmlReader) end(name string) {
	switch {
	case r.hidden != "":
		if name == r.hidden {
			r.hidden = ""
		}
	case r.quote != nil && name == "blockquote":
		if r.depth--; r.depth == 0 {
			r.endQuote()
		}
	case r.quote != nil:
		if name == r.partTag {
			r.part, r.partTag = "", ""
		}
	case name == r.partTag:
		r.words.WriteString("</at>")
		r.partTag = ""
	case name == "pre":
		r.pre = max(r.pre-1, 0)
		r.breakLine(name)
	default:
		r.breakLine(name)
	}
}

// endQuote ends a quotation. What is never closed is one to its end: what others wrote must not count as the
// person's own words.
func (r *htmlReader) endQuote() {
	if r.quote == nil {
		return
	}
	r.quote.Text = spelling.Cut(strings.Join(strings.Fields(r.text.String()), " "), maxQuote)
	r.quote.From.Name = spelling.Cut(strings.TrimSpace(r.quote.From.Name), maxWho)
	if len(r.quotes) < maxQuotes {
		r.quotes = append(r.quotes, *r.quote)
	}
	r.quote, r.part, r.partTag = nil, "", ""
}

func (r *htmlReader) addText(text string) {
	if r.hidden != "" {
		return
	}
	if r.quote != nil {
		switch r.part {
		case "mri":
			if len(r.quote.From.Name) < 4*maxWho {
				r.quote.From.Name += text
			}
		case "", "preview", "copy":
			r.text.WriteString(text + " ")
		}
		return
	}
	if r.pre == 0 {
		text = collapsed(text)
		if said := r.words.String(); said == "" || strings.HasSuffix(said, "\n") {
			text = strings.TrimPrefix(text, " ")
		}
	}
	r.words.WriteString(html.EscapeString(text))
}

// collapsed makes one space of each run of white space, as HTML does. The no-break space is none.
func collapsed(text string) string {
	if !strings.ContainsAny(text, "\t\r\n\f") && !strings.Contains(text, "  ") {
		return text
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\f", r) })
	out := strings.Join(words, " ")
	if text != "" && strings.ContainsRune(" \t\r\n\f", rune(text[0])) {
		out = " " + out
	}
	if len(words) > 0 && strings.ContainsRune(" \t\r\n\f", rune(text[len(text)-1])) {
		out += " "
	}
	return out
}

func (r *htmlReader) breakLine(name string) {
	switch said := r.words.String(); {
	case name == "td", name == "th":
		r.words.WriteString(" ")
	case isBlock(name) && said != "" && (name == "br" || !strings.HasSuffix(said, "\n")):
		r.words.WriteString("\n")
	}
}

// addLink notes an address that people could open or write to.
func (r *htmlReader) addLink(address string) {
	address = strings.TrimSpace(address)
	if len(address) > maxLink || len(r.links) == maxLinks || slices.Contains(r.links, address) {
		return
	}
	to, err := url.Parse(address)
	if err != nil {
		return
	}
	if slices.Contains([]string{"http", "https", "mailto"}, to.Scheme) && (to.Host != "" || to.Scheme == "mailto") {
		r.links = append(r.links, address)
	}
}

var guid = lazy.Regexp(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
