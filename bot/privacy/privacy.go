// Package privacy deletes what a bot keeps about a person, and shows it to them: the commands /forget and /mydata.
package privacy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// Privacy is what it needs to know of a bot.
type Privacy struct {
	Store    *state.Store
	Actions  *actions.Registry
	Features []turn.Feature // what they keep is shown and deleted, too
	Requests bool           // other programs ask in the name of people
	Facts    bool           // people have the bot remember facts
	Audit    bool           // there is one, which stays
	SignOut  func(ctx context.Context, t *turn.Turn) error
}

// Feature tells people of a failure.
func (p *Privacy) Feature() turn.Feature {
	return turn.Feature{Name: "privacy", Failed: func(_ context.Context, t *turn.Turn, failure error) string {
		if errors.Is(failure, errNotForgotten) {
			return t.Translate("Sorry, I could not delete everything that I keep about you. Please try again.")
		}
		return ""
	}}
}

// What the record of a turn of /forget keeps, for a process that takes it over: what stays because it belongs to
// others, in the person's words, and how many remembered facts and texts of files were deleted.
var (
	keptNames    = turn.NewSlot[[]string]("kept")
	factsDeleted = turn.NewSlot[int]("facts")
	textsDeleted = turn.NewSlot[int]("file_texts")
)

// errNotForgotten says that some of a person's data is not deleted.
var errNotForgotten = errors.New("not everything about the person was deleted")

// Forget deletes everything that the bot keeps about the turn's person: first what [actions.Registry.OnForget] is for,
// then their state, their personal conversations, and what they said in others. It reads back that remembered facts
// are gone. Forget saves the turn. After an error some of it may be deleted; call it again, in any turn.
func (p *Privacy) Forget(ctx context.Context, t *turn.Turn) (err error) {
	if t.ReadOnly() {
		return t.Save(ctx) // which says so
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", errNotForgotten, err)
		}
	}()
	keeps, err := p.Actions.Forget(ctx, t.Turn)
	if err != nil {
		return err
	}
	signedOut := p.SignOut(ctx, t) // what is kept here goes, whatever the token service says
	shared, err := p.shared(ctx, t)
	if err != nil {
		return err
	}
	facts, fileTexts := factsDeleted.Of(t), textsDeleted.Of(t)
	*facts = max(*facts, countFacts(t.User)) // a process that died may have deleted them
	for _, f := range p.Features {
		if f.Forget == nil {
			continue
		}
		if err := f.Forget(ctx, t); err != nil {
			return fmt.Errorf("feature %s: %w", f.Name, err)
		}
	}
	t.User.Delete()
	*fileTexts = max(*fileTexts, files.Kept(t.Conversation))
	if err := p.forgetIn(ctx, t, turn.Here(t), t.Thread, t.Conversation); err != nil {
		return err
	}
	stays := keptNames.Of(t)
	for _, name := range append(keeps, shared...) {
		if !slices.Contains(*stays, name) {
			*stays = append(*stays, name)
		}
	}
	noFacts := func() error {
		if *facts == 0 {
			return nil
		}
		left, err := p.Store.Load(ctx, turn.PersonKey(t.Activity))
		if err == nil && countFacts(left[0]) > 0 {
			err = errors.New("remembered facts are still there")
		}
		return err
	}
	// What stays is saved before the list of places goes: a process that takes over could not find out.
	return cmp.Or(turn.Forget(ctx, t, noFacts, func(place turn.Place) error { return p.forgetElsewhere(ctx, t, place) }), signedOut)
}

// countFacts is how many facts package memory keeps in a person's state, whoever they belong to.
func countFacts(user *state.Scope) int {
	raw, _ := user.JSON("facts")
	var kept struct {
		All []json.RawMessage `json:"all"`
	}
	_ = json.Unmarshal(raw, &kept) // nothing is kept, or not by package memory
	return len(kept.All)
}

// ForgetConversation deletes everything stored about the turn's conversation, including what waits in it.
func (p *Privacy) ForgetConversation(ctx context.Context, t *turn.Turn) error {
	here := turn.Here(t)
	here.Personal = true // all of it goes
	return p.forgetIn(ctx, t, here, t.Thread, t.Conversation)
}

// ForgetApprovals drops all approvals and answers that the conversation waits for, and its standing approvals.
func (p *Privacy) ForgetApprovals(ctx context.Context, t *turn.Turn) error {
	p.forgetValues(t.Conversation, "")
	return turn.Here(t).DropPauses(ctx)
}

// forgetValues deletes what features keep of a person in a conversation; "": all.
func (p *Privacy) forgetValues(conversation *state.Scope, person string) {
	for _, f := range p.Features {
		for _, v := range f.Values {
			v.Forget(conversation, person)
		}
	}
}

// forgetElsewhere deletes what the person said in another conversation. If a turn changes it meanwhile, the turn of
// /forget runs again.
func (p *Privacy) forgetElsewhere(ctx context.Context, t *turn.Turn, place turn.Place) error {
	if place.OnlyNotices {
		return place.Drop(ctx, t.Activity.From.ID)
	}
	scopes, err := place.Load(ctx)
	if err != nil && !(place.Personal && len(scopes) > 0) { // what is deleted whole need not be read
		return err
	}
	kept := files.Kept(scopes[len(scopes)-1])
	if err := p.forgetIn(ctx, t, place, scopes...); err != nil {
		return err
	}
	if err := p.Store.Save(ctx, scopes...); err != nil {
		return err
	}
	*textsDeleted.Of(t) += kept
	return nil
}

