// Package viewer shows operators the turns of a bot in production, on a listener of its own: heads of
// turns, and dead letters with retry and drop. People sign in with Microsoft Entra, and their app
// roles say what they may do. No page has a script.
package viewer

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
	"golang.org/x/oauth2"

	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// The app roles.
const (
	roleRead    = "Turns.Read"    // heads of turns, and dead letters without content
	roleContent = "Turns.Content" // what people and models wrote
	roleAct     = "Turns.Act"     // retry and drop
)

const (
	sessionFor = 8 * time.Hour
	// signInFor is how long a person may take to sign in.
	signInFor = 10 * time.Minute
	// signInWithin limits what the login service may take.
	signInWithin = 10 * time.Second
	maxSessions  = 10_000
	sessionsEach = 32 // places for sessions of one person: a sign-in takes the place of one of their own
	maxBody      = 16 << 10
	maxReason    = 200
	maxDeadShown = 200

	sessionTable                = "viewer-sessions"
	sessionCookie, signInCookie = "__Host-planbot-viewer", "__Host-planbot-sign-in"

	policy = "default-src 'none'; script-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// SignIn is the app registration with which operators sign in. All fields are required.
type SignIn struct {
	LoginURL     string // of Microsoft Entra, such as https://login.microsoftonline.com
	Tenant       string // whose people may sign in: an id, no name
	ClientID     string
	ClientSecret string
	URL          string // where browsers reach the viewer; its redirect address is URL/signed-in
}

// Config configures a Viewer. Every field but SignIn is required.
type Config struct {
	Bot   string
	Store *state.Store // has sessions
	Inbox *inbox.Inbox
	// SignIn says who may look; nil: everybody who reaches the viewer over loopback may do everything.
	SignIn *SignIn
	// ID finds the id of a turn in what a person typed.
	ID func(text string) (string, error)
	// Head returns what is kept about a turn: names and values. The error is [state.ErrNoRow] if that is nothing.
	Head func(ctx context.Context, id string) ([][2]string, error)
	// Dead describes a dead letter, with content only if that is asked for.
	Dead func(w inbox.Waiting, content bool) [][2]string
	// Log gets a line "audit" for each look at content and for each act, whatever its level is.
	Log zerolog.Logger
}

// Viewer is an [http.Handler]. It is safe for concurrent use.
type Viewer struct {
	cfg      Config
	host     string // of SignIn.URL; "": names of loopback
	oauth    oauth2.Config
	verifier *connector.Verifier
	sealer   cipher.AEAD // of sign-ins that have begun
	client   *http.Client
	handler  http.Handler
}

//go:embed style.css
var styleFile []byte

// New returns a Viewer, or an error that names every wrong field of cfg.SignIn. It fetches nothing.
func New(cfg Config) (*Viewer, error) {
	v := &Viewer{cfg: cfg, client: &http.Client{
		Timeout:       signInWithin,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: signInWithin, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if cfg.SignIn != nil {
		s := *cfg.SignIn
		s.Tenant, s.ClientID = strings.ToLower(s.Tenant), strings.ToLower(s.ClientID) // as tokens have them
		v.cfg.SignIn = &s
		at := strings.TrimSuffix(s.LoginURL, "/") + "/" + url.PathEscape(s.Tenant)
		own, err := url.Parse(s.URL)
		if err != nil || own.Host == "" || strings.Trim(own.Path, "/") != "" {
			return nil, errors.New("the viewer's URL has to be a host's address, with nothing after it")
		}
		if v.sealer, err = sealerOf(s.ClientSecret); err != nil {
			return nil, err
		}
		if v.verifier, err = connector.NewVerifier([]string{at + "/v2.0"}, s.ClientID); err != nil {
			return nil, err
		}
		v.host = own.Host
		v.oauth = oauth2.Config{
			ClientID: s.ClientID, ClientSecret: s.ClientSecret, RedirectURL: strings.TrimSuffix(s.URL, "/") + "/signed-in", Scopes: []string{"openid", "profile"},
			Endpoint: oauth2.Endpoint{AuthURL: at + "/oauth2/v2.0/authorize", TokenURL: at + "/oauth2/v2.0/token", AuthStyle: oauth2.AuthStyleInParams},
		}
	}
	mux := http.NewServeMux()
	for pattern, route := range map[string]struct {
		role string // "": nobody has to be signed in
		do   func(*request) error
	}{
		"GET /{$}":                 {roleRead, (*request).start},
		"GET /turns":               {roleRead, (*request).find},
		"GET /turns/{id}":          {roleRead, (*request).turn},
		"POST /turns/{id}/content": {roleContent, (*request).content},
		"POST /turns/{id}/retry":   {roleAct, (*request).retry},
		"POST /turns/{id}/drop":    {roleAct, (*request).drop},
		"GET /sign-in":             {"", (*request).signIn},
		"GET /signed-in":           {"", (*request).signedIn},
		"POST /sign-out":           {"", (*request).signOut},
		"GET /style.css":           {"", (*request).style},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			q := &request{Viewer: v, w: w, r: r}
			q.serve(route.role, route.do)
		})
	}
	v.handler = http.NewCrossOriginProtection().Handler(mux)
	return v, nil
}

// Close closes idle connections.
func (v *Viewer) Close() {
	v.client.CloseIdleConnections()
	if v.verifier != nil {
		v.verifier.Close()
	}
}

// ServeHTTP answers an operator's browser.
func (v *Viewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		w.Header().Set(name, value)
	}
	if !v.hostAllowed(r) {
		http.Error(w, "not the address of this viewer", http.StatusForbidden)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	v.handler.ServeHTTP(w, r)
}

// hostAllowed reports whether the request is for this viewer, and not for a name that somebody made lead
// here. Without sign-in it must not have come through a proxy.
func (v *Viewer) hostAllowed(r *http.Request) bool {
	if v.host != "" {
		return strings.EqualFold(r.Host, v.host)
	}
	if loopback.Proxied(r.Header) {
		return false
	}
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	name, port, err := net.SplitHostPort(r.Host)
	return ok && at.IP.IsLoopback() && err == nil && port == fmt.Sprint(at.Port) && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, name)
}

