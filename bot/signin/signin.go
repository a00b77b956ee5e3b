// Package signin signs people in to other services, for actions that need a token of theirs.
package signin

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

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/lazy"
)

// What this package is about: an action may need a token of the person for another service. If they are not signed in, the bot
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
	maxSignIns   = 2                // how often one turn asks a person to sign in to the same service
	signInWithin = 15 * time.Minute // how long a plan waits for a person to sign in
	maxCodes     = 3                // how many wrong codes end it
	// findWithin is how long an answer to a card looks for a record that is about to wait: the card may
	// be answered before it is noted that it was sent.
	findWithin = 3 * time.Second
	kind       = "sign_in" // what a record waits for
)

// SignIn signs people in.
type SignIn struct {
	tokens  Tokens // nil: nobody can be signed in
	actions *actions.Registry
}

// New returns what signs people in for these actions.
func New(tokens Tokens, all *actions.Registry) *SignIn { return &SignIn{tokens, all} }

// Feature has calls of actions that need a token wait for the person to sign in, and takes what they answer.
func (f *SignIn) Feature() turn.Feature {
	return turn.Feature{
		Name: "signin", Hides: f.hides, Accept: f.accept, Ready: f.ready, Called: f.called, Token: f.token,
		Pauses: map[string]func() turn.Pause{kind: func() turn.Pause { return &signIn{of: f} }},
		Reads: func(a *activity.Activity, _ string) *turn.Reply {
			s, ok := answersCard(a)
			if !ok || !f.signsIn() {
				return nil
			}
			return &turn.Reply{
				Queue:  "signin " + turn.Hash(cmp.Or(ExchangeOf(a), a.Name+"\n"+a.From.ID+"\n"+a.ID))[:16], // equal ones share it
				Handle: func(ctx context.Context, t *turn.Turn) error { return (&signer{t, f, s, turn.Secret(t)}).answer(ctx) },
			}
		},
	}
}

func (f *SignIn) signsIn() bool { return len(f.actions.Connections()) > 0 }

// What a turn keeps while it plans: the connection that the person has just signed in to, for the next call, and how
// often it asked for that, by connection.
var (
	signedInTo = turn.NewPlanSlot[string]("signed_in")
	asked      = turn.NewPlanSlot[map[string]int]("sign_ins")
)

// current are the person's tokens for the calls that come next, by connection.
var current = turn.NewLocal[map[string]connector.UserToken]()

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

	of *SignIn
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

// token is [actions.Turn.UserToken].
func (f *SignIn) token(ctx context.Context, t *turn.Turn, connection string) (connector.UserToken, error) {
	if token, ok := (*current.Of(t))[connection]; ok {
		return token, nil
	}
	if f.tokens == nil {
		return connector.UserToken{}, connector.ErrNoTokenService
	}
	return f.tokens.UserToken(ctx, t.Activity.Reference(), connection, "")
}

// Link returns the address where the turn's person signs in to the connection. Only they may get it.
func (f *SignIn) Link(ctx context.Context, t *turn.Turn, connection string) (string, error) {
	if f.tokens == nil {
		return "", connector.ErrNoTokenService
	}
	r, err := f.tokens.SignInResource(ctx, t.Activity.Reference(), connection)
	return r.Link, err
}

