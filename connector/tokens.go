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
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/cenkalti/backoff/v5"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/sync/singleflight"
)

const (
	assertionLife = 10 * time.Minute // longer than a request takes, and too short to be worth stealing

	tokenTimeout = 10 * time.Second
	// tokenMargin is how long before expiry a token is renewed; a short-lived token is renewed at
	// half its life.
	tokenMargin      = 5 * time.Minute
	tokenSpare       = 30 * time.Second // how much life a token must have left to be sent
	defaultTokenLife = 10 * time.Minute // for endpoints that do not state a token's lifetime
	// replacePause is the minimum time between two replacements of tokens that the connector
	// refused.
	replacePause = time.Minute
)

// Credentials prove who the bot is. Set exactly one of Password, ManagedIdentity, CertificateFile,
// FederatedTokenFile and FederatedClientID. Printing Credentials shows no secret.
type Credentials struct {
	// Tenant is a single-tenant bot's tenant; "" is the cloud's, for a multi-tenant bot.
	Tenant string
	// Password is the client secret.
	Password string
	// ManagedIdentity selects a user-assigned managed identity whose client id is the app id.
	ManagedIdentity bool
	// CertificateFile contains a certificate with its RSA key, PEM or PKCS#12. CertificatePassword
	// opens PKCS#12. The file is read for each new token.
	CertificateFile, CertificatePassword string
	// FederatedTokenFile contains the token of a workload identity, such as a Kubernetes service
	// account's. It is read for each new token.
	FederatedTokenFile string
	// FederatedClientID is the client id of a user-assigned managed identity that the app's
	// registration trusts.
	FederatedClientID string
}

// String shows no secret.
func (c Credentials) String() string { return "credentials" }

// GoString is String.
func (c Credentials) GoString() string { return c.String() }

// newTokens returns the bot's tokens. It makes no request; get does.
func newTokens(cfg Config, in cloud, rt http.RoundTripper) (tokens, error) {
	login, err := trustedURL("login URL", in.LoginURL)
	if err = errors.Join(err, cfg.Credentials.check()); err != nil {
		return nil, err
	}
	fetches, err := cfg.Credentials.fetches(cfg.AppID, in, login.String(), rt)
	if err != nil {
		return nil, err
	}
	own := newKept(fetches(cmp.Or(cfg.Credentials.Tenant, in.Tenant), in.Scope))
	t := tokens{"": own}
	for _, app := range cfg.Callers.apps(cfg.AppID) {
		if t[app] = own; !strings.EqualFold(app, cfg.AppID) {
			t[app] = newKept(fetches(cfg.Callers.Tenant, app+"/.default"))
		}
	}
	return t, nil
}

// check allows only a GUID or a domain name as the tenant, because it becomes part of a path.
func (c Credentials) check() error {
	n := 0
	for _, set := range []bool{c.Password != "", c.ManagedIdentity, c.CertificateFile != "", c.FederatedTokenFile != "", c.FederatedClientID != ""} {
		if set {
			n++
		}
	}
	const all = "password, managed identity, certificate file, federated token file and federated client id"
	switch {
	case n != 1:
		return fmt.Errorf("%d of %s, want one", n, all)
	case c.Tenant != "" && !plainHost(normalHost(c.Tenant)):
		return errors.New("the tenant is neither a GUID nor a domain")
	case c.CertificatePassword != "" && c.CertificateFile == "":
		return errors.New("a certificate password without a certificate file")
	default:
		return nil
	}
}

// tokens keeps the bot's tokens: under "" the one for the channels, and one for each of the
// [Callers], by app id in lower case. Each is renewed at least five minutes early, by one request
// shared by all who want it. If a renewal fails, the old token stays in use while it lives. After a
// failed request the next one waits for up to 15 seconds; until then callers get the same error at
// once. Where new tokens are refused like the old ones, they are replaced once a minute. tokens may
// be used concurrently; the map never changes.
type tokens map[string]*kept

// get returns a token that is good for at least half a minute, or for half its life if that is
// shorter than a minute; never an empty one. It is the channels' token or, in a [ForCaller]
// context, that caller's. Its error is a [tokenError] or wraps [ErrBadCall].
func (t tokens) get(ctx context.Context) (string, error) {
	app := callerOf(ctx)
	if k := t[app]; k != nil {
		return k.get(ctx)
	}
	return "", fmt.Errorf("get bot token: %w: the calling bot is not allowed: %s", ErrBadCall, app)
}

// invalidate drops a token that the connector refused, so the next call gets a new one. It keeps a
// token for a while that has just replaced a refused one: a connector that refuses both would
// refuse more of them.
func (t tokens) invalidate(token string) {
	for _, k := range t {
		k.mu.Lock()
		if now := time.Now(); k.token == token && now.Sub(k.replacedAt) >= replacePause {
			k.token, k.renewAt, k.replacedAt = "", time.Time{}, now
		}
		k.mu.Unlock()
	}
}

