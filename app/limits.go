package app

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
)

// longestApproval is how long the document with an approval is kept.
const longestApproval = 30 * 24 * time.Hour

// limits bound what turns may do and cost, and how many there may be, and say what
// people decide.
type limits struct {
	steps, same     int
	turns           int // at work at once
	waiting, each   int // turns in the inbox, in all and of one conversation
	connections     int
	requests        int // being answered at once
	budget          actions.Budget
	price           models.Price
	approval        []string // names of actions, as they are registered
	approvers       []string
	approvalTimeout time.Duration
	access          bot.Access
}

func (c *config) checkLimits(f *faults) {
	l := &c.limits
	l.steps = count(f, "BOT_MAX_STEPS", c.MaxSteps, 1)
	l.same = count(f, "BOT_MAX_SAME_CALLS", c.MaxSameCalls, 1)
	l.turns = count(f, "BOT_MAX_TURNS", c.MaxTurns, 1)
	l.waiting = count(f, "BOT_MAX_WAITING", c.MaxWaiting, 1)
	l.each = count(f, "BOT_MAX_WAITING_PER_CONVERSATION", c.MaxWaitingEach, 1)
	l.connections = count(f, "BOT_MAX_CONNECTIONS", c.MaxConnections, 1)
	l.requests = count(f, "BOT_MAX_REQUESTS", c.MaxRequests, 1)
	l.budget.Messages = count(f, "BOT_MAX_MESSAGES", c.MaxMessages, 1)
	l.budget.Tokens = count(f, "BOT_MAX_TURN_TOKENS", c.MaxTurnTokens, 1)
	l.budget.Cost = amounts(f, "BOT_MAX_TURN_COST", c.MaxTurnCost, 1)[0]
	price := amounts(f, "BOT_MODEL_PRICE", c.ModelPrice, 2, 3)
	l.price = models.Price{Prompt: price[0], Completion: price[len(price)-1]}
	if len(price) == 3 {
		l.price.Cached = price[1]
	}
	if l.budget.Cost > 0 && c.ModelPrice == "" {
		f.add("BOT_MAX_TURN_COST", "needs BOT_MODEL_PRICE to know what a turn costs")
	}
	l.access = bot.Access{
		Tenants:  ids(f, "BOT_ALLOWED_TENANTS", c.AllowedTenants, "@. \t", "id of a tenant, which is a GUID"),
		Users:    ids(f, "BOT_ALLOWED_USERS", c.AllowedUsers, "@. \t", "aadObjectId of a person, which is a GUID"),
		Channels: ids(f, "BOT_ALLOWED_CHANNELS", c.AllowedChannels, " \t", "channelId such as msteams"),
	}
	l.approvers = f.entries("BOT_APPROVERS", c.Approvers)
	l.approvalTimeout = duration(f, "BOT_APPROVAL_TIMEOUT", c.ApprovalTimeout, 24*time.Hour)
	if l.approvalTimeout > longestApproval {
		f.add("BOT_APPROVAL_TIMEOUT", "%s is longer than state is kept, which is %dh", c.ApprovalTimeout, longestApproval/time.Hour)
	}
}

// count reads a whole number from the least on; unset is 0.
func count(f *faults, variable, value string, least uint64) int {
	if value == "" {
		return 0
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n < least {
		f.add(variable, "%q is no whole number from %d on", value, least)
	}
	return int(n)
}

// amounts reads so many amounts of money, separated by commas. The result has at
// least one; unset is 0.
func amounts(f *faults, variable, value string, sizes ...int) []float64 {
	if value == "" {
		return []float64{0}
	}
	var all []float64
	for _, text := range list(value) {
		amount, err := strconv.ParseFloat(text, 64)
		if err != nil || !(amount >= 0 && amount < 1e12) {
			f.add(variable, "%q is no amount such as 0.15", text)
			return []float64{0}
		}
		all = append(all, amount)
	}
	if !slices.Contains(sizes, len(all)) {
		f.add(variable, "%q has %d amounts", value, len(all))
		return []float64{0}
	}
	return all
}

// ids are entries without any of what is in a name or address and in no id.
func ids(f *faults, variable, value, never, want string) []string {
	all := f.entries(variable, value)
	for _, id := range all {
		if strings.ContainsAny(id, never) {
			f.add(variable, "%q is no %s", id, want)
		}
	}
	return all
}

// list reads what is separated by commas.
func list(value string) []string {
	var all []string
	for entry := range strings.SplitSeq(value, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			all = append(all, entry)
		}
	}
	return all
}

// needApproval finds the actions of these names. The faults are those that there
// are not.
func (l *limits) needApproval(names []string, registry *actions.Registry) (faults faults) {
	for _, name := range names {
		if action, ok := registry.Lookup(name); ok {
			l.approval = append(l.approval, action.Name)
			continue
		}
		hint := ""
		if word := skillWord(name); word != "" {
			hint = ": for this action of skills it is BOT_SKILLS_APPROVAL=" + word
		}
		faults.add("BOT_APPROVAL_ACTIONS", "there is no action %q%s", name, hint)
	}
	return faults
}

// apply puts the limits into the bot's config.
func (l *limits) apply(cfg *bot.Config) {
	cfg.MaxSteps, cfg.MaxSameCalls, cfg.Budget = l.steps, l.same, l.budget
	cfg.MaxTurns, cfg.MaxWaiting, cfg.MaxWaitingPerConversation = l.turns, l.waiting, l.each
	cfg.Access = l.access
	cfg.MaxConnections, cfg.MaxRequests = l.connections, l.requests
	cfg.Approvers, cfg.ApprovalTimeout = l.approvers, l.approvalTimeout
	cfg.Policy = func(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
		if slices.Contains(l.approval, call.Action.Name) {
			return actions.Approval{Required: true}, nil
		}
		return actions.DefaultPolicy(ctx, turn, call)
	}
}