// Redeem signs the turn's person in to the connection, with the code in the message extension's invoke that Teams
// repeats after a sign-in. It reports whether there was a correct code.
func (f *SignIn) Redeem(ctx context.Context, t *turn.Turn, connection string) (bool, error) {
	code := cmp.Or(turn.Secret(t), stateOf(t.Activity))
	if !sixDigits().MatchString(code) || f.tokens == nil {
		return false, nil
	}
	_, err := f.tokens.UserToken(ctx, t.Activity.Reference(), connection, code)
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

// Out signs the person out of all connections that actions need, and drops what waits in this conversation for them to
// sign in.
func (f *SignIn) Out(ctx context.Context, t *turn.Turn) error {
	var errs []error
	for _, connection := range f.actions.Connections() {
		err := f.tokens.SignOutUser(ctx, t.Activity.Reference(), connection)
		if !errors.Is(err, connector.ErrNoTokenService) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, turn.Here(t).Drop(ctx, t.Activity.From.ID, kind))
	return errors.Join(errs...)
}

// ready gets the token that a call needs. A person who is not signed in has to do that first; but a call that had
// begun, or that they have just signed in for, gets it by itself.
func (f *SignIn) ready(ctx context.Context, t *turn.Turn, c *turn.Pending) (turn.Pause, error) {
	connection, have := c.Action.Connection, current.Of(t)
	if connection == "" || c.Begun || c.Approval.Required && !c.Granted || *signedInTo.Of(t) == connection {
		return nil, nil
	}
	token, err := f.token(ctx, t, connection)
	switch {
	case err == nil && *have == nil:
		*have = map[string]connector.UserToken{connection: token}
	case err == nil:
		(*have)[connection] = token
	case errors.Is(err, connector.ErrNoUserToken):
		return &signIn{Connection: connection, Action: c.Action.Name, of: f}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	default:
		return nil, whyNot(ctx, err)
	}
	return nil, nil
}

// called forgets a token that the service does not take any more, such as one that was revoked there: the call says
// that the person is not signed in, although there was a token. If it is planned again, they are asked to sign in.
func (f *SignIn) called(ctx context.Context, t *turn.Turn, a *actions.Action, err error) error {
	_, had := (*current.Of(t))[a.Connection]
	*current.Of(t), *signedInTo.Of(t) = nil, ""
	if wants, more := errors.AsType[*connector.ScopeError](err); more {
		err = f.widen(ctx, t, a, wants.Scopes)
	}
	if had && errors.Is(err, connector.ErrNoUserToken) {
		fault := f.tokens.SignOutUser(ctx, t.Activity.Reference(), a.Connection)
		zerolog.Ctx(ctx).Warn().AnErr("error", fault).Str("connection", a.Connection).Str("action", a.Name).
			Msg("a service does not take the token of a person, who is signed out")
	}
	return err
}

// widen decides what becomes of a call for which the service wants more scopes than the person's token has: they sign
// in again if that gives them.
func (f *SignIn) widen(ctx context.Context, t *turn.Turn, a *actions.Action, scopes []string) error {
	can := false
	var err error
	if tokens, ok := f.tokens.(interface {
		CanWiden(ctx context.Context, ref activity.Reference, connection string, needed []string) (bool, error)
	}); ok {
		can, err = tokens.CanWiden(ctx, t.Activity.Reference(), a.Connection, scopes)
	}
	if can {
		return connector.ErrNoUserToken
	}
	zerolog.Ctx(ctx).Warn().AnErr("error", err).Str("connection", a.Connection).Str("action", a.Name).Strs("scopes", scopes).
		Msg("a service wants more scopes than people are asked for")
	return turn.Refuse("the service wants more rights for it than the person can give to this bot")
}

// whyNot is why a call fails that needs a token.
func whyNot(ctx context.Context, err error) error {
	zerolog.Ctx(ctx).Warn().Str("error", turn.Cause(err)).Msg("the token service was of no use")
	if errors.Is(err, connector.ErrNoTokenService) {
		return turn.Refuse("the person cannot be signed in here")
	}
	return turn.Refuse("the service that signs people in does not answer")
}

func (*signIn) Kind() string { return kind }

// Listed has it found without its record.
func (*signIn) Listed() {}

// Until is when it ends without a token.
func (s *signIn) Until() time.Time { return s.Asked.Add(signInWithin) }

func (s *signIn) Note() string {
	return "[The person was asked to sign in, which " + s.Action + " needs. It has not run yet.]"
}

// Failed is what it says if the person could not be asked.
func (s *signIn) Failed(*turn.Turn) string {
	return "[" + s.Action + " needs a sign-in, but the person could not be asked.]"
}

// Shown notes nothing: the card goes by itself.
func (*signIn) Shown(string) {}

func (s *signIn) Answered() (activity string, ok bool) { return "", s.Outcome != "" }

// Data is nothing that the list of what waits has not.
func (*signIn) Data(*turn.Turn) map[string]any { return nil }

// Ask asks the person to sign in, unless nobody is there.
func (s *signIn) Ask(ctx context.Context, t *turn.Turn, _ string) (*activity.Activity, error) {
	title := turn.Title(t, s.Action)
	if t.Unasked() || t.Activity.From.ID == "" {
		return nil, turn.Stop(t.Translate("I can't do this: %s. You have to be signed in for it, so please ask me for it yourself.", title))
	}
	r, err := s.of.tokens.SignInResource(ctx, t.Activity.Reference(), s.Connection)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), whyNot(ctx, err))
	}
	times := asked.Of(t)
	if (*times)[s.Connection] >= maxSignIns { // the service does not take what it gave
		zerolog.Ctx(ctx).Warn().Str("connection", s.Connection).Str("action", s.Action).Msg("a person who has signed in is still not signed in")
		return nil, turn.Refuse("the person has signed in, and the service still says that they have not")
	}
	if *times == nil {
		*times = map[string]int{}
	}
	(*times)[s.Connection]++
	waiting, err := turn.Waits(ctx, t, kind)
	for _, f := range flowsOf(waiting, t.Activity.From.ID) {
		if err == nil && f.Connection == s.Connection { // this one replaces it
			_, _, err = turn.Wake(ctx, t, f.at, false, func(p turn.Pause) { p.(*signIn).Outcome = replaced })
		}
	}
	if err != nil {
		return nil, err
	}
	s.Asked = time.Now().UTC().Truncate(time.Millisecond)
	silent := t.Activity.Conversation.ConversationType != "channel" // clients refuse it there
	if silent {
		s.Exchange = r.Exchange.ID
	}
	m := turn.ForPerson(t, "")
	card := r.Card(s.Connection, t.Translate("Please sign in, so that I can do this: %s.", title), t.Translate("Sign in"), silent)
	m.Attachments = []activity.Attachment{card}
	m.TextFormat = ""
	zerolog.Ctx(ctx).Info().Str("connection", s.Connection).Str("action", s.Action).Msg("waits for the person to sign in")
	return m, nil
}

