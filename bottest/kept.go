package bottest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

// OfConversation reads the value of type T that the bot keeps about the conversation, once
// it has nothing left to do: the zero T when it keeps none. It is for bots that take their
// Store from the parts; of others it fails the test.
func OfConversation[T any](c *Chat) T {
	c.kit.t.Helper()
	return read(c, c.conversationKey(), state.Of[T])
}

// OfUser is [OfConversation] for what the bot keeps about the person who speaks.
func OfUser[T any](c *Chat) T {
	c.kit.t.Helper()
	return read(c, c.userKey(), state.Of[T])
}

// AtConversation is [OfConversation] for the value that the bot keeps under a name, with
// [state.At].
func AtConversation[T any](c *Chat, name string) T {
	c.kit.t.Helper()
	return read(c, c.conversationKey(), func(s *state.Scope) *T { return state.At[T](s, name) })
}

// AtUser is [AtConversation] for what the bot keeps about the person who speaks.
func AtUser[T any](c *Chat, name string) T {
	c.kit.t.Helper()
	return read(c, c.userKey(), func(s *state.Scope) *T { return state.At[T](s, name) })
}

func read[T any](c *Chat, key state.Key, of func(*state.Scope) *T) T {
	c.kit.t.Helper()
	c.kit.settle(nil)
	scope := c.kit.load(c, key)
	value := *of(scope)
	if err := scope.Err(); err != nil {
		c.kit.fatal(c, "read what the bot keeps: %v", err)
	}
	return value
}

// Keep changes what the bot keeps about the conversation and about the person, before or
// between its turns; of a bot that takes its Store from the parts.
func (c *Chat) Keep(change func(conversation, user *state.Scope)) {
	c.kit.t.Helper()
	conversation, user := c.kit.load(c, c.conversationKey()), c.kit.load(c, c.userKey())
	change(conversation, user)
	if err := c.kit.watcher.Save(c.kit.t.Context(), conversation, user); err != nil {
		c.kit.fatal(c, "keep: %v", err)
	}
}

// ID is the id of the conversation.
func (c *Chat) ID() string { return c.of.id }

func (c *Chat) conversationKey() state.Key {
	base, _, _ := strings.Cut(c.of.id, ";")
	return state.ConversationKey(activity.Teams, BotID, base)
}

func (c *Chat) userKey() state.Key { return state.UserKey(activity.Teams, BotID, userID(c.person)) }

func (k *Kit) load(c *Chat, key state.Key) *state.Scope {
	k.t.Helper()
	if k.foreign.Load() {
		k.fatal(c, "what a bot keeps is known of bots that take their Store from the Parts")
	}
	scopes, err := k.watcher.Load(k.t.Context(), key)
	if err != nil {
		k.fatal(c, "read what the bot keeps: %v", err)
	}
	return scopes[0]
}

// kept shows what a bot keeps about the chat's conversation and person; of no chat, about
// all.
func (k *Kit) kept(c *Chat) string {
	var s strings.Builder
	if c != nil {
		k.keptAt(&s, "conversation", c.conversationKey())
		k.keptAt(&s, c.person, c.userKey())
		return s.String()
	}
	people := map[string]bool{}
	for _, chat := range k.allChats() {
		k.keptAt(&s, chat.of.id, chat.conversationKey())
		for _, person := range chat.of.speakers() {
			if !people[person] {
				people[person] = true
				k.keptAt(&s, person, chat.As(person).userKey())
			}
		}
	}
	return s.String()
}

func (k *Kit) keptAt(s *strings.Builder, what string, key state.Key) {
	// The context of a test that is at its end is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.t.Context()), patience)
	defer cancel()
	scopes, err := k.watcher.Load(ctx, key)
	if err != nil {
		fmt.Fprintf(s, "%s: %v\n", what, err)
		return
	}
	names := scopes[0].Names()
	slices.Sort(names)
	for _, name := range names {
		value, err := scopes[0].JSON(name)
		if err != nil {
			value = []byte(err.Error())
		}
		fmt.Fprintf(s, "%s.%s = %s\n", what, name, value)
	}
}
