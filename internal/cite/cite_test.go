package cite_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/cite"
)

// TestText: marks of sources are numbered in the order of their first use, all others vanish, and code stays.
func TestText(t *testing.T) {
	t.Parallel()
	three := []activity.Citation{{Title: "one"}, {Title: "two"}, {Title: " "}}
	var many []activity.Citation
	for range 25 {
		many = append(many, activity.Citation{Title: "x"})
	}
	for text, want := range map[string]string{
		"A [3]. B [1]. C [7].":                 "A [1]. B [2]. C. | Source 3, one",
		"`arr[1]` is first [2]":                "`arr[1]` is first [1] | two",
		"```\na[1]\n```\nx [2].":               "```\na[1]\n```\nx [1]. | two",
		"``a`[1]`` [1]":                        "``a`[1]`` [1] | one",
		"``` open [1]":                         "``` open [1] | ",
		"both [1][2], [2, 1] and [9, 2]":       "both [1][2], [2][1] and [2] | one, two",
		"wide 【2】, note [^1], both【2†a.md】":    "wide [1], note [2], both[1] | two, one",
		"[link](https://a.example) [1](b) [2]": "[link](https://a.example) [1](b) [1] | two",
		"[0] [99999] [x] [] 1]":                "[0] [99999] [x] [] 1] | ",
		"https://a.example/[2] [2]":            "https://a.example/[2] [1] | two",
		"list[2].html and [2].html, [2]nd":     "list[2].html and [2].html, [2]nd | ",
		"a[0], a[1][2], x[i][1], f([1]) = [1]": "a[0], a[1][2], x[i][1], f([1]) = [1] | one",
		"[2024], [0, 1], [100] and [2] of it":  "[2024], [0, 1], [100] and [1] of it | two",
		"So (see [2]) it is ([1]); [2]: yes":   "So (see [1]) it is ([2]); [1]: yes | two, one",
		"三十天[2]。**Yes**[1], “no”[9].":          "三十天[1]。**Yes**[2], “no”. | two, one",
		"[text][1] and $[1] and ünï[2]":        "[text][1] and $[1] and ünï[2] | ",
		"- [ ] to do [2]\n[1] said":            "- [ ] to do [1]\n[2] said | two, one",
		"~~~py\na[7]\n~~~\nx [2].":             "~~~py\na[7]\n~~~\nx [1]. | two",
		"````\n```\na[7]\n```\n````\nx [2]":    "````\n```\na[7]\n```\n````\nx [1] | two",
		"~~old~~ [2] ~~~ [7]":                  "~~old~~ [1] ~~~ | two",
		"A [2]. B [02]. C [ 2 ]. D 【2, 1】":     "A [1]. B [1]. C [1]. D [1][2] | two, one",
		"both【2:1†a.md】":                       "both[1] | two",
		"A [1-3]. B [2 – 9], 【2-3】 [3,1-2]":    "A [1][2][3]. B [2][3], [2][3] [3][1][2] | one, two, Source 3",
		"A [7-9], [2024-2025] and [3-1]":       "A, [2024-2025] and [1] | Source 3",
		"a `b [2]":                             "a `b [1] | two",
	} {
		got, used := cite.Text(text, three)
		var titles []string
		for _, u := range used {
			titles = append(titles, u.Title)
		}
		if got += " | " + strings.Join(titles, ", "); strings.TrimLeft(got, " ") != want && got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	text := ""
	for i := range 25 {
		text += " [" + string("123456789"[i%9]) + "]"
		if i >= 9 {
			text += " [1" + string("0123456789"[i%10]) + "] [2" + string("012345"[i%6]) + "]"
		}
	}
	if got, used := cite.Text(text, many); len(used) != cite.Most || strings.Contains(got, "[21]") {
		t.Errorf("%d sources: %s", len(used), got)
	}
}

// TestBeginning: what is shown of a growing text is always the beginning of what is shown in the end.
func TestBeginning(t *testing.T) {
	t.Parallel()
	read := []activity.Citation{{Title: "one"}, {Title: "two"}, {Title: "three"}}
	for _, text := range []string{
		"A [3]. B [1, 2]. C [7]. And 2026 [2](link) end", "see `arr[1]` and [2] ``x`` [9]", "```go\na[1]\n``` then [3]\n\n- [ ] x 【2†b】.", "~~~\na[1]\n~~~ then [3] and [ 2 ] 【1, 2】 ~~x~~ ~", "one [2][1]", "a[0] [2].html, x[1][2], https://a.example/[2] and [1]. So [2]: it is ([3]).", "in [1-3], [7–9] and [2024-2025] - so [1] - [2-1",
	} {
		whole, _ := cite.Text(text, read)
		longest := 0
		for i := range text {
			shown := cite.Beginning(text[:i], read)
			if !strings.HasPrefix(whole, shown) {
				t.Errorf("%q: shown %q, in the end %q", text[:i], shown, whole)
			}
			longest = max(longest, len(shown))
		}
		if longest < len(whole)/2 {
			t.Errorf("%q: only %d bytes were shown early", text, longest)
		}
	}
}
