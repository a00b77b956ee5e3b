package page

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

const (
	madeVersion = 1        // the format of the JSON of the views that show what the bot is made of
	maxLine     = 200      // characters of a text in a list
	maxShown    = 16 << 10 // bytes of a text in a view
	maxActions  = 1000     // that are listed
	maxFields   = 60       // of a form; with more there is one field for all
	maxCalls    = 10       // that are shown of an action
	maxKept     = 20       // results of forms
	maxAtWork   = 4        // that have not returned
	maxTyped    = 64 << 10 // bytes of a form that is filled in again
	runWithin   = 30 * time.Second
)

// actionViews show what the bot can do, and run one action by hand.
type actionViews struct {
	*server
	scrub *scrub.Scrubber
	runs  kept[run]
	slots chan struct{} // one for each run that has not returned
	// within limits one run, and after that it has a little longer to return.
	within, grace time.Duration
}

func newActionViews(p *server) *actionViews {
	return &actionViews{
		server: p, scrub: scrub.NewForSecrets(p.cfg.Secrets...), slots: make(chan struct{}, maxAtWork), within: runWithin, grace: time.Second,
	}
}

func (v *actionViews) routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /dev/actions", func(w http.ResponseWriter, _ *http.Request) {
		v.show(w, "/dev/actions", "Actions", actionsPage(v.list(false)))
	})
	mux.HandleFunc("GET /dev/actions.json", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, map[string]any{"version": madeVersion, "actions": v.list(true)})
	})
	mux.HandleFunc("GET /dev/actions/{name}", v.one)
	mux.HandleFunc("POST /dev/actions/{name}", v.acts(v.run))
}

