package bottest

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
)

// TokenService stands in for the service that signs people in to other services. Nobody is signed in
// at first: see [Sent.SignIn] for what Teams does silently, and [TokenService.Page] for the page behind
// the button of the card. It is safe for concurrent use.
type TokenService struct {
	// URL is the root of the service, for [connector.Config].TokenURL.
	URL string

	mu     sync.Mutex
	decide func(TokenCall) Answer
	tokens map[string]string // of those who are signed in
	codes  map[string]string // that the page has shown
	calls  []TokenCall
}

// TokenCall is a request of the bot to the token service.
type TokenCall struct {
	Method, Path string
	Query        url.Values
	Body         string
}

func (c TokenCall) who() string {
	return c.Query.Get("connectionName") + " of " + c.Query.Get("userId")
}

// Decides makes f decide how each call is answered: with Status, Body, Takes and CutOff. With the zero
// Answer the service answers as it would. A call that f refuses changes nothing.
func (s *TokenService) Decides(f func(TokenCall) Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decide = f
}

// Page signs the person in to the connection on the page behind the card's button, and returns the code
// of six digits that the page shows. The service has the token once the bot has redeemed the code.
func (s *TokenService) Page(person, connection string) (code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code = fmt.Sprintf("%06d", 745254+len(s.codes))
	s.codes[connection+" of "+userID(person)+" "+code] = code
	return code
}

// Token is the person's token for the connection; "": they are not signed in.
func (s *TokenService) Token(person, connection string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens[connection+" of "+userID(person)]
}

// Calls returns the requests so far.
func (s *TokenService) Calls() []TokenCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// ServeHTTP answers as the service does.
func (s *TokenService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body) // what is cut off is no JSON
	c := TokenCall{Method: r.Method, Path: r.URL.Path, Query: r.URL.Query(), Body: string(raw)}
	s.mu.Lock()
	s.calls = append(s.calls, c)
	decide := s.decide
	s.mu.Unlock()
	a := decide(c) // without the lock: it may take time
	if a.Status == 0 && a.Body == "" {
		a.Status, a.Body = s.answer(c)
	}
	select {
	case <-time.After(a.Takes):
	case <-r.Context().Done():
	}
	if a.CutOff {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = io.WriteString(w, a.Body)
}

// answer is what the service answers, and does.
func (s *TokenService) answer(c TokenCall) (status int, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	code := c.Query.Get("code")
	fresh := "token-" + fmt.Sprint(len(s.calls)) + " for " + c.who()
	switch c.Method + " " + c.Path {
	case "GET /api/usertoken/GetToken":
		if _, shown := s.codes[c.who()+" "+code]; shown {
			delete(s.codes, c.who()+" "+code)
			s.tokens[c.who()] = fresh
		} else if code != "" {
			return http.StatusNotFound, ""
		}
	case "POST /api/usertoken/exchange":
		s.tokens[c.who()] = fresh
	case "GET /api/botsignin/GetSignInResource":
		id := fmt.Sprint("exchange-", len(s.calls))
		return http.StatusOK, `{"signInLink":"` + s.URL + `/signin?signin=` + id + `","tokenExchangeResource":{"Id":"` + id + `","Uri":"api://botid-app","ProviderId":"p"}}`
	case "DELETE /api/usertoken/SignOut":
		delete(s.tokens, c.who())
		return http.StatusOK, ""
	default:
		return http.StatusNotFound, ""
	}
	token := s.tokens[c.who()]
	if token == "" {
		return http.StatusNotFound, ""
	}
	raw, _ := json.Marshal(map[string]string{"channelId": c.Query.Get("channelId"), "connectionName": c.Query.Get("connectionName"), "token": token})
	return http.StatusOK, string(raw)
}

// SignInCard is what a client reads of the card that asks a person to sign in.
type SignInCard struct {
	Connection string `json:"connectionName"`
	Text       string `json:"text"`
	Exchange   *struct {
		ID  string `json:"id"`
		URI string `json:"uri"`
	} `json:"tokenExchangeResource"` // nil: it offers no silent sign-in
	Buttons []struct {
		Type  string `json:"type"`
		Title string `json:"title"`
		Value string `json:"value"`
	} `json:"buttons"`
}

// SignInCard returns the card with which the message asks a person to sign in; nil if it has none.
func (s Sent) SignInCard() *SignInCard {
	i := slices.IndexFunc(s.Activity.Attachments, func(a activity.Attachment) bool { return a.ContentType == connector.OAuthCardType })
	var card SignInCard
	if i < 0 || json.Unmarshal(s.Activity.Attachments[i].Content, &card) != nil {
		return nil
	}
	return &card
}

// SignIn does what Teams does when it shows the card: it gets a token of the person for the bot, and
// sends it. The message must be one that a [Chat] returned. It does not check the response.
func (s Sent) SignIn() *Delivery {
	s.chat.kit.t.Helper()
	card := s.SignInCard()
	if card == nil || card.Exchange == nil {
		s.chat.fatal("no card that offers a silent sign-in in %s", s.line())
	}
	return s.chat.Deliver(map[string]any{"type": "invoke", "name": "signin/tokenExchange", "value": map[string]any{
		"id": card.Exchange.ID, "connectionName": card.Connection, "token": "sso-token-of-" + strings.ToLower(s.chat.person),
	}})
}