func (s *signIn) Withdraw(*activity.Activity) {
	if s.Outcome == "" {
		s.Outcome, s.Tried = cancelled, time.Now().UTC().Truncate(time.Millisecond)
	}
}

func (s *signIn) Resume(ctx context.Context, t *turn.Turn) (turn.Next, error) {
	came := s.Outcome
	s.Outcome = ""
	zerolog.Ctx(ctx).Info().Str("connection", s.Connection).Str("outcome", string(cmp.Or(came, "expired"))).Msg("sign-in ended")
	if (came == noSilent || came == wrongCode && s.Wrong < maxCodes) && time.Since(s.Tried) > findWithin/2 {
		// It was long in its queue, so another try could not wake it, see signer.flows.
		if _, err := s.of.token(ctx, t, s.Connection); err == nil {
			came = signedIn
		}
	}
	switch {
	case came == signedIn:
		*signedInTo.Of(t) = s.Connection
		return turn.Answered(t, s, nil), nil
	case came == noSilent:
		return turn.WaitOn(t, s, turn.ForPerson(t, t.Translate("I couldn't sign you in. Please use the button on the card.")))
	case came == wrongCode && s.Wrong < maxCodes:
		said := t.Translate("That code didn't work. Please send the code that the sign-in page shows you, or use the button on the card again.")
		return turn.WaitOn(t, s, turn.ForPerson(t, said))
	case came == "" || came == replaced:
		return turn.Expired(t, s, "["+s.Action+" did not run, because "+turn.NotSignedIn+".]"), nil
	}
	return turn.Without(t, s, s.Action, turn.NotSignedIn, func(said string) []*activity.Activity {
		if came == wrongCode {
			said = t.Translate("That code didn't work either.") + " " + said
		}
		return []*activity.Activity{turn.ForPerson(t, said)}
	})
}

