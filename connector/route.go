package connector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// gccService is where Teams serves tenants of the Government Community Cloud, which
// belong to the public cloud otherwise.
const gccService = "https://smba.infra.gcc.teams.microsoft.com/teams"

// route is where a call goes.
type route struct {
	url     string
	host    string
	limited bool // to Microsoft's connector, whose limits are known
}

// route builds the address of the call, each id as one escaped segment.
func (c *Client) route(ctx context.Context, k call) (route, error) {
	base, err := c.cfg.Hosts.baseFor(callerOf(ctx), k.service)
	if err != nil {
		return route{}, err
	}
	var b strings.Builder
	b.WriteString(base.String() + "/v3")
	for _, segment := range k.path {
		if segment == "" || segment == "." || segment == ".." {
			return route{}, fmt.Errorf("%w: %q cannot be an id", ErrBadCall, segment)
		}
		b.WriteString("/" + url.PathEscape(segment))
	}
	if len(k.query) > 0 {
		b.WriteString("?" + k.query.Encode())
	}
	return route{b.String(), base.Hostname(), c.cfg.Hosts.ofMicrosoft(base)}, nil
}

// attempt makes the call once, when the limits allow it, and once more where Microsoft says
// that another host serves the tenant. That is not remembered: whatever the tenant sends
// next names the right host.
func (c *Client) attempt(ctx context.Context, k call, to *route, end time.Time) ([]byte, error) {
	token, err := c.ready(ctx, k, *to, end)
	if err != nil {
		return nil, err
	}
	reply, err := c.try(ctx, k, to.url, token, end)
	if !c.moved(ctx, k, to, err) {
		return reply, err
	}
	retries(ctx)
	return c.attempt(ctx, k, to, end)
}

// moved changes the route to the host of the Government Community Cloud, if that is what
// the refusal asks for and the bot may go there: in the public cloud it may.
func (c *Client) moved(ctx context.Context, k call, to *route, err error) bool {
	var refused *Error
	if !to.limited || !errors.As(err, &refused) || refused.Status != http.StatusForbidden || refused.Code != "InvalidBotApiHost" {
		return false
	}
	k.service = gccService
	there, err := c.route(ctx, k)
	if err != nil || !there.limited || there.host == to.host {
		return false
	}
	*to = there
	return true
}

// ready gets the token, and then waits until the limits of Teams allow the call. The other
// way round, calls that have waited for one token would leave together.
func (c *Client) ready(ctx context.Context, k call, to route, end time.Time) (token string, err error) {
	within, cancel := c.tryWithin(ctx, end)
	defer cancel()
	if token, err = c.token(within); err != nil {
		return "", fmt.Errorf("%s: %w", k.op(), err)
	}
	if !to.limited {
		return token, nil
	}
	return token, c.limits.wait(ctx, k.op(), k.usage, end)
}
