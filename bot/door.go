package bot

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// whenKeysMissing is when to come back while the keys of the tokens' issuer
// cannot be had.
const whenKeysMissing = 2 * time.Second

// Guarded is the [Door] that lets in whom the guard lets in. Without an app id
// it also takes requests that name no content type, as old local clients send,
// but none that a web page made, and none that a proxy or tunnel passed on: any page that
// a person has open could send to a port of their own machine, and anybody to a tunnel.
func Guarded(g *connector.Guard) Door { return guarded{g} }

type guarded struct{ guard *connector.Guard }

func (d guarded) Enter(r *http.Request) (Visitor, error) {
	claims, err := d.guard.Verify(r.Context(), r.Header.Values("Authorization"))
	if err != nil {
		return nil, fromGuard(err)
	}
	switch local := claims.Identity().Local; {
	case local && fromWebPage(r):
		return nil, refuse(http.StatusForbidden, "request of a web page")
	case local && passedOn(r):
		return nil, refuse(http.StatusForbidden, "request that a proxy or tunnel passed on to a bot without an app id")
	case !local && r.Header.Get("Content-Type") == "":
		return nil, refuse(http.StatusUnsupportedMediaType, "no content type")
	}
	return permit{claims}, nil
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

type permit struct{ claims *connector.Claims }

func (p permit) Permit(a *activity.Activity) error { return fromGuard(p.claims.Permit(a)) }

// Signed holds for every token that the guard takes. A channel's names the serviceUrl. One
// of another bot names only that bot: it may say where it is, among the hosts that the
// operator listed, and what it is sent there is of use to nobody else.
func (p permit) Signed() bool { return !p.claims.Identity().Local }

func (p permit) CallerID() string { return p.claims.Identity().CallerID }

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
