package page

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/util"
	nethtml "golang.org/x/net/html"
)

// maxMarkdown is the longest text that is read as Markdown. A longer one is shown as it is.
const maxMarkdown = 32 << 10

// allowedTags are the tags that a text may become.
var allowedTags = []string{
	"p", "br", "strong", "em", "del", "code", "pre", "a", "ul", "ol", "li", "blockquote", "table", "thead", "tbody", "tr", "th", "td", "hr",
}

var allowedSchemes = []string{"http", "https", "mailto"} // those of links

// safeHTML is HTML that toHTML or plainHTML made of a text. It is a node of a view.
type safeHTML string

func (s safeHTML) Render(w io.Writer) error {
	_, err := io.WriteString(w, string(s))
	return err
}

// toHTML makes HTML of a text with Teams' Markdown. It is the only place where a text from outside
// becomes HTML: what is HTML in it stays a text, pictures become their description, and links lead to
// the web or to a mailbox, and say where. A second parser reads the result and leaves out what is not
// on the list.
func toHTML(text string) safeHTML {
	text = marked(text)
	if len(text) > maxMarkdown {
		return safeHTML("<pre>" + nethtml.EscapeString(text) + "</pre>")
	}
	var out strings.Builder
	if err := reader().Convert([]byte(text), &out); err != nil {
		return safeHTML("<p>" + nethtml.EscapeString(text) + "</p>")
	}
	return safeHTML(readBack(out.String()))
}

// plainHTML is a text as it is, with its lines.
func plainHTML(text string) safeHTML {
	return safeHTML("<p>" + strings.ReplaceAll(nethtml.EscapeString(marked(text)), "\n", "<br>") + "</p>")
}

var reader = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.Strikethrough, extension.Table, extension.Linkify),
		goldmark.WithRendererOptions(html.WithHardWraps(), renderer.WithNodeRenderers(util.Prioritized(asText{}, 1))),
	)
})

// asText writes the nodes of Markdown that must not become what they say.
type asText struct{}

func (asText) RegisterFuncs(reg renderer.NodeRendererFuncRegisterer) {
	reg.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			segments := n.(*ast.RawHTML).Segments
			for i := range segments.Len() {
				segment := segments.At(i)
				_, _ = w.WriteString(nethtml.EscapeString(string(segment.Value(source))))
			}
		}
		return ast.WalkSkipChildren, nil
	})
	reg.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		_, _ = w.WriteString("<p>")
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			_, _ = w.WriteString(nethtml.EscapeString(string(line.Value(source))))
		}
		if closing := n.(*ast.HTMLBlock).ClosureLine; closing.Start >= 0 {
			_, _ = w.WriteString(nethtml.EscapeString(string(closing.Value(source))))
		}
		_, _ = w.WriteString("</p>")
		return ast.WalkContinue, nil
	})
	reg.Register(ast.KindImage, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = fmt.Fprintf(w, "[picture: %s, %s]", nethtml.EscapeString(words(n, source)), nethtml.EscapeString(string(n.(*ast.Image).Destination)))
		}
		return ast.WalkSkipChildren, nil
	})
	reg.Register(ast.KindHeading, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString("<p><strong>")
		} else {
			_, _ = w.WriteString("</strong></p>\n")
		}
		return ast.WalkContinue, nil
	})
	reg.Register(ast.KindLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		to, host := destination(string(n.(*ast.Link).Destination))
		switch {
		case to == "" && !entering:
			_, _ = fmt.Fprintf(w, " (%s)", nethtml.EscapeString(string(n.(*ast.Link).Destination)))
		case to == "":
		case entering:
			_, _ = fmt.Fprintf(w, `<a href="%s">`, nethtml.EscapeString(to))
		case slices.Contains([]string{host, to}, words(n, source)):
			_, _ = w.WriteString("</a>")
		default:
			_, _ = fmt.Fprintf(w, "</a> (%s)", nethtml.EscapeString(host))
		}
		return ast.WalkContinue, nil
	})
}

func words(n ast.Node, source []byte) string {
	var out strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // its func returns no error
		if t, ok := n.(*ast.Text); ok && entering {
			out.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return out.String()
}

// destination returns a link's address and where it leads. "": it is not a link that the page offers.
func destination(address string) (to, host string) {
	u, err := url.Parse(nethtml.UnescapeString(strings.TrimSpace(address)))
	if err != nil || !slices.Contains(allowedSchemes, strings.ToLower(u.Scheme)) {
		return "", ""
	}
	if u.Scheme == "mailto" {
		return u.String(), u.Opaque
	}
	if u.Host == "" {
		return "", ""
	}
	return u.String(), u.Host
}

// readBack reads HTML again, and writes what is allowed in it: tags of the list without attributes,
// links with their address, and text.
func readBack(text string) string {
	var out strings.Builder
	var open []string
	tokens := nethtml.NewTokenizer(strings.NewReader(text))
	for {
		kind := tokens.Next()
		if kind == nethtml.ErrorToken {
			break
		}
		token := tokens.Token()
		switch {
		case kind == nethtml.TextToken:
			out.WriteString(nethtml.EscapeString(marked(token.Data))) // &#x202E; is a character only now
		case kind == nethtml.CommentToken, kind == nethtml.DoctypeToken, !slices.Contains(allowedTags, token.Data):
		case kind == nethtml.EndTagToken:
			at := slices.Index(open, token.Data)
			if at < 0 {
				continue
			}
			for last := len(open) - 1; last >= at; last-- { // close what is open in it, too
				out.WriteString("</" + open[last] + ">")
			}
			open = open[:at]
		case token.Data == "br" || token.Data == "hr":
			out.WriteString("<" + token.Data + ">")
		case token.Data == "a":
			to := ""
			for _, a := range token.Attr {
				if a.Key == "href" {
					to, _ = destination(a.Val)
				}
			}
			if to == "" {
				continue
			}
			open = append(open, "a")
			out.WriteString(`<a href="` + nethtml.EscapeString(to) + `" rel="noopener noreferrer" target="_blank">`)
		default:
			open = append(open, token.Data)
			out.WriteString("<" + token.Data + ">")
		}
	}
	for _, tag := range slices.Backward(open) {
		out.WriteString("</" + tag + ">")
	}
	return out.String()
}

// marked shows characters that would change how others are read: controls, and those that turn the
// direction of a text.
func marked(text string) string {
	if !strings.ContainsFunc(text, isHidden) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if isHidden(r) {
			fmt.Fprintf(&out, "⟦U+%04X⟧", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

func isHidden(r rune) bool {
	switch r {
	case '\n', '\t', '\r':
		return false
	case '\u200d', '\u200c': // they join letters and emojis
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' || r == unicode.ReplacementChar
}
