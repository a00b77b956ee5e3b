package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/activity"
)

const (
	algorithm     = "RS256"         // the only one in the Bot Framework's metadata
	clockSkew     = 5 * time.Minute // how far the clocks of the bot and the issuer may differ
	maxTokenBytes = 16 << 10        // more than any channel's token needs; Microsoft's have about 1.2 KB
	// maxChannelBytes limits the channel name that one of the [Callers] may invent: together with
	// the caller's id it must still be a valid id.
	maxChannelBytes = 1 << 9
)

// AuthError says why a request was denied. Its text is for the log: of the token it contains at most
// an audience that its issuer signed, and it must not go into a response.
type AuthError struct {
	// Status is the status to answer: 401 for a bad token, 503 while there are no keys to check it
	// or newer ones are being fetched, 400 for a service URL that is not allowed.
	Status int
	Err    error
}

func (e *AuthError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *AuthError) Unwrap() error { return e.Err }

func unauthorized(reason string) error {
	return &AuthError{http.StatusUnauthorized, errors.New(reason)}
}

type forCaller struct{}

// ForCaller returns a context in which a [Client] calls the bot with that app id, which has called
// this one. The calls carry a token for that bot and go only to hosts that the operator listed.
// With an empty id, or without ForCaller, calls go to the channels. Package bot sets it on the
// contexts of a caller's turns; code that sends to a caller in another context must set it itself.
func ForCaller(ctx context.Context, appID string) context.Context {
	if appID == "" && callerOf(ctx) == "" {
		return ctx
	}
	return context.WithValue(ctx, forCaller{}, strings.ToLower(appID))
}

func callerOf(ctx context.Context) string {
	app, _ := ctx.Value(forCaller{}).(string)
	return app
}

// Guard checks the tokens of inbound activities. It may be used concurrently.
type Guard struct {
	cfg       Config
	cloud     cloud
	hosts     *serviceHosts
	transport http.RoundTripper
	now       func() time.Time

	keys      *keySet // for channels; nil in local mode
	entraKeys *keySet // for Callers; nil: there are none
	issuers   []string
	apps      []string // allowed callers, in lower case
	parser    *jwt.Parser
}

// setUp prepares to check tokens. It fetches no keys; the first token does.
func (g *Guard) setUp() error {
	metadata, err := trustedURL("openid metadata URL", g.cloud.MetadataURL)
	if err != nil {
		return err
	}
	g.keys = &keySet{guard: g, metadata: metadata}
	g.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{algorithm}),
		jwt.WithStrictDecoding(),
		jwt.WithoutClaimsValidation(), // payload.check does it
	)
	if g.apps = g.cfg.Callers.apps(g.cfg.AppID); len(g.apps) == 0 {
		return nil
	}
	tenant := strings.ToLower(g.cfg.Callers.Tenant)
	metadata, err = trustedURL("login URL", g.cloud.LoginURL+"/"+url.PathEscape(tenant)+"/v2.0/.well-known/openid-configuration")
	if err != nil {
		return err
	}
	g.entraKeys = &keySet{guard: g, metadata: metadata}
	for _, issuer := range g.cloud.EntraIssuers {
		g.issuers = append(g.issuers, strings.Replace(issuer, "{tenant}", tenant, 1))
	}
	return nil
}

// MetadataURLs returns the OpenID documents that lead to the keys for channel tokens and for
// [Callers]' tokens; "" where no such tokens are accepted.
func (g *Guard) MetadataURLs() (channels, callers string) {
	if g.keys != nil {
		channels = g.keys.metadata.String()
	}
	if g.entraKeys != nil {
		callers = g.entraKeys.metadata.String()
	}
	return channels, callers
}

// Close closes idle connections. A key fetch in progress ends within ten seconds.
func (g *Guard) Close() { closeIdle(g.transport) }

