package turn

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// An action may need a token of the person for another service. If they are not signed in, the bot
// sends a card, and the record waits outside of its queue as it does for an approval. What the client
// or the person then sends (a token to exchange, a code) is a turn of its own, in a queue of its own,
// so that it is answered at once. It puts the outcome into the record and the record back into its
// queue, in one step that works only once.
//
// Tokens and codes are only in the memory of the process that took the request, never in a record. If
// that process dies, the next one asks the token service whether the person is signed in by now.

// Tokens signs people in to other services and keeps their tokens. [connector.Client] is one, and
// says what the methods do.
type Tokens interface {
	UserToken(ctx context.Context, ref activity.Reference, connection, code string) (connector.UserToken, error)
	ExchangeToken(ctx context.Context, ref activity.Reference, connection, token string) (connector.UserToken, error)
	SignInResource(ctx context.Context, ref activity.Reference, connection string) (connector.SignInResource, error)
	SignOutUser(ctx context.Context, ref activity.Reference, connection string) error
}

const (
	// maxSignIns is how often one turn asks a person to sign in to the same service.
	maxSignIns = 2
	// signInWithin is how long a plan waits for a person to sign in.
	signInWithin = 15 * time.Minute
	// maxCodes is how many wrong codes end it.
	maxCodes = 3
	// findWithin is how long an answer to a card looks for a record that is about to wait: the card may
	// be answered before it is noted that it was sent.
	findWithin = 3 * time.Second
	// secretFor is how long a token or a code is kept for a turn that this process could not start at
	// once.
	secretFor = time.Minute
)

// signIn is a sign-in that a record waits for.
type signIn struct {
	Connection string    `json:"connection"`
	Action     string    `json:"action"`             // it needs the token
	Exchange   string    `json:"exchange,omitempty"` // id of the silent sign-in that the card offered
	Asked      time.Time `json:"asked"`
	Wrong      int       `json:"wrong,omitempty"` // codes
	Told       bool      `json:"told,omitzero"`   // that the silent sign-in failed
	Tried      time.Time `json:"tried,omitzero"`  // when the outcome came
	Outcome    outcome   `json:"outcome,omitempty"`
}

// outcome is what came of a sign-in.
type outcome string

// The outcomes; "" is that nobody signed in in time.
const (
	signedIn  outcome = "signed_in"
	cancelled outcome = "cancelled" // by the person
	replaced  outcome = "replaced"  // by a newer one of the person, for the same connection
	wrongCode outcome = "wrong_code"
	noSilent  outcome = "failed" // the client could not do it silently
)

const notSignedIn = "the person did not sign in"

// userToken is [actions.Turn.UserToken].
func userToken(ctx context.Context, t *Turn, connection string) (connector.UserToken, error) {
	if token, ok := t.exec.tokens[connection]; ok {
		return token, nil
	}
	if t.engine.cfg.Tokens == nil {
		return connector.UserToken{}, connector.ErrNoTokenService
	}
	return t.engine.cfg.Tokens.UserToken(ctx, t.Activity.Reference(), connection, "")
}

// signInLink is [Turn.SignInLink].
func signInLink(ctx context.Context, t *Turn, connection string) (string, error) {
	if t.engine.cfg.Tokens == nil {
		return "", connector.ErrNoTokenService
	}
	r, err := t.engine.cfg.Tokens.SignInResource(ctx, t.Activity.Reference(), connection)
	return r.Link, err
}

// redeemState is [Turn.RedeemState].
func redeemState(ctx context.Context, t *Turn, connection string) (bool, error) {
	code := cmp.Or(t.secret, stateOf(t.Activity))
	if !sixDigits().MatchString(code) || t.engine.cfg.Tokens == nil {
		return false, nil
	}
	_, err := t.engine.cfg.Tokens.UserToken(ctx, t.Activity.Reference(), connection, code)
	if errors.Is(err, connector.ErrNoUserToken) {
		return false, nil
	}
	return err == nil, err
}

// stateOf is the state in the value of an invoke.
func stateOf(a *activity.Activity) string {
	var value struct {
		State string `json:"state"`
	}
	_ = json.Unmarshal(a.Value, &value) // a value of another form has none
	return value.State
}

