package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/markdown"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// turnView is what a view of a turn shows.
type turnView struct {
	turnlog.Record
	Page    bool // a page of its own
	Before  jsontext.Value
	After   jsontext.Value
	Spans   []span
	Prev    string
	Next    string
	ByPath  []turnlog.Change
	Follows []turnlog.Head // clicks on its cards, newest first
}

// span is a bar of the waterfall.
type span struct {
	Name string
	From int // per cent of the turn's time, as is Wide
	Wide int
	Took time.Duration
}

// merged has one change for each path: from the first value to the last. What is as it was is left
// out, and what ends with the turn.
func merged(changes []turnlog.Change) (all []turnlog.Change) {
	for _, c := range changes {
		if strings.HasPrefix(c.Path, "temp.") {
			continue
		}
		i := slices.IndexFunc(all, func(had turnlog.Change) bool { return had.Path == c.Path })
		if i < 0 {
			all = append(all, c)
			continue
		}
		all[i].After, all[i].By = c.After, cmp.Or(c.By, all[i].By)
	}
	return slices.DeleteFunc(all, func(c turnlog.Change) bool { return c.Before == c.After })
}

// step is a line of the plan's table: a command, or what is said of an answer that was no plan.
type step struct {
	Number   int
	Kind     string // DO or SAY; "": it is about an answer, and Result is the class of what Why says
	Action   string
	Labels   []string
	Planned  string
	Resolved string
	Result   string
	Why      string
	Text     string
	Data     string
	Took     string
}

// steps are the answers and the plans of a turn with what came of each command, in the order in which they came.
func (v *turnView) steps() (all []step) {
	next := 0
	upTo := func(at time.Time) {
		for ; next < len(v.Plans) && (at.IsZero() || v.Plans[next].At.Before(at)); next++ {
			if len(v.Plans) > 1 {
				all = append(all, step{Result: "line", Why: fmt.Sprint("Plan ", next+1)})
			}
			for i, c := range v.Plans[next].Commands {
				all = append(all, v.command(next+1, i+1, c)...)
			}
		}
	}
	for i, r := range v.Rounds {
		upTo(r.At)
		note := func(class, words, told string) { all = append(all, step{Result: class, Why: words, Text: told}) }
		if f := r.Refused; f != nil {
			note(either(repaired(v.Head), "note", "fault"), fmt.Sprintf("Answer %d was no plan that can run. %s: %s", i+1, f.Kind, f.Detail), f.Told)
		}
		p := r.Plan
		switch {
		case p == nil:
		case p.Prose:
			note("note", "The answer was a text, which is said as it is.", "")
		case p.Salvaged:
			note("note", "The plan was found in the middle of a text.", "")
		case len(p.Repairs) > 0:
			note("note", "Repaired: "+strings.Join(p.Repairs, ", "), "")
		}
	}
	upTo(time.Time{})
	return all
}

// command is what came of a command of a plan: a line for each try of an action.
func (v *turnView) command(plan, number int, c turnlog.PlanCommand) (all []step) {
	if c.Action == "" {
		return []step{v.said(plan, number, c)}
	}
	for _, call := range v.Commands {
		if call.Plan != plan || call.Number != number {
			continue
		}
		s := step{
			Number: number, Kind: c.Kind, Action: call.Action, Planned: call.Planned, Resolved: call.Resolved,
			Result: call.Result, Why: call.Error, Text: call.Text, Data: call.Data, Took: took(call.TookNS),
		}
		for name, is := range map[string]bool{
			"approved": call.Approved, "again": call.Again, "saved by nothing": call.Result == "ok" && !v.Saved(call.At) && v.Outcome != turnlog.Running,
		} {
			if is {
				s.Labels = append(s.Labels, name)
			}
		}
		slices.Sort(s.Labels)
		if s.Result == turnlog.Lost {
			s.Why = "The process ended before this was saved."
		}
		all = append(all, s)
	}
	if all == nil {
		why := cmp.Or(v.notDone(plan, number), "The turn ended before it.")
		all = []step{{Number: number, Kind: c.Kind, Action: c.Action, Planned: c.Entities, Result: "not run", Why: why}}
	}
	return all
}

