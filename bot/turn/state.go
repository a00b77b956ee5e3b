package turn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/memory"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/bot/turn/internal/ask"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cite"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// This file is about what a turn stores: its state, how to reach its conversation, and the
// conversations a person is in, for /forget.

// maxMerges is how often one save is retried because somebody else changed other values of the same
// document.
const maxMerges = 20

// privateThread comes before the person in the id of a thread that only they and the bot are in.
const privateThread = ";messageid=private-"

// thread is the id of the turn's thread: of the conversation, if it has none. What is private has a
// thread of its own, so that no model tells others of it.
func (t *Turn) thread() string {
	if person := t.targetedAt(); person != "" {
		return t.Activity.Conversation.BaseID() + privateThread + person
	}
	return t.Activity.Conversation.ID
}

// keys returns the keys of the turn's state: the conversation, the person, in a channel the thread,
// and in a personal conversation the person's home.
func (t *Turn) keys() []state.Key {
	a, to := t.Activity, actions.To(t.Activity)
	keys := []state.Key{queueOf(to), PersonKey(a)}
	if to.Conversation = t.thread(); to.Conversation != a.Conversation.BaseID() {
		keys = append(keys, keyOf(to))
	}
	if a.Conversation.Personal() {
		keys = append(keys, homeKey(keys[1]))
	}
	return keys
}

// keyOf is the key of a person, of a conversation, or of a thread. What another bot sends gets a
// channel of its own, whatever channel, conversation or person it names, so it never reaches the
// real channel's state.
func keyOf(to actions.Recipient) state.Key {
	channel, bot := cmp.Or(to.Channel, nobody), cmp.Or(to.Bot, nobody)
	if to.Caller != "" {
		channel = to.Caller + " " + channel
	}
	if to.Conversation == "" && to.User != "" {
		return state.UserKey(channel, bot, to.User)
	}
	return state.ConversationKey(channel, bot, to.Conversation)
}

// queueOf is the key of a conversation with all its threads: of its state and of its queue.
func queueOf(to actions.Recipient) state.Key {
	there := activity.Conversation{}
	there.ID = to.Conversation
	to.Conversation = there.BaseID()
	return keyOf(to)
}

// conversationKey is the key of the turn's conversation, with all its threads: of its state and of its queue.
func (t *Turn) conversationKey() state.Key { return queueOf(actions.To(t.Activity)) }

// PersonKey is the key of the person who speaks: of their state.
func PersonKey(a *activity.Activity) state.Key {
	to := actions.To(a)
	to.Conversation, to.User = "", personOf(a)
	return keyOf(to)
}

// personOf is the id of the person who speaks. Where nobody does, as in a notice that runs a handler in
// a group, each conversation has a nobody of its own.
func personOf(a *activity.Activity) string {
	return cmp.Or(a.From.ID, nobody+a.Conversation.ID)
}

// elsewhere is another conversation of the bot on the same channel.
func (t *Turn) elsewhere(conversation string) actions.Recipient {
	to := actions.To(t.Activity)
	to.Conversation = conversation
	return to
}

// queue is the queue of the turn's conversation. Decisions about approvals and answers to questions have
// a queue of their own, so that none waits for a running turn.
func (t *Turn) queue() state.Key {
	queue := t.conversationKey()
	if _, ok := answersCard(t.Activity); ok && t.SignsIn() {
		return signIns{t}.queueOfAnswer(queue)
	}
	if _, ok := ask.Read(t.Activity, t.Text); ok {
		return queue.Under("queues", "decisions")
	}
	if t.beside != "" {
		return queue.Under("queues", t.beside)
	}
	return queue
}

// reload goes back to the last save or the last plan, on fresh state.
func (t *Turn) reload(ctx context.Context) error {
	if t.since.base != nil {
		t.use(t.since.base.clone())
	} else if rec, err := Decode(t.lease.Record()); err == nil {
		t.use(rec)
	} else {
		return err
	}
	return t.docs.load(ctx, t.keys())
}

