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
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

const (
	// maxPending bounds the approvals that one conversation waits for.
	maxPending = 16
	// maxAsked bounds how many approvals are remembered, decided ones among them.
	maxAsked = 48
	// pendingVersion is the form of [suspended].
	pendingVersion = 1
)

// approval asks the policy about the next call. One that was approved needs no
// more, if it is the very call that the person saw and still may be made.
func (r *run) approval(ctx context.Context, c *call, approved string) (actions.Approval, error) {
	cfg := &r.turn.bot.cfg
	approval, err := cfg.Policy(ctx, r.turn.Turn, r.describe(c))
	if err != nil {
		return approval, fmt.Errorf("approval policy: %w", err)
	}
	if approval.Denied != "" {
		return actions.Approval{}, r.deny(ctx, c, approval.Denied)
	}
	if approved == "" && !approval.Required {
		return actions.Approval{}, nil
	}
	hash, err := r.approvalHash(ctx, c, approval.Bind)
	if err != nil {
		return actions.Approval{}, err
	}
	if approved != "" {
		if c.granted = hash == approved; !c.granted {
			err = r.notApproved(c)
		}
		return actions.Approval{}, err
	}
	if approval.Standing && r.turn.stands(hash) {
		r.turn.bot.meter.approval("standing")
		zerolog.Ctx(ctx).Info().Str("action", c.action.Name).Msg("approved before, for good")
		c.granted = true
		return actions.Approval{}, nil
	}
	if len(approval.Approvers) == 0 {
		approval.Approvers = cfg.Approvers
	}
	if approval.Within <= 0 {
		approval.Within = cfg.ApprovalTimeout
	}
	return approval, nil
}

// deny makes the call fail before it is made. One that was begun by a process that is
// gone may have been made: then it is for an operator to look.
func (r *run) deny(ctx context.Context, c *call, reason string) error {
	zerolog.Ctx(ctx).Info().Str("action", c.action.Name).Msg("the policy denies the call")
	if r.again > 0 {
		return r.notApproved(c)
	}
	c.err = &refusal{reason}
	return nil
}

// notApproved says that the call is another one now than the one that was approved.
// That one may have been made, by a process that is gone: then nobody is told that it
// was not, and it is for an operator to look.
func (r *run) notApproved(c *call) error {
	if r.again == 0 {
		return errChanged
	}
	r.turn.uncertain = append(r.turn.uncertain, c.command.Action)
	return &parkError{reason: "a call that had begun may not be made any more, or is not the one that was approved"}
}

// approvalHash identifies all that the call will do: the action with what it is
// made of, its entities, what the bot fills in, and what the policy binds it to.
func (r *run) approvalHash(ctx context.Context, c *call, bind string) (string, error) {
	bound, err := c.action.Bound(ctx, r.turn.Turn)
	if err != nil {
		return "", err
	}
	parts := []any{c.action.Name, c.action.Detail, c.command.Entities, bound}
	if bind != "" {
		parts = append(parts, bind)
	}
	return hashOf(parts...), nil
}

// pause keeps the run and asks for the approval of its next call. The conversation
// goes on meanwhile.
func (r *run) pause(ctx context.Context, c *call, approval actions.Approval) (end, error) {
	t := r.turn
	p, err := r.suspend(ctx, c, approval)
	if err != nil {
		return over, err
	}
	question := t.question(&p)
	if raw, err := question.Encode(); err != nil || len(raw) > maxQuestion {
		return r.refuse(ctx, c, "its arguments are too long to be shown to a person for approval")
	}
	docs, err := t.makeRoom(ctx)
	if err != nil {
		return over, err
	}
	list := state.Of[approvals](t.Conversation)
	if list.waiting() >= maxPending {
		return r.refuse(ctx, c, "too many approvals are waiting in this conversation")
	}
	list.Asked = append(list.Asked, asked{ID: p.ID, Asker: p.Asker.ID, Expires: p.Expires})
	doc, err := t.bot.loadApprovals(ctx, t.Activity, p.ID)
	if err != nil {
		return over, err
	}
	*state.Of[pending](doc[0]) = p
	t.scopes = slices.Concat(t.scopes, docs, doc)
	r.noted = waitingNote(p.Action, p.ID)
	r.remember()
	t.run = nil // it is in the document now
	if err := t.Send(ctx, question); err != nil {
		if !t.bot.leaves(t, err) {
			t.withdraw(ctx, doc[0], p.ID)
		}
		return over, err
	}
	t.done = true
	t.bot.meter.approval("asked")
	zerolog.Ctx(ctx).Info().Str("approval", p.ID).Str("action", p.Action).Msg("waits for approval")
	t.noteCard(ctx, doc[0])
	return waiting, nil
}

