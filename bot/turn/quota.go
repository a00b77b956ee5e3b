package turn

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state"
)

// Quota limits what one person and one tenant may use, over all replicas. Only turns that plan
// count, so the bot's own commands, notices and decisions about approvals are free. A turn that has
// begun is not cut off, so it may use more tokens than were left. A zero field means no limit; a
// zero Quota costs nothing.
//
// People and tenants are those that access lists know. On a channel that does not prove who a
// person is, a person is an account, whose id the client may choose, and all people of the channel
// share the quota of a tenant.
type Quota struct {
	UserTurnsPerMinute, TenantTurnsPerMinute int
	// Tokens count once the turn ends or waits, also if it failed.
	UserTokensPerDay, TenantTokensPerDay int
}

// The windows of a quota begin with the first turn in them.
const quotaMinute, quotaDay = time.Minute, 24 * time.Hour

// quotas counts what a turn uses.
type quotas struct{ *Turn }

// limit is one limit of the quota.
type limit struct {
	name  string
	most  int
	tally state.Tally
	says  texts.Text // to a person who is over it
}

// limits are those that the bot has, with what to add to the turns and to the tokens.
func (q quotas) limits(turns, used int) (all []limit) {
	quota, to := q.engine.cfg.Quota, actions.To(q.Activity)
	if quota == (Quota{}) {
		return nil
	}
	if q.rec.Notice != nil { // it is nobody's turn
		quota.UserTurnsPerMinute, quota.UserTokensPerDay = 0, 0
	}
	user, tenant := q.Proved()
	key := func(id, kind, name string) state.Key {
		to.Conversation, to.User = "", cmp.Or(id, nobody)
		return keyOf(to).Under(kind, name)
	}
	user = cmp.Or(user, q.Activity.From.ID)
	for _, l := range []limit{
		{
			"turns of a person", quota.UserTurnsPerMinute,
			state.Tally{Key: key(user, "quota", "turns"), Add: turns, Window: quotaMinute},
			"You've sent a lot of messages. Please wait a minute.",
		},
		{
			"tokens of a person", quota.UserTokensPerDay,
			state.Tally{Key: key(user, "quota", "tokens"), Add: used, Window: quotaDay},
			"You've used up today's budget. Please come back tomorrow.",
		},
		{
			"turns of a tenant", quota.TenantTurnsPerMinute,
			state.Tally{Key: key(tenant, "tenant-quota", "turns"), Add: turns, Window: quotaMinute},
			"Your organization has sent a lot of messages. Please wait a minute.",
		},
		{
			"tokens of a tenant", quota.TenantTokensPerDay,
			state.Tally{Key: key(tenant, "tenant-quota", "tokens"), Add: used, Window: quotaDay},
			"Your organization has used up today's budget. Please come back tomorrow.",
		},
	} {
		if l.most > 0 {
			all = append(all, l)
		}
	}
	return all
}

// begin counts the turn. It returns what to tell a person who is over a limit, or "".
func (q quotas) begin(ctx context.Context) string {
	turns := 1
	if q.lease.Tries() > 0 { // the process that died has counted it
		turns = 0
	}
	limits := q.limits(turns, 0)
	for i, sum := range q.count(ctx, limits) {
		l := limits[i]
		if l.tally.Window == quotaMinute {
			sum-- // this turn is in it
		}
		if sum >= l.most {
			q.Turn.count(CountRefused, "quota")
			zerolog.Ctx(ctx).Info().Str("quota", l.name).Msg("over quota")
			return q.Translate(l.says)
		}
	}
	return ""
}

// spend counts the tokens that this process has used for the turn since the last call. What a
// killed process used is not counted.
func (q quotas) spend(ctx context.Context) {
	used := tokens(q.Usage)
	if used <= q.spent {
		return
	}
	limits := q.limits(0, used-q.spent)
	q.spent = used
	q.count(ctx, slices.DeleteFunc(limits, func(l limit) bool { return l.tally.Add == 0 }))
}

func tokens(u actions.Usage) int { return u.PromptTokens + u.CompletionTokens }

// count adds to the tallies of the limits and returns the sums. If Redis cannot count, there are
// none and the turn goes on: quotas protect a budget, and a person who is owed an answer comes
// first. An outage that lasts stops the turn at its next save anyway.
func (q quotas) count(ctx context.Context, limits []limit) []int {
	if len(limits) == 0 {
		return nil
	}
	tallies := make([]state.Tally, len(limits))
	for i, l := range limits {
		tallies[i] = l.tally
	}
	sums, err := q.engine.cfg.Store.Count(ctx, tallies...)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("quotas not counted")
	}
	return sums
}
