package connector

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/loopback"
)

// The token service signs people in to other services and keeps their tokens. A connection is an
// OAuth connection of the Azure Bot resource, by name.

var (
	// ErrNoUserToken says that the token service has no token of that person for the connection, or
	// that a code was wrong.
	ErrNoUserToken = errors.New("the person is not signed in")
	// ErrNoTokenService says that nobody can be signed in there: the bot has no token service, or the
	// channel does not prove who a person is. That is so for a bot that calls this one, and for people
	// of Direct Line or Web Chat whose id the channel did not check (it begins with "dl_" if it did).
	ErrNoTokenService = errors.New("people cannot be signed in here")
)

// ScopeError says that a service takes the token of a person, but wants more scopes for a call, which it has
// not made (RFC 6750, insufficient_scope).
type ScopeError struct {
	Scopes []string // that the call needs; nil: the service does not say
}

func (e *ScopeError) Error() string {
	return "the service wants more rights of the person: " + cmp.Or(strings.Join(e.Scopes, " "), "it does not say which")
}

const (
	userTokenTries   = 2
	userTokenTimeout = 4 * time.Second // one try: a client that signs in waits for the answer
	userTokenPause   = 250 * time.Millisecond
)

// UserToken is a person's token for another service. Whatever prints, encodes or logs it shows only
// that there is one; [UserToken.Secret] returns the token itself. The zero value is no token.
type UserToken struct {
	Connection string
	Expires    time.Time // zero: the token service did not say

	secret func() string // a function shows nothing of the token, however it is printed
}

// Secret is the token, for the Authorization header of a request. Never store or log it.
func (t UserToken) Secret() string {
	if t.secret == nil {
		return ""
	}
	return t.secret()
}

const redactedToken = "[user token]"

// String does not show the token. Nor do the other forms of the value.
func (t UserToken) String() string { return redactedToken }

// Format writes String for all verbs.
func (t UserToken) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(redactedToken)) }

// MarshalText returns String. It is also the value's JSON.
func (t UserToken) MarshalText() ([]byte, error) { return []byte(redactedToken), nil }

// MarshalZerologObject logs the connection.
func (t UserToken) MarshalZerologObject(e *zerolog.Event) { e.Str("connection", t.Connection) }

// NewUserToken hides the secret in a token. It is for a token that another service gave, and for tests.
func NewUserToken(connection, secret string, expires time.Time) UserToken {
	return UserToken{Connection: connection, Expires: expires, secret: func() string { return secret }}
}

// expiry reads when a token expires; zero: the service does not say.
func expiry(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t
}

// UserToken returns the token of ref's user for the connection. code is the one that the sign-in page
// showed them; "": they are signed in already. [ErrNoUserToken]: they are not, or the code is wrong.
// The other errors are those of every call of the token service: [ErrNoTokenService], an [*Error] or
// why there was no answer. A call is tried twice, for four seconds each. No error contains a token or
// a code.
func (c *Client) UserToken(ctx context.Context, ref activity.Reference, connection, code string) (UserToken, error) {
	k := tokenCall{op: "get a user's token", method: http.MethodGet, path: "/api/usertoken/GetToken", query: ofUser(ref, connection)}
	if code != "" {
		k.query.Set("code", code)
	}
	return c.userToken(ctx, ref, k, connection)
}

// ExchangeToken signs ref's user in with the token that their Teams client got for the bot. An
// [*Error] with the status 400, 404, 409 or 412 says that they have to consent first, or that the
// connection is set up wrongly.
func (c *Client) ExchangeToken(ctx context.Context, ref activity.Reference, connection, token string) (UserToken, error) {
	k := tokenCall{op: "exchange a user's token", method: http.MethodPost, path: "/api/usertoken/exchange", query: ofUser(ref, connection)}
	if err := k.write(map[string]string{"token": token}); err != nil {
		return UserToken{}, err
	}
	return c.userToken(ctx, ref, k, connection)
}

func (c *Client) userToken(ctx context.Context, ref activity.Reference, k tokenCall, connection string) (UserToken, error) {
	var got struct {
		Token      string `json:"token"`
		Expiration string `json:"expiration"`
	}
	err := c.askTokenService(ctx, ref, k, &got)
	refused, ok := errors.AsType[*Error](err)
	switch {
	case ok && refused.Status == http.StatusNotFound && k.method == http.MethodGet:
		return UserToken{}, fmt.Errorf("%s: %w", k.op, ErrNoUserToken)
	case err != nil:
		return UserToken{}, err
	case got.Token == "":
		return UserToken{}, fmt.Errorf("%s: %w", k.op, ErrNoUserToken)
	}
	return NewUserToken(connection, got.Token, expiry(got.Expiration)), nil
}

// SignInResource is how a person signs in: a page, and in Teams an exchange without one.
type SignInResource struct {
	Link     string `json:"signInLink"`
	Exchange struct {
		ID       string `json:"id"`
		URI      string `json:"uri"`
		Provider string `json:"providerId,omitempty"`
	} `json:"tokenExchangeResource"`
	Post struct {
		URL string `json:"sasUrl"`
	} `json:"tokenPostResource"`
	// Browser says that Link is no page of the token service: people open it in a browser.
	Browser bool `json:"-"`
}

// OAuthCardType is the content type of the card with which a person signs in.
const OAuthCardType = "application/vnd.microsoft.card.oauth"

