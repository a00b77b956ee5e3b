package bot

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// whenKeysMissing is when to come back while the keys of the tokens' issuer
// cannot be had.
const whenKeysMissing = 2 * time.Second

// Guarded is the [Authenticator] that takes what the guard takes. Without an app id
// it also takes requests that name no content type, as old local clients send,
// but none that a web page made, and none that a proxy or tunnel passed on: any page that
// a person has open could send to a port of their own machine, and anybody to a tunnel.
func Guarded(g *connector.Guard) Authenticator { return guarded{g} }

type guarded struct{ guard *connector.Guard }

func (d guarded) Authenticate(r *http.Request) (Caller, error) {
	claims, err := d.guard.Verify(r.Context(), r.Header.Values("Authorization"))
	if err != nil {
		return nil, fromGuard(err)
	}
	switch local := claims.Local; {
	case local && fromWebPage(r):
		return nil, refuse(http.StatusForbidden, "request of a web page")
	case local && passedOn(r):
		return nil, refuse(http.StatusForbidden, "request that a proxy or tunnel passed on to a bot without an app id")
	case !local && r.Header.Get("Content-Type") == "":
		return nil, refuse(http.StatusUnsupportedMediaType, "no content type")
	}
	return verified{claims}, nil
}

// fromWebPage reports whether a browser sent the request for a page: it says
// where the page is from or, under a name that was made to lead to this
// machine, asks a loopback address for a foreign host.
func fromWebPage(r *http.Request) bool {
	if r.Header.Get("Origin") != "" {
		return true
	}
	return overLoopback(r) && !loopbackName(r.Host)
}

// passedOn reports whether the request came over a loopback address, but from elsewhere:
// what passed it on says so. A tunnel may well have made the host one of this machine.
func passedOn(r *http.Request) bool {
	if !overLoopback(r) {
		return false
	}
	for name := range r.Header {
		if name == "Via" || name == "Forwarded" || name == "X-Real-Ip" || strings.HasPrefix(name, "X-Forwarded-") {
			return true
		}
	}
	return false
}

func overLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && isLoopback(addr)
}

func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

type verified struct{ claims *connector.Claims }

func (v verified) Permit(a *activity.Activity) error { return fromGuard(v.claims.Permit(a)) }

// Trusted holds for every token that the guard takes. A channel's names the serviceUrl. One
// of another bot names only that bot: it may say where it is, among the hosts that the
// operator listed, and what it is sent there is of use to nobody else.
func (v verified) Trusted() bool { return !v.claims.Local }

func (v verified) ID() string { return v.claims.CallerID }

// fromGuard gives the guard's refusal its HTTP status.
func fromGuard(err error) error {
	var refusal *connector.AuthError
	if !errors.As(err, &refusal) {
		return err
	}
	status := &StatusError{Status: refusal.Status, Err: err}
	if status.Status == http.StatusServiceUnavailable {
		status.RetryAfter = whenKeysMissing
	}
	return status
}

// local authenticates for a bot and is its way out, of one without an app id, which talks with
// programs on this machine only.
func local() (Authenticator, *connector.Client, error) {
	guard, client, err := connector.New(connector.Config{})
	return fromHere{Guarded(guard)}, client, err
}

// fromHere takes nothing from another machine, whatever address the
// program listens on.
type fromHere struct{ Authenticator }

func (f fromHere) Authenticate(r *http.Request) (Caller, error) {
	if !overLoopback(r) {
		return nil, refuse(http.StatusForbidden, "request from another machine to a bot without an Authenticator")
	}
	return f.Authenticator.Authenticate(r)
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

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

// denies names the list that denies the sender of the activity, or "". identified says that
// the bot has an app id.
func (l *Access) denies(a *activity.Activity, identified bool) (list string) {
	tenant, _ := a.Tenant()
	known := a.ChannelID == activity.Teams || !identified
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

// allows reports whether the list has the id, which has to be known for that.
func allows(list []string, id string, known bool) bool {
	return len(list) == 0 || known && id != "" && slices.ContainsFunc(list, func(one string) bool { return strings.EqualFold(one, id) })
}
