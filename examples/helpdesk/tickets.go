package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

// desk is what the bot keeps for all conversations together.
type desk struct {
	Last    int               // number of the newest ticket
	Open    map[int]*ticket   // by number
	Support actions.Recipient // the support team's channel, see support.go
}

// ticket is an open ticket. A closed one is forgotten.
type ticket struct {
	Number          int
	Title, Priority string
	Owner, Assignee string            // names
	OwnerKey        state.Key         // of the owner's own state: an id that nobody else has
	From, Team      actions.Recipient // where the owner and the support team talk; zero Team: they do not, see support.go
}

// deskOf returns the desk. What changes in it is saved with the turn.
func deskOf(ctx context.Context, turn *actions.Turn) (*desk, error) {
	scope, err := turn.Bot(ctx)
	if err != nil {
		return nil, err
	}
	d := state.Of[desk](scope)
	if d.Open == nil {
		d.Open = map[int]*ticket{}
	}
	return d, nil
}

// find returns the ticket with that number. nil: there is none that the turn's person may see.
func find(ctx context.Context, turn *actions.Turn, number int) (*desk, *ticket, error) {
	d, err := deskOf(ctx, turn)
	if err != nil || d.Open[number] == nil || !d.shows(d.Open[number], turn) {
		return d, nil, err
	}
	return d, d.Open[number], nil
}

func noTicket(number int) actions.Result {
	return actions.Unchanged("There is no open ticket %d.", number)
}

// shows reports whether the turn's person may see the ticket: their own or, in the support team's
// channel, any.
func (d *desk) shows(k *ticket, turn *actions.Turn) bool {
	return turn.User.Key() == k.OwnerKey || actions.ToChannel(turn.Activity) == d.Support
}

const (
	maxTickets = 500 // open at the same time
	maxShown   = 25  // on a card
	maxText    = 200 // bytes of what somebody wrote
)

var priorities = []string{"urgent", "high", "normal", "low"}

type newTicket struct {
	Title    string `json:"title" title:"Problem" jsonschema:"what is wrong, in a few words"`
	Priority string `json:"priority" title:"Priority" enum:"urgent,high,normal,low" labels:"Urgent,High,Normal,Low" default:"normal"`
}

func openTicket(ctx context.Context, turn *actions.Turn, in newTicket) (actions.Result, error) {
	d, err := deskOf(ctx, turn)
	switch {
	case err != nil:
		return actions.Result{}, err
	case len(d.Open) >= maxTickets:
		return actions.Fail("there are %d open tickets already", maxTickets), nil
	case len(in.Title) > maxText:
		return actions.Fail("a title has at most %d characters", maxText), nil
	}
	d.Last++
	d.Open[d.Last] = &ticket{
		Number: d.Last, Title: in.Title, Priority: in.Priority, Owner: turn.Activity.From.Name, OwnerKey: turn.User.Key(),
	}
	return actions.Text("Ticket %d is open.", d.Last), nil
}

type assignment struct {
	Ticket int    `json:"ticket" title:"Ticket"`
	Name   string `json:"name" title:"Name"`
}

func assignTicket(ctx context.Context, turn *actions.Turn, in assignment) (actions.Result, error) {
	_, k, err := find(ctx, turn, in.Ticket)
	if err != nil || k == nil {
		return noTicket(in.Ticket), err
	}
	k.Assignee = strings.ToValidUTF8(in.Name[:min(len(in.Name), maxText)], "")
	return actions.Text("%s is working on ticket %d.", k.Assignee, k.Number), nil
}

type which struct {
	Ticket int `json:"ticket" title:"Ticket"`
}

func closeTicket(ctx context.Context, turn *actions.Turn, in which) (actions.Result, error) {
	d, k, err := find(ctx, turn, in.Ticket)
	if err != nil || k == nil {
		return noTicket(in.Ticket), err
	}
	delete(d.Open, k.Number)
	return actions.Text("Ticket %d is closed.", k.Number), nil
}

func showTickets(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
	d, err := deskOf(ctx, turn)
	if err != nil {
		return actions.Result{}, err
	}
	return actions.Card(d.card(turn), ""), nil
}

// forget deletes the person's tickets, when they say /forget.
func forget(ctx context.Context, turn *actions.Turn) (keeps string, err error) {
	d, err := deskOf(ctx, turn)
	if err != nil {
		return "", err
	}
	maps.DeleteFunc(d.Open, func(_ int, k *ticket) bool { return k.OwnerKey == turn.User.Key() })
	return "what was posted in the channel of the support team", nil
}

// sendTickets does the same without a model: for /tickets, and each working day.
func sendTickets(ctx context.Context, t *bot.Turn) error {
	d, err := deskOf(ctx, t.Turn)
	if err != nil {
		return err
	}
	return t.Show(ctx, d.card(t.Turn))
}

// card shows what the turn's person may see, the most urgent first.
func (d *desk) card(turn *actions.Turn) activity.Card {
	var list []*ticket
	for _, k := range d.Open {
		if d.shows(k, turn) {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b *ticket) int {
		return cmp.Or(slices.Index(priorities, a.Priority)-slices.Index(priorities, b.Priority), a.Number-b.Number)
	})
	text := fmt.Sprintf("Open tickets: %d", len(list))
	body := []any{activity.TextBlock{Text: text, Weight: "bolder", Size: "medium"}}
	for _, k := range list[:min(len(list), maxShown)] {
		name := fmt.Sprintf("%d: %s", k.Number, k.Title)
		about := fmt.Sprintf("%s, from %s, assigned to %s", k.Priority, k.Owner, cmp.Or(k.Assignee, "nobody"))
		text += "\n- " + name + " (" + about + ")"
		body = append(body, activity.RichText{{Text: name}}, activity.RichText{{Text: about, Subtle: true, Size: "small"}})
	}
	return activity.Card{Fallback: text, Body: body}
}
