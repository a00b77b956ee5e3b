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
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

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
