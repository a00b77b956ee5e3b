package state

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed lanes.lua
	lanesLua string

	//go:embed accept.lua
	acceptLua string

	//go:embed forget.lua
	forgetLua string
)

var (
	acceptScript = newScript(docsLua, lanesLua, acceptLua)
	forgetScript = newScript(forgetLua)
)

// Duplicate is something that tells a delivery from others of its conversation. A delivery
// that is known by one is known by those before it, too, from then on.
type Duplicate struct {
	ID  string
	For time.Duration // how long to remember it. 0: [InboxConfig.DuplicateFor]
}

// Entry is what [Inbox.Accept] takes in.
type Entry struct {
	Lane       Lane
	Turn       string      // id of the turn, made by the caller; an entry that is accepted again with it is kept once
	Body       []byte      // JSON
	Duplicates []Duplicate // any of them known: a duplicate. None: never
	Take       bool        // take the lane if nobody has it
	Load       []Key       // documents to read in the same round trip, useful with Take
	Set        Key         // a set that Member joins in the same round trip, see [Inbox.Join]. Zero: none
	Member     string
	Save       []*Scope // documents of the lane's partition to save in the same step
	Unbounded  bool     // no limit refuses it: it follows from something that was accepted
}

// Receipt is what became of an [Entry].
type Receipt struct {
	Duplicate bool
	Turn      string   // of the entry; for a Duplicate, of the first delivery
	Answer    []byte   // what was answered to the first delivery, if that is known
	Hold      *Hold    // not nil: the lane is the caller's, the entry is at its head
	Scopes    []*Scope // of Entry.Load, when Hold is set; one that cannot be used says so in Err
	Joined    bool     // Entry.Member is in its set for certain; it is tried once
}

// Accept puts e into its lane's queue, in one step with the check that it was not
// delivered before, the documents to save and, with Take, the taking of the lane.
// Nil means that it is kept until it is done with. Errors: [ErrFull]; a
// [ConflictError] of the documents, a [TooLargeError], [ErrKey], after which
// nothing was done; [ErrUnavailable] and the context's, after which it is not
// known: the same entry may be tried again. One that was accepted before is kept
// once, and gives the lane to the call that took it only.
func (i *Inbox) Accept(ctx context.Context, e Entry) (Receipt, error) {
	docs, err := i.checkEntry(e)
	if err != nil {
		return Receipt{}, fmt.Errorf("accept: %w", err)
	}
	keys := e.Lane.keys()
	free := i.backlog.enter(i.cfg.MaxWaiting, e.Unbounded)
	docs.call = i.acceptCall(&e, keys, docs, free)
	calls := append(make([]*call, 0, 2+len(e.Load)), &docs.call)
	for _, key := range e.Load {
		read := plain("getrange", key.name, 0, i.r.cfg.MaxBytes)
		calls = append(calls, &read)
	}
	join := i.joinCall(e.Set, e.Member)
	if join.once = true; e.Set != (Key{}) {
		calls = append(calls, &join)
	}
	sent := i.now()
	err = i.do(ctx, "accept", calls...)
	if free {
		i.backlog.entered(docs.err == nil && docs.list().int(0) <= 2)
	}
	if docs.err != nil {
		docs.forgetCertainty()
		return Receipt{}, explain(ctx, "accept", docs.err)
	}
	receipt, failure := i.receipt(ctx, &e, keys, docs, sent)
	receipt.Joined = join.reply != nil && join.err == nil
	if failure != nil || receipt.Hold == nil || len(e.Load) == 0 {
		return receipt, failure
	}
	if err == nil {
		receipt.Scopes, err = i.loaded(ctx, e.Load, calls[1:1+len(e.Load)])
	}
	if err != nil {
		i.drop(receipt.Hold) // it is kept; whoever takes the lane over reads again
		return Receipt{}, err
	}
	return receipt, nil
}

func (i *Inbox) checkEntry(e Entry) (*group, error) {
	if err := errors.Join(e.Lane.key.Err(), checkTurn(e.Turn), i.fits(e.Lane, len(e.Body), i.maxItem())); err != nil {
		return nil, err
	}
	for _, key := range e.Load {
		if err := key.Err(); err != nil {
			return nil, err
		}
	}
	groups, err := i.r.prepare(e.Save, time.Now())
	if err != nil {
		return nil, err
	}
	switch {
	case len(groups) == 0:
		return &group{}, nil
	case len(groups) > 1, groups[0].partition() != e.Lane.key.partition:
		return nil, errors.New("a document of another partition than the lane's")
	}
	return groups[0], nil
}

