// Package oauth signs people in to services that the token service of the Azure Bot does not know, such
// as MCP servers: by OAuth 2.1 with PKCE (RFC 7636), the resource indicators of RFC 8707 and the metadata
// of RFC 9728 and RFC 8414. Tokens are kept encrypted in Redis, each for one person and one service.
package oauth

import (
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/loopback"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/state"
)

// The paths that [SignIn] answers below its address. Each connection has its own below them, such as
// /oauth/callback/issues: what one service says of itself then decides nothing about another (RFC 9700,
// section 4.4.2). The paths themselves are those of the build before: for who began to sign in there.
const (
	// CallbackPath is where people come back to from a service.
	CallbackPath = "/oauth/callback"
	// ClientPath has what services may know of the bot.
	ClientPath = "/oauth/client.json"
)

const (
	startWithin = 10 * time.Minute // a person has to sign in, and to send the code
	callWithin  = 10 * time.Second
	maxAnswer   = 1 << 20
	maxTries    = 3           // of a code
	early       = time.Minute // before it expires, a token is renewed
	keyBytes    = 32
	maxSeconds  = 1e9 // that a token is said to live
	maxClient   = 512 // bytes of an id that an authorization server gives the bot
	maxScopes   = 2000
)

// Tokens signs people in to the connections that a [SignIn] does not have. [connector.Client] is one.
type Tokens interface {
	UserToken(ctx context.Context, ref activity.Reference, connection, code string) (connector.UserToken, error)
	ExchangeToken(ctx context.Context, ref activity.Reference, connection, token string) (connector.UserToken, error)
	SignInResource(ctx context.Context, ref activity.Reference, connection string) (connector.SignInResource, error)
	SignOutUser(ctx context.Context, ref activity.Reference, connection string) error
}

// Config configures a [SignIn]. Store, Keys, Address and Services are required.
type Config struct {
	Store *state.Store
	// Keys encrypt what is stored: 32 bytes each. The first encrypts, all decrypt.
	Keys [][]byte
	// Address is where people reach the bot in a browser, such as https://bot.example.com. It is https,
	// or this machine.
	Address string
	// Services are the services, by the name of their connection.
	Services map[string]connector.Service
	// Others has all other connections. nil: there are none.
	Others Tokens
	Log    zerolog.Logger
}

// secretOf is that of a client; "": it has none.
func secretOf(s connector.Service, client string) string {
	if client == s.ClientID {
		return s.Secret
	}
	return ""
}

// SignIn signs people in. It is safe for concurrent use.
type SignIn struct {
	cfg     Config
	sealers []cipher.AEAD
	dialer  connections.Dialer
	http    *http.Client
	flight  singleflight.Group
}

// New makes a SignIn. The error lists every fault of cfg.
func New(cfg Config) (*SignIn, error) {
	s := &SignIn{cfg: cfg}
	var faults []error
	if cfg.Store == nil {
		faults = append(faults, errors.New("no Store"))
	}
	for _, key := range cfg.Keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			continue // Check says so
		}
		sealer, err := cipher.NewGCM(block)
		faults = append(faults, err)
		s.sealers = append(s.sealers, sealer)
	}
	if err := errors.Join(append(faults, cfg.Check())...); err != nil {
		return nil, fmt.Errorf("oauth: %w", err)
	}
	s.cfg.Address = strings.TrimSuffix(cfg.Address, "/")
	var private []netip.Prefix
	for _, service := range cfg.Services {
		private = append(private, service.Private...)
		if u, _ := url.Parse(service.Resource); u.Scheme == "http" { // it is on this machine
			private = append(private, connections.ThisMachine()...)
		}
	}
	s.dialer = connections.Dialer{Private: private}
	s.http = &http.Client{
		Timeout:       callWithin,
		Transport:     s.dialer.Transport(),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// Check returns every fault in the fields but Store, one per line. It connects to nothing.
func (c Config) Check() error {
	var faults []error
	for i, key := range c.Keys {
		if len(key) != keyBytes {
			faults = append(faults, fmt.Errorf("Keys: number %d has %d bytes, not %d", i+1, len(key), keyBytes))
		}
	}
	if len(c.Keys) == 0 {
		faults = append(faults, errors.New("Keys: there is none, and tokens are stored encrypted"))
	}
	err := checkAddress(c.Address)
	if err == nil && strings.Contains(c.Address, "?") {
		err = errors.New("it has a query")
	}
	if err != nil {
		faults = append(faults, fmt.Errorf("Address: %w", err))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		if name == "." || name == ".." || name == "" || url.PathEscape(name) != name {
			faults = append(faults, fmt.Errorf("service %q: the name cannot end an address", name))
		}
		for _, fault := range faultsOf(c.Services[name]) {
			faults = append(faults, fmt.Errorf("service %s: %w", name, fault))
		}
	}
	return errors.Join(faults...)
}

// scopeToken is a scope as RFC 6749 has it (section 3.3).
var scopeToken = regexp.MustCompile(`^[\x21\x23-\x5B\x5D-\x7E]+$`)

func faultsOf(s connector.Service) (all []error) {
	fault := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if err := checkAddress(s.Resource); err != nil {
		fault("Resource: %w", err)
	}
	if s.Issuer != "" {
		if err := checkAddress(s.Issuer); err != nil {
			fault("Issuer: %w", err)
		} else if strings.Contains(s.Issuer, "?") {
			fault("Issuer: it has a query")
		}
	}
	for _, host := range s.Hosts {
		if u, err := url.Parse("https://" + host); err != nil || u.Host != host || u.Hostname() == "" {
			fault("Hosts: %q is no host such as oauth2.example.com or oauth2.example.com:8443", host)
		}
	}
	if s.Secret != "" && s.Issuer == "" {
		fault("a Secret needs an Issuer")
	}
	if s.Secret != "" && s.ClientID == "" {
		fault("a Secret needs a ClientID")
	}
	for _, scope := range s.Scopes {
		if !scopeToken.MatchString(scope) {
			fault("Scopes: %q is no scope", scope)
		}
	}
	if n := len(strings.Join(s.Scopes, " ")); n > maxScopes {
		fault("Scopes: %d bytes, more than %d", n, maxScopes)
	}
	for i, network := range s.Private {
		if !network.IsValid() {
			fault("Private: number %d is no network", i+1)
		}
	}
	return all
}

// hostForm is a host that has no other spelling, but for its case: what is compared is then what is dialled.
var hostForm = regexp.MustCompile(`^(?:[A-Za-z0-9._-]*[A-Za-z0-9]|\[[0-9A-Fa-f:.]+\])(?::[1-9][0-9]*)?$`)

// checkAddress returns an error unless the address is https, or http to this machine.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || !hostForm.MatchString(u.Host) || u.User != nil || u.Fragment != "":
		return errors.New("it is no address such as https://bot.example.com")
	case u.Scheme == "https":
		return nil
	}
	if u.Scheme == "http" && loopback.IsHost(u.Hostname()) {
		return nil
	}
	return errors.New("it is not https")
}

