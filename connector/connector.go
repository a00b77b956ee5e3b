// Package connector authenticates what comes in from channels and calls the Connector REST
// API.
//
// [New] makes both sides from one [Config]. The [Guard] decides whether an inbound activity
// comes from the Bot Framework: it checks the channel's token against keys that it fetches
// and keeps. [Callers] are the others whose tokens it accepts. The [Client] calls the API.
// Both know the same list of hosts that the bot may talk to at all, so no forged serviceUrl
// ever sees the bot's token.
//
// # Sending
//
// A reference names a conversation: the one that an activity gives
// ([activity.Activity.Reference]), or one that was kept. In it, a [Client] sends
// ([Client.Send], [Client.Reply]), changes what was sent ([Client.Update],
// [Client.Delete]) and asks who is there ([Client.Members]). It creates conversations
// ([Client.CreateConversation]) and threads in channels of Teams ([Client.NewThread]),
// asks how large a team is ([Client.TeamSize]), and fetches pictures and files ([Client.Download]).
//
// Each call has a deadline, keeps the limits of Teams, and is repeated only where that can
// help; see [Client]. An error is an [*Error], which is what a connector answered, wraps
// [ErrBadCall], [ErrHostNotAllowed] or [ErrNoAnswer], or says why there is no token or no
// connection.
//
// # Rules
//
// They are those of the Bot Framework's authentication specification
// (https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication)
// and, where that is silent, the stricter one of Microsoft's SDKs.
package connector

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Config says who the bot is and whom it talks with. The zero value is local mode, in which
// it talks with programs on this machine.
type Config struct {
	// AppID is the bot's own. Empty means local mode: no token is needed, any is ignored,
	// none is sent, and the only hosts are loopback ones and AllowedHosts. Whoever opens a
	// listener without an app id must keep it on loopback.
	AppID string
	// Credentials go with an AppID, and only with one.
	Credentials Credentials
	// Callers are authenticated by tokens of Entra instead of a channel's. The zero value:
	// nobody.
	Callers Callers

	// Cloud is public, gcch, dod or china, in any case. "": public.
	Cloud string
	// MetadataURL is the OpenID document that leads to the keys of the channels' tokens, and
	// LoginURL the root of the token endpoints, {LoginURL}/{tenant}/oauth2/v2.0/token. Both
	// are https, or http on a loopback address. "": the cloud's.
	MetadataURL, LoginURL string

	// AllowedHosts are added to the connector hosts of the cloud. An entry is a host or
	// host:port; ".example.com" also stands for every host below example.com. An entry with a
	// port matches only that port; one without matches 443, and any port on a loopback host.
	// Plain http is allowed to loopback hosts only.
	AllowedHosts []string

	// Transport carries all requests. nil: own pools of connections. The one for calls and
	// downloads checks at each dial that no public name leads to a private address.
	Transport http.RoundTripper
	// Tries is how often a call is made at most. 0: 5.
	Tries int
	// UserAgent names the bot in calls. "": planbot.
	UserAgent string
}

// New returns both sides of the bot's connection with its channels, or an error that names
// every mistake in cfg. It requests nothing; files are read, so that one that is no use is
// an error now.
func New(cfg Config) (*Guard, *Client, error) {
	c, err := cloudNamed(cfg.Cloud)
	if err != nil {
		return nil, nil, fmt.Errorf("connector config: %w", err)
	}
	c.MetadataURL = cmp.Or(cfg.MetadataURL, c.MetadataURL)
	c.LoginURL = strings.TrimSuffix(cmp.Or(cfg.LoginURL, c.LoginURL), "/")
	hosts, err := newServiceHosts(c, cfg.AllowedHosts, cfg.AppID == "")
	errs := []error{err}
	trusted := cfg.Transport
	if trusted == nil {
		trusted = newTransport((&net.Dialer{Timeout: dialTimeout}).DialContext) // to hosts that the operator configured
	}
	guard := &Guard{cfg: cfg, cloud: c, hosts: hosts, transport: trusted, now: time.Now}
	client := newClient(cfg, hosts)
	switch {
	case cfg.AppID != "":
		errs = append(errs, guard.setUp(), cfg.Callers.check(cfg.AppID))
		client.tokens, err = newTokens(cfg, c, trusted)
		errs = append(errs, err)
	case len(cfg.Callers.apps("")) > 0:
		errs = append(errs, errors.New("Callers without an AppID"))
	case cfg.Credentials != Credentials{}:
		errs = append(errs, errors.New("Credentials without an AppID"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, fmt.Errorf("connector config: %w", err)
	}
	return guard, client, nil
}

// Callers are who may call the bot beside the channels, with tokens that Microsoft Entra
// issued to an app of the bot's own tenant. The zero value is nobody.
//
// A channel's token names the service URL that goes with it; theirs do not. So a caller may
// only name a host that the operator listed, the token that goes there is made for the
// caller and good for nothing else, and what a bot keeps about a caller's conversations has
// to be kept apart from all others, whatever ids they claim. What a caller says about its
// people (their ids, tenants) is believed.
type Callers struct {
	// Tenant is the only one whose tokens count: its id, a GUID. Required with others.
	Tenant string
	// Emulator allows tokens of the bot's own app: those of the Bot Framework Emulator and
	// the Agents Playground, when they are given its app id and secret.
	Emulator bool
	// Bots are the app ids of bots that may call this one as a skill.
	Bots []string
}

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

var guid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func (c Callers) check(own string) error {
	apps := c.apps(own)
	if len(apps) == 0 {
		return nil
	}
	var errs []error
	if !guid.MatchString(c.Tenant) {
		errs = append(errs, errors.New("the tenant of the callers is no GUID"))
	}
	for _, app := range c.Bots {
		switch {
		case !guid.MatchString(app):
			errs = append(errs, fmt.Errorf("caller %q is no app id", app))
		case strings.EqualFold(app, own):
			errs = append(errs, fmt.Errorf("caller %s is the bot itself", app))
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(apps)))) != len(apps) {
		errs = append(errs, errors.New("a caller twice"))
	}
	return errors.Join(errs...)
}
