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
	// maxDecided bounds how many decisions are remembered, for who clicks late.
	maxDecided = 32
	// pendingVersion is the form of [suspended].
	pendingVersion = 1
)

// errTooManyPending refuses one more question while nobody answers the others.
var errTooManyPending = errors.New("too many approvals are waiting in this conversation")

// approvals are what a conversation waits for and what was decided lately. They
// are a value of the conversation's state, so a decision is spent in the write
// that keeps it, wherever the click arrives.
type approvals struct {
	Waiting []pending `json:"waiting,omitempty"`
	Decided []decided `json:"decided,omitempty"`
}

// pending is a call that waits for a person, with the run that goes on when it is
// approved.
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
	Run       jsontext.Value `json:"run"`            // suspended
}

// decided is a call that was approved, rejected or not decided in time.
type decided struct {
	ID       string    `json:"id"`
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

// pause keeps the run in the conversation's state and asks for the approval of
// its next call. The conversation goes on meanwhile.
func (r *run) pause(ctx context.Context, c *call, approval actions.Approval) (end, error) {
	p, err := r.suspend(c, approval)
	if err == nil && len(p.Entities) > maxShown {
		return r.refuse(ctx, c, "its arguments are too long to be shown to a person for approval")
	}
	if err != nil {
		return over, err
	}
	if err := r.turn.keepPending(p); err != nil {
		return r.refuse(ctx, c, err.Error())
	}
	note := planner.Command{Kind: planner.Say, Response: "[asked for approval of " + p.Action + ", which did not run yet]"}
	r.executed = append(r.executed, note)
	r.remember()
	if err := r.turn.Send(ctx, r.turn.question(&p)); err != nil {
		return over, err
	}
	zerolog.Ctx(ctx).Info().Str("approval", p.ID).Str("action", p.Action).Msg("waits for approval")
	return waiting, r.turn.noteCard(ctx, p.ID)
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

// keepPending adds p to what the conversation waits for. What has expired makes
// room.
func (t *Turn) keepPending(p pending) error {
	all := state.Of[approvals](t.Conversation)
	all.expire(time.Now())
	if len(all.Waiting) >= maxPending {
		return errTooManyPending
	}
	all.Waiting = append(all.Waiting, p)
	return nil
}

// noteCard keeps the id of the message that asks, so that it can be updated from
// anywhere. Without the id, the click itself names it.
func (t *Turn) noteCard(ctx context.Context, id string) error {
	card := t.Sent[len(t.Sent)-1]
	if card == "" {
		t.done = true
		return nil
	}
	if p := state.Of[approvals](t.Conversation).find(id); p != nil {
		p.CardID = card
	}
	if err := t.save(ctx); err != nil {
		zerolog.Ctx(ctx).Info().Err(err).Msg("the id of the approval card was not kept")
	}
	t.done = true
	return nil
}

// expire moves what was not decided in time to the decisions.
func (a *approvals) expire(now time.Time) {
	for _, p := range slices.Clone(a.Waiting) {
		if now.After(p.Expires) {
			a.spend(p.ID, decided{Expired: true, At: p.Expires})
		}
	}
}

func (a *approvals) find(id string) *pending {
	if i := slices.IndexFunc(a.Waiting, func(p pending) bool { return p.ID == id }); i >= 0 {
		return &a.Waiting[i]
	}
	return nil
}

// decision is what was decided of an approval.
func (a *approvals) decision(id string) (decided, bool) {
	i := slices.IndexFunc(a.Decided, func(d decided) bool { return d.ID == id })
	if i < 0 {
		return decided{}, false
	}
	return a.Decided[i], true
}

// spend takes the approval out of what is waited for, for good.
func (a *approvals) spend(id string, d decided) {
	a.Waiting = slices.DeleteFunc(a.Waiting, func(p pending) bool { return p.ID == id })
	d.ID, d.At = id, d.At.UTC().Truncate(time.Second)
	a.Decided = append(a.Decided, d)
	a.Decided = a.Decided[max(0, len(a.Decided)-maxDecided):]
}

// forget removes what one person asked for; "" removes everybody's.
func (a *approvals) forget(personID string) {
	a.Waiting = slices.DeleteFunc(a.Waiting, func(p pending) bool { return personID == "" || p.Asker.ID == personID })
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
