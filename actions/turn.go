package actions

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/state"
)

// Turn is one activity being answered: what the person said, and the state that actions read and
// change. It is not safe for concurrent use.
type Turn struct {
	// ID identifies the turn in logs and in messages to the person about a failure.
	ID string
	// Activity is the incoming activity. Read only.
	Activity *activity.Activity
	// Text is what the person said, without the mention of the bot.
	Text string

	// Files are the files and pictures that came with the activity. In Teams people can send files
	// only in personal chats, to an app whose manifest says supportsFiles. nil: none.
	Files []File

	// Attached is what of the files a model is to be shown, in their order. A bot fills it in before it
	// plans, if it is set up for that. Nothing of it is saved. nil: nothing.
	Attached []Attached

	// Conversation is the state of the whole conversation: in a channel, of all its threads. Thread
	// is the state of one thread; outside channels it is the same as Conversation, but for a private
	// question ([activity.Activity.Targeted]), which has a thread of its own. User is the
	// person's state across conversations. Temp lasts as long as the turn.
	Conversation, Thread, User, Temp *state.Scope
	// Bot returns the state of the whole bot, which all conversations and people share. The first call
	// in a turn loads it; from then on it is saved with the turn, as the other scopes are. After an
	// error nothing is loaded: return it. nil if no bot runs the turn.
	Bot func(ctx context.Context) (*state.Scope, error)

	// UserToken returns the token of the person of the turn for an OAuth connection, fresh from the token
	// service. It is for actions with [NeedsToken], during their call only, and may be called from
	// several goroutines. It is never the token of somebody who approved the call. Do not put it into
	// state or results. [connector.ErrNoUserToken]: the person is not signed in; an action that returns
	// this error fails with a sentence that says so. If there was a token, the service does not take it any
	// more: the person is signed out, and signs in when the action is planned again. nil if no bot runs the
	// turn.
	UserToken func(ctx context.Context, connection string) (connector.UserToken, error)

	// Team asks the connector for the team of the turn's channel. The error is the connector's, or says
	// that the turn is in no team. nil if no bot runs the turn.
	Team func(ctx context.Context) (connector.Team, error)

	// Rounds are the turn's plans so far, with their outcomes. A planner shows them to the model
	// when it plans again.
	Rounds []Round

	// Usage is what planning has cost in this turn so far. Budget is what it may cost. Code that
	// calls a model in the turn calls [Turn.Afford] before each call and adds to Usage after it.
	Usage  Usage
	Budget Budget

	// Quota is a budget that turns share. [Turn.Afford] calls it with the Usage so far. It returns
	// a [*BudgetError] when the budget is used up. nil: no quota.
	Quota func(used Usage) error

	// Gate is called before each action that runs inside another action, such as a plan that is
	// itself an action. An error makes that call fail. nil allows every call.
	Gate func(ctx context.Context, call Call) error

	// Reads is called with what others wrote, before a model sees it beside results of actions. An error
	// means that the model must not. nil: nobody judges it.
	Reads func(ctx context.Context, text string) error

	// Screen judges texts that others wrote, such as passages of documents, and returns what write makes of
	// those that a model may read: may says of each whether it may. That text is not judged again. The error
	// says that nobody could judge. Several calls may run at once. nil: nobody judges them.
	Screen func(ctx context.Context, texts []string, write func(may []bool) string) (string, error)

	// Draft is set where the person may see an answer while the model writes it. A planner calls it
	// with the text so far of the first message of a plan that has no DO, each time that grows. It is
	// no reply: the plan may be refused, and then another text follows that need not begin with this
	// one. "" takes back what was not shown yet. Draft never blocks, and is called before the planner returns. nil: nobody sees it.
	Draft func(text string)

	// Now is the time that the prompt tells the model, for a turn that is planned again. Zero: the time of the call.
	Now time.Time

	// Texts has what the bot says by itself in other languages, see [Turn.Translate]. nil: English.
	Texts *texts.Catalog

	// OnProgress gets what [Turn.Progress] says. nil: nobody reads it.
	OnProgress func(text string)

	// Notifier sends messages that are not replies to this turn: elsewhere, or later. nil if no bot
	// runs the turn.
	Notifier Notifier

	filling    sync.Mutex  // locked while the bot fills in host values, see [Provide]
	distrusted atomic.Bool // see [Turn.Distrust]
}

