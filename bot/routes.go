package bot

import (
	"slices"
	"strings"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
)

// Those of package turn, so that most bots need one import.
type (
	// Turn is [turn.Turn].
	Turn = turn.Turn
	// Handler is [turn.Handler].
	Handler = turn.Handler
	// Hooks are [turn.Hooks].
	Hooks = turn.Hooks
)

// Middleware wraps the handler of every activity; call next to go on.
type Middleware func(next Handler) Handler

// Match decides whether a route takes an activity, by Activity and Text: the
// turn's state is not loaded yet.
type Match func(t *Turn) bool

type route struct {
	match  Match
	handle Handler
}

// routes are asked in the order of their registration; the first match wins.
type routes struct {
	first, last []route
	invokes     map[string]invokeRoute
	known       map[string]invokeRoute // behind those
	cards       map[string]CardHandler // by verb
	feedback    FeedbackHandler
	middleware  []Middleware
}

// On registers a handler for the activities that match.
func (b *Bot) On(match Match, h Handler) { b.routes.first = append(b.routes.first, route{match, h}) }

// OnMessage registers a handler for messages that match; a nil match takes all.
func (b *Bot) OnMessage(match Match, h Handler) {
	b.On(func(t *Turn) bool { return t.IsMessage() && (match == nil || match(t)) }, h)
}

// OnCommand registers a handler for messages whose whole text is the command,
// such as "/reset", without regard to case.
func (b *Bot) OnCommand(command string, h Handler) { b.On(isCommand(command), h) }

// OnActivity registers a handler for a type of activity.
func (b *Bot) OnActivity(typ activity.Type, h Handler) {
	b.On(func(t *Turn) bool { return strings.EqualFold(string(t.Activity.Type), string(typ)) }, h)
}

// OnEvent registers a handler for events of that name.
func (b *Bot) OnEvent(name string, h Handler) {
	b.On(func(t *Turn) bool { return t.Activity.Type == activity.Event && t.Activity.Name == name }, h)
}

// OnMembersAdded registers a handler for members, other than the bot, that join.
func (b *Bot) OnMembersAdded(h Handler) {
	b.On(func(t *Turn) bool {
		return t.Activity.Type == activity.ConversationUpdate && slices.ContainsFunc(t.Activity.MembersAdded, func(m activity.Account) bool {
			return m.ID != t.Activity.Recipient.ID
		})
	}, h)
}

// OnReaction registers a handler for reactions to messages.
func (b *Bot) OnReaction(h Handler) { b.OnActivity("messageReaction", h) }

// Use adds middleware around every handler; the first added is the outermost.
func (b *Bot) Use(m Middleware) { b.routes.middleware = append(b.routes.middleware, m) }

// handler returns the handler for the turn, or nil when nothing takes it.
func (r *routes) handler(t *Turn) Handler {
	if route, ok := r.invoke(t.Activity); ok {
		return r.wrap(answering(route.handle))
	}
	for _, list := range [][]route{r.first, r.last} {
		for _, route := range list {
			if route.match(t) {
				return r.wrap(route.handle)
			}
		}
	}
	return nil
}

func (r *routes) wrap(h Handler) Handler {
	for _, m := range slices.Backward(r.middleware) {
		h = m(h)
	}
	return h
}

func isCommand(command string) Match {
	return func(t *Turn) bool { return t.IsMessage() && strings.EqualFold(t.Text, command) }
}
