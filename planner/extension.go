package planner

import (
	"context"
	"fmt"
	"sync"

	"github.com/planbot-go/planbot/actions"
)

// Extension adds to what a model is told and may plan, turn by turn. A skill provider
// is one.
type Extension interface {
	// Extend is called each time before a model is asked for a plan, by several turns
	// at once. An error ends the turn.
	Extend(ctx context.Context, turn *actions.Turn) (Extra, error)
}

// Extra is what an [Extension] adds in a turn. The zero value adds nothing.
type Extra struct {
	// Key stands for Text and Offer: what is made of them is kept under it, and they
	// are looked at once for a Key and a version of the prompt. "": there are none.
	Key string
	// Text is told where the prompt says {{skills}}, else behind the prompt.
	Text string
	// Offer chooses what a plan may do among the actions that the prompt offers, and how
	// models are told of it. nil: all of them, as they are.
	Offer func(all *actions.Registry) (*actions.Registry, error)
	// Pinned are texts that the model is told whole right behind the prompt, however long
	// the conversation gets.
	Pinned []string
	// Tell returns what the model is told of an outcome of this turn in place of its
	// text, if there is something. nil: there is not.
	Tell func(o actions.Outcome) (text string, ok bool)
}

// maxExtended is how many briefings with different extras are kept of one prompt.
const maxExtended = 64

// extended keeps briefings by the keys of what was added to them. It is safe for
// concurrent use.
type extended struct {
	mu   sync.Mutex
	made map[string]*briefing
}

// get returns the briefing of that key, or makes it. Beyond maxExtended all are
// forgotten: who has as many skill sets as that has others by then.
func (e *extended) get(key string, make func() (*briefing, error)) (*briefing, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if b, ok := e.made[key]; ok {
		return b, nil
	}
	b, err := make()
	if err != nil {
		return nil, err
	}
	if e.made == nil || len(e.made) >= maxExtended {
		e.made = map[string]*briefing{}
	}
	e.made[key] = b
	return b, nil
}

// briefing is what counts for a plan that is asked for now.
func (a *asker) briefing(ctx context.Context, turn *actions.Turn) (*briefing, error) {
	base := a.briefs.get(ctx)
	if a.cfg.Extension == nil {
		return base, nil
	}
	extra, err := a.cfg.Extension.Extend(ctx, turn)
	if err != nil {
		return nil, fmt.Errorf("extend the prompt: %w", err)
	}
	with := base
	if extra.Key != "" {
		with, err = base.extended.get(extra.Key, func() (*briefing, error) { return base.extend(ctx, extra) })
	}
	if err != nil {
		return nil, fmt.Errorf("extend the prompt %s: %w", base.prompt.Name(), err)
	}
	now := *with
	now.pinned, now.tell = extra.Pinned, extra.Tell
	return &now, nil
}

// extend is b with a text and with other actions.
func (b *briefing) extend(ctx context.Context, extra Extra) (*briefing, error) {
	with := *b
	with.skills = extra.Text
	if extra.Offer != nil {
		var err error
		if with.offered, err = extra.Offer(b.offered); err != nil {
			return nil, err
		}
	}
	with.lists = listsOf(with.offered, with.skills)
	return &with, with.complete(ctx)
}

// offers says whether a plan may do the action of exactly that name.
func (b *briefing) offers(name string) bool {
	action, ok := b.offered.Lookup(name)
	return ok && action.Name == name
}

// told is a round of this turn as the model is told it.
func (b *briefing) told(round actions.Round) actions.Round {
	if b.tell == nil {
		return round
	}
	outcomes := make([]actions.Outcome, len(round.Outcomes))
	for i, o := range round.Outcomes {
		if text, ok := b.tell(o); ok {
			o.Text = text
		}
		outcomes[i] = o
	}
	round.Outcomes = outcomes
	return round
}

// results are the outcomes of all rounds of the turn.
func (b *briefing) results(turn *actions.Turn) string {
	var all []actions.Outcome
	for _, round := range turn.Rounds {
		all = append(all, b.told(round).Outcomes...)
	}
	return results(all)
}
