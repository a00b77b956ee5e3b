// Package connector authenticates what comes in from channels and calls the Connector REST
// API.
//
// [Guard] decides whether an inbound activity comes from the Bot Framework: it checks the
// channel's token against keys that it fetches and keeps. [Callers] are the others who may
// come in. [Client] calls the API with tokens of [Tokens]. [ServiceHosts] says which hosts
// the bot may talk to at all; both sides ask it, so no forged serviceUrl ever sees the
// bot's token. [Adapter] puts the same parts under the interfaces of msbotbuilder-go.
//
// # Sending
//
// A reference names a conversation: the one that an activity gives
// ([activity.Activity.Reference]), or one that was kept. In it, a [Client] sends
// ([Client.Send], [Client.Reply]), changes what was sent ([Client.Update],
// [Client.Delete]) and asks who is there ([Client.Members]). It creates conversations
// ([Client.CreateConversation]) and threads in channels of Teams ([Client.NewThread]),
// asks about teams ([Client.Team]), and fetches pictures and files ([Client.Download]).
//
// Each call has a deadline, keeps the limits of Teams, and is repeated only where that can
// help; see [Client]. Errors are of three kinds: [*Error], what a connector answered;
// [*TokenError], no token for the call; and those that wrap [ErrBadCall],
// [ErrHostNotAllowed], [ErrNoAnswer], [ErrHeldBack] or [ErrTooLarge].
//
// # Rules
//
// They are those of the Bot Framework's authentication specification
// (https://learn.microsoft.com/azure/bot-service/rest-api/bot-framework-rest-connector-authentication)
// and, where that is silent, the stricter one of Microsoft's SDKs.
package connector

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/activity"
)

const (
	// algorithm is the only one that the Bot Framework's metadata advertises.
	algorithm = "RS256"
	// clockSkew is how far the clocks of the bot and the issuer may differ.
	clockSkew = 5 * time.Minute
	// maxTokenBytes is more than any channel's token has; Microsoft's have about 1.2 KB.
	maxTokenBytes = 16 << 10
	// maxChannelBytes is how long the name of a channel may be that one of the [Callers]
	// makes up: together with the caller's id it still has to be an id.
	maxChannelBytes = activity.MaxIDBytes / 2
)

// ErrUnknownCaller is wrapped when something is to be sent to a calling bot that is not, or
// no longer, among the [Callers].
var ErrUnknownCaller = errors.New("the calling bot is not allowed")

// AuthError is why a request was refused. Its text is for the log: it holds nothing of the
// token, and nothing of it belongs in a response.
type AuthError struct {
	// Status is what to answer: 401 for a fault of the token, 503 while there are no keys
	// to check it with or newer ones are on their way, 400 for a service URL that is not
	// allowed.
	Status int
	Reason string
	Err    error
}

// Error returns the reason.
func (e *AuthError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Reason, e.Err)
	}
	return e.Reason
}

// Unwrap returns the cause, or nil.
func (e *AuthError) Unwrap() error { return e.Err }

func unauthorized(reason string) error {
	return &AuthError{Status: http.StatusUnauthorized, Reason: reason}
}

// Callers are who may come in beside the channels, with tokens that Microsoft Entra issued
// to an app of the bot's own tenant. The zero value is nobody.
//
// A channel's token names the service URL that goes with it; theirs do not. So a caller may
// only name a host that the operator listed, the token that goes there is made for the
// caller and good for nothing else, and what a bot keeps about a caller's conversations has
// to be kept apart from all others, whatever ids they claim. What a caller says about its
// people (their ids, tenants) is believed.
type Callers struct {
	// Tenant is the only one whose tokens count: its id, a GUID. Required with others.
	Tenant string
	// Emulator lets in who has a token of the bot's own app: the Bot Framework Emulator and
	// the Agents Playground, when they are given its app id and secret.
	Emulator bool
	// Bots are the app ids of bots that may call this one as a skill.
	Bots []string
}