// notDone says why a command of a plan has not been reached; "": the turn just ended.
func (v *turnView) notDone(plan, number int) string {
	failed := slices.IndexFunc(v.Commands, func(c turnlog.Command) bool {
		return c.Plan == plan && c.Number < number && c.Result == "failed"
	})
	switch {
	case failed >= 0:
		return "The action " + v.Commands[failed].Action + " failed before it: " + cmp.Or(v.Commands[failed].Text, v.Commands[failed].Error)
	case v.UnapprovedIn(plan):
		return "A person rejected it, or nobody approved it in time."
	case plan < len(v.Plans):
		return "A later plan took its place."
	case v.Outcome == turnlog.Running:
		return "The turn is not over."
	case v.Outcome == turnlog.Waiting:
		return "The turn waits."
	case v.Outcome == turnlog.OK:
		return ""
	}
	return "The turn failed before it: " + v.Error
}

// variable is a variable in the text of a SAY.
var variable = regexp.MustCompile(`\$\{?[\pL_][\pL\pN_.\[\]]*\}?`)

// bare is a text without what breaks its markup.
func bare(text string) string { return strings.ReplaceAll(text, "\u200b", "") }

// mark is the mark of a passage. The bot takes out those that name none, and numbers the others anew.
var mark = regexp.MustCompile(`\s*\[\d+\]`)

// reached reports whether all actions before a command of a plan were called.
func (v *turnView) reached(plan, number int) bool {
	for i, c := range v.Plans[plan-1].Commands[:number-1] {
		is := func(call turnlog.Command) bool { return call.Plan == plan && call.Number == i+1 }
		if c.Action != "" && !slices.ContainsFunc(v.Commands, is) {
			return false
		}
	}
	return true
}

// sentBy reports whether a message was sent while a plan ran.
func (v *turnView) sentBy(plan int, s turnlog.Sent) bool {
	return !s.At.Before(v.Plans[plan-1].At) && (plan == len(v.Plans) || s.At.Before(v.Plans[plan].At))
}

// said finds what became of the text of a SAY among what was sent while its plan ran.
func (v *turnView) said(plan, number int, c turnlog.PlanCommand) step {
	s := step{Number: number, Kind: c.Kind, Planned: c.Response, Result: "not sent"}
	if !v.reached(plan, number) {
		s.Why = cmp.Or(v.notDone(plan, number), "The turn ended before it.")
		return s
	}
	like := func(response string) *regexp.Regexp {
		literal := variable.Split(response, -1)
		for i, one := range literal {
			literal[i] = regexp.QuoteMeta(bare(markdown.Tame(strings.TrimSpace(one), nil)))
		}
		return regexp.MustCompile(`(?s)` + strings.Join(literal, `.*?`) + either(literal[len(literal)-1] == "", `.*`, ""))
	}
	form, unmarked := like(c.Response), like(mark.ReplaceAllString(c.Response, ""))
	for _, sent := range v.Sent {
		if len(sent.Activity) == 0 || !v.sentBy(plan, sent) {
			continue
		}
		text, why := form.FindString(bare(sent.Text)), ""
		if text == "" && mark.MatchString(c.Response) && unmarked.MatchString(mark.ReplaceAllString(bare(sent.Text), "")) {
			text, why = bare(sent.Text), "The bot numbered its marks anew, and took out those that name no passage."
		}
		if text == "" {
			continue
		}
		s.Resolved, s.Took = text, took(sent.TookNS)
		if sent.Error == "" {
			s.Result, s.Why = "sent", why
			return s
		}
		s.Why = "The channel did not take it: " + sent.Error
	}
	switch {
	case s.Why != "":
	case len(v.Received.Answer) > 0 && form.MatchString(string(v.Received.Answer)):
		s.Result, s.Resolved, s.Why = "sent", c.Response, "In the answer to the request."
	case slices.ContainsFunc(v.Commands, func(call turnlog.Command) bool { return call.Result == "unchanged" }):
		s.Why = "Withheld: a command before it found nothing to act on."
	default:
		s.Why = cmp.Or(v.notDone(plan, number), "A feature changed it or left nothing of it.")
	}
	return s
}

