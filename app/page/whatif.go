package page

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/dryrun"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
)

// variation is what a what-if changes about the bot. "" and nil: no change.
type variation struct {
	Prompts string   // a folder of prompts
	Model   string   // its name on the bot's model server
	Planner string   // sequence, sequential or tools
	Actions []string // names of those of the bot's own that are offered
	Own     fs.FS    // the bot's own prompts, in the folder "prompts"; nil: as they are
	Watch   func(planner.Event)
}

// trial plans in a what-if. It calls no action.
type trial struct {
	Planner interface {
		Plan(ctx context.Context, turn *actions.Turn) (plan.Plan, error)
		Messages(ctx context.Context, turn *actions.Turn) ([]models.Message, error)
	}
	Actions *actions.Registry
	Policy  actions.Policy
	Model   string     // in words
	Free    bool       // the model costs nothing
	Own     []string   // the actions that variation.Actions may leave out
	Price   [3]float64 // per million tokens: prompt, cached, answer; zero: not known
	Streams bool       // the bot shows answers in personal chats while the model writes them
}

const (
	whatIfBudget = 200_000         // how many tokens the what-ifs of a page may use in all
	maxRuns      = 10              // limits how often one what-if plans
	planWithin   = 2 * time.Minute // limits one plan
	leeway       = 500             // how many more tokens than was told a run may take without telling it again
)

// whatIf plans again on what a turn found, with something changed, and runs nothing. It is safe for
// concurrent use.
type whatIf struct {
	page    *server
	drafts  *promptViews
	results kept[*result] // by number

	busy sync.Mutex // held while one runs
	last int        // number of the last result

	mu    sync.Mutex
	spent int
}

func (w *whatIf) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /dev/turns/{id}/what-if", w.form)
	mux.HandleFunc("GET /dev/turns/{id}/what-if.json", w.form)
	mux.HandleFunc("POST /dev/turns/{id}/what-if", w.page.acts(w.run))
}

// changes are the fields of the form.
type changes struct {
	Text    string   `json:"text"`
	Prompts string   `json:"prompts,omitempty"`
	Model   string   `json:"model,omitempty"`
	Planner string   `json:"planner,omitempty"`
	Actions []string `json:"actions,omitempty"` // that are offered; nil: all
	Draft   string   `json:"draft,omitempty"`   // the preview whose prompt is used
	State   string   `json:"state"`             // JSON
	Runs    int      `json:"runs"`
}

// cost is what one run may cost.
type cost struct {
	Model    string  `json:"model"`
	Free     bool    `json:"free,omitempty"`
	Question int     `json:"questionTokens"` // about
	Answer   int     `json:"answerTokens"`   // at most
	Money    float64 `json:"money,omitempty"`
	Told     int     `json:"-"` // up to which the cost counts as told
}

// result is what came of a what-if.
type result struct {
	Number   int             `json:"number"`
	Turn     string          `json:"turn"`
	Changes  changes         `json:"changes"`
	Cost     cost            `json:"cost"`
	Recorded turnlog.Record  `json:"-"`
	Runs     []trialRun      `json:"runs"`
	Prompt   []sectionChange `json:"prompt"`
	Numbers  []numberChange  `json:"numbers"`
	Plans    []countedPlan   `json:"plans"` // the different ones of all runs
	Same     bool            `json:"same"`  // the first plan is the recorded one
	Stopped  string          `json:"stopped,omitempty"`
}

// trialRun is one of the runs.
type trialRun struct {
	turnlog.Record
	Calls []dryrun.Call `json:"calls"`
	Stops string        `json:"stops,omitempty"` // why the plan does not go on
	Fault string        `json:"fault,omitempty"` // why there is no plan
}

type sectionChange struct {
	Name  string     `json:"name"`
	Same  bool       `json:"same"`
	Lines []diffLine `json:"lines,omitempty"`
	Was   int        `json:"tokensWas"`
	Is    int        `json:"tokensIs"`
}

type numberChange struct{ Name, Was, Is, Change string }

type countedPlan struct {
	Text  string `json:"text"`
	Times int    `json:"times"`
}