// Usage counts model calls, tokens as the models report them, and their cost where prices are
// known. Messages counts the SAYs of all plans so far.
type Usage struct {
	ModelCalls, PromptTokens, CompletionTokens int
	Cost                                       float64 // in the currency of the prices
	Messages                                   int     `json:",omitempty"`
}

// Budget limits what the planning of one turn may cost: input and output tokens, and money. The
// call that exceeds one of these limits is still made. Messages limits the SAYs of all plans: a
// plan with more than remain is a fault. A zero field means no limit.
type Budget struct {
	Tokens   int
	Cost     float64
	Messages int
}

// BudgetError says which part of a turn's [Budget] is used up.
type BudgetError struct{ Of string } // "tokens" or "cost"

func (e *BudgetError) Error() string { return "the turn's budget of " + e.Of + " is used up" }

// Afford returns a [*BudgetError] when the turn's budget is used up, or else the result of Quota.
func (t *Turn) Afford() error {
	switch u, b := t.Usage, t.Budget; {
	case b.Tokens > 0 && u.PromptTokens+u.CompletionTokens >= b.Tokens:
		return &BudgetError{Of: "tokens"}
	case b.Cost > 0 && u.Cost >= b.Cost:
		return &BudgetError{Of: "cost"}
	}
	if t.Quota != nil {
		return t.Quota(t.Usage)
	}
	return nil
}

// Round is one plan of a turn with the outcomes of its commands so far, in order.
type Round struct {
	// Preface is what the model wrote next to its tool calls. It goes back to the model, not to the
	// person.
	Preface  string    `json:"preface,omitempty"`
	Outcomes []Outcome `json:"outcomes,omitempty"`
	// Withheld says that some messages of the plan were not sent, because an earlier command found
	// nothing to act on: see [Unchanged].
	Withheld bool `json:"withheld,omitempty"`
}

// Outcome is one command that ran, or that was skipped because an earlier one failed. A message
// that was sent has the action "SAY".
type Outcome struct {
	Action   string         `json:"action"`
	Entities map[string]any `json:"entities,omitempty"` // as passed to the action
	Text     string         `json:"text,omitempty"`
	Failed   bool           `json:"failed,omitempty"`
	// Unchanged says that the command found nothing to act on, see [Unchanged].
	Unchanged bool `json:"unchanged,omitempty"`
	// Shown is the text of the cards that have shown the result to the person, see [Result.Shown].
	Shown string `json:"shown,omitempty"`
	// CallID is the id of the model's tool call; "" for a command of a plan.
	CallID string `json:"callId,omitempty"`
}

// Outcomes returns the outcomes of all rounds, in order.
func (t *Turn) Outcomes() []Outcome {
	var all []Outcome
	for _, r := range t.Rounds {
		all = append(all, r.Outcomes...)
	}
	return all
}

// Translate says an English sentence in the language of the person's client, if the bot has it in
// that language. The verbs are those of package fmt; numbers are written as that language does.
func (t *Turn) Translate(sentence texts.Text, args ...any) string {
	locale := ""
	if t.Activity != nil {
		locale = t.Activity.Locale
	}
	return t.Texts.Say(locale, sentence, args...)
}

// Cite notes a source that an action has read, and returns the mark for it, such as "[1]". Put the mark
// into the action's result, beside what it is from: a message of the turn in which the model writes the
// mark shows the source, where the channel can ([activity.Activity.Cite]). Marks are numbered anew in each
// message, in the order of their first use; those of no source vanish. The same title, address and abstract
// have one mark, until the turn ends. A message shows at most twenty sources. Actions that run at the same
// time must not call it at the same time.
func (t *Turn) Cite(source activity.Citation) (mark string) {
	all := state.Of[cited](t.Temp)
	at := slices.IndexFunc(all.Read, func(s activity.Citation) bool {
		return s.Title == source.Title && s.URL == source.URL && s.Abstract == source.Abstract
	})
	if at < 0 {
		at = len(all.Read)
		all.Read = append(all.Read, source)
	}
	if s := &all.Read[at].Sensitivity; *s == (activity.Sensitivity{}) || source.Sensitivity.Level > s.Level {
		*s = source.Sensitivity
	}
	return "[" + strconv.Itoa(at+1) + "]"
}