// server is an authorization server as its metadata (RFC 8414) describes it.
type server struct {
	Issuer        string   `json:"issuer"`
	Authorize     string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Revoke        string   `json:"revocation_endpoint"`
	Register      string   `json:"registration_endpoint"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	ByMetadata    bool     `json:"client_id_metadata_document_supported"`
	NamesItself   bool     `json:"authorization_response_iss_parameter_supported"`
	defaultScopes []string
}

func (s *SignIn) discover(ctx context.Context, service connector.Service) (found server, err error) {
	issuer, resource := service.Issuer, service.Resource
	var scopes []string
	if issuer == "" {
		var protected struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
			Scopes   []string `json:"scopes_supported"`
		}
		root := origin(resource)
		err := s.getJSON(ctx, wellKnown(resource, "oauth-protected-resource"), &protected)
		ofAll := err != nil // what is at the root is for all paths
		if ofAll && s.getJSON(ctx, wellKnown(root, "oauth-protected-resource"), &protected) != nil {
			return found, fmt.Errorf("read what protects the service: %w", err)
		}
		if !sameResource(protected.Resource, resource) && !(ofAll && sameResource(protected.Resource, root)) || len(protected.Servers) == 0 {
			return found, errors.New("the service describes another one, or names no authorization server")
		}
		issuer, scopes = protected.Servers[0], protected.Scopes
	}
	if err := checkAddress(issuer); err != nil {
		return found, fmt.Errorf("the authorization server: %w", err)
	}
	if service.Issuer == "" {
		if err := s.ofAnother(service, issuer); err != nil {
			return found, err
		}
	}
	var first error
	for i, address := range []string{
		wellKnown(issuer, "oauth-authorization-server"),
		wellKnown(issuer, "openid-configuration"),
		strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration",
	} {
		found = server{}
		if err = s.getJSON(ctx, address, &found); err == nil {
			break
		}
		if i == 0 {
			first = err
		}
	}
	if err != nil {
		return found, fmt.Errorf("read the metadata of the authorization server: %w", first)
	}
	switch {
	case found.Issuer != issuer:
		return found, errors.New("the metadata is that of another authorization server")
	case !slices.Contains(found.Challenges, "S256"):
		return found, errors.New("the authorization server does not do PKCE with S256")
	case len(strings.Join(scopes, " ")) > maxScopes:
		return found, fmt.Errorf("the service wants scopes of more than %d bytes", maxScopes)
	}
	found.defaultScopes = scopes
	if err := trusts(service, found); err != nil {
		return found, err
	}
	link, err := url.Parse(found.Authorize)
	if err != nil {
		return found, err
	}
	if err := s.dialer.CheckHost(ctx, link.Hostname()); err != nil { // the person's browser would go there
		return found, fmt.Errorf("the page of the authorization server: %w", err)
	}
	return found, nil
}

// ofAnother returns an error if the authorization server that a service names is known as that of another
// one: the person would sign in there, and the token would go to this service.
func (s *SignIn) ofAnother(service connector.Service, issuer string) error {
	at := origin(issuer)
	if at == origin(service.Resource) {
		return nil
	}
	for name, other := range s.cfg.Services {
		if at == origin(other.Issuer) || at == origin(other.Resource) {
			return fmt.Errorf("the service names the authorization server of %s as its own: if that is so, configure it as its Issuer", name)
		}
	}
	return nil
}

// trusts returns an error unless the service's authorization server may be the one that at describes. A
// server says itself where its endpoints are, so they count only at hosts that it or the operator has. This
// is asked before each use: the configuration may have changed since at was stored.
func trusts(s connector.Service, at server) error {
	if s.Issuer != "" && at.Issuer != s.Issuer {
		return errors.New("the authorization server is not the one that is configured now")
	}
	for _, endpoint := range []string{at.Authorize, at.Token, cmp.Or(at.Revoke, at.Token), cmp.Or(at.Register, at.Token)} {
		if err := checkAddress(endpoint); err != nil {
			return fmt.Errorf("an endpoint of the authorization server: %w", err)
		}
		u, err := url.Parse(endpoint)
		if err != nil {
			return err
		}
		here := origin(endpoint)
		named := func(host string) bool { return here == origin(u.Scheme+"://"+host) }
		if here != origin(at.Issuer) && here != origin(s.Resource) && !slices.ContainsFunc(s.Hosts, named) {
			return fmt.Errorf("the authorization server has an endpoint at another host, %s, which Hosts does not name", u.Host)
		}
	}
	return nil
}

// wellKnown is where an address has its metadata (RFC 8615): the path of the address follows.
func wellKnown(address, what string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return origin(address) + "/.well-known/" + what + strings.TrimSuffix(u.EscapedPath(), "/")
}

// origin is an address without its path, in one spelling.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	host := strings.ToLower(u.Host)
	if port := map[string]string{"https": ":443", "http": ":80"}[u.Scheme]; port != "" {
		host = strings.TrimSuffix(host, port)
	}
	return u.Scheme + "://" + host
}

// sameResource reports whether a service that calls itself named is the one at that address.
func sameResource(named, address string) bool {
	return strings.TrimSuffix(named, "/") == strings.TrimSuffix(address, "/")
}

func (s *SignIn) getJSON(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	return s.doJSON(req, into)
}

func (s *SignIn) doJSON(req *http.Request, into any) error {
	req.Header.Set("Accept", "application/json")
	res, err := s.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
		refusal := &statusError{host: req.URL.Host, status: res.StatusCode}
		_ = json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(refusal) // it may say no more
		return refusal
	}
	if json.NewDecoder(io.LimitReader(res.Body, maxAnswer)).Decode(into) != nil {
		return fmt.Errorf("%s did not answer with JSON", req.URL.Host)
	}
	return nil
}

// statusError is an answer that is no success.
type statusError struct {
	host   string
	status int
	Code   string `json:"error"` // of RFC 6749, section 5.2; "": none
}

func (e *statusError) Error() string { return fmt.Sprintf("%s answered %d", e.host, e.status) }

// refuses reports whether the authorization server does not renew a token.
func refuses(err error) bool {
	answer, ok := errors.AsType[*statusError](err)
	return ok && (answer.status == http.StatusBadRequest || answer.status == http.StatusUnauthorized)
}

// wrongClient are the codes of servers that do not know the bot's id or secret, which says nothing of the
// person's tokens: RFC 6749, and GitHub.
var wrongClient = []string{"invalid_client", "incorrect_client_credentials"}

// unknownClient reports whether a code says that a server does not know the bot.
func unknownClient(code string) bool {
	return code == "unauthorized_client" || slices.Contains(wrongClient, code)
}

// callback is where people come back to from the service of a connection; "": that of the build before.
func (s *SignIn) callback(connection string) string {
	return s.cfg.Address + below(CallbackPath, connection)
}

// below is the path of a connection below another one.
func below(path, connection string) string {
	if connection == "" {
		return path
	}
	return path + "/" + url.PathEscape(connection)
}

// client returns what the bot is called at the authorization server of a connection.
func (s *SignIn) client(ctx context.Context, connection string, at server) (id string, err error) {
	service := s.cfg.Services[connection]
	switch {
	case service.ClientID != "":
		return service.ClientID, nil
	case at.ByMetadata:
		return s.cfg.Address + below(ClientPath, connection), nil
	case at.Register == "":
		return "", errors.New("the authorization server does not know the bot: it needs a client id")
	}
	key := documentKey("client", at.Issuer, s.callback(connection))
	scopes, err := s.cfg.Store.Load(ctx, key)
	if err != nil {
		return "", err
	}
	if known := *state.Of[registered](scopes[0]); known.ID != "" {
		return known.ID, nil
	}
	body, err := json.Marshal(s.metadata(connection))
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at.Register, strings.NewReader(string(body)))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	var made struct {
		ID string `json:"client_id"`
	}
	if err := s.doJSON(req, &made); err != nil || made.ID == "" || len(made.ID) > maxClient {
		return "", errors.Join(errors.New("the authorization server does not register the bot"), err)
	}
	err = s.cfg.Store.Update(ctx, key, func(doc *state.Scope) error {
		if known := state.Of[registered](doc); known.ID == "" {
			known.ID, known.Since = made.ID, time.Now()
		} else {
			made.ID = known.ID // another replica was faster
		}
		return nil
	})
	return made.ID, err
}

// forget drops the id that the bot registered at an authorization server which does not know it any more. The
// next sign-in registers it anew. An id that is younger than that stays.
func (s *SignIn) forget(ctx context.Context, connection string, at server, id string, than time.Duration) error {
	if strings.HasPrefix(id, s.cfg.Address+ClientPath) {
		return nil // there is nothing to register
	}
	s.cfg.Log.Warn().Str("server", at.Issuer).Msg("an authorization server does not know the bot, which may register again")
	return s.cfg.Store.Update(ctx, documentKey("client", at.Issuer, s.callback(connection)), func(doc *state.Scope) error {
		if known := state.Of[registered](doc); known.ID == id && time.Since(known.Since) >= than {
			known.ID = ""
		}
		return nil
	})
}

// registered is what the bot is called at an authorization server where it registered itself.
type registered struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since,omitzero"` // zero: the build before wrote it
}