// Save writes the record and the state changes as if in one step: [inbox.Lease.Recover] completes
// one that a killed process left half done. From then on what was done in state counts as done. If
// another conversation changed the same value meanwhile, Save returns [state.ErrConflict] and
// nothing was saved. Handlers that say nothing may call it: sending saves first anyway.
func (t *Turn) Save(ctx context.Context) (err error) {
	if t.ReadOnly() {
		return errReadOnly
	}
	ctx, end := t.step(ctx, "save")
	defer func() { end(err) }()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	ctx = t.lasting(ctx) // the turn timeout does not cut off a save
	if err = t.listPlace(ctx); err == nil {
		began := time.Now()
		err = t.merging(ctx, func() error {
			raw, err := t.encode()
			if err != nil {
				return err
			}
			err = t.lease.Save(ctx, raw, t.since.progressed, t.docs.toSave()...)
			seeSaved(t, raw, began, err)
			return err
		})
	}
	if err != nil {
		t.saveFault = err
		return err
	}
	t.saved, t.since = len(t.Outcomes()), unsaved{}
	return nil
}

// encode writes the record as it is now.
func (t *Turn) encode() ([]byte, error) {
	if err := t.copyToRecord(); err != nil {
		return nil, err
	}
	return t.rec.Encode()
}

// copyToRecord copies into the record what actions share of the turn.
func (t *Turn) copyToRecord() error {
	run := t.rec.Run
	if run == nil {
		return nil
	}
	run.Rounds, run.Usage, run.Temp, run.Distrust = t.Rounds, t.Usage, nil, t.Distrusted()
	for _, name := range t.Temp.Names() {
		raw, err := t.Temp.JSON(name)
		if err != nil {
			return err
		}
		if run.Temp == nil {
			run.Temp = map[string]jsontext.Value{}
		}
		run.Temp[name] = raw
	}
	return nil
}

// errHalfSaved says that a part of the state was saved when somebody else changed the same value of
// another part. The turn cannot run again on that.
var errHalfSaved = errors.New("a part of the state was saved, and another part was changed by somebody else")

// merging calls write again, on the newest state, for as long as somebody else changed other values
// of the same documents.
func (t *Turn) merging(ctx context.Context, write func() error) error {
	half := false
	for attempt := 0; ; attempt++ {
		err := write()
		lost, ok := errors.AsType[*state.ConflictError](err)
		if !ok {
			return err
		}
		half = half || len(lost.Saved) > 0
		if attempt < maxMerges {
			err = t.docs.rebase(ctx, lost.Conflicted)
		}
		if half && errors.Is(err, state.ErrConflict) {
			t.uncertain = append(t.uncertain, t.unsaved()...)
			return fmt.Errorf("%w: %s", errHalfSaved, err.Error()) // no conflict, after which the turn would run again
		}
		if err != nil {
			return err
		}
	}
}

// unsaved lists the actions that changed only state, which is not saved yet.
func (t *Turn) unsaved() []string {
	return completed(slices.DeleteFunc(t.Outcomes()[t.saved:], func(o actions.Outcome) bool { return !t.stateOnly(o) }))
}

// foundIsNotKept is what the history has in place of passages: who may read them may change.
const foundIsNotKept = "[What was found is not kept. Search again if you need it.]"

// executed returns the commands that did not fail, with their results, and the SAYs of texts, whose marks
// of sources are as people read them. sources are the ids of those.
func (t *Turn) executed(texts ...string) (all []plan.Command, sources []string) {
	outcomes := t.Outcomes()
	for _, text := range texts {
		outcomes = append(outcomes, actions.Outcome{Action: plan.Say, Text: text})
	}
	for _, o := range outcomes {
		switch {
		case o.Failed:
		case o.Action == plan.Say:
			text, used := t.cite(o.Text)
			for _, source := range used {
				if source.ID != "" && !slices.Contains(sources, source.ID) {
					sources = append(sources, source.ID)
				}
			}
			all = append(all, plan.Command{Kind: plan.Say, Response: text})
		case o.Action == searchAction:
			all = append(all, plan.Command{Kind: plan.Do, Action: o.Action, Entities: o.Entities, CallID: o.CallID, Result: foundIsNotKept})
		default:
			all = append(all, plan.Command{Kind: plan.Do, Action: o.Action, Entities: o.Entities, CallID: o.CallID, Result: o.Text})
			if o.Shown != "" && o.CallID == "" { // the person has read it, as if it had been said
				all = append(all, plan.Command{Kind: plan.Say, Response: o.Shown})
			}
		}
	}
	return all, sources[:min(len(sources), cite.Most)]
}