// Sources are what the turn's actions have cited, in the order of their marks.
func (t *Turn) Sources() []activity.Citation { return state.Peek[cited](t.Temp).Read }

// cited is a value of the turn's temporary state.
type cited struct{ Read []activity.Citation }

// Progress tells the person how far a long action is, such as "Read 3 of 12 files", where the channel
// shows that, and only while the action runs. The newest text counts; it is cut at 1,000 characters.
// Progress never blocks. Actions may call it from any goroutine until they return.
func (t *Turn) Progress(text string) {
	if t.OnProgress != nil {
		t.OnProgress(text)
	}
}

// Personal returns the person's state in a personal chat, and the conversation's state elsewhere.
func (t *Turn) Personal() *state.Scope {
	if t.Activity.Conversation.Personal() {
		return t.User
	}
	return t.Conversation
}

// Attempt is what an action can know about the current call. The zero value is a call outside a
// turn.
type Attempt struct {
	// Key is unique to the call: the turn's id and how many calls the turn made before. If the
	// process is killed and the call is repeated, Key stays the same. Pass it as the idempotency
	// key to the service that the action uses.
	Key string
	// Again says that the call may have been started before, and its outcome was not saved: the process
	// died, or another conversation changed a value that the call had changed too. The call may not have
	// begun, or be done partly or completely.
	Again bool
	// Answer is what came of the question of this call's last attempt, see [Ask]. nil: it asked none.
	Answer *Answer
	// Approved says that exactly this call was approved, by whom the policy wants.
	Approved bool
	// MayAsk says that the call may ask the person a question. Without it, [Action.Call] makes a call that
	// asks again at once, with a declined answer.
	MayAsk bool
}

// Within is the attempt of the i-th nested call. It may ask nothing.
func (a Attempt) Within(i int) Attempt {
	if a.Key == "" {
		return a
	}
	return Attempt{Key: a.Key + "." + strconv.Itoa(i), Again: a.Again}
}

type attemptKey struct{}

// Context returns the context for the call. It is for code that calls actions.
func (a Attempt) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

// AttemptOf returns the attempt from the context that the action got. A field with the tag
// `host:"attempt"` gets the same value.
func AttemptOf(ctx context.Context) Attempt {
	a, _ := ctx.Value(attemptKey{}).(Attempt)
	return a
}

// Call is a call of an action that is about to run, with the entities that the action will get.
type Call struct {
	Action   *Action
	Entities map[string]any
	// Salvaged says that the model is less likely to have meant the call: the plan was found in the
	// middle of prose, or made with text of strangers in view ([Turn.Distrust]), or the call has a required
	// value that says nothing ([Action.Doubtful]).
	Salvaged bool
}

// Distrust says that the model reads what strangers wrote. From then on the calls of the turn's plans
// count as [Call.Salvaged], also if the action that says so fails. Actions that run at the same time may
// call it.
func (t *Turn) Distrust() { t.distrusted.Store(true) }

// Distrusted reports whether [Turn.Distrust] was called.
func (t *Turn) Distrusted() bool { return t.distrusted.Load() }

// Approval says whether a person must approve a call before it runs. The zero value needs no
// approval.
type Approval struct {
	Required bool
	// Approvers are the people who may approve, by the id or aadObjectId of their account, at most ten. Who is
	// not in the conversation is asked in their own chat with the bot. The id of a chat or channel that the bot
	// is in, which begins with "19:", asks there, and everybody in it may approve. The person whose message led
	// to the call does not count, see Self. Empty: that person approves.
	Approvers []string
	// Find finds further approvers, such as the requester's manager or the members of a group. nil: there are none.
	Find Finder
	// Self says that the person whose message led to the call counts if they are one of the approvers.
	Self bool
	// Quorum is how many people have to approve; 0: one. One rejection is enough to reject.
	Quorum int
	// Escalate says whom to ask as well while nobody has decided, by rising After.
	Escalate []Escalation
	// Within is how long people have to approve; after that the call is rejected. 0: as long as the
	// bot is configured for.
	Within time.Duration
	// Reason is shown to the approvers verbatim, without markup. It may be empty.
	Reason string
	// Bind is what the approval covers besides the action and its entities, such as the digest of
	// the code that will run. The policy is asked again just before an approved call runs. If Bind
	// has changed, it is not the call that was approved.
	Bind string
	// Standing lets the approver also approve all identical calls, with the same Bind and for the
	// same person, for the rest of this conversation.
	Standing bool
	// Change names entities that who approves may change first: texts, numbers, and yes or no. The changed call is
	// checked, the policy is asked about it, and earlier approvals of it do not count. Besides whoever changed it, the
	// person whose message led to the call or another approver has to agree.
	Change []string
	// Delegation lets approvers have somebody else decide in their place for a while, with /delegate. Both count as one
	// of the Quorum. Whoever asked is nobody's delegate.
	Delegation bool
	// Denied says why the call must not run at all, in words that the model and the person may
	// read. "": it may run.
	Denied string
}

