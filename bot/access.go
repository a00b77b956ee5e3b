package bot

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/activity"
)

// Access says who may talk to the bot. A list with entries lets in only whom it
// names; an empty one lets in all. Upper and lower case are the same.
//
// Teams itself writes who a person is and of which tenant. On other channels clients
// may write that as they like (Direct Line), so a list of tenants or users lets in
// nobody there, whatever is written. A bot that calls this one as a skill is believed,
// and a bot without an app id knows nobody, and takes all that is written for true.
type Access struct {
	Tenants  []string // ids of tenants
	Users    []string // aadObjectIds of people
	Channels []string // channelIds, such as msteams
}

// notLetIn is what a person reads whom a list keeps out.
const notLetIn = "Sorry, I may not talk with you here. Please ask whoever runs me."

// bars names the list that keeps the sender of the activity out, or "".
func (b *Bot) bars(a *activity.Activity) (list string) {
	lists := &b.cfg.Access
	if len(lists.Channels)+len(lists.Tenants)+len(lists.Users) == 0 {
		return ""
	}
	tenant, _ := a.Tenant()
	known := a.ChannelID == activity.Teams || !b.cfg.Channel.Identified()
	switch {
	case !admits(lists.Channels, a.ChannelID, true):
		return "channels"
	case !admits(lists.Tenants, tenant, known):
		return "tenants"
	case !admits(lists.Users, a.From.AadObjectID, known):
		return "users"
	}
	return ""
}

// admits reports whether the list has the id, which has to be known for that.
func admits(list []string, id string, known bool) bool {
	return len(list) == 0 || known && id != "" && slices.ContainsFunc(list, func(one string) bool { return strings.EqualFold(one, id) })
}

// suspects reports whether the activity names two tenants, which no channel does.
func (b *Bot) suspects(t *Turn) bool {
	a := t.Activity
	if _, one := a.Tenant(); one {
		return false
	}
	t.log().Warn().Str("audit", "tenant").Str("channel", a.ChannelID).Str("tenant", brief(a.TeamsData().Tenant.ID)).
		Str("other_tenant", brief(a.Conversation.TenantID)).Str("user", brief(a.From.AadObjectID)).Msg("not let in")
	b.meter.ignored()
	return true
}

// keepOut answers what came from somebody whom a list keeps out, and says so in the
// log. It is false for a message: that is kept like any other, and its turn tells the
// person.
func (b *Bot) keepOut(w http.ResponseWriter, t *Turn, list string) (answered bool, err error) {
	a := t.Activity
	tenant, _ := a.Tenant()
	t.log().Warn().Str("audit", "access").Str("list", list).Str("channel", a.ChannelID).
		Str("tenant", brief(tenant)).Str("user", brief(a.From.AadObjectID)).Msg("not let in")
	b.meter.refusal(list)
	switch a.Type {
	case activity.Message:
		return false, nil
	case activity.Invoke:
		return true, InvokeResponse{Status: http.StatusForbidden}.write(w)
	}
	return true, nobodyAnswers(a).write(w)
}

// brief is as much of a text that anybody may have written as belongs in a log.
func brief(text string) string {
	const most = 100
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// turnAway is the handler of a message whose sender is kept out.
func turnAway(ctx context.Context, t *Turn) error { return t.Tell(ctx, notLetIn) }