// actionShown is what the views say of an action.
type actionShown struct {
	Name        string          `json:"name"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Detail      string          `json:"detail,omitempty"`
	Doing       string          `json:"doing,omitempty"`
	Examples    []string        `json:"examples"`
	Effects     []effect        `json:"effects"`
	StateOnly   bool            `json:"stateOnly"`
	Schema      json.RawMessage `json:"schema"`
	Told        json.RawMessage `json:"told,omitempty"` // what models see, if that says more
	Returns     json.RawMessage `json:"returns,omitempty"`
	Calls       int             `json:"calls"`
	Failed      int             `json:"failed"`
	MeanNS      time.Duration   `json:"meanNs"`
	Last        []lastCall      `json:"last"` // newest first
}

// effect is something that an action does or needs, as the bot's code calls it.
type effect struct {
	Name  string `json:"name"`
	About string `json:"about"`
}

// lastCall is a call that a turn made.
type lastCall struct {
	Turn     string        `json:"turn"`
	At       time.Time     `json:"at"`
	Entities string        `json:"entities"`
	Result   string        `json:"result"`
	TookNS   time.Duration `json:"tookNs"`
}

// all returns the bot's actions and those of its services.
func (v *actionViews) all() (all []*actions.Action) {
	if v.of.Bot != nil {
		all = v.of.Bot.Actions().All()
	}
	if v.of.Services != nil {
		all = append(all, v.of.Services()...)
	}
	return all[:min(len(all), maxActions)]
}

// list has all actions, with or without their schemas.
func (v *actionViews) list(schemas bool) []actionShown {
	all := []actionShown{}
	calls := v.calls()
	for _, a := range v.all() {
		all = append(all, v.shown(a, calls[a.Name], schemas))
	}
	return all
}

// calls are those in the records, newest first, by action.
func (v *actionViews) calls() map[string][]lastCall {
	all := map[string][]lastCall{}
	for _, head := range v.turns.Turns() {
		if len(head.Actions) == 0 {
			continue
		}
		rec, _ := v.turns.Turn(head.ID) // it may be gone by now
		for _, c := range slices.Backward(rec.Commands) {
			all[c.Action] = append(all[c.Action], lastCall{rec.ID, c.At, c.Resolved, c.Result, c.TookNS})
		}
	}
	return all
}

func (v *actionViews) shown(a *actions.Action, calls []lastCall, schemas bool) actionShown {
	s := actionShown{
		Name: a.Name, Title: a.Title, Description: a.Description, Detail: a.Detail, Doing: a.Doing, Examples: append([]string{}, a.Examples...),
		Effects: v.effectsOf(a), StateOnly: a.StateOnly, Calls: len(calls),
	}
	if schemas {
		s.Schema, s.Told, s.Returns = schemaJSON(a.Schema), schemaJSON(a.Told), schemaJSON(a.Returns)
	}
	for _, c := range calls {
		s.MeanNS += c.TookNS
		if c.Result == "failed" {
			s.Failed++
		}
	}
	s.MeanNS /= time.Duration(max(1, len(calls)))
	s.Last = append([]lastCall{}, calls[:min(len(calls), maxCalls)]...)
	return s
}

// schemaJSON is a schema as JSON; nil: there is none.
func schemaJSON(s *jsonschema.Schema) json.RawMessage {
	if s == nil {
		return nil
	}
	raw, err := json.Marshal(s)
	if err != nil { // then no model sees it, either
		raw, _ = json.Marshal(err.Error())
	}
	return raw
}

const asksWithin = 2 * time.Second // how long a policy may think about what a view shows

// asks is what the bot's policy says of a call of an action without entities.
func (v *actionViews) asks(a *actions.Action) (verdict actions.Approval) {
	defer func() {
		if recover() != nil { // a policy may want more than that
			verdict = actions.Approval{Required: a.Approval}
		}
	}()
	policy := v.of.Policy
	if policy == nil {
		policy = actions.DefaultPolicy
	}
	ctx, cancel := context.WithTimeout(context.Background(), asksWithin)
	defer cancel()
	nobody := &actions.Turn{Activity: &activity.Activity{}}
	verdict, err := policy(ctx, nobody, actions.Call{Action: a, Entities: map[string]any{}})
	if err != nil {
		return actions.Approval{Required: a.Approval, Reason: err.Error()}
	}
	return verdict
}

func (v *actionViews) effectsOf(a *actions.Action) []effect {
	all := []effect{}
	verdict := v.asks(a)
	approval := strings.TrimPrefix(verdict.Reason+"; "+cmp.Or(v.of.Approvers, "a person")+" approves each call", "; ")
	for _, e := range []struct {
		is          bool
		name, about string
	}{
		{a.StateOnly, "StateOnly", "changes only the bot's state"},
		{!a.StateOnly, "effects outside", "may change something outside of the bot's state"},
		{a.Parallel, "Parallel", "may run at the same time as others"},
		{a.Destructive, "Destructive", "cannot be undone"},
		{verdict.Required, "NeedsApproval", approval},
		{verdict.Denied != "", "Denied", "the policy lets nobody call it: " + verdict.Denied},
		{a.ReturnsData, "ReturnsData", "its result is meant for the model"},
		{a.Connection != "", "NeedsToken", "needs the person's token for " + a.Connection},
		{a.Source.Connection != "", "Source", "runs at the service " + a.Source.Connection + ", as " + a.Source.Remote + ", digest " + a.Source.Digest},
	} {
		if e.is {
			all = append(all, effect{e.name, e.about})
		}
	}
	return all
}

// actionView is what the view of one action shows.
type actionView struct {
	actionShown
	Fields []field
	Whole  string // all entities as JSON, instead of the fields
	Rooms  []listed
	People []person
	Room   string
	As     string
	Said   string
	Keep   bool
	Run    *run // nil: it has not run
}

func (v *actionViews) lookUp(name string) (*actions.Action, bool) {
	all := v.all()
	i := slices.IndexFunc(all, func(a *actions.Action) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}

func (v *actionViews) one(w http.ResponseWriter, r *http.Request) {
	name, asJSON := strings.CutSuffix(r.PathValue("name"), ".json")
	a, ok := v.lookUp(name)
	if !ok {
		v.fail(w, http.StatusNotFound, "The bot has no action "+oneLine(name)+".")
		return
	}
	said := actionView{actionShown: v.shown(a, v.calls()[name], true), Fields: fieldsOf(a)}
	last, ran := v.runs.get(r.URL.Query().Get("run"))
	ran = ran && last.Action == name
	if asJSON {
		out := map[string]any{"version": madeVersion, "action": said.actionShown}
		if ran {
			out["run"] = last
		}
		writeJSON(w, out)
		return
	}
	_, said.Rooms = v.chat.show("")
	said.People = v.people()
	if ran {
		said.Run, said.Room, said.As, said.Keep, said.Whole = &last, last.Room, last.As, last.Keep, last.typed.Get("entities")
		said.Said = last.typed.Get("said")
		for i := range said.Fields {
			f := &said.Fields[i]
			f.Value = last.typed.Get(f.Key)
			if slices.Contains(last.wrong, f.Name) {
				f.Fault = last.Fault
			}
		}
	}
	v.show(w, "/dev/actions", oneLine(cmp.Or(a.Title, a.Name)), v.actionPage(said))
}

// field is one entity in the form of an action.
type field struct {
	Name, Title, About string
	Key                string // in the form
	Kind               string // text, number, choice or json
	Want               string // what it takes, in words
	Required           bool
	Options            []option
	Value              string // as it was typed
	Fault              string
}

// option is a value of a choice, with the key that the form sends for it.
type option struct {
	Key, Title string
	value      string // JSON
}

// keyOf is what a form sends for a text: the text itself, or its number where that is long or not what it
// seems to be.
func keyOf(text string, number int) string {
	if len(text) > maxLine || marked(text) != text {
		return "#" + strconv.Itoa(number)
	}
	return text
}

// fieldsOf makes the fields of an action's form. nil: there are none, or too many.
func fieldsOf(a *actions.Action) (all []field) {
	names := slices.Clone(a.Schema.PropertyOrder)
	for name := range a.Schema.Properties {
		if !slices.Contains(a.Schema.PropertyOrder, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names[len(a.Schema.PropertyOrder):])
	if len(names) > maxFields {
		return nil
	}
	for _, name := range names {
		s := a.Schema.Properties[name]
		if s == nil {
			continue
		}
		f := fieldOf(s)
		f.Name, f.Title, f.About, f.Required = name, titles.Of(s, name), s.Description, slices.Contains(a.Schema.Required, name)
		f.Key = "e." + keyOf(name, len(all))
		if s.Default != nil {
			f.Want += ", or else " + string(s.Default)
		}
		all = append(all, f)
	}
	return all
}

// fieldOf says how to ask for a value of that schema.
func fieldOf(s *jsonschema.Schema) field {
	kinds := slices.DeleteFunc(append([]string{s.Type}, s.Types...), func(kind string) bool { return kind == "" || kind == "null" })
	kind := ""
	if len(kinds) == 1 && len(s.AnyOf)+len(s.OneOf)+len(s.AllOf) == 0 && s.Ref == "" {
		kind = kinds[0]
	}
	plain := kind == "string" || kind == "integer" || kind == "number"
	switch {
	case kind == "boolean":
		return field{Kind: "choice", Want: "yes or no", Options: []option{{"true", "yes", "true"}, {"false", "no", "false"}}}
	case plain && len(s.Enum) > 0 && len(s.Enum) <= maxFields:
		f := field{Kind: "choice", Want: "one of these"}
		for i, value := range s.Enum {
			raw, err := json.Marshal(value)
			if err == nil {
				f.Options = append(f.Options, option{keyOf(string(raw), i), cmp.Or(titles.Label(s, value), fmt.Sprint(value)), string(raw)})
			}
		}
		return f
	case kind == "string":
		return field{Kind: "text", Want: cmp.Or(s.Format, "text")}
	case plain:
		return field{Kind: "number", Want: kind}
	}
	return field{Kind: "json", Want: "JSON"}
}

// entitiesOf reads what was typed into the form. The error says what cannot be read, and where.
func entitiesOf(a *actions.Action, typed url.Values) (entities map[string]any, wrong string, err error) {
	entities = map[string]any{}
	if whole := strings.TrimSpace(typed.Get("entities")); whole != "" {
		if err := decodeJSON(whole, &entities); err != nil {
			return nil, "", fmt.Errorf("the entities are no JSON object: %w", err)
		}
		return entities, "", nil
	}
	for _, f := range fieldsOf(a) {
		text := typed.Get(f.Key)
		for _, o := range f.Options {
			if o.Key == text {
				text = o.value
			}
		}
		switch f.Kind {
		case "text", "number":
			if text != "" {
				entities[f.Name] = text // the check converts it
			}
		default:
			if strings.TrimSpace(text) == "" {
				continue
			}
			var value any
			if err := decodeJSON(text, &value); err != nil {
				return nil, f.Name, fmt.Errorf("entity %s: this is no JSON: %w", f.Name, err)
			}
			entities[f.Name] = value
		}
	}
	return entities, "", nil
}

// decodeJSON decodes one value, with numbers as they are.
func decodeJSON(text string, into any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("there is more than one value")
	}
	return nil
}

// run is what came of a run of an action by hand.
type run struct {
	Version int       `json:"version"`
	ID      string    `json:"id"`
	Action  string    `json:"action"`
	At      time.Time `json:"at"`
	Room    string    `json:"room"` // its key
	As      string    `json:"as"`   // the person's key
	Keep    bool      `json:"keep"` // the state is to be saved
	Outside bool      `json:"outside"`
	// Fault says why it did not run.
	Fault    string           `json:"fault,omitempty"`
	Entities string           `json:"entities,omitempty"` // as the action got them
	Result   string           `json:"result,omitempty"`   // ok, failed, unchanged, asks or lost
	Text     string           `json:"text,omitempty"`
	Data     string           `json:"data,omitempty"`
	Error    string           `json:"error,omitempty"`
	Cards    []string         `json:"cards,omitempty"` // JSON
	Files    []string         `json:"files,omitempty"` // names
	Notices  []string         `json:"notices,omitempty"`
	Changes  []turnlog.Change `json:"changes"`
	Saved    bool             `json:"saved"`
	TookNS   time.Duration    `json:"tookNs"`

	typed url.Values // to fill in the form again
	wrong []string   // entities that Fault is about
}

// run runs an action as the form says, and leads back to it.
func (v *actionViews) run(w http.ResponseWriter, r *http.Request) {
	a, ok := v.lookUp(r.PathValue("name"))
	if !ok {
		v.fail(w, http.StatusNotFound, "The bot has no such action.")
		return
	}
	if err := r.ParseForm(); err != nil {
		v.fail(w, http.StatusBadRequest, "This is no form of the page.")
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(runWithin + 10*time.Second)) // else the server's counts
	done := v.try(r.Context(), a, r.PostForm)
	if !byForm(r) {
		status := http.StatusOK
		if done.Fault != "" {
			status = http.StatusUnprocessableEntity
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		writeJSON(w, done)
		return
	}
	v.runs.put(done.ID, done)
	http.Redirect(w, r, "/dev/actions/"+url.PathEscape(a.Name)+"?"+url.Values{"run": {done.ID}}.Encode()+"#result", http.StatusSeeOther)
}

func (v *actionViews) try(ctx context.Context, a *actions.Action, typed url.Values) run {
	// A ticked box adds its value to that of the hidden field, and a request without the field throws
	// the state away as well.
	keep := len(typed["throw"]) == 1 && typed.Get("throw") == "asked"
	done := run{
		Version: madeVersion, ID: "try-" + strings.ToLower(rand.Text()[:12]), Action: a.Name, At: time.Now(), Changes: []turnlog.Change{},
		Keep: keep, Outside: typed.Get("outside") != "", typed: url.Values{},
	}
	if len(typed.Encode()) <= maxTyped {
		done.typed = typed
	}
	entities, wrong, err := entitiesOf(a, typed)
	if err == nil {
		entities, err = a.Check(entities)
	}
	var faulty *actions.EntityError
	switch {
	case wrong != "":
		done.wrong = []string{wrong}
	case errors.As(err, &faulty):
		name, _, _ := strings.Cut(faulty.Path, ".")
		done.wrong = append(slices.Clone(faulty.Missing), name)
	}
	of, who, nowhere := v.somebody(typed.Get("room"), typed.Get("as"), typed.Get("said"))
	done.Room, done.As = of.key, who.Key
	switch err = cmp.Or(err, nowhere); {
	case err != nil:
		done.Fault = shownText(err.Error())
	case v.of.Bot == nil:
		done.Fault = "There is no bot that could run it."
	case a.Destructive && (keep || !a.StateOnly) && typed.Get("destroy") == "":
		done.Fault = `This action cannot be undone. To run it, tick "This cannot be undone", or throw the state away.`
	case !a.StateOnly && !done.Outside:
		done.Fault = `This action may have effects outside of the bot's state. To run it, tick "This has effects outside".`
	default:
		done.Entities = v.scrub.Text(jsonText(entities, "  "))
		v.call(ctx, a, entities, of.activity, &done)
	}
	return done
}

