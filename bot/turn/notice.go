package turn

import (
	"bytes"
	"cmp"
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/adhocore/gronx"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/turnid"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// A notice is what a bot says without being asked just then. It is a record like any other: it
// waits for its time outside of its queue, and then sends its messages in order with the turns of
// its conversation.
//
// A recurring notice is a record that always waits. When it is due, it puts a record for that time
// into its queue, and waits for the next one.

const (
	// maxNotice limits the messages of one notice.
	maxNotice = 50
	// lateAfter is the delay after which a notice says that it is late.
	lateAfter = 5 * time.Minute
	// maxSentNotices is how many sent notices a conversation remembers.
	maxSentNotices = 20
	// sameNotice is how long the key of a notice is remembered.
	sameNotice = 24 * time.Hour
)

// Notify saves the notice. Any process sends it, at least once, in order with the turns of its
// conversation, and waits while the channel is unavailable. Notify returns the record's id; for a
// notice whose Key was used before, that of the first one.
//
// Errors, for errors.Is: [actions.ErrUnknownRecipient]; [actions.ErrUnreachable] if the channel
// refused what was last sent there; [actions.ErrFull] and [state.ErrUnavailable], after which the
// same notice may be tried again.
func (e *Engine) Notify(ctx context.Context, n actions.Notice) (id string, err error) {
	return e.notify(ctx, &post{Notice: n})
}

// Withdraw drops the waiting notices with the Key in the conversation, or of the person, in To. It
// reports whether there was one. A recurring notice does not recur after this.
func (e *Engine) Withdraw(ctx context.Context, n actions.Notice) (withdrawn bool, err error) {
	if n.Key == "" {
		return false, errors.New("withdraw: the notice has no Key")
	}
	if err := e.locate(ctx, &n.To); err != nil {
		return false, fmt.Errorf("withdraw: %w", err)
	}
	once, err := e.withdraw(ctx, n.To, idOf(queueOf(n.To), n.Key), false)
	again := false
	if err == nil {
		again, err = e.withdraw(ctx, n.To, idOf(queueOf(n.To), everyKey+n.Key), true)
	}
	if err != nil {
		return once, fmt.Errorf("withdraw: %w", err)
	}
	return once || again, nil
}

// SubmitRun puts a record of the feature's own into the person's own conversation, from outside of a turn. n has To and
// Key; person is their id in Microsoft Entra, and fill sets a slot of [NewRunSlot]. Its turn runs the feature's Handle,
// which may call [RunCall]. A bot without the feature makes it a dead letter. Errors are those of [Engine.Notify].
func (e *Engine) SubmitRun(ctx context.Context, feature string, n actions.Notice, person string, fill func(Holder)) (id string, err error) {
	n.Run = OwnVerbs + feature
	return e.notify(ctx, &post{Notice: n, runAs: person, fill: fill})
}

// notifier sends notices for the actions of a turn.
type notifier struct {
	engine *Engine
	turn   *Turn
}

// Notify is [Engine.Notify] from within a turn, by its person, and to its conversation unless the
// notice says otherwise. If a call of an action runs again, its notices are not sent twice.
func (by notifier) Notify(ctx context.Context, n actions.Notice) (id string, err error) {
	t := by.turn
	if t.ReadOnly() {
		return "", errReadOnly
	}
	p := &post{Notice: n, owner: personOf(t.Activity), attempt: actions.AttemptOf(ctx).Key}
	here := actions.To(t.Activity)
	if p.To.Conversation == "" && p.To.User == "" {
		p.To.Conversation = here.Conversation
	}
	if p.To.Channel == "" && p.To.Bot == "" {
		p.To.Channel, p.To.Bot, p.To.Caller = here.Channel, here.Bot, here.Caller
		p.To.Via = cmp.Or(p.To.Via, here.Conversation)
	}
	p.lead(t)
	if p.To.Conversation != "" && t.Conversation != nil && queueOf(p.To) == t.Conversation.Key() {
		p.known = *state.Of[reference](t.Conversation)
	}
	if queueOf(p.To) == queueOf(here) {
		p.person = PrivateTo(t)
	}
	return by.engine.notify(ctx, p)
}

// lead notes what the turn knows of its own conversation: in its first turn that is not saved yet.
func (p *post) lead(t *Turn) {
	if p.To.Via == t.Activity.Conversation.ID && t.Conversation != nil {
		p.through = *state.Peek[reference](t.Conversation)
	}
}

// post is a notice before it is saved.
type post struct {
	actions.Notice
	owner   string // who may withdraw it; "": nobody
	attempt string // key of the action call that sends it; "": none
	known   reference
	through reference // of the conversation Via, if it is known
	person  string    // who alone may read it; "": everybody
	feature string    // whose record it is, see [SubmitTo]; "": it is a notice
	runAs   string    // the id in Microsoft Entra of the person of its turn, see [Engine.SubmitRun]
	fill    func(Holder)
}

func (e *Engine) notify(ctx context.Context, p *post) (string, error) {
	id, err := "", e.check(p)
	if err == nil {
		err = e.address(ctx, p)
	}
	if err == nil {
		id, err = e.keep(ctx, p)
	}
	if errors.Is(err, inbox.ErrFull) {
		err = fmt.Errorf("%w: %w", actions.ErrFull, err)
	}
	if err != nil {
		return "", fmt.Errorf("notify: %w", err)
	}
	return id, nil
}

// check refuses a notice that could never be sent, or never run.
func (e *Engine) check(p *post) error {
	switch {
	case p.fill != nil:
		return nil
	case p.Run != "" && e.cfg.Notice(p.Run) == nil:
		return fmt.Errorf("no handler is registered with OnNotice for %q", p.Run)
	case p.Run != "" && len(p.Activities) > 0:
		return errors.New("a notice with Run sends no Activities")
	case p.Every == "" && p.Zone != "":
		return errors.New("a Zone without Every")
	case p.Every == "":
		return nil
	case p.Key == "" && p.attempt == "":
		return errors.New("a recurring notice has no Key")
	case !p.At.IsZero():
		return errors.New("a recurring notice has an At")
	}
	_, err := nextTime(p.Every, p.Zone, time.Now())
	return err
}

// address finds the conversation that the notice goes to.
func (e *Engine) address(ctx context.Context, p *post) error {
	if e.cfg.Store.Embedded() && e.workers.closing() {
		return ErrDraining
	}
	err := e.locate(ctx, &p.To)
	if errors.Is(err, actions.ErrUnknownRecipient) && p.To.User != "" && p.To.Via != "" {
		err = e.meet(ctx, p)
	}
	if err != nil {
		return err
	}
	if p.known == (reference{}) {
		docs, err := e.cfg.Store.Load(ctx, queueOf(p.To))
		if err != nil {
			return err
		}
		p.known = *state.Of[reference](docs[0])
	}
	if p.known == (reference{}) {
		return actions.ErrUnknownRecipient
	}
	if why := p.known.usable(e.cfg.Channel); why != "" {
		return fmt.Errorf("%w %s", actions.ErrUnreachable, why)
	}
	return nil
}

// locate fills in the conversation of a person.
func (e *Engine) locate(ctx context.Context, to *actions.Recipient) error {
	if to.Conversation != "" {
		return nil
	}
	docs, err := e.cfg.Store.Load(ctx, homeKey(keyOf(*to)))
	if err != nil {
		return err
	}
	if to.Conversation = state.Of[home](docs[0]).Conversation; to.Conversation == "" {
		return actions.ErrUnknownRecipient
	}
	return nil
}

// Find returns a record of the conversation, or of the person, in to: one that waits or is at work. found is false if
// there is none that this version of the bot can read. Errors are [actions.ErrUnknownRecipient] and those of the store.
func (e *Engine) Find(ctx context.Context, to actions.Recipient, id string) (rec Record, found bool, err error) {
	if err := e.locate(ctx, &to); err != nil {
		return rec, false, err
	}
	all, err := e.inbox.Records(ctx, queueOf(to))
	if err != nil {
		return rec, false, err
	}
	rec, unreadable := Decode(all[id])
	return rec, unreadable == nil, nil
}

// teamsAccount begins the ids of people's accounts in Teams; other ids of a person are aadObjectIds.
const teamsAccount = "29:"

// meet creates the personal conversation with a person who has not written to the bot, through
// another conversation. It sends nothing, so it may be repeated: Teams creates the conversation once.
func (e *Engine) meet(ctx context.Context, p *post) error {
	via, person := p.To, keyOf(p.To)
	via.Conversation = p.To.Via
	known := p.through
	if known == (reference{}) {
		docs, err := e.cfg.Store.Load(ctx, queueOf(via))
		if err != nil {
			return err
		}
		known = *state.Of[reference](docs[0])
	}
	if known == (reference{}) {
		return fmt.Errorf("%w, and neither is the conversation to reach it through", actions.ErrUnknownRecipient)
	}
	if why := known.usable(e.cfg.Channel); why != "" {
		return fmt.Errorf("%w %s", actions.ErrUnreachable, why)
	}
	there, err := e.cfg.Channel.CreateConversation(connector.ForCaller(ctx, via.Caller), known.in(via).Reference(), p.To.User, nil)
	if refused, ok := errors.AsType[*connector.Error](err); ok {
		switch refused.Status {
		case http.StatusForbidden:
			return fmt.Errorf("%w: the bot is not installed for this person, or they have blocked it: %w", actions.ErrUnreachable, err)
		case http.StatusBadRequest, http.StatusNotFound:
			return fmt.Errorf("%w: the channel creates no conversation with this id: %w", actions.ErrUnknownRecipient, err)
		}
	}
	if err != nil {
		return err
	}
	p.To.Conversation = there.Conversation.ID
	keys := []state.Key{queueOf(p.To)}
	if via.Channel != activity.Teams || strings.HasPrefix(p.To.User, teamsAccount) { // nothing is kept under other ids
		if err := e.cfg.Store.Join(ctx, placesKey(person), placeOf(p.To.Conversation, true)); err != nil { // for /forget
			return err
		}
		keys = append(keys, homeKey(person))
	}
	docs, err := e.cfg.Store.Load(ctx, keys...)
	if err != nil {
		return err
	}
	if len(docs) > 1 {
		state.Of[home](docs[1]).Conversation = p.To.Conversation
	}
	if now := state.Of[reference](docs[0]); *now == (reference{}) {
		*now = reference{ServiceURL: there.ServiceURL, Type: "personal", Tenant: known.Tenant, Person: p.To.User, Signed: known.Signed}
	}
	for _, doc := range docs { // who loses the race has been heard from meanwhile
		if err := e.cfg.Store.Save(ctx, doc); err != nil && !errors.Is(err, state.ErrConflict) {
			return err
		}
	}
	return nil
}

// keep puts the notice into the inbox: into its queue or, if it is for later, among the records
// that wait.
func (e *Engine) keep(ctx context.Context, p *post) (string, error) {
	a := p.known.in(p.To)
	a.From.AadObjectID = p.runAs
	raw, err := a.Encode()
	if err != nil {
		return "", err
	}
	t := e.NewTurn(a, raw, p.known.Signed, false)
	messages, err := compose(&p.Notice, a, e.cfg.PictureHosts)
	if err != nil {
		return "", err
	}
	entry, key := inbox.Entry{Queue: queueOf(p.To)}, p.key(messages)
	t.rec.Notice = &pendingNotice{
		Messages: messages, Known: p.known, Keyed: key != "" && p.Every == "", Run: p.Run, Person: p.person, Cause: turnid.From(ctx).Turn,
	}
	t.rec.Own = p.feature
	if p.fill != nil {
		p.fill(t)
	}
	t.step(ctx, StepSubmit)
	if p.Run != "" {
		t.rec.Text, t.Text = p.Text, p.Text
	}
	if key != "" {
		t.ID = idOf(entry.Queue, key)
		t.rec.ID = t.ID
	}
	if later := time.Until(p.At) > 0; later || p.Every != "" {
		t.rec.Phase, t.rec.Notice.Due = waiting, p.At
		t.rec.Wait = &Wait{
			For: forTime, Until: p.At, Then: planning, Owner: p.owner, Topic: p.Topic, Memo: p.Memo, Conversation: p.To.Conversation, Private: p.person != "",
			Every: p.Every, Zone: p.Zone,
		}
		if p.Every != "" && p.Key != "" && !a.Conversation.Personal() {
			t.rec.Wait.Owner = "" // a schedule with a name, in a conversation of several people, is not one person's
		}
		if err := e.listNotice(ctx, a, t.rec.Wait.Owner); err != nil {
			return "", err
		}
		if !later {
			_, err := e.schedule(ctx, t.rec, entry.Queue)
			return t.ID, err
		}
		listed := t.rec.Wait.listed()
		entry.Wait = &listed
	} else {
		entry.Queue, entry.Load = queueFor(t), keysOfTurn(t)
		if key != "" {
			entry.Duplicates = []inbox.Duplicate{{ID: "notice\n" + key, For: sameNotice}}
		}
	}
	id, _, err := e.submit(ctx, t, entry)
	return id, err
}

// listNotice makes the conversation of a notice for later one of the places of its owner and of the
// person whose personal conversation it is: /forget has to find every notice.
func (e *Engine) listNotice(ctx context.Context, a *activity.Activity, owner string) error {
	places := map[string]string{} // by person
	if owner != "" {
		places[owner] = noticePlace + a.Conversation.ID
	}
	if a.Conversation.Personal() && a.From.ID != "" {
		places[a.From.ID] = placeOf(a.Conversation.ID, true)
	}
	for id, place := range places {
		person := *a
		person.From.ID = id
		if err := e.cfg.Store.Join(ctx, placesKey(PersonKey(&person)), place); err != nil {
			return err
		}
	}
	return nil
}

// key distinguishes the notice from others to the same conversation; "": it has no key.
func (p *post) key(messages []jsontext.Value) string {
	key := p.Key
	if key == "" && p.attempt != "" {
		key = "call\n" + p.attempt + "\n" + Hash(messages, p.Run, p.Text, p.Every, p.Zone)
	}
	if p.Every != "" {
		key = everyKey + key
	}
	return key
}

// everyKey begins the keys of recurring notices.
const everyKey = "every\n"

// idOf makes the id of a record from a key that is unique in its queue.
func idOf(queue state.Key, key string) string {
	sum := sha256.Sum256([]byte(queue.String() + "\n" + key))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:idLen])
}

