package connector

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// Credentials are how the bot proves who it is. Exactly one of Password,
// ManagedIdentity, Certificate and FederatedTokenFile is set. Printing
// Credentials shows no secret.
type Credentials struct {
	AppID string
	// Tenant of a single-tenant bot; "" is the cloud's, for a multi-tenant one.
	Tenant string
	// Password is the client secret.
	Password string
	// ManagedIdentity is true for a user-assigned managed identity, whose client
	// id is AppID.
	ManagedIdentity bool
	// Certificate is a certificate with its private key, PEM or PKCS#12.
	Certificate []byte
	// FederatedTokenFile holds the token of a workload identity, such as a
	// Kubernetes service account's.
	FederatedTokenFile string
}

// String names the app, not the secret.
func (c Credentials) String() string { return "credentials of app " + c.AppID }

// GoString is String.
func (c Credentials) GoString() string { return c.String() }

// NewTokens returns the tokens of the bot in its cloud. rt carries the requests;
// nil is an own transport. Nothing is requested before the first Token.
func NewTokens(in Cloud, id Credentials, rt http.RoundTripper) (*Tokens, error) {
	login, err := trustedURL("login URL", in.LoginURL)
	if err = errors.Join(err, id.check(), checkTenant(id.Tenant)); err != nil {
		return nil, fmt.Errorf("tokens config: %w", err)
	}
	var own *http.Transport
	if rt == nil {
		own = trustedTransport()
		rt = own
	}
	fetch, err := id.grants(in, login, rt)
	if err != nil {
		return nil, fmt.Errorf("tokens config: %w", err)
	}
	t := newTokens(fetch)
	t.own = own
	return t, nil
}

// grants returns what asks for a token with these credentials.
func (c Credentials) grants(in Cloud, login *url.URL, rt http.RoundTripper) (func(context.Context) (grant, error), error) {
	tenant := cmp.Or(c.Tenant, in.Tenant)
	if c.Password != "" {
		return newSecretGrant(rt, login, tenant, c, in.Scope).fetch, nil
	}
	credential, err := c.azure(login, tenant, rt)
	if err != nil {
		return nil, err
	}
	return azureGrant{credential, in.Scope}.fetch, nil
}

func (c Credentials) check() error {
	n := 0
	for _, set := range []bool{c.Password != "", c.ManagedIdentity, len(c.Certificate) > 0, c.FederatedTokenFile != ""} {
		if set {
			n++
		}
	}
	switch {
	case c.AppID == "":
		return errors.New("no AppID")
	case n == 0:
		return errors.New("no password, managed identity, certificate or federated token file")
	case n > 1:
		return errors.New("more than one of password, managed identity, certificate and federated token file")
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

// azure returns the credential types that azidentity implements better than a
// few lines here could.
func (c Credentials) azure(login *url.URL, tenant string, rt http.RoundTripper) (azcore.TokenCredential, error) {
	options := policy.ClientOptions{
		Cloud:     cloud.Configuration{ActiveDirectoryAuthorityHost: login.String()},
		Transport: noRedirects(rt),
	}
	switch {
	case c.ManagedIdentity:
		return azidentity.NewManagedIdentityCredential(&azidentity.ManagedIdentityCredentialOptions{
			ClientOptions: options, ID: azidentity.ClientID(c.AppID),
		})
	case c.FederatedTokenFile != "":
		return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
			ClientOptions: options, ClientID: c.AppID, TenantID: tenant, TokenFilePath: c.FederatedTokenFile,
			DisableInstanceDiscovery: true, // the operator chose the login URL
		})
	default:
		certs, key, err := c.certificate()
		if err != nil {
			return nil, err
		}
		return azidentity.NewClientCertificateCredential(tenant, c.AppID, certs, key, &azidentity.ClientCertificateCredentialOptions{
			ClientOptions: options, SendCertificateChain: true, DisableInstanceDiscovery: true,
		})
	}
}

func (c Credentials) certificate() ([]*x509.Certificate, crypto.PrivateKey, error) {
	certs, key, err := azidentity.ParseCertificates(c.Certificate, nil)
	if err != nil {
		return nil, nil, errors.New("the certificate cannot be read, or holds no private key without a password")
	}
	return certs, key, nil
}

// azureGrant asks an azidentity credential.
type azureGrant struct {
	credential azcore.TokenCredential
	scope      string
}

func (g azureGrant) fetch(ctx context.Context) (grant, error) {
	t, err := g.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{g.scope}})
	if err == nil {
		return grant{token: t.Token, life: min(time.Until(t.ExpiresOn), maxTokenLife)}, nil
	}
	// azidentity's text quotes the endpoint's whole answer.
	if failed := new(azidentity.AuthenticationFailedError); errors.As(err, &failed) {
		e := &TokenError{Code: "authentication failed"}
		if failed.RawResponse != nil {
			e.Status = failed.RawResponse.StatusCode
		}
		return grant{}, e
	}
	return grant{}, &TokenError{Err: err}
}