// signOut is [Turn.SignOut].
func signOut(ctx context.Context, t *Turn) error {
	var errs []error
	for _, connection := range t.engine.cfg.Actions.Connections() {
		err := t.engine.cfg.Tokens.SignOutUser(ctx, t.Activity.Reference(), connection)
		if !errors.Is(err, connector.ErrNoTokenService) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, dropWaits(ctx, t, t.Activity.Conversation.ID, t.Activity.From.ID, isOne(forSignIn)))
	return errors.Join(errs...)
}

// tokenFor gets the token that a call needs. A person who is not signed in has to do that first; but a
// call that had begun, or that they have just signed in for, gets it by itself.
func tokenFor(ctx context.Context, x *execution, c *call) error {
	if c.err != nil || c.pause != nil || c.action.Connection == "" || x.mayHaveStarted > 0 || x.rec.Run.SignedIn == c.action.Connection {
		return nil
	}
	connection := c.action.Connection
	token, err := userToken(ctx, x.Turn, connection)
	switch {
	case err == nil:
		if x.tokens == nil {
			x.tokens = map[string]connector.UserToken{}
		}
		x.tokens[connection] = token
	case errors.Is(err, connector.ErrNoUserToken):
		c.pause = &signIn{Connection: connection, Action: c.action.Name}
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		c.err = whyNoSignIn(ctx, err)
	}
	return nil
}

// forgetRefusedToken forgets a token that the service does not take any more, such as one that was revoked there: the
// call says that the person is not signed in, although there was a token. If it is planned again, they are
// asked to sign in.
func forgetRefusedToken(ctx context.Context, x *execution, c *call) {
	if wants, more := errors.AsType[*connector.ScopeError](c.err); more && c.action != nil {
		widenToken(ctx, x, c, wants.Scopes)
	}
	if c.action == nil || !errors.Is(c.err, connector.ErrNoUserToken) {
		return
	}
	if _, had := x.tokens[c.action.Connection]; !had {
		return
	}
	err := x.engine.cfg.Tokens.SignOutUser(ctx, x.Activity.Reference(), c.action.Connection)
	zerolog.Ctx(ctx).Warn().AnErr("error", err).Str("connection", c.action.Connection).Str("action", c.action.Name).Msg("a service does not take the token of a person, who is signed out")
}

// widenToken decides what becomes of a call for which the service wants more scopes than the person's token has: they
// sign in again if that gives them.
func widenToken(ctx context.Context, x *execution, c *call, scopes []string) {
	can := false
	var err error
	if tokens, ok := x.engine.cfg.Tokens.(interface {
		CanWiden(ctx context.Context, ref activity.Reference, connection string, needed []string) (bool, error)
	}); ok {
		can, err = tokens.CanWiden(ctx, x.Activity.Reference(), c.action.Connection, scopes)
	}
	if can {
		c.err = connector.ErrNoUserToken
		return
	}
	zerolog.Ctx(ctx).Warn().AnErr("error", err).Str("connection", c.action.Connection).Str("action", c.action.Name).Strs("scopes", scopes).
		Msg("a service wants more scopes than people are asked for")
	c.err = Refuse("the service wants more rights for it than the person can give to this bot")
}

// whyNoSignIn is why a call fails that needs a token.
func whyNoSignIn(ctx context.Context, err error) error {
	zerolog.Ctx(ctx).Warn().Str("error", cause(err)).Msg("the token service was of no use")
	if errors.Is(err, connector.ErrNoTokenService) {
		return Refuse("the person cannot be signed in here")
	}
	return Refuse("the service that signs people in does not answer")
}

// Kind is that of a [Pause].
func (*signIn) Kind() string { return string(forSignIn) }

// Until is when it ends without a token.
func (s *signIn) Until() time.Time { return s.Asked.Add(signInWithin) }

// Note is what the history says.
func (s *signIn) Note() string {
	return "[The person was asked to sign in, which " + s.Action + " needs. It has not run yet.]"
}

// Failed is what it says if the person could not be asked.
func (s *signIn) Failed(*Turn) string {
	return "[" + s.Action + " needs a sign-in, but the person could not be asked.]"
}

// Shown notes nothing: the card goes by itself.
func (*signIn) Shown(string) {}

// Answered reports whether there is an outcome.
func (s *signIn) Answered() (activity string, ok bool) { return "", s.Outcome != "" }

// Data is nothing that the list of what waits has not.
func (*signIn) Data(*Turn) map[string]any { return nil }