// compose makes the messages of a notice to the conversation of a.
func compose(n *actions.Notice, a *activity.Activity, pictureHosts []string) ([]jsontext.Value, error) {
	var list []*activity.Activity
	for _, part := range partsOf(n.Text, a.ChannelID, pictureHosts) {
		if strings.TrimSpace(part) != "" {
			list = append(list, &activity.Activity{Type: activity.Message, Text: part, TextFormat: "markdown"})
		}
	}
	for _, one := range n.Activities {
		if one == nil || one.Type == "" {
			return nil, errors.New("an activity of the notice has no type")
		}
		if one.Amends() && one.ID == "" {
			return nil, fmt.Errorf("a %s of the notice has no id of the message", one.Type)
		}
		list = append(list, one)
	}
	if n.Run != "" {
		return nil, nil
	}
	if len(list) == 0 || len(list) > maxNotice {
		return nil, fmt.Errorf("a notice of %d messages", len(list))
	}
	messages := make([]jsontext.Value, len(list))
	for i, one := range list {
		raw, err := into(a, one).EncodeToSend()
		if err != nil {
			return nil, err
		}
		messages[i] = raw
	}
	return messages, nil
}

// into returns a copy of m that goes to the conversation of a.
func into(a, m *activity.Activity) *activity.Activity {
	there, out := activity.To(a.Reference(), m.Type), *m
	out.ChannelID, out.ServiceURL, out.Conversation = there.ChannelID, there.ServiceURL, there.Conversation
	out.From, out.Recipient = there.From, there.Recipient
	return &out
}

