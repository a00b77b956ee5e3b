// Package msbotbuilder serves handlers that were written for github.com/infracloudio/msbotbuilder-go with a bot of
// this module. They get what they got there, and return what they returned. What is around them is Planbot's:
// authentication, the queue, one answer for each message, and delivery after a crash.
package msbotbuilder

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	library "github.com/infracloudio/msbotbuilder-go/core/activity"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
)

// Serve registers the handler on b for messages, for updates of conversations, and for the invokes with these names,
// which are answered with status 200. Of [library.HandlerFuncs] only the functions that are set are registered; b
// handles the rest, for example with its planner. Call it before b takes activities, after the routes that go first.
//
// The activity that a function returns is sent as a reply; one without a type sends nothing. An error ends the turn:
// the person reads that something went wrong, and the log has the cause. As with every [bot.Handler], a function may
// run again after a crash, unless its reply was stored. Several turns may call it at once.
func Serve(b *bot.Bot, h library.Handler, invokes ...string) {
	funcs, some := h.(library.HandlerFuncs)
	if !some || funcs.OnMessageFunc != nil {
		b.OnMessage(nil, reply(h.OnMessage))
	}
	if !some || funcs.OnConversationUpdateFunc != nil {
		b.OnActivity(activity.ConversationUpdate, reply(h.OnConversationUpdate))
	}
	for _, name := range invokes {
		b.OnInvoke(name, func(ctx context.Context, t *bot.Turn) (bot.InvokeResponse, error) {
			return bot.InvokeResponse{Status: http.StatusOK}, reply(h.OnInvoke)(ctx, t)
		})
	}
}

// reply is the handler that sends what a function of the library returns.
func reply(answer func(*library.TurnContext) (schema.Activity, error)) bot.Handler {
	return func(ctx context.Context, t *bot.Turn) error {
		in, err := toLibrary(t.Activity)
		if err != nil {
			return err
		}
		out, err := answer(&library.TurnContext{Activity: in})
		if err != nil || out.Type == "" {
			return err
		}
		message, err := fromLibrary(out)
		if err != nil {
			return err
		}
		return t.Send(ctx, message)
	}
}

// toLibrary converts an activity to the library's type, which leaves out what it does not know.
func toLibrary(a *activity.Activity) (out schema.Activity, err error) {
	raw, err := json.Marshal(a)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		return out, fmt.Errorf("read the activity with the types of msbotbuilder-go: %w", err)
	}
	return out, nil
}

// fromLibrary converts a reply, without the zero times that the library writes: an expiration in the past would hide it.
func fromLibrary(in schema.Activity) (*activity.Activity, error) {
	var fields map[string]any
	raw, err := json.Marshal(in)
	if err == nil {
		err = json.Unmarshal(raw, &fields)
	}
	for _, name := range []string{"timestamp", "localTimestamp", "expiration", "suggestedActions", "relatesTo", "semanticAction"} {
		if isEmpty(fields[name]) {
			delete(fields, name)
		}
	}
	if err == nil {
		raw, err = json.Marshal(fields)
	}
	var out *activity.Activity
	if err == nil {
		out, err = activity.Decode(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("read the reply of a handler of msbotbuilder-go: %w", err)
	}
	return out, nil
}

// isEmpty reports whether a value is a zero time, or an object of nothing but empty values.
func isEmpty(value any) bool {
	object, isObject := value.(map[string]any)
	if !isObject {
		return value == nil || value == "" || value == "0001-01-01T00:00:00Z"
	}
	for _, member := range object {
		if !isEmpty(member) {
			return false
		}
	}
	return true
}
