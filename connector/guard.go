package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/activity"
)

// algorithm is the only one that the Bot Framework's metadata advertises.
const algorithm = "RS256"

// GuardConfig says whom a [Guard] lets in.
type GuardConfig struct {
	// AppID is the bot's own. Empty means local mode: no token is needed, any is
	// ignored, and Hosts must be local as well. Whoever opens a listener without
	// an app id must keep it on loopback.
	AppID string
	// Cloud names the issuer and where its keys are.
	Cloud Cloud
	// Callers come in with tokens of Entra instead of a channel's. The zero value: nobody.
	Callers Callers
	// Hosts are the service URLs that activities may name. Required.
	Hosts *ServiceHosts
	// Transport carries the fetches of metadata and keys. nil: an own one.
	Transport http.RoundTripper
	// Now is the clock of the checks. nil: [time.Now].
	Now func() time.Time
}

// Guard checks the tokens of inbound activities. It may be used concurrently;
// Close ends what it does in the background.
type Guard struct {
	cfg    GuardConfig
	keys   *keySet // nil in local mode
	entra  *entra  // nil: no Callers
	parser *jwt.Parser
	own    *http.Transport // nil when the caller brought one
}

// NewGuard returns a guard, or an error that names every mistake in cfg. No key
// is fetched before the first token asks for one.
func NewGuard(cfg GuardConfig) (*Guard, error) {
	var errs []error
	if cfg.Hosts == nil {
		errs = append(errs, errors.New("no Hosts"))
	} else if cfg.Hosts.local != (cfg.AppID == "") {
		errs = append(errs, errors.New("local hosts go with an empty AppID, and only with that"))
	}
	g := &Guard{cfg: cfg}
	switch {
	case cfg.AppID != "":
		errs = append(errs, g.setUp())
	case cfg.Callers.any():
		errs = append(errs, errors.New("Callers without an AppID"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("guard config: %w", err)
	}
	return g, nil
}

func (g *Guard) setUp() error {
	if g.cfg.Cloud.Issuer == "" {
		return errors.New("Cloud without an issuer")
	}
	metadata, err := trustedURL("openid metadata URL", g.cfg.Cloud.MetadataURL)
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
	g.keys = newKeySet(client, metadata, g.cfg.Now)
	if g.cfg.Callers.any() {
		if g.entra, err = newEntra(g.cfg, client); err != nil {
			return err
		}
	}
	g.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{algorithm}),
		jwt.WithStrictDecoding(),
		jwt.WithoutClaimsValidation(), // payload.check does it
	)
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

// Verify checks the values of the Authorization header as far as that goes
// without the activity: its form, the token's signature, times, issuer and
// audience. Nothing in the token makes it fetch but a key id that is unknown,
// and that rarely. Its errors are [AuthError] values. In local mode the header
// is not looked at.
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
	if err != nil {
		return nil, err
	}
	if err := p.check(g.cfg.AppID, g.cfg.Now()); err != nil {
		return nil, err
	}
	c := &Claims{identity: Identity{AppID: g.cfg.AppID}, key: key, hosts: g.cfg.Hosts}
	if g.entra.issued(&p) {
		c.caller, err = g.entra.caller(&p)
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

// verifySignature reads the token into p and returns the key that signed it.
func (g *Guard) verifySignature(ctx context.Context, token string, p *payload) (*signingKey, error) {
	var key *signingKey
	_, err := g.parser.ParseWithClaims(token, p, func(t *jwt.Token) (any, error) {
		k, err := g.keyOf(ctx, t, p)
		if err != nil {
			return nil, err
		}
		key = k
		return k.public, nil
	})
	if err == nil {
		return key, nil
	}
	var refusal *AuthError
	if errors.As(err, &refusal) {
		return nil, refusal
	}
	return nil, unauthorized(cmp.Or(reasonOf(err), "malformed token"))
}

// keyOf finds the key of a token whose signature was not checked yet. The
// issuer is looked at first: a stranger's token costs no fetch. What it looks at
// is what the signature is then checked over.
func (g *Guard) keyOf(ctx context.Context, t *jwt.Token, p *payload) (*signingKey, error) {
	keys := g.keysOf(p)
	if keys == nil {
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

// keysOf returns the keys of the token's issuer, nil for a stranger.
func (g *Guard) keysOf(p *payload) *keySet {
	switch {
	case p.Issuer == g.cfg.Cloud.Issuer:
		return g.keys
	case g.entra.issued(p):
		return g.entra.keys
	default:
		return nil
	}
}

// reasonOf puts the parser's refusal in constant words, since its text may
// quote the token.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return "invalid signature or algorithm"
	case errors.Is(err, jwt.ErrTokenUnverifiable):
		return "unknown algorithm"
	default:
		return ""
	}
}
