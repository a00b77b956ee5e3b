package bot

import (
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/loopback"
)

// Guarded is the [Authenticator] that accepts what the guard accepts. Without an app id it also
// accepts requests without a content type, as old local clients send, but refuses requests from web
// pages and those that a proxy or tunnel forwarded: any page that a person has open could send to a
// port of their own machine, and anybody to a tunnel.
func Guarded(g *connector.Guard) Authenticator { return guarded{guard: g} }

type guarded struct {
	guard *connector.Guard
	here  bool // refuse requests from other machines, whatever address the program listens on
}

// Local reports whether nobody is authenticated, as the bot has no app id.
func (d guarded) Local() bool {
	channels, _ := d.guard.MetadataURLs()
	return channels == ""
}

func (d guarded) Authenticate(r *http.Request) (Caller, error) {
	claims, err := d.guard.Verify(r.Context(), r.Header.Values("Authorization"))
	if err != nil {
		return nil, err
	}
	switch local := !claims.Trusted(); {
	case d.here && !overLoopback(r):
		return nil, refuse(http.StatusForbidden, "request from another machine to a bot without an Authenticator")
	case local && fromWebPage(r):
		return nil, refuse(http.StatusForbidden, "request of a web page")
	case local && overLoopback(r) && loopback.Proxied(r.Header): // a tunnel may have set the Host header
		return nil, refuse(http.StatusForbidden, "request that a proxy or tunnel passed on to a bot without an app id")
	case !local && r.Header.Get("Content-Type") == "":
		return nil, refuse(http.StatusUnsupportedMediaType, "no content type")
	}
	return claims, nil
}

// fromWebPage reports whether a browser sent the request for a page. Such a request has an Origin,
// or reaches a loopback address under a foreign host name that somebody made resolve to this
// machine.
func fromWebPage(r *http.Request) bool {
	if r.Header.Get("Origin") != "" {
		return true
	}
	return overLoopback(r) && !loopbackName(r.Host)
}

func overLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(addr)
}

func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return loopback.IsHost(strings.Trim(host, "[]"))
}

// local returns the authenticator and the client of a bot without an app id, which talks only to
// programs on this machine.
func local() (Authenticator, *connector.Client, error) {
	guard, client, err := connector.New(connector.Config{})
	return guarded{guard, true}, client, err
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Access limits who may talk to the bot. A list with entries allows only those it names; an empty
// one allows everyone. Case does not matter.
//
// Teams itself says who a person is and which tenant they belong to. On other channels, such as
// Direct Line, clients may write what they like, so a list of tenants or users allows nobody there.
// A bot that calls this one as a skill is believed. A bot without an app id cannot verify anybody,
// and believes everything.
type Access struct {
	Tenants  []string // ids of tenants
	Users    []string // aadObjectIds of people
	Channels []string // channelIds, such as msteams
}

// denies names the list that denies the sender of the activity, or "". identified says that the bot
// has an app id.
func (l *Access) denies(a *activity.Activity, identified bool) (list string) {
	known := a.ChannelID == activity.Teams || !identified
	tenant := ""
	if len(l.Tenants) > 0 { // it costs a look into channelData
		tenant, _ = a.Tenant()
	}
	switch {
	case !allows(l.Channels, a.ChannelID, true):
		return "channels"
	case !allows(l.Tenants, tenant, known):
		return "tenants"
	case !allows(l.Users, a.From.AadObjectID, known):
		return "users"
	}
	return ""
}

// allows reports whether the list allows the id. A list with entries never allows an id that is not
// known.
func allows(list []string, id string, known bool) bool {
	return len(list) == 0 || known && id != "" && slices.ContainsFunc(list, func(one string) bool { return strings.EqualFold(one, id) })
}