// people are those who may speak on the page.
func (v *actionViews) people() []person {
	v.chat.mu.Lock()
	defer v.chat.mu.Unlock()
	return slices.Clone(v.chat.people)
}

// place is where an action runs.
type place struct {
	key      string
	activity *activity.Activity
}

// somebody is a person in a conversation of the page, by default the first one, with a message of theirs that
// the bot did not get.
func (v *actionViews) somebody(key, as, said string) (place, person, error) {
	c := v.chat
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.room(cmp.Or(key, c.rooms[0].Key))
	if r == nil {
		return place{}, person{}, errNobody
	}
	p := r.speaker(as)
	return place{r.Key, decode(c.activity(r, p, "", map[string]any{"type": "message", "text": said, "textFormat": "plain"}))}, p, nil
}

// stage is the state that an action runs on.
type stage struct {
	store  *state.Store
	turn   *actions.Turn
	before turn.State
	bot    *state.Scope // nil: it was not asked for
}

func (s *stage) load(ctx context.Context) error {
	a := s.turn.Activity
	scopes, err := s.store.Load(ctx, state.ConversationKey(a.ChannelID, a.Recipient.ID, a.Conversation.BaseID()), state.UserKey(a.ChannelID, a.Recipient.ID, a.From.ID))
	if err != nil {
		return err
	}
	s.turn.Conversation, s.turn.User, s.turn.Thread, s.turn.Temp = scopes[0], scopes[1], scopes[0], state.NewScope()
	s.before = s.state()
	s.turn.Bot = func(ctx context.Context) (*state.Scope, error) {
		if s.bot == nil {
			scopes, err := s.store.Load(ctx, state.BotKey())
			if err != nil {
				return nil, err
			}
			s.bot = scopes[0]
			s.before["bot"] = valuesOf(s.bot)
		}
		return s.bot, nil
	}
	return nil
}