// whatIfView is what the form shows.
type whatIfView struct {
	Record   turnlog.Record
	Changes  changes
	Offered  []offeredAction
	Planners []string
	Cost     cost
	Left     int
	Fault    string   // why it cannot plan
	own      []string // actions that can be left out
	Confirm  bool     // the cost is another one than was told
	Result   *result
}

type offeredAction struct {
	Name    string
	Offered bool
}

func (w *whatIf) left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(0, whatIfBudget-w.spent)
}

// record finds the turn of a request. nil: the answer says that there is none.
func (w *whatIf) record(rw http.ResponseWriter, r *http.Request) *turnlog.Record {
	rec, ok := w.page.turns.Turn(r.PathValue("id"))
	switch {
	case !ok:
		w.page.noTurn(rw, r.PathValue("id"))
	case w.page.of.WhatIf == nil:
		w.page.fail(rw, http.StatusNotFound, "This bot cannot plan without running.")
	case rec.Before == nil:
		w.page.fail(rw, http.StatusConflict, "Turn "+rec.ID+" has not begun, so there is no state to plan on.")
	default:
		return &rec
	}
	return nil
}

func (w *whatIf) form(rw http.ResponseWriter, r *http.Request) {
	rec := w.record(rw, r)
	if rec == nil {
		return
	}
	v := whatIfView{Changes: changes{Text: rec.Received.Text, State: pretty(rec.Before), Runs: 1, Draft: r.URL.Query().Get("draft")}}
	if last, ok := w.results.get(r.URL.Query().Get("result")); ok && last.Turn == rec.ID {
		v.Result, v.Changes = last, last.Changes
	}
	w.show(rw, r, *rec, v)
}

// show shows the form, with what a run of it may cost.
func (w *whatIf) show(rw http.ResponseWriter, r *http.Request, rec turnlog.Record, v whatIfView) {
	v.Record, v.Planners, v.Left = rec, []string{"sequence", "sequential", "tools"}, w.left()
	if v.Cost.Told == 0 && v.Fault == "" {
		trial, err := w.trial(r.Context(), v.Changes, nil)
		if v.own = trial.Own; err == nil {
			v.Cost, err = costOf(r.Context(), w.page.cfg.Counter, trial, rec, v.Changes)
		}
		if err != nil {
			v.Fault = sentence(err)
		}
	}
	if v.own == nil { // nothing can plan with these changes: it is asked of the bot as it is
		if trial, err := w.page.of.WhatIf(r.Context(), variation{}); err == nil {
			v.own = trial.Own
		}
	}
	for _, name := range v.own {
		v.Offered = append(v.Offered, offeredAction{name, v.Changes.Actions == nil || slices.Contains(v.Changes.Actions, name)})
	}
	if strings.HasSuffix(r.URL.Path, ".json") {
		writeJSON(rw, map[string]any{
			"version": turnlog.Version, "turn": rec.ID, "changes": v.Changes, "cost": v.Cost, "tokensLeft": v.Left, "fault": v.Fault, "result": v.Result,
		})
		return
	}
	w.page.show(rw, "/dev/turns", "What if", w.page.whatIfPage(v))
}

// sentence is an error for people.
func sentence(err error) string {
	text := err.Error()
	if fault, ok := errors.AsType[*models.Error](err); ok && fault.Said != "" {
		text += ": " + fault.Said
	}
	return strings.TrimPrefix(text, "the settings of --against have to be changed:\n")
}

// trial makes what plans with these changes.
func (w *whatIf) trial(ctx context.Context, c changes, watch func(planner.Event)) (trial, error) {
	with := variation{Prompts: c.Prompts, Model: c.Model, Planner: c.Planner, Actions: c.Actions, Watch: watch}
	if c.Draft != "" {
		made, ok := w.drafts.previews.get(c.Draft)
		f, known := w.drafts.find(made.Prompt)
		if !ok || !known {
			return trial{}, errors.New("the page does not keep that draft any more")
		}
		file, _ := f.text()
		var err error
		if with.Own, err = w.drafts.with(f.Name, file, made.text); err != nil {
			return trial{}, err
		}
	}
	return w.page.of.WhatIf(ctx, with)
}

