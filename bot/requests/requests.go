// Package requests makes the calls that other programs ask for in the name of people.
//
// A request is a record in the person's own conversation, whose turn makes that one call. What comes of it is kept for a
// while in a document of the person, which is written before the turn ends: so it outlives the program that asked.
package requests

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/state"
)

// Requests is what it needs to know of a bot. It is safe for concurrent use.
type Requests struct {
	Store   *state.Store
	Actions *actions.Registry
	// Taken says that requests are taken, and that the bot notes for that which account a person of Microsoft Entra has.
	// false: only those taken before are run.
	Taken bool
}

// Pending is a request whose turn is not over.
type Pending struct {
	Subject  string         `json:"subject"`
	Person   string         `json:"person"` // id in Microsoft Entra
	By       string         `json:"by,omitempty"`
	Action   string         `json:"action"`
	Entities jsontext.Value `json:"entities,omitempty"`
	// Status is there once it is over. "": the outcome of the call says it.
	Status actions.RequestStatus `json:"status,omitempty"`
}

const feature = "request"

var pending = turn.NewRunSlot[Pending](feature)

// Of is the request that a turn runs; false: it runs none.
func Of(h turn.Holder) (p Pending, ok bool) {
	p = pending.Peek(h)
	return p, p.Action != ""
}

// Program is the name of the program that asks in a turn on the person's behalf; "": none does.
func Program(h turn.Holder) string { return titles.Visible(pending.Peek(h).By) }

// Feature runs the requests, and keeps what comes of them.
func (r *Requests) Feature() turn.Feature {
	return turn.Feature{
		Name: feature, Handle: run, Left: r.left, Forget: r.forget,
		Noted: func(t *turn.Turn, n *turn.Note) { n.By = pending.Peek(t).By },
		Unmade: func(t *turn.Turn, expired bool) {
			switch _, ok := Of(t); {
			case ok && expired:
				pending.Of(t).Status = actions.RequestExpired
			case ok:
				pending.Of(t).Status = actions.RequestRejected
			}
		},
	}
}

const (
	// maxResult is how many bytes of a result are kept, and maxAll how many bytes of all of them, as JSON.
	maxResult, maxAll = 16 << 10, 768 << 10
	// maxKept is how many requests are kept. One is kept at least for young, as its caller may still wait: instead no
	// new ones are taken.
	maxKept, young = 250, 2 * time.Minute
	// keptFor is how long they are kept at most.
	keptFor = 24 * time.Hour
)

// Submit saves the request and returns its id. From then on it is run, whatever happens to this process. The call
// waits for approvals and answers of its person as any other. [Requests.Find] says what came of it.
//
// Errors, for errors.Is and errors.As: [actions.ErrUnknownRecipient] if the person has no conversation with the bot;
// [*actions.EntityError]; [actions.ErrNoRequest] if there is no such action; [actions.ErrFull] if the person's last
// requests are so many that the results of some would be lost; those of [turn.Engine.Notify].
func (r *Requests) Submit(ctx context.Context, e *turn.Engine, asked actions.Request) (id string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("request %s: %w", asked.Action, err)
		}
	}()
	action, ok := r.Actions.Lookup(asked.Action)
	if !ok || asked.Subject == "" {
		return "", actions.ErrNoRequest
	}
	if _, err := action.Check(asked.Entities); err != nil {
		return "", err
	}
	raw, err := plainjson.Marshal(asked.Entities)
	if err != nil {
		return "", err
	}
	known, err := r.accountOf(ctx, asked)
	if err != nil {
		return "", err
	}
	kept, err := r.kept(ctx, known)
	if err != nil {
		return "", err
	}
	if len(kept) >= maxKept && time.Since(kept[len(kept)-maxKept].At) <= young { // its caller may still wait
		return "", actions.ErrFull
	}
	n := actions.Notice{To: known.recipient()}
	if asked.Key != "" {
		n.Key = "request\n" + turn.Hash(asked.Subject, asked.Key)
	}
	return e.SubmitRun(ctx, feature, n, asked.Person, func(h turn.Holder) {
		*pending.Of(h) = Pending{Subject: asked.Subject, Person: asked.Person, By: asked.By, Action: action.Name, Entities: raw}
	})
}

