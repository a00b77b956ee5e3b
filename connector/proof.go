package connector

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/golang-jwt/jwt/v5"
)

const (
	// assertionLife is more than a request takes, and little for a thief.
	assertionLife = 10 * time.Minute
	maxProofBytes = 1 << 20
)

// password proves the app with a client secret.
func password(secret string) proof {
	return func(context.Context, string) (url.Values, error) {
		return url.Values{"client_secret": {secret}}, nil
	}
}

// assertion proves the app with a signed statement (RFC 7523, section 2.2).
func assertion(of func(ctx context.Context, endpoint string) (string, error)) proof {
	return func(ctx context.Context, endpoint string) (url.Values, error) {
		signed, err := of(ctx, endpoint)
		if known := new(TokenError); err != nil && !errors.As(err, &known) {
			err = &TokenError{Err: err}
		}
		return url.Values{
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			"client_assertion":      {signed},
		}, err
	}
}

// federatedToken is the token in the file, as it is now: who issues it replaces it.
func federatedToken(file string) (string, error) {
	raw, err := readProof(file)
	if err != nil {
		return "", fmt.Errorf("federated token file: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if !threeParts(token) {
		return "", errors.New("federated token file: what it holds is no signed token")
	}
	return token, nil
}

// certificate is a certificate for the app's registration, with its key.
type certificate struct {
	key   *rsa.PrivateKey
	chain []*x509.Certificate // the key's own first
}

// readCertificate reads the file as it is now, so that a renewed certificate needs
// no restart. Its errors quote nothing of the file.
func readCertificate(file, password string) (certificate, error) {
	raw, err := readProof(file)
	if err != nil {
		return certificate{}, fmt.Errorf("certificate file: %w", err)
	}
	certs, private, err := azidentity.ParseCertificates(raw, []byte(password))
	if err != nil {
		return certificate{}, errors.New("certificate file: it holds no certificate and private key that can be read with this password, or without one")
	}
	key, ok := private.(*rsa.PrivateKey)
	if !ok {
		return certificate{}, errors.New("certificate file: the private key is not RSA")
	}
	own := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return key.PublicKey.Equal(c.PublicKey) })
	if own < 0 {
		return certificate{}, errors.New("certificate file: the private key belongs to none of the certificates")
	}
	certs[0], certs[own] = certs[own], certs[0]
	return certificate{key, certs}, nil
}

// assertion is what Entra wants of an app with a certificate
// (https://learn.microsoft.com/entra/identity-platform/certificate-credentials). The
// chain goes along for registrations that trust an issuer's subjects.
func (c certificate) assertion(appID, endpoint string) (string, error) {
	now := time.Now()
	token := jwt.NewWithClaims(jwt.SigningMethodPS256, jwt.MapClaims{
		"aud": endpoint, "iss": appID, "sub": appID, "jti": rand.Text(),
		"nbf": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	})
	thumbprint := sha256.Sum256(c.chain[0].Raw)
	token.Header["x5t#S256"] = base64.RawURLEncoding.EncodeToString(thumbprint[:])
	var chain []string
	for _, cert := range c.chain {
		chain = append(chain, base64.StdEncoding.EncodeToString(cert.Raw))
	}
	token.Header["x5c"] = chain
	signed, err := token.SignedString(c.key)
	if err != nil {
		return "", fmt.Errorf("sign with the certificate's key: %w", err)
	}
	return signed, nil
}

// readProof reads a regular file: another may keep its reader waiting for ever.
func readProof(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	return readCapped(f, maxProofBytes)
}
