package page

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/app/turnlog"
)

// compared shows two turns side by side.
type compared struct{ page *Page }

func (c compared) routes(mux *http.ServeMux) {
	both := func(show func(w http.ResponseWriter, v compareView)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var of [2]turnlog.Record
			for i, name := range []string{"a", "b"} {
				id := r.URL.Query().Get(name)
				rec, ok := c.page.turns.Turn(id)
				if !ok {
					c.page.fail(w, http.StatusNotFound, "There is no turn "+strconv.Quote(id)+" here to compare.")
					return
				}
				countTokens(&rec)
				of[i] = rec
			}
			show(w, compare(of[0], of[1]))
		}
	}
	mux.HandleFunc("GET /dev/turns/compare", both(func(w http.ResponseWriter, v compareView) {
		c.page.show(w, "compare", "Compare turns", v)
	}))
	mux.HandleFunc("GET /dev/turns/compare.json", both(func(w http.ResponseWriter, v compareView) { writeJSON(w, v) }))
}

// sides is one thing in both turns.
type sides struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// Same reports whether both turns have the same there.
func (s sides) Same() bool { return s.A == s.B }

// compareView is two turns side by side.
type compareView struct {
	Version int            `json:"version"`
	A       turnlog.Head   `json:"a"`
	B       turnlog.Head   `json:"b"`
	Parts   []comparedPart `json:"parts"`
}

// comparedPart is a part of both turns.
type comparedPart struct {
	Name string  `json:"name"`
	Rows []sides `json:"rows"`
}

func compare(a, b turnlog.Record) compareView {
	v := compareView{Version: 1, A: a.Head, B: b.Head}
	var facts, prompt, answer, plans []sides
	fact := func(name string, of func(turnlog.Head) string) {
		facts = append(facts, sides{name, of(a.Head), of(b.Head)})
	}
	fact("received", func(h turnlog.Head) string { return h.Text })
	fact("outcome", func(h turnlog.Head) string { return strings.TrimSpace(h.Outcome + " " + h.Error) })
	fact("waited", func(h turnlog.Head) string { return took(h.WaitedNS) })
	fact("took", func(h turnlog.Head) string { return took(h.TookNS) })
	fact("model calls", func(h turnlog.Head) string { return strconv.Itoa(h.ModelCalls) })
	fact("tokens", func(h turnlog.Head) string {
		return fmt.Sprintf("%d in (%d cached), %d out", h.TokensIn, h.TokensCached, h.TokensOut)
	})
	fact("cost", func(h turnlog.Head) string { return strconv.FormatFloat(h.Cost, 'f', 4, 64) })
	for i := range max(len(a.Rounds), len(b.Rounds)) {
		x, y := at(a.Rounds, i), at(b.Rounds, i)
		for j := range max(len(x.Sections), len(y.Sections)) {
			s, other := at(x.Sections, j), at(y.Sections, j)
			prompt = append(prompt, sides{fmt.Sprintf("question %d: %s", i+1, names(s.Name, other.Name)), section(s), section(other)})
		}
		answer = append(answer, sides{fmt.Sprintf("answer %d", i+1), answerOf(x), answerOf(y)})
	}
	for i := range max(len(a.Plans), len(b.Plans)) {
		plans = append(plans, sides{fmt.Sprintf("plan %d", i+1), planOf(at(a.Plans, i)), planOf(at(b.Plans, i))})
	}
	v.Parts = []comparedPart{{"Facts", facts}, {"Prompt", prompt}, {"Answer", answer}, {"Plan", plans}}
	return v
}

// at is the element there, or an empty one if there is none.
func at[T any](all []T, i int) (one T) {
	if i < len(all) {
		one = all[i]
	}
	return one
}

// names are both names, or the one that there is.
func names(a, b string) string {
	if a == b || b == "" {
		return a
	}
	return strings.TrimPrefix(a+", "+b, ", ")
}

func section(s turnlog.Section) string {
	switch {
	case s.Name == "":
		return ""
	case s.Left:
		return fmt.Sprintf("%d tokens, left out\n%s", s.Tokens, s.Text)
	}
	return fmt.Sprintf("%d tokens\n%s", s.Tokens, s.Text)
}

func answerOf(r turnlog.Round) string {
	var lines []string
	if a := r.Answer; a != nil {
		lines = append(lines, a.Error, a.Text)
		for _, c := range a.Calls {
			lines = append(lines, c.Name+" "+c.Arguments)
		}
	}
	if r.Refused != nil {
		lines = append(lines, "refused: "+r.Refused.Kind+": "+r.Refused.Detail)
	}
	return joined(lines)
}

func planOf(p turnlog.Plan) string {
	var lines []string
	for _, c := range p.Commands {
		line := strings.Join(strings.Fields(c.Kind+" "+c.Action), " ") + " " + c.Entities + c.Response
		if c.SaveAs != "" {
			line += " → $" + c.SaveAs
		}
		lines = append(lines, line)
	}
	return joined(lines)
}

// joined are the lines with something in them.
func joined(lines []string) string {
	var all []string
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return strings.Join(all, "\n")
}
