package connector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
)

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

// UnmarshalJSON reads the claims.
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
