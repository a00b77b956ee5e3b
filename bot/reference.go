package bot

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/state"
)

// reference is where a conversation is continued when nobody has just spoken there, as
// its last activity said. It is part of the conversation's state, whose key holds the
// channel, the bot and the id.
type reference struct {
	ServiceURL string `json:"url,omitempty"`
	Type       string `json:"type,omitempty"`
	IsGroup    bool   `json:"group,omitzero"`
	Tenant     string `json:"tenant,omitempty"`
	// Person is who it is with, of a personal one.
	Person string `json:"person,omitempty"`
	// Signed says that a channel's token vouched for ServiceURL.
	Signed bool `json:"signed,omitzero"`

	// Dead is since when the channel takes nothing for it, and Why the reason.
	Dead time.Time `json:"dead,omitzero"`
	Why  string    `json:"why,omitempty"`
}

// home is a person's own conversation with the bot, the one last heard of. It is a document
// of its own: a person may have many, as on a web page, and turns in them at the same
// time race for it, which must not concern their state.
type home struct {
	Conversation string `json:"c,omitempty"`
}

func homeKey(person state.Key) state.Key { return person.Under("notes", "home") }

// keepHome saves it. Losing the race is harmless: either value will do, and the next turn
// writes it again.
func (t *Turn) keepHome(ctx context.Context) {
	if t.home == nil {
		return
	}
	err := t.bot.cfg.Store.Save(ctx, t.home)
	if err != nil && !errors.Is(err, state.ErrConflict) {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("could not save which conversation is the person's own")
	}
}

// vouch notes whether the turn's channel has signed for the address that its replies
// go to. Without that, the bot's token does not go there.
func (t *Turn) vouch(signed bool) {
	t.signed = signed
	if !signed && t.Activity.ServiceURL != "" && t.bot.cfg.Channel.Identified() {
		t.log().Warn().Msg("nobody vouches for the serviceUrl: nothing is sent there")
		t.Activity.ServiceURL = ""
	}
}

// noteReference keeps where the conversation is, if that changed. What was dead is
// alive again.
func (t *Turn) noteReference() {
	a := t.Activity
	if a.ServiceURL == "" || t.unreadable != nil {
		return
	}
	c := &a.Conversation
	tenant, _ := a.Tenant()
	now := reference{ServiceURL: a.ServiceURL, Type: c.ConversationType, IsGroup: c.IsGroup, Tenant: tenant, Signed: t.signed}
	if c.Personal() && !a.FromBot() {
		now.Person = a.From.ID
		if t.home != nil {
			state.Of[home](t.home).Conversation = c.ID
		}
	}
	*state.Of[reference](t.Conversation) = now
}

// die retires the reference until the conversation is heard of again.
func (r *reference) die(why string) {
	r.Dead, r.Why = time.Now().UTC().Truncate(time.Second), why
}

// retire notes that the channel does not let the bot speak in the conversation any
// more, if that is what err says.
func (t *Turn) retire(ctx context.Context, err error) {
	why := deadly(err)
	if why == "" || t.detached || t.Conversation == nil || t.saveFailed {
		return
	}
	zerolog.Ctx(ctx).Warn().Str("reason", why).Msg("the bot cannot speak here any more")
	state.Of[reference](t.Conversation).die(why)
	if err := t.save(ctx); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("that was not kept")
	}
}

// deadly says why the refusal of a message means that none will be taken, or "". A
// message to answer that is gone, and a host that moved, do not.
func deadly(err error) string {
	var refused *connector.Error
	if !errors.As(err, &refused) {
		return ""
	}
	switch {
	case refused.Code == "ActivityNotFoundInConversation", refused.Code == "InvalidBotApiHost":
		return ""
	case refused.Status == http.StatusForbidden, refused.Status == http.StatusNotFound:
		return http.StatusText(refused.Status) + " " + refused.Code
	}
	return ""
}

// usable says why nothing can be sent to the reference, or "".
func (b *Bot) usable(r *reference) string {
	switch {
	case !r.Dead.IsZero():
		return "since " + r.Dead.Format(time.RFC3339) + ": " + r.Why
	case !r.Signed && b.cfg.Channel.Identified():
		return "no channel vouches for its address"
	}
	return ""
}

// in makes an activity of the conversation, as if it came from there.
func (r *reference) in(to Recipient) *activity.Activity {
	a := &activity.Activity{
		Type: activity.Event, Name: "notice", ChannelID: to.Channel, ServiceURL: r.ServiceURL,
		From: activity.NewAccount(r.Person, ""), Recipient: activity.NewAccount(to.Bot, ""),
	}
	a.Conversation.ID, a.Conversation.ConversationType = to.Conversation, r.Type
	a.Conversation.IsGroup, a.Conversation.TenantID = r.IsGroup, r.Tenant
	if to.Caller != "" {
		a.CallerID = activity.CallerOf(to.Caller)
	}
	return a
}
