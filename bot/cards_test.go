package bot_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	plans "github.com/planbot-go/planbot/planner/plan"
)

// boardTicket is what the actions of these tests return.
type boardTicket struct {
	ID    int    `json:"id"`
	Owner string `json:"owner,omitempty"`
}

// board are actions that show cards, and quiet, which has nothing to report.
func board(opts ...actions.Option) *actions.Registry {
	acts := oddActions()
	card := func(text string) activity.Card {
		return activity.Card{Body: []any{activity.TextBlock{Text: text}}}
	}
	actions.Add(acts, "showTickets", "Shows all tickets", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Card(card("Tickets"), "There are %d tickets.", 2), nil
	}, opts...)
	actions.Add(acts, "openTicket", "Opens a ticket", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		c := card("Ticket 7")
		c.Fallback = "Ticket 7 is open."
		return actions.JSON(boardTicket{ID: 7}).WithCard(c), nil
	}, append(opts, actions.Returns[boardTicket]())...)
	actions.Add(acts, "showMap", "Shows a map", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Card(card(strings.Repeat("x", 90_000)), "The map is too large."), nil
	}, opts...)
	actions.Add(acts, "find", "Finds a ticket", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Unchanged("There is no ticket."), nil
	})
	actions.Add(acts, "wrong", "Returns something else", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.JSON(map[string]any{"id": "secret"}), nil
	}, actions.Returns[boardTicket]())
	return acts
}

func saved(command, name string) string {
	return strings.TrimSuffix(command, "}") + `,"saveAs":"` + name + `"}`
}

// TestCards come in order with what the plan says, and count as an answer.
func TestCards(t *testing.T) {
	t.Parallel()
	show, open := do("showTickets", `{}`), do("openTicket", `{}`)
	for name, test := range map[string]struct {
		model []string
		want  []string // a text in brackets is a card with it
	}{
		"in order":                  {[]string{plan(say("Look:"), show, say("That's all."))}, []string{"Look:", "[Tickets]", "That's all."}},
		"without a SAY":             {[]string{plan(show)}, []string{"[Tickets]"}},
		"its text is said":          {[]string{plan(saved(show, "T"), say("So: $T"))}, []string{"[Tickets]", "So: There are 2 tickets."}},
		"nothing but its text":      {[]string{plan(saved(show, "T"), say("$T"))}, []string{"[Tickets]"}},
		"a line of it":              {[]string{plan(saved(show, "T"), say(" $t \nAnything else?"))}, []string{"[Tickets]", "Anything else?"}},
		"data":                      {[]string{plan(saved(open, "T"), say("Look for $T.id$T.owner."))}, []string{"[Ticket 7]", "Look for 7."}},
		"nothing but data":          {[]string{plan(saved(open, "T"), say("$T"))}, []string{"[Ticket 7]"}},
		"one after the other":       {[]string{plan(show, open)}, []string{"[Tickets]", "[Ticket 7]"}},
		"before what found nothing": {[]string{plan(show, do("find", `{}`), say("Found!")), plan(say("There was none."))}, []string{"[Tickets]", "There was none."}},
		"after what found nothing":  {[]string{plan(do("find", `{}`), show, say("Found!")), plan(say("There was none."))}, []string{"[Tickets]", "There was none."}},
		"before what has no result": {[]string{plan(show, do("quiet", `{}`))}, []string{"[Tickets]"}},
		"too large":                 {[]string{plan(do("showMap", `{}`))}, []string{"The map is too large."}},
		"a wrong field": {
			[]string{plan(saved(open, "T"), say("$T.number")), plan(saved(open, "T"), say("$T.id"))},
			[]string{"[Ticket 7]", "7"},
		},
		"a wrong result": {[]string{plan(saved(do("wrong", `{}`), "T"), say("$T.id")), plan(say("It failed."))}, []string{"It failed."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: board()}, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("mia")
				kit.Model.Says(test.model...)
				chat.Say("go")
				expectAll(chat, test.want)
			})
		})
	}
}

func expectAll(chat *bottest.Chat, want []string) {
	for _, text := range want {
		if inner, ok := strings.CutPrefix(text, "["); ok {
			chat.ExpectCard(strings.TrimSuffix(inner, "]"))
		} else {
			chat.Expect(text)
		}
	}
	chat.ExpectNothing()
}

// TestCardsOfOtherPlanners: in XML the plan ends with its result; tools are told what the person
// sees, and need not repeat it.
func TestCardsOfOtherPlanners(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: board(), Planner: "sequential"}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		kit.Model.Says(`<plan><say>Look:</say><function.showTickets/></plan>`)
		chat.Say("go")
		expectAll(chat, []string{"Look:", "[Tickets]"})
		kit.Model.Says(`<plan><function.openTicket setContextVariable="T"/><say>T.id is $T.id</say></plan>`)
		chat.Say("go on")
		expectAll(chat, []string{"[Ticket 7]", `T.id is {"id":7,"owner":null}.id`})
	})
	for name, last := range map[string]string{"with a text": "That's all.", "without one": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: board(), Planner: "tools"}, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("mia")
				kit.Model.CallsTools(models.Call{Name: "showTickets", Arguments: "{}"})
				kit.Model.Answers(bottest.Answer{Text: last})
				chat.Say("go")
				want := []string{"[Tickets]"}
				if last != "" {
					want = append(want, last)
				}
				expectAll(chat, want)
				if got := kit.Model.LastCall().Last("tool"); got != "There are 2 tickets.\n(The person sees this as a card already.)" {
					t.Errorf("the model is told %q", got)
				}
			})
		})
	}
	offline := bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		cfg := parts.Bot
		cfg.Actions = board()
		var err error
		cfg.Planner, err = parts.Planner(ctx, "tools", planner.Config{Actions: cfg.Actions, Model: models.Offline{}})
		must(t, err)
		return bot.New(cfg)
	}}
	bottest.Test(t, offline, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		chat.Say("showTickets")
		expectAll(chat, []string{"[Tickets]"})
	})
}