func (s *stage) state() turn.State {
	all := turn.State{"conversation": valuesOf(s.turn.Conversation), "user": valuesOf(s.turn.User), "temp": valuesOf(s.turn.Temp)}
	if s.bot != nil {
		all["bot"] = valuesOf(s.bot)
	}
	return all
}

func (s *stage) save(ctx context.Context) error {
	scopes := []*state.Scope{s.turn.Conversation, s.turn.User}
	if s.bot != nil {
		scopes = append(scopes, s.bot)
	}
	return s.store.Save(ctx, scopes...)
}

func valuesOf(s *state.Scope) map[string]jsontext.Value {
	values := map[string]jsontext.Value{}
	for _, name := range s.Names() {
		if raw, err := s.JSON(name); err == nil && raw != nil {
			values[name] = raw
		}
	}
	return values
}

// call calls the action and notes what came of it.
func (v *actionViews) call(ctx context.Context, a *actions.Action, entities map[string]any, in *activity.Activity, done *run) {
	select {
	case v.slots <- struct{}{}:
	default:
		done.Fault = "Other runs have not returned yet. Try again when they have."
		return
	}
	ctx = v.cfg.Log.With().Str("try", done.ID).Logger().WithContext(ctx)
	sends := &noticed{page: v.server, of: in, outside: done.Outside}
	s := &stage{store: v.of.Bot.Store(), turn: &actions.Turn{ID: done.ID, Activity: in, Text: in.Said(), Notifier: sends}}
	s.turn.UserToken = func(ctx context.Context, connection string) (connector.UserToken, error) {
		if v.of.UserToken == nil {
			return connector.UserToken{}, connector.ErrNoUserToken
		}
		return v.of.UserToken(ctx, in.Reference(), connection)
	}
	s.turn.Team = func(context.Context) (connector.Team, error) {
		return connector.Team{}, errors.New("an action that runs by hand is in no team")
	}
	s.turn.Gate = func(_ context.Context, call actions.Call) error {
		if !call.Action.StateOnly && !done.Outside {
			return fmt.Errorf("%s may have effects outside, and nobody ticked that", call.Action.Name)
		}
		return nil
	}
	if err := s.load(ctx); err != nil {
		<-v.slots
		done.Fault = "The state cannot be read: " + shownText(err.Error())
		return
	}
	type returned struct {
		result actions.Result
		err    error
	}
	ctx, cancel := context.WithTimeout(ctx, v.within)
	defer cancel()
	began, over := time.Now(), make(chan returned, 1)
	attempt := actions.Attempt{Key: done.ID + ".0", MayAsk: true}
	go func() { // ends when the action returns; the slot is taken until then
		defer func() { <-v.slots }()
		result, err := a.Call(attempt.Context(ctx), s.turn, entities)
		over <- returned{result, err}
	}()
	var came returned
	select {
	case came = <-over:
	case <-ctx.Done():
		late := time.NewTimer(v.grace)
		defer late.Stop()
		select {
		case came = <-over:
		case <-late.C:
			done.TookNS, done.Result = time.Since(began), "lost"
			done.Error = "It did not return when its time was over. Nobody knows what it has done, or will do. Nothing of its state is saved."
			return
		}
	}
	done.TookNS = time.Since(began)
	v.note(came.result, came.err, done)
	defer func() { v.record(s, a, entities, came.result, came.err, began, done) }()
	done.Notices = sends.all()
	done.Changes = v.changes(turnlog.Compare(s.before, s.state(), a.Name))
	if !done.Keep || done.Result == "failed" || done.Result == "asks" {
		return
	}
	switch err := s.save(context.WithoutCancel(ctx)); { // the store has a deadline of its own
	case errors.Is(err, state.ErrConflict):
		done.Error = "A turn changed the same state meanwhile, so what this run changed is not saved. Run it again."
	case err != nil:
		done.Error = "The state is not saved: " + shownText(v.scrub.Text(err.Error()))
	default:
		done.Saved = true
	}
}