// kept is one cached token.
type kept struct {
	fetch    fetch
	renewing singleflight.Group

	mu         sync.Mutex
	token      string
	endsAt     time.Time
	renewAt    time.Time // when to request the next one; after a failure, when to try again
	replacedAt time.Time // when it last replaced a refused one
	err        error     // of the last request
	backoff    backoff.ExponentialBackOff
}

func newKept(f fetch) *kept {
	return &kept{fetch: f, backoff: backoff.ExponentialBackOff{
		InitialInterval: 500 * time.Millisecond, Multiplier: 2, MaxInterval: 12 * time.Second,
		RandomizationFactor: 0.2, // so a bot's replicas do not ask together
	}}
}

// get returns the token, and waits for one if there is none.
func (k *kept) get(ctx context.Context) (string, error) {
	token, due, err := k.look()
	if !due {
		return token, err
	}
	renewed := k.renewing.DoChan("", func() (any, error) { return k.renew() })
	if token != "" {
		return token, nil // renewed in the background
	}
	select {
	case result := <-renewed:
		return result.Val.(string), result.Err
	case <-ctx.Done():
		return "", &tokenError{Err: ctx.Err()}
	}
}

// look returns the token while it lives, or why there is none, and whether to request a new one.
func (k *kept) look() (token string, due bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.token != "" && now.Before(k.endsAt) {
		return k.token, !now.Before(k.renewAt), nil
	}
	return "", !now.Before(k.renewAt), k.err
}

// renew requests a token if that is still due. It outlives the caller that started it.
func (k *kept) renew() (string, error) {
	if token, due, err := k.look(); !due {
		return token, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), tokenTimeout)
	defer cancel()
	t, err := k.fetch(ctx)
	switch {
	case err != nil:
	case !sendable(t.AccessToken):
		err = errors.New("the endpoint answered without a usable token")
	case lifeOf(t) < time.Second: // or every call would request one
		err = errors.New("the endpoint gave a token that has run out already: see the clock of this machine")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if err != nil {
		failure := new(tokenError)
		if !errors.As(err, &failure) {
			failure = &tokenError{Err: err}
		}
		k.renewAt = now.Add(k.backoff.NextBackOff())
		failure.retryAt = k.renewAt
		k.err = failure
		return "", failure
	}
	k.backoff.Reset()
	life := lifeOf(t)
	k.token, k.err = t.AccessToken, nil
	k.renewAt = now.Add(life - min(tokenMargin, life/2))
	k.endsAt = now.Add(life - min(tokenSpare, life/2))
	return k.token, nil
}

func lifeOf(t *oauth2.Token) time.Duration {
	if t.Expiry.IsZero() {
		return defaultTokenLife
	}
	return time.Until(t.Expiry)
}

// sendable reports whether the token can go into a header: not empty, visible ASCII only.
func sendable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// tokenError says why there is no token. It never contains a secret: of the endpoint's answer it
// keeps only the status and the codes.
type tokenError struct {
	Status int    // 0 if the endpoint was not reached
	Code   string // such as "invalid_client AADSTS7000215"
	Err    error

	retryAt time.Time // when the endpoint may be asked again
}

// Error says why there is no token.
func (e *tokenError) Error() string {
	text := "get bot token:"
	if e.Status != 0 {
		text += fmt.Sprintf(" status %d", e.Status)
	}
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Err != nil {
		text += " " + e.Err.Error()
	}
	return text
}

// refused reports whether the endpoint refused the bot itself (RFC 6749, section 5.2). What a proxy
// or its page answers is a temporary fault, and so are the endpoint's own errors.
func (e *tokenError) refused() bool {
	return e.Code != "" && (e.Status == http.StatusBadRequest || e.Status == http.StatusUnauthorized)
}

// Unwrap returns the transport's error, or nil.
func (e *tokenError) Unwrap() error { return e.Err }

// fetch requests a new token.
type fetch func(context.Context) (*oauth2.Token, error)

// fetches returns a function that makes the fetch for a tenant and a scope.
func (c Credentials) fetches(appID string, in cloud, login string, rt http.RoundTripper) (func(tenant, scope string) fetch, error) {
	if c.ManagedIdentity {
		identity, err := newManagedIdentity(appID, rt)
		return func(_, scope string) fetch {
			return func(ctx context.Context) (*oauth2.Token, error) { return identity(ctx, scope) }
		}, err
	}
	assert, err := c.assertions(appID, in, rt)
	client := noRedirects(jsonOnly{rt})
	return func(tenant, scope string) fetch {
		endpoint := login + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token"
		return func(ctx context.Context) (*oauth2.Token, error) {
			cfg := clientcredentials.Config{
				ClientID: appID, ClientSecret: c.Password, TokenURL: endpoint, Scopes: []string{scope}, AuthStyle: oauth2.AuthStyleInParams,
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
				return nil, &tokenError{Status: refused.Response.StatusCode, Code: oauthCode(refused)}
			case err == nil && t.Type() != "Bearer":
				return nil, errors.New("the endpoint answered without a bearer token")
			}
			return t, err
		}
	}, err
}