// flow is a sign-in that waits.
type flow struct {
	*signIn
	at *turn.Waiting
}

// flowsOf lists the sign-ins of the person, or of anybody, the newest first. Of those that do not wait just now, only
// some are there: they cannot be woken, but whoever resumes them finds a token.
func flowsOf(waiting []*turn.Waiting, owner string) (flows []flow) {
	for _, w := range waiting {
		s, ok := w.Pause.(*signIn)
		open := ok && slices.Contains([]outcome{"", noSilent, wrongCode}, s.Outcome) && time.Since(s.Asked) < signInWithin
		if open && (owner == "" || w.Owner == owner) {
			flows = append(flows, flow{s, w})
		}
	}
	slices.SortStableFunc(flows, func(a, b flow) int { return b.Asked.Compare(a.Asked) })
	return flows
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

const byPerson = "CancelledByUser" // what the page hands back when the person closes it

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

// hides takes the secret out of the turn's activity.
func (f *SignIn) hides(t *turn.Turn, stored bool) {
	a := t.Activity
	switch _, ok := answersCard(a); {
	case ok && f.signsIn(): // else the bot's own handler wants it
		turn.Hide(t, Hide(a))
	case !ok && f.tokens != nil && (stored || a.Name == "composeExtension/submitAction" || a.Name == cardAction):
		if secret := Hide(a); secret != "" {
			turn.Hide(t, secret)
		}
	}
}

// accept makes a message that is nothing but six digits the code of its person, if they are about to sign in.
func (f *SignIn) accept(ctx context.Context, t *turn.Turn) error {
	code, a := t.Text, t.Activity
	if !t.IsMessage() || !sixDigits().MatchString(code) || !f.signsIn() {
		return nil
	}
	mine := func(all []*turn.Waiting) bool { return len(flowsOf(all, a.From.ID)) > 0 }
	waiting, err := turn.Await(ctx, t, kind, 0, mine)
	if err != nil || !mine(waiting) {
		return err
	}
	a.Name, a.Entities, a.Attachments, a.Value = typedCode, nil, nil, nil
	Hide(a)
	turn.Hide(t, code)
	return nil
}

// signer is a turn that brings the answer to a sign-in card.
type signer struct {
	*turn.Turn
	*SignIn
	answerToCard
	secret string
}

func (t *signer) answer(ctx context.Context) error {
	return map[string]func(context.Context) error{
		exchangeInvoke: t.exchange, verifyInvoke: t.verify, failureInvoke: t.gaveUp, tokenEvent: t.arrived, typedCode: t.typed,
	}[t.kind](ctx)
}

// flows lists what the person may sign in for. If there is none that will do, but a turn at work that
// may be about to wait, it looks again for a while.
func (t *signer) flows(ctx context.Context, will func(flow) bool) ([]flow, error) {
	others := func(f flow) bool { return t.Exchange != "" && f.Exchange == t.Exchange }
	all, err := turn.Await(ctx, t.Turn, kind, findWithin, func(all []*turn.Waiting) bool {
		return slices.ContainsFunc(flowsOf(all, t.Activity.From.ID), will) || slices.ContainsFunc(flowsOf(all, ""), others)
	})
	mine := flowsOf(all, t.Activity.From.ID)
	if !slices.ContainsFunc(mine, will) && slices.ContainsFunc(flowsOf(all, ""), others) {
		zerolog.Ctx(ctx).Warn().Str("audit", "sign-in").Str("user", t.Activity.From.ID).Msg("somebody else answered a sign-in card, ignored")
	}
	return mine, err
}

// exchange signs the person in with the token of their Teams client. Teams understands 412 as: the
// person has to consent.
func (t *signer) exchange(ctx context.Context) error {
	known := slices.Contains(t.actions.Connections(), t.Connection)
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
		t.Answer(turn.Answer{})
		return nil
	}
	var refused *connector.Error
	switch err := t.redeem(ctx, t.Connection, true); {
	case err == nil:
	case errors.As(err, &refused) && slices.Contains([]int{400, 404, 409, 412}, refused.Status),
		errors.Is(err, connector.ErrNoUserToken) && t.secret != "":
		return t.refuse(http.StatusPreconditionFailed, "the person has to consent, or the connection is not set up for this")
	default:
		zerolog.Ctx(ctx).Error().Str("error", turn.Cause(err)).Msg("a sign-in could not be completed")
		return t.refuse(http.StatusBadGateway, "the token service did not answer")
	}
	t.Answer(turn.Answer{})
	return t.wake(ctx, mine[i], signedIn)
}