// metadata is what the authorization server of a connection may know of the bot; "": what those that the
// build before told their people about did. Each has one address to come back to and a name of its own, so a
// person who is sent on to another server reads whom the bot means, and their consent there does not count.
func (s *SignIn) metadata(connection string) map[string]any {
	name := "Planbot"
	if connection != "" {
		name += " (" + connection + ")"
	}
	return map[string]any{
		"client_id": s.cfg.Address + below(ClientPath, connection), "client_name": name, "redirect_uris": []string{s.callback(connection)},
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"}, "token_endpoint_auth_method": "none",
	}
}

// started is a sign-in that a person began. It is stored under its state, encrypted.
type started struct {
	Owner      string `json:"owner"` // see ownerOf
	Connection string `json:"connection"`
	Server     server `json:"server"`
	Client     string `json:"client"`
	Verifier   string `json:"verifier"`
	Round      string `json:"round"`    // see round
	For        string `json:"for"`      // the Resource
	Callback   string `json:"callback"` // address; "": the build before stored neither
}

// round is beside the pending tokens of a person. A sign-in that began in another round does not count: the
// person has signed out since.
type round struct {
	ID string `json:"id,omitempty"`
}

var errSignedOut = errors.New("the person signed out meanwhile")

// granted are the tokens of a person. They are stored encrypted. Until the person has sent Code, nobody
// uses them.
type granted struct {
	Server  server    `json:"server"`
	Client  string    `json:"client"`
	For     string    `json:"for,omitempty"` // the Resource; "": the build before did not store it
	Access  string    `json:"access"`
	Scopes  []string  `json:"scopes,omitempty"` // nil: the build before did not store them
	Refresh string    `json:"refresh,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
	Code    string    `json:"code,omitempty"`
	Tries   int       `json:"tries,omitempty"`
}

// sealed is the only value of a stored document.
type sealed struct {
	Data  []byte    `json:"data,omitempty"`
	Until time.Time `json:"until,omitzero"` // zero: it stays
}

// documentKey is the key of a document. Its parts may be of any length.
func documentKey(kind string, parts ...string) state.Key {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return state.UserKey("oauth", kind, hex.EncodeToString(sum[:]))
}

// ownerOf names the person of a reference: in Teams their account in Entra ID, wherever they write.
func ownerOf(ref activity.Reference) (string, error) {
	person := cmp.Or(ref.User.AadObjectID, ref.User.ID)
	if person == "" {
		return "", connector.ErrNoUserToken
	}
	return strings.Join([]string{ref.ChannelID, ref.Conversation.TenantID, person}, "\x00"), nil
}

// seal encrypts v for the place where it is stored.
func (s *SignIn) seal(place state.Key, v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	first := s.sealers[0]
	nonce := make([]byte, first.NonceSize(), first.NonceSize()+len(plain)+first.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return first.Seal(nonce, nonce, plain, []byte(place.String())), nil
}

// open decrypts what seal wrote for that place, and reports whether it could.
func (s *SignIn) open(place state.Key, data []byte, into any) bool {
	for _, sealer := range s.sealers {
		if len(data) < sealer.NonceSize() {
			return false
		}
		plain, err := sealer.Open(nil, data[:sealer.NonceSize()], data[sealer.NonceSize():], []byte(place.String()))
		if err == nil {
			return json.Unmarshal(plain, into) == nil
		}
	}
	return false
}

// config is the OAuth configuration of a client at an authorization server.
func (s *SignIn) config(service connector.Service, at server, client, secret, callback string) *oauth2.Config {
	style := oauth2.AuthStyleInParams
	if secret != "" {
		style = oauth2.AuthStyleInHeader
	}
	scopes := service.Scopes
	if scopes == nil {
		scopes = at.defaultScopes
	}
	return &oauth2.Config{
		ClientID: client, ClientSecret: secret, RedirectURL: callback, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: at.Authorize, TokenURL: at.Token, AuthStyle: style},
	}
}

// SignInResource begins a sign-in and returns a link for ref's user alone. They have ten minutes: the page
// at the end of it shows a code, which they send to the bot.
func (s *SignIn) SignInResource(ctx context.Context, ref activity.Reference, connection string) (r connector.SignInResource, err error) {
	service, mine := s.cfg.Services[connection]
	if !mine {
		if s.cfg.Others == nil {
			return r, connector.ErrNoTokenService
		}
		return s.cfg.Others.SignInResource(ctx, ref, connection)
	}
	owner, err := ownerOf(ref)
	if err != nil {
		return r, err
	}
	at, err := s.discover(ctx, service)
	if err != nil {
		return r, fmt.Errorf("sign in to %s: %w", connection, err)
	}
	client, err := s.client(ctx, connection, at)
	if err != nil {
		return r, fmt.Errorf("sign in to %s: %w", connection, err)
	}
	var now round
	err = s.cfg.Store.Update(ctx, documentKey(pending, owner, connection), func(doc *state.Scope) error {
		kept := state.Of[round](doc)
		kept.ID = cmp.Or(kept.ID, rand.Text())
		now = *kept
		return nil
	})
	if err != nil {
		return r, err
	}
	ticket, verifier := rand.Text()+rand.Text(), oauth2.GenerateVerifier()
	key := documentKey("state", ticket)
	callback := s.callback(connection)
	begun := started{owner, connection, at, client, verifier, now.ID, service.Resource, callback}
	if err := s.keep(ctx, key, begun, time.Now().Add(startWithin).UTC()); err != nil {
		return r, err
	}
	r.Browser = true
	r.Link = s.config(service, at, client, "", callback).AuthCodeURL(
		ticket,
		oauth2.S256ChallengeOption(verifier),
		oauth2.SetAuthURLParam("resource", service.Resource),
	)
	return r, nil
}

// ServeHTTP answers [CallbackPath] and [ClientPath], and what is below them.
func (s *SignIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	path, connection := r.URL.Path, ""
	for _, parent := range []string{CallbackPath, ClientPath} {
		if name, below := strings.CutPrefix(path, parent+"/"); below {
			path, connection = parent, name
			if _, known := s.cfg.Services[name]; !known {
				path = ""
			}
		}
	}
	switch {
	case r.Method != http.MethodGet:
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
	case path == ClientPath:
		h.Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(s.metadata(connection)) // the caller has left
	case path == CallbackPath:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		code, err := s.finish(r.Context(), connection, r.URL.RawQuery)
		if err != nil {
			s.cfg.Log.Warn().Err(err).Msg("a person came back from a service, and is not signed in")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintln(w, "You are not signed in. Please close this page, and ask the bot again for what you need.")
			return
		}
		fmt.Fprintf(w, "%s\n\nSend this code to the bot, within ten minutes. Then close this page.\n", code)
	default:
		http.NotFound(w, r)
	}
}

// finish gets the tokens of a person who came back on the callback of a connection ("": that of the build
// before), and returns the code that they have to send: it proves that who signed in is who asked.
func (s *SignIn) finish(ctx context.Context, connection, rawQuery string) (code string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*callWithin)
	defer cancel()
	query, err := url.ParseQuery(rawQuery)
	if err != nil {
		return "", errors.New("the answer cannot be read")
	}
	ticket := query.Get("state")
	if ticket == "" || len(ticket) > 100 {
		return "", errors.New("no state")
	}
	key := documentKey("state", ticket)
	var data sealed
	err = s.cfg.Store.Update(ctx, key, func(doc *state.Scope) error { // whoever takes it has it alone
		data = *state.Of[sealed](doc)
		doc.Delete()
		return nil
	})
	var begun started
	switch {
	case err != nil:
		return "", err
	case !s.open(key, data.Data, &begun) || time.Now().After(data.Until):
		return "", errors.New("the state is unknown, used or too old")
	}
	callback := cmp.Or(begun.Callback, s.callback(""))
	if callback != s.callback(connection) {
		return "", errors.New("the sign-in began for another connection than the one that it came back to")
	}
	for name, values := range query {
		if len(values) > 1 { // which of them is the server's?
			return "", fmt.Errorf("the answer has %q twice", spelling.OneLine(name, 50))
		}
	}
	// A server that does not promise to name itself, and one that another one was put in the place of, are
	// the same to see. So the name decides wherever there is one, and the callback where there is none.
	if issuer, named := query["iss"]; named && issuer[0] != begun.Server.Issuer || !named && begun.Server.NamesItself {
		return "", errors.New("the answer is that of another authorization server")
	}
	if query.Get("code") == "" {
		err := errors.New("the person or the authorization server refused")
		if begun.Client != s.cfg.Services[begun.Connection].ClientID && unknownClient(query.Get("error")) {
			err = errors.Join(err, s.forget(ctx, begun.Connection, begun.Server, begun.Client, time.Hour)) // anybody can write that address
		}
		return "", err
	}
	service, known := s.cfg.Services[begun.Connection]
	if !known {
		return "", errors.New("the connection is gone")
	}
	if err := trusts(service, begun.Server); err != nil {
		return "", err
	}
	if cmp.Or(begun.For, service.Resource) != service.Resource {
		return "", errors.New("the connection is one to another service now")
	}
	place := documentKey(pending, begun.Owner, begun.Connection)
	scopes, err := s.cfg.Store.Load(ctx, place)
	if err != nil {
		return "", err
	}
	if state.Of[round](scopes[0]).ID != begun.Round {
		return "", errSignedOut
	}
	config := s.config(service, begun.Server, begun.Client, secretOf(service, begun.Client), callback)
	token, err := config.Exchange(
		context.WithValue(ctx, oauth2.HTTPClient, s.http),
		query.Get("code"),
		oauth2.VerifierOption(begun.Verifier),
		oauth2.SetAuthURLParam("resource", service.Resource),
	)
	if err != nil {
		refused, ok := errors.AsType[*oauth2.RetrieveError](err)
		err = fmt.Errorf("redeem the code: %w", bare(err))
		var said struct {
			Code string `json:"error"`
		}
		if ok {
			_ = json.Unmarshal(refused.Body, &said) // it may be none
		}
		if ok && begun.Client != service.ClientID && unknownClient(cmp.Or(refused.ErrorCode, said.Code)) {
			err = errors.Join(err, s.forget(ctx, begun.Connection, begun.Server, begun.Client, 0))
		}
		return "", err
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return "", err
	}
	code = fmt.Sprintf("%06d", n)
	g := granted{
		Server:  begun.Server,
		Client:  begun.Client,
		For:     service.Resource,
		Access:  token.AccessToken,
		Refresh: token.RefreshToken,
		Expires: token.Expiry.UTC(),
		Code:    code,
		Scopes:  s.config(service, begun.Server, begun.Client, "", callback).Scopes, // unless the server says that it gave others
	}
	if given, said := token.Extra("scope").(string); said {
		g.Scopes = strings.Fields(given)
	}
	closed, err := s.seal(place, g)
	if err != nil {
		return "", err
	}
	err = s.cfg.Store.Update(ctx, place, func(doc *state.Scope) error {
		if state.Of[round](doc).ID != begun.Round {
			return errSignedOut
		}
		*state.Of[sealed](doc) = sealed{closed, time.Now().Add(startWithin).UTC()}
		return nil
	})
	if errors.Is(err, errSignedOut) {
		err = errors.Join(err, s.revoke(ctx, service, g))
	}
	return code, err
}

// bare is an error of oauth2 without what the server answered.
func bare(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return fmt.Errorf("the authorization server answered %d %s", refused.Response.StatusCode, refused.ErrorCode)
	}
	return err
}

// The two places of a person's tokens: until they have sent the code, and then.
const (
	pending = "pending"
	current = "tokens"
)

// keep stores v, encrypted, until a time; zero: it stays.
func (s *SignIn) keep(ctx context.Context, key state.Key, v any, until time.Time) error {
	data, err := s.seal(key, v)
	if err != nil {
		return err
	}
	return s.cfg.Store.Update(ctx, key, func(doc *state.Scope) error {
		*state.Of[sealed](doc) = sealed{data, until}
		return nil
	})
}

// kept reads a person's tokens.
func (s *SignIn) kept(ctx context.Context, place, owner, connection string) (g granted, err error) {
	key := documentKey(place, owner, connection)
	scopes, err := s.cfg.Store.Load(ctx, key)
	if err != nil {
		return g, err
	}
	data := *state.Of[sealed](scopes[0])
	switch {
	case data.Data == nil, !data.Until.IsZero() && time.Now().After(data.Until):
		return g, connector.ErrNoUserToken
	case !s.open(key, data.Data, &g):
		s.cfg.Log.Error().Str("connection", connection).Msg("no key opens the tokens of a person, who has to sign in again")
		return g, connector.ErrNoUserToken
	}
	service := s.cfg.Services[connection]
	if err := trusts(service, g.Server); err != nil || cmp.Or(g.For, service.Resource) != service.Resource {
		s.cfg.Log.Warn().Err(err).Str("connection", connection).
			Msg("the tokens of a person are not for the service that is configured now: they have to sign in again")
		return granted{}, connector.ErrNoUserToken
	}
	return g, nil
}

func (s *SignIn) drop(ctx context.Context, place, owner, connection string) error {
	return s.cfg.Store.Update(ctx, documentKey(place, owner, connection), func(doc *state.Scope) error {
		doc.Delete()
		return nil
	})
}

// UserToken returns the token of ref's user, renewed if it is about to expire. code is the one that the
// page showed them; "": they are signed in already. [connector.ErrNoUserToken]: they are not, the code is
// wrong, or the service does not renew the token.
func (s *SignIn) UserToken(ctx context.Context, ref activity.Reference, connection, code string) (connector.UserToken, error) {
	service, mine := s.cfg.Services[connection]
	if !mine {
		if s.cfg.Others == nil {
			return connector.UserToken{}, connector.ErrNoTokenService
		}
		return s.cfg.Others.UserToken(ctx, ref, connection, code)
	}
	owner, err := ownerOf(ref)
	if err == nil && code != "" {
		err = s.redeem(ctx, owner, connection, code)
	}
	if err != nil {
		return connector.UserToken{}, err
	}
	g, err := s.kept(ctx, current, owner, connection)
	if err == nil && !g.Expires.IsZero() && time.Until(g.Expires) < early && (g.Refresh != "" || !time.Now().Before(g.Expires)) {
		old := g
		g, err = s.renew(ctx, service, owner, connection)
		if err != nil && !errors.Is(err, connector.ErrNoUserToken) && time.Now().Before(old.Expires) {
			s.cfg.Log.Warn().Err(err).Str("connection", connection).Msg("a token was not renewed, and is good for a moment yet")
			g, err = old, nil
		}
	}
	if err != nil {
		return connector.UserToken{}, err
	}
	return connector.NewUserToken(connection, g.Access, g.Expires), nil
}

// CanWiden reports whether ref's user can give a service the scopes that a call needs by signing in again: the
// operator lists them, and their token does not have them yet. Nobody is asked for others.
func (s *SignIn) CanWiden(ctx context.Context, ref activity.Reference, connection string, needed []string) (bool, error) {
	listed := s.cfg.Services[connection].Scopes
	if len(listed) == 0 {
		return false, nil
	}
	if len(needed) == 0 {
		needed = listed
	}
	owner, err := ownerOf(ref)
	if err != nil {
		return false, nil // nobody is signed in
	}
	g, err := s.kept(ctx, current, owner, connection)
	if errors.Is(err, connector.ErrNoUserToken) {
		return false, nil
	}
	more := false
	for _, scope := range needed {
		if !slices.Contains(listed, scope) {
			s.cfg.Log.Warn().Str("connection", connection).Str("scope", spelling.OneLine(scope, maxScopes)).
				Msg("a service wants a scope that is not listed for its connection")
			return false, err
		}
		more = more || !slices.Contains(g.Scopes, scope)
	}
	return more, err
}

// redeem makes the pending tokens of a person theirs if they sent the code of the page.
func (s *SignIn) redeem(ctx context.Context, owner, connection, code string) error {
	key := documentKey(pending, owner, connection)
	var g granted
	right := false
	err := s.cfg.Store.Update(ctx, key, func(doc *state.Scope) error {
		data := state.Of[sealed](doc)
		g, right = granted{}, false
		if !s.open(key, data.Data, &g) || time.Now().After(data.Until) {
			return connector.ErrNoUserToken
		}
		g.Tries++
		if right = subtle.ConstantTimeCompare([]byte(g.Code), []byte(code)) == 1; right {
			return nil
		}
		if g.Tries >= maxTries {
			*data = sealed{}
			return nil
		}
		again, err := s.seal(key, g)
		data.Data = again
		return err
	})
	switch {
	case err != nil:
		return err
	case !right:
		return connector.ErrNoUserToken
	}
	g.Code, g.Tries = "", 0
	if err := s.keep(ctx, documentKey(current, owner, connection), g, time.Time{}); err != nil {
		return err
	}
	return s.cfg.Store.Update(ctx, key, func(doc *state.Scope) error {
		*state.Of[sealed](doc) = sealed{} // the round goes on
		return nil
	})
}

// ExchangeToken is for other connections: nobody can be signed in to a [connector.Service] silently.
func (s *SignIn) ExchangeToken(ctx context.Context, ref activity.Reference, connection, token string) (connector.UserToken, error) {
	if _, mine := s.cfg.Services[connection]; mine || s.cfg.Others == nil {
		return connector.UserToken{}, connector.ErrNoUserToken
	}
	return s.cfg.Others.ExchangeToken(ctx, ref, connection, token)
}

// SignOutUser deletes the tokens of ref's user and asks the service to revoke them. A service that does not
// answer does not keep them from being deleted.
func (s *SignIn) SignOutUser(ctx context.Context, ref activity.Reference, connection string) error {
	service, mine := s.cfg.Services[connection]
	if !mine {
		if s.cfg.Others == nil {
			return connector.ErrNoTokenService
		}
		return s.cfg.Others.SignOutUser(ctx, ref, connection)
	}
	owner, err := ownerOf(ref)
	if err != nil {
		return nil // nobody is signed in
	}
	for _, place := range []string{pending, current} {
		g, err := s.kept(ctx, place, owner, connection)
		if err != nil && !errors.Is(err, connector.ErrNoUserToken) {
			return err
		}
		if err := s.drop(ctx, place, owner, connection); err != nil {
			return err
		}
		if err := s.revoke(ctx, service, g); err != nil {
			s.cfg.Log.Warn().Err(err).Str("connection", connection).Msg("a service did not revoke tokens that are deleted")
		}
	}
	return nil
}

// revoke asks the authorization server to forget tokens (RFC 7009).
func (s *SignIn) revoke(ctx context.Context, service connector.Service, g granted) error {
	token := cmp.Or(g.Refresh, g.Access)
	if token == "" || g.Server.Revoke == "" {
		return nil
	}
	if err := trusts(service, g.Server); err != nil {
		return err
	}
	req, err := formFor(ctx, g.Server.Revoke, service, g.Client, url.Values{"token": {token}})
	if err != nil {
		return err
	}
	res, err := s.http.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return &statusError{host: req.URL.Host, status: res.StatusCode}
	}
	return nil
}

// formFor is a request of the bot as that client, with its secret if it has one.
func formFor(ctx context.Context, address string, service connector.Service, client string, form url.Values) (*http.Request, error) {
	form.Set("client_id", client)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if secret := secretOf(service, client); secret != "" {
		req.SetBasicAuth(url.QueryEscape(client), url.QueryEscape(secret))
	}
	return req, nil
}

const maxSkew = time.Minute // how far the clocks of two replicas may be apart

// renewing marks that a replica is about to renew a person's tokens.
type renewing struct {
	Until time.Time `json:"until"`
}

// renew gets new tokens with the refresh token: one replica at a time, since a refresh token may be good
// only once.
func (s *SignIn) renew(ctx context.Context, service connector.Service, owner, connection string) (granted, error) {
	got := s.flight.DoChan(owner+"\x00"+connection, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*callWithin)
		defer cancel()
		return s.renewOnce(ctx, service, owner, connection)
	})
	select {
	case <-ctx.Done():
		return granted{}, ctx.Err()
	case r := <-got:
		g, _ := r.Val.(granted)
		return g, r.Err
	}
}

var (
	errBusy   = errors.New("another replica renews the tokens")
	errClient = errors.New("the authorization server refuses the bot's client id or secret")
)

func (s *SignIn) renewOnce(ctx context.Context, service connector.Service, owner, connection string) (g granted, err error) {
	key := documentKey(current, owner, connection)
	var mark renewing
	for {
		if g, err = s.kept(ctx, current, owner, connection); err != nil || time.Until(g.Expires) >= early {
			return g, err
		}
		err = s.cfg.Store.Update(ctx, key, func(doc *state.Scope) error {
			if mark := state.Of[renewing](doc); time.Now().Before(mark.Until) {
				return errBusy
			}
			mark = renewing{time.Now().Add(callWithin + maxSkew).UTC()}
			*state.Of[renewing](doc) = mark
			return nil
		})
		if !errors.Is(err, errBusy) {
			break
		}
		select {
		case <-ctx.Done():
			return g, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	if err != nil {
		return g, err
	}
	if g.Refresh == "" {
		return g, connector.ErrNoUserToken
	}
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {g.Refresh}, "resource": {service.Resource}}
	req, err := formFor(ctx, g.Server.Token, service, g.Client, form)
	if err != nil {
		return g, err
	}
	var token struct {
		Access  string      `json:"access_token"`
		Refresh string      `json:"refresh_token"`
		Seconds json.Number `json:"expires_in"` // some services write it as text
		Code    string      `json:"error"`
	}
	err = s.doJSON(req, &token)
	if answer, ok := errors.AsType[*statusError](err); ok {
		token.Code = answer.Code
	}
	if g.Client == service.ClientID && slices.Contains(wrongClient, token.Code) { // an operator can mend that
		err = errClient
	}
	if g.Client != service.ClientID && unknownClient(token.Code) {
		if err := s.forget(ctx, connection, g.Server, g.Client, 0); err != nil {
			return g, err
		}
	}
	switch {
	case refuses(err), err == nil && token.Access == "":
		err := s.cfg.Store.Update(ctx, key, func(doc *state.Scope) error {
			if s.has(key, doc, g) {
				doc.Delete()
			}
			return nil
		})
		if err != nil {
			return g, errors.Join(connector.ErrNoUserToken, err)
		}
		return s.kept(ctx, current, owner, connection) // they may have signed in anew
	case err != nil:
		err = fmt.Errorf("renew a token: %w", err)
		return g, errors.Join(err, s.cfg.Store.Update(ctx, key, func(doc *state.Scope) error {
			if now := state.Of[renewing](doc); *now == mark { // nobody has to wait for it
				*now = renewing{}
			}
			return nil
		}))
	}
	old := g
	g.Access, g.Refresh, g.Expires = token.Access, cmp.Or(token.Refresh, g.Refresh), time.Time{}
	if seconds, err := token.Seconds.Float64(); err == nil && seconds > 0 {
		g.Expires = time.Now().Add(time.Duration(min(seconds, maxSeconds)) * time.Second).UTC()
	}
	data, err := s.seal(key, g)
	if err != nil {
		return g, err
	}
	var gone, other bool
	err = s.cfg.Store.Update(ctx, key, func(doc *state.Scope) error {
		kept := state.Of[sealed](doc)
		gone, other = kept.Data == nil, !s.has(key, doc, old)
		if !other {
			*kept, *state.Of[renewing](doc) = sealed{Data: data}, renewing{}
		}
		return nil
	})
	switch {
	case err != nil:
		return g, err
	case gone: // the person signed out meanwhile
		return g, errors.Join(connector.ErrNoUserToken, s.revoke(ctx, service, g))
	case other: // and in again
		return s.kept(ctx, current, owner, connection)
	}
	return g, nil
}

// has reports whether a document has these tokens still.
func (s *SignIn) has(key state.Key, doc *state.Scope, g granted) bool {
	var now granted
	return s.open(key, state.Of[sealed](doc).Data, &now) && now.Access == g.Access && now.Refresh == g.Refresh
}
