package connector

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
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
	leastTokenLife  = time.Second
	firstTokenPause = 500 * time.Millisecond
	maxTokenPause   = 15 * time.Second
	// How often a token that the connector refused is replaced: at once, if none was of
	// late, and then after a pause that grows within these bounds.
	leastReplacePause, mostReplacePause = 15 * time.Second, 5 * time.Minute
)

// Tokens keeps the bot's tokens: one for the channels, and one for each of the
// [Callers]. Each is renewed at least five minutes early, by one request however many
// want it; a renewal that fails leaves the old token in use while it lives. After a
// failed request the next one waits for up to 15 seconds, and until then callers get
// the same error at once. Where new tokens are refused like the old ones, they are replaced
// less and less often, down to every five minutes. It may be used concurrently.
type Tokens struct {
	own       *kept
	callers   map[string]*kept // by app id in lower case; never changes
	transport *http.Transport  // nil when the caller brought one
}

func newTokens(own fetch) *Tokens {
	return &Tokens{own: newKept(own), callers: make(map[string]*kept)}
}

// Close ends requests that are under way and waits for them.
func (t *Tokens) Close() {
	t.own.flight.close()
	for _, k := range t.callers {
		k.flight.close()
	}
	if t.transport != nil {
		t.transport.CloseIdleConnections()
	}
}

// Token returns a token that is good for at least half a minute, or for half of its life
// if that is shorter than a minute, never an empty one: the channels' or, in a context of
// [ForCaller], that caller's. Its error is a [TokenError], ctx's, or wraps
// [ErrUnknownCaller].
func (t *Tokens) Token(ctx context.Context) (string, error) {
	k, err := t.of(ctx)
	if err != nil {
		return "", err
	}
	return k.get(ctx)
}

func (t *Tokens) of(ctx context.Context) (*kept, error) {
	app := callerOf(ctx)
	if app == "" {
		return t.own, nil
	}
	if k := t.callers[app]; k != nil {
		return k, nil
	}
	return nil, fmt.Errorf("get bot token: %w: %s", ErrUnknownCaller, app)
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

// nextTry is how long the next request for the token that ctx asks for is away.
func (t *Tokens) nextTry(ctx context.Context) time.Duration {
	k, err := t.of(ctx)
	if err != nil {
		return 0
	}
	return k.nextTry()
}

// kept is one token.
type kept struct {
	fetch  fetch
	flight *flight

	mu       sync.Mutex
	token    string
	renewAt  time.Time
	endsAt   time.Time
	failures int
	retryAt  time.Time
	err      error

	replaced  int       // how often in a row, since it was refused
	replaceAt time.Time // not again before
}

func newKept(f fetch) *kept { return &kept{fetch: f, flight: newFlight()} }

// get returns the token, and waits for it when there is none.
func (k *kept) get(ctx context.Context) (string, error) {
	token, fresh := k.current()
	if fresh {
		return token, nil
	}
	done := k.flight.join(k.due, k.renew)
	if token != "" {
		return token, nil // renewed behind the caller's back
	}
	if done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return "", fmt.Errorf("get bot token: %w", ctx.Err())
		}
	}
	if token, _ = k.current(); token != "" {
		return token, nil
	}
	return "", k.refusal()
}

func (k *kept) invalidate(token string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.token != token || now.Before(k.replaceAt) {
		return
	}
	if now.Sub(k.replaceAt) > mostReplacePause {
		k.replaced = 0
	}
	k.token = ""
	k.replaceAt = now.Add(min(leastReplacePause<<min(k.replaced, 10), mostReplacePause))
	k.replaced++
}

// current returns the token while it lives, and whether that is long enough.
func (k *kept) current() (token string, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.token == "" || !now.Before(k.endsAt) {
		return "", false
	}
	return k.token, now.Before(k.renewAt)
}

func (k *kept) due() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	return !now.Before(k.retryAt) && (k.token == "" || !now.Before(k.renewAt))
}

func (k *kept) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	g, err := k.fetch(ctx)
	switch {
	case err != nil:
	case !sendable(g.token):
		err = &TokenError{Err: errors.New("the endpoint answered without a usable token")}
	case g.life < leastTokenLife:
		err = &TokenError{Err: errors.New("the endpoint gave a token that has run out already: see the clock of this machine")}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.fail(err)
		return
	}
	now := time.Now()
	k.token, k.failures, k.retryAt, k.err = g.token, 0, time.Time{}, nil
	k.renewAt = now.Add(g.life - min(tokenMargin, g.life/2))
	k.endsAt = now.Add(g.life - min(tokenSpare, g.life/2))
}

// fail sets the time of the next request: twice as far each time, with jitter,
// so that the replicas of a bot do not knock together.
func (k *kept) fail(err error) {
	pause := maxTokenPause
	if k.failures < 5 {
		pause = firstTokenPause << k.failures
	}
	k.failures++
	pause -= time.Duration(rand.Int64N(int64(pause) / 5))
	k.retryAt = time.Now().Add(pause)
	k.err = err
}

func (k *kept) refusal() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		return &TokenError{Err: errors.New("tokens are closed")}
	}
	return k.err
}

// nextTry is how long the next request for a token is away.
func (k *kept) nextTry() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return time.Until(k.retryAt)
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
