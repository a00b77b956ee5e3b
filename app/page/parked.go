package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/approvals"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/state/inbox"
)

const maxParked = 200 // limits how many records one view lists

// parked shows what waits, and the dead letters.
type parked struct{ page *server }

func (k parked) routes(mux *http.ServeMux) {
	p := k.page
	if p.of.Inbox == nil {
		return
	}
	mux.HandleFunc("GET /dev/parked", func(w http.ResponseWriter, r *http.Request) {
		if v, ok := k.view(w, r); ok {
			p.show(w, "/dev/parked", "Parked", p.parkedPage(v))
		}
	})
	mux.HandleFunc("GET /dev/parked.json", func(w http.ResponseWriter, r *http.Request) {
		if v, ok := k.view(w, r); ok {
			writeJSON(w, v)
		}
	})
	one := func(pattern string, do func(w http.ResponseWriter, r *http.Request, letter inbox.Waiting)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if letter, ok := k.find(w, r); ok {
				do(w, r, letter)
			}
		})
	}
	one("GET /dev/parked/{id}", func(w http.ResponseWriter, _ *http.Request, letter inbox.Waiting) {
		p.show(w, "/dev/parked", "Lost turn "+letter.ID, p.lostPage(k.about(letter)))
	})
	one("GET /dev/parked/{id}/export", func(w http.ResponseWriter, _ *http.Request, letter inbox.Waiting) {
		file, err := p.of.Export(letter)
		if err != nil {
			p.fail(w, http.StatusUnprocessableEntity, "No scenario can be made of this turn: "+err.Error()+".")
			return
		}
		w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="turn-`+url.PathEscape(letter.ID)+`.yaml"`)
		_, _ = w.Write(file) // if this fails, nobody reads it
	})
	mux.HandleFunc("POST /dev/parked", p.acts(k.act))
}

// act retries or drops the dead letters that were ticked. It asks before it drops.
func (k parked) act(w http.ResponseWriter, r *http.Request) {
	p, reason := k.page, oneLine(r.PostFormValue("reason"))
	dead, err := p.of.Inbox.Dead(r.Context())
	if err != nil {
		k.away(w, err)
		return
	}
	dead = slices.DeleteFunc(dead, func(one inbox.Waiting) bool { return !slices.Contains(r.PostForm["turn"], one.ID) })
	isDrop := r.PostFormValue("do") == "drop"
	switch {
	case len(dead) == 0:
		p.fail(w, http.StatusNotFound, "None of these turns is parked. Perhaps somebody was faster, or none was ticked.")
		return
	case isDrop && r.PostFormValue("sure") == "":
		v := dropView{Reason: reason}
		for _, one := range dead {
			v.Turns = append(v.Turns, k.about(one))
		}
		p.show(w, "/dev/parked", "Drop turns", p.dropPage(v))
		return
	}
	for _, one := range dead {
		if isDrop {
			_, err = p.of.Inbox.Drop(r.Context(), one.Queue, one.ID)
		} else {
			err = p.of.Inbox.Wake(r.Context(), one, nil)
		}
		if err != nil && !errors.Is(err, inbox.ErrNoRecord) { // somebody was faster
			k.away(w, err)
			return
		}
		p.cfg.Log.Info().Str("turn", one.ID).Bool("dropped", isDrop).Str("reason", reason).Msg("somebody retried or dropped a dead letter on the page")
	}
	http.Redirect(w, r, "/dev/parked", http.StatusSeeOther)
}

func (k parked) away(w http.ResponseWriter, err error) {
	k.page.cfg.Log.Error().Err(err).Msg("the page cannot read what is parked")
	k.page.fail(w, http.StatusServiceUnavailable, "The state of the bot cannot be reached now. Its log says why.")
}

func (k parked) find(w http.ResponseWriter, r *http.Request) (letter inbox.Waiting, ok bool) {
	dead, err := k.page.of.Inbox.Dead(r.Context())
	if err != nil {
		k.away(w, err)
		return letter, false
	}
	i := slices.IndexFunc(dead, func(w inbox.Waiting) bool { return w.ID == r.PathValue("id") })
	if i < 0 {
		k.page.fail(w, http.StatusNotFound, "No turn with this id is parked. Perhaps somebody was faster.")
		return letter, false
	}
	return dead[i], true
}

// waitingRow is something that waits.
type waitingRow struct {
	ID           string    `json:"id"`
	For          string    `json:"for"` // approval, answer, sign_in, file or time
	About        string    `json:"about"`
	Conversation string    `json:"conversation"`
	Person       string    `json:"person,omitempty"`
	Since        time.Time `json:"since"`
	Until        time.Time `json:"until"`
	Chain        []string  `json:"chain,omitempty"` // of an approval: who was asked when, by which rule, and decided

	Room string `json:"-"`
	Seen bool   `json:"-"` // the turn can be shown
}

// deadRow is a dead letter.
type deadRow struct {
	ID     string      `json:"id"`
	Reason string      `json:"reason"`
	Since  time.Time   `json:"since"`
	About  any         `json:"about"`
	Rows   [][2]string `json:"-"`
	Text   string      `json:"-"` // what it is about, in a few words
	Seen   bool        `json:"-"`
}

// dropView are the dead letters that somebody is about to drop, and why.
type dropView struct {
	Turns  []deadRow
	Reason string
}

// parkedView is what waits.
type parkedView struct {
	Version int          `json:"version"`
	Waiting []waitingRow `json:"waiting"`
	Dead    []deadRow    `json:"dead"`
	Most    int          `json:"-"` // of each
}

// view reads all of it. ok is false if that failed, and was answered.
func (k parked) view(w http.ResponseWriter, r *http.Request) (v parkedView, ok bool) {
	v = parkedView{Version: 1, Waiting: []waitingRow{}, Dead: []deadRow{}, Most: maxParked}
	read := func(list func(context.Context) ([]inbox.Waiting, error), add func(inbox.Waiting)) error {
		all, err := list(r.Context())
		for _, one := range all[:min(maxParked, len(all))] {
			add(one)
		}
		return err
	}
	in := k.page.of.Inbox
	err := errors.Join(
		read(in.Dead, func(one inbox.Waiting) { v.Dead = append(v.Dead, k.about(one)) }),
		read(func(ctx context.Context) ([]inbox.Waiting, error) { return in.Timed(ctx, maxParked) }, func(one inbox.Waiting) {
			if !one.Operator {
				v.Waiting = append(v.Waiting, k.waiting(one))
			}
		}),
	)
	if err != nil {
		k.away(w, err)
	}
	return v, err == nil
}

// about says what is known of a dead letter.
func (k parked) about(letter inbox.Waiting) deadRow {
	d := deadRow{ID: letter.ID, Reason: turn.Reason(letter), Since: letter.Since}
	d.Rows, d.About = k.page.of.Dead(letter)
	d.Rows = slices.DeleteFunc(d.Rows, func(row [2]string) bool {
		if row[0] == "text" {
			d.Text = row[1]
		}
		return row[1] == "" || row[0] == "turn" || row[0] == "since" || row[0] == "reason"
	})
	_, d.Seen = k.page.turns.Turn(letter.ID)
	return d
}

const maxAbout = 200 // how much of a text a list shows

// asks says what people were asked, before the action.
var asks = map[string]string{"approval": "approval of ", "question": "an answer for ", "sign_in": "a person to sign in for "}

func (k parked) waiting(one inbox.Waiting) waitingRow {
	row := waitingRow{ID: one.ID, Since: one.Since, Until: one.Until, For: "unknown"}
	_, row.Seen = k.page.turns.Turn(one.ID)
	rec, err := turn.Decode(one.Record)
	if a, _ := rec.Read(); a != nil {
		row.Conversation, row.Person = a.Conversation.ID, a.From.Name
		row.Room = cmp.Or(k.page.chat.nameOf(row.Conversation), row.Conversation)
	}
	wait := rec.Wait
	switch {
	case err != nil:
		row.About = err.Error()
	case wait == nil:
	case len(wait.Pauses) > 0:
		for name, raw := range wait.Pauses {
			var about struct {
				Action  string
				Expires time.Time
			}
			_ = json.Unmarshal(raw, &about) // what cannot be read names no action
			row.About = cmp.Or(asks[name], name+" for ") + about.Action
			row.Until = cmp.Or(about.Expires, row.Until) // as on its card: the record waits a little longer
		}
	case rec.Slots["file"] != nil:
		row.About = "a person to take a file"
	case wait.Every != "":
		row.About = fmt.Sprintf("a notice at %s %s", wait.Every, wait.Zone)
	case wait.Topic != "":
		row.About = "a notice of " + wait.Topic
	default:
		row.About = "a notice"
	}
	if wait != nil {
		row.For, row.Chain = string(wait.For), approvals.Chain(&rec)
		text := wait.Memo
		if rec.Notice != nil && text == "" {
			text = rec.Notice.Run
			for _, raw := range rec.Notice.Messages {
				if m, err := activity.Decode(raw); err == nil {
					text = cmp.Or(text, m.Text, m.Summary)
				}
			}
		}
		if text != "" {
			row.About += ": " + spelling.OneLine(text, maxAbout)
		}
	}
	return row
}
