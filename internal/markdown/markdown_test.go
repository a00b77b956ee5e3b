package markdown_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"github.com/planbot-go/planbot/internal/markdown"
)

// TestLines: single line breaks stay ones, and code is as it was.
func TestLines(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"Status: ok\nHost: web-1\nLoad: 3", "Status: ok  \nHost: web-1  \nLoad: 3"},
		{"one\r\ntwo\rthree", "one  \ntwo  \nthree"},
		{"one \ntwo  \nthree   \nfour\\\nfive", "one  \ntwo  \nthree   \nfour  \nfive"},
		{"C:\\dir\\\\\nnext\\\n\nend\\", "C:\\dir\\\\  \nnext\\\n\nend\\"},
		{"- a\n\n      code\n      more\\\n      end\n- b\n1. c\n\n       d\n       e", "- a\n\n      code\n      more\\\n      end\n- b  \n1. c\n\n       d\n       e"},
		{"```\na\n```\n    b\n    c", "```\na\n```\n    b\n    c"},
		{"a\n\nb\n", "a\n\nb\n"},
		{"a:\n- b\n- c\nd", "a:\n\n- b  \n- c  \nd"},
		{"a:\n1. b\n   more\n   - c\n2. d", "a:\n\n1. b  \n   more  \n   - c  \n2. d"},
		{"The year\n1984. was fine", "The year  \n1984. was fine"},
		{"A -\n- - -\nb", "A -  \n- - -  \nb"},
		{"x\n```go\na\nb\n```\ny\nz", "x  \n```go\na\nb\n```\ny  \nz"},
		{"~~~\na\n```\nb\n~~~\nc\nd", "~~~\na\n```\nb\n~~~\nc  \nd"},
		{"x\n\n    a\n    b\n\ny\nz", "x\n\n    a\n    b\n\ny  \nz"},
		{"1. x\n\n   ```\n   a\n   b\n   ```\n2. y", "1. x\n\n   ```\n   a\n   b\n   ```\n2. y"},
		{"- ```sh\n  a\n  b\n  ```\nz\ny", "- ```sh\n  a\n  b\n  ```\nz  \ny"},
		{"> a\n> b\n> ```\n> c\n> d\n> ```\n> e", "> a  \n> b  \n> ```\n> c\n> d\n> ```\n> e"},
		{"```\nnever\nclosed", "```\nnever\nclosed"},
		{"# T\n## U\nx\n***\ny", "# T  \n## U  \nx  \n***  \ny"},
	}
	for _, tt := range tests {
		got := markdown.Lines(tt.text)
		if got != tt.want {
			t.Errorf("%q became\n%q, want\n%q", tt.text, got, tt.want)
		}
		if again := markdown.Lines(got); again != got {
			t.Errorf("%q became %q the second time", got, again)
		}
	}
}

// TestFit: tables become lists, and numbers go on.
func TestFit(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{
			"Here:\n| Name | Age |\n|:-----|----:|\n| Ann | 5 |\n| **Bob** | [6](https://a.example) |\nEnd",
			"Here:\n\n- **Name:** Ann · **Age:** 5\n- **Name:** **Bob** · **Age:** [6](https://a.example)\n\nEnd",
		},
		{"Name | Age\n--- | ---\nAnn | 5", "- **Name:** Ann · **Age:** 5"},
		{"|  | 2023: | `x` |\n|---|---|---|\n| Cost<br>net | 1\\|2 |  |\n\nEnd", "- Cost / net · **2023:** 1|2\n\nEnd"},
		{"|Op|Use|\n|---|---|\n|`a|b`|or|\n|[x|y](https://a.example/?q=1|2)|link|\n|`|`|``a`|b``|", "- **Op:** `a|b` · **Use:** or\n- **Op:** [x|y](https://a.example/?q=1|2) · **Use:** link\n- **Op:** `|` · **Use:** ``a`|b``"},
		{"| ` | ` |\n|---|---|\n| ` | b` |", "- ` · b`"},
		{"> | A |\n> |---|\n> | 1 |", "> - **A:** 1"},
		{"| A | B |\n|---|---|", "A · B"},
		{"| A | B |\n|---|---|\n| 1 | 2 | 3 |\n|  |  |", "- **A:** 1 · **B:** 2 · 3"},
		{"```\n| A | B |\n|---|---|\n| 1 | 2 |\n```", "```\n| A | B |\n|---|---|\n| 1 | 2 |\n```"},
		{"a | b\nc | d", "a | b\nc | d"},
		{"a\n---\nb", "a\n---\nb"},
		{"1. a\n1. b\n\n   more\n1. c\n\nNew:\n\n1. d\n1. e", "1. a\n2. b\n\n   more\n3. c\n\nNew:\n\n1. d\n2. e"},
		{"1. a\n   1. x\n   1. y\n1. b\n   - z\n1. c", "1. a\n   1. x\n   2. y\n2. b\n   - z\n3. c"},
		{"3) a\n3) b\n7) c", "3) a\n4) b\n7) c"},
		{"```\n1. a\n1. b\n```", "```\n1. a\n1. b\n```"},
	}
	for _, tt := range tests {
		got := markdown.Fit(tt.text)
		if got != tt.want {
			t.Errorf("%q became\n%q, want\n%q", tt.text, got, tt.want)
		}
		for i := range tt.text {
			if draft := markdown.FitDraft(tt.text[:i]); strings.HasPrefix(strings.TrimLeft(tt.text, "> "), "|") && !strings.HasPrefix(got, draft) {
				t.Errorf("%q shows %q early, which is no beginning of %q", tt.text[:i], draft, got)
			}
		}
	}
}

