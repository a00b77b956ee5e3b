package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions/memory"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/bot/turn/internal/stream"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// What the record of a turn of /forget keeps, for a process that takes it over: that the person's data is deleted, what
// stays because it belongs to others, and how many facts and texts of files were deleted, see [Forgot].
var (
	forgotten    = &Slot[bool]{"forgotten"}
	keptNames    = &Slot[[]string]{"kept"}
	factsDeleted = &Slot[int]{"facts"}
	textsDeleted = &Slot[int]{"file_texts"}
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
	if err := forgetPerson(ctx, t); err != nil {
		return Forgot{}, fmt.Errorf("%w: %w", errNotForgotten, err)
	}
	return Forgot{keptNames.Peek(t), factsDeleted.Peek(t), textsDeleted.Peek(t)}, nil
}

// errFactsLeft says that remembered facts are still there after they were deleted.
var errFactsLeft = errors.New("remembered facts are still there")

// checkForgotten reads back that no remembered fact is left, if there were any.
func checkForgotten(ctx context.Context, t *Turn) error {
	if factsDeleted.Peek(t) == 0 {
		return nil
	}
	left, err := t.engine.cfg.Store.Load(ctx, PersonKey(t.Activity))
	if err == nil && memory.Count(left[0]) > 0 {
		err = errFactsLeft
	}
	return err
}

func forgetPerson(ctx context.Context, t *Turn) error {
	keeps, err := t.engine.cfg.Actions.Forget(ctx, t.Turn)
	if err != nil {
		return err
	}
	signedOut := t.SignOut(ctx) // what is kept here goes, whatever the token service says
	shared, err := sharedValues(ctx, t)
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
	if err := forgetRequests(ctx, t); err != nil {
		return err
	}
	facts, fileTexts := factsDeleted.Of(t), textsDeleted.Of(t)
	*facts = max(*facts, memory.Count(t.User)) // a process that died may have deleted them
	for _, f := range t.engine.cfg.Features {
		if f.Forget == nil {
			continue
		}
		if err := f.Forget(ctx, t); err != nil {
			return fmt.Errorf("feature %s: %w", f.Name, err)
		}
	}
	t.User.Delete()
	*fileTexts = max(*fileTexts, files.Kept(t.Conversation))
	if err := forgetHere(ctx, t); err != nil {
		return err
	}
	*forgotten.Of(t) = true
	stays := keptNames.Of(t)
	for _, name := range append(keeps, shared...) {
		if !slices.Contains(*stays, name) {
			*stays = append(*stays, name)
		}
	}
	// Save what stays before the list of places goes: a process that takes over could not find out.
	if err := t.Save(ctx); err != nil {
		return err
	}
	if err := checkForgotten(ctx, t); err != nil {
		return err
	}
	if err := forgetElsewhere(ctx, t); err != nil {
		return err
	}
	return cmp.Or(t.engine.cfg.Store.Leave(ctx, placesKey(PersonKey(t.Activity)), placeHere(t)), signedOut)
}

// forgetHere deletes what the person said in this conversation. The next save deletes it.
func forgetHere(ctx context.Context, t *Turn) error {
	if t.Activity.Conversation.Personal() {
		return t.ForgetConversation(ctx)
	}
	forgetValues(t, t.Conversation, t.Activity.From.ID)
	state.Of[prompts.History](t.Thread).Forget(t.Activity.From.ID)
	return dropWaits(ctx, t, t.Activity.Conversation.ID, t.Activity.From.ID, isAny)
}