// sentNotices are the records of the last notices with a key that went to a conversation. They are
// part of its state.
type sentNotices struct {
	Turns []string `json:"turns,omitempty"`
}

// sendNotice is the handler of a notice: it sends the messages to the conversation's current
// address.
func sendNotice(ctx context.Context, t *Turn) error {
	known := *state.Of[reference](t.Conversation)
	if known == (reference{}) {
		known = t.rec.Notice.Known
	}
	if why := known.usable(t.engine.cfg.Channel); why != "" {
		zerolog.Ctx(ctx).Warn().Str("reason", why).Msg("a notice was dropped: nothing can be sent there")
		t.Count(CountReplies, "given_up")
		return nil
	}
	t.Activity = known.in(actions.To(t.Activity))
	t.rec.Caller.Trusted, t.rec.Caller.ServiceURL = known.Signed, t.Activity.ServiceURL // also if another process sends it
	if sent := state.Of[sentNotices](t.Conversation); t.rec.Notice.Keyed {
		if slices.Contains(sent.Turns, t.ID) {
			zerolog.Ctx(ctx).Info().Msg("a notice that was sent before is not sent again")
			return nil
		}
		sent.Turns, t.rec.Notice.Keyed = newest(append(sent.Turns, t.ID), maxSentNotices), false
	}
	if t.rec.Own != "" || t.rec.Notice.runBy() != "" {
		return ownHandler(t)(ctx, t)
	}
	if run := t.rec.Notice.Run; run != "" {
		h := t.engine.cfg.Notice(run)
		if h == nil {
			return &deadLetter{reason: "this version of the bot has no handler for its notice " + run}
		}
		return h(ctx, t)
	}
	var list []*activity.Activity
	for _, raw := range t.rec.Notice.Messages {
		m, err := activity.Decode(raw)
		if err != nil {
			return &deadLetter{reason: "its messages cannot be read", err: err}
		}
		list = append(list, into(t.Activity, m))
	}
	if due := t.rec.Notice.Due; !due.IsZero() && time.Since(due) > lateAfter {
		list = append(list, t.Message(t.Translate("This was due on %s.", due.Format(t.Translate("Monday, 2 January at 15:04")))))
	}
	return t.Send(ctx, list...)
}