// Finder finds the people who may approve a call, as [Approval].Approvers names them. It is called before they are
// asked, and again when somebody decides: who is no longer among them may not. It has to end with ctx, after a few
// seconds, and changes nothing. If it fails, or there are none or more than ten besides the person of the turn, that
// person reads so, and the call is not made.
type Finder func(ctx context.Context, turn *Turn, call Call) ([]string, error)

// Escalation says that further people may approve once an approval has waited for After, and who.
type Escalation struct {
	After time.Duration
	To    []string // as [Approval].Approvers
}

// Policy decides which calls need approval and which must not run. It is called before each call,
// again when a person decides about it, and again just before it runs: the newest answer counts. An error ends the
// turn, so that nothing runs without a decision, and no answer within eight seconds is one. Several turns may call it at once.
type Policy func(ctx context.Context, turn *Turn, call Call) (Approval, error)

// DefaultPolicy asks for approval of actions marked with [NeedsApproval], and of destructive
// actions whose call is [Call.Salvaged].
func DefaultPolicy(_ context.Context, _ *Turn, call Call) (Approval, error) {
	a := call.Action
	return Approval{Required: a.Approval || a.Destructive && call.Salvaged}, nil
}

// Reasons why a [Notice] cannot be sent, for errors.Is.
var (
	// ErrUnknownRecipient says that the bot has not heard from the recipient yet, or has forgotten
	// it.
	ErrUnknownRecipient = errors.New("unknown recipient")
	// ErrUnreachable says that the bot cannot send there, and why. Any activity from there makes
	// the recipient reachable again.
	ErrUnreachable = errors.New("unreachable recipient")
	// ErrFull says that too many notices are already waiting there.
	ErrFull = errors.New("too many notices wait")
)

// Recipient says where a notice goes: to a conversation, or to a person's own conversation with the
// bot. In a turn, Channel, Bot and Caller default to those of the turn.
type Recipient struct {
	Channel string // such as msteams
	Bot     string // id of the bot's account there: in Teams 28: and the app id
	// Conversation is the conversation's id; with ";messageid=…" it is a thread of a channel.
	Conversation string
	// Caller is the app id of the bot that brought the conversation here, see
	// [activity.Activity.CallerApp]. "": the channel did.
	Caller string
	// User is the id of the person's account, or in Teams their aadObjectId, if Conversation is empty.
	User string
	// Via is a conversation that the bot knows and User is in, such as a channel of their team. If
	// the person has not written to the bot yet, it starts their conversation through this one. In
	// Teams that needs the bot's app to be installed for them, else the error is [ErrUnreachable].
	// In a turn, "" is the turn's conversation. Elsewhere it is nobody's.
	Via string
}

// To returns the conversation of the activity.
func To(a *activity.Activity) Recipient {
	return Recipient{Channel: a.ChannelID, Bot: a.Recipient.ID, Caller: a.CallerApp(), Conversation: a.Conversation.ID}
}

// ToChannel is [To], but for a thread of a channel it is the channel: what goes there begins a new thread.
func ToChannel(a *activity.Activity) Recipient {
	to := To(a)
	to.Conversation = a.Conversation.BaseID()
	return to
}