// redeem signs the person in with the secret. If that died with its process, the token service knows
// whether they are signed in.
func (t *signer) redeem(ctx context.Context, connection string, exchange bool) (err error) {
	tokens, ref := t.tokens, t.Activity.Reference()
	if exchange && t.secret != "" {
		_, err = tokens.ExchangeToken(ctx, ref, connection, t.secret)
	} else {
		_, err = tokens.UserToken(ctx, ref, connection, t.secret)
	}
	return err
}

func (t *signer) wake(ctx context.Context, f flow, came outcome) error {
	woken, gone, err := turn.Wake(ctx, t.Turn, f.at, true, func(p turn.Pause) {
		s := p.(*signIn)
		s.Outcome, s.Tried = came, time.Now().UTC().Truncate(time.Millisecond)
		switch came {
		case wrongCode:
			s.Wrong++
		case noSilent:
			s.Told = true
		}
	})
	if err != nil || woken || came != signedIn || !gone {
		return err
	}
	// They may have said /forget or /signout while the token came: then they are to be signed out.
	zerolog.Ctx(ctx).Info().Str("connection", f.Connection).Msg("signed out, because the sign-in ended while the token came")
	return t.tokens.SignOutUser(ctx, t.Activity.Reference(), f.Connection)
}

// refuse answers the request so that the client shows the sign-in button.
func (t *signer) refuse(status int, why string) error {
	body, err := json.Marshal(struct {
		ID         string `json:"id,omitempty"`
		Connection string `json:"connectionName,omitempty"`
		Detail     string `json:"failureDetail"`
	}{t.Exchange, t.Connection, why})
	if err == nil {
		t.Answer(turn.Answer{Status: status, Body: body})
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
		t.Answer(turn.Answer{}) // it is complete
		return nil
	case t.State == byPerson:
		t.Answer(turn.Answer{})
		return t.wake(ctx, mine[0], cancelled)
	case t.secret != "" && !sixDigits().MatchString(t.secret):
		return t.refuse(http.StatusPreconditionFailed, "this is no code")
	}
	switch err := t.tryCode(ctx, mine); {
	case err == nil:
		t.Answer(turn.Answer{})
	case errors.Is(err, connector.ErrNoUserToken):
		return t.refuse(http.StatusPreconditionFailed, "the code is wrong")
	case errors.As(err, new(*connector.Error)) || errors.Is(err, errNoAnswer):
		return t.refuse(http.StatusBadGateway, "the token service did not answer")
	default:
		return err
	}
	return nil
}

var errNoAnswer = errors.New("no answer of the token service") // says that the token service was of no use

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
			zerolog.Ctx(ctx).Error().Str("error", turn.Cause(err)).Msg("a code could not be checked")
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
			zerolog.Ctx(ctx).Warn().Str("error", turn.Cause(err)).Msg("a token is said to be there, and the token service has none")
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
	t.Answer(turn.Answer{})
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
// card. "": the activity is not a silent sign-in.
func ExchangeOf(a *activity.Activity) string {
	s, ok := answersCard(a)
	if !ok || s.kind != exchangeInvoke || s.Exchange == "" {
		return ""
	}
	return "exchange\n" + a.Conversation.ID + "\n" + a.From.ID + "\n" + s.Connection + "\n" + s.Exchange
}