// schedule makes the record of a recurring notice wait, in place of the one with the same id. If that
// one is at work just then, the queue does it after that (queued). A time that the other one waits
// for stays, also if it has passed, unless the schedule differs. A record without a schedule ends the
// other one.
func (e *Engine) schedule(ctx context.Context, rec Record, queue state.Key) (queued bool, err error) {
	w := *rec.Wait
	rec.Wait = &w
	old, err := e.inbox.Find(ctx, queue, rec.ID)
	had := readWait(old)
	switch same := had.For == forTime && had.Every == w.Every && had.Zone == w.Zone; {
	case err != nil && !errors.Is(err, inbox.ErrNoRecord):
		return false, err
	case w.Every == "":
	case same:
		w.Until = old.Until
	default:
		if w.Until, err = nextTime(w.Every, w.Zone, time.Now()); err != nil {
			return false, err
		}
	}
	raw, err := rec.Encode()
	if err != nil {
		return false, err
	}
	listed := w.listed()
	entry := inbox.Entry{Queue: queue, ID: rec.ID, Record: raw, Wait: &listed, Unbounded: w.Every == ""}
	if _, err := e.inbox.Accept(ctx, entry); err != nil {
		return false, err
	}
	now, err := e.inbox.Find(ctx, queue, rec.ID)
	switch {
	case err == nil && bytes.Equal(now.Record, raw) && w.Every == "":
		_, err := e.inbox.Drop(ctx, queue, rec.ID)
		return false, err
	case err == nil && bytes.Equal(now.Record, raw):
		return false, nil
	case err != nil && !errors.Is(err, inbox.ErrNoRecord):
		return false, err
	}
	a, err := rec.Read()
	if err != nil {
		return false, err
	}
	w.Replaces, rec.ID = rec.ID, strings.ToLower(crand.Text()[:idLen])
	t := e.newTurn(a)
	useRecord(t, rec)
	_, _, err = e.submit(ctx, t, inbox.Entry{Queue: queue, Unbounded: true})
	return true, err
}