// Notice is a message that the bot sends on its own: elsewhere, later, or again and again. It needs
// a Text, Activities or Run.
type Notice struct {
	// To is where it goes. The zero To in a turn is the turn's conversation.
	To Recipient
	// Text is markdown. Long text is split. It is the bot's own, so it gets no label as generated
	// by AI.
	Text string
	// Activities are sent after the text, in order: messages with cards, for example. The
	// conversation and its members are filled in. The types [activity.MessageUpdate] and
	// [activity.MessageDelete] change or delete the bot's message with the activity's ID.
	Activities []*activity.Activity
	// At is when to send it. Zero, or in the past: now. A late notice says so, with the time in
	// At's zone.
	At time.Time
	// Key deduplicates notices to one conversation. A notice is not sent again if one with the same
	// Key was sent within a day, is still waiting, or was among the last 20 sent there with a key.
	// "": notices from an action's call are deduplicated by content; all others are always sent.
	Key string
	// Every makes the notice recur: a cron expression of five fields (minute, hour, day of the
	// month, month, day of the week), such as "0 9 * * MON-FRI". The times are those of the clock in
	// Zone, the IANA name of a time zone; "": UTC. A recurring notice has a Key and no At. A notice
	// with the same Key to the same conversation replaces its schedule, so a bot may register it at
	// each start of each replica. In a group or channel the schedule belongs to the conversation, not
	// to the person who asked for it. Each time is due once, whatever the number of replicas. Times that
	// pass while no replica runs are due once together, late. A time that the clock skips is due an
	// hour later, and one that it repeats is due the first time, or both times where the hour is *.
	Every, Zone string
	// Run names the handler that runs as a turn of the conversation when the notice is due, in place
	// of sending it; see OnNotice of the bot. Text is then the Text of that turn.
	Run string

	// Topic and Memo are for [Notifier.Notices] and are not sent.
	Topic, Memo string
	// ID is the id of a waiting notice, see [Notifier.Notices].
	ID string
}

// Notifier sends messages that are not replies.
type Notifier interface {
	// Notify stores the notice and returns its id. From then on it is sent at least once, in order
	// with the turns of its conversation. Errors: [ErrUnknownRecipient], [ErrUnreachable];
	// [ErrFull] and [state.ErrUnavailable], after which you may try again.
	Notify(ctx context.Context, n Notice) (id string, err error)
	// Notices returns the turn's person's waiting notices with this topic, in the conversations
	// where the bot knows the person. The one due next comes first. It sets ID, At, Every, Zone, Memo
	// and the conversation in To.
	Notices(ctx context.Context, topic string) ([]Notice, error)
	// Withdraw drops a notice that Notices returned. It returns false if the notice is gone: it was
	// sent or is about to be, and for one that is not the person's. A recurring one does not recur
	// after this.
	Withdraw(ctx context.Context, n Notice) (bool, error)
}

// Request is a call of an action that another program asks for in the name of a person, such as an agent
// that has their token. It runs as a turn in the person's own conversation with the bot: with the same
// checks, policy, hooks and audit as any other call.
type Request struct {
	// Tenant and Person are the ids of the person in Microsoft Entra. Required.
	Tenant, Person string
	// Subject is who asks. Only they may have the result. Required.
	Subject string
	// By is the program that asks, as the operator calls it. The person reads it.
	By string
	// Action and Entities are the call.
	Action   string
	Entities map[string]any
	// Key makes requests of one Subject with the same Key one request, for a day. "": each is its own.
	Key string
}

// RequestStatus says how far a [Request] is.
type RequestStatus string

// The states of a request. All but the first are final.
const (
	RequestPending  RequestStatus = "pending"  // it runs, or waits for the person
	RequestDone     RequestStatus = "done"     // with the result in Text
	RequestFailed   RequestStatus = "failed"   // with the reason in Text
	RequestRejected RequestStatus = "rejected" // by a person: it was not done
	RequestExpired  RequestStatus = "expired"  // nobody decided in time: it was not done
	RequestUnknown  RequestStatus = "unknown"  // nobody knows whether it was done
)

// Requested is what came of a [Request].
type Requested struct {
	ID     string        `json:"id"`
	Status RequestStatus `json:"status"`
	Text   string        `json:"text,omitempty"`
}

// ErrNoRequest says that there is no such request of that person and subject, or none any more.
var ErrNoRequest = errors.New("there is no such request")
