package markdown_test

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/renderer/html"

	"github.com/planbot-go/planbot/internal/markdown"
)

func TestTame(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain * text, a < b, 1 [2] !":                            "plain * text, a < b, 1 [2] !",
		"[docs](https://example.com/a) <https://x.com>":           "[docs](https://example.com/a) <https://x.com>",
		"![t](https://evil.example/?q=secret)":                    "t (evil.example)",
		"![a b]( <https://evil.example/x> \"title\" )":            "a b (evil.example)",
		"![](http://evil.example)":                                "(evil.example)",
		"![t](https://ok.example/a.png)":                          "![t](https://ok.example/a.png)",
		"![t](https://ok.example/a \"<img src=x>\")":              "t (ok.example)",
		"![t](https://ok.example/a 'a title')":                    "![t](https://ok.example/a)",
		"![t](https://ok.example/a \"![y](https://b.example)\")":  "![t](https://ok.example/a)",
		"![t\\](https://ok.example/a)](https://evil.example)":     "t\\ (ok.example)](https://evil.example)",
		"![t`](https://ok.example/a)`](https://evil.example)":     "t` (ok.example)`](https://evil.example)",
		"![!](x)[a](https://evil.example)":                        "!~[a](https://evil.example)",
		"!![](x)[a](https://evil.example)":                        "!~[a](https://evil.example)",
		"![<](x)img src=https://evil.example>":                    "<~img src=https://evil.example>",
		"[x]![](https://evil.example)":                            "[x]~(evil.example)",
		"[x]![(javascript:alert(1))](https://evil.example)":       "[x]~(javascript:alert(1)) (evil.example)",
		"[x]![](y)(javascript:1)":                                 "[x]~(javascript:1)",
		"[x]![: javascript:1](y)":                                 "[x]~: javascript:1",
		"![t](http://ok.example/a.png)":                           "t (ok.example)",
		"![t](https://ok.example@evil.example/)":                  "t (evil.example)",
		"![t](https://ok.example.evil.example/)":                  "t (ok.example.evil.example)",
		"![t](https://ok.example:444/)":                           "t (ok.example)",
		"![t](//evil.example/x)":                                  "t (evil.example)",
		"![t](data:image/png;base64,AA)":                          "t",
		"![t][ref]\n\n[ref]: https://evil.example/x":              "!~[t][ref]\n\n[ref]: https://evil.example/x",
		"![t]\n\n[t]: data:x":                                     "!~[t]\n\n[t]~: data:x",
		"![a [b] c](https://evil.example)":                        "!~[a [b] c](https://evil.example)",
		"![a](https://evil.example/(x))":                          "!~[a](https://evil.example/(x))",
		"!![a](https://evil.example)[b](https://c.com)":           "!a (evil.example)[b](https://c.com)",
		"[![a](https://evil.example)](https://c.com)":             "[a (evil.example)](https://c.com)",
		"![<img src=x>](https://evil.example)":                    "<~img src=x> (evil.example)",
		"`![t](https://evil.example)`":                            "`t (evil.example)`",
		"[x](javascript:alert(1)) [y](JavaScript:1)":              "[x]~(javascript:alert(1)) [y]~(JavaScript:1)",
		"[x]( \n<javascript:1>)":                                  "[x]~( \n<~javascript:1>)",
		"[x](<https://a.example)":                                 "[x]~(<~https://a.example)",
		"[x](<https://a.example>)":                                "[x](<https://a.example>)",
		"[x](&#106;avascript:1) [x](java\tscript:1)":              "[x]~(&#106;avascript:1) [x]~(java\tscript:1)",
		"[x][y]\n[y]: vbscript:1":                                 "[x][y]\n[y]~: vbscript:1",
		"<img src=https://evil.example> <IMG/src=x>":              "<~img src=https://evil.example> <~IMG/src=x>",
		"<https://x.com onclick=1> <javascript:1>":                "<~https://x.com onclick=1> <~javascript:1>",
		"<at>Mia</at> <!-- x --> <?x?> </p>":                      "<at>Mia</at> <~!-- x --> <~?x?> <~/p>",
		"```html\n<img src=x>\n```\n<b>":                          "```html\n<img src=x>\n```\n<~b>",
		"```\n<img src=x>":                                        "```\n<~img src=x>",
		"````\n```\n````\n<img src=x>\n```":                       "````\n```\n````\n<~img src=x>\n```",
		" ```\n<img>\n```":                                        " ```\n<~img>\n```",
		"![a](https://a.example \"\n```\n\")\n<img src=x>\n```\n": "a (a.example)\n<~img src=x>\n```\n",
		"x![\n```\n](https://a.example)\n<img src=x>\n```\nend":   "x```\n (a.example)\n<~img src=x>\n```\nend",
		"<at>\n```\n<img src=x>\n```\n":                           "<at>\n```\n<~img src=x>\n```\n",
		"</at>\n```\n<img src=x>\n```\n":                          "</at>\n```\n<~img src=x>\n```\n",
		"~~~\n```\n~~~\n<img>\n```":                               "~~~\n```\n~~~\n<~img>\n```",
	} {
		if got := strings.ReplaceAll(markdown.Tame(text, []string{"ok.example"}), "\u200b", "~"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestTameMakesNoMarkup of texts that are put together at random: a client such as this one loads and runs nothing of them.
func TestTameMakesNoMarkup(t *testing.T) {
	t.Parallel()
	parts := []string{
		"!", "[", "]", "(", ")", "![", "](", "<", ">", "x", "https://evil.example/q", "https://ok.example/a", "![x](y)", "![](y)", "![!](y)", "![<](y)",
		"javascript:1", "`", "\\", "img src=https://evil.example/p>", " ", "\"", "[x]", "(javascript:1)", "[a](https://evil.example/q)",
		"![x](https://ok.example/a)", ": javascript:1", "\n", "](https://ok.example/a)", "](https://evil.example/q)", "[r]: https://evil.example/q", "[r]",
		"<at>\n", "</at>\n", "```\n", "<img src=https://evil.example/p>",
	}
	client := goldmark.New(goldmark.WithRendererOptions(html.WithUnsafe()))
	loads := regexp.MustCompile(`(?i)src="(?:[^h]|h[^t]|https?://[^o])|href="(?:[^hmt#"]|javascript)|<(?:img src=h|!|ximg|script)`)
	chance := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		var text strings.Builder
		for range 1 + chance.IntN(12) {
			text.WriteString(parts[chance.IntN(len(parts))])
		}
		var shown strings.Builder
		tamed := markdown.Tame(text.String(), []string{"ok.example"})
		if err := client.Convert([]byte(tamed), &shown); err != nil || loads.MatchString(shown.String()) {
			t.Fatalf("%q became %q, which is %s, %v", text.String(), tamed, shown.String(), err)
		}
	}
}

// TestRestOfAFence: a text that is cut within a fence goes on with a whole one.
func TestRestOfAFence(t *testing.T) {
	t.Parallel()
	for cut, want := range map[string]string{
		"x\n``|`\n<img src=x>\n```":              "```\n<img src=x>\n```",
		"```\nx\n`|``\ny\n```\n<img src=x>\n```": "y\n```\n<img src=x>\n```",
		"x `|`y``":                               "``y``",
	} {
		sent, rest, _ := strings.Cut(cut, "|")
		if got := markdown.Rest(sent, rest); got != want {
			t.Errorf("%q: got %q, want %q", cut, got, want)
		}
	}
}

// TestTameDraft: of a text that grows nothing is shown that is loaded, and little that changes.
func TestTameDraft(t *testing.T) {
	t.Parallel()
	const text = "See ![t](https://evil.example/?q=secret), <b>this</b> and [that](https://c.com), a < b!"
	for i := range len(text) {
		got := markdown.TameDraft(text[:i], nil)
		if strings.Contains(got, "![") || strings.Contains(got, "secret") || strings.Contains(got, "<b") || !strings.HasPrefix(markdown.Tame(text, nil), got) {
			t.Errorf("%q: %q", text[:i], got)
		}
	}
}
