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
	tokenSpare      = 30 * time.Second
	firstTokenPause = 500 * time.Millisecond
	maxTokenPause   = 15 * time.Second
)

// grant is a token and how long it lives.
type grant struct {
	token string
	life  time.Duration
}

// Tokens keeps the bot's token for one tenant and scope. The token is renewed
// at least five minutes early, by one request however many callers there are; a
// renewal that fails leaves the old token in use while it lives. After a failed
// request the next one waits for up to 15 seconds, and until then callers get
// the same error at once. It may be used concurrently.
type Tokens struct {
	fetch  func(context.Context) (grant, error)
	flight *flight
	own    *http.Transport // nil when the caller brought one

	mu       sync.Mutex
	token    string
	renewAt  time.Time
	endsAt   time.Time
	failures int
	retryAt  time.Time
	err      error
}

func newTokens(fetch func(context.Context) (grant, error)) *Tokens {
	return &Tokens{fetch: fetch, flight: newFlight()}
}

// Close ends a request that is under way and waits for it.
func (t *Tokens) Close() {
	t.flight.close()
	if t.own != nil {
		t.own.CloseIdleConnections()
	}
}

// Token returns a token that is good for at least half a minute, never an empty
// one. Its error is a [TokenError], or ctx's.
func (t *Tokens) Token(ctx context.Context) (string, error) {
	token, fresh := t.current()
	if fresh {
		return token, nil
	}
	done := t.flight.join(t.due, t.renew)
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
	if token, _ = t.current(); token != "" {
		return token, nil
	}
	return "", t.refusal()
}

// Invalidate forgets a token that the connector refused, so that the next one
// is a new one.
func (t *Tokens) Invalidate(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.token = ""
	}
}

// current returns the token while it lives, and whether that is long enough.
func (t *Tokens) current() (token string, fresh bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.token == "" || !now.Before(t.endsAt) {
		return "", false
	}
	return t.token, now.Before(t.renewAt)
}

func (t *Tokens) due() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	return !now.Before(t.retryAt) && (t.token == "" || !now.Before(t.renewAt))
}

func (t *Tokens) renew(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	g, err := t.fetch(ctx)
	if err == nil && !sendable(g.token) {
		err = &TokenError{Err: errors.New("the endpoint answered without a usable token")}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.fail(err)
		return
	}
	now := time.Now()
	t.token, t.failures, t.retryAt, t.err = g.token, 0, time.Time{}, nil
	t.renewAt = now.Add(g.life - min(tokenMargin, g.life/2))
	t.endsAt = now.Add(g.life - min(tokenSpare, g.life/2))
}

// fail sets the time of the next request: twice as far each time, with jitter,
// so that the replicas of a bot do not knock together.
func (t *Tokens) fail(err error) {
	pause := maxTokenPause
	if t.failures < 5 {
		pause = firstTokenPause << t.failures
	}
	t.failures++
	pause -= time.Duration(rand.Int64N(int64(pause) / 5))
	t.retryAt = time.Now().Add(pause)
	t.err = err
}

func (t *Tokens) refusal() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil {
		return &TokenError{Err: errors.New("tokens are closed")}
	}
	return t.err
}

// nextTry is how long the next request for a token is away.
func (t *Tokens) nextTry() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Until(t.retryAt)
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
