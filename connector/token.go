package connector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
)

const (
	tokenTimeout = 10 * time.Second
	// tokenMargin is how long before its end a token is renewed; a token of a
	// short life is renewed at half of it.
	tokenMargin = 5 * time.Minute
	// tokenSpare is how much life a token must have left to be sent at all.
	tokenSpare = 30 * time.Second
	// leastTokenLife is what a token has to have left when it comes, so that not every call
	// asks for one.
	leastTokenLife = time.Second
	// maxTokenLife bounds what an endpoint says, and defaultTokenLife is for one that says
	// nothing.
	maxTokenLife, defaultTokenLife = 24 * time.Hour, 10 * time.Minute
	// replacePause lies between two tokens that are replaced because the connector refused
	// them.
	replacePause = time.Minute
)

// Tokens keeps the bot's tokens: one for the channels, and one for each of the
// [Callers]. Each is renewed at least five minutes early, by one request however many
// want it; a renewal that fails leaves the old token in use while it lives. After a
// failed request the next one waits for up to 15 seconds, and until then callers get
// the same error at once. Where new tokens are refused like the old ones, they are replaced
// once a minute. It may be used concurrently.
type Tokens struct {
	own       *kept
	callers   map[string]*kept // by app id in lower case; never changes
	transport *http.Transport  // nil when the caller brought one
}

// Close gives up idle connections. A request that is under way ends within ten seconds.
func (t *Tokens) Close() {
	if t.transport != nil {
		t.transport.CloseIdleConnections()
	}
}

// Token returns a token that is good for at least half a minute, or for half of its life
// if that is shorter than a minute, never an empty one: the channels' or, in a context of
// [ForCaller], that caller's. Its error is a [TokenError], ctx's, or wraps
// [ErrUnknownCaller].
func (t *Tokens) Token(ctx context.Context) (string, error) {
	app := callerOf(ctx)
	if app == "" {
		return t.own.get(ctx)
	}
	if k := t.callers[app]; k != nil {
		return k.get(ctx)
	}
	return "", fmt.Errorf("get bot token: %w: %s", ErrUnknownCaller, app)
}

// Invalidate forgets a token that the connector refused, so that the next one is a new
// one. It keeps a token for a while that has just taken the place of a refused one: a
// connector that takes none is not won over by more of them.
func (t *Tokens) Invalidate(token string) {
	t.own.invalidate(token)
	for _, k := range t.callers {
		k.invalidate(token)
	}
}

// kept is one token.
type kept struct {
	fetch    fetch
	renewing singleflight.Group

	mu         sync.Mutex
	token      string
	renewAt    time.Time
	endsAt     time.Time
	replacedAt time.Time // when it last took the place of a refused one

	err     *TokenError // of the last request; it says when the next one may be made
	backoff backoff.ExponentialBackOff
}

func newKept(f fetch) *kept {
	return &kept{fetch: f, backoff: backoff.ExponentialBackOff{
		InitialInterval: 500 * time.Millisecond, Multiplier: 2, MaxInterval: 12 * time.Second,
		RandomizationFactor: 0.2, // so that the replicas of a bot do not ask together
	}}
}

// get returns the token, and waits for it when there is none.
func (k *kept) get(ctx context.Context) (string, error) {
	token, due, err := k.look()
	if due {
		done := k.renewing.DoChan("", func() (any, error) { k.renew(); return nil, nil })
		if token != "" {
			return token, nil // renewed while the caller goes on
		}
		select {
		case <-done:
			token, _, err = k.look()
		case <-ctx.Done():
			return "", fmt.Errorf("get bot token: %w", ctx.Err())
		}
	}
	switch {
	case token != "":
		return token, nil
	case err != nil:
		return "", err
	default:
		return "", &TokenError{Err: errors.New("the new token was refused already")}
	}
}

// look returns the token while it lives, whether a new one is to be asked for, and why
// there is none.
func (k *kept) look() (token string, due bool, err *TokenError) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if now.Before(k.endsAt) {
		token = k.token
	}
	paused := k.err != nil && now.Before(k.err.retryAt)
	return token, !paused && !now.Before(k.renewAt), k.err
}

func (k *kept) invalidate(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); k.token == token && now.Sub(k.replacedAt) >= replacePause {
		k.token, k.renewAt, k.endsAt, k.replacedAt = "", time.Time{}, time.Time{}, now
	}
}

// renew asks for a token if that is still due. It outlives the caller that began it.
func (k *kept) renew() {
	if _, due, _ := k.look(); !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tokenTimeout)
	defer cancel()
	t, err := k.fetch(ctx)
	switch {
	case err != nil:
	case !sendable(t.AccessToken):
		err = errors.New("the endpoint answered without a usable token")
	case lifeOf(t) < leastTokenLife:
		err = errors.New("the endpoint gave a token that has run out already: see the clock of this machine")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if err != nil {
		failure := new(TokenError)
		if !errors.As(err, &failure) {
			failure = &TokenError{Err: err}
		}
		failure.retryAt = now.Add(k.backoff.NextBackOff())
		k.err = failure
		return
	}
	k.backoff.Reset()
	k.token, k.err = t.AccessToken, nil
	life := lifeOf(t)
	k.renewAt = now.Add(life - min(tokenMargin, life/2))
	k.endsAt = now.Add(life - min(tokenSpare, life/2))
}

func lifeOf(t *oauth2.Token) time.Duration {
	if t.Expiry.IsZero() {
		return defaultTokenLife
	}
	return min(time.Until(t.Expiry), maxTokenLife)
}

// sendable reports whether the token can stand in a header: not empty, visible
// ASCII only.
func sendable(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return token != ""
}