// corpus is what models write, long enough to be cut.
func corpus() map[string]string {
	repeat := func(n int, form string) string {
		var s strings.Builder
		for i := range n {
			s.WriteString(strings.ReplaceAll(form, "#N", fmt.Sprint(i+1)))
		}
		return s.String()
	}
	return map[string]string{
		"code":            "Config:\n\n```yaml\n" + repeat(900, "key_#N: __value__ *#N*\n") + "```\n\nDone.",
		"code with tilde": "Config:\n\n~~~~\n" + repeat(900, "key_#N: ``` #\n") + "~~~~\n\nDone.",
		"code in an item": "1. Run:\n\n   ```sh\n" + repeat(900, "   echo #N\n") + "   ```\n2. Then\n3. More",
		"code in a quote": "> See:\n> ```sh\n" + repeat(900, "> echo #N\n") + "> ```\n> So.",
		"a line of code":  "```\n" + repeat(3000, "word#N ") + "\n```\n",
		"code in a line":  "Run ```" + repeat(3000, "_word#N_ ") + "``` so.",
		"links":           repeat(700, "see [the page number #N](https://example.com/a/#N?q=1) "),
		"links in lines":  repeat(700, "[page #N](https://example.com/#N)\n"),
		"bold":            repeat(900, "**bold words #N of it** and plain; "),
		"one bold":        "**" + repeat(1200, "word#N ") + "end**",
		"a long bold":     "Plain. **" + repeat(6000, "word#N ") + "end** and __" + repeat(4000, "字#N") + "__ end.",
		"nested marks":    repeat(300, "**bold _and slanted #N words_ and ~~gone~~ `some code #N`** then plain words; "),
		"numbered":        "Steps:\n\n" + repeat(1200, "#N. Do the thing\n"),
		"all ones":        "Steps:\n\n" + repeat(1200, "1. Do thing #N\n"),
		"nested numbers":  "Steps:\n\n" + repeat(300, "1. Step #N\n   1. First\n   1. Second\n   - a point\n"),
		"one long item":   "1. One\n2. Two:\n" + repeat(900, "    - point #N\n") + "3. Three\n4. Four\n",
		"loose items":     repeat(500, "#N. Item\n\n   More of the item.\n\n"),
		"table":           "Here:\n\n| Name | Age | City |\n|---|---|---|\n" + repeat(500, "| Ann #N | #N | Rome |\n") + "\nDone.",
		"paragraphs":      repeat(300, "A paragraph with some words, the number #N.\nA second line.\n\n"),
		"headings":        repeat(300, "## Heading #N\nText of it.\n"),
		"sources":         repeat(1500, "A fact #N. [1] "),
		"years":           repeat(1500, "It was in #N. # - x | y > z "),
		"one word":        strings.Repeat("x", 40_000),
		"families":        strings.Repeat("👨‍👩‍👧‍👦", 4_000),
		"brackets":        strings.Repeat("[", 12_000),
		"stars":           strings.Repeat("**a ", 3_000),
	}
}

const most = 5_000

