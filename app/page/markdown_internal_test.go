package page

import (
	"strings"
	"testing"

	nethtml "golang.org/x/net/html"
)

// This test is inside the package: a text becomes HTML in one function, which no view calls alone.

// FuzzMarkdown reads the HTML of any text with a second parser.
func FuzzMarkdown(f *testing.F) {
	for _, text := range []string{
		"**bold** and `code`", `<img src=x onerror=alert(1)>`, "[x](javascript:alert(1))", "[x](javascript&colon;alert(1))", "![p](https://example.invalid/?q=1)",
		"<script>alert(1)</script>", "<https://a.example>", "| a | b |\n|---|---|\n| <b> | [c](https://d.example) |", "a\u202eb", "`&#x202E;` &#x202E;", "<!-- c -->\n<div onclick=x>",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens := nethtml.NewTokenizer(strings.NewReader(string(toHTML(text))))
		for tokens.Next() != nethtml.ErrorToken {
			token := tokens.Token()
			if token.Type == nethtml.TextToken && strings.ContainsFunc(token.Data, isHidden) {
				t.Errorf("%q has hidden characters: %q", text, token.Data)
			}
			if token.Type == nethtml.TextToken || token.Type == nethtml.EndTagToken {
				continue
			}
			for _, a := range token.Attr {
				if token.Data != "a" || a.Key == "href" && !strings.HasPrefix(a.Val, "http:") && !strings.HasPrefix(a.Val, "https:") && !strings.HasPrefix(a.Val, "mailto:") {
					t.Errorf("%q has <%s %s=%q>", text, token.Data, a.Key, a.Val)
				}
			}
			if strings.Contains(" img script style div iframe svg form input object embed link meta base ", " "+token.Data+" ") || token.Type == nethtml.CommentToken {
				t.Errorf("%q became <%s>", text, token.Data)
			}
		}
	})
}

// TestMarkdownShows holds on to what must stay readable.
func TestMarkdownShows(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`a <img src=x onerror=y>`:                     "&lt;img src=x onerror=y&gt;",
		"[x](javascript:alert(1))":                    "x (javascript:alert(1))",
		"![p](https://e.invalid/?q=1)":                "[picture: p, https://e.invalid/?q=1]",
		"[x](https://a.example/b)":                    `<a href="https://a.example/b" rel="noopener noreferrer" target="_blank">x</a> (a.example)`,
		"[https://bank.example/e.vil](https://e.vil)": "https://bank.example/e.vil</a> (e.vil)",
		"a\u202eb":                        "⟦U+202E⟧",
		"[a&#x202E;b](https://a.example)": ">a⟦U+202E⟧b<",
		"**b**":                           "<strong>b</strong>",
	} {
		if got := string(toHTML(text)); !strings.Contains(got, want) {
			t.Errorf("%q became %q, want %q in it", text, got, want)
		}
	}
}

// TestSafeCard names what a card would load, shows hidden characters, and leaves alone what goes back to the bot.
func TestSafeCard(t *testing.T) {
	t.Parallel()
	for card, want := range map[string]string{
		`{"type":"Image","url":"https://evil.example/?q=1","altText":"a cat"}`: `{"text":"[picture: a cat, from evil.example]","type":"TextBlock","wrap":true}`,
		`{"type":"Image","url":"data:image/png;base64,AA"}`:                    `{"type":"Image","url":"data:image/png;base64,AA"}`,
		`{"type":"Image","url":"javascript:alert(1)","selectAction":{"type":"Action.Submit","data":1}}`: `{"items":[{"text":"[picture: ]","type":"TextBlock","wrap":true}],` +
			`"selectAction":{"data":1,"type":"Action.Submit"},"type":"Container"}`,
		`{"type":"ImageSet","images":[{"type":"Image","url":"//evil.example/x"}]}`:                              `{"items":[{"text":"[picture: ]","type":"TextBlock","wrap":true}],"type":"Container"}`,
		`{"type":"Media","poster":"https://a.example/p","sources":[{"url":"https://b.example/v"}]}`:             `{"text":"[media: from b.example]","type":"TextBlock","wrap":true}`,
		`{"type":"Container","backgroundImage":{"url":"https://a.example/"},"items":[]}`:                        `{"items":[],"type":"Container"}`,
		`{"type":"Action.Submit","title":"\u202eyap","iconUrl":"https://a.example/","data":{"title":"\u202e"}}`: `{"data":{"title":"\u202e"},"title":"⟦U+202E⟧yap","type":"Action.Submit"}`,
		`{"choices":[{"title":"\u202ea","value":"\u202ea"}],"n":12345678901234567890}`:                          `{"choices":[{"title":"⟦U+202E⟧a","value":"\u202ea"}],"n":12345678901234567890}`,
	} {
		if got := strings.ReplaceAll(newCard([]byte(card)).JSON, "\u202e", `\u202e`); got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", card, got, want)
		}
	}
}