// record adds a run to the turns.
func (v *actionViews) record(s *stage, a *actions.Action, entities map[string]any, result actions.Result, fault error, began time.Time, done *run) {
	see := func(e turn.Event) {
		e.Turn, e.At = done.ID, cmp.Or(e.At, time.Now())
		v.turns.WatchTurn(e)
	}
	of := *s.turn.Activity
	of.Type, of.Name = activity.Event, byHand
	raw, err := of.Encode()
	if err != nil {
		return
	}
	after := func() turn.State { return s.state() }
	see(turn.Event{At: began, Received: &turn.Received{Activity: raw, Text: a.Name}})
	see(turn.Event{At: began, Began: &turn.Began{}, State: func() turn.State { return s.before }})
	called := &turn.Called{
		Command: plan.Command{Kind: plan.Do, Action: a.Name, Entities: entities}, Action: a, Entities: entities, Key: done.ID + ".0", Result: result, Took: done.TookNS,
	}
	ended := &turn.Ended{Outcome: turnlog.OK}
	if fault != nil {
		called.Err = fault.Error()
	}
	if done.Result == "failed" {
		ended.Outcome, ended.Err = turnlog.Failed, cmp.Or(called.Err, done.Text)
	}
	see(turn.Event{Planned: &plan.Plan{Commands: []plan.Command{called.Command}}})
	see(turn.Event{Called: called, State: after})
	if !done.Saved {
		see(turn.Event{Ended: ended})
		return
	}
	see(turn.Event{Saved: &turn.Saved{}})
	see(turn.Event{Ended: ended, State: after})
}