// scheduleNext is the turn of a recurring notice that is due: it puts a record for this time into the queue
// and waits for the next one. If a process is killed in between, the next one finds that record: its
// id is made from the time.
func scheduleNext(ctx context.Context, t *Turn) error {
	w, queue := *t.rec.Wait, t.lease.Queue()
	rec := t.rec
	if w.Replaces != "" {
		rec.ID, rec.Wait, w.Replaces = w.Replaces, &w, ""
		t.rec.Phase = done
		_, err := t.engine.schedule(ctx, rec, queue)
		return err
	}
	if err := t.engine.listNotice(ctx, t.Activity, w.Owner); err != nil { // places expire if the person is silent
		return err
	}
	due := w.Until
	if due.IsZero() { // an operator has it tried again
		due = time.Now().Truncate(time.Second)
	}
	after := time.Now()
	if after.Before(due) { // the clocks of replicas and of Redis differ
		after = due
	}
	next, err := nextTime(w.Every, w.Zone, after)
	if err != nil {
		return err
	}
	notice := *rec.Notice
	notice.Due = due.In(next.Location())
	rec.ID = idOf(queue, fmt.Sprint(t.ID, "\n", due.UnixMilli()))
	rec.Phase, rec.Wait, rec.Notice, rec.Accepted = planning, nil, &notice, time.Now().UTC()
	raw, err := rec.Encode()
	if err != nil {
		return err
	}
	// A process that was paused meanwhile may come here after that record is done.
	again := []inbox.Duplicate{{ID: "notice\n" + rec.ID, For: sameNotice}}
	if _, err := t.engine.inbox.Accept(ctx, inbox.Entry{Queue: queue, ID: rec.ID, Record: raw, Duplicates: again, Unbounded: true}); err != nil {
		return err
	}
	w.For, w.Until, w.Reason, w.Then = forTime, next, "", planning
	t.rec.Wait = &w
	return nil
}

