package approvals

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/texts"
	"github.com/planbot-go/planbot/internal/titles"
	"github.com/planbot-go/planbot/state"
)

// What this file is about: an approver says who decides in their place for a while. That is a row in Redis, found by
// the approver's ids whenever somebody asks or clicks, and a copy in the approver's own state, for them to see.

// DelegateCommand is the command that [Delegate] handles.
const DelegateCommand = "/delegate"

const (
	delegations      = "delegations" // the table
	maxDelegations   = 100_000       // rows; a person has up to two
	maxDelegatedDays = 90
	maxPersonID      = 256 // bytes
)

// delegation is who decides in the place of whom, and until when.
type delegation struct {
	By    activity.Account `json:"by"`
	To    activity.Account `json:"to"`
	Until time.Time        `json:"until"`
	In    string           `json:"in"` // where By said so
}

// bare is an account without all but what names it.
func bare(who activity.Account) (named activity.Account) {
	named.ID, named.AadObjectID, named.Name = who.ID, who.AadObjectID, who.Name
	return named
}

// idOf is an id of the account.
func idOf(who activity.Account) string { return cmp.Or(who.AadObjectID, who.ID) }

// same reports whether two accounts are one person's.
func same(a, b activity.Account) bool { return isOf(a.ID, b) || isOf(a.AadObjectID, b) }

// delegationID is the id of the row of a person, by one of their ids.
func delegationID(t *turn.Turn, id string) string {
	who := *t.Activity
	who.From = activity.Account{}
	who.From.ID = strings.ToLower(id)
	tenant, _ := t.Activity.Tenant()
	return turn.Hash(tenant, turn.PersonKey(&who).String())
}

// findDelegation returns who decides in the place of an approver; nil: nobody does.
func findDelegation(ctx context.Context, t *turn.Turn, store *state.Store, approver string) (*delegation, error) {
	row, err := store.FindRow(ctx, delegations, delegationID(t, approver))
	if errors.Is(err, state.ErrNoRow) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	d := new(delegation)
	if err := json.Unmarshal([]byte(row.Text), d); err != nil {
		return nil, fmt.Errorf("read a delegation: %w", err)
	}
	if !isOf(approver, d.By) || time.Now().After(d.Until) {
		return nil, nil
	}
	return d, nil
}

// orphaned reports whether who delegated is no member any more where they did. If the channel does not say, they are.
func (d *delegation) orphaned(ctx context.Context, t *turn.Turn) bool {
	_, err := turn.MemberOf(ctx, t, d.In, idOf(d.By))
	refused, ok := errors.AsType[*connector.Error](err)
	return ok && refused.Code == connector.NoMember
}

// why says why somebody is asked; show makes a name safe.
func (d *delegation) why(v view, show func(string) string) string {
	by, to := cmp.Or(show(d.By.Name), v.Say("an approver")), cmp.Or(show(d.To.Name), v.Say("somebody"))
	return v.Say("%s decides this for %s until %s.", to, by, v.Clock(d.Until))
}

// dropDelegation ends what the turn's person delegated.
func dropDelegation(ctx context.Context, t *turn.Turn, store *state.Store) error {
	who := t.Activity.From
	for _, id := range []string{who.ID, who.AadObjectID} {
		if err := store.DropRow(ctx, delegations, delegationID(t, id)); err != nil {
			return err
		}
	}
	return nil
}

// Delegate handles the command: /delegate to CARLA until FRIDAY, /delegate off, and /delegate alone, which shows what
// holds.
func Delegate(ctx context.Context, t *turn.Turn, store *state.Store) error {
	held := *state.Peek[delegation](t.User)
	holds := time.Now().Before(held.Until)
	v := titles.View{Say: t.Translate, Zone: t.Activity.Zone()}
	whom := "@Carla"
	if t.Activity.Conversation.Personal() { // Teams mentions nobody else there
		whom = "aadObjectId"
	}
	example := "**" + DelegateCommand + " to " + whom + " until " + time.Now().In(v.Zone).AddDate(0, 0, 7).Format(time.DateOnly) + "**"
	words := strings.Fields(t.Text)[1:]
	switch {
	case len(words) == 0 && holds:
		return t.Tell(ctx, held.inWords(v))
	case len(words) == 0:
		return t.Tell(ctx, t.Translate(nobodyDecides, example))
	case len(words) == 1 && strings.EqualFold(words[0], "off"):
		noteEnd(t)
		t.User.Remove("delegation")
		if err := t.Save(ctx); err != nil {
			return err
		}
		if err := dropDelegation(ctx, t, store); err != nil {
			return err
		}
		return t.Tell(ctx, t.Translate(nobodyDecides, example))
	}
	d := delegation{By: bare(t.Activity.From), In: t.Activity.Conversation.BaseID()}
	id, until, ok := readDelegation(t, words, time.Now().In(v.Zone))
	if !ok || d.By.ID == "" {
		return t.Tell(ctx, t.Translate(
			"I changed nothing. Mention one person, or say their id, and until when: a date, a day of the week, or a number of days, at most %s. For example %s, or %s.",
			strconv.Itoa(maxDelegatedDays), example, "**"+DelegateCommand+" to "+whom+" for 5 days**",
		))
	}
	if isOf(id, d.By) {
		return t.Tell(ctx, t.Translate("That is you. I changed nothing."))
	}
	there, err := turn.Reach(ctx, t, actions.Recipient{User: id})
	if err == nil {
		d.To, err = turn.MemberOf(ctx, t, there, id)
	}
	if errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	if err != nil || !isOf(id, d.To) || same(d.To, d.By) {
		return t.Tell(ctx, t.Translate("I can't reach this person, so I changed nothing."))
	}
	d.To, d.Until = bare(d.To), until
	noteEnd(t)
	noteDelegation(t, "begun", d)
	*state.Of[delegation](t.User) = d
	if err := t.Save(ctx); err != nil {
		return err
	}
	if err := d.put(ctx, t, store); err != nil {
		return err
	}
	key := "begun\n" + t.Activity.From.ID + "\n" + t.Activity.ID
	_, err = turn.SubmitTo(ctx, t, actions.Recipient{Conversation: there}, featureName, key, func(h turn.Holder) { visits.Of(h).Begun = &d })
	switch {
	case errors.Is(err, state.ErrUnavailable) || ctx.Err() != nil:
		return err
	case err != nil: // they still may decide
		zerolog.Ctx(ctx).Warn().Err(err).Msg("a delegate is not told")
	}
	return t.Tell(ctx, d.inWords(v))
}

