package page

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	g "maragu.dev/gomponents"

	"github.com/planbot-go/planbot/internal/markup"
	h "github.com/planbot-go/planbot/internal/markup/html"
)

const (
	// shortJSON is how long an object or a list may be that is shown in one line, and openJSON one that is not folded.
	shortJSON, openJSON = 72, 600
	// maxColoured limits what gets colours and folds.
	maxColoured = 128 << 10
)

// jsonOf is JSON in colours, with objects and lists to fold. Any other text is in a frame as it is; "": nothing.
func jsonOf(content string) g.Node {
	raw := jsontext.Value(content)
	if len(raw) > maxColoured || !raw.IsValid(jsontext.AllowDuplicateNames(true)) {
		return frameOf(content)
	}
	return h.Div(h.Class("json"), jsonNode(nil, raw))
}

// jsonNode is a value, behind its key.
func jsonNode(key g.Node, raw jsontext.Value) g.Node {
	if len(raw) <= shortJSON || raw.Kind() != '{' && raw.Kind() != '[' {
		return h.Div(key, inline(raw))
	}
	d := jsontext.NewDecoder(strings.NewReader(string(raw)), jsontext.AllowDuplicateNames(true))
	begin, _ := d.ReadToken() // it is valid, here and below
	var rows g.Group
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		var name g.Node
		if begin.Kind() == '{' {
			key, _ := d.ReadValue()
			name = g.Group{h.Span(h.Class("k"), text(string(key))), text(": ")}
		}
		value, _ := d.ReadValue()
		rows = append(rows, jsonNode(name, value.Clone()))
	}
	size := text(begin.String(), " ", len(rows), " ", either(begin.Kind() == '{', plural(len(rows), "field"), plural(len(rows), "value")))
	return h.Details(
		markup.On("open", key == nil || len(raw) <= openJSON),
		h.Summary(key, h.Span(h.Class("dim"), size)), h.Div(rows),
	)
}

// inline is a value in one line.
func inline(raw jsontext.Value) g.Node {
	d := jsontext.NewDecoder(strings.NewReader(string(raw)), jsontext.AllowDuplicateNames(true))
	var all g.Group
	for {
		depth := d.StackDepth()
		kind, n := d.StackIndex(depth)
		token, err := d.ReadToken()
		if err != nil {
			return all
		}
		isKey := kind == '{' && n%2 == 0
		ends := token.Kind() == '}' || token.Kind() == ']'
		switch {
		case ends || n == 0:
		case isKey || kind == '[':
			all = append(all, g.Text(", "))
		default:
			all = append(all, g.Text(": "))
		}
		switch {
		case isKey && !ends:
			all = append(all, h.Span(h.Class("k"), text(quotedToken(token))))
		case token.Kind() == '"':
			all = append(all, h.Span(h.Class("s"), text(quotedToken(token))))
		case strings.ContainsRune("{}[]", rune(token.Kind())):
			all = append(all, text(token.String()))
		default:
			all = append(all, h.Span(h.Class("n"), text(token.String())))
		}
	}
}

// quotedToken is a text with its quotes.
func quotedToken(t jsontext.Token) string {
	raw, err := jsontext.AppendQuote(nil, t.String())
	if err != nil {
		return t.String()
	}
	return string(raw)
}