// apps are the app ids of all of them, in lower case.
func (c Callers) apps(own string) []string {
	var all []string
	for _, app := range c.Bots {
		all = append(all, strings.ToLower(app))
	}
	if c.Emulator {
		all = append(all, strings.ToLower(own))
	}
	return all
}

func (c Callers) check(own string) error {
	apps := c.apps(own)
	if len(apps) == 0 {
		return nil
	}
	var errs []error
	if !IsGUID(c.Tenant) {
		errs = append(errs, errors.New("the tenant of the callers is no GUID"))
	}
	for _, app := range c.Bots {
		switch {
		case !IsGUID(app):
			errs = append(errs, fmt.Errorf("caller %q is no app id", app))
		case strings.EqualFold(app, own):
			errs = append(errs, fmt.Errorf("caller %s is the bot itself", app))
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(apps)))) != len(apps) {
		errs = append(errs, errors.New("a caller twice"))
	}
	return errors.Join(errs...)
}

var guid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// IsGUID reports whether s is a GUID as Microsoft writes the ids of apps and tenants, in
// either case.
func IsGUID(s string) bool { return guid.MatchString(s) }

type forCaller struct{}

// ForCaller returns a context in which calls of a [Client] go to the bot with that app id,
// which has called this one: with a token of [Tokens] for it, and only to hosts that the
// operator listed. An empty id, or none, stands for the channels. Package bot sets it on
// the contexts of a caller's turns; whoever sends to a caller in another context has to.
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

// GuardConfig says whom a [Guard] lets in.
type GuardConfig struct {
	// AppID is the bot's own. Empty means local mode: no token is needed, any is ignored,
	// and Hosts must be local as well. Whoever opens a listener without an app id must keep
	// it on loopback.
	AppID string
	// Cloud names the issuer and where its keys are.
	Cloud Cloud
	// Callers come in with tokens of Entra instead of a channel's. The zero value: nobody.
	Callers Callers
	// Hosts are the service URLs that activities may name. Required.
	Hosts *ServiceHosts
	// Transport carries the fetches of metadata and keys. nil: its own.
	Transport http.RoundTripper
	// Now is the clock of the checks. nil: [time.Now].
	Now func() time.Time
}

// Guard checks the tokens of inbound activities. It may be used concurrently; Close ends
// what it does in the background.
type Guard struct {
	cfg       GuardConfig
	keys      *keySet // of the channels; nil in local mode
	entraKeys *keySet // of the Callers; nil: there are none
	issuers   []string
	apps      []string // that may call, in lower case
	parser    *jwt.Parser
	own       *http.Transport // nil when the config has one
}

// NewGuard returns a guard, or an error that names every mistake in cfg. It fetches no keys
// before the first token asks for one.
func NewGuard(cfg GuardConfig) (*Guard, error) {
	var errs []error
	if cfg.Hosts == nil {
		errs = append(errs, errors.New("no Hosts"))
	} else if cfg.Hosts.local != (cfg.AppID == "") {
		errs = append(errs, errors.New("local hosts go with an empty AppID, and only with that"))
	}
	g := &Guard{cfg: cfg, apps: cfg.Callers.apps(cfg.AppID)}
	switch {
	case cfg.AppID != "":
		errs = append(errs, g.setUp())
	case len(g.apps) > 0:
		errs = append(errs, errors.New("Callers without an AppID"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("guard config: %w", err)
	}
	return g, nil
}

func (g *Guard) setUp() error {
	cloud, callers := g.cfg.Cloud, g.cfg.Callers
	if cloud.Issuer == "" {
		return errors.New("Cloud without an issuer")
	}
	metadata, err := trustedURL("openid metadata URL", cloud.MetadataURL)
	if err != nil {
		return err
	}
	if g.cfg.Now == nil {
		g.cfg.Now = time.Now
	}
	if g.cfg.Transport == nil {
		g.own = trustedTransport()
		g.cfg.Transport = g.own
	}
	client := noRedirects(g.cfg.Transport)
	g.keys = &keySet{client: client, metadata: metadata, now: g.cfg.Now}
	g.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{algorithm}),
		jwt.WithStrictDecoding(),
		jwt.WithoutClaimsValidation(), // payload.check does it
	)
	if len(g.apps) == 0 {
		return nil
	}
	if err := callers.check(g.cfg.AppID); err != nil {
		return err
	}
	tenant := strings.ToLower(callers.Tenant)
	if metadata, err = trustedURL("login URL", cloud.EntraMetadataURL(tenant)); err != nil {
		return err
	}
	g.entraKeys = &keySet{client: client, metadata: metadata, now: g.cfg.Now}
	for _, issuer := range cloud.EntraIssuers {
		g.issuers = append(g.issuers, strings.Replace(issuer, "{tenant}", tenant, 1))
	}
	return nil
}

