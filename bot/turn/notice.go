package turn

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// A notice is what a bot says without being asked just then. It is a record like any other: it
// waits for its time outside of its queue, and then sends its messages in order with the turns of
// its conversation.

const (
	// maxNotice limits the messages of one notice.
	maxNotice = 50
	// lateAfter is the delay after which a notice says that it is late.
	lateAfter = 5 * time.Minute
	// maxSentNotices is how many sent notices a conversation remembers.
	maxSentNotices = 20
	// sameNotice is how long the key of a notice is remembered.
	sameNotice = 24 * time.Hour
)

// Notify saves the notice. Any process sends it, at least once, in order with the turns of its
// conversation, and waits while the channel is unavailable. Notify returns the record's id; for a
// notice whose Key was used before, that of the first one.
//
// Errors, for errors.Is: [actions.ErrUnknownRecipient]; [actions.ErrUnreachable] if the channel
// refused what was last sent there; [actions.ErrFull] and [state.ErrUnavailable], after which the
// same notice may be tried again.
func (e *Engine) Notify(ctx context.Context, n actions.Notice) (id string, err error) {
	return e.notify(ctx, &post{Notice: n})
}

// notifier sends notices for the actions of a turn.
type notifier struct{ *Turn }

// Notify is [Engine.Notify] from within a turn, by its person, and to its conversation unless the
// notice says otherwise. If a call of an action runs again, its notices are not sent twice.
func (t notifier) Notify(ctx context.Context, n actions.Notice) (id string, err error) {
	p := &post{Notice: n, owner: t.owner(), attempt: actions.AttemptOf(ctx).Key}
	here := actions.To(t.Activity)
	if p.To.Conversation == "" && p.To.User == "" {
		p.To.Conversation = here.Conversation
	}
	if p.To.Channel == "" && p.To.Bot == "" {
		p.To.Channel, p.To.Bot, p.To.Caller = here.Channel, here.Bot, here.Caller
	}
	if p.To.Conversation != "" && t.Conversation != nil && queueOf(p.To) == t.Conversation.Key() {
		p.known, p.own = *state.Of[reference](t.Conversation), t.Activity.Conversation.Personal()
	}
	return t.engine.notify(ctx, p)
}

// post is a notice before it is saved.
type post struct {
	actions.Notice
	owner   string // who may withdraw it; "": nobody
	attempt string // key of the action call that sends it; "": none
	known   reference
	own     bool // it goes to the personal conversation in which the owner asked for it
}

func (e *Engine) notify(ctx context.Context, p *post) (string, error) {
	id, err := "", e.address(ctx, p)
	if err == nil {
		id, err = e.keep(ctx, p)
	}
	if errors.Is(err, inbox.ErrFull) {
		err = fmt.Errorf("%w: %w", actions.ErrFull, err)
	}
	if err != nil {
		return "", fmt.Errorf("notify: %w", err)
	}
	return id, nil
}

// address finds the conversation that the notice goes to.
func (e *Engine) address(ctx context.Context, p *post) error {
	if e.cfg.Store.Embedded() && e.workers.closing() {
		return ErrDraining
	}
	if p.To.Conversation == "" {
		docs, err := e.cfg.Store.Load(ctx, homeKey(keyOf(p.To)))
		if err != nil {
			return err
		}
		if p.To.Conversation = state.Of[home](docs[0]).Conversation; p.To.Conversation == "" {
			return actions.ErrUnknownRecipient
		}
	}
	if p.known == (reference{}) {
		docs, err := e.cfg.Store.Load(ctx, queueOf(p.To))
		if err != nil {
			return err
		}
		p.known = *state.Of[reference](docs[0])
	}
	if p.known == (reference{}) {
		return actions.ErrUnknownRecipient
	}
	if why := p.known.usable(e.cfg.Channel); why != "" {
		return fmt.Errorf("%w %s", actions.ErrUnreachable, why)
	}
	return nil
}

// keep puts the notice into the inbox: into its queue or, if it is for later, among the records
// that wait.
func (e *Engine) keep(ctx context.Context, p *post) (string, error) {
	a := p.known.in(p.To)
	raw, err := a.Encode()
	if err != nil {
		return "", err
	}
	t := e.NewTurn(a, raw, p.known.Signed, false)
	messages, err := compose(&p.Notice, a)
	if err != nil {
		return "", err
	}
	entry, key := inbox.Entry{Queue: queueOf(p.To)}, p.key(messages)
	t.rec.Notice = &pendingNotice{Messages: messages, Known: p.known, Keyed: key != ""}
	t.rec.Trace = traceparent(ctx)
	if key != "" {
		sum := sha256.Sum256([]byte(entry.Queue.String() + "\n" + key))
		t.ID = strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:idLen])
		t.rec.ID = t.ID
	}
	if time.Until(p.At) > 0 {
		t.rec.Phase, t.rec.Notice.Due = waiting, p.At
		t.rec.Wait = &Wait{
			For: forTime, Until: p.At, Then: planning, Owner: p.owner, Topic: p.Topic, Memo: p.Memo, Conversation: p.To.Conversation,
		}
		listed := t.rec.Wait.listed()
		entry.Wait = &listed
		if p.owner != "" { // /forget has to find every notice
			owner := *a
			owner.From.ID = p.owner
			if err := e.cfg.Store.Join(ctx, placesKey(userKey(&owner)), placeOf(p.To.Conversation, p.own)); err != nil {
				return "", err
			}
		}
	} else {
		entry.Load = t.keys()
		if key != "" {
			entry.Duplicates = []inbox.Duplicate{{ID: "notice\n" + key, For: sameNotice}}
		}
	}
	id, _, err := e.submit(ctx, t, entry)
	return id, err
}

