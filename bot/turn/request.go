package turn

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// A request is a call that another program asks for in the name of a person. It is a notice in their own
// conversation, whose turn runs a plan of that one call. What comes of it is kept for a while in a document
// of the person, which is written before the turn ends: so it outlives the program.

// request is a pending [actions.Request].
type request struct {
	Subject  string         `json:"subject"`
	Person   string         `json:"person"` // id in Microsoft Entra
	By       string         `json:"by,omitempty"`
	Action   string         `json:"action"`
	Entities jsontext.Value `json:"entities,omitempty"`
	// Status is there once it is over. "": the outcome of the call says it.
	Status actions.RequestStatus `json:"status,omitempty"`
}

const (
	// requestRun marks the notices that are requests. It is no name of a handler.
	requestRun = "planbot/request"
	// maxResultKept is how many bytes of a result are kept, and maxAllKept how many bytes of all of them, as JSON.
	maxResultKept, maxAllKept = 16 << 10, 768 << 10
	// maxRequestsKept is how many requests are kept. One is kept at least for requestYoung, as its caller may
	// still wait: instead no new ones are taken.
	maxRequestsKept, requestYoung = 250, 2 * time.Minute
	// requestKept is how long they are kept at most.
	requestKept = 24 * time.Hour
)

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

// add adds a result. When there is too much, the texts of others go: first those that nobody waits for any
// more, and of the program that keeps most. That they were taken, and what came of them, stays.
func (k *keptRequests) add(one keptRequest) {
	old := func(one keptRequest) bool { return time.Since(one.At) > requestYoung }
	k.List = slices.DeleteFunc(k.List, func(known keptRequest) bool { return known.ID == one.ID || time.Since(known.At) > requestKept })
	k.List = append(k.List, one)
	for len(k.List) > maxRequestsKept && old(k.List[0]) {
		k.List = slices.Delete(k.List, 0, 1)
	}
	all, of := 0, map[string]int{}
	size := func(one keptRequest) int {
		raw, _ := json.Marshal(one) // texts always encode
		return len(raw)
	}
	for _, one := range k.List {
		n := size(one)
		all, of[one.Subject] = all+n, of[one.Subject]+n
	}
	for all > maxAllKept {
		kept := func(which func(keptRequest) bool) int {
			most, at := 0, -1
			for i, one := range k.List[:len(k.List)-1] {
				if one.Text != "" && of[one.Subject] > most && which(one) {
					most, at = of[one.Subject], i
				}
			}
			return at
		}
		i := kept(old)
		if i < 0 {
			i = kept(func(keptRequest) bool { return true })
		}
		if i < 0 {
			return
		}
		shorter := &k.List[i]
		n := size(*shorter)
		shorter.Text, shorter.Gone = "", true
		n -= size(*shorter)
		all, of[shorter.Subject] = all-n, of[shorter.Subject]-n
	}
}

// full reports whether no request can be added without losing one that its caller may still wait for.
func (k *keptRequests) full() bool {
	return len(k.List) >= maxRequestsKept && time.Since(k.List[len(k.List)-maxRequestsKept].At) <= requestYoung
}

func requestsKey(person state.Key) state.Key { return person.Under("notes", "requests") }

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

// requests is a turn as far as requests concern it.
type requests struct{ *Turn }

// directoryID is how the directory knows the person of a personal conversation. "": not at all.
func (t requests) directoryID() string {
	user, tenant := t.Proved()
	if !t.engine.cfg.Requests || user == "" || tenant == "" || !t.Activity.Conversation.Personal() {
		return ""
	}
	return tenant + "/" + user
}

// list puts the person into the directory.
func (t requests) list(ctx context.Context) error {
	user, tenant := t.Proved()
	docs, err := t.engine.cfg.Store.Load(ctx, directoryKey(tenant, user))
	if err != nil {
		return err
	}
	to := actions.To(t.Activity)
	*state.Of[directory](docs[0]) = directory{to.Channel, to.Bot, to.Caller, t.Activity.From.ID}
	return t.engine.cfg.Store.Save(ctx, docs...)
}