// Close gives up idle connections. A fetch of keys that is under way ends within ten
// seconds.
func (g *Guard) Close() {
	if g.own != nil {
		g.own.CloseIdleConnections()
	}
}

// Authenticate is Verify and Permit in one.
func (g *Guard) Authenticate(ctx context.Context, header []string, a *activity.Activity) (Identity, error) {
	claims, err := g.Verify(ctx, header)
	if err != nil {
		return Identity{}, err
	}
	return claims.admit(a.DeliveryMode, a.ServiceURL, a.ChannelID)
}

// Verify checks the values of the Authorization header as far as that goes without the
// activity: its form, the token's signature, times, issuer and audience. Nothing in the
// token causes a fetch but a key id that is unknown, and that rarely. Its errors are
// [AuthError] values. In local mode the header is not looked at.
func (g *Guard) Verify(ctx context.Context, header []string) (*Claims, error) {
	if g.keys == nil {
		return &Claims{identity: Identity{Local: true}, hosts: g.cfg.Hosts}, nil
	}
	token, err := bearer(header)
	if err != nil {
		return nil, err
	}
	var p payload
	key, err := g.verifySignature(ctx, token, &p)
	if err == nil {
		err = p.check(g.cfg.AppID, g.cfg.Now())
	}
	if err != nil {
		return nil, err
	}
	c := &Claims{identity: Identity{AppID: g.cfg.AppID}, key: key, hosts: g.cfg.Hosts}
	if g.byEntra(&p) {
		c.caller, err = g.callerIn(&p)
		c.identity.CallerID = activity.CallerOf(c.caller)
	} else {
		err = p.checkChannel(g.cfg.AppID)
		c.identity.CallerID, c.identity.ServiceURL = g.cfg.Cloud.CallerID, p.ServiceURL
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// bearer reads the values of an Authorization header (RFC 6750): exactly one, of the word
// Bearer, one space and a token of three parts. The parser refuses what is no base64url.
func bearer(header []string) (string, error) {
	switch len(header) {
	case 0:
		return "", unauthorized("no authorization header")
	case 1:
	default:
		return "", unauthorized("more than one authorization header")
	}
	token, ok := strings.CutPrefix(header[0], "Bearer ")
	switch {
	case !ok:
		return "", unauthorized("authorization is not Bearer")
	case len(token) > maxTokenBytes:
		return "", unauthorized("token too long")
	case strings.Count(token, ".") != 2:
		return "", unauthorized("bearer is no signed token")
	}
	return token, nil
}

// verifySignature reads the token into p and returns the key that signed it.
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
	switch { // in constant words: the parser's may quote the token
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

// keyOf finds the key of a token whose signature was not checked yet. It looks at the
// issuer first: a stranger's token costs no fetch. The signature then covers all that it
// looks at.
func (g *Guard) keyOf(ctx context.Context, t *jwt.Token, p *payload) (*signingKey, error) {
	keys := g.keys
	switch {
	case p.Issuer == g.cfg.Cloud.Issuer:
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
	if err == nil && !key.valid(g.cfg.Now()) {
		return nil, unauthorized("the signing key's certificate is not valid")
	}
	return key, err
}

// byEntra reports whether the token says that it comes from Entra and not from a channel.
func (g *Guard) byEntra(p *payload) bool { return slices.Contains(g.issuers, p.Issuer) }

// callerIn returns the app that Entra issued the token to, which has to be one of the
// allowed ones. A token that a person got through such an app is not the app's. Entra signs
// for all of its tenants with the same keys, so the tenant is checked too.
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

// Identity is who stands behind an activity that was let in.
type Identity struct {
	// AppID is the bot that the token was made for; "" in local mode.
	AppID string
	// CallerID replaces the callerId of the wire, which nobody may believe. For one of the
	// [Callers] it names its app, see [activity.Activity.CallerApp].
	CallerID string
	// ServiceURL is where replies may go: signed for by the channel, or checked to be local
	// or, from one of the Callers, listed.
	ServiceURL string
	// Local is true when nobody was identified: the mode without an app id.
	Local bool
}

// Claims are the verified statements of a token, before the activity that came with it was
// read. They let nothing in until Permit has seen that activity. They never change and may
// be used concurrently.
type Claims struct {
	identity Identity
	key      *signingKey
	caller   string // app id of one of the Callers; "": a channel, or nobody
	hosts    *ServiceHosts
}

// Identity returns who the token is from. In local mode it is nobody.
func (c *Claims) Identity() Identity { return c.identity }

// Permit checks the activity against the token that it came with: the service URL must be
// the one that the token names, the token's key must be endorsed for the channel, and the
// service URL must be one that the bot may send to. In local mode only the last counts; for
// [Callers], too, but they may only name hosts that the operator listed. Its errors are
// [AuthError] values.
func (c *Claims) Permit(a *activity.Activity) error {
	_, err := c.admit(a.DeliveryMode, a.ServiceURL, a.ChannelID)
	return err
}

func (c *Claims) admit(deliveryMode, serviceURL, channel string) (Identity, error) {
	if !c.identity.Local && c.caller == "" {
		if !sameServiceURL(c.identity.ServiceURL, serviceURL) {
			return Identity{}, unauthorized("the token is for another service url")
		}
		if channel == "" || !slices.Contains(c.key.endorsements, channel) {
			return Identity{}, unauthorized("the signing key is not endorsed for the channel")
		}
	}
	id := c.identity
	id.ServiceURL = serviceURL
	if id.Local && serviceURL == "" && deliveryMode == activity.ExpectReplies {
		return id, nil // nothing will be sent
	}
	if c.caller != "" && len(channel) > maxChannelBytes {
		return Identity{}, &AuthError{Status: http.StatusBadRequest, Reason: "channel id too long"}
	}
	if _, err := c.hosts.baseFor(c.caller, serviceURL); err != nil {
		return Identity{}, &AuthError{Status: http.StatusBadRequest, Reason: "activity refused", Err: err}
	}
	return id, nil
}

// payload is what is read of a token. The JSON is read strictly: a claim that occurs twice,
// or has another type, makes the token malformed.
type payload struct {
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

// check applies the rules that hold for every token. Its issuer was checked when its key
// was looked up. App ids are GUIDs and compare without regard to case.
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
	case !slices.ContainsFunc(p.Audience, func(aud string) bool { return strings.EqualFold(aud, appID) }):
		return unauthorized("token for another audience")
	default:
		return nil
	}
}

// checkChannel applies the rules on the claims of a channel's token that need no activity.
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

// The methods below make payload a [jwt.Claims]. Its check has all the rules, so the
// parser's own are off.

func (*payload) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (*payload) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (*payload) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (*payload) GetIssuer() (string, error)                   { return "", nil }
func (*payload) GetSubject() (string, error)                  { return "", nil }
func (*payload) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }
