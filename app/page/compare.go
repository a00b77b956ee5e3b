package page

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/planbot-go/planbot/app/internal/turnlog"
)

// compared shows two turns side by side.
type compared struct{ page *server }

func (c compared) routes(mux *http.ServeMux) {
	both := func(show func(w http.ResponseWriter, v compareView)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var of [2]turnlog.Record
			ids := r.URL.Query()["turn"]
			switch {
			case len(ids) == 2:
			case strings.HasSuffix(r.URL.Path, ".json"):
				c.page.fail(w, http.StatusBadRequest, "Name two turns to compare.")
				return
			default: // the list says what to do
				http.Redirect(w, r, "/dev/turns?"+url.Values{"ticked": append(ids, "")}.Encode(), http.StatusSeeOther)
				return
			}
			for i, id := range ids {
				rec, ok := c.page.turns.Turn(id)
				if !ok {
					c.page.fail(w, http.StatusNotFound, "There is no turn "+strconv.Quote(id)+" here to compare.")
					return
				}
				countTokens(&rec, c.page.cfg.Counter)
				of[i] = rec
			}
			show(w, compare(of[0], of[1]))
		}
	}
	mux.HandleFunc("GET /dev/turns/compare", both(func(w http.ResponseWriter, v compareView) {
		c.page.show(w, "/dev/turns", "Compare turns", v.html())
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

const maxInline = 60 // how long a text may be that is shown without a frame

// Inline reports whether both fit into a line.
func (s sides) Inline() bool {
	return max(len(s.A), len(s.B)) <= maxInline && !strings.Contains(s.A+s.B, "\n")
}

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
	fact("outcome", func(h turnlog.Head) string { return strings.TrimSpace(outcomeOf(h) + " " + h.Error) })
	fact("waited", func(h turnlog.Head) string { return took(h.WaitedNS + h.PausedNS) })
	fact("took", func(h turnlog.Head) string { return tookOf(h) })
	fact("model calls", func(h turnlog.Head) string { return strconv.Itoa(h.ModelCalls) })
	fact("tokens", func(h turnlog.Head) string {
		return fmt.Sprintf("%d in (%d cached), %d out", h.TokensIn, h.TokensCached, h.TokensOut)
	})
	if a.Cost+b.Cost > 0 {
		fact("cost", func(h turnlog.Head) string { return strconv.FormatFloat(h.Cost, 'f', 4, 64) })
	}
	for i := range max(len(a.Rounds), len(b.Rounds)) {
		x, y := at(a.Rounds, i), at(b.Rounds, i)
		for _, name := range sectionsOf(x, y) {
			prompt = append(prompt, sides{fmt.Sprintf("question %d: %s", i+1, name), section(x, name), section(y, name)})
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

// sectionsOf are the names of the sections of both questions.
func sectionsOf(x, y turnlog.Round) (names []string) {
	for _, s := range slices.Concat(x.Sections, y.Sections) {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

// section is all that a question has under that name.
func section(r turnlog.Round, name string) string {
	var lines []string
	tokens := 0
	for _, s := range r.Sections {
		switch {
		case s.Name != name:
		case s.Left:
			lines = append(lines, "(left out) "+s.Text)
		default:
			lines = append(lines, s.Text)
			tokens += s.Tokens
		}
	}
	if lines == nil {
		return ""
	}
	return fmt.Sprintf("%d tokens\n%s", tokens, strings.Join(lines, "\n"))
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
