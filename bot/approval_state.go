package bot

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// approvals name the documents of what a conversation was asked to approve. They
// are a value of its state; the documents are of their own, so that a click has
// nothing to do with a turn that is at work meanwhile. What was approved for good is
// here.
type approvals struct {
	Asked    []asked    `json:"asked,omitempty"`
	Standing []standing `json:"standing,omitempty"`
}

// standing is a call that was approved for good: for whoever asked, in this
// conversation.
type standing struct {
	Hash  string    `json:"hash"`
	Asker string    `json:"asker"`
	By    string    `json:"by,omitempty"`
	At    time.Time `json:"at"`
}

// maxStanding bounds them; the oldest one goes.
const maxStanding = 100

// stands reports whether the call was approved for good.
func (t *Turn) stands(hash string) bool {
	return slices.ContainsFunc(state.Of[approvals](t.Conversation).Standing, func(s standing) bool {
		return s.Hash == hash && s.Asker == t.Activity.From.ID
	})
}

// stand keeps an approval for good.
func (t *Turn) stand(p *pending) {
	list := state.Of[approvals](t.Conversation)
	list.Standing = append(list.Standing, standing{Hash: p.Hash, Asker: p.Asker.ID, By: p.Decided.By, At: p.Decided.At})
	if over := len(list.Standing) - maxStanding; over > 0 {
		list.Standing = slices.Delete(list.Standing, 0, over)
	}
}

type asked struct {
	ID      string    `json:"id"`
	Asker   string    `json:"asker"`
	Expires time.Time `json:"expires"`
	Over    bool      `json:"over,omitzero"` // what follows the decision has begun
}

// pending is the document of a call that waits for a person, with the run that
// goes on when it is approved. A decision is spent in the write that keeps it,
// wherever the click arrives. The run is kept until it begins, which is a write
// too: so it begins once, and a decision is not lost when the process that took it
// is.
type pending struct {
	ID        string         `json:"id"`
	Hash      string         `json:"hash"` // of the call
	Action    string         `json:"action"`
	Entities  jsontext.Value `json:"entities,omitempty"` // as the action will get them
	Reason    string         `json:"reason,omitempty"`
	Turn      string         `json:"turn"`
	Asker     person         `json:"asker"`
	Approvers []string       `json:"approvers,omitempty"` // ids; none: the asker
	Standing  bool           `json:"standing,omitzero"`   // may be approved for good
	Expires   time.Time      `json:"expires"`
	Trace     string         `json:"trace,omitempty"` // traceparent of the turn
	CardID    string         `json:"card,omitempty"`  // of the message that asks
	Run       jsontext.Value `json:"run,omitempty"`   // suspended
	Decided   *decided       `json:"decided,omitempty"`
	Begun     string         `json:"begun,omitempty"` // the turn in which the decision was followed
}

// decided is how a call was decided, and by whom.
type decided struct {
	Approved bool      `json:"approved,omitzero"`
	Always   bool      `json:"always,omitzero"` // the same call need not be asked about again
	By       string    `json:"by,omitempty"`
	At       time.Time `json:"at"`
}

// person is who asked.
type person struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"`
	AadObjectID string `json:"aad,omitempty"`
}

// suspended is a run at the command that waits.
type suspended struct {
	Version   int             `json:"v"`
	Activity  jsontext.Value  `json:"activity"` // what the turn answers
	Text      string          `json:"text"`
	Steps     int             `json:"steps"`
	Executed  []plan.Command  `json:"executed,omitempty"`
	Execution *plan.Progress  `json:"execution"`
	Rounds    []actions.Round `json:"rounds"`
	Usage     actions.Usage   `json:"usage"`
	Same      map[string]int  `json:"same,omitempty"`
}

// loadApprovals reads the documents of approvals of the activity's conversation.
func (b *Bot) loadApprovals(ctx context.Context, a *activity.Activity, ids ...string) ([]*state.Scope, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	conversation := conversationKey(a, a.Conversation.BaseID())
	keys := make([]state.Key, len(ids))
	for i, id := range ids {
		keys[i] = conversation.Under("approvals", id)
	}
	return b.cfg.Store.Load(ctx, keys...)
}

