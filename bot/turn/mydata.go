package turn

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
	"approvals":     "approvals",
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
		err = d.conversation(ctx, d.here(), d.Conversation, d.Thread)
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
		keys := d.keysOf(conversation)
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
	if place != d.here() {
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
	waiting, err := d.waiting(ctx, queueOf(d.elsewhere(conversation)), owner)
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
		values[d.label(name)] = raw
	}
	return nil
}

// mine adds what the person said or asked for in a conversation with others.
func (d *personData) mine(scope *state.Scope, values map[string]any) {
	said, asked := *state.Of[prompts.History](scope), *state.Of[approvals](scope)
	if scope.Err() != nil {
		values[d.Translate("cannot be read")] = true
		return
	}
	id := d.Activity.From.ID
	said.Turns = slices.DeleteFunc(slices.Clone(said.Turns), func(turn prompts.Turn) bool { return turn.From != id })
	asked.Standing = slices.DeleteFunc(slices.Clone(asked.Standing), func(s standing) bool { return s.Asker != id })
	asked.Decided = slices.DeleteFunc(slices.Clone(asked.Decided), func(d decided) bool { return d.Asker != id })
	if len(said.Turns) > 0 {
		values[d.label("history")] = said.Turns
	}
	if len(asked.Standing)+len(asked.Decided) > 0 {
		values[d.label("approvals")] = asked
	}
}

// waiting describes what waits for the owner in a queue; "" is everybody.
func (d *personData) waiting(ctx context.Context, queue state.Key, owner string) (list []map[string]any, err error) {
	all, err := d.waitsOf(ctx, queue, owner, forTime, forApproval, forSignIn, forAnswer, forFile, forOperator)
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
	if rec.File != nil {
		one["file"] = rec.File.Name
	}
	if rec.Wait != nil && rec.Wait.Question != nil {
		one["action"], one["question"] = d.title(rec.Wait.Question.Action), rec.Wait.Question.Form.Text
	}
	if rec.Wait != nil && rec.Wait.Approval != nil {
		one["action"], one["entities"] = d.title(rec.Wait.Approval.Action), rec.Wait.Approval.Entities
	}
	return one
}