// session is who looks.
type session struct {
	User   string   `json:"user"` // object id in Entra
	Tenant string   `json:"tenant"`
	Name   string   `json:"name"`
	Roles  []string `json:"roles"`
}

// storedSession is a session as it is stored, with the hash of the secret that its browser has.
type storedSession struct {
	session
	Secret string `json:"secret"`
}

func (s *session) may(role string) bool { return slices.Contains(s.Roles, role) }

// request is one request of a browser.
type request struct {
	*Viewer
	w   http.ResponseWriter
	r   *http.Request
	who *session // nil: nobody is signed in
}

// statusError is an answer that a person may read.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

func needsRole(role string) error {
	return &statusError{http.StatusForbidden, "You need the app role " + role + " for this, beside " + roleRead + "."}
}

func (q *request) serve(role string, do func(*request) error) {
	err := q.identify()
	if err == nil && role != "" {
		switch {
		case q.who == nil && q.r.Method == http.MethodGet:
			http.Redirect(q.w, q.r, "/sign-in?back="+url.QueryEscape(q.r.URL.Path), http.StatusSeeOther)
			return
		case q.who == nil:
			err = &statusError{http.StatusUnauthorized, "You are no longer signed in."}
		case !q.who.may(roleRead) || !q.who.may(role):
			err = needsRole(role)
		}
	}
	if err == nil {
		err = do(q)
	}
	if err == nil {
		return
	}
	status := http.StatusInternalServerError
	said := "This did not work. The log of the bot says why."
	if shown, ok := errors.AsType[*statusError](err); ok {
		status, said = shown.status, shown.text
	} else {
		q.cfg.Log.Error().Err(err).Str("path", q.r.URL.Path).Msg("the viewer could not answer")
	}
	q.show(status, page{Title: http.StatusText(status), Said: said})
}

// identify finds out who looks.
func (q *request) identify() error {
	if q.cfg.SignIn == nil {
		q.who = &session{Name: "loopback, nobody signs in", Roles: []string{roleRead, roleContent, roleAct}}
		return nil
	}
	cookie, err := q.r.Cookie(sessionCookie)
	if err != nil {
		return nil //nolint:nilerr // nobody is signed in
	}
	id, secret, _ := strings.Cut(cookie.Value, ".")
	if id == "" {
		return nil
	}
	row, err := q.cfg.Store.FindRow(q.r.Context(), sessionTable, id)
	if errors.Is(err, state.ErrNoRow) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find a session: %w", err)
	}
	var stored storedSession
	if err := json.Unmarshal([]byte(row.Text), &stored); err != nil {
		return fmt.Errorf("read a session: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(stored.Secret), []byte(hashed(secret))) == 1 {
		q.who = &stored.session
	}
	return nil
}

