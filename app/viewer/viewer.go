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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	strict "github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
	"golang.org/x/oauth2"
	g "maragu.dev/gomponents"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot/heads"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/markup"
	h "github.com/planbot-go/planbot/internal/markup/html"
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
	sessionFor   = 8 * time.Hour
	signInFor    = 10 * time.Minute // how long a person may take to sign in
	signInWithin = 10 * time.Second // limits what the login service may take
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

func (p page) html() g.Node {
	return h.Doctype(h.HTML(
		h.Lang("en"),
		h.Head(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.TitleEl(g.Text(p.Title)),
			h.Link(h.Rel("stylesheet"), markup.Href("/style.css")),
		),
		h.Body(
			h.Header(
				h.A(markup.Href("/"), g.Text(p.Bot+": turns")),
				g.If(p.Who != "", h.Span(g.Text(p.Who))),
				g.If(p.Who != "" && p.SignsIn, h.Form(h.Method("post"), markup.Action("/sign-out"), h.Button(g.Text("Sign out")))),
			),
			h.Main(
				h.H1(g.Text(p.Title)),
				g.If(p.Said != "", h.P(h.Role("status"), g.Text(p.Said))),
				g.If(p.Who != "", p.search()),
				g.Map(p.Parts, part.html),
				g.If(len(p.Dead) > 0, deadLetters(p.Dead)),
				g.If(p.Content, h.Form(
					h.Method("post"), markup.Action(markup.At("/turns", p.ID, "content")),
					h.Button(g.Text("Show what people wrote")), g.Text(" "), h.Small(g.Text("This look is written down.")),
				)),
				g.If(p.Act, p.acts()),
			),
		),
	))
}

func (p page) search() g.Node {
	return h.Form(
		h.Method("get"), markup.Action("/turns"), h.Role("search"),
		h.Label(h.For("id"), g.Text("Turn id, or the bot's message that has it")),
		h.Input(h.ID("id"), h.Name("id"), h.Required(), h.MaxLength("2000"), h.AutoComplete("off"), h.Value(p.ID)),
		h.Button(g.Text("Find")),
	)
}

func (p part) html() g.Node {
	return g.Group{
		h.H2(g.Text(p.Title)),
		h.Table(h.TBody(g.Map(p.Rows, func(row [2]string) g.Node {
			return h.Tr(h.Th(h.Scope("row"), g.Text(row[0])), h.Td(g.Text(row[1])))
		}))),
	}
}

func deadLetters(dead []deadLetter) g.Node {
	head := func(text string) g.Node { return h.Th(h.Scope("col"), g.Text(text)) }
	return g.Group{
		h.H2(g.Text("Dead letters")),
		h.Table(
			h.THead(h.Tr(head("Turn"), head("Since"), head("Reason"))),
			h.TBody(g.Map(dead, func(d deadLetter) g.Node {
				return h.Tr(h.Td(h.A(markup.Href(markup.At("/turns", d.ID)), g.Text(d.ID))), h.Td(g.Text(d.Since)), h.Td(g.Text(d.Reason)))
			})),
		),
	}
}

// acts are the forms with which an operator retries a turn, or forgets it.
func (p page) acts() g.Node {
	reason := func(id string) g.Node {
		return g.Group{
			h.Label(h.For(id), g.Text("Reason")), g.Text(" "),
			h.Input(h.ID(id), h.Name("reason"), h.Required(), h.MaxLength(strconv.Itoa(maxReason))),
		}
	}
	return g.Group{
		h.H2(g.Text("Act")),
		h.Form(
			h.Method("post"), markup.Action(markup.At("/turns", p.ID, "retry")),
			reason("why-retry"), g.Text(" "), h.Button(g.Text("Retry")),
		),
		h.Form(
			h.Method("post"), markup.Action(markup.At("/turns", p.ID, "drop")),
			reason("why-drop"), g.Text(" "),
			h.Label(h.For("typed"), g.Text("Type "+p.ID+" to forget this turn for good")), g.Text(" "),
			h.Input(h.ID("typed"), h.Name("typed"), h.Required(), h.AutoComplete("off")), g.Text(" "), h.Button(g.Text("Drop")),
		),
	}
}