// Ask asks the person to sign in, unless nobody is there.
func (s *signIn) Ask(ctx context.Context, t *Turn, _ string) (*activity.Activity, error) {
	title := Title(t, s.Action)
	if t.rec.Notice != nil || t.Activity.From.ID == "" {
		return nil, Stop(t.Translate("I can't do this: %s. You have to be signed in for it, so please ask me for it yourself.", title))
	}
	r, err := t.engine.cfg.Tokens.SignInResource(ctx, t.Activity.Reference(), s.Connection)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), whyNoSignIn(ctx, err))
	}
	if t.rec.Run.SignIns[s.Connection] >= maxSignIns { // the service does not take what it gave
		zerolog.Ctx(ctx).Warn().Str("connection", s.Connection).Str("action", s.Action).Msg("a person who has signed in is still not signed in")
		return nil, Refuse("the person has signed in, and the service still says that they have not")
	}
	if t.rec.Run.SignIns == nil {
		t.rec.Run.SignIns = map[string]int{}
	}
	t.rec.Run.SignIns[s.Connection]++
	if err := replaceSignIn(ctx, t, s.Connection); err != nil {
		return nil, err
	}
	s.Asked = time.Now().UTC().Truncate(time.Millisecond)
	silent := t.Activity.Conversation.ConversationType != "channel" // clients refuse it there
	if silent {
		s.Exchange = r.Exchange.ID
	}
	m := ForPerson(t, "")
	card := r.Card(s.Connection, t.Translate("Please sign in, so that I can do this: %s.", title), t.Translate("Sign in"), silent)
	m.Attachments = []activity.Attachment{card}
	m.TextFormat = ""
	zerolog.Ctx(ctx).Info().Str("connection", s.Connection).Str("action", s.Action).Msg("waits for the person to sign in")
	return m, nil
}

// ForPerson is a message that only the person of the turn sees, where the channel can do that.
func ForPerson(t *Turn, text string) *activity.Activity {
	m := t.Message(text)
	m.Recipient = t.Activity.From // a client that signs in silently wants it
	m.Recipient.Extra = nil
	if t.Activity.ChannelID == activity.Teams && !t.Activity.Conversation.Personal() {
		m.ReplyToID, m.Recipient.Extra = "", jsontext.Value(`{"isTargeted":true}`)
	}
	return m
}

// replaceSignIn ends an earlier sign-in of the person for the same connection.
func replaceSignIn(ctx context.Context, t *Turn, connection string) error {
	flows, err := pendingIn(ctx, t, conversationKey(t), t.Activity.From.ID)
	for _, f := range flows {
		if err == nil && f.Connection == connection {
			_, err = wakeSignIn(ctx, t, f, nil, func(s *signIn) { s.Outcome = replaced })
		}
	}
	return err
}

// Resume acts on the outcome.
func (s *signIn) Resume(ctx context.Context, t *Turn) (Next, error) {
	x, came := t.exec, s.Outcome
	s.Outcome = ""
	zerolog.Ctx(ctx).Info().Str("connection", s.Connection).Str("outcome", string(cmp.Or(came, "expired"))).Msg("sign-in ended")
	again := func(sentence texts.Text) (Next, error) {
		return WaitOn(t, s, ForPerson(t, t.Translate(sentence)))
	}
	if (came == noSilent || came == wrongCode && s.Wrong < maxCodes) && time.Since(s.Tried) > findWithin/2 {
		// It was long in its queue, so another try could not wake it, see signer.flows.
		if _, err := userToken(ctx, t, s.Connection); err == nil {
			came = signedIn
		}
	}
	switch {
	case came == signedIn:
		x.replaceNote(s, "")
		x.rec.Run.SignedIn = s.Connection
		x.since.progressed = true
		return goOnTo(running), nil
	case came == noSilent:
		return again("I couldn't sign you in. Please use the button on the card.")
	case came == wrongCode && s.Wrong < maxCodes:
		return again("That code didn't work. Please send the code that the sign-in page shows you, or use the button on the card again.")
	case came == "" || came == replaced:
		return Expired(t, s, "["+s.Action+" did not run, because "+notSignedIn+".]"), nil
	case x.owesAfter():
		return x.goOnWithout(s, notSignedIn), nil
	}
	said := x.wontDo(s.Action)
	x.replaceNote(s, "["+said+"]")
	if came == wrongCode {
		said = x.Translate("That code didn't work either.") + " " + said
	}
	x.rec.Run = nil
	return x.put([]*activity.Activity{ForPerson(t, said)})
}