// TestCardsInOtherChannels are their texts, as is a card in the history.
func TestCardsInOtherChannels(t *testing.T) {
	t.Parallel()
	bottest.Test(t, bottest.Config{Actions: board()}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("mia")
		kit.Model.Says(plan(saved(do("showTickets", `{}`), "A"), saved(do("openTicket", `{}`), "B"), say("$A\n\n$B")))
		chat.Deliver(map[string]any{"type": "message", "text": "go", "channelId": "slack"}).Taken()
		chat.Expect("There are 2 tickets.")
		chat.Expect("Ticket 7 is open.")
		chat.ExpectNothing()
		kit.Model.Says(plan(say("Two.")))
		chat.Deliver(map[string]any{"type": "message", "text": "how many?", "channelId": "slack"}).Taken()
		chat.Expect("Two.")
		if prompt := kit.Model.LastCall().Prompt(); !strings.Contains(prompt, `{"type":"SAY","response":"There are 2 tickets."}`) {
			t.Errorf("the history lacks what the card said:\n%s", prompt)
		}
	})
}

// TestCardsBehindAnApproval: the turn waits, and the card comes after the click.
func TestCardsBehindAnApproval(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sequence", "tools"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: board(actions.NeedsApproval), Planner: kind}, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("mia")
				if kind == "sequence" {
					kit.Model.Says(plan(do("showTickets", `{}`), say("Here.")))
				} else {
					kit.Model.CallsTools(models.Call{Name: "showTickets", Arguments: "{}"})
					kit.Model.Says("Here.")
				}
				chat.Say("go")
				chat.ExpectCard("Show tickets")
				chat.Press("Approve")
				expectAll(chat, []string{"[Tickets]", "Here."})
			})
		})
	}
}

// TestCardsOfPlansThatAreActions are shown by the plan that calls them, with what else they say.
func TestCardsOfPlansThatAreActions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		inner string
		want  []string
	}{
		"a card":         {do("showTickets", `{}`), []string{"[Tickets]"}},
		"two":            {do("showTickets", `{}`) + "," + do("openTicket", `{}`), []string{"[Tickets]", "[Ticket 7]"}},
		"and its text":   {saved(do("showTickets", `{}`), "T") + "," + say("$T"), []string{"[Tickets]"}},
		"and more":       {do("showTickets", `{}`) + "," + say("I looked."), []string{"[Tickets]", "I looked."}},
		"and not a list": {do("find", `{}`) + "," + do("showTickets", `{}`), []string{"[Tickets]", "There is no ticket."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			acts := board()
			decoded, err := plans.Decode(`{"type":"plan","commands":[` + test.inner + `]}`)
			must(t, err)
			_, err = decoded.AddAction(acts, "overview", "Shows what there is")
			must(t, err)
			bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("mia")
				kit.Model.Says(plan(saved(do("overview", `{}`), "O"), say("$O")))
				chat.Say("go")
				expectAll(chat, test.want)
			})
		})
	}
}

// TestCardsSurviveACrash: the save that has the outcome of the call has the card, too. It comes once,
// and the action does not run again.
func TestCardsSurviveACrash(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]actions.Option{"alone": nil, "state only": {actions.StateOnly}, "approved": {actions.NeedsApproval}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, setup, func(t *testing.T, b *bundle) {
				var ran, died atomic.Int64
				actions.Add(b.actions, "show", "Shows", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
					ran.Add(1)
					return actions.Card(activity.Card{Body: []any{activity.TextBlock{Text: "Look here"}}}, "It is there."), nil
				}, opts...)
				first := b.addReplica()
				b.connector.Decides(func(s bottest.Sent) bottest.Answer {
					if !strings.Contains(s.JSON, "Look here") || died.Add(1) > 1 {
						return bottest.Answer{}
					}
					if _, _, record := b.record("Look here"); !strings.Contains(record, `"text":"It is there."`) {
						t.Errorf("the card is sent before the record has it: %s", record)
					}
					first.kill() // before the channel takes the card
					return bottest.Answer{Status: http.StatusBadRequest}
				})
				b.model.Says(plan(do("show", `{}`), say("That's it.")))
				first.say("show it")
				if name == "approved" {
					approve, _ := buttons(t, b.connector.Next(t))
					b.post(first.url, b.activity(click(approve, nil)))
				}
				b.until("the first process is dead", func() bool { return died.Load() > 0 })
				b.addReplica()
				if got := b.connector.Next(t); !strings.Contains(got.JSON, "Look here") {
					t.Errorf("not the card: %s", got.JSON)
				}
				b.expect("That's it.")
				b.connector.None(t)
				if n := ran.Load(); n != 1 {
					t.Errorf("the action ran %d times", n)
				}
			})
		})
	}
}

// TestTheSummaryOfACardIsTame also where it is the space of no width that tames it.
func TestTheSummaryOfACardIsTame(t *testing.T) {
	t.Parallel()
	acts := actions.New()
	actions.Add(acts, "show", "Shows a page", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Card(activity.Card{Fallback: "It says\n<img src=https://evil.example/q> ![a [b] c](https://evil.example/)"}, ""), nil
	})
	bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
		kit.Model.Says(plan(do("show", `{}`)))
		mia := kit.Personal("Mia")
		mia.Say("Show it")
		summary := mia.Next().Activity.Summary
		if !strings.HasPrefix(summary, "It says ") || strings.Contains(summary, "<img") || strings.Contains(summary, "![") {
			t.Errorf("the summary is %q", summary)
		}
	})
}