// jsonOnly makes every answer parse as JSON, which is what Entra writes. oauth2 parses a form if a
// proxy calls it plain text.
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

// oauthCode keeps a refusal's codes and drops its prose, which repeats what was sent.
func oauthCode(e *oauth2.RetrieveError) string {
	return strings.TrimSpace(oauthError.FindString(e.ErrorCode) + " " + entraError.FindString(e.ErrorDescription))
}

// assertions returns a function that proves the app to an endpoint with a signed statement; nil if
// the password does that. It reads a file now to find out whether it is usable, and again for each
// statement, so a renewed one needs no restart.
func (c Credentials) assertions(appID string, in cloud, rt http.RoundTripper) (func(ctx context.Context, endpoint string) (string, error), error) {
	var assert func(ctx context.Context, endpoint string) (string, error)
	switch {
	case c.CertificateFile != "":
		assert = func(_ context.Context, endpoint string) (string, error) { return c.certified(appID, endpoint) }
	case c.FederatedTokenFile != "":
		assert = func(context.Context, string) (string, error) { return c.federated() }
	case c.FederatedClientID != "":
		identity, err := newManagedIdentity(c.FederatedClientID, rt)
		return func(ctx context.Context, _ string) (string, error) {
			t, err := identity(ctx, in.ExchangeScope)
			if err != nil {
				return "", err
			}
			return t.AccessToken, nil
		}, err
	default:
		return nil, nil
	}
	_, err := assert(context.Background(), in.LoginURL)
	return assert, err
}

// newManagedIdentity returns a function that requests tokens of the machine's identity. azidentity
// knows how to ask each hosting service.
func newManagedIdentity(clientID string, rt http.RoundTripper) (func(ctx context.Context, scope string) (*oauth2.Token, error), error) {
	credential, err := azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
		ClientOptions: policy.ClientOptions{Transport: noRedirects(rt)}, ID: azidentity.ClientID(clientID),
	})
	return func(ctx context.Context, scope string) (*oauth2.Token, error) {
		// Claims make azidentity request a token. Without them it returns its process-wide cached
		// one until that has five minutes left, even if it was just refused. Managed identities
		// take no claims, so these go nowhere.
		t, err := credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}, Claims: "{}"})
		if err == nil {
			return &oauth2.Token{AccessToken: t.Token, Expiry: t.ExpiresOn}, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		// azidentity's error text quotes the endpoint's whole answer.
		e := &tokenError{Code: "the managed identity gives none"}
		if failed := new(azidentity.AuthenticationFailedError); errors.As(err, &failed) && failed.RawResponse != nil {
			e.Status = failed.RawResponse.StatusCode
		}
		return nil, e
	}, err
}

func (c Credentials) federated() (string, error) {
	raw, err := readProof(c.FederatedTokenFile)
	if err != nil {
		return "", fmt.Errorf("federated token file: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if strings.Count(token, ".") != 2 || !sendable(token) {
		return "", errors.New("federated token file: what it holds is no signed token")
	}
	return token, nil
}

// certified returns what Entra wants from an app with a certificate
// (https://learn.microsoft.com/entra/identity-platform/certificate-credentials). It includes the
// chain for registrations that trust an issuer's subjects. Its errors quote nothing of the file.
func (c Credentials) certified(appID, endpoint string) (string, error) {
	raw, err := readProof(c.CertificateFile)
	if err != nil {
		return "", fmt.Errorf("certificate file: %w", err)
	}
	certs, private, err := azidentity.ParseCertificates(raw, []byte(c.CertificatePassword))
	if err != nil {
		return "", errors.New("certificate file: it holds no certificate and private key that can be read with this password, or without one")
	}
	key, ok := private.(*rsa.PrivateKey)
	if !ok {
		return "", errors.New("certificate file: the private key is not RSA")
	}
	own := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return key.PublicKey.Equal(c.PublicKey) })
	if own < 0 {
		return "", errors.New("certificate file: the private key belongs to none of the certificates")
	}
	certs[0], certs[own] = certs[own], certs[0]
	var chain []string
	for _, cert := range certs {
		chain = append(chain, base64.StdEncoding.EncodeToString(cert.Raw))
	}
	now, thumbprint := time.Now(), sha256.Sum256(certs[0].Raw)
	token := jwt.NewWithClaims(jwt.SigningMethodPS256, jwt.MapClaims{
		"aud": endpoint, "iss": appID, "sub": appID, "jti": rand.Text(),
		"nbf": now.Unix(), "exp": now.Add(assertionLife).Unix(),
	})
	token.Header["x5t#S256"], token.Header["x5c"] = base64.RawURLEncoding.EncodeToString(thumbprint[:]), chain
	signed, err := token.SignedString(key)
	if err != nil {
		return "", fmt.Errorf("sign with the certificate's key: %w", err)
	}
	return signed, nil
}

// readProof reads a regular file; any other kind may block its reader forever.
func readProof(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return os.ReadFile(name)
}