// flow is a sign-in that waits.
type flow struct {
	*signIn
	owner string
	at    inbox.Waiting
}

// pendingIn lists the sign-ins that wait in the conversation of that queue, the newest first: those of owner,
// or everybody's.
func pendingIn(ctx context.Context, t *Turn, queue state.Key, owner string) (flows []flow, err error) {
	all, err := waitsOf(ctx, t, queue, owner, isOne(forSignIn))
	for _, listed := range all {
		w := readWait(listed)
		s, ok := w.open(t.engine.pauses).(*signIn)
		if ok && time.Since(s.Asked) < signInWithin {
			flows = append(flows, flow{s, w.Owner, listed})
		}
	}
	slices.SortStableFunc(flows, func(a, b flow) int { return b.Asked.Compare(a.Asked) })
	return flows, err
}

// unsettledIn lists the sign-ins of the turn's person that do not wait just now, but will: the record
// is about to send its card, or is in its queue to say that a try failed. They cannot be woken, but
// [signInEnded] finds a token.
func unsettledIn(ctx context.Context, t *Turn, queue state.Key) (flows []flow, err error) {
	all, err := t.engine.inbox.Records(ctx, queue)
	for id, raw := range all {
		rec, err := Decode(raw)
		if err != nil || rec.Wait == nil {
			continue // one that cannot be read is its turn's trouble
		}
		s, ok := rec.Wait.open(t.engine.pauses).(*signIn)
		if !ok || time.Since(s.Asked) >= signInWithin {
			continue
		}
		asked, err := rec.Read()
		if err == nil && asked.From.ID == t.Activity.From.ID && slices.Contains([]outcome{"", noSilent, wrongCode}, s.Outcome) {
			flows = append(flows, flow{s, asked.From.ID, inbox.Waiting{Queue: queue, ID: id}})
		}
	}
	slices.SortStableFunc(flows, func(a, b flow) int { return b.Asked.Compare(a.Asked) })
	return flows, err
}

// wakeSignIn changes a sign-in that waits and puts its record back into its queue. by proved the
// address that it is answered at; nil: nobody did. It reports whether the record still waited.
func wakeSignIn(ctx context.Context, t *Turn, f flow, by *Turn, change func(*signIn)) (woken bool, err error) {
	const most = 5 // others may do so at the same time
	for range most {
		w, err := t.engine.inbox.Find(ctx, f.at.Queue, f.at.ID)
		if errors.Is(err, inbox.ErrNoRecord) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		rec, err := Decode(w.Record)
		if err != nil {
			return false, err
		}
		s, ok := rec.Wait.open(t.engine.pauses).(*signIn)
		if rec.Wait.For != forSignIn || !ok {
			return false, nil
		}
		change(s)
		if by != nil {
			rec.Caller, rec.Caller.ServiceURL = by.rec.Caller, by.Activity.ServiceURL
		}
		rec.Awaited, rec.Answer = false, nil
		raw, err := rec.Encode()
		if err == nil {
			err = t.engine.inbox.Wake(ctx, w, raw)
		}
		if err == nil || !errors.Is(err, inbox.ErrNoRecord) {
			return err == nil, err
		}
	}
	return false, nil
}

// The names of what brings an answer to a sign-in card.
const (
	exchangeInvoke = "signin/tokenExchange"
	verifyInvoke   = "signin/verifyState"
	failureInvoke  = "signin/failure"
	tokenEvent     = "tokens/response"
	typedCode      = "signin/code" // a code that the person wrote: the bot's own name of such a message
	cardAction     = "adaptiveCard/action"
)

// sixDigits is what codes look like.
var sixDigits = lazy.Regexp(`^[0-9]{6}$`)

// byPerson is what the page hands back when the person closes it.
const byPerson = "CancelledByUser"

// answerToCard is what a client or a person sends for a sign-in card, without the secret in it.
type answerToCard struct {
	kind       string
	Exchange   string `json:"id,omitempty"` // id of the silent sign-in
	Connection string `json:"connectionName,omitempty"`
	State      string `json:"state,omitempty"` // "" or [byPerson]
	Code       string `json:"code,omitempty"`  // why the client could not do it
	// Given says that there was a secret.
	Given bool `json:"given,omitzero"`
}