// remember adds the turn to the conversation's history, once. texts are about to be said.
func (t *Turn) remember(texts ...string) {
	if t.rec.Remembered || t.deleted {
		return
	}
	note := ""
	var d *decidedCall
	if t.rec.Run != nil {
		d = t.rec.Run.Decided
	}
	switch {
	case t.withheld != "":
		note = t.withheld
	case t.stream.Stopped():
		note = "[The person stopped the answer here.]"
	case t.rec.Wait != nil && t.rec.Wait.asked != (asked{}):
		note, _ = t.rec.Wait.note()
	case d != nil && d.Approved:
		note = "[" + d.Action + " was approved.]"
	case d != nil:
		note = "[" + d.Action + " was rejected.]"
	}
	commands, sources := t.executed(texts...)
	if t.stream.Stopped() { // the marks are those that the person read
		sources = nil
	}
	answer := plan.Plan{Commands: commands}.Transcript(prompts.MaxMessage)
	said := prompts.Turn{From: t.Activity.From.ID, Sources: sources, Messages: []prompts.Message{
		{Role: "user", Text: t.Text}, {Role: "assistant", Text: answer}, {Role: "system", Text: note},
	}}
	said.Messages = slices.DeleteFunc(said.Messages, func(m prompts.Message) bool { return m.Text == "" })
	if !t.Activity.Conversation.Personal() {
		said.Name = t.Activity.From.Name
	}
	if t.IsMessage() && t.Text != "" && t.Activity.ID != "" {
		said.IDs = []string{t.Activity.ID}
	}
	state.Of[prompts.History](t.Thread).Append(said, t.engine.cfg.HistoryTurns)
	t.rec.Remembered = true
}

// takeBack removes the turn from the history, where a save put it before the turn failed. Others may have
// come after it meanwhile, and stay.
func (t *Turn) takeBack() {
	if !t.rec.Remembered {
		return
	}
	var own prompts.History
	own.Append(prompts.Turn{Messages: []prompts.Message{{Role: "user", Text: t.Text}}}, 1)
	said, history := own.Turns[0].Messages[0], state.Of[prompts.History](t.Thread)
	for i, other := range slices.Backward(history.Turns) {
		all := other.Messages
		same := len(all) == 0 || all[0] == said || said.Text == "" && all[0].Role != said.Role
		if len(other.IDs) > 0 {
			same = slices.Contains(other.IDs, t.Activity.ID)
		}
		if other.From == t.Activity.From.ID && same {
			history.Turns = slices.Delete(history.Turns, i, i+1)
			break
		}
	}
	t.rec.Remembered = false
}

// reference says how to reach a conversation in which nobody has just spoken, taken from its last
// activity. It is part of the conversation's state. The key of that state has the channel, the bot
// and the id.
type reference struct {
	ServiceURL string `json:"url,omitempty"`
	Type       string `json:"type,omitempty"`
	IsGroup    bool   `json:"group,omitzero"`
	Tenant     string `json:"tenant,omitempty"`
	Locale     string `json:"locale,omitempty"`
	// Person is the other party of a personal conversation.
	Person string `json:"person,omitempty"`
	// Signed says that a caller proved ServiceURL.
	Signed bool `json:"signed,omitzero"`

	// Whole is until when replies are sent whole, because the channel takes no growing messages there.
	Whole time.Time `json:"whole,omitzero"`

	// Dead is since when the channel accepts nothing for the conversation, and Why the reason.
	Dead time.Time `json:"dead,omitzero"`
	Why  string    `json:"why,omitempty"`
}

// home names a person's own conversation with the bot, the last one they used. It is a document of
// its own because a person may have many, as on a web page. Concurrent turns in them race for it,
// and that must not affect their state.
type home struct {
	Conversation string `json:"c,omitempty"`
	// Directory is how the directory knows the person, see [requests.directoryID].
	Directory string `json:"d,omitempty"`
}

func homeKey(person state.Key) state.Key { return person.Under("notes", "home") }

// keepHome saves home. Losing the race is harmless: either value will do, and the next turn writes
// it again.
func (t *Turn) keepHome(ctx context.Context) {
	if t.docs.home == nil {
		return
	}
	if changed, err := t.docs.home.Changed(); err == nil && changed && state.Peek[home](t.docs.home).Directory != "" {
		if err := (requests{t}).list(ctx); err != nil && !errors.Is(err, state.ErrConflict) {
			zerolog.Ctx(ctx).Warn().Err(err).Msg("could not note which account the person has")
			return
		}
	}
	err := t.engine.cfg.Store.Save(ctx, t.docs.home)
	if err != nil && !errors.Is(err, state.ErrConflict) {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("could not save which conversation is the person's own")
	}
}

