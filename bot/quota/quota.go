// Package quota limits what one person and one tenant may use, over all replicas. Only turns that plan count, so
// the bot's own commands, notices and decisions about approvals are free. A turn that has begun is not cut off, so
// it may use more tokens than were left.
//
// People and tenants are those that access lists know. On a channel that does not prove who a person is, a
// person is an account, whose id the client may choose, and all people of the channel share the quota of a tenant.
package quota

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state"
)

// Limits are what a bot limits. A zero field means no limit.
type Limits struct {
	UserTurnsPerMinute, TenantTurnsPerMinute int
	// Tokens count once the turn ends or waits, also if it failed.
	UserTokensPerDay, TenantTokensPerDay int
}

// The windows of a quota begin with the first turn in them.
const minute, day = time.Minute, 24 * time.Hour

const nobody = "-" // stands in keys for an id that the channel left out

// New returns the feature that counts in the store. It comes before all that cost something.
func New(store *state.Store, limits Limits) turn.Feature {
	q := &quota{store, limits}
	return turn.Feature{Name: "quota", Step: q.step, Begin: q.begin, Left: q.left}
}

type quota struct {
	store  *state.Store
	limits Limits
}

// counted is what this process has counted of a turn.
type counted struct {
	admitted int    // messages; 0: none
	over     string // what to tell a person who is over a limit, "" if they are not
	spent    int    // tokens
	began    bool   // spent has what an earlier process counted
}

var local = turn.NewLocal[counted]()

// limit is one limit, with what to add.
type limit struct {
	name  string
	most  int
	tally state.Tally
	says  texts.Text // to a person who is over it
}

// of lists the limits for a turn that the bot has, with what to add to the turns and to the tokens.
func (q *quota) of(t *turn.Turn, turns, used int) (all []limit) {
	most := q.limits
	if t.Unasked() { // it is nobody's turn
		most.UserTurnsPerMinute, most.UserTokensPerDay = 0, 0
	}
	key := func(id, kind, name string) state.Key {
		whose := *t.Activity
		whose.From.ID = cmp.Or(id, nobody)
		return turn.PersonKey(&whose).Under(kind, name)
	}
	user, tenant := t.Proved()
	user = cmp.Or(user, t.Activity.From.ID)
	for _, l := range []limit{
		{
			"turns of a person", most.UserTurnsPerMinute,
			state.Tally{Key: key(user, "quota", "turns"), Add: turns, Window: minute},
			"You've sent a lot of messages. Please wait a minute.",
		},
		{
			"tokens of a person", most.UserTokensPerDay,
			state.Tally{Key: key(user, "quota", "tokens"), Add: used, Window: day},
			"You've used up today's budget. Please come back tomorrow.",
		},
		{
			"turns of a tenant", most.TenantTurnsPerMinute,
			state.Tally{Key: key(tenant, "tenant-quota", "turns"), Add: turns, Window: minute},
			"Your organization has sent a lot of messages. Please wait a minute.",
		},
		{
			"tokens of a tenant", most.TenantTokensPerDay,
			state.Tally{Key: key(tenant, "tenant-quota", "tokens"), Add: used, Window: day},
			"Your organization has used up today's budget. Please come back tomorrow.",
		},
	} {
		if l.most > 0 {
			all = append(all, l)
		}
	}
	return all
}

// step notes what an earlier process has counted, when the turn begins or goes on, and counts messages that have joined it
// since. They do not end it.
func (q *quota) step(ctx context.Context, t *turn.Turn, name string) (context.Context, func(error)) {
	c, n := local.Of(t), turn.Messages(t)
	switch {
	case name == turn.StepTurn:
		c.spent, c.began = tokens(t.Usage), true
	case name == turn.StepPlan && c.admitted > 0 && n > c.admitted:
		q.count(ctx, q.of(t, n-c.admitted, 0))
		c.admitted = n
	}
	return ctx, nil
}

// begin counts the turn, and ends it if its person is over a limit.
func (q *quota) begin(ctx context.Context, t *turn.Turn) error {
	c := local.Of(t)
	if c.admitted == 0 {
		c.admitted = turn.Messages(t)
		c.over = q.admit(ctx, t)
	}
	if c.over != "" {
		return turn.Stop(c.over)
	}
	return nil
}

// admit counts the turn. It returns what to tell a person who is over a limit, or "".
func (q *quota) admit(ctx context.Context, t *turn.Turn) string {
	turns := turn.Messages(t)
	if t.Tries() > 0 { // the process that died has counted it
		turns = 0
	}
	limits := q.of(t, turns, 0)
	for i, sum := range q.count(ctx, limits) {
		l := limits[i]
		if l.tally.Window == minute {
			sum -= turn.Messages(t) // this turn is in it
		}
		if sum >= l.most {
			t.Count(turn.CountRefused, "quota")
			zerolog.Ctx(ctx).Info().Str("quota", l.name).Msg("over quota")
			return t.Translate(l.says)
		}
	}
	return ""
}

// left counts the tokens that this process has used for the turn since the last call. What a killed process
// used is not counted.
func (q *quota) left(ctx context.Context, t *turn.Turn) error {
	c, used := local.Of(t), tokens(t.Usage)
	if !c.began || used <= c.spent {
		return nil
	}
	limits := q.of(t, 0, used-c.spent)
	c.spent = used
	q.count(ctx, slices.DeleteFunc(limits, func(l limit) bool { return l.tally.Add == 0 }))
	return nil
}

func tokens(u actions.Usage) int { return u.PromptTokens + u.CompletionTokens }

// count adds to the tallies of the limits and returns the sums. If Redis cannot count, there are none and the
// turn goes on: quotas protect a budget, and a person who is owed an answer comes first. An outage that lasts
// stops the turn at its next save anyway.
func (q *quota) count(ctx context.Context, limits []limit) []int {
	if len(limits) == 0 {
		return nil
	}
	tallies := make([]state.Tally, len(limits))
	for i, l := range limits {
		tallies[i] = l.tally
	}
	sums, err := q.store.Count(ctx, tallies...)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("quotas not counted")
	}
	return sums
}