const nobodyDecides texts.Text = "Nobody decides your approvals in your place. To let somebody, say for example %s."

// inWords says what holds, to who delegated.
func (d *delegation) inWords(v titles.View) string {
	return v.Say("%s may decide your approvals in your place until %s, where the rules of an approval allow that. To end it, say %s.",
		cmp.Or(plain(d.To.Name), v.Say("somebody")), v.Clock(d.Until), "**"+DelegateCommand+" off**")
}

// tell tells the delegate.
func (d *delegation) tell(ctx context.Context, t *turn.Turn) error {
	if time.Now().After(d.Until) {
		return nil
	}
	v := titles.View{Say: t.Translate, Zone: t.Activity.Zone()}
	return t.Send(ctx, t.Message(v.Say(begunForYou, cmp.Or(plain(d.By.Name), v.Say("an approver")), v.Clock(d.Until))))
}

const begunForYou texts.Text = "%s lets you decide approvals in their place until %s. I'll ask you when there is one, and the rules of an approval allow it."

// noteEnd notes that what the turn's person delegated ends, if they did.
func noteEnd(t *turn.Turn) {
	held := *state.Peek[delegation](t.User)
	if time.Now().Before(held.Until) {
		noteDelegation(t, "ended", held)
	}
}

func noteDelegation(t *turn.Turn, outcome string, d delegation) {
	turn.NoteFor(t, t, turn.Note{What: "delegation", Outcome: outcome, Of: d, ID: idOf(d.To)})
}

// put writes the rows.
func (d *delegation) put(ctx context.Context, t *turn.Turn, store *state.Store) error {
	text, err := plainjson.Marshal(d)
	if err != nil {
		return err
	}
	for _, id := range []string{d.By.ID, d.By.AadObjectID} {
		if id == "" {
			continue
		}
		row := state.Row{ID: delegationID(t, id), Text: string(text), Until: d.Until}
		if err := store.PutRow(ctx, delegations, maxDelegations, row); err != nil {
			return err
		}
	}
	return nil
}

// readDelegation reads an id of the person to whom a command delegates, and until when: to WHO until WHEN, or to WHO for
// N days. now is in the person's zone.
func readDelegation(t *turn.Turn, words []string, now time.Time) (id string, until time.Time, ok bool) {
	at := len(words) - 1
	for at > 1 && !strings.EqualFold(words[at], "until") && !strings.EqualFold(words[at], "for") {
		at--
	}
	if at < 2 || at == len(words)-1 || !strings.EqualFold(words[0], "to") {
		return "", until, false
	}
	var mentioned []string
	for _, who := range t.Activity.Mentions() {
		if who.ID != t.Activity.Recipient.ID && !slices.Contains(mentioned, who.ID) {
			mentioned = append(mentioned, who.ID)
		}
	}
	switch {
	case len(mentioned) == 1:
		id = mentioned[0]
	case len(mentioned) == 0 && at == 2:
		id = words[1]
	}
	until, ok = endOf(words[at:], now, t.Translate(weekdays))
	return id, until, ok && id != "" && len(id) <= maxPersonID && !isChat(id)
}

const weekdays texts.Text = "sunday monday tuesday wednesday thursday friday saturday"

// endOf reads until when: until a date or the next such day of the week, which also has these names, or for a number of
// days. That is the end of a day.
func endOf(words []string, now time.Time, named string) (until time.Time, ok bool) {
	value, days := strings.ToLower(words[1]), 0
	date, err := time.ParseInLocation(time.DateOnly, value, now.Location())
	number, noNumber := strconv.Atoi(value)
	day := slices.Index(strings.Fields(string(weekdays)), value)
	if day < 0 {
		day = slices.Index(strings.Fields(strings.ToLower(named)), value)
	}
	unit := strings.ToLower(strings.Join(words[2:], " "))
	switch {
	case strings.EqualFold(words[0], "for") && noNumber == nil && slices.Contains([]string{"", "day", "days"}, unit):
		days = number
	case strings.EqualFold(words[0], "for") || unit != "":
		return until, false
	case err == nil:
		days = int(date.Sub(time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())).Round(24*time.Hour) / (24 * time.Hour))
	case day >= 0:
		days = (day-int(now.Weekday())+6)%7 + 1
	default:
		return until, false
	}
	until = time.Date(now.Year(), now.Month(), now.Day()+days, 23, 59, 59, 0, now.Location())
	return until.UTC(), days <= maxDelegatedDays && until.After(now) && (days > 0 || err == nil)
}
