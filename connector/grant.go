package connector

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxTokenReply    = 1 << 20
	maxTokenLife     = 24 * time.Hour
	defaultTokenLife = 10 * time.Minute // when the endpoint does not say
)

// grant is a token and how long it lives.
type grant struct {
	token string
	life  time.Duration
}

// fetch asks for a new token. Its error is a [TokenError].
type fetch func(context.Context) (grant, error)

// clientGrant asks a token endpoint for client credentials (RFC 6749, section 4.4).
type clientGrant struct {
	client   *http.Client
	endpoint string
	form     url.Values // without the proof
	prove    proof
}

// proof returns what shows the endpoint that the request is the app's.
type proof func(ctx context.Context, endpoint string) (url.Values, error)

func newClientGrant(rt http.RoundTripper, login *url.URL, tenant string, form url.Values, prove proof) *clientGrant {
	return &clientGrant{
		client:   noRedirects(rt),
		endpoint: strings.TrimSuffix(login.String(), "/") + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token",
		form:     form,
		prove:    prove,
	}
}

func (c *clientGrant) fetch(ctx context.Context) (grant, error) {
	form, err := c.prove(ctx, c.endpoint)
	if err != nil {
		return grant{}, err
	}
	maps.Copy(form, c.form)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return grant{}, &TokenError{Err: err}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	res, err := c.client.Do(req)
	if err != nil {
		return grant{}, &TokenError{Err: err}
	}
	defer res.Body.Close()
	body, err := readCapped(res.Body, maxTokenReply)
	if err != nil {
		return grant{}, &TokenError{Status: res.StatusCode, Err: err}
	}
	if res.StatusCode != http.StatusOK {
		return grant{}, &TokenError{Status: res.StatusCode, Code: oauthCode(body)}
	}
	return readGrant(body)
}

func readGrant(body []byte) (grant, error) {
	var reply struct {
		Token     string         `json:"access_token"`
		Type      string         `json:"token_type"`
		ExpiresIn jsontext.Value `json:"expires_in"`
	}
	if json.Unmarshal(body, &reply) != nil {
		return grant{}, &TokenError{Status: http.StatusOK, Code: "answer is no token response"}
	}
	if reply.Type != "" && !strings.EqualFold(reply.Type, "Bearer") {
		return grant{}, &TokenError{Status: http.StatusOK, Code: "answer is no bearer token"}
	}
	return grant{token: reply.Token, life: tokenLife(reply.ExpiresIn)}, nil
}

// tokenLife reads expires_in, a number, or a string as the older endpoints
// write it.
func tokenLife(v jsontext.Value) time.Duration {
	n, err := strconv.ParseInt(strings.Trim(string(v), `"`), 10, 64)
	if err != nil || n <= 0 {
		return defaultTokenLife
	}
	return min(time.Duration(min(n, int64(maxTokenLife/time.Second)))*time.Second, maxTokenLife)
}

// oauthCode keeps the codes of an error answer and drops its prose, which
// repeats what was sent.
func oauthCode(body []byte) string {
	var reply struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &reply) != nil {
		return ""
	}
	code := regexp.MustCompile(`^[a-z_]{1,64}$`).FindString(reply.Code)
	entra := regexp.MustCompile(`AADSTS[0-9]{1,12}`).FindString(reply.Description)
	return strings.TrimSpace(code + " " + entra)
}