// Find says how far a request has got: the one with that id, of the person and Subject of asked. It is known for a day
// after it ends. Errors: [actions.ErrNoRequest] and those of the store.
func (r *Requests) Find(ctx context.Context, e *turn.Engine, asked actions.Request, id string) (came actions.Requested, err error) {
	known, err := r.accountOf(ctx, asked)
	if errors.Is(err, actions.ErrUnknownRecipient) {
		return came, actions.ErrNoRequest
	}
	if err == nil { // before what is kept: that is written before the record goes
		rec, found, fault := e.Find(ctx, known.recipient(), id)
		if p, ok := Of(&rec); found && ok && p.Subject == asked.Subject {
			came = actions.Requested{ID: id, Status: actions.RequestPending}
			if rec.Wait != nil && rec.Wait.For == "operator" {
				came.Status = actions.RequestUnknown
			}
			return came, nil
		}
		if !errors.Is(fault, actions.ErrUnknownRecipient) {
			err = fault
		}
	}
	var all []keptRequest
	if err == nil {
		all, err = r.kept(ctx, known)
	}
	if err != nil {
		return came, fmt.Errorf("request %s: %w", id, err)
	}
	for _, kept := range all {
		if kept.ID == id && kept.Subject == asked.Subject && time.Since(kept.At) < keptFor {
			if kept.Gone {
				kept.Text = "There was more to say, which is no longer kept."
			}
			return kept.Requested, nil
		}
	}
	return came, actions.ErrNoRequest
}

// accountOf finds the account of the request's person.
func (r *Requests) accountOf(ctx context.Context, asked actions.Request) (directory, error) {
	if asked.Tenant == "" || asked.Person == "" || !r.Taken {
		return directory{}, actions.ErrUnknownRecipient
	}
	docs, err := r.Store.Load(ctx, directoryKey(asked.Tenant, asked.Person))
	if err != nil {
		return directory{}, err
	}
	known := *state.Peek[directory](docs[0])
	if known.User == "" {
		return directory{}, actions.ErrUnknownRecipient
	}
	return known, nil
}

// run is the turn of a request.
func run(ctx context.Context, t *turn.Turn) error {
	p, _ := Of(t)
	var entities map[string]any
	dec := json.NewDecoder(strings.NewReader(string(p.Entities)))
	dec.UseNumber()
	if err := dec.Decode(&entities); err != nil {
		return fmt.Errorf("read the entities of a request: %w", err)
	}
	zerolog.Ctx(ctx).Info().Str("action", p.Action).Str("by", p.By).Msg("runs the request of another program")
	if err := turn.RunCall(ctx, t, p.Person, p.Action, entities); err != nil {
		return fmt.Errorf("run a request: %w", err)
	}
	return nil
}

// left keeps what came of a request before its turn ends, and notes which account the person of any other turn has.
func (r *Requests) left(ctx context.Context, t *turn.Turn) error {
	p, ok := Of(t)
	if !ok {
		if r.Taken {
			r.list(ctx, t)
		}
		return nil
	}
	outcome, uncertain := turn.Ending(t)
	if outcome == "" {
		return nil
	}
	kept := keptRequest{Subject: p.Subject, At: time.Now().UTC().Truncate(time.Second)}
	kept.ID, kept.Status = t.ID, p.Status
	outcomes := t.Outcomes()
	switch {
	case p.Status != "":
	case len(uncertain) > 0:
		kept.Status = actions.RequestUnknown
	case len(outcomes) == 0 || outcome != "ok":
		kept.Status, kept.Text = actions.RequestFailed, cmp.Or(turn.Stopped(t), "It could not be done.")
	default:
		last := outcomes[len(outcomes)-1]
		kept.Status, kept.Text = actions.RequestDone, last.Text
		if len(kept.Text) > maxResult {
			kept.Text = strings.ToValidUTF8(kept.Text[:maxResult], "") + " […]"
		}
		if last.Failed {
			kept.Status = actions.RequestFailed
		}
	}
	return r.Store.Update(ctx, keptKey(turn.PersonKey(t.Activity)), func(doc *state.Scope) error {
		state.Of[keptRequests](doc).add(kept)
		return nil
	})
}

// keptRequest is what came of a request.
type keptRequest struct {
	actions.Requested
	Subject string    `json:"subject"`
	At      time.Time `json:"at"`
	Gone    bool      `json:"gone,omitzero"` // there was a text, and it was too much to keep
}

// keptRequests is a document of the person.
type keptRequests struct {
	List []keptRequest `json:"list,omitempty"`
}

func keptKey(person state.Key) state.Key { return person.Under("notes", "requests") }

