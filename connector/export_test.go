package connector

import (
	"context"
	"time"

	"golang.org/x/oauth2"
)

// What the tests of this package see beside its exported names.

type (
	Tokens     = tokens
	TokenError = tokenError
)

// TokensFrom are tokens that next makes.
func TokensFrom(next func(context.Context) (string, error)) Tokens {
	return tokens{"": newKept(func(ctx context.Context) (*oauth2.Token, error) {
		token, err := next(ctx)
		return &oauth2.Token{AccessToken: token}, err
	})}
}

func (t tokens) Token(ctx context.Context) (string, error) { return t.get(ctx) }
func (t tokens) Invalidate(token string)                   { t.invalidate(token) }

func (c *Client) Tokens() Tokens     { return c.tokens }
func (c *Client) SetTokens(t Tokens) { c.tokens = t }

// SetHosts replaces the cloud's hosts.
func (c *Client) SetHosts(services, files []string) {
	c.hosts.services, c.hosts.files = services, files
}

func (g *Guard) SetClock(now func() time.Time) { g.now = now }

// Allowed reports whether the bot may send to the URL.
func (c *Client) Allowed(rawURL string) error {
	_, err := c.hosts.baseFor("", rawURL)
	return err
}

// SetCaller gives a calling bot the tokens of another.
func (t tokens) SetCaller(appID string, of Tokens) { t[appID] = of[""] }