const byHand = "by hand" // the name of what begins a run by hand

func isByHand(t turnlog.Head) bool { return t.Type == string(activity.Event)+" "+byHand }

func (v *actionViews) note(result actions.Result, err error, done *run) {
	text := func(text string) string { return shownText(v.scrub.Text(text)) }
	done.Text = text(result.Text())
	form, _ := result.Asks()
	switch {
	case err != nil:
		done.Result, done.Error = "failed", text(err.Error())
	case form != nil:
		done.Result, done.Text = "asks", text(form.Text)
		done.Data = text(pretty(form))
	case result.Failed():
		done.Result = "failed"
	case result.Unchanged():
		done.Result = "unchanged"
	default:
		done.Result = "ok"
	}
	if value, err := result.Value(); err == nil && done.Data == "" {
		if _, isText := value.(string); !isText {
			done.Data, done.Text = text(pretty(value)), ""
		}
	}
	for _, card := range result.Cards() {
		done.Cards = append(done.Cards, text(pretty(string(card.Attachment().Content))))
	}
	for _, f := range result.Files() {
		done.Files = append(done.Files, fmt.Sprintf("%s (%d bytes)", text(f.Name), len(f.Content)))
	}
}

func (v *actionViews) changes(all []turnlog.Change) []turnlog.Change {
	clean := []turnlog.Change{}
	for _, c := range all {
		c.Path, c.Before, c.After = v.scrub.Text(c.Path), shownText(v.scrub.Text(c.Before)), shownText(v.scrub.Text(c.After))
		clean = append(clean, c)
	}
	return clean
}