// noteReference stores how to reach the conversation, if that changed. A dead conversation comes
// alive again.
func (t *Turn) noteReference() {
	a := t.Activity
	if a.ServiceURL == "" || t.docs.fault != nil {
		return
	}
	c := &a.Conversation
	tenant, _ := a.Tenant()
	before := state.Peek[reference](t.Conversation)
	now := reference{
		ServiceURL: a.ServiceURL, Type: c.ConversationType, IsGroup: c.IsGroup, Tenant: tenant, Signed: t.rec.Caller.Trusted,
		Locale: cmp.Or(activity.LanguageTag(a.Locale), before.Locale), // clicks do not always have it
		Whole:  before.Whole,
	}
	if !t.IsMessage() || t.IsSubmit() {
		a.Locale = now.Locale
	}
	if w := t.rec.Wait; t.rec.Phase == waiting && w != nil && !w.heard() {
		return // its time is up
	}
	if c.Personal() && !a.FromBot() && !a.FromExtension() {
		now.Person = a.From.ID
		if t.docs.home != nil && state.Peek[home](t.docs.home).Conversation != c.ID {
			state.Of[home](t.docs.home).Conversation = c.ID
		}
		if id := (requests{t}).directoryID(); t.docs.home != nil && id != "" && state.Peek[home](t.docs.home).Directory != id {
			state.Of[home](t.docs.home).Directory = id
		}
	}
	if t.moved = *before != now; t.moved {
		*state.Of[reference](t.Conversation) = now
	}
}

// Removed notes that the bot was removed from the conversation, and drops the notices that wait
// there. Nothing can be sent there until an activity comes from there.
func (t *Turn) Removed(ctx context.Context) error {
	state.Of[reference](t.Conversation).die("the bot was taken out")
	return t.dropWaits(ctx, t.Activity.Conversation.ID, "", forTime, forFile)
}

func (r *reference) die(why string) {
	r.Dead, r.Why = time.Now().UTC().Truncate(time.Second), why
}

// retire notes that the channel no longer lets the bot speak in the conversation, if err says so.
func (t *Turn) retire(ctx context.Context, err error) {
	why := deadly(err)
	if why == "" || t.rec.Stateless || t.Conversation == nil || t.saveFault != nil {
		return
	}
	zerolog.Ctx(ctx).Warn().Str("reason", why).Msg("the bot cannot speak here any more")
	state.Of[reference](t.Conversation).die(why)
	if err := t.Save(ctx); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("that was not saved")
	}
}

// deadly says why the refusal of one message means that all will be refused, or "". If the message
// to reply to is gone, or a host moved, it does not mean that.
func deadly(err error) string {
	refused, ok := errors.AsType[*connector.Error](err)
	switch {
	case !ok, refused.Code == "ActivityNotFoundInConversation", refused.Code == "InvalidBotApiHost",
		refused.Status != http.StatusForbidden && refused.Status != http.StatusNotFound:
		return ""
	}
	return http.StatusText(refused.Status) + " " + refused.Code
}

// usable says why nothing can be sent there, or "" if it can.
func (r *reference) usable(channel Channel) string {
	switch {
	case !r.Dead.IsZero():
		return "since " + r.Dead.Format(time.RFC3339) + ": " + r.Why
	case !r.Signed && channel.Identified():
		return "no caller has proved its address"
	}
	return ""
}

// in returns an activity that looks as if it came from the conversation.
func (r *reference) in(to actions.Recipient) *activity.Activity {
	a := &activity.Activity{
		Type: activity.Event, Name: "notice", ChannelID: to.Channel, ServiceURL: r.ServiceURL, Locale: r.Locale,
	}
	a.From.ID, a.Recipient.ID = r.Person, to.Bot
	a.Conversation.ID, a.Conversation.ConversationType = to.Conversation, r.Type
	a.Conversation.IsGroup, a.Conversation.TenantID = r.IsGroup, r.Tenant
	if to.Caller != "" {
		a.CallerID = activity.CallerOf(to.Caller)
	}
	return a
}