// answersCard reads it, once it has no secret any more.
func answersCard(a *activity.Activity) (s answerToCard, ok bool) {
	switch {
	case a.Type == activity.Invoke && slices.Contains([]string{exchangeInvoke, verifyInvoke, failureInvoke}, a.Name):
	case a.Type == activity.Event && a.Name == tokenEvent, a.Type == activity.Message && a.Name == typedCode:
	default:
		return s, false
	}
	_ = json.Unmarshal(a.Value, &s) // a value of another form says nothing
	s.kind = a.Name
	return s, true
}

// Hide takes the token or the code out of an activity that answers a sign-in card. What remains may be
// stored and logged. It is for programs that see activities before the bot does.
func Hide(a *activity.Activity) (secret string) {
	if a.Type == activity.Invoke && (strings.HasPrefix(a.Name, "composeExtension/") || a.Name == cardAction) {
		return hideState(a)
	}
	if _, ok := answersCard(a); !ok {
		return ""
	}
	var in struct {
		ID         any `json:"id"`
		Connection any `json:"connectionName"`
		Token      any `json:"token"`
		State      any `json:"state"`
		Code       any `json:"code"`
	}
	_ = json.Unmarshal(a.Value, &in) // a value of another form says nothing
	text := func(v any, most int) string {
		s, _ := v.(string)
		return strings.ToValidUTF8(s[:min(len(s), most)], "")
	}
	const short, long = 256, 64 << 10
	kept := answerToCard{Exchange: text(in.ID, short), Connection: text(in.Connection, short)}
	switch a.Name {
	case exchangeInvoke, tokenEvent:
		secret = text(in.Token, long)
	case verifyInvoke:
		if secret = text(in.State, short); secret == byPerson {
			kept.State, secret = secret, ""
		}
	case failureInvoke:
		kept.Code = text(in.Code, 64)
	}
	kept.Given = secret != ""
	a.Value, _ = json.Marshal(kept) // texts always encode
	if a.Type == activity.Message {
		a.Value = nil // or it would be a click
	}
	a.Text, a.Extra = "", nil
	return secret
}

// hideState takes the code out of the value of an invoke.
func hideState(a *activity.Activity) (code string) {
	var value map[string]jsontext.Value
	if code = stateOf(a); !sixDigits().MatchString(code) || json.Unmarshal(a.Value, &value) != nil {
		return ""
	}
	maps.DeleteFunc(value, func(name string, _ jsontext.Value) bool { return strings.EqualFold(name, "state") })
	a.Value, _ = json.Marshal(value) // it was JSON
	return code
}

// hideSecret takes the secret out of the turn's activity and of its record.
func hideSecret(t *Turn) {
	_, ok := answersCard(t.Activity)
	switch {
	case ok && t.SignsIn(): // else the bot's own handler wants it
		t.secret, t.Text = Hide(t.Activity), ""
	case !ok && t.engine.cfg.Tokens != nil && slices.Contains([]string{"composeExtension/submitAction", cardAction}, t.Activity.Name): // the others are not stored
		if t.secret = Hide(t.Activity); t.secret == "" {
			return
		}
	default:
		return
	}
	raw, err := t.Activity.Encode()
	if err != nil { // it was decoded
		raw = []byte(`{}`)
	}
	t.rec.Activity = raw
}

// signer is a turn that brings the answer to a sign-in card.
type signer struct {
	*Turn
	answerToCard
}

// answer is the handler of such a turn.
func (t *signer) answer(ctx context.Context) error {
	switch t.kind {
	case exchangeInvoke:
		return t.exchange(ctx)
	case verifyInvoke:
		return t.verify(ctx)
	case failureInvoke:
		return t.gaveUp(ctx)
	case tokenEvent:
		return t.arrived(ctx)
	}
	return t.typed(ctx)
}

// flows lists what the person may sign in for. If there is none that will do, but a turn at work that
// may be about to wait, it looks again for a while.
func (t *signer) flows(ctx context.Context, will func(flow) bool) (mine []flow, err error) {
	queue := conversationKey(t.Turn)
	for until := time.Now().Add(findWithin); ; {
		running, err := t.engine.inbox.Queued(ctx, queue) // before the list: it may begin to wait in between
		if err != nil {
			return nil, err
		}
		all, err := pendingIn(ctx, t.Turn, queue, "")
		if err != nil {
			return nil, err
		}
		mine = slices.DeleteFunc(slices.Clone(all), func(f flow) bool { return f.owner != t.Activity.From.ID })
		switch {
		case slices.ContainsFunc(mine, will):
			return mine, nil
		case t.Exchange != "" && slices.ContainsFunc(all, func(f flow) bool { return f.Exchange == t.Exchange }):
			zerolog.Ctx(ctx).Warn().Str("audit", "sign-in").Str("user", t.Activity.From.ID).Msg("somebody else answered a sign-in card, ignored")
			return mine, nil
		case running == 0 || ctx.Err() != nil:
			return mine, ctx.Err()
		case time.Now().After(until):
			unsettled, err := unsettledIn(ctx, t.Turn, queue)
			return append(mine, unsettled...), err
		}
		wait(ctx, 50*time.Millisecond, nil)
	}
}