// waterfall says what took how long.
func waterfall(rec turnlog.Record) (spans []span) {
	whole := max(rec.Over().Sub(rec.At), 1)
	if rec.Outcome == turnlog.Running {
		whole = max(time.Since(rec.At), 1)
	}
	add := func(name string, from, took time.Duration) {
		at := int(min(max(100*from/whole, 0), 99))
		spans = append(spans, span{name, at, int(max(1, min(100*took/whole, time.Duration(100-at)))), took})
	}
	add("wait", 0, rec.WaitedNS)
	for _, s := range rec.Journal {
		if s.PausedNS > 0 {
			add("wait", s.At.Sub(rec.At), s.PausedNS)
		}
	}
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
func countTokens(rec *turnlog.Record, counter prompts.Counter) {
	for i := range rec.Rounds {
		rec.Rounds[i].Sections = slices.Clone(rec.Rounds[i].Sections)
		for j := range rec.Rounds[i].Sections {
			s := &rec.Rounds[i].Sections[j]
			s.Tokens = counter.Tokens(s.Text)
		}
	}
}

// passed is something that came in or went out.
type passed struct {
	At       time.Time      `json:"at"`
	Out      bool           `json:"out"`
	Kind     string         `json:"kind"` // the type of the activity, or what the bot asked of the channel
	Person   string         `json:"person"`
	Place    string         `json:"place,omitempty"` // "": the person's own chat
	Text     string         `json:"text"`
	Status   string         `json:"status"`
	Bad      bool           `json:"bad"` // it was refused
	Turn     string         `json:"turn,omitempty"`
	Activity jsontext.Value `json:"activity,omitzero"`
}

const maxPassed = 50 // limits what one view lists

func activityRoutes(p *server, mux *http.ServeMux) {
	mux.HandleFunc("GET /dev/activities", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query().Get("q")
		p.show(w, "/dev/activities", "Activities", activitiesPage(activities(p, q), q))
	})
	mux.HandleFunc("GET /dev/activities.json", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, map[string]any{"version": 1, "activities": activities(p, r.URL.Query().Get("q"))})
	})
}

// activities are the last ones that match a filter, newest first.
func activities(p *server, query string) []passed {
	all := []passed{}
	add := func(a passed) {
		about := strings.ToLower(strings.Join([]string{a.Kind, a.Person, a.Place, a.Text, a.Status, a.Turn}, " "))
		if strings.Contains(about, strings.ToLower(query)) {
			all = append(all, a)
		}
	}
	p.chat.mu.Lock()
	for _, one := range p.chat.refused {
		add(one)
	}
	p.chat.mu.Unlock()
	for _, head := range p.turns.Turns() {
		if len(all) > maxPassed {
			break
		}
		r, _ := p.turns.Turn(head.ID) // it may be gone by now
		place := strings.TrimPrefix(p.where(r.Head), " in ")
		in := passed{
			At: r.At, Kind: r.Type, Person: p.who(r.Head), Place: place, Text: r.Received.Text,
			Status: "accepted", Turn: r.ID, Activity: r.Received.Activity,
		}
		switch r.Outcome {
		case turnlog.Duplicate:
			in.Status, in.Turn = "duplicate", r.Received.Duplicate
		case turnlog.Ignored:
			in.Status = "ignored: " + r.Received.Dropped
		case turnlog.Joined:
			in.Status, in.Turn = "answered with others", r.Joined
		}
		if r.Type != turnlog.Notice { // which nobody sent
			add(in)
		}
		for _, s := range r.Sent {
			out := passed{
				At: s.At, Out: true, Kind: s.Kind, Person: in.Person, Place: place,
				Text: cmp.Or(s.Error, s.Text, either(len(s.Activity) > 0, "a card", "")), Status: "no answer", Bad: s.Error != "",
				Turn: r.ID, Activity: s.Activity,
			}
			if s.Status != 0 {
				out.Status = fmt.Sprint(s.Status)
			}
			add(out)
		}
	}
	slices.SortStableFunc(all, func(a, b passed) int { return b.At.Compare(a.At) })
	return all[:min(len(all), maxPassed)]
}