// noticed notes which messages an action sends elsewhere or later, and sends them if it may have effects
// outside.
type noticed struct {
	page    *server
	of      *activity.Activity
	outside bool

	mu   sync.Mutex
	said []string
}

// errUnseen says what an action cannot do in a run by hand.
var errUnseen = errors.New("an action that runs by hand cannot look at what waits to be sent")

func (n *noticed) Notify(ctx context.Context, notice actions.Notice) (string, error) {
	to := actions.To(n.of)
	if notice.To.Conversation == "" && notice.To.User == "" {
		notice.To = to
	}
	notice.To.Channel, notice.To.Bot = cmp.Or(notice.To.Channel, to.Channel), cmp.Or(notice.To.Bot, to.Bot)
	if notice.To.Via == "" && notice.To.Conversation == "" {
		notice.To.Via = to.Conversation
	}
	about := cmp.Or(notice.Text, notice.Memo, notice.Run, "a message")
	if !notice.At.IsZero() {
		about += ", at " + notice.At.Format(time.RFC3339)
	}
	if notice.Every != "" {
		about += ", every " + notice.Every
	}
	n.mu.Lock()
	if len(n.said) < maxKept {
		n.said = append(n.said, oneLine(about))
	}
	n.mu.Unlock()
	if !n.outside {
		return "not-sent", nil
	}
	return n.page.of.Bot.Notify(ctx, notice)
}

func (n *noticed) Notices(context.Context, string) ([]actions.Notice, error) { return nil, errUnseen }

func (n *noticed) Withdraw(context.Context, actions.Notice) (bool, error) { return false, errUnseen }

func (n *noticed) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.said)
}

// kept holds the last results of forms, for the views that the forms lead to. It is safe for concurrent
// use.
type kept[T any] struct {
	mu  sync.Mutex
	ids []string // oldest first
	all map[string]T
}

func (k *kept[T]) put(id string, one T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[string]T{}
	}
	if len(k.ids) == maxKept {
		delete(k.all, k.ids[0])
		k.ids = slices.Delete(k.ids, 0, 1)
	}
	k.ids, k.all[id] = append(k.ids, id), one
}

func (k *kept[T]) get(id string) (one T, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one, ok = k.all[id]
	return one, ok
}

// shownText is a text as a view shows it: as far as there is room for it, and with what is not seen
// marked.
func shownText(text string) string {
	if len(text) <= maxShown {
		return marked(text)
	}
	start := spelling.Shorten(text, maxShown)
	return fmt.Sprintf("%s … and %d more bytes", marked(start), len(text)-len(start))
}

// oneLine is a text in a list.
func oneLine(text string) string {
	const most = 4 * utf8.UTFMax * maxLine // some of it may be white space
	if len(text) > most {
		text = spelling.Shorten(text, most) + "…"
	}
	return spelling.OneLine(marked(text), maxLine)
}

// jsonText is a value as JSON that people can read. indent "": in one line.
func jsonText(v any, indent string) string {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out.String())
}
