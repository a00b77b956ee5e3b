package bot

import (
	"bytes"
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
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

const (
	// maxPending bounds the approvals that one conversation waits for.
	maxPending = 16
	// pendingVersion is the form of [suspended].
	pendingVersion = 1
)

// approvals are what a conversation waits for. They are a value of its state; the
// runs themselves are documents of their own, so that a click has nothing to do
// with a turn that is at work meanwhile.
type approvals struct {
	Waiting []waitingFor `json:"waiting,omitempty"`
}

type waitingFor struct {
	ID      string    `json:"id"`
	Asker   string    `json:"asker"`
	Expires time.Time `json:"expires"`
}

// pending is the document of a call that waits for a person, with the run that
// goes on when it is approved. The decision is spent in the write that keeps it,
// wherever the click arrives; the run goes with it.
type pending struct {
	ID        string         `json:"id"`
	Hash      string         `json:"hash"` // of the call
	Action    string         `json:"action"`
	Entities  jsontext.Value `json:"entities"` // as the action will get them
	Reason    string         `json:"reason,omitempty"`
	Turn      string         `json:"turn"`
	Asker     person         `json:"asker"`
	Approvers []string       `json:"approvers,omitempty"` // ids; none: the asker
	Expires   time.Time      `json:"expires"`
	CardID    string         `json:"card,omitempty"` // of the message that asks
	Run       jsontext.Value `json:"run,omitempty"`  // suspended; none: decided
	Decided   *decided       `json:"decided,omitempty"`
}

// decided is how a call was decided, and by whom.
type decided struct {
	Approved bool      `json:"approved,omitzero"`
	Expired  bool      `json:"expired,omitzero"`
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
	Version   int                `json:"v"`
	Activity  jsontext.Value     `json:"activity"` // what the turn answers
	Text      string             `json:"text"`
	Steps     int                `json:"steps"`
	Execution *planner.Execution `json:"execution"`
	Rounds    []actions.Round    `json:"rounds"`
	Usage     actions.Usage      `json:"usage"`
	Same      map[string]int     `json:"same,omitempty"`
}

// approval asks the policy about the next call. One that was approved needs no
// more, if it is the very call that the person saw.
func (r *run) approval(ctx context.Context, c *call, approved string) (actions.Approval, error) {
	if approved != "" {
		if approved != callHash(c.action.Name, c.command.Entities) {
			return actions.Approval{}, errChanged
		}
		return actions.Approval{}, nil
	}
	cfg := &r.turn.bot.cfg
	approval, err := cfg.Policy(ctx, r.turn.Turn, r.describe(c))
	if err != nil {
		return approval, fmt.Errorf("approval policy: %w", err)
	}
	if len(approval.Approvers) == 0 {
		approval.Approvers = cfg.Approvers
	}
	if approval.Within <= 0 {
		approval.Within = cfg.ApprovalTimeout
	}
	return approval, nil
}

// pause keeps the run and asks for the approval of its next call. The conversation
// goes on meanwhile.
func (r *run) pause(ctx context.Context, c *call, approval actions.Approval) (end, error) {
	t := r.turn
	p, err := r.suspend(c, approval)
	if err != nil {
		return over, err
	}
	if len(p.Entities) > maxShown {
		return r.refuse(ctx, c, "its arguments are too long to be shown to a person for approval")
	}
	waits := state.Of[approvals](t.Conversation)
	if waits.expire(time.Now()); len(waits.Waiting) >= maxPending {
		return r.refuse(ctx, c, "too many approvals are waiting in this conversation")
	}
	waits.Waiting = append(waits.Waiting, waitingFor{p.ID, p.Asker.ID, p.Expires})
	doc, err := t.bot.loadApproval(ctx, t.Activity, p.ID)
	if err != nil {
		return over, err
	}
	*state.Of[pending](doc) = p
	t.scopes = append(t.scopes, doc)
	r.executed = append(r.executed, planner.Command{
		Kind: planner.Say, Response: "[asked for approval of " + p.Action + ", which did not run yet]",
	})
	r.remember()
	if err := t.Send(ctx, t.question(&p)); err != nil {
		return over, err
	}
	t.done = true
	t.bot.meter.approval("asked")
	zerolog.Ctx(ctx).Info().Str("approval", p.ID).Str("action", p.Action).Msg("waits for approval")
	t.noteCard(ctx, doc)
	return waiting, nil
}

// loadApproval reads the document of an approval of the activity's conversation.
func (b *Bot) loadApproval(ctx context.Context, a *activity.Activity, id string) (*state.Scope, error) {
	scopes, err := b.cfg.Store.Load(ctx, conversationKey(a, a.Conversation.BaseID()).Under("approvals", id))
	if err != nil {
		return nil, err
	}
	return scopes[0], nil
}

// refuse makes the call fail before it is made.
func (r *run) refuse(ctx context.Context, c *call, reason string) (end, error) {
	c.err = &refusal{reason}
	return r.settle(ctx, []call{*c})
}

// suspend writes the run down.
func (r *run) suspend(c *call, approval actions.Approval) (pending, error) {
	t := r.turn
	var faults []error
	encode := func(v any) jsontext.Value {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		faults = append(faults, enc.Encode(v))
		return bytes.TrimSpace(out.Bytes())
	}
	origin := *t.Activity
	origin.Text, origin.Value, origin.Attachments, origin.Entities = "", nil, nil, nil
	p := pending{
		ID: newTurnID(), Turn: t.ID,
		Action: c.action.Name, Entities: encode(c.command.Entities), Hash: callHash(c.action.Name, c.command.Entities),
		Reason:    approval.Reason,
		Asker:     person{t.Activity.From.ID, t.Activity.From.Name, t.Activity.From.AadObjectID},
		Approvers: approval.Approvers,
		Expires:   time.Now().Add(approval.Within).UTC().Truncate(time.Second),
	}
	p.Run = encode(suspended{
		Version: pendingVersion, Activity: encode(&origin), Text: t.Text, Steps: r.steps,
		Execution: r.execution, Rounds: t.Rounds, Usage: t.Usage, Same: r.same,
	})
	if err := errors.Join(faults...); err != nil {
		return p, fmt.Errorf("keep the plan for approval: %w", err)
	}
	return p, nil
}

// noteCard keeps the id of the message that asks, so that it can be updated from
// anywhere. Without it, the click itself names the message.
func (t *Turn) noteCard(ctx context.Context, doc *state.Scope) {
	card := t.Sent[len(t.Sent)-1]
	if card == "" {
		return
	}
	state.Of[pending](doc).CardID = card
	if err := t.bot.cfg.Store.Save(ctx, doc); err != nil { // it may be decided already
		zerolog.Ctx(ctx).Info().Err(err).Msg("the id of the approval card was not kept")
	}
}

// expire drops what cannot be approved any more.
func (a *approvals) expire(now time.Time) {
	a.Waiting = slices.DeleteFunc(a.Waiting, func(w waitingFor) bool { return now.After(w.Expires) })
}

// forgetApprovals deletes the approvals that one person asked for in the
// conversation, "" for everybody's, and returns their documents to be saved.
func (b *Bot) forgetApprovals(ctx context.Context, a *activity.Activity, conversation *state.Scope, asker string) ([]*state.Scope, error) {
	waits := state.Of[approvals](conversation)
	var docs []*state.Scope
	for _, w := range waits.Waiting {
		if asker != "" && w.Asker != asker {
			continue
		}
		doc, err := b.loadApproval(ctx, a, w.ID)
		if err != nil {
			return nil, err
		}
		doc.Delete()
		docs = append(docs, doc)
	}
	waits.Waiting = slices.DeleteFunc(waits.Waiting, func(w waitingFor) bool { return asker == "" || w.Asker == asker })
	return docs, nil
}

// forgetApprovals is [Bot.forgetApprovals] of the turn's conversation, saved with
// the turn.
func (t *Turn) forgetApprovals(ctx context.Context, asker string) error {
	docs, err := t.bot.forgetApprovals(ctx, t.Activity, t.Conversation, asker)
	t.scopes = append(t.scopes, docs...)
	return err
}

// decide marks the approval as decided, for good. The run goes with it.
func (p *pending) decide(d decided) {
	d.At = d.At.UTC().Truncate(time.Second)
	p.Decided, p.Run = &d, nil
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