// A place is a conversation that has a person's words in its history, in an approval, or in a
// notice for later. A person's places are a set beside their state, so that /forget finds them all
// and turns in many conversations never race for them.

const (
	personalPlace = "personal "
	sharedPlace   = "shared "
	noticePlace   = "notice " // only a notice for later is the person's there
)

// placeOf is a conversation as a member of the set.
func placeOf(conversation string, personal bool) string {
	if personal {
		return personalPlace + conversation
	}
	return sharedPlace + conversation
}

// readPlace reads what placeOf wrote.
func readPlace(place string) (conversation string, personal bool) {
	kind, conversation, _ := strings.Cut(place, " ")
	return conversation, kind+" " == personalPlace
}

// here is the turn's conversation as a place.
func (t *Turn) here() string {
	return placeOf(t.thread(), t.Activity.Conversation.Personal())
}

// placesKey is the key of a person's places.
func placesKey(person state.Key) state.Key { return person.Under("notes", "places") }

// listPlace adds the conversation to the person's places. It runs before the first save that has
// their words in it: a place without words costs nothing, but words without a place outlive
// /forget. If Redis is down, that save would fail too, and the turn waits. If Redis refuses, nobody
// can fix that here: the turn continues, and the history does not keep what was said.
func (t *Turn) listPlace(ctx context.Context) error {
	if t.listed || !t.rec.Remembered || t.docs.scopes == nil {
		return nil
	}
	err := t.engine.cfg.Store.Join(ctx, placesKey(PersonKey(t.Activity)), t.here())
	if err == nil || errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil {
		t.listed = err == nil
		return err
	}
	zerolog.Ctx(ctx).Error().Err(err).Msg("could not record this conversation for /forget, so its history is not kept")
	t.takeBack()
	return nil
}

// Built-in commands that this package speaks of.
const (
	forgetCommand = "/forget"
	resetCommand  = "/reset"
)

// Forgot is the result of [Turn.ForgetPerson].
type Forgot struct {
	Keeps     []string // what stays because it belongs to others, in the person's words
	Facts     int      // how many remembered facts were deleted, see package memory
	FileTexts int      // how many texts of files were deleted, see [Attachments]
}

// ForgetPerson deletes everything that the bot keeps about the person: first what
// [actions.Registry.OnForget] is for, then their state, their personal conversations, and what they
// said in others. It reads back that remembered facts and texts of files are gone. ForgetPerson saves the
// turn. After an error some of it may be deleted; call it again, in any turn.
func (t *Turn) ForgetPerson(ctx context.Context) (Forgot, error) {
	if t.ReadOnly() {
		return Forgot{}, errReadOnly
	}
	if err := t.forgetPerson(ctx); err != nil {
		return Forgot{}, fmt.Errorf("%w: %w", errNotForgotten, err)
	}
	return Forgot{t.rec.Kept, t.rec.Facts, t.rec.FileTexts}, nil
}

// errFactsLeft says that remembered facts are still there after they were deleted.
var errFactsLeft = errors.New("remembered facts are still there")

// checkForgotten reads back that no remembered fact is left, if there were any.
func (t *Turn) checkForgotten(ctx context.Context) error {
	if t.rec.Facts == 0 {
		return nil
	}
	left, err := t.engine.cfg.Store.Load(ctx, PersonKey(t.Activity))
	if err == nil && memory.Count(left[0]) > 0 {
		err = errFactsLeft
	}
	return err
}

