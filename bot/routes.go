package bot

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bot/turn"
)

// Types of package turn, so that most bots need one import.
type (
	// Turn is [turn.Turn].
	Turn = turn.Turn
	// Handler is [turn.Handler].
	Handler = turn.Handler
	// Feature is [turn.Feature].
	Feature = turn.Feature
)

type route struct {
	match  func(t *Turn) bool
	handle Handler // nil: nothing but the planner answers
}

// routes are tried in the order of registration; the first match wins.
type routes struct {
	first, last []route
	invokes     map[string]invokeRoute
	known       map[string]invokeRoute // the bot's own, tried after invokes
	cards       map[string]cardRoute   // by verb
	feedback    func(ctx context.Context, t *Turn, f Feedback) error
	commands    []string           // the bot's own; help lists those with a slash
	notices     map[string]Handler // by name
	middleware  []func(next Handler) Handler
	mistakes    []error // of whoever registered them
}

// mistake notes what cannot be registered.
func (r *routes) mistake(format string, args ...any) {
	r.mistakes = append(r.mistakes, fmt.Errorf(format, args...))
}

// notice returns the handler of that name for notices, or nil.
func (r *routes) notice(name string) Handler {
	if h := r.notices[name]; h != nil {
		return r.wrap(h)
	}
	return nil
}

// handler returns the handler for the turn, or nil if no route matches.
func (r *routes) handler(t *Turn) Handler {
	if route, ok := r.invoke(t.Activity); ok {
		if route.beside != "" {
			turn.Beside(t, route.beside)
		}
		return r.wrap(route.answer)
	}
	route := r.match(t)
	switch {
	case route == nil:
		return nil
	case route.handle == nil:
		return r.wrap(planned)
	case t.Activity.Amends():
		return r.wrap(amended(route.handle))
	}
	return r.wrap(route.handle)
}

// match returns the route of what is no invoke; nil: there is none.
func (r *routes) match(t *Turn) *route {
	for _, list := range [][]route{r.first, r.last} {
		for i := range list {
			if list[i].match(t) {
				return &list[i]
			}
		}
	}
	return nil
}

// amended makes the history follow an edit or a deletion before a handler sees it.
func amended(h Handler) Handler {
	return func(ctx context.Context, t *Turn) error {
		if err := t.Amend(ctx); err != nil {
			return err
		}
		return h(ctx, t)
	}
}

// awaits reports whether the sender of the activity waits for its turn's answer.
func (r *routes) awaits(a *activity.Activity) bool {
	route, _ := r.invoke(a)
	return a.Type == activity.Invoke && route.mode != teams.Acknowledged
}

func (r *routes) addCard(call, verb string, card cardRoute) {
	_, taken := r.cards[verb]
	switch {
	case card.handle == nil:
		r.mistake("%s: the handler of the verb %q is nil", call, verb)
	case verb == "":
		r.mistake("%s: the verb is empty", call)
	case strings.HasPrefix(verb, turn.OwnVerbs):
		r.mistake("%s: the verb %q is the bot's own", call, verb)
	case taken:
		r.mistake("%s: the verb %q has a handler", call, verb)
	default:
		if r.cards == nil {
			r.cards = map[string]cardRoute{}
		}
		r.cards[verb] = card
	}
}

func (r *routes) wrap(h Handler) Handler {
	for _, m := range slices.Backward(r.middleware) {
		h = m(h)
	}
	return h
}

func (r *routes) addInvoke(call, name string, route invokeRoute) {
	_, taken := r.invokes[name]
	switch {
	case name == "":
		r.mistake("%s: the name is empty", call)
	case taken:
		r.mistake("%s: the invoke %q has a handler", call, name)
	default:
		if r.invokes == nil {
			r.invokes = map[string]invokeRoute{}
		}
		r.invokes[name] = route
	}
}

// add adds a route, tried after those that were added before.
func (r *routes) add(call string, new route) {
	switch {
	case new.handle == nil:
		r.mistake("%s: the handler is nil", call)
	case new.match == nil:
		r.mistake("%s: match is nil", call)
	default:
		r.first = append(r.first, new)
	}
}

// invoke returns the route of an invoke, if it has one.
func (r *routes) invoke(a *activity.Activity) (route invokeRoute, ok bool) {
	if a.Type != activity.Invoke {
		return route, false
	}
	if route, ok = r.invokes[a.Name]; !ok {
		route, ok = r.known[a.Name]
	}
	return route, ok
}

func isCommand(command string) func(t *Turn) bool {
	return func(t *Turn) bool { return t.IsMessage() && strings.EqualFold(t.Text, command) }
}

// command adds a route for a command. The handler gets what follows it as the turn's text.
func (r *routes) command(command string, h Handler) route {
	if h == nil {
		return route{}
	}
	r.commands = append(r.commands, command)
	if !strings.HasPrefix(command, "/") {
		return route{isCommand(command), h}
	}
	return route{
		begins(command),
		func(ctx context.Context, t *Turn) error {
			t.Text, _ = commandWords(t, command)
			return h(ctx, t)
		},
	}
}

// begins matches a command, alone or followed by words.
func begins(command string) func(t *Turn) bool {
	return func(t *Turn) bool { _, ok := commandWords(t, command); return ok }
}

func commandWords(t *Turn, command string) (words string, ok bool) {
	if !t.IsMessage() || len(t.Text) < len(command) || !strings.EqualFold(t.Text[:len(command)], command) {
		return "", false
	}
	words = strings.TrimSpace(t.Text[len(command):])
	return words, words == "" || words != t.Text[len(command):] // white space must separate them
}
