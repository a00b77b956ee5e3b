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

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/cite"
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

// threadMark comes before the message that began a thread, in the id of a thread in a channel of Teams.
const threadMark = ";messageid="

// privateThread comes before the person in the id of a thread that only they and the bot are in.
const privateThread = threadMark + "private-"

// threadOf is the id of the turn's thread: of the conversation, if it has none. What is private has a
// thread of its own, so that no model tells others of it.
func threadOf(t *Turn) string {
	if person := targetedAt(t); person != "" {
		return t.Activity.Conversation.BaseID() + privateThread + person
	}
	return t.Activity.Conversation.ID
}

// keysOfTurn returns the keys of the turn's state: the conversation, the person, in a channel the thread,
// and in a personal conversation the person's home.
func keysOfTurn(t *Turn) []state.Key {
	a, to := t.Activity, actions.To(t.Activity)
	keys := []state.Key{queueOf(to), PersonKey(a)}
	if to.Conversation = threadOf(t); to.Conversation != a.Conversation.BaseID() {
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
func conversationKey(t *Turn) state.Key { return queueOf(actions.To(t.Activity)) }

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

// elsewhereOf is another conversation of the bot on the same channel.
func elsewhereOf(t *Turn, conversation string) actions.Recipient {
	to := actions.To(t.Activity)
	to.Conversation = conversation
	return to
}

// queueFor is the queue of the turn's conversation. A thread of a channel has one of its own. Decisions about
// approvals and answers to questions have a queue of their own, so that none waits for a running turn.
func queueFor(t *Turn) state.Key {
	queue := conversationKey(t)
	if r := replyIn(t); r != nil {
		return queue.Under("queues", cmp.Or(r.Queue, "decisions"))
	}
	if t.beside != "" {
		return queue.Under("queues", t.beside)
	}
	thread := t.Activity.Conversation.ID
	if !t.engine.cfg.ThreadsTogether && strings.Contains(thread, threadMark) {
		return inbox.ThreadQueue(queue, thread)
	}
	return queue
}

// reloadTurn goes back to the last save or the last plan, on fresh state.
func reloadTurn(ctx context.Context, t *Turn) error {
	if t.unsaved.base != nil {
		useRecord(t, t.unsaved.base.clone())
	} else if rec, err := Decode(t.lease.Record()); err == nil {
		useRecord(t, rec)
	} else {
		return err
	}
	return t.docs.load(ctx, keysOfTurn(t))
}

// startOverHere has a rerun in this process start with the plan as it is now. All changes of state have to be saved.
func startOverHere(t *Turn) error {
	if err := cmp.Or(copyToRecord(t), t.rec.closeSlots()); err != nil {
		return err
	}
	base := t.rec.clone()
	base.Phase = running
	t.unsaved.base = &base
	return nil
}

// encodeRecord writes the record as it is now.
func encodeRecord(t *Turn) ([]byte, error) {
	if err := copyToRecord(t); err != nil {
		return nil, err
	}
	return t.rec.Encode()
}

// copyToRecord copies into the record what actions share of the turn.
func copyToRecord(t *Turn) error {
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

// mergingSave calls write again, on the newest state, for as long as somebody else changed other values
// of the same documents.
func mergingSave(ctx context.Context, t *Turn, write func() error) error {
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
			onlyState := slices.DeleteFunc(t.Outcomes()[t.saved:], func(o actions.Outcome) bool { return !stateOnly(t, o) })
			t.uncertain = append(t.uncertain, completed(onlyState)...)
			return fmt.Errorf("%w: %s", errHalfSaved, err.Error()) // no conflict, after which the turn would run again
		}
		if err != nil {
			return err
		}
	}
}

// foundIsNotKept is what the history has in place of passages: who may read them may change.
const foundIsNotKept = "[What was found is not kept. Search again if you need it.]"

// executedCommands returns the commands that did not fail, with their results, and the SAYs of texts, whose marks
// of sources are as people read them. sources are the ids of those.
func executedCommands(t *Turn, texts ...string) (all []plan.Command, sources []string) {
	outcomes := t.Outcomes()
	for _, text := range texts {
		outcomes = append(outcomes, actions.Outcome{Action: plan.Say, Text: text})
	}
	for _, o := range outcomes {
		action, known := t.engine.cfg.Actions.Lookup(o.Action)
		switch {
		case o.Failed:
		case o.Action == plan.Say:
			text, used := citeText(t, o.Text)
			for _, source := range used {
				if source.ID != "" && !slices.Contains(sources, source.ID) {
					sources = append(sources, source.ID)
				}
			}
			all = append(all, plan.Command{Kind: plan.Say, Response: text})
		case known && action.Finds: // what others wrote
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
func remember(t *Turn, texts ...string) {
	if t.rec.Remembered || t.deleted {
		return
	}
	note, p := "", pauseOf(t)
	var d *decidedCall
	if t.rec.Run != nil {
		d = t.rec.Run.Decided
	}
	switch {
	case t.withheld != "":
		note = t.withheld
	case isHalted(t):
		note = "[The person stopped the answer here.]"
	case p != nil:
		note = p.Note()
	case d != nil && d.Approved:
		note = "[" + d.Action + " was approved.]"
	case d != nil:
		note = "[" + d.Action + " was rejected.]"
	}
	commands, sources := executedCommands(t, texts...)
	if t.stream.Stopped() { // the marks are those that the person read
		sources = nil
	}
	answer := plan.Plan{Commands: commands}.Transcript(prompts.MaxMessage)
	words := t.words
	if t.Text != strings.Join(words, "\n") {
		words = []string{t.Text}
	}
	said := prompts.Turn{From: t.Activity.From.ID, Sources: sources, Messages: make([]prompts.Message, 0, len(words)+2)}
	for _, text := range words {
		said.Messages = append(said.Messages, prompts.Message{Role: "user", Text: text})
	}
	said.Messages = append(said.Messages, prompts.Message{Role: "assistant", Text: answer}, prompts.Message{Role: "system", Text: note})
	said.Messages = slices.DeleteFunc(said.Messages, func(m prompts.Message) bool { return m.Text == "" })
	if !t.Activity.Conversation.Personal() {
		said.Name = t.Activity.From.Name
	}
	if t.IsMessage() && t.Text != "" && t.Activity.ID != "" {
		for _, m := range messagesIn(t) {
			said.IDs = append(said.IDs, m.ID)
		}
	}
	state.Of[prompts.History](t.Thread).Append(said, t.engine.cfg.HistoryTurns)
	t.rec.Remembered = true
}

// takeBack removes the turn from the history, where a save put it before the turn failed. Others may have
// come after it meanwhile, and stay.
func takeBack(t *Turn) {
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
}

// Home is a document with notes about the turn's person, in their personal conversation; nil elsewhere, and once they have
// said /forget. A feature that changes it saves it in [Feature].Left. Turns in other conversations of theirs race for it, so losing the race has to be harmless.
func Home(t *Turn) *state.Scope { return t.docs.home }

func homeKey(person state.Key) state.Key { return person.Under("notes", "home") }

// keepHome saves home. Losing the race is harmless: either value will do, and the next turn writes
// it again.
func keepHome(ctx context.Context, t *Turn) {
	if t.docs.home == nil {
		return
	}
	err := t.engine.cfg.Store.Save(ctx, t.docs.home)
	if err != nil && !errors.Is(err, state.ErrConflict) {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("could not save which conversation is the person's own")
	}
}

// noteReference stores how to reach the conversation, if that changed. A dead conversation comes
// alive again.
func noteReference(t *Turn) {
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
	if t.rec.Phase == waiting && t.rec.Wait != nil && !isAnswered(pauseOf(t)) {
		return // its time is up
	}
	if c.Personal() && !a.FromBot() && !a.FromExtension() {
		now.Person = a.From.ID
		if t.docs.home != nil && state.Peek[home](t.docs.home).Conversation != c.ID {
			state.Of[home](t.docs.home).Conversation = c.ID
		}
	}
	if t.moved = *before != now; t.moved {
		*state.Of[reference](t.Conversation) = now
	}
}

// useReference gives a record that a feature submitted for a message of a person the address that the conversation has by
// now.
func useReference(t *Turn) {
	known := state.Peek[reference](t.Conversation)
	if !t.IsMessage() || t.rec.Notice != nil || t.docs.fault != nil || known.ServiceURL == "" {
		return
	}
	t.Activity.ServiceURL = known.ServiceURL
	t.rec.Caller.ServiceURL, t.rec.Caller.Trusted = known.ServiceURL, known.Signed
}

// Merge keeps ours: two threads may bring the address of one channel at the same time.
func (r *reference) Merge(_, _ *reference) {}

func (r *reference) die(why string) {
	r.Dead, r.Why = time.Now().UTC().Truncate(time.Second), why
}

// retireConversation notes that the channel no longer lets the bot speak in the conversation, if err says so.
func retireConversation(ctx context.Context, t *Turn, err error) {
	why := deadly(err)
	if why == "" || t.rec.Stateless || t.Conversation == nil || t.saveFault != nil {
		return
	}
	refused, _ := errors.AsType[*connector.Error](err)
	if refused.Status == http.StatusNotFound && strings.Contains(t.Activity.Conversation.ID, threadMark) {
		return // the thread is gone, such as with the message that began it, and the channel need not be
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

// placeHere is the turn's conversation as a place.
func placeHere(t *Turn) string {
	return placeOf(threadOf(t), t.Activity.Conversation.Personal())
}

// Place is a conversation that has words of the turn's person, for features that show or delete these.
type Place struct {
	Conversation string
	Personal     bool // nobody else is in it
	OnlyNotices  bool // nothing but notices for later is theirs there
	Here         bool // the turn is in it

	turn *Turn
	to   actions.Recipient
}

func readPlace(t *Turn, member string) Place {
	_, conversation, _ := strings.Cut(member, " ")
	return Place{
		Conversation: conversation, turn: t, to: elsewhereOf(t, conversation), Here: member == placeHere(t),
		Personal: strings.HasPrefix(member, personalPlace), OnlyNotices: strings.HasPrefix(member, noticePlace),
	}
}

// There is another conversation of the turn's channel as a place.
func There(t *Turn, conversation string) Place {
	return Place{Conversation: conversation, turn: t, to: elsewhereOf(t, conversation)}
}

// Here is the place that the turn is in.
func Here(t *Turn) Place {
	p := readPlace(t, placeHere(t))
	p.Conversation, p.to = t.Activity.Conversation.ID, actions.To(t.Activity)
	return p
}

// Places calls f with the places of the turn's person.
func Places(ctx context.Context, t *Turn, f func(Place) error) error {
	return t.engine.cfg.Store.Members(ctx, placesKey(PersonKey(t.Activity)), func(members []string) error {
		for _, member := range members {
			if err := f(readPlace(t, member)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Forget deletes what this package keeps of the turn's person, and saves the turn, of which nothing is kept from then
// on. Then it calls saved, and each with the person's other places, and ends these, and this one last. One for which
// each fails stays, and so does one with a running turn: that turn may have listed it before this, and may save words
// after it.
func Forget(ctx context.Context, t *Turn, saved func() error, each func(Place) error) error {
	store, person := t.engine.cfg.Store, PersonKey(t.Activity)
	own, err := store.Load(ctx, homeKey(person))
	if len(own) == 0 {
		return err
	}
	own[0].Delete() // even if it cannot be read
	if err := store.Save(ctx, own[0]); err != nil {
		return err
	}
	t.docs.home = nil
	*forgotten.Of(t) = true
	if err := t.Save(ctx); err != nil {
		return err
	}
	if err := saved(); err != nil {
		return err
	}
	var fault error
	err = store.Drain(ctx, placesKey(person), func(members []string) (done []string, err error) {
		for _, member := range members {
			p := readPlace(t, member)
			if p.Here {
				continue
			}
			queue := queueOf(p.to)
			waiting, err := t.engine.inbox.Queued(ctx, queue)
			if queue == conversationKey(t) {
				waiting-- // this turn
			}
			if err == nil {
				err = each(p)
			}
			switch {
			case errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil:
				return nil, err
			case err != nil:
				fault = cmp.Or(fault, err)
			case waiting == 0:
				done = append(done, member)
			}
		}
		return done, nil
	})
	if err = cmp.Or(err, fault); err != nil {
		return err
	}
	return store.Leave(ctx, placesKey(person), placeHere(t))
}

// Load returns the state of the place: that of the whole conversation, which has the approvals of its threads, is the
// last. With an error there is none, or some of it cannot be read, but can be deleted.
func (p Place) Load(ctx context.Context) ([]*state.Scope, error) {
	keys := []state.Key{keyOf(p.to)}
	if base := queueOf(p.to); base != keys[0] {
		keys = append(keys, base)
	}
	scopes, err := p.turn.engine.cfg.Store.Load(ctx, keys...)
	if len(scopes) != len(keys) {
		return nil, err
	}
	return scopes, err
}

// Waits lists what waits there for the person with that id; "": for anybody.
func (p Place) Waits(ctx context.Context, owner string) (all []*Waiting, err error) {
	t := p.turn
	listed, err := waitsOf(ctx, t, queueOf(p.to), owner, isAny)
	for _, one := range listed {
		waits, fault := findWait(ctx, t, one.Queue, one.ID)
		if errors.Is(fault, inbox.ErrNoRecord) {
			continue // it came to an end meanwhile
		}
		if waits == nil {
			return nil, fault
		}
		w := readWait(one)
		waits.Turn, waits.For, waits.Until = one.ID, string(w.For), w.Until
		all = append(all, waits)
	}
	return all, err
}

// findWait returns a record that waits. With an [ErrRecord] it lacks what cannot be read.
func findWait(ctx context.Context, t *Turn, queue state.Key, id string) (*Waiting, error) {
	found, err := t.engine.inbox.Find(ctx, queue, id)
	if err != nil {
		return nil, err
	}
	rec, err := Decode(found.Record)
	asked, _ := rec.Read()
	w := waitingOf(t, &rec, asked)
	w.Turn, w.Since, w.queue = id, found.Since, queue
	return w, err
}

// FindWait returns the record with that id that [SubmitWait] has wait in the turn's conversation; nil: there is none.
func FindWait(ctx context.Context, t *Turn, id string) (*Waiting, error) {
	w, err := findWait(ctx, t, conversationKey(t), id)
	if errors.Is(err, inbox.ErrNoRecord) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

// Drop drops what waits there for the person with that id; "": for anybody. No kinds: all.
func (p Place) Drop(ctx context.Context, owner string, kinds ...string) error {
	which := isAny
	if p.OnlyNotices {
		which = isOne(forTime)
	} else if len(kinds) > 0 {
		which = func(w *Wait) bool { return slices.Contains(kinds, string(w.For)) }
	}
	return dropWaits(ctx, p.turn, p.Conversation, owner, which)
}

// DropPauses drops all that waits there for people's answers.
func (p Place) DropPauses(ctx context.Context) error {
	return dropWaits(ctx, p.turn, p.Conversation, "", (*Wait).isPause)
}

// ForgetFiles deletes the texts of files that are kept there; base is the last of [Place.Load].
func (p Place) ForgetFiles(ctx context.Context, base *state.Scope) error {
	return p.turn.engine.files.Forget(ctx, queueOf(p.to), base)
}

// forgotten says in a record that the data of its person is deleted.
var forgotten = &Slot[bool]{name: "forgotten"}

// placesKey is the key of a person's places.
func placesKey(person state.Key) state.Key { return person.Under("notes", "places") }

// listPlace adds the conversation to the person's places. It runs before the first save that has
// their words in it: a place without words costs nothing, but words without a place outlive
// /forget. If Redis is down, that save would fail too, and the turn waits. If Redis refuses, nobody
// can fix that here: the turn continues, and the history does not keep what was said.
func listPlace(ctx context.Context, t *Turn) error {
	if t.listed || !t.rec.Remembered || t.docs.scopes == nil {
		return nil
	}
	err := t.engine.cfg.Store.Join(ctx, placesKey(PersonKey(t.Activity)), placeHere(t))
	if err == nil || errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil {
		t.listed = err == nil
		return err
	}
	zerolog.Ctx(ctx).Error().Err(err).Msg("could not record this conversation for /forget, so its history is not kept")
	takeBack(t)
	return nil
}

// Built-in commands that this package speaks of.
const (
	forgetCommand = "/forget"
	resetCommand  = "/reset"
)

// isAny and isOne say which waits are meant.
func isAny(w *Wait) bool { return w.For != forChannel }

func isOne(of waitKind) func(*Wait) bool {
	return func(w *Wait) bool { return w.For == of }
}

// waitsOf lists what waits in a queue: what the owner asked for; "" lists everybody's. With forOperator it
// lists the dead letters of the queues under it, too.
func waitsOf(ctx context.Context, t *Turn, queue state.Key, owner string, which func(*Wait) bool) ([]inbox.Waiting, error) {
	all, err := t.engine.inbox.Waiting(ctx, queue)
	if err == nil && which(&Wait{For: forOperator}) {
		var under []inbox.Waiting
		under, err = t.engine.inbox.DeadUnder(ctx, queue)
		all = append(all, under...)
	}
	return slices.DeleteFunc(all, func(listed inbox.Waiting) bool {
		w := readWait(listed)
		return !which(&w) || owner != "" && w.Owner != owner
	}), err
}

// dropWaits drops what [waitsOf] lists of a conversation. With forTime it also ends the
// schedules that are at work just then.
func dropWaits(ctx context.Context, t *Turn, conversation, owner string, which func(*Wait) bool) error {
	if t.ReadOnly() {
		return errReadOnly
	}
	there := elsewhereOf(t, conversation)
	if which(&Wait{For: forTime}) {
		if err := t.engine.endSchedules(ctx, there, owner); err != nil {
			return err
		}
	}
	waiting, err := waitsOf(ctx, t, queueOf(there), owner, which)
	for _, listed := range waiting {
		w, failure := findWait(ctx, t, listed.Queue, listed.ID)
		switch {
		case w != nil:
			failure = DropWait(ctx, t, w)
		case errors.Is(failure, inbox.ErrNoRecord):
			failure = nil
		}
		err = cmp.Or(err, failure)
	}
	return err
}

// DropWait drops a record that waits. Before that it tells the features of one of [SubmitWait], and after it the pause of
// another one, if that has a Dropped: it may have asked elsewhere. What cannot be read goes without a word.
func DropWait(ctx context.Context, t *Turn, w *Waiting) error {
	if w.Record.Wait != nil && w.Record.Wait.isAlone() {
		if err := tellOver(ctx, t, w); err != nil {
			return err
		}
	}
	dropped, err := t.engine.inbox.Drop(ctx, w.queue, w.Turn)
	p, ok := w.Pause.(interface {
		Dropped(ctx context.Context, t *Turn, asked *activity.Activity) error
	})
	if err != nil || !dropped || !ok || w.Asked == nil {
		return err
	}
	return p.Dropped(ctx, t, w.Asked)
}

// tellOver tells the features that a record of [SubmitWait] goes.
func tellOver(ctx context.Context, t *Turn, w *Waiting) error {
	for _, f := range t.engine.cfg.Features {
		if f.Over == nil {
			continue
		}
		if err := f.Over(ctx, t, w); err != nil {
			return fmt.Errorf("feature %s: %w", f.Name, err)
		}
	}
	return nil
}

// What follows is about messages that their authors edit or delete. Nothing runs again because of that: the history
// follows, and what was done stays done.

// deletedText is what a turn that goes on after a wait has in place of a message that its author deleted.
const deletedText = "[The person deleted this message.]"

// waitsForMessage returns the thread of a turn that answers the message and waits, which would bring the old words back,
// or is at work in a thread that the activity does not name. "": none does.
func waitsForMessage(ctx context.Context, t *Turn, a *activity.Activity) (thread string, err error) {
	if a.ID == "" {
		return "", nil
	}
	err = eachRecord(ctx, t, conversationKey(t), a.ID, func(rec *Record, asked *activity.Activity) {
		same := asked.Type == activity.Message && asked.From.ID == a.From.ID && (asked.ID == a.ID || hasID(rec.burst(), a.ID))
		elsewhere := asked.Conversation.ID != a.Conversation.ID
		if same && rec.ID != t.ID && (rec.Phase == waiting || elsewhere) { // else it has told the history all that it will
			thread = asked.Conversation.ID
		}
	})
	return thread, err
}

// eachRecord calls f with the records of a queue that have this text in them, and with what each answers. Those at work
// are among them, and those that this version of the bot cannot read are not.
func eachRecord(ctx context.Context, t *Turn, queue state.Key, text string, f func(rec *Record, asked *activity.Activity)) error {
	all, err := t.engine.inbox.Records(ctx, queue)
	for _, raw := range all {
		if !bytes.Contains(raw, []byte(text)) {
			continue
		}
		rec, err := Decode(raw)
		if err != nil {
			continue
		}
		if asked, err := rec.Read(); err == nil {
			f(&rec, asked)
		}
	}
	return err
}

// maxThreads is in how many threads of a channel a message is looked for.
const maxThreads = 100

// threadWith returns the thread whose history has the message, or whose turn waits; "": there is none. Teams names
// only the channel of some that were edited or deleted.
func threadWith(ctx context.Context, t *Turn, a *activity.Activity, waits string) (string, error) {
	history := state.Peek[prompts.History](t.Thread)
	if err := t.Thread.Err(); err != nil {
		return "", fmt.Errorf("read history: %w", err)
	}
	channel := a.Conversation.BaseID()
	switch {
	case waits != "":
		return waits, nil
	case history.Has(a.From.ID, a.ID):
		return a.Conversation.ID, nil
	case a.ID == "" || a.TeamID() == "" || channel != a.Conversation.ID:
		return "", nil
	}
	threads := []string{channel + threadMark + a.ID}
	err := Places(ctx, t, func(p Place) error {
		if strings.HasPrefix(p.Conversation, channel+threadMark) && len(threads) < maxThreads {
			threads = append(threads, p.Conversation)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	for _, thread := range threads {
		scopes, err := t.engine.cfg.Store.Load(ctx, keyOf(elsewhereOf(t, thread)))
		if err != nil || state.Peek[prompts.History](scopes[0]).Has(a.From.ID, a.ID) {
			return thread, err
		}
	}
	return "", nil
}

// passOn has another thread of the conversation follow the turn's activity, in order with what is written there.
func passOn(ctx context.Context, t *Turn, thread string) error {
	a := *t.Activity
	a.Conversation.ID = thread
	raw, err := a.Encode()
	if err != nil {
		return err
	}
	there := t.engine.NewTurn(&a, raw, t.rec.Caller.Trusted, false)
	once := []inbox.Duplicate{{ID: "pass on\n" + t.ID}}
	_, _, err = t.engine.submit(ctx, there, inbox.Entry{Queue: queueFor(there), Load: keysOfTurn(there), Duplicates: once, Unbounded: true})
	return err
}

// followAuthor gives a turn that goes on after a wait the words that its message has by now.
func followAuthor(t *Turn) {
	begins := t.rec.Phase != waiting && t.rec.Run == nil
	if begins || !t.IsMessage() || t.Thread == nil {
		return
	}
	now := map[string]amendment{}
	for _, m := range messagesIn(t) {
		if text, ok := state.Peek[prompts.History](t.Thread).AmendedText(m.ID); ok {
			now[m.ID] = amendment{text: text, deleted: text == ""}
		}
	}
	t.amended = len(now) > 0
	if !t.amended {
		return
	}
	useWords(t, now)
	if t.deleted {
		t.Text, t.rec.Text = deletedText, deletedText
	}
}

const (
	// amendAfter is how long ago a message came of which its queue may have an edit or a deletion by now.
	amendAfter = 500 * time.Millisecond
	// maxFollowed is how many edits a turn follows while its plan is made.
	maxFollowed = 3
)

// followQueue gives a turn that has done nothing yet the words that the author has given its message since it
// came, or notes that they have deleted it. changed reports that there is something new. What edits or deletes
// it stands behind it in the queue.
func followQueue(ctx context.Context, t *Turn) (changed bool, err error) {
	a := t.Activity
	if !t.IsMessage() || a.ChannelID != activity.Teams || a.ID == "" || t.rec.Notice != nil || t.rec.Stateless || time.Since(t.rec.Accepted) < amendAfter {
		return false, nil
	}
	n, err := t.engine.inbox.Queued(ctx, t.lease.Queue())
	if err != nil || n < 2 {
		return false, err
	}
	text := a.ID
	if t.burst != nil {
		text = "" // any of them
	}
	var last Record
	now := map[string]amendment{}
	err = eachRecord(ctx, t, t.lease.Queue(), text, func(rec *Record, by *activity.Activity) {
		same := by.Amends() && by.From.ID == a.From.ID && hasID(messagesIn(t), by.ID)
		if !same || rec.ID == t.ID || !rec.Accepted.After(now[by.ID].at) {
			return
		}
		m := *by
		m.Type = activity.Message
		now[by.ID] = amendment{text: files.Said(&m), deleted: by.Type == activity.MessageDelete, at: rec.Accepted}
		if rec.Accepted.After(last.Accepted) {
			last = *rec
		}
	})
	if err != nil {
		return false, err
	}
	if len(now) == 0 || last.ID == t.follows {
		return false, nil
	}
	t.follows = last.ID
	useWords(t, now)
	zerolog.Ctx(ctx).Info().Bool("deleted", t.deleted).Msg("the turn follows what the author of its message did with it")
	return true, nil
}

// documents are the state that a turn has loaded. Its parts are in the turn that actions see, too:
// the conversation, the person and, in a channel, the thread.
type documents struct {
	store *state.Store
	turn  *actions.Turn
	step  func(ctx context.Context, name string) (context.Context, func(error)) // of the turn

	scopes    []*state.Scope // the conversation, the person and the thread; nil: not loaded, or not to be saved
	bot       *state.Scope   // of the whole bot; nil: nobody asked for it
	home      *state.Scope   // names the person's own conversation; nil: this one is not personal
	snapshots []*state.Scope // of what actions may change, for rollback
	fault     error          // why some of it cannot be read
	outage    error          // why the whole bot's state could not be loaded, if Redis is away
}

// load reads the documents with these keys, see [keysOfTurn], in one round trip.
func (d *documents) load(ctx context.Context, keys []state.Key) (err error) {
	ctx, end := d.step(ctx, "load")
	defer func() { end(err) }()
	scopes, err := d.store.Load(ctx, keys...)
	if err != nil && len(scopes) != len(keys) {
		return err
	}
	d.adopt(scopes) // a scope that cannot be read can still be deleted
	return nil
}

// adopt takes the scopes that [keysOfTurn] names.
func (d *documents) adopt(scopes []*state.Scope) {
	if last := len(scopes) - 1; d.turn.Activity.Conversation.Personal() {
		scopes, d.home = scopes[:last], scopes[last]
	}
	d.scopes = scopes
	for _, scope := range scopes {
		d.fault = errors.Join(d.fault, scope.Err())
	}
	d.turn.Conversation, d.turn.User, d.turn.Thread = scopes[0], scopes[1], scopes[0]
	if len(scopes) > 2 {
		d.turn.Thread = scopes[2]
	}
}

// botOf is [actions.Turn.Bot].
func botOf(t *Turn) func(context.Context) (*state.Scope, error) {
	return func(ctx context.Context) (*state.Scope, error) {
		had := t.docs.bot
		s, err := t.docs.loadBot(ctx)
		if err == nil && had == nil {
			seeLoaded(t, s)
		}
		return s, err
	}
}

func (d *documents) loadBot(ctx context.Context) (_ *state.Scope, err error) {
	switch {
	case d.scopes == nil:
		return nil, errors.New("this turn has no state")
	case d.bot != nil:
		return d.bot, nil
	}
	ctx, end := d.step(ctx, "load")
	defer func() { end(err) }()
	scopes, err := d.store.Load(ctx, state.BotKey())
	if errors.Is(err, state.ErrUnavailable) {
		d.outage = err
	}
	if err == nil {
		d.bot = scopes[0]
	}
	return d.bot, err
}

// writable reports whether there is state that may be changed and saved.
func (d *documents) writable() bool { return d.scopes != nil && d.fault == nil }

// toSave returns the scopes to save, in the order of their partitions: the one that most others change
// comes first, because once it is saved the turn cannot run again.
func (d *documents) toSave() []*state.Scope {
	if d.bot == nil || d.scopes == nil {
		return d.scopes
	}
	return append([]*state.Scope{d.bot}, d.scopes...)
}

// rebase merges what others saved in these documents into the scopes.
func (d *documents) rebase(ctx context.Context, keys []state.Key) error {
	fresh, err := d.store.Load(ctx, keys...)
	if err != nil {
		return err
	}
	for _, scope := range d.toSave() {
		if i := slices.Index(keys, scope.Key()); i >= 0 {
			if err := scope.Rebase(fresh[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// snapshot copies what actions may change, for rollback.
func (d *documents) snapshot() {
	d.snapshots = d.snapshots[:0]
	for _, scope := range d.changeable() {
		d.snapshots = append(d.snapshots, scope.Checkpoint())
	}
}

// rollback takes back what a failed action changed, so that nothing is left half done.
func (d *documents) rollback() {
	scopes := d.changeable()
	for i, c := range d.snapshots {
		scopes[i].Restore(c)
	}
	if len(scopes) > len(d.snapshots) { // the action loaded it
		d.bot = nil
	}
}

// changeable returns the scopes that actions may change, the bot's last.
func (d *documents) changeable() []*state.Scope {
	all := append(slices.Clip(d.scopes), d.turn.Temp)
	if d.bot != nil {
		all = append(all, d.bot)
	}
	return all
}

// changed reports whether the scopes have changes to save. A scope that cannot be saved counts.
func changed(scopes ...*state.Scope) bool {
	return slices.ContainsFunc(scopes, func(s *state.Scope) bool {
		changed, err := s.Changed()
		return changed || err != nil
	})
}