// forgetIn deletes what the person said in a place with these documents; all of it, if nobody else is there.
func (p *Privacy) forgetIn(ctx context.Context, t *turn.Turn, place turn.Place, scopes ...*state.Scope) error {
	owner, base := t.Activity.From.ID, scopes[len(scopes)-1]
	if place.Personal {
		owner = ""
	}
	if err := place.Drop(ctx, owner); err != nil {
		return err
	}
	p.forgetValues(base, owner)
	if err := place.ForgetFiles(ctx, base); err != nil {
		return err
	}
	for _, scope := range scopes {
		if place.Personal {
			p.deleteAll(scope)
		} else {
			state.Of[prompts.History](scope).Forget(owner)
		}
	}
	return nil
}

// deleteAll deletes a document, but for what waits there for others.
func (p *Privacy) deleteAll(scope *state.Scope) {
	var puts []func()
	for _, f := range p.Features {
		for _, v := range f.Values {
			if v.Stays != nil {
				puts = append(puts, v.Stays(scope))
			}
		}
	}
	scope.Delete()
	for _, put := range puts {
		put()
	}
}

// shared names what the bot keeps in conversations that the person shares with others.
func (p *Privacy) shared(ctx context.Context, t *turn.Turn) (names []string, err error) {
	note := func(scopes ...*state.Scope) {
		for _, scope := range scopes {
			for _, name := range scope.Names() {
				if p.says(name) == "" {
					names = append(names, p.label(t, name))
				}
			}
		}
	}
	if !t.Activity.Conversation.Personal() {
		note(t.Conversation, t.Thread)
	}
	err = turn.Places(ctx, t, func(place turn.Place) error {
		if place.Personal || place.OnlyNotices || place.Here {
			return nil
		}
		scopes, err := place.Load(ctx)
		if len(scopes) == 0 {
			return err
		}
		note(scopes...) // one that cannot be read has no names
		return nil
	})
	slices.Sort(names)
	return slices.Compact(names), err
}

// says is what people call a value of the bot's own or of a feature. "": it is none.
func (p *Privacy) says(name string) texts.Text {
	for _, f := range p.Features {
		for _, v := range f.Values {
			if v.Name == name {
				return v.Says
			}
		}
	}
	return ownValues[name]
}

// label is what people call a value of state: its name, unless [bot.Config].Texts has another word.
func (p *Privacy) label(t *turn.Turn, name string) string {
	return t.Translate(cmp.Or(p.says(name), texts.Text(name)))
}

// ForgetCommand is the command that asks for a yes, which may follow it as words.
const ForgetCommand = "/forget"

// Ask asks whether to delete everything about the person.
func (p *Privacy) Ask(ctx context.Context, t *turn.Turn) error {
	question := t.Translate("Should I delete everything that I keep about you?")
	about := t.Translate("This cannot be undone. What belongs to others stays.")
	how := func(command string) string {
		return question + " " + about + "\n\n" + t.Translate("Say %s to delete it.", command)
	}
	m := t.Message(how("**" + ForgetCommand + " yes**"))
	if t.ShowsCards() {
		m.Summary, m.Text = question, ""
		m.Attachments = []activity.Attachment{activity.Card{
			Fallback: how(ForgetCommand + " yes"),
			Body:     []any{activity.TextBlock{Text: question, Weight: "bolder", Size: "medium"}, activity.TextBlock{Text: about}},
			Actions:  []any{activity.Button{Title: t.Translate("Delete everything"), Style: "destructive", Data: click{forgetVerb, t.Activity.From.ID}}},
		}.Attachment()}
	}
	return t.Send(ctx, m)
}

const forgetVerb = turn.OwnVerbs + "forget"

// click is the data of the button that says yes. Such a click is a message, so that the person reads how it ended,
// however long it takes.
type click struct {
	Verb   string `json:"verb"`
	Person string `json:"person"` // who was asked
}

// IsClick reports whether the turn answers that button.
func IsClick(t *turn.Turn) bool {
	var c click
	return t.IsSubmit() && json.Unmarshal(t.Activity.Value, &c) == nil && c.Verb == forgetVerb
}

// Clicked handles that click. In a group others see the button, too.
func (p *Privacy) Clicked(ctx context.Context, t *turn.Turn) error {
	var c click
	if err := json.Unmarshal(t.Activity.Value, &c); err != nil || c.Person != t.Activity.From.ID {
		return t.Tell(ctx, t.Translate("This question is for somebody else. Nothing was deleted."))
	}
	return p.Yes(ctx, t)
}

// Yes deletes everything stored about the person but the audit, and says what stays.
func (p *Privacy) Yes(ctx context.Context, t *turn.Turn) error {
	if err := p.Forget(ctx, t); err != nil {
		return err
	}
	said := t.Translate("I've deleted everything I kept about you.")
	if p.Audit {
		said = t.Translate("I've deleted everything I kept about you, except the audit of approvals and actions.")
	}
	facts, fileTexts, keeps := factsDeleted.Peek(t), textsDeleted.Peek(t), keptNames.Peek(t)
	if p.Facts || fileTexts > 0 {
		said += " " + t.Translate("Deleted facts: %d, texts of files: %d, vectors: 0 (I keep none of what people say or send). I checked that none is left. I can't reach backups, or what the AI model's provider logs.", facts, fileTexts)
	}
	if len(keeps) > 0 {
		said += " " + t.Translate("This stays, because it belongs to others: %s.", strings.Join(keeps, ", "))
	}
	return t.Tell(ctx, said)
}