// Card is the card with which a person signs in: a text and a button with that title. silent offers
// the client to sign in without asking, which it can do in personal and group chats of Teams.
func (r SignInResource) Card(connection, text, title string, silent bool) activity.Attachment {
	if r.Browser {
		raw, err := json.Marshal(map[string]any{"text": text, "buttons": []map[string]string{{"type": "openUrl", "title": title, "value": r.Link}}}, json.Deterministic(true))
		if err != nil {
			panic(err) // texts always encode
		}
		return activity.Attachment{ContentType: "application/vnd.microsoft.card.signin", Content: raw}
	}
	content := map[string]any{
		"text": text, "connectionName": connection,
		"buttons": []map[string]string{{"type": "signin", "title": title, "value": r.Link}},
	}
	if silent && r.Exchange.URI != "" { // Teams refuses a card with null in place of either
		content["tokenExchangeResource"] = r.Exchange
	}
	if r.Post.URL != "" {
		content["tokenPostResource"] = r.Post
	}
	raw, err := json.Marshal(content, json.Deterministic(true))
	if err != nil {
		panic(err) // texts always encode
	}
	return activity.Attachment{ContentType: OAuthCardType, Content: raw}
}

// SignInResource returns how ref's user can sign in to the connection. The link is theirs alone.
func (c *Client) SignInResource(ctx context.Context, ref activity.Reference, connection string) (r SignInResource, err error) {
	const op = "get a sign-in link"
	who := ref
	who.ChannelID = tokenChannel(ref)
	state, err := json.Marshal(map[string]any{"connectionName": connection, "conversation": who, "msAppId": c.cfg.AppID}, json.Deterministic(true))
	if err != nil {
		return r, fmt.Errorf("%s: %w: %w", op, ErrBadCall, err)
	}
	err = c.askTokenService(ctx, ref, tokenCall{
		op: op, method: http.MethodGet, path: "/api/botsignin/GetSignInResource",
		query: url.Values{"state": {base64.StdEncoding.EncodeToString(state)}},
	}, &r)
	if err != nil {
		return r, err
	}
	link, err := parseURL(r.Link)
	if err != nil || link.Scheme != "https" && !loopback.IsHost(link.Hostname()) { // an error may quote the link
		return r, fmt.Errorf("%s: the answer has no usable link", op)
	}
	return r, nil
}

// SignOutUser deletes the token of ref's user for the connection. There need not be one.
func (c *Client) SignOutUser(ctx context.Context, ref activity.Reference, connection string) error {
	err := c.askTokenService(ctx, ref, tokenCall{
		op: "sign a user out", method: http.MethodDelete, path: "/api/usertoken/SignOut", query: ofUser(ref, connection),
	}, nil)
	if refused, ok := errors.AsType[*Error](err); ok && refused.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// tokenCall is a call of the token service.
type tokenCall struct {
	op, method, path string
	query            url.Values
	body             []byte
}

func (k *tokenCall) write(v any) (err error) {
	if k.body, err = json.Marshal(v); err != nil {
		return fmt.Errorf("%s: %w", k.op, ErrBadCall) // without what it was about
	}
	return nil
}

func ofUser(ref activity.Reference, connection string) url.Values {
	return url.Values{"userId": {ref.User.ID}, "connectionName": {connection}, "channelId": {tokenChannel(ref)}}
}

// tokenChannel is the channel without what it is a part of, such as msteams of msteams:COPILOT.
func tokenChannel(ref activity.Reference) string {
	channel, _, _ := strings.Cut(ref.ChannelID, ":")
	return channel
}

// provesPeople reports whether the channel proves who the user of ref is. Whoever may claim to be
// another would get their token.
func (c *Client) provesPeople(ctx context.Context, ref activity.Reference) bool {
	switch ref.ChannelID {
	case "directline", "webchat":
		return c.tokens == nil || strings.HasPrefix(ref.User.ID, "dl_")
	}
	return ref.User.ID != "" && callerOf(ctx) == ""
}

// askTokenService makes the call and reads its answer into v, unless that is nil. Names in answers
// are of any letter case.
func (c *Client) askTokenService(ctx context.Context, ref activity.Reference, k tokenCall, v any) error {
	if c.cfg.TokenURL == "" || !c.provesPeople(ctx, ref) {
		return fmt.Errorf("%s: %w", k.op, ErrNoTokenService)
	}
	var reply []byte
	var err error
	renewed := c.tokens == nil
	for n := 1; ; n++ {
		reply, err = c.tryTokenService(ctx, k)
		refused, answered := errors.AsType[*Error](err)
		_, noToken := errors.AsType[*tokenError](err)
		again := err != nil && !noToken
		switch {
		case answered && refused.Status == http.StatusUnauthorized:
			again, renewed = !renewed, true
		case answered:
			again = refused.Status >= http.StatusInternalServerError || refused.Status == http.StatusTooManyRequests
		}
		if n == userTokenTries || !again || sleep(ctx, userTokenPause) != nil {
			break
		}
	}
	if err != nil || v == nil || len(bytes.TrimSpace(reply)) == 0 {
		return err
	}
	if json.Unmarshal(reply, v, json.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(true)) != nil {
		return fmt.Errorf("%s: the answer cannot be read", k.op) // an error of the decoder may quote a token
	}
	return nil
}

// tryTokenService makes the call once.
func (c *Client) tryTokenService(ctx context.Context, k tokenCall) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, userTokenTimeout)
	defer cancel()
	token, err := c.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op, err)
	}
	req, err := http.NewRequestWithContext(ctx, k.method, c.cfg.TokenURL+k.path+"?"+k.query.Encode(), bytes.NewReader(k.body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", k.op, ErrBadCall) // the address may have a code
	}
	req.Header.Set("Accept", "application/json")
	if k.body != nil {
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	res, err := c.roundTripBy(c.trusted, k.op, req, token)
	if refused, ok := errors.AsType[*Error](err); ok {
		refused.Message = "" // it may quote what was sent
	}
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := readCapped(res.Body, maxReplyBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: read the answer: %w", k.op, err)
	}
	return body, nil
}