// TestSplit: what is cut shows what the whole shows. A reader of all Markdown is the judge.
func TestSplit(t *testing.T) {
	t.Parallel()
	for name, whole := range corpus() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole = markdown.Fit(whole)
			parts := markdown.Split(whole, most)
			if len(parts) < 2 {
				t.Fatalf("%d parts", len(parts))
			}
			var got reading
			for i, part := range parts {
				if n := len(utf16.Encode([]rune(markdown.Lines(part)))); n > most {
					t.Errorf("part %d has %d code units", i, n)
				}
				got = append(got, read(part)...)
			}
			if want := read(whole); !slices.Equal(got.joined(), want.joined()) {
				for i, line := range want.joined() {
					if i >= len(got.joined()) || got.joined()[i] != line {
						t.Fatalf("%d of %d differs\ngot  %.300q\nwant %.300q", i, len(want.joined()), got.joined()[min(i, len(got.joined())-1):], line)
					}
				}
				t.Fatalf("more: %d and %d", len(got.joined()), len(want.joined()))
			}
			if head := whole[:markdown.Head(whole, most)]; !strings.HasPrefix(parts[0], head) {
				t.Errorf("the first part does not begin with what may be shown early: %.100q", parts[0][len(parts[0])-100:])
			}
		})
	}
}

// TestDrafts: what is shown early stays, wherever the text so far ends.
func TestDrafts(t *testing.T) {
	t.Parallel()
	for name, whole := range corpus() {
		whole = whole[:min(len(whole), 400)]
		final := markdown.Fit(whole)
		for i := range whole {
			if draft := markdown.FitDraft(whole[:i]); !strings.HasPrefix(final, draft) {
				t.Fatalf("%s: %q is shown early, which is no beginning of %q", name, draft, final)
			}
		}
	}
}

// TestRest: code goes on in the next message, although the one before cannot be changed any more.
func TestRest(t *testing.T) {
	t.Parallel()
	tests := []struct{ sent, rest, want string }{
		{"a", " b", "b"},
		{"```go\na\n", "b\n```\nc", "```go\nb\n```\nc"},
		{"```go\na", "\nb\n```\nc", "```go\nb\n```\nc"},
		{"```go\na\n", "```\nc", "c"},
		{"```\na\n```\nb", "\nc", "c"},
	}
	for _, tt := range tests {
		if got := markdown.Rest(tt.sent, tt.rest); got != tt.want {
			t.Errorf("%q + %q: %q, want %q", tt.sent, tt.rest, got, tt.want)
		}
	}
}

// reading is what a reader of Markdown sees, word by word: each with how it is shown.
type reading []string

var spaces = regexp.MustCompile(`\s+`)

// joined puts together the words that are shown in the same way, since a cut may be within them.
func (r reading) joined() []string {
	var all []string
	last := ""
	for _, one := range r {
		how, words, _ := strings.Cut(one, "\x00")
		words = spaces.ReplaceAllString(words, "")
		switch {
		case words == "":
		case len(all) > 0 && how == last:
			all[len(all)-1] += words
		default:
			all = append(all, how+": "+words)
			last = how
		}
	}
	return all
}

func read(source string) (all reading) {
	raw := []byte(source)
	root := goldmark.New().Parser().Parse(text.NewReader(raw))
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			all = append(all, how(n)+"\x00"+string(n.Value(raw)))
		case *ast.FencedCodeBlock:
			all = append(all, "code "+string(n.Language(raw))+"\x00"+string(n.Lines().Value(raw)))
		case *ast.CodeBlock:
			all = append(all, "code\x00"+string(n.Lines().Value(raw)))
		}
		return ast.WalkContinue, nil
	})
	return all
}

// how says how a node is shown: what is around it, and its number in a list.
func how(n ast.Node) (s string) {
	listed := false
	for p := n.Parent(); p != nil; p = p.Parent() {
		switch p := p.(type) {
		case *ast.Emphasis:
			s += fmt.Sprint("emphasis ", p.Level, " ")
		case *ast.Link:
			s += "link " + string(p.Destination) + " "
		case *ast.CodeSpan, *ast.Blockquote, *ast.Heading:
			s += p.Kind().String() + " "
		case *ast.ListItem:
			list := p.Parent().(*ast.List)
			if listed || !list.IsOrdered() {
				listed = true
				continue
			}
			listed = true
			number := list.Start
			for before := p.PreviousSibling(); before != nil; before = before.PreviousSibling() {
				number++
			}
			s += fmt.Sprint("number ", number)
		}
	}
	return s
}
