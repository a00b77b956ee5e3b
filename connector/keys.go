package connector

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"
)

const (
	fetchTimeout = 10 * time.Second
	// keyTTL is how long keys are good without a look at the issuer; from
	// keyRefresh on they are renewed behind the requests that use them.
	keyTTL     = 24 * time.Hour
	keyRefresh = 23 * time.Hour
	// fetchPause lies between two fetches when the first one failed.
	fetchPause = 2 * time.Second
	// strangerPause lies between two successful fetches made for the sake of an
	// unknown key id: anybody can invent ids.
	strangerPause = 5 * time.Minute
	// staleWait is how long a request waits for newer keys when there are old ones:
	// anybody can invent key ids, and hold a connection with each.
	staleWait = time.Second
)

// keySet keeps the issuer's keys. Keys stay in use until a fetched set with a
// usable key replaces them, however long the issuer is away.
type keySet struct {
	client   *http.Client
	metadata *url.URL
	now      func() time.Time
	flight   *flight

	mu       sync.Mutex
	keys     map[string]*signingKey
	loaded   time.Time // of keys
	stranger time.Time // last successful fetch for an unknown id
	tried    time.Time // last failed fetch; zero after a success
	failure  error
}

func newKeySet(c *http.Client, metadata *url.URL, now func() time.Time) *keySet {
	return &keySet{client: c, metadata: metadata, now: now, flight: newFlight()}
}

// find returns the key with that id. Its error is an [AuthError]: 503 when no
// key was ever loaded or the id may be among those that are being fetched, 401 when
// it is unknown.
func (s *keySet) find(ctx context.Context, id string) (*signingKey, error) {
	key, age := s.get(id)
	switch {
	case key == nil:
		return s.findStranger(ctx, id)
	case age >= keyTTL:
		wait(ctx, s.flight.join(s.mayFetch, s.fetch), staleWait)
		if key, _ = s.get(id); key == nil { // withdrawn by the issuer
			return nil, unauthorized("unknown signing key")
		}
	case age >= keyRefresh:
		s.flight.join(s.mayFetch, s.fetch)
	}
	return key, nil
}

// findStranger looks for an id that is not among the keys, with a fetch where
// one is due.
func (s *keySet) findStranger(ctx context.Context, id string) (*signingKey, error) {
	ended := wait(ctx, s.flight.join(s.mayFetchStranger, s.fetchStranger), s.patience())
	s.mu.Lock()
	defer s.mu.Unlock()
	if key := s.keys[id]; key != nil {
		return key, nil
	}
	if s.keys == nil {
		return nil, &AuthError{Status: http.StatusServiceUnavailable, Reason: "cannot judge the token", Err: s.noKeys()}
	}
	if !ended { // after a rotation, it may well be among them
		return nil, &AuthError{Status: http.StatusServiceUnavailable, Reason: "cannot judge the token yet: newer keys are being fetched"}
	}
	return nil, unauthorized("unknown signing key")
}

// patience is how long a token with an unknown key id may hold its connection.
func (s *keySet) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		return fetchTimeout
	}
	return staleWait
}

func (s *keySet) noKeys() error {
	if s.failure == nil {
		return ErrNoKeys
	}
	return fmt.Errorf("%w: %w", ErrNoKeys, s.failure)
}

func (s *keySet) get(id string) (key *signingKey, age time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[id], s.now().Sub(s.loaded)
}

// mayFetch keeps failed fetches apart, and asks again whether the keys are old:
// a fetch may have ended since the caller looked.
func (s *keySet) mayFetch() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rested() && s.now().Sub(s.loaded) >= keyRefresh
}

func (s *keySet) mayFetchStranger() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		return s.rested()
	}
	return s.rested() && (s.stranger.IsZero() || s.now().Sub(s.stranger) >= strangerPause)
}

func (s *keySet) rested() bool {
	return s.tried.IsZero() || s.now().Sub(s.tried) >= fetchPause
}

// fetch replaces the keys.
func (s *keySet) fetch(ctx context.Context) { s.load(ctx, false) }

// fetchStranger replaces the keys for the sake of an unknown id. The first load
// of all is not counted against later strangers: a rotation right after the
// start is picked up.
func (s *keySet) fetchStranger(ctx context.Context) { s.load(ctx, true) }

func (s *keySet) load(ctx context.Context, forStranger bool) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	keys, err := fetchKeys(ctx, s.client, s.metadata)

	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if err != nil {
		s.tried, s.failure = now, err
		return
	}
	if forStranger && s.keys != nil {
		s.stranger = now
	}
	s.keys, s.loaded = keys, now
	s.tried, s.failure = time.Time{}, nil
}

// wait returns when done is closed, ctx ends or the time is up, and reports whether
// done is closed; a nil done is nothing to wait for.
func wait(ctx context.Context, done <-chan struct{}, limit time.Duration) (ended bool) {
	if done == nil {
		return true
	}
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-t.C:
	}
	return false
}
