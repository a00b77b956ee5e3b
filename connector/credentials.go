package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
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
	grants, err := id.grants(in, login, rt)
	if err != nil {
		return nil, fmt.Errorf("tokens config: %w", err)
	}
	t := &Tokens{own: newKept(grants(cmp.Or(id.Tenant, in.Tenant), in.Scope)), callers: map[string]*kept{}, transport: own}
	for _, app := range id.Callers.apps(id.AppID) {
		if t.callers[app] = t.own; !sameID(app, id.AppID) {
			t.callers[app] = newKept(grants(id.Callers.Tenant, app+"/.default"))
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

// grants returns what makes the request for a tenant and a scope.
func (c Credentials) grants(in Cloud, login *url.URL, rt http.RoundTripper) (func(tenant, scope string) fetch, error) {
	if c.ManagedIdentity {
		identity, err := newManagedIdentity(c.AppID, rt)
		return func(_, scope string) fetch {
			return func(ctx context.Context) (grant, error) { return identity.fetch(ctx, scope) }
		}, err
	}
	prove, err := c.proof(in, rt)
	return func(tenant, scope string) fetch {
		form := url.Values{"grant_type": {"client_credentials"}, "client_id": {c.AppID}, "scope": {scope}}
		return newClientGrant(rt, login, tenant, form, prove).fetch
	}, err
}

// proof is that of the credential which is set.
func (c Credentials) proof(in Cloud, rt http.RoundTripper) (proof, error) {
	switch {
	case c.CertificateFile != "":
		_, err := readCertificate(c.CertificateFile, c.CertificatePassword)
		return assertion(func(_ context.Context, endpoint string) (string, error) {
			cert, err := readCertificate(c.CertificateFile, c.CertificatePassword)
			if err != nil {
				return "", err
			}
			return cert.assertion(c.AppID, endpoint)
		}), err
	case c.FederatedTokenFile != "":
		_, err := federatedToken(c.FederatedTokenFile)
		return assertion(func(context.Context, string) (string, error) { return federatedToken(c.FederatedTokenFile) }), err
	case c.FederatedClientID != "":
		identity, err := newManagedIdentity(c.FederatedClientID, rt)
		return assertion(func(ctx context.Context, _ string) (string, error) {
			g, err := identity.fetch(ctx, in.ExchangeScope)
			return g.token, err
		}), err
	default:
		return password(c.Password), nil
	}
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
