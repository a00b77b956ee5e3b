package turn

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/internal/ask"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// OwnVerbs is the prefix of the verbs of the bot's own buttons, those of package ask among them.
const OwnVerbs = "planbot/"

// decideWithin is how long a click looks for a record that is about to wait.
const decideWithin = 12 * time.Second

const (
	noDecision texts.Text = "I'm no longer waiting for this decision. Nothing was done."
	noAnswer   texts.Text = "I'm no longer waiting for this answer."
)

// errNotYet says that no record waits for a click, but a turn is running that may be about to ask.
var errNotYet = errors.New("nothing is waiting yet")

// click is what a person answers to what a record waits for.
type click struct{ ask.Click }

// deliver is the handler of a click. It stores the click in the record that waits for it and puts that
// record back into its queue, in one step. So the click is answered at once and is not lost. A click that
// does not count changes nothing, and the person reads why.
func (c click) deliver(ctx context.Context, t *Turn) error {
	until, gone, tell := time.Now().Add(decideWithin), noDecision, t.Tell
	if c.Answers {
		gone, tell = noAnswer, t.TellAlone
	}
	err := c.deliverOnce(ctx, t, gone)
	for errors.Is(err, errNotYet) && time.Now().Before(until) {
		wait(ctx, 100*time.Millisecond, nil)
		err = c.deliverOnce(ctx, t, gone)
	}
	if errors.Is(err, errNotYet) {
		err = c.queued(ctx, t, gone)
	}
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case !ok:
		return err
	case t.Activity.Type != activity.Invoke:
		return tell(ctx, refused.reason)
	}
	t.Answer(t.engine.cfg.Clicked(nil, refused.reason)) // only the person who clicked reads it
	if t.engine.cfg.Unread(t) {                         // they were told that it was noted
		return t.TellAlone(ctx, refused.reason)
	}
	return nil
}

// queued refuses a click with what another one has decided, whose record is still in its queue; if there is
// none, with gone.
func (c click) queued(ctx context.Context, t *Turn, gone texts.Text) error {
	all, err := t.engine.inbox.Records(ctx, t.conversationKey())
	if err != nil {
		return err
	}
	for _, raw := range all {
		rec, err := Decode(raw)
		if err != nil || rec.Wait == nil {
			continue
		}
		if a := rec.Wait.Approval; a != nil && a.ID == c.ID && a.Decision != nil {
			return &refusal{a.Late(viewOf(t))}
		}
		if q := rec.Wait.Question; q != nil && q.ID == c.ID && q.Reply != nil {
			return &refusal{q.Late(viewOf(t))}
		}
	}
	return &refusal{t.Translate(gone)}
}

func (c click) deliverOnce(ctx context.Context, t *Turn, gone texts.Text) error {
	e, queue := t.engine, t.conversationKey()
	running, err := e.inbox.Queued(ctx, queue) // ask before Find: the record may begin to wait in between
	if err != nil {
		return err
	}
	w, err := e.inbox.Find(ctx, queue, c.ID[:min(len(c.ID), idLen)])
	if errors.Is(err, inbox.ErrNoRecord) {
		return past(ctx, t, queue, c.ID, running > 0, gone)
	}
	if err != nil {
		return err
	}
	rec, err := Decode(w.Record)
	if err != nil {
		return err
	}
	asked, err := rec.Read()
	if err != nil {
		return err
	}
	own := t.Activity.Locale
	t.Activity.Locale = cmp.Or(own, asked.Locale)
	if ours, err := c.take(ctx, t, &rec, asked); !ours {
		t.Activity.Locale = own
		return past(ctx, t, queue, c.ID, false, gone)
	} else if err != nil {
		return err
	}
	rec.Caller = t.rec.Caller // the click just proved its address
	rec.Caller.ServiceURL = t.Activity.ServiceURL
	rec.Awaited, rec.Answer = false, nil
	answer := Answer{}
	if t.repliesInResponse() {
		rec.Awaited, rec.Answer, answer.Follows = true, &Answer{Activities: t.rec.Answer.Activities}, rec.ID
	}
	raw, err := rec.Encode()
	if err == nil {
		err = e.inbox.Wake(ctx, w, raw)
	}
	if errors.Is(err, inbox.ErrNoRecord) {
		return errNotYet
	}
	if err != nil {
		return err
	}
	if card := clickCard(ctx, t, &rec, asked); t.Activity.Type == activity.Invoke {
		answer = e.cfg.Clicked(&card, "")
	}
	t.Answer(answer)
	return nil
}

// take puts a click into the record. It returns false if the record waits for something else, and a refusal
// if the click does not count.
func (c click) take(ctx context.Context, t *Turn, rec *Record, asked *activity.Activity) (ours bool, err error) {
	w, by, v, now, refused := rec.Wait, t.Activity.From, viewOf(t), time.Now(), ""
	v.Asker = asked.From
	switch {
	case !c.Answers && w.For == forApproval && w.Approval.ID == c.ID:
		if refused = w.Approval.Decide(v, c.Click, now); refused == "" {
			outcome := decisionOf(w.Approval)
			if w.Approval.Decision.Always {
				outcome += "-always"
			}
			noteApproval(t, rec, w.Approval, outcome)
		}
	case c.Answers && w.For == forAnswer && w.Question != nil && w.Question.ID == c.ID:
		if by.ID == "" || by.ID != asked.From.ID {
			zerolog.Ctx(ctx).Warn().Str("audit", "question").Str("user", by.ID).Msg("somebody else answered a question, ignored")
			return true, &refusal{t.Translate("This question is for somebody else.")}
		}
		refused = w.Question.Answer(v, c.Click, now)
	default:
		return false, nil
	}
	if refused != "" {
		err = &refusal{refused}
	}
	return true, err
}

// clickCard returns the card that shows what became of a click. The record is back in its queue.
func clickCard(ctx context.Context, t *Turn, rec *Record, asked *activity.Activity) activity.Card {
	v, log := viewOf(t), zerolog.Ctx(ctx).Info()
	v.Asker = asked.From
	if a := rec.Wait.Approval; a != nil {
		t.Count(CountApprovals, decisionOf(a))
		log.Str("approval", a.ID).Str("of_turn", rec.ID).Str("action", a.Action).
			Str("by", t.Activity.From.ID).Bool("approved", a.Decision.Approved).Msg("approval decided")
		return a.Closed(v)
	}
	q := rec.Wait.Question
	log.Str("question", q.ID).Str("of_turn", rec.ID).Str("action", q.Action).Bool("declined", q.Reply.Declined).Msg("question answered")
	return q.Closed(v)
}

// decisionOf is the decision for metrics and the audit.
func decisionOf(a *ask.Approval) string {
	if a.Decision.Approved {
		return "approved"
	}
	return "rejected"
}

// past says what became of an approval or a question that nobody waits for; unknown, if that is not known.
func past(ctx context.Context, t *Turn, queue state.Key, id string, running bool, unknown texts.Text) error {
	scopes, err := t.engine.cfg.Store.Load(ctx, queue)
	if err != nil {
		return err
	}
	t.Activity.Locale = cmp.Or(t.Activity.Locale, state.Of[reference](scopes[0]).Locale)
	list := state.Of[approvals](scopes[0]).Decided
	if at := slices.IndexFunc(list, func(d decided) bool { return d.ID == id }); at >= 0 {
		t.Count(CountDuplicates, "click")
		return &refusal{list[at].Said}
	}
	if running {
		return errNotYet
	}
	return &refusal{t.Translate(unknown)}
}
