package connector

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/singleflight"
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
	fetching singleflight.Group

	mu       sync.Mutex
	keys     map[string]*signingKey
	loaded   time.Time // of keys
	stranger time.Time // last successful fetch for an unknown id
	tried    time.Time // last failed fetch; zero after a success
	failure  error
}

func newKeySet(c *http.Client, metadata *url.URL, now func() time.Time) *keySet {
	return &keySet{client: c, metadata: metadata, now: now}
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
		wait(ctx, s.fetch(s.mayFetch, false), staleWait)
		if key, _ = s.get(id); key == nil { // withdrawn by the issuer
			return nil, unauthorized("unknown signing key")
		}
	case age >= keyRefresh:
		s.fetch(s.mayFetch, false)
	}
	return key, nil
}

// findStranger looks for an id that is not among the keys, with a fetch where
// one is due.
func (s *keySet) findStranger(ctx context.Context, id string) (*signingKey, error) {
	ended := wait(ctx, s.fetch(s.mayFetchStranger, true), s.patience())
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

var errNoKeys = errors.New("no keys of the token issuer yet")

func (s *keySet) noKeys() error {
	if s.failure == nil {
		return errNoKeys
	}
	return fmt.Errorf("%w: %w", errNoKeys, s.failure)
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

// fetch replaces the keys if that is due. Who comes while a fetch is under way waits for
// that one. It outlives the request that began it.
func (s *keySet) fetch(due func() bool, forStranger bool) <-chan singleflight.Result {
	return s.fetching.DoChan("", func() (any, error) {
		if due() {
			s.load(forStranger)
		}
		return nil, nil
	})
}

// load replaces the keys, perhaps for the sake of an unknown id. The first load of all is
// not counted against later strangers: a rotation right after the start is picked up.
func (s *keySet) load(forStranger bool) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
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

// wait returns when the fetch or ctx ends or the time is up, and reports whether the fetch
// did.
func wait(ctx context.Context, done <-chan singleflight.Result, limit time.Duration) (ended bool) {
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

const (
	maxDocumentBytes = 1 << 20
	minKeyBits       = 2048
	maxKeyBits       = 8192
)

// signingKey is a key of the issuer and the channels it may speak for.
type signingKey struct {
	public       *rsa.PublicKey
	endorsements []string
	certificate  *x509.Certificate // nil: none that can be read
}

func (k *signingKey) endorses(channel string) bool {
	return channel != "" && slices.Contains(k.endorsements, channel)
}

// valid reports whether the key's certificate is, where it has one, with the skew of
// tokens.
func (k *signingKey) valid(now time.Time) bool {
	const skew = clockSkew * time.Second
	return k.certificate == nil || !now.Before(k.certificate.NotBefore.Add(-skew)) && !now.After(k.certificate.NotAfter.Add(skew))
}

// fetchKeys follows the metadata document to the issuer's keys. A set without a
// usable key is an error.
func fetchKeys(ctx context.Context, c *http.Client, metadata *url.URL) (map[string]*signingKey, error) {
	body, err := getDocument(ctx, c, metadata)
	if err != nil {
		return nil, fmt.Errorf("fetch openid metadata: %w", err)
	}
	var doc struct {
		KeysURL string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("read openid metadata: %w", err)
	}
	from, err := followedURL(metadata, doc.KeysURL)
	if err != nil {
		return nil, fmt.Errorf("read openid metadata: %w", err)
	}
	if body, err = getDocument(ctx, c, from); err != nil {
		return nil, fmt.Errorf("fetch signing keys: %w", err)
	}
	return readKeys(body)
}

func getDocument(ctx context.Context, c *http.Client, u *url.URL) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d", u.Host, res.StatusCode)
	}
	return readCapped(res.Body, maxDocumentBytes)
}

func readCapped(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("longer than %d bytes", limit)
	}
	return data, err
}

// readKeys keeps the RSA signing keys of a key set (RFC 7517) and skips every
// other, so that one odd key costs no good one. Of two keys with one id the
// first counts.
func readKeys(body []byte) (map[string]*signingKey, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("read signing keys: %w", err)
	}
	keys := make(map[string]*signingKey)
	for _, raw := range set.Keys {
		id, key := readKey(raw)
		if key != nil && keys[id] == nil {
			keys[id] = key
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("read signing keys: no usable key in the set")
	}
	return keys, nil
}

// readKey returns nil for a key that cannot verify RS256.
func readKey(raw jsontext.Value) (id string, key *signingKey) {
	var k struct {
		Type         string         `json:"kty"`
		ID           string         `json:"kid"`
		Use          string         `json:"use"`
		Algorithm    string         `json:"alg"`
		Modulus      string         `json:"n"`
		Exponent     string         `json:"e"`
		Endorsements []string       `json:"endorsements"`
		Certificates jsontext.Value `json:"x5c"`
	}
	if json.Unmarshal(raw, &k) != nil || k.Type != "RSA" || k.ID == "" {
		return "", nil
	}
	if k.Use != "" && k.Use != "sig" || k.Algorithm != "" && k.Algorithm != algorithm {
		return "", nil
	}
	n, e := bigEndian(k.Modulus), bigEndian(k.Exponent)
	if bits := n.BitLen(); bits < minKeyBits || bits > maxKeyBits || n.Bit(0) == 0 {
		return "", nil
	}
	if e.BitLen() > 31 || e.Int64() < 3 || e.Bit(0) == 0 {
		return "", nil
	}
	public := &rsa.PublicKey{N: n, E: int(e.Int64())}
	return k.ID, &signingKey{public: public, endorsements: k.Endorsements, certificate: firstCertificate(k.Certificates)}
}

// firstCertificate reads the key's own certificate of an x5c; nil when that cannot be
// read: the key itself was fetched from whom we trust, so the certificate adds no trust.
func firstCertificate(x5c jsontext.Value) *x509.Certificate {
	var chain [][]byte // base64, as JSON has it
	if json.Unmarshal(x5c, &chain) != nil || len(chain) == 0 {
		return nil
	}
	cert, err := x509.ParseCertificate(chain[0])
	if err != nil {
		return nil
	}
	return cert
}

// bigEndian reads a number of a key; what is no number is 0.
func bigEndian(s string) *big.Int {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return new(big.Int)
	}
	return new(big.Int).SetBytes(b)
}
