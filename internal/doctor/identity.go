package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// IdentitySettings say who the bot is. The zero value is the local mode.
type IdentitySettings struct {
	AppID  string // "": local mode
	Type   string // SingleTenant, MultiTenant, UserAssignedMSI
	Tenant string
	NoAuth bool // local mode on an address that others reach
	// Token fetches a token for the bot and throws it away. Required with AppID.
	Token func(context.Context) error
}

// Identity checks that the bot can prove who it is.
func Identity(s IdentitySettings) Probe {
	return Probe{"identity", func(ctx context.Context) Check { return identity(ctx, s) }}
}

func identity(ctx context.Context, s IdentitySettings) Check {
	switch {
	case s.AppID == "" && s.NoAuth:
		return warn("no app id, and BOT_DANGEROUSLY_NO_AUTH is true: whoever can reach the bot's address may talk to it, and it cannot talk to Teams",
			"keep it on a closed network, or set MICROSOFT_APP_ID")
	case s.AppID == "":
		c := ok("local mode: without an app id nobody is asked who they are, so only programs on this machine may talk to the bot")
		c.Hint = "good for \"bot chat\" and the Agents Playground; for Teams, register a bot and set MICROSOFT_APP_ID and MICROSOFT_APP_PASSWORD"
		return c
	}
	start := time.Now()
	if err := s.Token(ctx); err != nil {
		return fail(fmt.Sprintf("app %s (%s) gets no token from Microsoft, so it cannot answer: %s", s.AppID, s.kind(), reason(err)),
			hintFor(err, identityHints(), "compare MICROSOFT_APP_ID, MICROSOFT_APP_PASSWORD, MICROSOFT_APP_TENANT_ID and MICROSOFT_APP_TYPE with the app registration, and see whether this machine reaches the login server"))
	}
	return ok(fmt.Sprintf("app %s (%s) got a token in %s", s.AppID, s.kind(), took(time.Since(start))))
}

func (s IdentitySettings) kind() string {
	kind := cmp.Or(s.Type, "type not set")
	if s.Tenant != "" {
		kind += ", tenant " + s.Tenant
	}
	return kind
}

// identityHints are for the codes of Microsoft Entra
// (https://learn.microsoft.com/entra/identity-platform/reference-error-codes).
func identityHints() [][2]string {
	return [][2]string{
		{"7000215", "MICROSOFT_APP_PASSWORD is wrong: it has to be the Value of the client secret, not its Secret ID"},
		{"7000222", "the client secret has run out: make a new one in the app registration and set MICROSOFT_APP_PASSWORD"},
		{"700027", "the app's registration does not know the certificate, or it has run out: upload the one in MICROSOFT_APP_CERTIFICATE_FILE to the app registration"},
		{"70021", "the app's registration trusts no such identity: compare the issuer, subject and audience of its federated credentials with MICROSOFT_APP_FEDERATED_TOKEN_FILE or MICROSOFT_APP_FEDERATED_CLIENT_ID"},
		{"700024", "the federated token has run out: see who renews MICROSOFT_APP_FEDERATED_TOKEN_FILE, and the clock"},
		{"managed identity gives none", "the managed identity has to be assigned to this machine, and MICROSOFT_APP_ID (or MICROSOFT_APP_FEDERATED_CLIENT_ID) has to be its client id"},
		{"700016", "this tenant does not know the app: compare MICROSOFT_APP_ID and MICROSOFT_APP_TENANT_ID with the app registration; a bot of one tenant needs MICROSOFT_APP_TYPE=SingleTenant"},
		{"90002", "there is no such tenant: compare MICROSOFT_APP_TENANT_ID with the app registration"},
		{"900023", "there is no such tenant: compare MICROSOFT_APP_TENANT_ID with the app registration"},
		{"no such host", "this machine cannot look up the login server: see its DNS and its proxy (HTTPS_PROXY), and BOT_LOGIN_URL if it is set"},
		{"deadline exceeded", "the login server did not answer: see the firewall and the proxy (HTTPS_PROXY), and BOT_LOGIN_URL if it is set"},
	}
}

// maxMetadata is how much of an OpenID document is read.
const maxMetadata = 1 << 20

// OpenID checks that the keys of inbound tokens can be found. An empty url is
// the local mode, which has none. rt may be nil.
func OpenID(url string, rt http.RoundTripper) Probe {
	return Probe{"openid", func(ctx context.Context) Check {
		if url == "" {
			return ok("not needed in local mode: callers bring no tokens")
		}
		return openID(ctx, url, rt, "BOT_OPENID_METADATA_URL and BOT_CLOUD")
	}}
}

// Callers checks the same of bots that call this one, and of the Emulator.
func Callers(url string, rt http.RoundTripper) Probe {
	return Probe{"callers", func(ctx context.Context) Check {
		return openID(ctx, url, rt, "MICROSOFT_APP_TENANT_ID, BOT_LOGIN_URL and BOT_CLOUD")
	}}
}

func openID(ctx context.Context, url string, rt http.RoundTripper, settings string) Check {
	start := time.Now()
	issuer, err := fetchIssuer(ctx, url, rt)
	if err != nil {
		return fail("the keys that prove who calls cannot be found at "+url+", so every caller will be refused: "+reason(err),
			"see the firewall and the proxy (HTTPS_PROXY), and "+settings+" if they are set")
	}
	return ok(fmt.Sprintf("%s answered in %s; tokens have to be of %s", url, took(time.Since(start)), issuer))
}

func fetchIssuer(ctx context.Context, url string, rt http.RoundTripper) (issuer string, err error) {
	resp, err := get(ctx, rt, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("it answered %s", resp.Status)
	}
	var document struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	err = json.UnmarshalRead(io.LimitReader(resp.Body, maxMetadata), &document, jsontext.AllowDuplicateNames(true))
	if err != nil || document.Issuer == "" || document.Keys == "" {
		return "", fmt.Errorf("what it answered is no OpenID document")
	}
	return document.Issuer, nil
}