// goOn goes on from a turn: it copies what the bot kept before or after it into a new conversation.
type goOn struct{ page *server }

// notCopied are values that are about the old conversation and nothing else: how to reach it, and what
// waits in it.
var notCopied = []string{"reference", "home", "approvals", "sentnotices", "targetedcards"}

func (g goOn) begin(w http.ResponseWriter, r *http.Request) {
	rec, ok := g.page.turns.Turn(r.PathValue("id"))
	if !ok {
		g.page.noTurn(w, r.PathValue("id"))
		return
	}
	from, before := rec.After, r.PostFormValue("at") == "before"
	if before {
		from = rec.Before
	}
	a, err := activity.Decode(rec.Received.Activity)
	switch {
	case err != nil || len(rec.Received.Activity) == 0:
		g.page.fail(w, http.StatusConflict, "This turn answers no message, so there is no conversation to go on with.")
		return
	case from == nil:
		g.page.fail(w, http.StatusConflict, "This turn has not begun, so there is no state to copy.")
		return
	case !before && rec.Outcome == turnlog.Running:
		g.page.fail(w, http.StatusConflict, "This turn is not over. Go on from before it, or wait.")
		return
	}
	room, err := g.copy(r.Context(), a, rec, from, before)
	if err != nil {
		g.page.cfg.Log.Warn().Err(err).Str("turn", rec.ID).Msg("a conversation was not copied")
		g.page.fail(w, http.StatusConflict, "The conversation was not copied: "+whyNotCopied(err)+".")
		return
	}
	g.page.hub.tell(event{Room: room.Key})
	http.Redirect(w, r, "/dev/?"+url.Values{"room": {room.Key}, "thread": {thread(a.Conversation.ID)}}.Encode(), http.StatusSeeOther)
}

// whyNotCopied is the reason for people.
func whyNotCopied(err error) string {
	switch {
	case errors.Is(err, errTooMany), errors.Is(err, errLeftOut):
		return err.Error()
	case errors.Is(err, state.ErrTooLarge):
		return "what the bot keeps is too large"
	}
	return "the bot's state cannot be written now"
}

// errLeftOut says that the page has not kept a value, since it is too large.
var errLeftOut = errors.New("the page has not kept all of it, since some of it is too large")

// copy writes the documents under the ids of a new conversation, and then shows it.
func (g goOn) copy(ctx context.Context, a *activity.Activity, rec turnlog.Record, from turn.State, before bool) (*room, error) {
	until := rec.At
	if !before {
		until = rec.Over()
	}
	next, ids, err := g.page.chat.copied(a, until, before)
	if err != nil {
		return nil, err
	}
	who := slices.IndexFunc(next.People, func(p person) bool { return p.ID == ids[a.From.ID] })
	docs := map[string]state.Key{
		"conversation": state.ConversationKey(activity.Teams, botAccount, next.ID),
		"user":         state.UserKey(activity.Teams, botAccount, next.People[max(who, 0)].ID),
	}
	if id := thread(a.Conversation.ID); id != "" {
		docs["thread"] = state.ConversationKey(activity.Teams, botAccount, next.ID+";messageid="+id)
	}
	var pairs []string
	for old, new := range ids {
		pairs = append(pairs, old, new)
	}
	renamed := strings.NewReplacer(pairs...)
	for scope, key := range docs {
		values := map[string]jsontext.Value{}
		for name, raw := range from[scope] {
			if slices.Contains(notCopied, name) {
				continue
			}
			if strings.HasPrefix(string(raw), `"[left out: `) {
				return nil, fmt.Errorf("%w: %s.%s", errLeftOut, scope, name)
			}
			values[name] = jsontext.Value(renamed.Replace(string(raw)))
		}
		if len(values) == 0 {
			continue
		}
		err := g.page.of.Bot.Store().Update(ctx, key, func(s *state.Scope) error {
			for name, raw := range values {
				*state.At[jsontext.Value](s, name) = raw
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("copy the %s: %w", scope, err)
		}
	}
	return next, g.page.chat.open(next)
}