// withdraw drops a waiting notice and reports whether there was one. If the record of a recurring
// notice is at work just then, the queue drops it after that.
func (e *Engine) withdraw(ctx context.Context, to actions.Recipient, id string, recurring bool) (bool, error) {
	queue := queueOf(to)
	if gone, err := e.inbox.Drop(ctx, queue, id); gone || err != nil || !recurring {
		return gone, err
	}
	a := new(reference).in(to)
	raw, err := a.Encode()
	if err != nil {
		return false, err
	}
	t := e.NewTurn(a, raw, false, false)
	t.rec.ID, t.rec.Phase, t.rec.Wait = id, waiting, &Wait{For: forTime, Then: planning}
	return e.schedule(ctx, t.rec, queue)
}

// endSchedules ends the recurring notices of the owner in a conversation, including those that are at
// work just then; "" ends everybody's.
func (e *Engine) endSchedules(ctx context.Context, there actions.Recipient, owner string) error {
	all, err := e.inbox.Records(ctx, queueOf(there))
	for id, raw := range all {
		rec, _ := Decode(raw)
		if w := rec.Wait; w != nil && w.Every != "" && (owner == "" || w.Owner == owner) {
			_, failure := e.withdraw(ctx, there, cmp.Or(w.Replaces, id), true)
			err = cmp.Or(err, failure)
		}
	}
	return err
}