// afterExpiry is how long an approval is kept that was not decided in time: a decision
// of the last moment may still be on its way.
const afterExpiry = time.Minute

// makeRoom forgets approvals that are over, the oldest first, and returns their
// documents to be saved as deleted. A decision is remembered for who clicks late, and
// until it is followed, however long that waits.
func (t *Turn) makeRoom(ctx context.Context) ([]*state.Scope, error) {
	list := state.Of[approvals](t.Conversation)
	now, left := time.Now(), len(list.Asked)
	var ids []string
	for _, a := range list.Asked {
		if now.After(a.Expires.Add(afterExpiry)) || a.Over && left > maxAsked {
			ids = append(ids, a.ID)
			left--
		}
	}
	docs, err := t.bot.loadApprovals(ctx, t.Activity, ids...)
	if err != nil {
		return nil, err
	}
	var gone []*state.Scope
	for i, doc := range docs {
		if p := state.Of[pending](doc); p.Decided != nil && p.Begun == "" {
			continue
		}
		doc.Delete()
		gone = append(gone, doc)
		list.Asked = slices.DeleteFunc(list.Asked, func(a asked) bool { return a.ID == ids[i] })
	}
	return gone, nil
}

// waiting is how many of the approvals are not over.
func (a *approvals) waiting() int {
	n := 0
	for _, one := range a.Asked {
		if !one.Over {
			n++
		}
	}
	return n
}

// forgetApprovals deletes the approvals that one person asked for in the
// conversation, those for good among them, "" for everybody's, and returns their documents to be saved.
func (b *Bot) forgetApprovals(ctx context.Context, a *activity.Activity, conversation *state.Scope, asker string) ([]*state.Scope, error) {
	list := state.Of[approvals](conversation)
	list.Standing = slices.DeleteFunc(list.Standing, func(s standing) bool { return asker == "" || s.Asker == asker })
	var ids []string
	list.Asked = slices.DeleteFunc(list.Asked, func(a asked) bool {
		gone := asker == "" || a.Asker == asker
		if gone {
			ids = append(ids, a.ID)
		}
		return gone
	})
	docs, err := b.loadApprovals(ctx, a, ids...)
	for _, doc := range docs {
		doc.Delete()
	}
	return docs, err
}

// forgetApprovals is [Bot.forgetApprovals] of the turn's conversation, saved with
// the turn.
func (t *Turn) forgetApprovals(ctx context.Context, asker string) error {
	docs, err := t.bot.forgetApprovals(ctx, t.Activity, t.Conversation, asker)
	t.scopes = append(t.scopes, docs...)
	return err
}

// decide marks the approval as decided, for good.
func (p *pending) decide(d decided) {
	d.At = d.At.UTC().Truncate(time.Second)
	p.Decided = &d
}

// begin marks the decision as followed, for good. What is not needed any more to
// tell who comes late is dropped.
func (p *pending) begin(turn string) {
	*p = pending{ID: p.ID, Hash: p.Hash, Action: p.Action, Turn: p.Turn, Expires: p.Expires, Decided: p.Decided, Begun: turn}
}

// mayDecide reports whether the person is one of those who may.
func (p *pending) mayDecide(who activity.Account) bool {
	allowed := p.Approvers
	if len(allowed) == 0 {
		allowed = []string{p.Asker.ID, p.Asker.AadObjectID}
	}
	return slices.ContainsFunc(allowed, func(id string) bool {
		return id != "" && (id == who.ID || strings.EqualFold(id, who.AadObjectID))
	})
}

// read returns what was suspended, with numbers as they were.
func (p *pending) read() (suspended, error) {
	var s suspended
	dec := json.NewDecoder(bytes.NewReader(p.Run))
	dec.UseNumber()
	if err := dec.Decode(&s); err != nil {
		return s, fmt.Errorf("read suspended run: %w", err)
	}
	if s.Version > pendingVersion || s.Execution == nil || s.Execution.Done() || len(s.Rounds) == 0 {
		return s, fmt.Errorf("read suspended run: version %d cannot be gone on with", s.Version)
	}
	return s, nil
}
