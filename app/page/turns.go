package page

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/app/turnlog"
	"github.com/planbot-go/planbot/prompts"
)

func (p *Page) turnRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /dev/turns", p.turnList)
	mux.HandleFunc("GET /dev/turns.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"version": turnlog.Version, "turns": p.turns.Turns()})
	})
	mux.HandleFunc("GET /dev/turns/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, asJSON := strings.CutSuffix(r.PathValue("id"), ".json")
		rec, ok := p.turns.Turn(id)
		switch {
		case !ok:
			p.fail(w, http.StatusNotFound, "There is no turn "+id+" here. The page keeps the last ones, for as long as the bot runs.")
		case asJSON:
			countTokens(&rec)
			writeJSON(w, rec)
		default:
			p.show(w, "turn-page", "Turn "+id, p.turnView(rec, true))
		}
	})
}

// turnList shows all turns, or those that match a filter.
func (p *Page) turnList(w http.ResponseWriter, r *http.Request) {
	want := strings.ToLower(r.URL.Query().Get("q"))
	outcome := r.URL.Query().Get("outcome")
	all := slices.DeleteFunc(p.turns.Turns(), func(h turnlog.Head) bool {
		about := strings.ToLower(strings.Join([]string{h.ID, h.Person, h.Text, h.Outcome, strings.Join(h.Actions, " ")}, " "))
		return !strings.Contains(about, want) || outcome != "" && h.Outcome != outcome
	})
	p.show(w, "turns-page", "Turns", map[string]any{"Turns": all, "Query": r.URL.Query().Get("q"), "Outcome": outcome, "Outcomes": []string{
		turnlog.Running, turnlog.OK, turnlog.Failed, turnlog.Parked, turnlog.Waiting, turnlog.Ignored, turnlog.Duplicate,
	}})
}

// turnView is what a view of a turn shows.
type turnView struct {
	turnlog.Record
	Page    bool // a page of its own
	Before  string
	After   string
	Spans   []span
	Prev    string
	Next    string
	ByPath  []turnlog.Change
	Follows []string // turns that follow from clicks on its cards
	First   string   // the first line of its answer
}

// span is a bar of the waterfall.
type span struct {
	Name string
	From int // per cent of the turn's time, as is Wide
	Wide int
	Took time.Duration
}

func (p *Page) turnView(rec turnlog.Record, page bool) *turnView {
	countTokens(&rec)
	v := &turnView{Record: rec, Page: page, Before: pretty(rec.Before), After: pretty(rec.After)}
	all := p.turns.Turns()
	for i, h := range all {
		if h.ID == rec.ID {
			if i > 0 {
				v.Next = all[i-1].ID
			}
			if i+1 < len(all) {
				v.Prev = all[i+1].ID
			}
		}
		if h.Parent == rec.ID {
			v.Follows = append(v.Follows, h.ID)
		}
	}
	v.ByPath = merged(rec.Changes)
	v.Spans = waterfall(rec)
	return v
}

// merged has one change for each path: from the first value to the last. What is as it was is left
// out.
func merged(changes []turnlog.Change) (all []turnlog.Change) {
	for _, c := range changes {
		i := slices.IndexFunc(all, func(had turnlog.Change) bool { return had.Path == c.Path })
		if i < 0 {
			all = append(all, c)
			continue
		}
		all[i].After, all[i].By = c.After, cmp.Or(c.By, all[i].By)
	}
	return slices.DeleteFunc(all, func(c turnlog.Change) bool { return c.Before == c.After })
}

// waterfall says what took how long.
func waterfall(rec turnlog.Record) (spans []span) {
	whole := max(rec.WaitedNS+rec.TookNS, 1)
	if rec.Outcome == turnlog.Running {
		whole = max(time.Since(rec.At), 1)
	}
	add := func(name string, from, took time.Duration) {
		at := int(min(max(100*from/whole, 0), 99))
		spans = append(spans, span{name, at, int(max(1, min(100*took/whole, time.Duration(100-at)))), took})
	}
	add("wait", 0, rec.WaitedNS)
	for _, r := range rec.Rounds {
		if r.Answer != nil {
			add("model", r.At.Sub(rec.At), r.Answer.TookNS)
		}
	}
	for _, c := range rec.Commands {
		add(c.Action, c.At.Sub(rec.At)-c.TookNS, c.TookNS)
	}
	for _, s := range rec.Sent {
		add(s.Kind, s.At.Sub(rec.At), s.TookNS)
	}
	return spans
}

// countTokens counts the tokens of the prompts: the log leaves that to whoever shows them.
func countTokens(rec *turnlog.Record) {
	for i := range rec.Rounds {
		rec.Rounds[i].Sections = slices.Clone(rec.Rounds[i].Sections)
		for j := range rec.Rounds[i].Sections {
			s := &rec.Rounds[i].Sections[j]
			s.Tokens = prompts.Tokens(s.Text)
		}
	}
}

// Line is the turn in a few words.
func (v *turnView) Line() string {
	parts := []string{}
	if len(v.Actions) > 0 {
		parts = append(parts, strings.Join(v.Actions, ", "))
	}
	return strings.Join(append(parts, took(v.TookNS)), " · ")
}

// Attachments says how many of what was sent had a card, for the summary.
func (v *turnView) Attachments() (n int) {
	for _, s := range v.Sent {
		var a struct {
			Attachments []json.RawMessage `json:"attachments"`
		}
		if json.Unmarshal(s.Activity, &a) == nil {
			n += len(a.Attachments)
		}
	}
	return n
}