// Verify checks the values of the Authorization header without the activity: its form, and the
// token's signature, times, issuer and audience. Nothing in the token but an unknown key id makes it
// fetch keys, and that rarely. Its errors are [AuthError] values. In local mode it ignores the
// header.
func (g *Guard) Verify(ctx context.Context, header []string) (*Claims, error) {
	if g.keys == nil {
		return &Claims{local: true, hosts: g.hosts}, nil
	}
	token, err := bearer(header)
	if err != nil {
		return nil, err
	}
	var p payload
	key, err := g.verifySignature(ctx, token, &p)
	if err == nil {
		err = p.check(g.cfg.AppID, g.now())
	}
	if err != nil {
		return nil, err
	}
	c := &Claims{id: g.cloud.CallerID, key: key, serviceURL: p.ServiceURL, hosts: g.hosts}
	if g.byEntra(&p) {
		c.caller, err = g.callerIn(&p)
		c.id = activity.CallerOf(c.caller)
	} else {
		err = p.checkChannel(g.cfg.AppID)
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// bearer reads the values of an Authorization header (RFC 6750): exactly one, made of the word
// Bearer, one space and a token of three parts. The parser rejects invalid base64url.
func bearer(header []string) (string, error) {
	if len(header) != 1 {
		return "", unauthorized(fmt.Sprintf("%d authorization headers", len(header)))
	}
	token, ok := strings.CutPrefix(header[0], "Bearer ")
	if !ok || len(token) > maxTokenBytes || strings.Count(token, ".") != 2 {
		return "", unauthorized("authorization is not Bearer and a signed token")
	}
	return token, nil
}

// verifySignature decodes the token into p and returns the key that signed it.
func (g *Guard) verifySignature(ctx context.Context, token string, p *payload) (*signingKey, error) {
	var key *signingKey
	_, err := g.parser.ParseWithClaims(token, p, func(t *jwt.Token) (any, error) {
		var err error
		if key, err = g.keyOf(ctx, t, p); err != nil {
			return nil, err
		}
		return key.public, nil
	})
	var refusal *AuthError
	switch { // fixed texts: the parser's may quote the token
	case err == nil:
		return key, nil
	case errors.As(err, &refusal):
		return nil, refusal
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return nil, unauthorized("invalid signature or algorithm")
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		return nil, unauthorized("unknown algorithm")
	default:
		return nil, unauthorized("malformed token")
	}
}

// keyOf finds the key for a token whose signature is not checked yet. It checks the issuer first,
// so a token of a foreign issuer costs no fetch. The signature then covers everything it has read.
func (g *Guard) keyOf(ctx context.Context, t *jwt.Token, p *payload) (*signingKey, error) {
	keys := g.keys
	switch {
	case p.Issuer == g.cloud.Issuer:
	case g.byEntra(p):
		keys = g.entraKeys
	default:
		return nil, unauthorized("foreign issuer")
	}
	if _, critical := t.Header["crit"]; critical {
		return nil, unauthorized("token with critical extensions")
	}
	id, ok := t.Header["kid"].(string)
	if !ok || id == "" {
		return nil, unauthorized("token without a key id")
	}
	key, err := keys.find(ctx, id)
	if err == nil && !key.valid(g.now()) {
		return nil, unauthorized("the signing key's certificate is not valid")
	}
	return key, err
}

// byEntra reports whether the token claims to come from Entra and not from a channel.
func (g *Guard) byEntra(p *payload) bool { return slices.Contains(g.issuers, p.Issuer) }

// callerIn returns the app that Entra issued the token to, which must be allowed. A token that a
// person got through such an app does not count as the app's. Entra signs for all its tenants with
// the same keys, so callerIn checks the tenant too.
func (g *Guard) callerIn(p *payload) (appID string, err error) {
	var app string
	switch p.Version {
	case "1.0":
		app = strings.ToLower(p.AppID)
	case "2.0":
		app = strings.ToLower(p.AuthorizedParty)
	default:
		return "", unauthorized("token of an unknown version")
	}
	switch {
	case !strings.EqualFold(p.Tenant, g.cfg.Callers.Tenant):
		return "", unauthorized("token of another tenant")
	case p.Scopes != nil || p.Kind != "" && p.Kind != "app":
		return "", unauthorized("token of a person")
	case !slices.Contains(g.apps, app):
		return "", unauthorized("caller not allowed")
	default:
		return app, nil
	}
}

// Claims are a token's verified claims, before the activity that came with it is read. They allow
// nothing until Permit accepts that activity. They never change and may be used concurrently.
type Claims struct {
	local      bool // without an app id, when nobody is authenticated
	id         string
	key        *signingKey
	serviceURL string // from a channel's token
	caller     string // app id of one of the Callers; "": a channel, or unknown
	hosts      *serviceHosts
}

// ID replaces the callerId on the wire, which cannot be trusted. For one of the [Callers] it names
// its app, see [activity.Activity.CallerApp]. "": unknown.
func (c *Claims) ID() string { return c.id }

// Trusted is true for every token that the guard accepts, and false without an app id, when nobody
// is authenticated. A channel's token names the serviceUrl. Another bot's token names only that
// bot: it may choose its address among the hosts that the operator listed, and what is sent there
// is of no use to anybody else.
func (c *Claims) Trusted() bool { return !c.local }

// Permit checks the activity against its token: the service URL must be the one in the token, the
// token's key must be endorsed for the channel, and the bot must be allowed to send to the service
// URL. In local mode, and for [Callers], only the last rule applies, and callers may only name
// hosts that the operator listed. Its errors are [AuthError] values.
func (c *Claims) Permit(a *activity.Activity) error {
	if !c.local && c.caller == "" {
		if !sameServiceURL(c.serviceURL, a.ServiceURL) {
			return unauthorized("the token is for another service url")
		}
		if a.ChannelID == "" || !slices.Contains(c.key.endorsements, a.ChannelID) {
			return unauthorized("the signing key is not endorsed for the channel")
		}
	}
	if c.local && a.ServiceURL == "" && a.DeliveryMode == activity.ExpectReplies {
		return nil // nothing will be sent
	}
	if c.caller != "" && len(a.ChannelID) > maxChannelBytes {
		return &AuthError{http.StatusBadRequest, errors.New("channel id too long")}
	}
	if _, err := c.hosts.baseFor(c.caller, a.ServiceURL); err != nil {
		return &AuthError{http.StatusBadRequest, fmt.Errorf("activity refused: %w", err)}
	}
	return nil
}

// payload is the part of a token that we read. Its JSON is read strictly: a repeated claim, or one
// of the wrong type, makes the token malformed. check has all the rules, so the parser's own checks
// of the registered claims are off.
type payload struct {
	jwt.RegisteredClaims `json:"-"`

	Issuer          string           `json:"iss"`
	Audience        jwt.ClaimStrings `json:"aud"`
	Expires         *float64         `json:"exp"`
	NotBefore       *float64         `json:"nbf"`
	ServiceURL      string           `json:"serviceurl"`
	AppID           string           `json:"appid"`
	AuthorizedParty string           `json:"azp"`
	Version         string           `json:"ver"`
	Tenant          string           `json:"tid"`
	Scopes          jsontext.Value   `json:"scp"`
	Kind            string           `json:"idtyp"`
}

// UnmarshalJSON reads the claims strictly.
func (p *payload) UnmarshalJSON(data []byte) error {
	type plain payload
	return json.Unmarshal(data, (*plain)(p))
}

// check applies the rules for all tokens. keyOf has already checked the issuer. App ids are GUIDs
// and compare case-insensitively.
func (p *payload) check(appID string, at time.Time) error {
	const lastSecond = 1 << 40 // far beyond any token
	now, skew := float64(at.Unix()), clockSkew.Seconds()
	switch {
	case p.Expires == nil || *p.Expires > lastSecond:
		return unauthorized("exp is no time")
	case p.NotBefore == nil || *p.NotBefore < 0:
		return unauthorized("nbf is no time")
	case now-skew >= *p.Expires:
		return unauthorized("token expired")
	case now+skew < *p.NotBefore:
		return unauthorized("token not valid yet")
	case !slices.ContainsFunc(p.Audience, func(aud string) bool { return isAudience(aud, appID) }):
		return unauthorized(fmt.Sprintf("token for another audience: %.*q", maxAudience, strings.Join(p.Audience, ", ")))
	default:
		return nil
	}
}

const maxAudience = 200 // how much of a foreign audience is logged

// isAudience reports whether a token with that audience is for the app. Microsoft issues tokens for the
// app id alone and, for bots that are registered with Entra ID, for its two forms as an identifier URI.
func isAudience(audience, appID string) bool {
	return slices.ContainsFunc([]string{"", "api://", "api://botid-"}, func(scheme string) bool {
		return strings.EqualFold(audience, scheme+appID)
	})
}

// checkChannel applies the rules for a channel's token that need no activity.
func (p *payload) checkChannel(appID string) error {
	for _, app := range []string{p.AppID, p.AuthorizedParty} {
		if app != "" && !strings.EqualFold(app, appID) {
			return unauthorized("token of another bot")
		}
	}
	if p.ServiceURL == "" {
		return unauthorized("token without serviceurl")
	}
	return nil
}

// Verifier checks access tokens that others present for a resource of the bot's own, such as its MCP
// server. It is safe for concurrent use.
type Verifier struct {
	audience string
	guard    *Guard // its transport and clock
	keys     map[string]*keySet
	parser   *jwt.Parser
}

// Bearer is who presents an access token.
type Bearer struct {
	Issuer, Subject string
	// Tenant and Person are the ids of the person in Microsoft Entra; "": the token names none.
	Tenant, Person string
	// Client is the program that got the token. "": the token does not say.
	Client  string
	Expires time.Time
}

// NewVerifier returns a Verifier of tokens of these OpenID Connect issuers for that audience. It fetches
// nothing; the first token does. The error names each issuer that is no https URL, or http to this
// machine.
func NewVerifier(issuers []string, audience string) (*Verifier, error) {
	v := &Verifier{
		audience: audience, keys: map[string]*keySet{},
		guard:  &Guard{transport: newTransport((&net.Dialer{Timeout: dialTimeout}).DialContext), now: time.Now},
		parser: jwt.NewParser(jwt.WithValidMethods([]string{algorithm}), jwt.WithStrictDecoding(), jwt.WithoutClaimsValidation()),
	}
	var faults []error
	if audience == "" {
		faults = append(faults, errors.New("tokens of others: no audience"))
	}
	for _, issuer := range issuers {
		metadata, err := trustedURL("issuer", strings.TrimSuffix(issuer, "/")+"/.well-known/openid-configuration")
		faults = append(faults, err)
		v.keys[issuer] = &keySet{guard: v.guard, metadata: metadata}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return v, nil
}

// Close closes idle connections. A key fetch in progress ends within ten seconds.
func (v *Verifier) Close() { closeIdle(v.guard.transport) }

// bearerClaims is the part of such a token that we read.
type bearerClaims struct {
	payload

	Subject, Object, ClientID string
	scoped, identity          bool // has scopes; has what only ID tokens have
}

func (c *bearerClaims) UnmarshalJSON(data []byte) error {
	if err := c.payload.UnmarshalJSON(data); err != nil {
		return err
	}
	var own struct {
		Subject  string         `json:"sub"`
		Object   string         `json:"oid"`
		ClientID string         `json:"client_id"`
		Scope    jsontext.Value `json:"scope"`
		Nonce    jsontext.Value `json:"nonce"`
		OfAccess jsontext.Value `json:"at_hash"`
		OfCode   jsontext.Value `json:"c_hash"`
		Use      string         `json:"token_use"` // of Amazon Cognito
		Type     jsontext.Value `json:"typ"`       // of Keycloak
	}
	err := json.Unmarshal(data, &own)
	c.Subject, c.Object, c.ClientID = own.Subject, own.Object, own.ClientID
	c.scoped = own.Scope != nil || c.Scopes != nil
	c.identity = own.Nonce != nil || own.OfAccess != nil || own.OfCode != nil || own.Use == "id" || string(own.Type) == `"ID"`
	return err
}

// client is the program that got the token. "": the token does not say.
func (c *bearerClaims) client() string { return cmp.Or(c.AuthorizedParty, c.AppID, c.ClientID) }

// forAccess reports whether it is an access token: one that says so (RFC 9068), or has scopes, or was given
// to another program than the one that it is for. An ID token, which anybody has whom a person signed in to,
// does none of it.
func (c *bearerClaims) forAccess(typ any) bool {
	name, _ := typ.(string)
	name = strings.TrimPrefix(strings.ToLower(name), "application/")
	client := c.client()
	return name == "at+jwt" || !c.identity && (c.scoped || c.Kind == "app" || client != "" && !slices.Contains(c.Audience, client))
}

// Verify checks an access token: its signature, times, issuer and audience, and that it is no ID token. A
// token without nbf is valid from the start. Its errors are [AuthError] values and never quote the token.
func (v *Verifier) Verify(ctx context.Context, token string) (Bearer, error) {
	return v.verify(ctx, token, true)
}

// VerifyID checks an ID token as Verify does an access token. Its nonce is up to the caller.
func (v *Verifier) VerifyID(ctx context.Context, token string) (Bearer, error) {
	return v.verify(ctx, token, false)
}

func (v *Verifier) verify(ctx context.Context, token string, access bool) (Bearer, error) {
	if len(token) > maxTokenBytes || strings.Count(token, ".") != 2 {
		return Bearer{}, unauthorized("authorization is no signed token")
	}
	var c bearerClaims
	parsed, err := v.parser.ParseWithClaims(token, &c, func(t *jwt.Token) (any, error) {
		keys := v.keys[c.Issuer]
		id, _ := t.Header["kid"].(string)
		_, critical := t.Header["crit"]
		switch {
		case keys == nil:
			return nil, unauthorized("foreign issuer")
		case critical:
			return nil, unauthorized("token with critical extensions")
		case id == "":
			return nil, unauthorized("token without a key id")
		}
		key, err := keys.find(ctx, id)
		if err == nil && !key.valid(v.guard.now()) {
			err = unauthorized("the signing key's certificate is not valid")
		}
		if err != nil {
			return nil, err
		}
		return key.public, nil
	})
	if refused, ok := errors.AsType[*AuthError](err); ok {
		return Bearer{}, refused
	}
	if err != nil { // its text may quote the token
		return Bearer{}, unauthorized("malformed token, or invalid signature or algorithm")
	}
	if c.NotBefore == nil {
		c.NotBefore = new(float64)
	}
	if !slices.Contains(c.Audience, v.audience) {
		return Bearer{}, unauthorized("token for another audience")
	}
	if err := c.check(v.audience, v.guard.now()); err != nil {
		return Bearer{}, err
	}
	if access && !c.forAccess(parsed.Header["typ"]) {
		return Bearer{}, unauthorized("no access token: it may be an ID token")
	}
	if c.Subject == "" {
		return Bearer{}, unauthorized("token without a subject")
	}
	b := Bearer{
		Issuer: c.Issuer, Subject: c.Subject, Tenant: c.Tenant, Person: c.Object,
		Client: c.client(), Expires: time.Unix(int64(*c.Expires), 0),
	}
	if c.Kind == "app" { // it is the program's own
		b.Person = ""
	}
	return b, nil
}

// String says who it is, for logs.
func (b Bearer) String() string { return fmt.Sprintf("%s of %s", b.Subject, b.Issuer) }
