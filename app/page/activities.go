package page

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/app/internal/turnlog"
)

// passed is something that came in or went out.
type passed struct {
	At       time.Time      `json:"at"`
	Out      bool           `json:"out"`
	Kind     string         `json:"kind"` // the type of the activity, or what the bot asked of the channel
	Person   string         `json:"person"`
	Text     string         `json:"text"`
	Status   string         `json:"status"`
	Bad      bool           `json:"bad"` // it was refused
	Turn     string         `json:"turn,omitempty"`
	Activity jsontext.Value `json:"activity,omitzero"`
}

// maxPassed limits what one view lists.
const maxPassed = 100

func activityRoutes(p *Page, mux *http.ServeMux) {
	mux.HandleFunc("GET /dev/activities", func(w http.ResponseWriter, _ *http.Request) {
		p.show(w, "/dev/activities", "Activities", activitiesPage(activities(p)), "live.js")
	})
	mux.HandleFunc("GET /dev/activities.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"version": 1, "activities": activities(p)})
	})
}

// activities are the last ones, newest first.
func activities(p *Page) []passed {
	p.chat.mu.Lock()
	all := append([]passed{}, p.chat.refused...)
	p.chat.mu.Unlock()
	for _, head := range p.turns.Turns() {
		if len(all) > maxPassed {
			break
		}
		r, _ := p.turns.Turn(head.ID) // it may be gone by now
		in := passed{
			At: r.At, Kind: r.Type, Person: r.Person, Text: r.Received.Text, Status: "accepted", Turn: r.ID, Activity: r.Received.Activity,
		}
		switch r.Outcome {
		case turnlog.Duplicate:
			in.Status = "duplicate of " + r.Received.Duplicate
		case turnlog.Ignored:
			in.Status = "ignored: " + r.Received.Dropped
		}
		all = append(all, in)
		for _, s := range r.Sent {
			out := passed{
				At: s.At, Out: true, Kind: s.Kind, Person: r.Person, Text: cmp.Or(s.Error, s.Text), Status: "no answer", Bad: s.Error != "", Turn: r.ID, Activity: s.Activity,
			}
			if s.Status != 0 {
				out.Status = fmt.Sprint(s.Status)
			}
			all = append(all, out)
		}
	}
	slices.SortStableFunc(all, func(a, b passed) int { return b.At.Compare(a.At) })
	return all[:min(len(all), maxPassed)]
}
