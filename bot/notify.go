package bot

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// What [Bot.Notify] takes and says; see there.
type (
	// Notice is what a bot says without being asked just now.
	Notice = actions.Notice
	// Recipient says where a notice goes.
	Recipient = actions.Recipient
)

var (
	// ErrUnknownRecipient says that the bot has heard nothing from there yet, or has
	// forgotten it.
	ErrUnknownRecipient = actions.ErrUnknownRecipient
	// ErrUnreachable says that the bot cannot speak there, and why.
	ErrUnreachable = actions.ErrUnreachable
)

// sameNotice is how long a notice is known by its key.
const sameNotice = 24 * time.Hour

// Notify keeps the notice in the inbox, where it is a turn of its conversation like
// any other: it is sent in order with them, at least once, by any process, and waits
// while the channel is away. It returns the turn's id; that of the first one for a
// notice that has been here before by its Key.
//
// Errors, for errors.Is: [ErrUnknownRecipient]; [ErrUnreachable] when the channel has
// refused what was sent there last; [state.ErrFull] and [state.ErrUnavailable], after
// which the same notice may be tried again.
func (b *Bot) Notify(ctx context.Context, n Notice) (turn string, err error) {
	return b.notify(ctx, &post{Notice: n})
}

// Notify is [Bot.Notify] from within a turn, by its person, and to its conversation
// unless the notice says otherwise. Of a call of an action, a second try sends nothing
// twice.
func (t *Turn) Notify(ctx context.Context, n Notice) (turn string, err error) {
	p := &post{Notice: n, owner: t.owner(), attempt: actions.AttemptOf(ctx).Key}
	here := actions.To(t.Activity)
	if p.To.Conversation == "" && p.To.User == "" {
		p.To.Conversation = here.Conversation
	}
	if p.To.Channel == "" && p.To.Bot == "" {
		p.To.Channel, p.To.Bot, p.To.Caller = here.Channel, here.Bot, here.Caller
	}
	if p.To.Conversation != "" && t.Conversation != nil && keyOf(p.To) == t.Conversation.Key() {
		p.known, p.own = *state.Of[reference](t.Conversation), t.Activity.Conversation.Personal()
	}
	return t.bot.notify(ctx, p)
}

// post is a notice on its way.
type post struct {
	Notice
	owner   string // who may withdraw it; "": nobody
	attempt string // key of the call of an action that sends it; "": none does
	known   reference
	own     bool // it goes to where the owner asked for it, in a conversation with nobody else
}

func (p *post) later() bool { return time.Until(p.At) > 0 }

func (b *Bot) notify(ctx context.Context, p *post) (string, error) {
	id, err := "", b.address(ctx, p)
	if err == nil {
		id, err = b.keep(ctx, p)
	}
	if err != nil {
		return "", fmt.Errorf("notify: %w", err)
	}
	return id, nil
}

// address finds the conversation that the notice goes to.
func (b *Bot) address(ctx context.Context, p *post) error {
	if b.embedded && b.Draining() {
		return errDraining
	}
	if p.To.Conversation == "" {
		docs, err := b.cfg.Store.Load(ctx, homeKey(state.UserKey(ownChannel(p.To.Channel, p.To.Caller), p.To.Bot, p.To.User)))
		if err != nil {
			return err
		}
		if p.To.Conversation = state.Of[home](docs[0]).Conversation; p.To.Conversation == "" {
			return ErrUnknownRecipient
		}
	}
	if p.known == (reference{}) {
		docs, err := b.cfg.Store.Load(ctx, keyOf(p.To))
		if err != nil {
			return err
		}
		p.known = *state.Of[reference](docs[0])
	}
	if p.known == (reference{}) {
		return ErrUnknownRecipient
	}
	if why := b.usable(&p.known); why != "" {
		return fmt.Errorf("%w %s", ErrUnreachable, why)
	}
	return nil
}

// keep puts the notice into the inbox, or where it waits for its time.
func (b *Bot) keep(ctx context.Context, p *post) (string, error) {
	t := b.newTurn(p.known.in(p.To))
	t.awaited, t.signed = false, p.known.Signed
	messages, err := compose(&p.Notice, t.Activity)
	if err != nil {
		return "", err
	}
	lane, key := conversationLane(t.Activity), p.key(messages)
	t.notice = &notice{Messages: messages, Known: p.known, Keyed: key != "", Topic: p.Topic, Memo: p.Memo}
	if key != "" {
		t.ID = noticeID(lane, key)
	}
	t.trace = traceparent(ctx)
	if p.later() {
		t.notice.Due = p.At
		t.trace, t.after = "", t.trace
	}
	body, err := t.noticeItem()
	if err != nil {
		return "", err
	}
	if p.later() {
		if err := t.listWaiting(ctx, p); err != nil {
			return "", err
		}
		return t.ID, b.inbox.Schedule(ctx, state.Timer{Lane: lane, ID: t.ID, Owner: p.owner, At: p.At, Body: body})
	}
	e := state.Entry{Lane: lane, Turn: t.ID, Body: body, Load: t.keys()}
	if key != "" {
		e.Duplicates = []state.Duplicate{{ID: "notice\n" + key, For: sameNotice}}
	}
	receipt, err := b.submit(ctx, t, e)
	return receipt.Turn, err
}

// listWaiting puts the conversation in which the notice of t waits among its owner's
// places. A notice that /forget would not find is not kept.
func (t *Turn) listWaiting(ctx context.Context, p *post) error {
	if p.owner == "" {
		return nil
	}
	a := *t.Activity
	a.From.ID = p.owner
	there := place{p.To.Conversation, p.own}
	return t.bot.inbox.Join(ctx, placesKey(userKey(&a)), there.member())
}

// key tells the notice from others to the same conversation; "": nothing does.
func (p *post) key(messages []jsontext.Value) string {
	if p.Key != "" || p.attempt == "" {
		return p.Key
	}
	said := sha256.New()
	for _, m := range messages {
		said.Write(binary.AppendUvarint(nil, uint64(len(m))))
		said.Write(m)
	}
	return "call\n" + p.attempt + "\n" + string(said.Sum(nil))
}

// noticeID is the id of the turn of a notice with a key.
func noticeID(lane state.Lane, key string) string {
	sum := sha256.Sum256([]byte(lane.String() + "\n" + key))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:12])
}

// noticeItem is what the inbox keeps of the turn of a notice.
func (t *Turn) noticeItem() ([]byte, error) {
	raw, err := t.Activity.Encode()
	if err != nil {
		return nil, err
	}
	i := item{Version: itemVersion, Signed: t.signed, CallerID: t.Activity.CallerID, Notice: t.notice, Trace: t.trace, After: t.after, Activity: raw}
	return i.encode(), nil
}

func keyOf(to Recipient) state.Key {
	there := activity.Conversation{}
	there.ID = to.Conversation
	return state.ConversationKey(ownChannel(to.Channel, to.Caller), to.Bot, there.BaseID())
}