// waitingNote is what the history says of a turn while it waits.
func waitingNote(action, id string) string {
	return "[A person was asked to approve " + action + ", " + id + ". It has not run yet.]"
}

// renote replaces the note of the turn that waits for an approval in the history;
// with "" the turn goes, since it is written anew when it ends.
func (t *Turn) renote(id, note string) {
	history := state.Of[prompts.History](t.Thread)
	history.Turns = slices.DeleteFunc(history.Turns, func(turn prompts.Turn) bool {
		at := slices.IndexFunc(turn.Messages, func(m prompts.Message) bool {
			return m.Role == prompts.System && strings.HasSuffix(m.Text, ", "+id+". It has not run yet.]")
		})
		if at >= 0 && note != "" {
			turn.Messages[at].Text = note
		}
		return at >= 0 && note == ""
	})
}

// withdraw takes back a question that could not be sent: nobody could answer it.
func (t *Turn) withdraw(ctx context.Context, doc *state.Scope, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	list := state.Of[approvals](t.Conversation)
	list.Asked = slices.DeleteFunc(list.Asked, func(a asked) bool { return a.ID == id })
	t.renote(id, "["+state.Of[pending](doc).Action+" needs approval, but nobody could be asked.]")
	doc.Delete()
	if err := t.bot.cfg.Store.Save(ctx, doc, t.Conversation); err != nil {
		zerolog.Ctx(ctx).Info().Err(err).Msg("an approval that nobody saw was not withdrawn")
	}
}

// refuse makes the call fail before it is made.
func (r *run) refuse(ctx context.Context, c *call, reason string) (end, error) {
	c.err = &refusal{reason}
	return r.settle(ctx, []call{*c})
}

// suspend writes the run down.
func (r *run) suspend(ctx context.Context, c *call, approval actions.Approval) (pending, error) {
	t := r.turn
	var faults []error
	encode := func(v any) jsontext.Value {
		var out bytes.Buffer
		enc := json.NewEncoder(&out)
		enc.SetEscapeHTML(false)
		faults = append(faults, enc.Encode(v))
		return bytes.TrimSpace(out.Bytes())
	}
	hash, err := r.approvalHash(ctx, c, approval.Bind)
	if err != nil {
		return pending{}, err
	}
	origin := *t.Activity
	origin.Text, origin.Value, origin.Attachments, origin.Entities = "", nil, nil, nil
	p := pending{
		ID: newTurnID(), Turn: t.ID, Trace: traceparent(ctx),
		Action: c.action.Name, Entities: encode(c.command.Entities), Hash: hash,
		Reason:    approval.Reason,
		Standing:  approval.Standing,
		Asker:     person{t.Activity.From.ID, t.Activity.From.Name, t.Activity.From.AadObjectID},
		Approvers: approval.Approvers,
		Expires:   time.Now().Add(approval.Within).UTC().Truncate(time.Second),
	}
	p.Run = encode(suspended{
		Version: pendingVersion, Activity: encode(&origin), Text: t.Text, Steps: r.steps,
		Executed: r.executed, Execution: r.execution, Rounds: t.Rounds, Usage: t.Usage, Same: r.same,
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