// exchange signs the person in with the token of their Teams client. Teams understands 412 as: the
// person has to consent.
func (t *signer) exchange(ctx context.Context) error {
	known := slices.Contains(t.engine.cfg.Actions.Connections(), t.Connection)
	if !t.Given || !known {
		return t.refuse(http.StatusBadRequest, "there is no token, or no such connection")
	}
	wanted := func(f flow) bool { return f.Connection == t.Connection }
	mine, err := t.flows(ctx, wanted)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(mine, wanted)
	switch {
	case i < 0 && len(mine) > 0:
		return t.refuse(http.StatusBadRequest, "the sign-in is for another connection")
	case i < 0: // it is complete, or not this person's
		t.Answer(Answer{})
		return nil
	}
	var refused *connector.Error
	switch err := t.redeem(ctx, t.Connection, true); {
	case err == nil:
	case errors.As(err, &refused) && slices.Contains([]int{400, 404, 409, 412}, refused.Status),
		errors.Is(err, connector.ErrNoUserToken) && t.secret != "":
		return t.refuse(http.StatusPreconditionFailed, "the person has to consent, or the connection is not set up for this")
	default:
		zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("a sign-in could not be completed")
		return t.refuse(http.StatusBadGateway, "the token service did not answer")
	}
	t.Answer(Answer{})
	return t.wake(ctx, mine[i], signedIn)
}

// redeem signs the person in with the secret. If that died with its process, the token service knows
// whether they are signed in.
func (t *signer) redeem(ctx context.Context, connection string, exchange bool) (err error) {
	tokens, ref := t.engine.cfg.Tokens, t.Activity.Reference()
	if exchange && t.secret != "" {
		_, err = tokens.ExchangeToken(ctx, ref, connection, t.secret)
	} else {
		_, err = tokens.UserToken(ctx, ref, connection, t.secret)
	}
	return err
}

func (t *signer) wake(ctx context.Context, f flow, came outcome) error {
	woken, err := wakeSignIn(ctx, t.Turn, f, t.Turn, func(s *signIn) {
		s.Outcome, s.Tried = came, time.Now().UTC().Truncate(time.Millisecond)
		switch came {
		case wrongCode:
			s.Wrong++
		case noSilent:
			s.Told = true
		}
	})
	if err != nil || woken || came != signedIn {
		return err
	}
	// They may have said /forget or /signout while the token came: then they are to be signed out.
	all, err := t.engine.inbox.Records(ctx, f.at.Queue)
	if _, there := all[f.at.ID]; err == nil && !there {
		zerolog.Ctx(ctx).Info().Str("connection", f.Connection).Msg("signed out, because the sign-in ended while the token came")
		err = t.engine.cfg.Tokens.SignOutUser(ctx, t.Activity.Reference(), f.Connection)
	}
	return err
}

// refuse answers the request so that the client shows the sign-in button.
func (t *signer) refuse(status int, why string) error {
	body, err := json.Marshal(struct {
		ID         string `json:"id,omitempty"`
		Connection string `json:"connectionName,omitempty"`
		Detail     string `json:"failureDetail"`
	}{t.Exchange, t.Connection, why})
	if err == nil {
		t.Answer(Answer{Status: status, Body: body})
	}
	return err
}

// verify signs the person in with the code that the page handed to their client.
func (t *signer) verify(ctx context.Context) error {
	mine, err := t.flows(ctx, func(flow) bool { return true })
	switch {
	case err != nil:
		return err
	case !t.Given && t.State == "":
		return t.refuse(http.StatusNotFound, "there is no code")
	case len(mine) == 0:
		t.Answer(Answer{}) // it is complete
		return nil
	case t.State == byPerson:
		t.Answer(Answer{})
		return t.wake(ctx, mine[0], cancelled)
	case t.secret != "" && !sixDigits().MatchString(t.secret):
		return t.refuse(http.StatusPreconditionFailed, "this is no code")
	}
	switch err := t.tryCode(ctx, mine); {
	case err == nil:
		t.Answer(Answer{})
	case errors.Is(err, connector.ErrNoUserToken):
		return t.refuse(http.StatusPreconditionFailed, "the code is wrong")
	case is[*connector.Error](err) || errors.Is(err, errNoAnswer):
		return t.refuse(http.StatusBadGateway, "the token service did not answer")
	default:
		return err
	}
	return nil
}

