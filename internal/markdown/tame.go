package markdown

import (
	"net/url"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/internal/lazy"
)

// unseen breaks markup: a space of no width, which people do not see.
const unseen = "\u200b"

// Tame returns the markdown with nothing in it that a client loads or runs by itself, whoever wrote it: a
// document can make a model write a picture whose address tells a stranger what the person asked. A picture
// becomes its words and its host, unless it is at one of these hosts. HTML, and links to anything but the
// web, mail and telephones, become text.
//
// It does not parse markdown, as each client does that in its own way. It knows the few forms that it leaves,
// and breaks all that begins like another one, in code too. Only HTML stays in code between plain fences, if the
// text has no picture and no mention.
func Tame(text string, hosts []string) string {
	if !strings.ContainsAny(text, "<[") {
		return text
	}
	var s strings.Builder
	var code [][2]int
	if !strings.Contains(text, "![") && !strings.Contains(text, "at>") { // a fence may go with a picture, or be HTML behind a mention
		code = fenced(text)
	}
	for i := 0; i < len(text); {
		rest := text[i:]
		switch {
		case strings.HasPrefix(rest, "!["):
			picture := pictureForm().FindStringSubmatch(rest)
			switch {
			case picture == nil: // another form of a picture; as a link it needs a click
				s.WriteString("!" + unseen)
				i++
				continue
			case onList(picture[2], hosts) && !strings.ContainsAny(picture[0], "<>\n\\`"): // which a client may read in another way
				s.WriteString("![" + picture[1] + "](" + picture[2] + ")")
			default: // what is left must not make markup of what is beside it
				s.WriteString(separator(s.String(), "]") + inWords(Tame(picture[1], nil), picture[2]))
				s.WriteString(separator(s.String(), "!", "<", "]"))
			}
			i += len(picture[0])
			continue
		case (strings.HasPrefix(rest, "](") || strings.HasPrefix(rest, "]:")) && !goodLink().MatchString(rest[2:]):
			s.WriteString("]" + unseen)
		case rest[0] == '<' && htmlForm().MatchString(rest) && !plainForm().MatchString(rest) && !slices.ContainsFunc(code, func(c [2]int) bool { return c[0] <= i && i < c[1] }):
			s.WriteString("<" + unseen)
		default:
			s.WriteByte(rest[0])
		}
		i++
	}
	return s.String()
}

// separator is what keeps a text apart from what follows, if it has one of these ends.
func separator(text string, ends ...string) string {
	if slices.ContainsFunc(ends, func(end string) bool { return strings.HasSuffix(text, end) }) {
		return unseen
	}
	return ""
}

var (
	// pictureForm is a picture with a plain address, and perhaps a title.
	pictureForm = lazy.Regexp(`^!\[([^\[\]]*)\]\(\s*<?([^\s()<>]*)>?(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)`)
	goodLink    = lazy.Regexp("(?i)^[ \\t\\r\\n]*(?:https?://|mailto:|tel:|<?#|<(?:https?://|mailto:)[^\\s<>\"'`]*>)")
	htmlForm    = lazy.Regexp(`^<[A-Za-z/!?]`)
	// plainForm is an address between angle brackets, or a mention.
	plainForm  = lazy.Regexp("^<(?:(?i:https?://|mailto:)[^\\s<>\"'`]*|/?at)>")
	plainFence = lazy.Regexp("^```[\\w+#.-]*\r?\n?$")
	hostForm   = lazy.Regexp(`^[A-Za-z0-9.-]+$`)
)

// onList reports whether an address is https at one of the hosts.
func onList(address string, hosts []string) bool {
	u, err := url.Parse(address)
	return err == nil && u.Scheme == "https" && u.User == nil && slices.ContainsFunc(hosts, func(host string) bool { return strings.EqualFold(host, u.Host) })
}

// inWords is what is left of a picture.
func inWords(words, address string) string {
	u, err := url.Parse(address)
	if err != nil || !hostForm().MatchString(u.Hostname()) {
		return words
	}
	return strings.TrimSpace(words + " (" + u.Hostname() + ")")
}

// fenced returns where code between fences is, if every client sees it there: no fence is of another form.
func fenced(text string) (spans [][2]int) {
	at, begin := 0, -1
	for line := range strings.Lines(text) {
		if strings.Contains(line, "```") || strings.Contains(line, "~~~") {
			switch {
			case !plainFence().MatchString(line), begin >= 0 && strings.TrimRight(line, "\r\n") != "```":
				return nil
			case begin < 0:
				begin = at
			default:
				spans, begin = append(spans, [2]int{begin, at}), -1
			}
		}
		at += len(line)
	}
	if begin >= 0 {
		return nil
	}
	return spans
}

// TameDraft is Tame for a text that is still being written: what may become markup has to wait for its end.
func TameDraft(text string, hosts []string) string {
	if at := strings.LastIndex(text, "!["); at >= 0 && !strings.Contains(text[at:], ")") {
		text = text[:at]
	}
	if at := strings.LastIndexAny(text, "<"); at >= 0 && !strings.Contains(text[at:], ">") && (at+1 == len(text) || htmlForm().MatchString(text[at:])) {
		text = text[:at]
	}
	if at := strings.LastIndex(text, "]("); at >= 0 && !strings.Contains(text[at:], ")") {
		text = text[:at]
	}
	return Tame(strings.TrimRight(text, "!]"), hosts)
}