func (c *changes) read(r *http.Request) error {
	f := r.PostFormValue
	c.Text, c.State, c.Draft, c.Runs = f("text"), f("state"), f("draft"), 1
	c.Prompts, c.Model, c.Planner = strings.TrimSpace(f("prompts")), strings.TrimSpace(f("model")), f("planner")
	if f("choose") != "" {
		c.Actions = append([]string{}, r.PostForm["action"]...)
	}
	if n := f("runs"); n != "" {
		var err error
		if c.Runs, err = strconv.Atoi(n); err != nil || c.Runs < 1 || c.Runs > maxRuns {
			return fmt.Errorf("runs is not a number from 1 to %d", maxRuns)
		}
	}
	if strings.TrimSpace(c.Text) == "" {
		return errors.New("there is no text")
	}
	return nil
}

// turn makes the turn that plans. Nothing of it is saved.
func (c *changes) turn(rec turnlog.Record, id string) (*actions.Turn, error) {
	var found turn.State
	if strings.TrimSpace(c.State) != "" {
		if err := json.Unmarshal([]byte(c.State), &found); err != nil {
			return nil, errors.New("the state is no JSON object of scopes with values")
		}
	}
	for name, values := range found {
		if !slices.Contains([]string{"conversation", "thread", "user", "bot", "temp"}, name) {
			return nil, fmt.Errorf("the state has no scope %q, but conversation, thread, user, bot and temp", name)
		}
		for key, raw := range values {
			if err := raw.Compact(); err != nil {
				return nil, fmt.Errorf("the value %s.%s of the state is no JSON", name, key)
			}
			values[key] = raw
		}
	}
	t := dryrun.TurnOf(rec, found)
	t.ID, t.Text, t.Activity.Text = id, c.Text, c.Text
	return t, nil
}