// nextTime returns the first time after that one at which the schedule is due.
func nextTime(every, zone string, after time.Time) (time.Time, error) {
	in, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return time.Time{}, fmt.Errorf("the time zone %.80q of a recurring notice is unknown", zone)
	}
	fields := strings.Fields(every)
	if len(fields) != 5 || !gronx.IsValid(every) {
		return time.Time{}, fmt.Errorf("the schedule %.80q is no cron expression of five fields", every)
	}
	after = after.In(in).Truncate(time.Second)
	clock := sameClock(after, time.UTC)
	next := time.Time{}
	for !next.After(after) { // a time that the clock repeats or skips may not be after it
		if clock, err = gronx.NextTickAfter(every, clock, false); err != nil {
			return time.Time{}, fmt.Errorf("the schedule %.80q is never due", every)
		}
		next = sameClock(clock, in)
	}
	if fields[1] != "*" {
		return next, nil
	}
	_, offset := after.Zone()
	elapsed, err := gronx.NextTickAfter(every, after.In(time.FixedZone("", offset)), false)
	if elapsed = elapsed.In(in); err == nil && elapsed.Before(next) {
		if due, err := gronx.New().IsDue(every, elapsed); err == nil && due {
			next = elapsed // in an hour that the clock repeats
		}
	}
	return next, nil
}

// sameClock returns the time at which the clock there shows what it shows at t: the first one, if it
// shows that twice.
func sameClock(t time.Time, there *time.Location) time.Time {
	y, m, d := t.Date()
	same := time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, there)
	if first := same.Add(-time.Hour); first.Hour() == same.Hour() {
		return first
	}
	return same
}

// Notices lists the person's notices on the topic that wait, see [actions.Notifier]. Where others read
// along, it leaves out what they asked for in private.
func (by notifier) Notices(ctx context.Context, topic string) (all []actions.Notice, err error) {
	t := by.turn
	seen, alone := map[string]bool{}, t.Activity.Conversation.Personal() || PrivateTo(t) != ""
	err = by.engine.cfg.Store.Members(ctx, placesKey(PersonKey(t.Activity)), func(places []string) error {
		var queues []state.Key
		for _, place := range places {
			queue := queueOf(readPlace(t, place).to)
			if !slices.Contains(queues, queue) { // as of many threads
				queues = append(queues, queue)
			}
		}
		waiting, err := by.engine.inbox.Waiting(ctx, queues...)
		for _, listed := range waiting {
			w := readWait(listed)
			if w.For != forTime || w.Owner != personOf(t.Activity) || w.Topic != topic || w.Private && !alone || seen[listed.ID] {
				continue
			}
			seen[listed.ID] = true
			to := actions.Recipient{Conversation: w.Conversation}
			all = append(all, actions.Notice{ID: listed.ID, At: listed.Until, Every: w.Every, Zone: w.Zone, Memo: w.Memo, To: to})
		}
		return err
	})
	slices.SortStableFunc(all, func(a, b actions.Notice) int { return a.At.Compare(b.At) })
	return all, err
}

// Withdraw drops a waiting notice of the person, see [actions.Notifier].
func (by notifier) Withdraw(ctx context.Context, n actions.Notice) (bool, error) {
	t := by.turn
	if t.ReadOnly() {
		return false, errReadOnly
	}
	there := elsewhereOf(t, n.To.Conversation)
	all, err := by.engine.inbox.Records(ctx, queueOf(there))
	if err != nil {
		return false, err
	}
	rec, err := Decode(all[n.ID])
	if err != nil || rec.Wait == nil || rec.Wait.For != forTime || rec.Wait.Owner != personOf(t.Activity) {
		return false, nil
	}
	return by.engine.withdraw(ctx, there, n.ID, rec.Wait.Every != "")
}

// newest is the end of a list.
func newest[E any](list []E, most int) []E { return slices.Delete(list, 0, max(0, len(list)-most)) }