// hashed is how secrets of browsers are kept.
func hashed(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// page is what a view shows.
type page struct {
	Title, Said, ID string
	Parts           []part
	Dead            []deadLetter
	Content, Act    bool // whether to offer that

	Bot, Who string
	SignsIn  bool
}

type part struct {
	Title string
	Rows  [][2]string
}

type deadLetter struct{ ID, Since, Reason string }

func (q *request) show(status int, p page) {
	p.Bot, p.SignsIn = q.cfg.Bot, q.cfg.SignIn != nil
	if q.who != nil {
		p.Who = cli.OneLine(q.who.Name)
	}
	for i := range p.Parts {
		for j, row := range p.Parts[i].Rows {
			p.Parts[i].Rows[j] = [2]string{row[0], cli.OneLine(row[1])}
		}
		p.Parts[i].Rows = slices.DeleteFunc(p.Parts[i].Rows, func(r [2]string) bool { return r[1] == "" })
	}
	var out bytes.Buffer
	if err := p.html().Render(&out); err != nil {
		q.cfg.Log.Error().Err(err).Msg("a view of the viewer")
		http.Error(q.w, "This did not work.", http.StatusInternalServerError)
		return
	}
	q.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	q.w.WriteHeader(status)
	_, _ = out.WriteTo(q.w) // nobody is left to read an error
}

func (q *request) style() error {
	q.w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, err := q.w.Write(styleFile)
	return err
}

func (q *request) start() error {
	dead, err := q.cfg.Inbox.Dead(q.r.Context())
	if err != nil {
		return err
	}
	p := page{Title: "Find a turn"}
	for _, w := range dead[:min(len(dead), maxDeadShown)] {
		one := deadLetter{ID: w.ID, Since: w.Since.UTC().Format(time.DateTime)}
		for _, row := range q.cfg.Dead(w, false) {
			if row[0] == "reason" {
				one.Reason = cli.OneLine(row[1])
			}
		}
		p.Dead = append(p.Dead, one)
	}
	q.show(http.StatusOK, p)
	return nil
}

func (q *request) find() error {
	id, err := q.cfg.ID(q.r.URL.Query().Get("id"))
	if err != nil {
		return &statusError{http.StatusBadRequest, "That is not the id of a turn."}
	}
	http.Redirect(q.w, q.r, "/turns/"+url.PathEscape(id), http.StatusSeeOther)
	return nil
}

func (q *request) turn() error { return q.showTurn(false, "") }

// showTurn shows what is known about the turn of the path.
func (q *request) showTurn(content bool, said string) error {
	id := q.r.PathValue("id")
	p := page{Title: "Turn " + cli.OneLine(id), ID: id, Said: said}
	head, err := q.cfg.Head(q.r.Context(), id)
	if err != nil && !errors.Is(err, state.ErrNoRow) {
		return err
	}
	if err == nil {
		p.Parts = append(p.Parts, part{"How it ended", head})
	}
	dead, found, err := q.dead(id)
	if err != nil {
		return err
	}
	if found {
		p.Parts = append(p.Parts, part{"Dead letter", q.cfg.Dead(dead, content)})
		p.Content, p.Act = !content && q.who.may(roleContent), q.who.may(roleAct)
	}
	if len(p.Parts) == 0 && said == "" {
		return &statusError{http.StatusNotFound, "Nothing is kept about this turn: it is not over, or it was too long ago, or the person had it deleted."}
	}
	q.show(http.StatusOK, p)
	return nil
}

func (q *request) dead(id string) (w inbox.Waiting, found bool, err error) {
	all, err := q.cfg.Inbox.Dead(q.r.Context())
	i := slices.IndexFunc(all, func(w inbox.Waiting) bool { return w.ID == id })
	if i >= 0 {
		w = all[i]
	}
	return w, i >= 0, err
}

// audit writes down what the person does, before they do it.
func (q *request) audit(what, reason string) {
	q.cfg.Log.Log().Str("audit", "viewer").Str("what", what).Str("turn", q.r.PathValue("id")).Str("user", q.who.User).Str("tenant", q.who.Tenant).
		Str("name", q.who.Name).Str("reason", reason).Msg("audit")
}

func (q *request) content() error {
	_, found, err := q.dead(q.r.PathValue("id"))
	if err != nil {
		return err
	}
	if !found {
		return &statusError{http.StatusNotFound, "This is no dead letter, so there is no content."}
	}
	q.audit("content", "")
	return q.showTurn(true, "")
}

// act checks the form of an act, and writes the act down.
func (q *request) act(what string) (w inbox.Waiting, err error) {
	reason := strings.TrimSpace(q.r.PostFormValue("reason"))
	if reason == "" || len(reason) > maxReason {
		return w, &statusError{http.StatusBadRequest, "Say why, in at most 200 characters."}
	}
	w, found, err := q.dead(q.r.PathValue("id"))
	if err != nil {
		return w, err
	}
	if !found {
		return w, &statusError{http.StatusNotFound, "This is no dead letter. Perhaps somebody was faster."}
	}
	q.audit(what, reason)
	return w, nil
}

func (q *request) retry() error {
	w, err := q.act("retry")
	if err == nil {
		err = q.cfg.Inbox.Wake(q.r.Context(), w, nil)
	}
	if err != nil {
		return err
	}
	return q.showTurn(false, "It was put back. A bot goes on where it was.")
}

func (q *request) drop() error {
	id := q.r.PathValue("id")
	if strings.TrimSpace(q.r.PostFormValue("typed")) != id {
		return &statusError{http.StatusBadRequest, "To forget a turn, type its id."}
	}
	w, err := q.act("drop")
	if err != nil {
		return err
	}
	dropped, err := q.cfg.Inbox.Drop(q.r.Context(), w.Queue, w.ID)
	if err != nil {
		return err
	}
	if !dropped {
		return &statusError{http.StatusNotFound, "This is no dead letter. Perhaps somebody was faster."}
	}
	return q.showTurn(false, "It is forgotten.")
}

// signInFlow is a sign-in that has begun. Encrypted, it is a cookie: anybody may begin one, so nothing of it is
// stored here. The state of OAuth, which others read, is the cookie's hash.
type signInFlow struct {
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Back     string    `json:"back"`
	Until    time.Time `json:"until"`
}

// sealerOf encrypts with a key that all replicas make of their secret.
func sealerOf(secret string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "planbot viewer sign-in", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal writes the flow as the value of a cookie.
func (v *Viewer) seal(flow signInFlow) (string, error) {
	text, err := json.Marshal(flow)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(v.sealer.Seal(nil, nil, text, []byte(signInCookie))), nil
}

// unseal reads what seal wrote. ok is false for all else, and when it is too old.
func (v *Viewer) unseal(value string) (flow signInFlow, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return flow, false
	}
	text, err := v.sealer.Open(nil, nil, sealed, []byte(signInCookie))
	if err != nil || json.Unmarshal(text, &flow) != nil {
		return flow, false
	}
	return flow, time.Now().Before(flow.Until)
}

func (q *request) cookie(name, value string, lasts time.Duration) {
	http.SetCookie(q.w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(lasts.Seconds()), Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

func (q *request) signIn() error {
	if q.cfg.SignIn == nil {
		http.Redirect(q.w, q.r, "/", http.StatusSeeOther)
		return nil
	}
	flow := signInFlow{Nonce: crand.Text(), Verifier: oauth2.GenerateVerifier(), Back: "/", Until: time.Now().Add(signInFor)}
	if back := q.r.URL.Query().Get("back"); strings.HasPrefix(back, "/turns/") && len(back) < 200 {
		flow.Back = (&url.URL{Path: back}).EscapedPath()
	}
	sealed, err := q.seal(flow)
	if err != nil {
		return err
	}
	q.cookie(signInCookie, sealed, signInFor)
	http.Redirect(q.w, q.r, q.oauth.AuthCodeURL(hashed(sealed), oauth2.S256ChallengeOption(flow.Verifier), oauth2.SetAuthURLParam("nonce", flow.Nonce),
		oauth2.SetAuthURLParam("response_mode", "query")), http.StatusSeeOther)
	return nil
}

var errNotSignedIn = &statusError{http.StatusForbidden, "You could not be signed in. Please try again."}

func (q *request) signedIn() error {
	if q.cfg.SignIn == nil {
		return &statusError{http.StatusNotFound, "Nobody signs in here."}
	}
	cookie, err := q.r.Cookie(signInCookie)
	returned, code := q.r.URL.Query().Get("state"), q.r.URL.Query().Get("code")
	if err != nil || code == "" || subtle.ConstantTimeCompare([]byte(hashed(cookie.Value)), []byte(returned)) != 1 {
		return q.refused("no sign-in of this browser", nil)
	}
	flow, ok := q.unseal(cookie.Value)
	if !ok {
		return q.refused("the sign-in is over", nil)
	}
	q.cookie(signInCookie, "", -time.Second) // it counts once, as its code does
	ctx, cancel := context.WithTimeout(context.WithValue(q.r.Context(), oauth2.HTTPClient, q.client), signInWithin)
	defer cancel()
	token, err := q.oauth.Exchange(ctx, code, oauth2.VerifierOption(flow.Verifier))
	if err != nil {
		why := "no answer"
		if of, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // its text has the answer
			why = of.ErrorCode
		}
		return q.refused("the code was not taken", errors.New(cli.OneLine(why)))
	}
	raw, _ := token.Extra("id_token").(string)
	who, err := q.person(ctx, raw, flow.Nonce)
	if err != nil {
		return q.refused("the token is not right", err)
	}
	if len(who.Roles) == 0 { // nothing is stored of somebody who may see nothing
		return needsRole(roleRead)
	}
	secret := crand.Text() + crand.Text()
	id := hashed(who.Tenant + "\n" + who.User + "\n" + strconv.Itoa(mrand.IntN(sessionsEach)))
	text, err := json.Marshal(storedSession{*who, hashed(secret)})
	if err == nil {
		err = q.cfg.Store.PutRow(ctx, sessionTable, maxSessions, state.Row{ID: id, Owner: who.User, Text: string(text), Until: time.Now().Add(sessionFor)})
	}
	if err != nil {
		return err
	}
	q.cookie(sessionCookie, id+"."+secret, sessionFor)
	q.cfg.Log.Log().Str("audit", "viewer").Str("what", "sign-in").Str("user", who.User).Str("tenant", who.Tenant).Str("name", who.Name).Strs("roles", who.Roles).Msg("audit")
	http.Redirect(q.w, q.r, flow.Back, http.StatusSeeOther)
	return nil
}

// refused tells the operator why, and the person only that.
func (q *request) refused(why string, err error) error {
	q.cfg.Log.Warn().Err(err).Str("why", why).Msg("sign-in to the viewer refused")
	return errNotSignedIn
}

// person reads an ID token: signature, issuer, audience and times by the verifier, the rest here.
func (q *request) person(ctx context.Context, token, nonce string) (*session, error) {
	bearer, err := q.verifier.VerifyID(ctx, token)
	if err != nil {
		return nil, err
	}
	var claims struct {
		Audience string   `json:"aud"` // only one
		Nonce    string   `json:"nonce"`
		Name     string   `json:"preferred_username"`
		Roles    []string `json:"roles"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err == nil {
		err = strict.Unmarshal(raw, &claims) // which reads names exactly
	}
	switch {
	case err != nil:
		return nil, errors.New("its claims cannot be read")
	case claims.Audience != q.cfg.SignIn.ClientID:
		return nil, errors.New("it is for others, too")
	case subtle.ConstantTimeCompare([]byte(claims.Nonce), []byte(nonce)) != 1:
		return nil, errors.New("it has another nonce")
	case !strings.EqualFold(bearer.Tenant, q.cfg.SignIn.Tenant):
		return nil, errors.New("it is of another tenant")
	case bearer.Person == "":
		return nil, errors.New("it names no person")
	}
	who := &session{User: bearer.Person, Tenant: bearer.Tenant, Name: cli.OneLine(claims.Name)}
	for _, role := range []string{roleRead, roleContent, roleAct} {
		if slices.Contains(claims.Roles, role) {
			who.Roles = append(who.Roles, role)
		}
	}
	return who, nil
}

func (q *request) signOut() error {
	if cookie, err := q.r.Cookie(sessionCookie); err == nil && q.who != nil { // who is known has the session's secret
		id, _, _ := strings.Cut(cookie.Value, ".")
		if err := q.cfg.Store.DropRow(q.r.Context(), sessionTable, id); err != nil {
			return err
		}
	}
	q.cookie(sessionCookie, "", -time.Second)
	q.who = nil
	q.show(http.StatusOK, page{Title: "Signed out", Said: "You are signed out here. Entra may still know you."})
	return nil
}