// costOf says what one run may cost.
func costOf(ctx context.Context, counter prompts.Counter, trial trial, rec turnlog.Record, c changes) (cost, error) {
	t, err := c.turn(rec, "cost")
	if err != nil {
		return cost{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	messages, err := trial.Planner.Messages(ctx, t)
	if err != nil {
		return cost{}, err
	}
	of := cost{Model: trial.Model, Free: trial.Free, Answer: 2000}
	for _, m := range messages {
		of.Question += counter.Tokens(m.Text)
	}
	if len(rec.Rounds) > 0 {
		of.Answer = cmp.Or(rec.Rounds[0].MaxTokens, of.Answer)
		was := 0
		for _, s := range rec.Rounds[0].Sections {
			n := counter.Tokens(s.Text)
			if s.Role == "request" { // schemas and tools, which are beside the messages
				of.Question += n
			}
			if !s.Left {
				was += n
			}
		}
		if a := rec.Rounds[0].Answer; a != nil && a.In > 0 { // models count in their own ways: only what differs is counted here
			of.Question = max(a.In+of.Question-was, 1)
		}
	}
	of.Money = (float64(of.Question)*trial.Price[0] + float64(of.Answer)*trial.Price[2]) / 1e6
	of.Told = of.Question + of.Answer + leeway
	return of, nil
}

// run plans, and leads to the result.
func (w *whatIf) run(rw http.ResponseWriter, r *http.Request) {
	rec := w.record(rw, r)
	if rec == nil {
		return
	}
	if !w.busy.TryLock() {
		w.page.fail(rw, http.StatusConflict, "Another what-if is running. One runs at a time.")
		return
	}
	defer w.busy.Unlock()
	v := whatIfView{}
	if err := v.Changes.read(r); err != nil {
		v.Fault = sentence(err)
		w.show(rw, r, *rec, v)
		return
	}
	ctx := w.page.cfg.Log.WithContext(r.Context())
	log := turnlog.New(turnlog.Config{Secrets: append([]string{w.page.secret, w.page.token}, w.page.cfg.Secrets...)})
	defer log.Close()
	trial, err := w.trial(ctx, v.Changes, log.WatchPlanner)
	if v.own = trial.Own; err == nil {
		v.Cost, err = costOf(ctx, w.page.cfg.Counter, trial, *rec, v.Changes)
	}
	if err != nil {
		v.Fault = sentence(err)
		w.show(rw, r, *rec, v)
		return
	}
	told, _ := strconv.Atoi(r.PostFormValue("told"))
	left := w.left()
	switch {
	case trial.Free:
	case left < v.Cost.Question:
		v.Fault = fmt.Sprintf("The budget of %d tokens for what-ifs has %d left, which is too little. Start the bot again for a new one.", whatIfBudget, left)
	case v.Cost.Question+v.Cost.Answer > told:
		v.Confirm = true // it costs more than the page has said
	}
	if v.Fault != "" || v.Confirm {
		w.show(rw, r, *rec, v)
		return
	}
	control := http.NewResponseController(rw)
	_ = control.SetReadDeadline(time.Time{}) // the server's are too short; each plan has its own
	_ = control.SetWriteDeadline(time.Now().Add(time.Duration(v.Changes.Runs)*planWithin + writeWithin))
	res := &result{Turn: rec.ID, Changes: v.Changes, Cost: v.Cost, Recorded: *rec}
	for n := range v.Changes.Runs {
		one, err := w.plan(ctx, trial, log, *rec, v.Changes, fmt.Sprintf("what-if-%d", n+1), v.Cost)
		if err != nil {
			v.Fault = sentence(err)
			w.show(rw, r, *rec, v)
			return
		}
		res.Runs = append(res.Runs, one)
		if !trial.Free && w.left() == 0 || ctx.Err() != nil {
			res.Stopped = fmt.Sprintf("It stopped after %d of %d runs, since the budget for what-ifs is used up.", n+1, v.Changes.Runs)
			break
		}
	}
	res.compare(w.page.cfg.Counter)
	w.last++
	res.Number = w.last
	number := strconv.Itoa(res.Number)
	w.results.put(number, res)
	http.Redirect(rw, r, "/dev/turns/"+url.PathEscape(rec.ID)+"/what-if?result="+number, http.StatusSeeOther)
}

// plan plans once. The error says that the changes cannot be used.
func (w *whatIf) plan(
	ctx context.Context, trial trial, log *turnlog.Log, rec turnlog.Record, c changes, id string, of cost,
) (trialRun, error) {
	t, err := c.turn(rec, id)
	if err != nil {
		return trialRun{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, planWithin)
	defer cancel()
	if t.Quota = w.meter(); trial.Streams && rec.Kind == "personal" && rec.Channel == activity.Teams {
		t.Draft = func(string) {} // the prompt asks for answers that can be shown early
	}
	see := func(e turn.Event) {
		e.Turn, e.At = id, time.Now()
		log.WatchTurn(e)
	}
	see(turn.Event{Began: &turn.Began{}})
	began := time.Now()
	d, err := dryrun.Play(ctx, dryrun.Bot{Planner: trial.Planner, Actions: trial.Actions, Policy: trial.Policy}, t, rec.Commands, see)
	one := trialRun{Calls: d.Calls, Stops: d.Stops}
	if err != nil {
		one.Fault = sentence(err)
	}
	if !trial.Free && t.Usage.PromptTokens == 0 && t.Usage.ModelCalls > 0 { // the server does not say
		t.Usage.PromptTokens, t.Usage.CompletionTokens = t.Usage.ModelCalls*of.Question, t.Usage.ModelCalls*of.Answer
	}
	_ = t.Quota(t.Usage) // counts the last call
	see(turn.Event{Ended: &turn.Ended{Outcome: turnlog.OK, Usage: t.Usage, Took: time.Since(began)}})
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	if err := log.Settle(settle); err != nil {
		return trialRun{}, errors.New("what was planned could not be read")
	}
	one.Record, _ = log.Turn(id)
	countTokens(&one.Record, w.page.cfg.Counter)
	return one, nil
}

// meter adds up what one plan uses.
func (w *whatIf) meter() func(actions.Usage) error {
	counted := 0
	return func(used actions.Usage) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.spent += used.PromptTokens + used.CompletionTokens - counted
		counted = used.PromptTokens + used.CompletionTokens
		if w.spent >= whatIfBudget {
			return &actions.BudgetError{Of: "tokens"}
		}
		return nil
	}
}

// compare fills in what differs between the recorded turn and the first run.
func (r *result) compare(counter prompts.Counter) {
	countTokens(&r.Recorded, counter)
	first := r.Runs[0]
	r.Same = plansOf(first.Record) == plansOf(r.Recorded)
	for _, run := range r.Runs {
		text := cmp.Or(plansOf(run.Record), run.Fault)
		if i := slices.IndexFunc(r.Plans, func(p countedPlan) bool { return p.Text == text }); i >= 0 {
			r.Plans[i].Times++
		} else {
			r.Plans = append(r.Plans, countedPlan{text, 1})
		}
	}
	var was, is []turnlog.Section
	if len(r.Recorded.Rounds) > 0 {
		was = r.Recorded.Rounds[0].Sections
	}
	if len(first.Rounds) > 0 {
		is = first.Rounds[0].Sections
	}
	r.Prompt = compareSections(was, is)
	number := func(name string, was, is int) {
		r.Numbers = append(r.Numbers, numberChange{name, strconv.Itoa(was), strconv.Itoa(is), fmt.Sprintf("%+d", is-was)})
	}
	number("Model calls", r.Recorded.ModelCalls, first.ModelCalls)
	number("Tokens in", r.Recorded.TokensIn, first.TokensIn)
	number("Tokens out", r.Recorded.TokensOut, first.TokensOut)
	if r.Recorded.Cost+first.Cost > 0 {
		r.Numbers = append(r.Numbers, numberChange{
			"Cost", fmt.Sprintf("%.4f", r.Recorded.Cost), fmt.Sprintf("%.4f", first.Cost), fmt.Sprintf("%+.4f", first.Cost-r.Recorded.Cost),
		})
	}
	wasTook, isTook := modelTime(r.Recorded), modelTime(first.Record)
	sign := "+"
	if isTook < wasTook {
		sign = "−"
	}
	r.Numbers = append(r.Numbers, numberChange{"Time of the model", took(wasTook), took(isTook), sign + took((isTook - wasTook).Abs())})
}

// modelTime is how long the model took.
func modelTime(rec turnlog.Record) (all time.Duration) {
	for _, r := range rec.Rounds {
		if r.Answer != nil {
			all += r.Answer.TookNS
		}
	}
	return all
}

func plansOf(rec turnlog.Record) string {
	var plans []string
	for _, p := range rec.Plans {
		plans = append(plans, planOf(p))
	}
	return strings.Join(plans, "\nthen\n")
}

// diffLine is a line of a text that became another one.
type diffLine struct {
	Kind string `json:"kind"` // was, is, left for lines that are left out, or "": both have it
	Text string `json:"text"`
}

// compareLines lists what became of the lines of a text. Long runs of lines that stay are left out.
func compareLines(was, is string) (all []diffLine) {
	kinds := map[byte]string{'-': "was", '+': "is"}
	for line := range strings.Lines(golden.Diff(was+"\n", is+"\n")) {
		switch {
		case line[0] != '@':
			all = append(all, diffLine{kinds[line[0]], strings.TrimSuffix(line[1:], "\n")})
		case !strings.HasPrefix(line, "@@ -1,"): // lines before it are left out
			all = append(all, diffLine{"left", "…"})
		}
	}
	return all
}

// compareSections pairs the sections of two prompts: by their names, in their order.
func compareSections(was, is []turnlog.Section) (all []sectionChange) {
	for _, s := range was {
		change := sectionChange{Name: s.Name, Was: s.Tokens}
		text := ""
		if i := slices.IndexFunc(is, func(other turnlog.Section) bool { return other.Name == s.Name && other.Role == s.Role }); i >= 0 {
			text, change.Is = is[i].Text, is[i].Tokens
			is = slices.Delete(slices.Clone(is), i, i+1)
		}
		if change.Same = text == s.Text; !change.Same {
			change.Lines = compareLines(s.Text, text)
		}
		all = append(all, change)
	}
	for _, s := range is {
		all = append(all, sectionChange{Name: s.Name, Is: s.Tokens, Lines: compareLines("", s.Text)})
	}
	return all
}