func (t *Turn) forgetPerson(ctx context.Context) error {
	keeps, err := t.engine.cfg.Actions.Forget(ctx, t.Turn)
	if err != nil {
		return err
	}
	signedOut := t.SignOut(ctx) // what is kept here goes, whatever the token service says
	shared, err := t.sharedValues(ctx)
	if err != nil {
		return err
	}
	home, err := t.engine.cfg.Store.Load(ctx, homeKey(PersonKey(t.Activity)))
	if len(home) == 0 {
		return err
	}
	home[0].Delete() // even if it cannot be read
	if err := t.engine.cfg.Store.Save(ctx, home[0]); err != nil {
		return err
	}
	t.docs.home = nil
	if err := (requests{t}).forget(ctx); err != nil {
		return err
	}
	t.rec.Facts = max(t.rec.Facts, memory.Count(t.User)) // a process that died may have deleted them
	for _, f := range t.engine.cfg.Features {
		if f.Forget == nil {
			continue
		}
		if err := f.Forget(ctx, t); err != nil {
			return fmt.Errorf("feature %s: %w", f.Name, err)
		}
	}
	t.User.Delete()
	t.rec.FileTexts = max(t.rec.FileTexts, files.Kept(t.Conversation))
	if err := t.forgetHere(ctx); err != nil {
		return err
	}
	t.rec.Forgotten = true
	for _, name := range append(keeps, shared...) {
		if !slices.Contains(t.rec.Kept, name) {
			t.rec.Kept = append(t.rec.Kept, name)
		}
	}
	// Save what stays before the list of places goes: a process that takes over could not find out.
	if err := t.Save(ctx); err != nil {
		return err
	}
	if err := t.checkForgotten(ctx); err != nil {
		return err
	}
	if err := t.forgetElsewhere(ctx); err != nil {
		return err
	}
	return cmp.Or(t.engine.cfg.Store.Leave(ctx, placesKey(PersonKey(t.Activity)), t.here()), signedOut)
}

// forgetHere deletes what the person said in this conversation. The next save deletes it.
func (t *Turn) forgetHere(ctx context.Context) error {
	if t.Activity.Conversation.Personal() {
		return t.ForgetConversation(ctx)
	}
	t.forgetStanding(t.Conversation, t.Activity.From.ID)
	state.Of[prompts.History](t.Thread).Forget(t.Activity.From.ID)
	return t.dropWaits(ctx, t.Activity.Conversation.ID, t.Activity.From.ID, forTime, forApproval, forSignIn, forAnswer, forFile, forOperator)
}

