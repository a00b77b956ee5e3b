package privacy

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

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// Show is the command /mydata: it shows the person what the bot keeps about them, where nobody else reads it. That is
// their state, their personal conversations, what they said in others, and what waits for them: at most about 100 KB,
// and it says if there is more. What [actions.Registry.OnForget] is for is not in it.
func (p *Privacy) Show(ctx context.Context, t *turn.Turn) error {
	if !t.Activity.Conversation.Personal() {
		return t.Tell(ctx, t.Translate("Please ask me that in a personal chat, where only you can read the answer."))
	}
	said, err := (&personData{Turn: t, privacy: p, seen: map[string]bool{}}).texts(ctx)
	if err != nil {
		return fmt.Errorf("collect a person's data: %w", err)
	}
	return t.Tell(ctx, said...)
}

const (
	maxPersonData = 100_000 // how many UTF-16 code units of JSON people are shown
	maxBlock      = 15_000  // how many of them are in one message, which also has titles
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
	"delegation":    "who decides your approvals",
}

var errTooMuch = errors.New("too much data to send") // says that there is more data than may be sent

// personData collects what the bot keeps about the person of the turn.
type personData struct {
	*turn.Turn
	privacy *Privacy
	blocks  []string        // of JSON, each with a title
	size    int             // of that JSON, in UTF-16 code units
	seen    map[string]bool // conversations, and the turns that wait
}

// texts collects it and returns the texts to send.
func (d *personData) texts(ctx context.Context) ([]string, error) {
	about := map[string]any{}
	err := d.all(d.User, about)
	if err == nil && d.privacy.Requests {
		var docs []*state.Scope
		docs, err = d.privacy.Store.Load(ctx, turn.PersonKey(d.Activity).Under("notes", "requests"))
		if len(docs) > 0 {
			err = d.all(docs[0], about)
		}
	}
	if err == nil {
		err = d.add(d.Translate("About you"), about)
	}
	if err == nil {
		err = d.conversation(ctx, turn.Here(d.Turn), d.Conversation, d.Thread)
	}
	if err == nil {
		err = turn.Places(ctx, d.Turn, func(place turn.Place) error { return d.place(ctx, place) })
	}
	tooMuch := errors.Is(err, errTooMuch)
	if err != nil && !tooMuch {
		return nil, err
	}
	said := []string{d.Translate("This is what I keep about you.")}
	for _, f := range d.privacy.Features {
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

func (d *personData) place(ctx context.Context, place turn.Place) error {
	if d.seen[place.Conversation] {
		return nil
	}
	scopes, err := place.Load(ctx)
	if len(scopes) == 0 {
		return err
	}
	return d.conversation(ctx, place, scopes...)
}

// conversation adds what a conversation has of the person: everything, if it is theirs alone.
func (d *personData) conversation(ctx context.Context, place turn.Place, scopes ...*state.Scope) error {
	d.seen[place.Conversation] = true
	title, values := d.Translate("This conversation"), map[string]any{}
	if !place.Here {
		title = d.Translate("Conversation %s", titles.Code(titles.Visible(place.Conversation)))
	}
	for _, scope := range scopes {
		if !place.Personal {
			d.mine(scope, values)
		} else if err := d.all(scope, values); err != nil {
			return err
		}
	}
	owner := d.Activity.From.ID
	if place.Personal { // nobody else is there
		owner = ""
	}
	waiting, err := place.Waits(ctx, owner)
	if err != nil {
		return err
	}
	var list []map[string]any
	for _, w := range waiting {
		if !d.seen[w.Turn] { // a thread shares the queue of its channel
			d.seen[w.Turn] = true
			list = append(list, d.describe(w))
		}
	}
	if len(list) > 0 {
		values[d.Translate("waiting")] = list
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
		values[d.privacy.label(d.Turn, name)] = raw
	}
	return nil
}

// mine adds what the person said or asked for in a conversation with others.
func (d *personData) mine(scope *state.Scope, values map[string]any) {
	said, id, kept := *state.Of[prompts.History](scope), d.Activity.From.ID, map[string]any{}
	for _, f := range d.privacy.Features {
		for _, v := range f.Values {
			if of := v.Of(scope, id); of != nil {
				kept[d.Translate(v.Says)] = of
			}
		}
	}
	if scope.Err() != nil {
		values[d.Translate("cannot be read")] = true
		return
	}
	said.Turns = slices.DeleteFunc(slices.Clone(said.Turns), func(turn prompts.Turn) bool { return turn.From != id })
	if len(said.Turns) > 0 {
		values[d.privacy.label(d.Turn, "history")] = said.Turns
	}
	maps.Copy(values, kept)
}

// describe says what a record waits for, and with which words of the person.
func (d *personData) describe(w *turn.Waiting) map[string]any {
	one, rec := map[string]any{"for": w.For, "since": w.Since}, w.Record
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
		if rec.Wait.Every != "" {
			one["schedule"] = strings.TrimSpace(rec.Wait.Every + " " + rec.Wait.Zone)
		}
		return one
	}
	if w.Asked != nil {
		one["text"] = cmp.Or(rec.Text, files.Said(w.Asked))
	}
	var file struct{ Name string }
	if json.Unmarshal(rec.Slots["file"], &file, json.MatchCaseInsensitiveNames(true)) == nil && file.Name != "" {
		one["file"] = file.Name
	}
	if w.Pause != nil {
		maps.Copy(one, w.Pause.Data(d.Turn))
	}
	return one
}
