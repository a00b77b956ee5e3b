package connector

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"

	"github.com/planbot-go/planbot/activity"
)

// clockSkew is how far the clocks of the bot and the issuer may differ.
const clockSkew = 300 // seconds

// maxChannelBytes is how long the name of a channel may be that one of the [Callers] makes
// up: with the caller's id it has to be an id still.
const maxChannelBytes = activity.MaxIDBytes / 2

// Identity is who stands behind an activity that was let in.
type Identity struct {
	// AppID is the bot that the token was made for; "" in local mode.
	AppID string
	// CallerID replaces the callerId of the wire, which nothing may believe. For one of
	// the [Callers] it names its app, see [activity.Activity.CallerApp].
	CallerID string
	// ServiceURL is where replies may go: signed for by the channel, or checked
	// to be local or, from one of the Callers, listed.
	ServiceURL string
	// Local is true when nobody was identified: the mode without an app id.
	Local bool
}

// Claims are the verified statements of a token, before the activity that came
// with it was read. They open nothing until Permit has seen that activity. They
// never change and may be used concurrently.
type Claims struct {
	identity Identity
	key      *signingKey
	caller   string // app id of one of the Callers; "": a channel, or nobody
	hosts    *ServiceHosts
}

// Identity returns who the token is from. In local mode it is nobody.
func (c *Claims) Identity() Identity { return c.identity }

// Permit checks the activity against the token that it came with: the service
// URL must be the one that the token names, the token's key must be endorsed
// for the channel, and the service URL must be one that the bot may send to.
// In local mode only the last counts; for [Callers], too, but they may only name hosts
// that the operator listed. Its errors are [AuthError] values.
func (c *Claims) Permit(a *activity.Activity) error {
	_, err := c.admit(a.DeliveryMode, a.ServiceURL, a.ChannelID)
	return err
}

func (c *Claims) admit(deliveryMode, serviceURL, channel string) (Identity, error) {
	if !c.identity.Local && c.caller == "" {
		if !sameServiceURL(c.identity.ServiceURL, serviceURL) {
			return Identity{}, unauthorized("the token is for another service url")
		}
		if !c.key.endorses(channel) {
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

// payload is what is read of a token. The JSON is read strictly: a claim that
// occurs twice, or has another type, makes the token malformed.
type payload struct {
	Issuer          string         `json:"iss"`
	Audience        jsontext.Value `json:"aud"`
	Expires         jsontext.Value `json:"exp"`
	NotBefore       jsontext.Value `json:"nbf"`
	ServiceURL      string         `json:"serviceurl"`
	AppID           string         `json:"appid"`
	AuthorizedParty string         `json:"azp"`
	Version         string         `json:"ver"`
	Tenant          string         `json:"tid"`
	Scopes          jsontext.Value `json:"scp"`
	Kind            string         `json:"idtyp"`
}

// UnmarshalJSON reads the claims strictly.
func (p *payload) UnmarshalJSON(data []byte) error {
	type plain payload
	return json.Unmarshal(data, (*plain)(p))
}

// check applies the rules that hold for every token. The issuer was checked when its
// key was looked for.
func (p *payload) check(appID string, now time.Time) error {
	expires, errExp := seconds(p.Expires)
	notBefore, errNbf := seconds(p.NotBefore)
	switch t := now.Unix(); {
	case errExp != nil:
		return unauthorized("exp is no time")
	case errNbf != nil:
		return unauthorized("nbf is no time")
	case t-clockSkew >= expires:
		return unauthorized("token expired")
	case t+clockSkew < notBefore:
		return unauthorized("token not valid yet")
	case !p.isFor(appID):
		return unauthorized("token for another audience")
	default:
		return nil
	}
}

// checkChannel applies the rules on the claims of a channel's token that need no
// activity.
func (p *payload) checkChannel(appID string) error {
	switch {
	case foreign(p.AppID, appID) || foreign(p.AuthorizedParty, appID):
		return unauthorized("token of another bot")
	case p.ServiceURL == "":
		return unauthorized("token without serviceurl")
	default:
		return nil
	}
}

// isFor reports whether the audience, a string or an array of strings, holds
// the bot. App ids are GUIDs and compare without regard to case.
func (p *payload) isFor(appID string) bool {
	var one string
	if p.Audience.Kind() == '"' {
		return json.Unmarshal(p.Audience, &one) == nil && sameID(one, appID)
	}
	var many []string
	if p.Audience.Kind() != '[' || json.Unmarshal(p.Audience, &many) != nil {
		return false
	}
	found := false
	for _, aud := range many {
		found = found || sameID(aud, appID)
	}
	return found
}

func foreign(claim, appID string) bool {
	return claim != "" && !sameID(claim, appID)
}

// seconds reads a NumericDate (RFC 7519): a finite number whose whole seconds
// fit an int64.
func seconds(v jsontext.Value) (int64, error) {
	if v.Kind() != '0' {
		return 0, errors.New("not a number")
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f >= math.MaxInt64 || f <= math.MinInt64 {
		return 0, errors.New("does not fit")
	}
	return int64(math.Floor(f)), nil
}

// The methods below make payload a [jwt.Claims]; its times and names are
// checked by check, so that the parser's own checks stay off.

func (*payload) GetExpirationTime() (*jwt.NumericDate, error) { return nil, nil }
func (*payload) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (*payload) GetNotBefore() (*jwt.NumericDate, error)      { return nil, nil }
func (*payload) GetIssuer() (string, error)                   { return "", nil }
func (*payload) GetSubject() (string, error)                  { return "", nil }
func (*payload) GetAudience() (jwt.ClaimStrings, error)       { return nil, nil }