// acceptCall makes the KEYS and ARGV of accept.lua. An entry that nothing
// tells from others is remembered by its turn, as long as it may be repeated.
func (i *Inbox) acceptCall(e *Entry, keys laneKeys, docs *group, free bool) call {
	duplicates := e.Duplicates
	if len(duplicates) == 0 {
		duplicates = []Duplicate{{ID: e.Turn, For: time.Duration(i.callMemory()) * time.Second}}
	}
	n, part := len(duplicates), &i.parts[e.Lane.key.partition]
	docs.call = callOf(acceptScript, strconv.Itoa(6+n+len(docs.writes)), 14+2*n+3*len(docs.writes))
	docs.args = append(docs.args, keys.queue, keys.lease, part.leases, part.ready, part.depth, part.fence)
	for _, d := range duplicates {
		docs.args = append(docs.args, e.Lane.key.seenKey(d.ID))
	}
	docs.addKeys()
	owner := ""
	if e.Take {
		owner = i.caller()
	}
	docs.args = append(docs.args, keys.lane, e.Turn, e.Body, owner, i.lease, i.room(e, free), n)
	for _, d := range duplicates {
		docs.args = append(docs.args, seconds(cmp.Or(d.For, i.cfg.DuplicateFor)))
	}
	docs.addDocs(i.r.cfg.TTL)
	return docs.call
}

// room is how long the lane's queue may be: 0 any length, -1 no entry is taken.
func (i *Inbox) room(e *Entry, free bool) int {
	switch {
	case !free:
		return -1
	case e.Unbounded:
		return 0
	}
	return i.cfg.MaxWaitingPerLane
}

// receipt reads the reply of accept.lua.
func (i *Inbox) receipt(ctx context.Context, e *Entry, keys laneKeys, docs *group, sent time.Duration) (Receipt, error) {
	reply := docs.list()
	switch reply.int(0) {
	case 1:
		docs.settled()
		item := Item{Turn: e.Turn, Accepted: time.UnixMilli(reply.int(2)), Body: e.Body}
		return Receipt{Turn: e.Turn, Hold: i.hold(e.Lane, keys, reply.int(1), item, sent)}, nil
	case 2:
		docs.settled()
		return Receipt{Turn: e.Turn}, nil
	case 3:
		i.duplicates.Add(1)
		answer, err := i.Answer(ctx, e.Lane, reply.text(1))
		return Receipt{Duplicate: true, Turn: reply.text(1), Answer: answer}, err
	case 4:
		return Receipt{}, fmt.Errorf("accept: %w", ErrFull)
	case 5:
		return Receipt{}, &ConflictError{Conflicted: docs.keys()}
	}
	return Receipt{}, fmt.Errorf("accept: redis answered %v", docs.reply.Val())
}

func (i *Inbox) loaded(ctx context.Context, keys []Key, calls []*call) ([]*Scope, error) {
	scopes := make([]*Scope, len(keys))
	replies := make([]*redis.Cmd, len(keys))
	for j, key := range keys {
		scopes[j], replies[j] = &Scope{key: key}, calls[j].reply
		if err := calls[j].err; err != nil && !isWrongType(err) {
			return nil, explain(ctx, "load state", err)
		}
	}
	_ = i.r.fill(ctx, scopes, replies) // the scopes say it themselves
	return scopes, nil
}

// Answer returns what [Hold.Finish] kept as the answer of a turn of lane; nil: there is none yet.
func (i *Inbox) Answer(ctx context.Context, lane Lane, turn string) ([]byte, error) {
	if err := errors.Join(lane.key.Err(), checkTurn(turn)); err != nil {
		return nil, fmt.Errorf("read an answer: %w", err)
	}
	read := plain("getrange", lane.key.answerKey(turn), 0, -1)
	if err := i.do(ctx, "read an answer", &read); err != nil {
		return nil, err
	}
	text, err := read.reply.Text()
	if err != nil {
		return nil, explain(ctx, "read an answer", err)
	}
	if text == "" {
		return nil, nil
	}
	return []byte(text[len(answerMark):]), nil
}

// answerMark makes an empty answer one.
const answerMark = "="

func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Forget has later deliveries with this [Duplicate.ID] count again, if those before were
// of that turn.
func (i *Inbox) Forget(ctx context.Context, lane Lane, id, turn string) error {
	if err := errors.Join(lane.key.Err(), checkTurn(turn)); err != nil {
		return fmt.Errorf("forget a delivery: %w", err)
	}
	c := callOf(forgetScript, "1", 2)
	c.args = append(c.args, lane.key.seenKey(id), turn)
	_, err := i.count(ctx, "forget a delivery", &c)
	return err
}
