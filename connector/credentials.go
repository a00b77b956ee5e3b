package connector

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

const (
	// assertionLife is more than a request takes, and little for a thief.
	assertionLife = 10 * time.Minute
	maxProofBytes = 1 << 20
)

// Credentials are how the bot proves who it is. Exactly one of Password,
// ManagedIdentity, CertificateFile, FederatedTokenFile and FederatedClientID is set.
// Printing Credentials shows no secret.
type Credentials struct {
	AppID string
	// Tenant of a single-tenant bot; "" is the cloud's, for a multi-tenant one.
	Tenant string
	// Password is the client secret.
	Password string
	// ManagedIdentity is true for a user-assigned managed identity, whose client
	// id is AppID.
	ManagedIdentity bool
	// CertificateFile holds a certificate with its RSA key, PEM or PKCS#12, and
	// CertificatePassword opens PKCS#12. It is read for each new token.
	CertificateFile, CertificatePassword string
	// FederatedTokenFile holds the token of a workload identity, such as a
	// Kubernetes service account's. It is read for each new token.
	FederatedTokenFile string
	// FederatedClientID is the client id of a user-assigned managed identity that the
	// app's registration trusts.
	FederatedClientID string
	// Callers are answered with tokens that are made for them, and good for nothing else.
	Callers Callers
}

// String names the app, not the secret.
func (c Credentials) String() string { return "credentials of app " + c.AppID }

// GoString is String.
func (c Credentials) GoString() string { return c.String() }

// NewTokens returns the tokens of the bot in its cloud. rt carries the requests;
// nil is an own transport. Nothing is requested before the first Token; files are
// looked at, so that one that is no use is an error now.
func NewTokens(in Cloud, id Credentials, rt http.RoundTripper) (*Tokens, error) {
	login, err := trustedURL("login URL", in.LoginURL)
	if err = errors.Join(err, id.check(), checkTenant(id.Tenant), id.Callers.check(id.AppID)); err != nil {
		return nil, fmt.Errorf("tokens config: %w", err)
	}
	var own *http.Transport
	if rt == nil {
		own = trustedTransport()
		rt = own
	}
	fetches, err := id.fetches(in, login, rt)
	if err != nil {
		return nil, fmt.Errorf("tokens config: %w", err)
	}
	t := &Tokens{own: newKept(fetches(cmp.Or(id.Tenant, in.Tenant), in.Scope)), callers: map[string]*kept{}, transport: own}
	for _, app := range id.Callers.apps(id.AppID) {
		if t.callers[app] = t.own; !sameID(app, id.AppID) {
			t.callers[app] = newKept(fetches(id.Callers.Tenant, app+"/.default"))
		}
	}
	return t, nil
}

// CheckCertificate returns an error when the certificate in CertificateFile cannot be read
// or is not valid at that time. Without a file it returns nil. [NewTokens] takes such a
// certificate all the same: clocks differ, and it may be renewed.
func (c Credentials) CheckCertificate(now time.Time) error {
	if c.CertificateFile == "" {
		return nil
	}
	cert, err := readCertificate(c.CertificateFile, c.CertificatePassword)
	if err != nil {
		return err
	}
	own := cert.chain[0]
	switch {
	case now.After(own.NotAfter):
		return fmt.Errorf("certificate file: the certificate ran out on %s", own.NotAfter.Format(time.DateOnly))
	case now.Before(own.NotBefore):
		return fmt.Errorf("certificate file: the certificate is not valid before %s", own.NotBefore.Format(time.DateOnly))
	}
	return nil
}

func (c Credentials) check() error {
	n := 0
	for _, set := range []bool{c.Password != "", c.ManagedIdentity, c.CertificateFile != "", c.FederatedTokenFile != "", c.FederatedClientID != ""} {
		if set {
			n++
		}
	}
	const all = "password, managed identity, certificate file, federated token file and federated client id"
	switch {
	case c.AppID == "":
		return errors.New("no AppID")
	case n != 1:
		return fmt.Errorf("%d of %s, want one", n, all)
	case c.CertificatePassword != "" && c.CertificateFile == "":
		return errors.New("a certificate password without a certificate file")
	default:
		return nil
	}
}

// checkTenant allows a GUID or a domain name: the tenant becomes a part of a path.
func checkTenant(tenant string) error {
	if tenant != "" && !plainHost(normalHost(tenant)) {
		return errors.New("the tenant is neither a GUID nor a domain")
	}
	return nil
}

// fetch asks for a new token.
type fetch func(context.Context) (*oauth2.Token, error)