// forget deletes the person from the directory, and what came of the requests in their name.
func (t requests) forget(ctx context.Context) error {
	if !t.engine.cfg.Requests {
		return nil
	}
	keys := []state.Key{requestsKey(PersonKey(t.Activity))}
	if user, tenant := t.Proved(); user != "" && tenant != "" {
		keys = append(keys, directoryKey(tenant, user))
	}
	docs, err := t.engine.cfg.Store.Load(ctx, keys...)
	if len(docs) == 0 {
		return err
	}
	for _, doc := range docs {
		doc.Delete() // even if it cannot be read
		if err := t.engine.cfg.Store.Save(ctx, doc); err != nil {
			return err
		}
	}
	return nil
}

// of is the request that the turn runs; nil: it runs none.
func (t requests) of() *request {
	if t.rec.Notice == nil {
		return nil
	}
	return t.rec.Notice.Request
}

// asks says which program asks; "": none does.
func (t requests) asks() string {
	if r := t.of(); r != nil {
		return t.Translate("The program %s asks for this on your behalf.", titles.Visible(r.By))
	}
	return ""
}

// run is the handler of the turn of a request.
func (t requests) run(ctx context.Context) error {
	t.rec.Run, t.rec.Phase = &Run{}, planning
	return t.move(ctx)
}

// plan is the phase Planning of such a turn: its plan is the one call, and after that it is over.
func (t requests) plan(ctx context.Context) error {
	if len(t.Rounds) > 0 {
		t.rec.Run, t.rec.Phase = nil, done
		return nil
	}
	r := t.of()
	var entities map[string]any
	dec := json.NewDecoder(strings.NewReader(string(r.Entities)))
	dec.UseNumber()
	if err := dec.Decode(&entities); err != nil {
		return fmt.Errorf("read the entities of a request: %w", err)
	}
	p := plan.Plan{Commands: []plan.Command{{Kind: plan.Do, Action: r.Action, Entities: entities}}, Observe: true}
	p, err := p.Validate(t.engine.cfg.Actions)
	if err != nil {
		return fmt.Errorf("plan a request: %w", err)
	}
	zerolog.Ctx(ctx).Info().Str("action", r.Action).Str("by", r.By).Msg("runs the request of another program")
	t.rec.Run.Progress, t.rec.Phase, t.since.progressed = p.Start(nil), running, true
	t.Rounds = append(t.Rounds, actions.Round{})
	return nil
}

// keep keeps what came of a request, before its turn ends. It may be done twice.
func (t requests) keep(ctx context.Context) error {
	r := t.of()
	if r == nil || t.rec.Phase == waiting {
		return nil
	}
	kept := keptRequest{Requested: t.came(r), Subject: r.Subject, At: time.Now().UTC().Truncate(time.Second)}
	return t.engine.cfg.Store.Update(ctx, requestsKey(PersonKey(t.Activity)), func(doc *state.Scope) error {
		state.Of[keptRequests](doc).add(kept)
		return nil
	})
}

// came is what came of the request.
func (t requests) came(r *request) actions.Requested {
	result := actions.Requested{ID: t.rec.ID, Status: r.Status}
	outcomes := t.Outcomes()
	switch {
	case r.Status != "":
	case len(t.uncertain) > 0:
		result.Status = actions.RequestUnknown
	case len(outcomes) == 0 || t.rec.Phase == failed:
		result.Status, result.Text = actions.RequestFailed, "It could not be done."
	default:
		last := outcomes[len(outcomes)-1]
		result.Status, result.Text = actions.RequestDone, cut(last.Text, maxResultKept)
		if last.Failed {
			result.Status = actions.RequestFailed
		}
	}
	return result
}