// key distinguishes the notice from others to the same conversation; "": it has no key.
func (p *post) key(messages []jsontext.Value) string {
	if p.Key != "" || p.attempt == "" {
		return p.Key
	}
	return "call\n" + p.attempt + "\n" + hashOf(messages)
}

// compose makes the messages of a notice to the conversation of a.
func compose(n *actions.Notice, a *activity.Activity) ([]jsontext.Value, error) {
	var list []*activity.Activity
	for _, part := range split(n.Text) {
		if strings.TrimSpace(part) != "" {
			list = append(list, &activity.Activity{Type: activity.Message, Text: part, TextFormat: "markdown"})
		}
	}
	for _, one := range n.Activities {
		if one == nil || one.Type == "" {
			return nil, errors.New("an activity of the notice has no type")
		}
		list = append(list, one)
	}
	if len(list) == 0 || len(list) > maxNotice {
		return nil, fmt.Errorf("a notice of %d messages", len(list))
	}
	messages := make([]jsontext.Value, len(list))
	for i, one := range list {
		raw, err := into(a, one).EncodeToSend()
		if err != nil {
			return nil, err
		}
		messages[i] = raw
	}
	return messages, nil
}

// into returns a copy of m that goes to the conversation of a.
func into(a, m *activity.Activity) *activity.Activity {
	there, out := activity.To(a.Reference(), m.Type), *m
	out.ChannelID, out.ServiceURL, out.Conversation = there.ChannelID, there.ServiceURL, there.Conversation
	out.From, out.Recipient = there.From, there.Recipient
	return &out
}

// sentNotices are the records of the last notices with a key that went to a conversation. They are
// part of its state.
type sentNotices struct {
	Turns []string `json:"turns,omitempty"`
}

// sendNotice is the handler of a notice: it sends the messages to the conversation's current
// address.
func sendNotice(ctx context.Context, t *Turn) error {
	known := *state.Of[reference](t.Conversation)
	if known == (reference{}) {
		known = t.rec.Notice.Known
	}
	if why := known.usable(t.engine.cfg.Channel); why != "" {
		zerolog.Ctx(ctx).Warn().Str("reason", why).Msg("a notice was dropped: nothing can be sent there")
		count(t.engine.meter.replies, "given_up")
		return nil
	}
	t.Activity = known.in(actions.To(t.Activity))
	t.rec.Caller.Trusted = known.Signed
	if sent := state.Of[sentNotices](t.Conversation); t.rec.Notice.Keyed {
		if slices.Contains(sent.Turns, t.ID) {
			zerolog.Ctx(ctx).Info().Msg("a notice that was sent before is not sent again")
			return nil
		}
		sent.Turns = newest(append(sent.Turns, t.ID), maxSentNotices)
	}
	var list []*activity.Activity
	for _, raw := range t.rec.Notice.Messages {
		m, err := activity.Decode(raw)
		if err != nil {
			return &deadLetter{reason: "its messages cannot be read", err: err}
		}
		list = append(list, into(t.Activity, m))
	}
	if due := t.rec.Notice.Due; !due.IsZero() && time.Since(due) > lateAfter {
		list = append(list, t.Message(t.Translate("This was due on %s.", due.Format(t.Translate("Monday, 2 January at 15:04")))))
	}
	return t.Send(ctx, list...)
}

// Notices lists the person's notices on the topic that wait, see [actions.Notifier].
func (t notifier) Notices(ctx context.Context, topic string) (all []actions.Notice, err error) {
	seen := map[string]bool{}
	err = t.engine.cfg.Store.Members(ctx, placesKey(userKey(t.Activity)), func(places []string) error {
		var queues []state.Key
		for _, place := range places {
			conversation, _ := readPlace(place)
			queues = append(queues, queueOf(t.elsewhere(conversation)))
		}
		waiting, err := t.engine.inbox.Waiting(ctx, queues...)
		for _, listed := range waiting {
			w := readWait(listed)
			if w.For != forTime || w.Owner != t.owner() || w.Topic != topic || seen[listed.ID] {
				continue
			}
			seen[listed.ID] = true
			to := actions.Recipient{Conversation: w.Conversation}
			all = append(all, actions.Notice{ID: listed.ID, At: listed.Until, Memo: w.Memo, To: to})
		}
		return err
	})
	slices.SortStableFunc(all, func(a, b actions.Notice) int { return a.At.Compare(b.At) })
	return all, err
}

// Withdraw drops a waiting notice of the person, see [actions.Notifier].
func (t notifier) Withdraw(ctx context.Context, n actions.Notice) (bool, error) {
	queue := queueOf(t.elsewhere(n.To.Conversation))
	w, err := t.engine.inbox.Find(ctx, queue, n.ID)
	if errors.Is(err, inbox.ErrNoRecord) || err == nil && readWait(w).Owner != t.owner() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return t.engine.inbox.Drop(ctx, queue, n.ID)
}