// fetches returns what asks for tokens of a tenant and a scope.
func (c Credentials) fetches(in Cloud, login *url.URL, rt http.RoundTripper) (func(tenant, scope string) fetch, error) {
	if c.ManagedIdentity {
		identity, err := newManagedIdentity(c.AppID, rt)
		return func(_, scope string) fetch {
			return func(ctx context.Context) (*oauth2.Token, error) { return identity.token(ctx, scope) }
		}, err
	}
	assert, err := c.assertions(in, rt)
	client := noRedirects(jsonOnly{rt})
	return func(tenant, scope string) fetch {
		endpoint := strings.TrimSuffix(login.String(), "/") + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token"
		return func(ctx context.Context) (*oauth2.Token, error) {
			cfg := clientcredentials.Config{
				ClientID: c.AppID, ClientSecret: c.Password, TokenURL: endpoint, Scopes: []string{scope}, AuthStyle: oauth2.AuthStyleInParams,
			}
			if assert != nil {
				signed, err := assert(ctx, endpoint)
				if err != nil {
					return nil, err
				}
				cfg.EndpointParams = url.Values{ // RFC 7523, section 2.2
					"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
					"client_assertion":      {signed},
				}
			}
			t, err := cfg.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
			switch refused := new(oauth2.RetrieveError); {
			case errors.As(err, &refused):
				return nil, &TokenError{Status: refused.Response.StatusCode, Code: oauthCode(refused)}
			case err == nil && t.Type() != "Bearer":
				return nil, errors.New("the endpoint answered without a bearer token")
			}
			return t, err
		}
	}, err
}

// jsonOnly has every answer read as JSON, which is what Entra writes. oauth2 reads a form
// where a proxy says that it is plain text.
type jsonOnly struct{ http.RoundTripper }

func (j jsonOnly) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := j.RoundTripper.RoundTrip(r)
	if err == nil {
		res.Header.Set("Content-Type", "application/json")
	}
	return res, err
}

var (
	oauthError = regexp.MustCompile(`^[a-z_]{1,64}$`)
	entraError = regexp.MustCompile(`AADSTS[0-9]{1,12}`)
)

// oauthCode keeps the codes of a refusal and drops its prose, which repeats what was sent.
func oauthCode(e *oauth2.RetrieveError) string {
	return strings.TrimSpace(oauthError.FindString(e.ErrorCode) + " " + entraError.FindString(e.ErrorDescription))
}

// assertions returns what proves the app to an endpoint with a signed statement; nil when
// the password does.
func (c Credentials) assertions(in Cloud, rt http.RoundTripper) (func(ctx context.Context, endpoint string) (string, error), error) {
	switch {
	case c.CertificateFile != "":
		_, err := readCertificate(c.CertificateFile, c.CertificatePassword)
		return func(_ context.Context, endpoint string) (string, error) {
			cert, err := readCertificate(c.CertificateFile, c.CertificatePassword)
			if err != nil {
				return "", err
			}
			return cert.assertion(c.AppID, endpoint)
		}, err
	case c.FederatedTokenFile != "":
		_, err := federatedToken(c.FederatedTokenFile)
		return func(context.Context, string) (string, error) { return federatedToken(c.FederatedTokenFile) }, err
	case c.FederatedClientID != "":
		identity, err := newManagedIdentity(c.FederatedClientID, rt)
		return func(ctx context.Context, _ string) (string, error) {
			t, err := identity.token(ctx, in.ExchangeScope)
			if err != nil {
				return "", err
			}
			return t.AccessToken, nil
		}, err
	default:
		return nil, nil
	}
}

// managedIdentity is the identity of the machine, which azidentity asks for in the way
// of the service that the machine is part of.
type managedIdentity struct {
	credential *azidentity.ManagedIdentityCredential
}

func newManagedIdentity(clientID string, rt http.RoundTripper) (managedIdentity, error) {
	credential, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
		ClientOptions: policy.ClientOptions{Transport: noRedirects(rt)}, ID: azidentity.ClientID(clientID),
	})
	return managedIdentity{credential}, err
}

// anew makes azidentity ask for a token. Without claims it hands back the one that it
// keeps for the whole process until that has five minutes left, also when it has just been
// refused. Managed identities take no claims, so that these go nowhere.
const anew = "{}"

func (m managedIdentity) token(ctx context.Context, scope string) (*oauth2.Token, error) {
	t, err := m.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}, Claims: anew})
	if err == nil {
		return &oauth2.Token{AccessToken: t.Token, Expiry: t.ExpiresOn}, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// The text of azidentity's errors quotes the endpoint's whole answer.
	e := &TokenError{Code: "the managed identity gives none"}
	if failed := new(azidentity.AuthenticationFailedError); errors.As(err, &failed) && failed.RawResponse != nil {
		e.Status = failed.RawResponse.StatusCode
	}
	return nil, e
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