func (r *Requests) kept(ctx context.Context, of directory) ([]keptRequest, error) {
	a := &activity.Activity{ChannelID: of.Channel}
	a.From.ID, a.Recipient.ID = of.User, of.Bot
	if of.Caller != "" {
		a.CallerID = activity.CallerOf(of.Caller)
	}
	docs, err := r.Store.Load(ctx, keptKey(turn.PersonKey(a)))
	if err != nil {
		return nil, err
	}
	return state.Peek[keptRequests](docs[0]).List, nil
}

// add adds a result. When there is too much, the texts of others go: first those that nobody waits for any
// more, and of the program that keeps most. That they were taken, and what came of them, stays.
func (k *keptRequests) add(one keptRequest) {
	old := func(one keptRequest) bool { return time.Since(one.At) > young }
	k.List = slices.DeleteFunc(k.List, func(known keptRequest) bool { return known.ID == one.ID || time.Since(known.At) > keptFor })
	k.List = append(k.List, one)
	for len(k.List) > maxKept && old(k.List[0]) {
		k.List = slices.Delete(k.List, 0, 1)
	}
	for {
		all, of := 0, map[string]int{}
		for _, known := range k.List {
			raw, _ := json.Marshal(known) // texts always encode
			all, of[known.Subject] = all+len(raw), of[known.Subject]+len(raw)
		}
		var next *keptRequest
		for i := range k.List[:len(k.List)-1] {
			known := &k.List[i]
			first := next == nil || old(*known) && !old(*next) || old(*known) == old(*next) && of[known.Subject] > of[next.Subject]
			if known.Text != "" && first {
				next = known
			}
		}
		if all <= maxAll || next == nil {
			return
		}
		next.Text, next.Gone = "", true
	}
}

// directory says which account a person of Microsoft Entra has here. It is a document of its own, found
// by their ids there.
type directory struct {
	Channel string `json:"channel,omitempty"`
	Bot     string `json:"bot,omitempty"`
	Caller  string `json:"caller,omitempty"`
	User    string `json:"user,omitempty"`
}

func directoryKey(tenant, person string) state.Key {
	return state.UserKey("directory", strings.ToLower(tenant), strings.ToLower(person))
}

func (d *directory) recipient() actions.Recipient {
	return actions.Recipient{Channel: d.Channel, Bot: d.Bot, Caller: d.Caller, User: d.User}
}

// listedAs says, among the notes about a person, how the directory knows them.
type listedAs struct {
	Person string `json:"p,omitempty"`
}

// list puts the person of a turn in their personal conversation into the directory, once.
func (r *Requests) list(ctx context.Context, t *turn.Turn) {
	a, home := t.Activity, turn.Home(t)
	user, tenant := t.Proved()
	if home == nil || t.Unasked() || a.ServiceURL == "" || a.FromBot() || a.FromExtension() || user == "" || tenant == "" {
		return
	}
	id := tenant + "/" + user
	if state.Peek[listedAs](home).Person == id || home.Err() != nil {
		return
	}
	docs, err := r.Store.Load(ctx, directoryKey(tenant, user))
	if err == nil {
		to := actions.To(a)
		*state.Of[directory](docs[0]) = directory{to.Channel, to.Bot, to.Caller, a.From.ID}
		err = r.Store.Save(ctx, docs...)
	}
	if err == nil || errors.Is(err, state.ErrConflict) {
		state.Of[listedAs](home).Person = id
		err = r.Store.Save(ctx, home)
	}
	if err != nil && !errors.Is(err, state.ErrConflict) { // after one the next turn notes it
		zerolog.Ctx(ctx).Warn().Err(err).Msg("could not note which account the person has")
	}
}

// forget deletes the person from the directory, and what came of the requests in their name.
func (r *Requests) forget(ctx context.Context, t *turn.Turn) error {
	if !r.Taken {
		return nil
	}
	keys := []state.Key{keptKey(turn.PersonKey(t.Activity))}
	if user, tenant := t.Proved(); user != "" && tenant != "" {
		keys = append(keys, directoryKey(tenant, user))
	}
	if home := turn.Home(t); home != nil {
		*state.Of[listedAs](home) = listedAs{}
	}
	docs, err := r.Store.Load(ctx, keys...)
	if len(docs) == 0 {
		return err
	}
	for _, doc := range docs {
		doc.Delete() // even if it cannot be read
		if err := r.Store.Save(ctx, doc); err != nil {
			return err
		}
	}
	return nil
}
