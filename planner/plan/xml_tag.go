package plan

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/planbot-go/planbot/internal/spelling"
)

// maxAttributes is how many attributes a tag may have.
const maxAttributes = 200

// attribute is one attribute of a tag, with its entities decoded.
type attribute struct{ name, value string }

// tagReader reads the tags of an XML plan. It takes what has one meaning only,
// also where it is no XML: a bare & or < in a value, names in any case, values
// without quotes.
type tagReader struct {
	text string
	pos  int
	done repairs
	read []attribute // those of all tags so far
}

var errXMLTruncated = Faultf(Truncated, "the text ends before the plan does")

// startTag reads the rest of a tag from behind its name, and reports whether it
// is closed in itself.
func (r *tagReader) startTag(name string) (attributes []attribute, closed bool, err *Fault) {
	first := len(r.read)
	for {
		r.space()
		switch rest := r.text[r.pos:]; {
		case rest == "", rest == "/":
			return nil, false, errXMLTruncated
		case rest[0] == '>':
			r.pos++
			return r.read[first:], false, nil
		case strings.HasPrefix(rest, "/>"):
			r.pos += 2
			return r.read[first:], true, nil
		case len(r.read)-first == maxAttributes:
			return nil, false, Faultf(InvalidPlan, "<%s> has more than %d attributes", spelling.Clip(name), maxAttributes)
		}
		a, err := r.attribute(name)
		if err != nil {
			return nil, false, err
		}
		r.read = append(r.read, a)
	}
}

func (r *tagReader) attribute(tag string) (attribute, *Fault) {
	size := strings.IndexAny(r.text[r.pos:], " \t\r\n=/<>\"'“”")
	if size < 0 {
		return attribute{}, errXMLTruncated
	}
	name := r.text[r.pos : r.pos+size]
	if name == "" {
		return attribute{}, Faultf(InvalidPlan, "<%s>: behind a value stands %q; write a quote within a value as &quot;", spelling.Clip(tag), spelling.Clip(firstLine(r.text[r.pos:])))
	}
	r.pos += size
	r.space()
	if r.pos == len(r.text) {
		return attribute{}, errXMLTruncated
	}
	if r.text[r.pos] != '=' {
		return attribute{}, Faultf(InvalidPlan, "<%s>: the attribute %s has no value; write a quote within a value as &quot;", spelling.Clip(tag), spelling.Clip(name))
	}
	r.pos++
	r.space()
	value, err := r.value(tag, name)
	return attribute{name, value}, err
}

// value reads the value of an attribute.
func (r *tagReader) value(tag, name string) (string, *Fault) {
	rest := r.text[r.pos:]
	mark, size := utf8.DecodeRuneInString(rest)
	switch mark {
	case '"', '\'':
		return r.quoted(tag, name, rest[size:], rest[:size])
	case '“', '”':
		r.done |= repairedQuotes
		return r.quoted(tag, name, rest[size:], "”")
	}
	end := strings.IndexAny(rest, " \t\r\n>")
	if end < 0 {
		return "", errXMLTruncated
	}
	bare := rest[:end]
	if rest[end] == '>' {
		bare = strings.TrimSuffix(bare, "/")
	}
	if bare == "" || strings.ContainsAny(bare, "\"'<=“”") {
		return "", Faultf(InvalidPlan, "<%s>: the value of %s does not stand in quotes", spelling.Clip(tag), spelling.Clip(name))
	}
	r.pos += len(bare)
	r.done |= quotedWords
	return r.plain(bare), nil
}

// quoted reads a value that ends with the mark. A value that holds another tag
// of a plan has lost its last quote.
func (r *tagReader) quoted(tag, name, rest, mark string) (string, *Fault) {
	value, behind, closed := strings.Cut(rest, mark)
	switch {
	case !closed:
		return "", errXMLTruncated
	case holdsTag(value):
		return "", Faultf(InvalidPlan, "<%s>: the value of %s has no closing quote", spelling.Clip(tag), spelling.Clip(name))
	case behind != "" && strings.IndexByte(" \t\r\n/>", behind[0]) < 0:
		return "", Faultf(InvalidPlan, "<%s>: the value of %s holds a quote; write it as &quot;", spelling.Clip(tag), spelling.Clip(name))
	}
	r.pos = len(r.text) - len(behind)
	return r.plain(value), nil
}

// holdsTag reports whether a tag of a plan begins in a value.
func holdsTag(value string) bool {
	for {
		_, rest, found := strings.Cut(value, "<")
		if !found {
			return false
		}
		name := strings.TrimPrefix(rest, "/")
		if hasPrefixFold(name, "function") || hasPrefixFold(name, "plan") {
			return true
		}
		value = rest
	}
}

// plain decodes the entities of XML, each once. What only looks like one stays.
func (r *tagReader) plain(text string) string {
	if strings.Contains(text, "<") {
		r.done |= repairedEscapes
	}
	at := strings.IndexByte(text, '&')
	if at < 0 {
		return text
	}
	var out strings.Builder
	for at >= 0 {
		out.WriteString(text[:at])
		text = text[at:]
		decoded, size := entity(text)
		if size == 0 {
			r.done |= repairedEscapes
			decoded, size = "&", 1
		}
		out.WriteString(decoded)
		text = text[size:]
		at = strings.IndexByte(text, '&')
	}
	out.WriteString(text)
	return out.String()
}

// entity decodes the entity that text begins with; size 0 for none.
func entity(text string) (decoded string, size int) {
	const longest = len("&#x10FFFF;")
	end := strings.IndexByte(text[:min(len(text), longest)], ';')
	if end < 0 {
		return "", 0
	}
	name := text[1:end]
	switch name {
	case "lt":
		return "<", end + 1
	case "gt":
		return ">", end + 1
	case "amp":
		return "&", end + 1
	case "quot":
		return `"`, end + 1
	case "apos":
		return "'", end + 1
	}
	digits, isNumber := strings.CutPrefix(name, "#")
	base := 10
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "x"); ok {
		digits, base = hex, 16
	}
	code, err := strconv.ParseUint(digits, base, 21)
	if !isNumber || err != nil || code == 0 || !utf8.ValidRune(rune(code)) {
		return "", 0
	}
	return string(rune(code)), end + 1
}

func (r *tagReader) space() {
	for r.pos < len(r.text) && isSpace(rune(r.text[r.pos])) {
		r.pos++
	}
}

// tagName returns the name of the tag that text begins with, without its < or
// </; "" when text begins with none.
func tagName(text string) string {
	text = strings.TrimPrefix(text[1:], "/")
	size := 0
	for size < len(text) && isTagByte(text[size]) {
		size++
	}
	if size == 0 || !isWordStart(text[0]) || size < len(text) && strings.IndexByte(" \t\r\n/>", text[size]) < 0 {
		return ""
	}
	return text[:size]
}

func isTagByte(c byte) bool { return isWordByte(c) || c == '.' || c == '-' || c >= utf8.RuneSelf }

func lastLine(text string) string { return text[strings.LastIndexByte(text, '\n')+1:] }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
