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
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/singleflight"
)

const (
	fetchTimeout = 10 * time.Second
	keyTTL       = 24 * time.Hour  // how long keys are used before they are fetched again
	fetchPause   = 2 * time.Second // the minimum time between two fetches after a failed one
	// unknownPause is the minimum time between two successful fetches for an unknown key id:
	// anybody can invent ids.
	unknownPause = 5 * time.Minute
	// staleWait is how long a request waits for newer keys when there are old ones: anybody can
	// invent key ids and tie up a connection with each.
	staleWait = time.Second

	maxDocumentBytes = 1 << 20
	minKeyBits       = 2048
	maxKeyBits       = 8192
)

var errNoKeys = errors.New("cannot check the token: no keys of the token issuer yet")

// keySet caches the issuer's keys. Keys stay in use until a fetched set with a usable key replaces
// them, however long the issuer is down.
type keySet struct {
	guard    *Guard // its transport and clock
	metadata *url.URL
	fetching singleflight.Group

	mu         sync.Mutex
	keys       map[string]*signingKey
	loaded     time.Time // of keys
	forUnknown time.Time // last successful fetch for an unknown id
	tried      time.Time // last failed fetch; zero after a success
	failure    error
}

// signingKey is an issuer's key and the channels it is endorsed for.
type signingKey struct {
	public       *rsa.PublicKey
	endorsements []string
	certificate  *x509.Certificate // nil: none, or unreadable
}

// valid reports whether the key's certificate is valid, if it has one.
func (k *signingKey) valid(now time.Time) bool {
	return k.certificate == nil || !now.Before(k.certificate.NotBefore.Add(-clockSkew)) && !now.After(k.certificate.NotAfter.Add(clockSkew))
}

// find returns the key with that id. It first refreshes keys that are due, as far as that is quick.
// The error is an [AuthError]: 503 if no key was ever loaded or the id may be among those being
// fetched, 401 if it is unknown.
func (s *keySet) find(ctx context.Context, id string) (*signingKey, error) {
	s.mu.Lock()
	key, limit := s.keys[id], staleWait
	if s.keys == nil {
		limit = fetchTimeout
	}
	fresh := s.guard.now().Sub(s.loaded) < keyTTL
	s.mu.Unlock()
	if key != nil && fresh {
		return key, nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ended := false
	select { // concurrent callers share one fetch
	case <-s.fetching.DoChan("", func() (any, error) { s.load(id); return nil, nil }):
		ended = true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key = s.keys[id]
	switch {
	case key != nil:
		return key, nil
	case s.keys == nil:
		err := errNoKeys
		if s.failure != nil {
			err = fmt.Errorf("%w: %w", err, s.failure)
		}
		return nil, &AuthError{http.StatusServiceUnavailable, err}
	case !ended: // after a rotation, the key may be among them
		return nil, &AuthError{http.StatusServiceUnavailable, errors.New("cannot check the token yet: newer keys are being fetched")}
	default:
		return nil, unauthorized("unknown signing key")
	}
}

// load replaces the keys if that is due for a caller who looks for that id. It spaces out fetches after a failure, and fetches for an
// unknown id. The very first fetch does not count as one for an unknown id, so a rotation right
// after start is picked up. load outlives the request that started it.
func (s *keySet) load(id string) {
	s.mu.Lock()
	now, first := s.guard.now(), s.keys == nil
	unknown := s.keys[id] == nil // a fetch that has just ended may have brought it
	due := first || now.Sub(s.loaded) >= keyTTL || unknown && now.Sub(s.forUnknown) >= unknownPause
	due = due && now.Sub(s.tried) >= fetchPause
	s.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	keys, err := fetchKeys(ctx, noRedirects(s.guard.transport), s.metadata)

	s.mu.Lock()
	defer s.mu.Unlock()
	now = s.guard.now()
	if err != nil {
		s.tried, s.failure = now, err
		return
	}
	if unknown && !first {
		s.forUnknown = now
	}
	s.keys, s.loaded, s.tried, s.failure = keys, now, time.Time{}, nil
}

// fetchKeys follows the metadata document to the issuer's keys. A set without a usable key
// is an error.
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

var errTooLong = errors.New("too long")

func readCapped(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", errTooLong, limit)
	}
	return data, err
}

// followedURL checks a metadata document's jwks_uri. It must be https on the metadata's domain or,
// if the metadata is http on loopback, http on the very same host and port.
func followedURL(from *url.URL, raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil {
		return nil, errors.New("jwks_uri is no URL with a host")
	}
	switch {
	case u.Scheme == "http" && from.Scheme == "http" && strings.EqualFold(u.Host, from.Host):
		return u, nil
	case u.Scheme != "https":
		return nil, errors.New("jwks_uri is not https")
	case !slices.Contains([]string{"", "443", from.Port()}, u.Port()):
		return nil, errors.New("jwks_uri has an odd port")
	case !sameDomain(from, strings.ToLower(u.Hostname())):
		return nil, errors.New("jwks_uri is not on the metadata's domain")
	default:
		return u, nil
	}
}

// sameDomain reports whether host is the operator's host, or one beside or below it in the same
// domain, and so equally trusted.
func sameDomain(u *url.URL, host string) bool {
	own := u.Hostname()
	if own == host || isAddress(own) || isAddress(host) {
		return own == host
	}
	if _, parent, _ := strings.Cut(own, "."); strings.Contains(parent, ".") {
		own = parent
	}
	return below([]string{own}, host)
}

// readKeys keeps the RSA signing keys of a key set (RFC 7517) and skips the rest, so one odd key
// does not spoil the good ones. If two keys share an id, the first counts.
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
	key = &signingKey{public: &rsa.PublicKey{N: n, E: int(e.Int64())}, endorsements: k.Endorsements}
	// The keys come from a trusted issuer, so a key's own certificate adds no trust. An unreadable
	// one counts as none.
	var chain [][]byte // base64 in JSON
	if json.Unmarshal(k.Certificates, &chain) == nil && len(chain) > 0 {
		if cert, err := x509.ParseCertificate(chain[0]); err == nil {
			key.certificate = cert
		}
	}
	return k.ID, key
}

// bigEndian decodes a key's number; an invalid one is 0.
func bigEndian(s string) *big.Int {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return new(big.Int)
	}
	return new(big.Int).SetBytes(b)
}