// sharedValues names what the bot keeps in conversations that the person shares with others.
func sharedValues(ctx context.Context, t *Turn) (names []string, err error) {
	note := func(scopes ...*state.Scope) {
		for _, scope := range scopes {
			for _, name := range scope.Names() {
				if saysOf(t, name) == "" {
					names = append(names, labelOf(t, name))
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
			if !strings.HasPrefix(place, sharedPlace) || place == placeHere(t) {
				continue
			}
			keys := keysOfOther(t, conversation)
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
	if err := dropWaits(ctx, t, t.Activity.Conversation.ID, "", isAny); err != nil {
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
	forgetValues(t, t.Conversation, "")
	return dropWaits(ctx, t, t.Activity.Conversation.ID, "", waitKind.isPause)
}

// forgetValues deletes what features keep of a person in a conversation; "": all.
func forgetValues(t *Turn, conversation *state.Scope, person string) {
	for _, v := range valuesOf(t) {
		v.Forget(conversation, person)
	}
}

// valuesOf lists what features keep in the state of conversations.
func valuesOf(t *Turn) (all []Value) {
	for _, f := range t.engine.cfg.Features {
		all = append(all, f.Values...)
	}
	return all
}

// forgetElsewhere deletes what the person said in all other conversations. If the state of one
// cannot be read, the others are still deleted. A conversation with a running turn stays a place:
// that turn may have listed it before this, and may save words after it.
func forgetElsewhere(ctx context.Context, t *Turn) error {
	var fault error
	err := t.engine.cfg.Store.Drain(ctx, placesKey(PersonKey(t.Activity)), func(places []string) (done []string, err error) {
		for _, place := range places {
			if place == placeHere(t) {
				continue
			}
			conversation, _ := readPlace(place)
			queue := queueOf(elsewhereOf(t, conversation))
			waiting, err := t.engine.inbox.Queued(ctx, queue)
			if queue == t.lease.Queue() {
				waiting-- // this turn
			}
			if err == nil {
				err = forgetIn(ctx, t, place)
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

// keysOfOther returns the keys of the documents of another conversation. The last is that of the whole
// conversation, which has the approvals of its threads.
func keysOfOther(t *Turn, conversation string) []state.Key {
	there := elsewhereOf(t, conversation)
	keys := []state.Key{keyOf(there)}
	if base := queueOf(there); base != keys[0] {
		keys = append(keys, base)
	}
	return keys
}

// forgetIn deletes what the person said in another conversation. If a turn changes it meanwhile,
// the turn of /forget runs again.
func forgetIn(ctx context.Context, t *Turn, place string) error {
	conversation, personal := readPlace(place)
	keys := keysOfOther(t, conversation)
	if strings.HasPrefix(place, noticePlace) {
		return dropWaits(ctx, t, conversation, t.Activity.From.ID, isOne(forTime))
	}
	scopes, err := t.engine.cfg.Store.Load(ctx, keys...)
	if err != nil && !(personal && len(scopes) == len(keys)) { // what is deleted whole need not be read
		return err
	}
	owner := t.Activity.From.ID
	if personal {
		owner = ""
	}
	if err := dropWaits(ctx, t, conversation, owner, isAny); err != nil {
		return err
	}
	queue, base := queueOf(elsewhereOf(t, conversation)), scopes[len(scopes)-1]
	forgetValues(t, base, owner)
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
	*textsDeleted.Of(t) += kept
	return nil
}

// saysOf is what people call a value of the bot's own or of a feature. "": it is none.
func saysOf(t *Turn, name string) texts.Text {
	for _, v := range valuesOf(t) {
		if v.Name == name {
			return v.Says
		}
	}
	return ownValues[name]
}

// labelOf is what people call a value of state: its name, unless [Config.Texts] has another word.
func labelOf(t *Turn, name string) string {
	return t.Translate(cmp.Or(saysOf(t, name), texts.Text(name)))
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
		messages = append(messages, messagesOf(t, text)...)
	}
	return messages, nil
}

const (
	// maxPersonData is how many UTF-16 code units of JSON [Turn.PersonData] returns.
	maxPersonData = 100_000
	// maxBlock is how many of them are in one message, which also has titles.
	maxBlock = stream.MaxUnits - 1000
)

// ownValues are the names of what the bot itself keeps in a conversation's state, with what people
// call it.
var ownValues = map[string]texts.Text{
	"history":       "what we said",
	"facts":         "what you asked me to remember",
	"targetedcards": "which messages only one person sees",
	"reference":     "how I reach you",
	"sentnotices":   "messages that I sent on my own",
	"skills":        "loaded skills",
	"filetexts":     "files that you sent recently",
	"greeted":       "whether I've said hello",
	"handoffs":      "what you can go on with elsewhere",
	"keptrequests":  "what programs asked for on your behalf",
}

// errTooMuch says that there is more data than may be sent.
var errTooMuch = errors.New("too much data to send")

// personData collects what the bot keeps about the person of the turn.
type personData struct {
	*Turn
	blocks []string        // of JSON, each with a title
	size   int             // of that JSON, in UTF-16 code units
	seen   map[string]bool // places and ids of what waits
}

// texts collects it and returns the texts to send.
func (d *personData) texts(ctx context.Context) ([]string, error) {
	about := map[string]any{}
	err := d.all(d.User, about)
	if err == nil && d.engine.cfg.Requests {
		var docs []*state.Scope
		if docs, err = d.engine.cfg.Store.Load(ctx, requestsKey(PersonKey(d.Activity))); len(docs) > 0 {
			err = d.all(docs[0], about)
		}
	}
	if err == nil {
		err = d.add(d.Translate("About you"), about)
	}
	if err == nil {
		err = d.conversation(ctx, placeHere(d.Turn), d.Conversation, d.Thread)
	}
	if err == nil {
		err = d.engine.cfg.Store.Members(ctx, placesKey(PersonKey(d.Activity)), func(places []string) error { return d.places(ctx, places) })
	}
	tooMuch := errors.Is(err, errTooMuch)
	if err != nil && !tooMuch {
		return nil, err
	}
	said := []string{d.Translate("This is what I keep about you.")}
	for _, f := range d.engine.cfg.Features {
		if f.Keeps != "" {
			said[0] += " " + d.Translate(f.Keeps)
		}
	}
	if tooMuch {
		said[0] += " " + d.Translate("There is more than I can send here. Please ask whoever runs this bot.")
	}
	for _, block := range d.blocks {
		if last := len(said) - 1; len(said[last])+len(block) < maxBlock {
			said[last] += "\n\n" + block
		} else {
			said = append(said, block)
		}
	}
	return said, nil
}

// add adds values with a title. It cuts what is too much, and returns errTooMuch then.
func (d *personData) add(title string, values map[string]any) error {
	if len(values) == 0 {
		return nil
	}
	raw, err := json.Marshal(values, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	text := strings.ReplaceAll(string(raw), "`", "\\u0060") // it goes into a block of code
	end := spelling.Prefix(text, maxPersonData-d.size)
	d.size += end
	if end > 0 {
		d.blocks = append(d.blocks, "**"+title+"**\n\n```\n"+text[:end]+"\n```")
	}
	if end < len(text) {
		return errTooMuch
	}
	return nil
}

// places adds conversations of the person.
func (d *personData) places(ctx context.Context, places []string) error {
	for _, place := range places {
		conversation, _ := readPlace(place)
		if d.seen[conversation] {
			continue
		}
		keys := keysOfOther(d.Turn, conversation)
		scopes, err := d.engine.cfg.Store.Load(ctx, keys...)
		if len(scopes) != len(keys) {
			return err
		}
		if err := d.conversation(ctx, place, scopes...); err != nil {
			return err
		}
	}
	return nil
}

// conversation adds what a conversation has of the person: everything, if it is theirs alone.
func (d *personData) conversation(ctx context.Context, place string, scopes ...*state.Scope) error {
	conversation, personal := readPlace(place)
	d.seen[conversation] = true
	title, values, owner := d.Translate("This conversation"), map[string]any{}, d.Activity.From.ID
	if place != placeHere(d.Turn) {
		title = d.Translate("Conversation %s", titles.Code(titles.Visible(conversation)))
	}
	if personal {
		owner = ""
	}
	for _, scope := range scopes {
		if !personal {
			d.mine(scope, values)
		} else if err := d.all(scope, values); err != nil {
			return err
		}
	}
	waiting, err := d.waiting(ctx, queueOf(elsewhereOf(d.Turn, conversation)), owner)
	if err != nil {
		return err
	}
	if len(waiting) > 0 {
		values[d.Translate("waiting")] = waiting
	}
	return d.add(title, values)
}

// all adds every value of a document.
func (d *personData) all(scope *state.Scope, values map[string]any) error {
	if scope.Err() != nil {
		values[d.Translate("cannot be read")] = true
		return nil
	}
	for _, name := range scope.Names() {
		raw, err := scope.JSON(name)
		if err != nil {
			return err
		}
		values[labelOf(d.Turn, name)] = raw
	}
	return nil
}

// mine adds what the person said or asked for in a conversation with others.
func (d *personData) mine(scope *state.Scope, values map[string]any) {
	said, id, kept := *state.Of[prompts.History](scope), d.Activity.From.ID, map[string]any{}
	for _, v := range valuesOf(d.Turn) {
		if of := v.Of(scope, id); of != nil {
			kept[d.Translate(v.Says)] = of
		}
	}
	if scope.Err() != nil {
		values[d.Translate("cannot be read")] = true
		return
	}
	said.Turns = slices.DeleteFunc(slices.Clone(said.Turns), func(turn prompts.Turn) bool { return turn.From != id })
	if len(said.Turns) > 0 {
		values[labelOf(d.Turn, "history")] = said.Turns
	}
	maps.Copy(values, kept)
}

// waiting describes what waits for the owner in a queue; "" is everybody.
func (d *personData) waiting(ctx context.Context, queue state.Key, owner string) (list []map[string]any, err error) {
	all, err := waitsOf(ctx, d.Turn, queue, owner, isAny)
	if err != nil {
		return nil, err
	}
	for _, listed := range all {
		if d.seen[listed.ID] {
			continue // a thread shares the queue of its channel
		}
		d.seen[listed.ID] = true
		found, err := d.engine.inbox.Find(ctx, listed.Queue, listed.ID)
		if errors.Is(err, inbox.ErrNoRecord) {
			continue // it came to an end meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, d.describe(readWait(listed), found))
	}
	return list, nil
}

// describe says what a record waits for, and with which words of the person.
func (d *personData) describe(w Wait, found inbox.Waiting) map[string]any {
	rec, _ := Decode(found.Record) // what cannot be read is left out
	one := map[string]any{"for": w.For, "since": found.Since}
	if !w.Until.IsZero() {
		one["until"] = w.Until
	}
	if rec.Notice != nil {
		var messages []string
		for _, raw := range rec.Notice.Messages {
			if m, err := activity.Decode(raw); err == nil {
				messages = append(messages, cmp.Or(m.Text, string(raw)))
			}
		}
		one["messages"] = messages
		if rec.Notice.Run != "" {
			one["messages"], one["text"] = []string{}, rec.Text
		}
		if w.Every != "" {
			one["schedule"] = strings.TrimSpace(w.Every + " " + w.Zone)
		}
		return one
	}
	if a, _ := rec.Read(); a != nil {
		one["text"] = cmp.Or(rec.Text, files.Said(a))
	}
	if file := offered.Peek(&rec); file.Name != "" {
		one["file"] = file.Name
	}
	if rec.Wait != nil && rec.Wait.open(d.engine.pauses) != nil {
		maps.Copy(one, rec.Wait.pause.Data(d.Turn))
	}
	return one
}
