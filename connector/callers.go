package connector

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// ErrUnknownCaller is wrapped when something is to be sent to a calling bot that is
// not, or no longer, among the [Callers].
var ErrUnknownCaller = errors.New("the calling bot is not allowed")

// Callers are who may come in beside the channels, with tokens that Microsoft Entra
// issued to an app of the bot's own tenant. The zero value is nobody.
//
// A channel's token names the service URL that goes with it; theirs do not. So a
// caller may only name a host that the operator listed, the token that goes there is
// made for the caller and good for nothing else, and what a bot keeps about a caller's
// conversations has to be kept apart from all others, whatever ids they claim. What a
// caller says about its people (their ids, tenants) is believed: it is the caller's to know.
type Callers struct {
	// Tenant is the only one whose tokens count: its id, a GUID. Required with others.
	Tenant string
	// Emulator lets in who has a token of the bot's own app: the Bot Framework Emulator
	// and the Agents Playground, when they are given its app id and secret.
	Emulator bool
	// Bots are the app ids of bots that may call this one as a skill.
	Bots []string
}

// any reports whether there is anybody.
func (c Callers) any() bool { return c.Emulator || len(c.Bots) > 0 }

// apps are the app ids of all of them, in lower case.
func (c Callers) apps(own string) []string {
	var all []string
	for _, app := range c.Bots {
		all = append(all, strings.ToLower(app))
	}
	if c.Emulator {
		all = append(all, strings.ToLower(own))
	}
	return all
}

func (c Callers) check(own string) error {
	if !c.any() {
		return nil
	}
	var errs []error
	if !IsGUID(c.Tenant) {
		errs = append(errs, errors.New("the tenant of the callers is no GUID"))
	}
	for _, app := range c.Bots {
		switch {
		case !IsGUID(app):
			errs = append(errs, fmt.Errorf("caller %q is no app id", app))
		case sameID(app, own):
			errs = append(errs, fmt.Errorf("caller %s is the bot itself", app))
		}
	}
	if dup := c.apps(own); len(slices.Compact(slices.Sorted(slices.Values(dup)))) != len(dup) {
		errs = append(errs, errors.New("a caller twice"))
	}
	return errors.Join(errs...)
}

var guid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// IsGUID reports whether it is a GUID as Microsoft writes the ids of apps and tenants, in
// either case.
func IsGUID(s string) bool { return guid.MatchString(s) }

// sameID compares ids of apps and tenants, GUIDs, whose case does not count.
func sameID(a, b string) bool { return strings.EqualFold(a, b) }

type forCaller struct{}

// ForCaller returns a context in which calls of a [Client] go to the bot with that app
// id, which has called this one: with a token of [Tokens] for it, and only to hosts that
// the operator listed. An empty id, or none, stands for the channels. Package bot sets it
// on the contexts of a caller's turns; who sends to a caller in another one has to.
func ForCaller(ctx context.Context, appID string) context.Context {
	if appID == "" && callerOf(ctx) == "" {
		return ctx
	}
	return context.WithValue(ctx, forCaller{}, strings.ToLower(appID))
}

func callerOf(ctx context.Context) string {
	app, _ := ctx.Value(forCaller{}).(string)
	return app
}
