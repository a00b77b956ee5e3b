package connector

import (
	"context"
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

// secretGrant asks a token endpoint for client credentials with a password
// (RFC 6749, section 4.4).
type secretGrant struct {
	client   *http.Client
	endpoint string
	form     string
}

func newSecretGrant(rt http.RoundTripper, login *url.URL, tenant string, id Credentials, scope string) *secretGrant {
	form := url.Values{
		"grant_type":    {"client_credentials"},
		"client_id":     {id.AppID},
		"client_secret": {id.Password},
		"scope":         {scope},
	}
	return &secretGrant{
		client:   noRedirects(rt),
		endpoint: strings.TrimSuffix(login.String(), "/") + "/" + url.PathEscape(tenant) + "/oauth2/v2.0/token",
		form:     form.Encode(),
	}
}

func (s *secretGrant) fetch(ctx context.Context) (grant, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, strings.NewReader(s.form))
	if err != nil {
		return grant{}, &TokenError{Err: err}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	res, err := s.client.Do(req)
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