// errNoAnswer says that the token service was of no use.
var errNoAnswer = errors.New("no answer of the token service")

// tryCode redeems the code for the newest sign-in that it is good for. A wrong one counts.
func (t *signer) tryCode(ctx context.Context, mine []flow) error {
	var tried []string
	for _, f := range mine {
		if slices.Contains(tried, f.Connection) {
			continue
		}
		tried = append(tried, f.Connection)
		err := t.redeem(ctx, f.Connection, false)
		if err == nil {
			return t.wake(ctx, f, signedIn)
		}
		if !errors.Is(err, connector.ErrNoUserToken) {
			zerolog.Ctx(ctx).Error().Str("error", cause(err)).Msg("a code could not be checked")
			return fmt.Errorf("%w: %w", errNoAnswer, err)
		}
	}
	if t.secret != "" {
		if err := t.wake(ctx, mine[0], wrongCode); err != nil {
			return err
		}
	}
	return connector.ErrNoUserToken
}

// typed signs the person in with the code that they wrote.
func (t *signer) typed(ctx context.Context) error {
	mine, err := t.flows(ctx, func(flow) bool { return true })
	if err != nil {
		return err
	}
	if len(mine) == 0 {
		return t.Tell(ctx, t.Translate("I'm no longer waiting for you to sign in. Please ask me again for what you need."))
	}
	switch err := t.tryCode(ctx, mine); {
	case errors.Is(err, connector.ErrNoUserToken) && t.secret == "": // its process died
		return t.Tell(ctx, t.Translate("I lost the code. Please send it again."))
	case errors.Is(err, connector.ErrNoUserToken):
		return nil // the turn that waits says so
	case errors.Is(err, errNoAnswer):
		return t.Tell(ctx, t.Translate("I couldn't check the code just now. Please send it again in a minute."))
	default:
		return err
	}
}

// arrived goes on if the person is signed in, as an event of other channels than Teams says.
func (t *signer) arrived(ctx context.Context) error {
	wanted := func(f flow) bool { return strings.EqualFold(f.Connection, t.Connection) }
	mine, err := t.flows(ctx, wanted)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(mine, wanted); i >= 0 {
		t.secret = "" // the token service has it
		if err := t.redeem(ctx, mine[i].Connection, false); err != nil {
			zerolog.Ctx(ctx).Warn().Str("error", cause(err)).Msg("a token is said to be there, and the token service has none")
			return nil
		}
		return t.wake(ctx, mine[i], signedIn)
	}
	return nil
}

// gaveUp notes that the client could not sign in silently. Most often the card's button still works and
// the client says so itself.
func (t *signer) gaveUp(ctx context.Context) error {
	zerolog.Ctx(ctx).Warn().Str("code", t.Code).Msg("the client could not sign in silently")
	t.Answer(Answer{})
	if !slices.Contains([]string{"installappfailed", "authrequestfailed"}, t.Code) {
		return nil
	}
	silent := func(f flow) bool { return f.Exchange != "" }
	mine, err := t.flows(ctx, silent)
	if i := slices.IndexFunc(mine, silent); err == nil && i >= 0 && !mine[i].Told {
		err = t.wake(ctx, mine[i], noSilent)
	}
	return err
}

// ExchangeOf identifies a silent sign-in, because each of the person's open clients answers the
// card. "": the turn is not a silent sign-in.
func ExchangeOf(t *Turn) string {
	s, ok := answersCard(t.Activity)
	if !ok || s.kind != exchangeInvoke || s.Exchange == "" {
		return ""
	}
	return "exchange\n" + t.Activity.Conversation.ID + "\n" + t.Activity.From.ID + "\n" + s.Connection + "\n" + s.Exchange
}

// CodeOf tells the code of a sign-in that came with the activity from others, and keeps it secret. "": none came.
func CodeOf(t *Turn) string {
	if t.secret == "" {
		return ""
	}
	return hashOf(t.secret)
}