type settings struct {
	Addr   string `env:"BOT_VIEWER_ADDR" else:"no viewer" help:"host:port of the pages where operators look at turns; only loopback without the other viewer settings"`
	URL    string `env:"BOT_VIEWER_URL" url:"https" needs:"BOT_VIEWER_ADDR" else:"none" help:"where browsers reach the viewer, such as https://turns.example.com; its redirect address in Entra is that plus /signed-in"`
	Tenant string `env:"BOT_VIEWER_TENANT_ID" needs:"BOT_VIEWER_ADDR" else:"none" help:"id of the tenant whose people may sign in to the viewer"`
	Client string `env:"BOT_VIEWER_CLIENT_ID" needs:"BOT_VIEWER_ADDR" else:"none" help:"app registration of the viewer, with the app roles Turns.Read, Turns.Content and Turns.Act"`
	Secret string `env:"BOT_VIEWER_CLIENT_SECRET" secret:"true" needs:"BOT_VIEWER_ADDR" else:"none" help:"client secret of that app registration"`
}

// Feature serves the viewer at BOT_VIEWER_ADDR.
func Feature() app.Feature {
	s := &settings{}
	return app.Feature{Name: "viewer", Settings: s, Check: s.check, Serve: s.serve}
}

var isGUID = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// check: operators sign in, unless only this machine reaches the viewer.
func (s *settings) check(v app.Values) error {
	if s.Addr == "" {
		return nil
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	host, port, err := net.SplitHostPort(s.Addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		fault("BOT_VIEWER_ADDR: %q is not host:port", s.Addr)
	}
	var missing []string
	all := [][2]string{
		{"BOT_VIEWER_URL", s.URL}, {"BOT_VIEWER_TENANT_ID", s.Tenant}, {"BOT_VIEWER_CLIENT_ID", s.Client}, {"BOT_VIEWER_CLIENT_SECRET", s.Secret},
	}
	for _, one := range all {
		if one[1] == "" && !v.Faulty(one[0]) {
			missing = append(missing, one[0])
		}
	}
	local := len(missing) == len(all) && loopback.IsHost(host)
	if len(missing) > 0 && !local && err == nil {
		fault("BOT_VIEWER_ADDR: operators have to sign in, unless it is on loopback and none of its other settings is there: set %s", strings.Join(missing, ", "))
	}
	if s.Tenant != "" && !isGUID.MatchString(s.Tenant) {
		fault("BOT_VIEWER_TENANT_ID: is no GUID: the viewer is for one tenant, by its id")
	}
	if u, err := url.Parse(s.URL); err == nil && strings.Trim(u.Path, "/") != "" {
		fault("BOT_VIEWER_URL: has a path; the viewer has a host of its own")
	}
	if v.Text("BOT_LOG_LEVEL") == "disabled" {
		fault("BOT_VIEWER_ADDR: contradicts BOT_LOG_LEVEL=disabled: the log has who looked at what")
	}
	for _, other := range [][2]string{{"BOT_ADDR, PORT", v.Listen()}, {"BOT_METRICS_ADDR", v.Text("BOT_METRICS_ADDR")}} {
		_, taken, err := net.SplitHostPort(other[1])
		if err == nil && taken == port && port != "0" {
			fault("BOT_VIEWER_ADDR: %s has the same port as %s", s.Addr, other[0])
		}
	}
	return errors.Join(faults...)
}

// serve serves the viewer until the program ends.
func (s *settings) serve(ctx context.Context, p *app.Program) error {
	if s.Addr == "" {
		return nil
	}
	store := p.Bot().Store()
	in, err := p.OpenInbox(ctx)
	if err != nil {
		return err
	}
	cfg := Config{
		Bot:   p.Described().Name,
		Store: store,
		Inbox: in,
		Log:   *p.Log(),
		ID:    turnview.ID,
		Head: func(ctx context.Context, id string) ([][2]string, error) {
			head, err := heads.Read(ctx, store, id)
			if err != nil {
				return nil, err
			}
			return turnview.HeadRows(head), nil
		},
		Dead: func(w inbox.Waiting, content bool) [][2]string { return turnview.ReadDead(w, content).Rows() },
	}
	if s.URL != "" {
		cfg.SignIn = &SignIn{LoginURL: p.Settings().Login(), Tenant: s.Tenant, ClientID: s.Client, ClientSecret: s.Secret, URL: s.URL}
	}
	made, err := New(cfg)
	if err != nil {
		return app.Usage(fmt.Errorf("BOT_VIEWER_ADDR: %w", err))
	}
	p.OnClose(made.Close)
	addr, err := p.ServeBeside(ctx, s.Addr, "BOT_VIEWER_ADDR", "the viewer", made)
	if err != nil {
		return err
	}
	p.Log().Info().Str("url", "http://"+addr.String()+"/").Bool("sign_in", cfg.SignIn != nil).Msg("serving the viewer")
	return nil
}