// sharedValues names what the bot keeps in conversations that the person shares with others.
func (t *Turn) sharedValues(ctx context.Context) (names []string, err error) {
	note := func(scopes ...*state.Scope) {
		for _, scope := range scopes {
			for _, name := range scope.Names() {
				if _, own := ownValues[name]; !own {
					names = append(names, t.label(name))
				}
			}
		}
	}
	if !t.Activity.Conversation.Personal() {
		note(t.Conversation, t.Thread)
	}
	err = t.engine.cfg.Store.Members(ctx, placesKey(PersonKey(t.Activity)), func(places []string) error {
		for _, place := range places {
			conversation, _ := readPlace(place)
			if !strings.HasPrefix(place, sharedPlace) || place == t.here() {
				continue
			}
			keys := t.keysOf(conversation)
			scopes, err := t.engine.cfg.Store.Load(ctx, keys...)
			if len(scopes) != len(keys) {
				return err
			}
			note(scopes...) // one that cannot be read has no names
		}
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// ForgetConversation deletes everything stored about the turn's conversation, including what waits
// in it.
func (t *Turn) ForgetConversation(ctx context.Context) error {
	if err := t.dropWaits(ctx, t.Activity.Conversation.ID, "", forTime, forApproval, forSignIn, forAnswer, forFile, forOperator); err != nil {
		return err
	}
	if err := t.ForgetFiles(ctx); err != nil {
		return err
	}
	t.Conversation.Delete()
	t.Thread.Delete()
	return nil
}

// ForgetApprovals drops all approvals and answers that the conversation waits for, and its standing
// approvals.
func (t *Turn) ForgetApprovals(ctx context.Context) error {
	t.forgetStanding(t.Conversation, "")
	return t.dropWaits(ctx, t.Activity.Conversation.ID, "", forApproval, forSignIn, forAnswer)
}

// forgetStanding deletes from the conversation's state the approvals and decisions that one person
// asked for; "" deletes everybody's.
func (t *Turn) forgetStanding(conversation *state.Scope, asker string) {
	list := state.Of[approvals](conversation)
	list.Standing = slices.DeleteFunc(list.Standing, func(s standing) bool { return asker == "" || s.Asker == asker })
	list.Decided = slices.DeleteFunc(list.Decided, func(d decided) bool { return asker == "" || d.Asker == asker })
}

// waitsOf lists what waits in a queue: what the owner asked for; "" lists everybody's. With forOperator it
// lists the dead letters of the queues under it, too.
func (t *Turn) waitsOf(ctx context.Context, queue state.Key, owner string, kinds ...waitKind) ([]inbox.Waiting, error) {
	all, err := t.engine.inbox.Waiting(ctx, queue)
	if err == nil && slices.Contains(kinds, forOperator) {
		var under []inbox.Waiting
		under, err = t.engine.inbox.DeadUnder(ctx, queue)
		all = append(all, under...)
	}
	return slices.DeleteFunc(all, func(listed inbox.Waiting) bool {
		w := readWait(listed)
		return !slices.Contains(kinds, w.For) || owner != "" && w.Owner != owner
	}), err
}

// dropWaits drops what [Turn.waitsOf] lists of a conversation. With forTime it also ends the
// schedules that are at work just then.
func (t *Turn) dropWaits(ctx context.Context, conversation, owner string, kinds ...waitKind) error {
	if t.ReadOnly() {
		return errReadOnly
	}
	there := t.elsewhere(conversation)
	if slices.Contains(kinds, forTime) {
		if err := t.engine.endSchedules(ctx, there, owner); err != nil {
			return err
		}
	}
	queue := queueOf(there)
	waiting, err := t.waitsOf(ctx, queue, owner, kinds...)
	for _, w := range waiting {
		var failure error
		if readWait(w).For == forFile {
			failure = fileTurn{t}.drop(ctx, queue, w.ID)
		} else {
			_, failure = t.engine.inbox.Drop(ctx, w.Queue, w.ID)
		}
		err = cmp.Or(err, failure)
	}
	return err
}

// forgetElsewhere deletes what the person said in all other conversations. If the state of one
// cannot be read, the others are still deleted. A conversation with a running turn stays a place:
// that turn may have listed it before this, and may save words after it.
func (t *Turn) forgetElsewhere(ctx context.Context) error {
	var fault error
	err := t.engine.cfg.Store.Drain(ctx, placesKey(PersonKey(t.Activity)), func(places []string) (done []string, err error) {
		for _, place := range places {
			if place == t.here() {
				continue
			}
			conversation, _ := readPlace(place)
			queue := queueOf(t.elsewhere(conversation))
			waiting, err := t.engine.inbox.Queued(ctx, queue)
			if queue == t.lease.Queue() {
				waiting-- // this turn
			}
			if err == nil {
				err = t.forgetIn(ctx, place)
			}
			switch {
			case errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil:
				return nil, err
			case err != nil:
				fault = cmp.Or(fault, err)
			case waiting == 0:
				done = append(done, place)
			}
		}
		return done, nil
	})
	return cmp.Or(err, fault)
}

// keysOf returns the keys of the documents of another conversation. The last is that of the whole
// conversation, which has the approvals of its threads.
func (t *Turn) keysOf(conversation string) []state.Key {
	there := t.elsewhere(conversation)
	keys := []state.Key{keyOf(there)}
	if base := queueOf(there); base != keys[0] {
		keys = append(keys, base)
	}
	return keys
}

// forgetIn deletes what the person said in another conversation. If a turn changes it meanwhile,
// the turn of /forget runs again.
func (t *Turn) forgetIn(ctx context.Context, place string) error {
	conversation, personal := readPlace(place)
	keys := t.keysOf(conversation)
	if strings.HasPrefix(place, noticePlace) {
		return t.dropWaits(ctx, conversation, t.Activity.From.ID, forTime)
	}
	scopes, err := t.engine.cfg.Store.Load(ctx, keys...)
	if err != nil && !(personal && len(scopes) == len(keys)) { // what is deleted whole need not be read
		return err
	}
	owner := t.Activity.From.ID
	if personal {
		owner = ""
	}
	if err := t.dropWaits(ctx, conversation, owner, forTime, forApproval, forSignIn, forAnswer, forFile, forOperator); err != nil {
		return err
	}
	queue, base := queueOf(t.elsewhere(conversation)), scopes[len(scopes)-1]
	t.forgetStanding(base, owner)
	kept := files.Kept(base)
	if err := t.engine.files.Forget(ctx, queue, base); err != nil {
		return err
	}
	for _, scope := range scopes {
		if personal {
			scope.Delete()
		} else {
			state.Of[prompts.History](scope).Forget(owner)
		}
	}
	if err := t.engine.cfg.Store.Save(ctx, scopes...); err != nil {
		return err
	}
	t.rec.FileTexts += kept
	return nil
}

// label is what people call a value of state: its name, unless [Config.Texts] has another word.
func (t *Turn) label(name string) string {
	return t.Translate(cmp.Or(ownValues[name], texts.Text(name)))
}

// PersonData returns messages that show the person what the bot keeps about them: their state,
// their personal conversations, what they said in others, and what waits for them. It shows at most
// about 100 KB and says if there is more. What [actions.Registry.OnForget] is for is not in it.
func (t *Turn) PersonData(ctx context.Context) ([]*activity.Activity, error) {
	said, err := (&personData{Turn: t, seen: map[string]bool{}}).texts(ctx)
	if err != nil {
		return nil, fmt.Errorf("collect a person's data: %w", err)
	}
	var messages []*activity.Activity
	for _, text := range said {
		messages = append(messages, t.messages(text)...)
	}
	return messages, nil
}

// What follows is about messages that their authors edit or delete. Nothing runs again because of that: the history
// follows, and what was done stays done.

// deletedText is what a turn that goes on after a wait has in place of a message that its author deleted.
const deletedText = "[The person deleted this message.]"

// undeletes reports whether the author takes back that they deleted the message.
func undeletes(a *activity.Activity) bool {
	var data struct {
		EventType string `json:"eventType"`
	}
	err := json.Unmarshal(a.ChannelData, &data, json.MatchCaseInsensitiveNames(true))
	return err == nil && strings.EqualFold(data.EventType, "undeleteMessage")
}

// Amend makes the history follow what the author of a message did with it: one that was deleted leaves the
// history, and so do a summary of it and the texts of its files; an edited one stands in its new words. Moderation judges these
// first. A message of somebody else, or one that the history does not have, changes nothing.
func (t *Turn) Amend(ctx context.Context) error {
	if t.ReadOnly() {
		return errReadOnly
	}
	a := t.Activity
	history := state.Peek[prompts.History](t.Thread)
	if err := t.Thread.Err(); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	if a.Type == activity.MessageDelete {
		if err := t.engine.files.ForgetMessage(ctx, t.conversationKey(), t.Conversation, a.From.ID, a.ID); err != nil {
			return err
		}
	}
	waits, err := t.waitsFor(ctx, a)
	if err != nil || !waits && !history.Has(a.From.ID, a.ID) {
		return err
	}
	text := ""
	if a.Type == activity.MessageUpdate {
		m := *a
		m.Type = activity.Message
		if text, err = (guard{t.exec}).edited(ctx, files.Said(&m)); err != nil {
			return err
		}
	}
	history = state.Of[prompts.History](t.Thread)
	history.Edit(a.From.ID, a.ID, text)
	if waits {
		history.Amend(a.From.ID, a.ID, text)
	}
	zerolog.Ctx(ctx).Info().Bool("deleted", text == "").Bool("waits", waits).Msg("the history follows what the author of a message did with it")
	return nil
}

// waitsFor reports whether a turn that answers the message waits: it would bring the old words back.
func (t *Turn) waitsFor(ctx context.Context, a *activity.Activity) (bool, error) {
	records, err := t.engine.inbox.Records(ctx, t.conversationKey())
	if err != nil {
		return false, err
	}
	for id, raw := range records {
		if id == t.ID || a.ID == "" || !bytes.Contains(raw, []byte(a.ID)) {
			continue
		}
		rec, err := Decode(raw)
		if err != nil || rec.Phase != waiting {
			continue // it has told the history all that it will, or an operator has to look at it
		}
		asked, err := rec.Read()
		if err == nil && asked.Type == activity.Message && asked.ID == a.ID && asked.From.ID == a.From.ID {
			return true, nil
		}
	}
	return false, nil
}

// followAuthor gives a turn that goes on after a wait the words that its message has by now.
func (t *Turn) followAuthor() {
	begins := t.rec.Phase != waiting && t.rec.Run == nil
	if begins || !t.IsMessage() || t.Thread == nil {
		return
	}
	text, ok := state.Peek[prompts.History](t.Thread).AmendedText(t.Activity.ID)
	t.amended, t.deleted = ok, ok && text == ""
	if t.deleted {
		text = deletedText
	}
	if t.amended {
		t.Text, t.rec.Text = text, text
	}
}

// settleAmended forgets the words that [Turn.followAuthor] needs. The turn is over.
func (t *Turn) settleAmended() {
	if t.amended && t.docs.writable() {
		state.Of[prompts.History](t.Thread).Settle(t.Activity.ID)
	}
}
