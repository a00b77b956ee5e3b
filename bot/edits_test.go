package bot_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	guard "github.com/planbot-go/planbot/bot/moderation"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models/moderation"
	"github.com/planbot-go/planbot/planner"
)

// seenNext is what the model sees of the conversation when the person says something next.
func seenNext(kit *bottest.Kit, chat *bottest.Chat) string {
	kit.Model.Says(plan(say("Well.")))
	chat.Mention("and now?")
	chat.Expect("Well.")
	return shownTo(kit)
}

// amend tells the bot what the author, or somebody else, did with a message.
func amend(chat *bottest.Chat, d *bottest.Delivery, event string, fields map[string]any) {
	a := map[string]any{"type": "messageUpdate", "id": d.ID, "channelData": map[string]any{"eventType": event, "tenant": map[string]any{"id": "tenant-1"}}}
	maps.Copy(a, fields)
	chat.Deliver(a).Taken()
}

// TestTheHistoryFollowsTheAuthor: what its author deleted is gone, with the answer, and what they edited
// stands in its new words.
func TestTheHistoryFollowsTheAuthor(t *testing.T) {
	t.Parallel()
	attached := func(kind, field, value string) map[string]any {
		return map[string]any{"attachments": []any{map[string]any{"contentType": kind, field: value}}}
	}
	for name, tt := range map[string]struct {
		does      func(chat *bottest.Chat, d *bottest.Delivery)
		has, lost []string
	}{
		"nothing":                 {func(*bottest.Chat, *bottest.Delivery) {}, []string{"hunter2", "I keep hunter2"}, nil},
		"deletes it":              {func(chat *bottest.Chat, d *bottest.Delivery) { d.Delete() }, []string{"before"}, []string{"hunter2"}},
		"edits it":                {func(chat *bottest.Chat, d *bottest.Delivery) { d.Edit("the password is secret") }, []string{"before", "the password is secret"}, []string{"is hunter2"}},
		"edits it twice":          {func(chat *bottest.Chat, d *bottest.Delivery) { d.Edit("wait"); d.Edit("the code is secret") }, []string{"the code is secret"}, []string{"is hunter2", "wait"}},
		"edits it there and back": {func(chat *bottest.Chat, d *bottest.Delivery) { d.Edit("wait"); d.Edit("the password is hunter2") }, []string{"is hunter2"}, []string{"wait"}},
		"edits and deletes it":    {func(chat *bottest.Chat, d *bottest.Delivery) { d.Edit("wait"); d.Delete() }, []string{"before"}, []string{"hunter2", "wait"}},
		"deletes it and takes that back": {func(chat *bottest.Chat, d *bottest.Delivery) {
			d.Delete()
			amend(chat, d, "undeleteMessage", map[string]any{"text": "the password is hunter2"})
		}, []string{"before"}, []string{"hunter2"}},
		"leaves nothing but a picture": {func(chat *bottest.Chat, d *bottest.Delivery) {
			amend(chat, d, "editMessage", attached("image/png", "contentUrl", "https://contoso.example/x"))
		}, []string{"[sent without text: image/png]"}, []string{"is hunter2"}},
		"leaves nothing but words in HTML": {func(chat *bottest.Chat, d *bottest.Delivery) {
			amend(chat, d, "editMessage", attached("text/html", "content", "<p>ask me later</p>"))
		}, []string{"ask me later"}, []string{"is hunter2"}},
		"somebody else deletes it": {func(chat *bottest.Chat, d *bottest.Delivery) {
			amend(chat.As("Eve"), d, "softDeleteMessage", map[string]any{"type": "messageDelete"})
		}, []string{"is hunter2"}, nil},
		"somebody else edits it": {func(chat *bottest.Chat, d *bottest.Delivery) {
			amend(chat.As("Eve"), d, "editMessage", map[string]any{"text": "grumble"})
		}, []string{"is hunter2"}, []string{"grumble"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: oddActions()}, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Group("team", "Mia", "Eve")
				kit.Model.Says(plan(say("Hi.")), plan(say("I keep hunter2.")))
				chat.Mention("this was before")
				chat.Expect("Hi.")
				d := chat.Mention("the password is hunter2")
				chat.Expect("I keep hunter2.")
				tt.does(chat, d)
				kit.Settle()
				seen := seenNext(kit, chat)
				for _, want := range tt.has {
					if !strings.Contains(seen, want) {
						t.Errorf("the model does not see %q: %s", want, seen)
					}
				}
				for _, not := range tt.lost {
					if strings.Contains(seen, not) {
						t.Errorf("the model sees %q: %s", not, seen)
					}
					if kept := keptOf(chat); strings.Contains(kept, not) {
						t.Errorf("kept %s", kept)
					}
				}
				if n := len(kit.Model.Calls()); n != 3 {
					t.Errorf("the model was asked %d times", n)
				}
			})
		})
	}
}

// TestASummaryGoesWithWhatItCovers: with others it stays.
func TestASummaryGoesWithWhatItCovers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		does func(covered, later, never *bottest.Delivery)
		goes bool
	}{
		"a covered message is deleted": {func(covered, _, _ *bottest.Delivery) { covered.Delete() }, true},
		"a covered message is edited":  {func(covered, _, _ *bottest.Delivery) { covered.Edit("uno") }, true},
		"a later one is deleted":       {func(_, later, _ *bottest.Delivery) { later.Delete() }, false},
		"a command is deleted":         {func(_, _, never *bottest.Delivery) { never.Delete() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, summarized(), func(t *testing.T, kit *bottest.Kit) {
				mia := kit.Personal("Mia")
				var said []*bottest.Delivery
				for _, text := range []string{"one", "two", "three"} {
					kit.Model.Says(plan(say("I heard " + text + ".")))
					said = append(said, mia.Say(text))
					mia.Expect("I heard " + text + ".")
				}
				never := mia.Say("help")
				mia.Next()
				kit.Model.Says(plan(say("I heard four.")), "Mia said one and two.")
				mia.Say("four")
				mia.Expect("I heard four.")
				kit.Settle()
				tt.does(said[0], said[2], never)
				kit.Settle()
				if kept := keptOf(mia); strings.Contains(kept, "Mia said one and two.") == tt.goes {
					t.Errorf("kept %s", kept)
				}
			})
		})
	}
}

// TestATurnThatWaitsFollowsTheAuthor: the approved call runs, and what the author took back does not come back
// with it.
func TestATurnThatWaitsFollowsTheAuthor(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		does     func(*bottest.Chat, *bottest.Delivery)
		approved string // what the history has then
		rejected string
		lost     string
	}{
		"deleted": {func(_ *bottest.Chat, d *bottest.Delivery) { d.Delete() }, "and now?", "and now?", "hunter2"},
		"edited":  {func(_ *bottest.Chat, d *bottest.Delivery) { d.Edit("close my ticket") }, "close my ticket", "close my ticket", "hunter2"},
		"deleted, and that taken back": {
			func(chat *bottest.Chat, d *bottest.Delivery) {
				d.Delete()
				amend(chat, d, "undeleteMessage", map[string]any{"text": "close ticket hunter2"})
			},
			"close ticket hunter2", "and now?", "deleted this message",
		},
	} {
		for _, button := range []string{"Approve", "Reject"} {
			t.Run(name+", "+button, func(t *testing.T) {
				t.Parallel()
				acts := actions.New()
				actions.Add(acts, "closeTicket", "Closes a ticket", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
					return actions.Text("It is closed."), nil
				}, actions.NeedsApproval)
				bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
					chat := kit.Personal("Mia")
					kit.Model.Says(plan(do("closeTicket", "{}")))
					d := chat.Say("close ticket hunter2")
					card := chat.ExpectCard("May I do this?")
					tt.does(chat, d)
					kit.Settle()
					if button == "Approve" {
						kit.Model.Says(plan(say("Closed.")))
					}
					card.Press(button)
					chat.Next()
					kit.Settle()
					want := tt.rejected
					if button == "Approve" {
						want = tt.approved
						if asked := shownTo(kit); strings.Contains(asked, tt.lost) {
							t.Errorf("the model was asked %s", asked)
						}
					}
					seen := seenNext(kit, chat)
					if !strings.Contains(seen, want) || strings.Contains(seen, tt.lost) || strings.Contains(keptOf(chat), tt.lost) {
						t.Errorf("the model sees %s\nkept %s", seen, keptOf(chat))
					}
					if kept := keptOf(chat); strings.Contains(kept, "amended") {
						t.Errorf("kept %s", kept)
					}
				})
			})
		}
	}
}

// judge flags what has the word, or has no verdict about it.
type judge struct{ flags, fails string }

func (j judge) Judge(_ context.Context, pieces []moderation.Piece) (v moderation.Verdict, err error) {
	for _, p := range pieces {
		switch {
		case j.flags != "" && strings.Contains(p.Text, j.flags):
			v.Categories = []string{"harassment"}
		case j.fails != "" && strings.Contains(p.Text, j.fails):
			err = errors.New("away")
		}
	}
	return v, err
}

// TestEditedWordsAreJudgedFirst: nothing keeps what is flagged, and nobody is told twice.
func TestEditedWordsAreJudgedFirst(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		by        bot.Config
		has, lost string
	}{
		"passes":           {bot.Config{Moderation: guard.Config{Moderator: judge{flags: "other"}}}, "a nasty word", ""},
		"is flagged":       {bot.Config{Moderation: guard.Config{Moderator: judge{flags: "nasty"}}}, "withheld by moderation", "nasty"},
		"cannot be judged": {bot.Config{Moderation: guard.Config{Moderator: judge{fails: "nasty"}}}, "withheld by moderation", "nasty"},
		"fails open":       {bot.Config{Moderation: guard.Config{Moderator: judge{fails: "nasty"}, FailOpen: true}}, "a nasty word", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: oddActions(), Change: func(c *bot.Config) { c.Moderation = tt.by.Moderation }}, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("Mia")
				kit.Model.Says(plan(say("Hi.")))
				d := chat.Say("a nice word")
				chat.Expect("Hi.")
				d.Edit("a nasty word")
				kit.Settle()
				chat.ExpectNothing()
				seen := seenNext(kit, chat)
				if !strings.Contains(seen, tt.has) || strings.Contains(seen, "a nice word") {
					t.Errorf("the model sees %s", seen)
				}
				if tt.lost != "" && strings.Contains(seen+keptOf(chat), tt.lost) {
					t.Errorf("the model sees %s\nkept %s", seen, keptOf(chat))
				}
			})
		})
	}
}

// TestAnEditThatFirstAddressesTheBot is answered, once, and only while it is known whether it was.
func TestAnEditThatFirstAddressesTheBot(t *testing.T) {
	t.Parallel()
	at := "<at>Planbot</at>"
	for name, tt := range map[string]struct {
		kind    string
		id      func() string // "": when it was sent
		first   string        // what was delivered before; "": nothing
		later   time.Duration
		text    string // of the edit
		event   string
		answers int
	}{
		"a forgotten mention":             {"groupChat", nil, "add milk", time.Minute, at + " add milk", "editMessage", 1},
		"nothing came before":             {"groupChat", nil, "", time.Minute, at + " add milk", "editMessage", 1},
		"in a channel":                    {"channel", nil, "", time.Minute, at + " add milk", "editMessage", 1},
		"in a personal chat":              {"personal", nil, "", time.Minute, "add milk", "editMessage", 1},
		"it was answered":                 {"groupChat", nil, at + " add milk", time.Minute, at + " add honey", "editMessage", 0},
		"still not addressed":             {"groupChat", nil, "add milk", time.Minute, "add honey", "editMessage", 0},
		"just in time":                    {"groupChat", nil, "", 29 * time.Minute, at + " add milk", "editMessage", 1},
		"too late":                        {"groupChat", nil, "", 30 * time.Minute, at + " add milk", "editMessage", 0},
		"too late, and it was answered":   {"groupChat", nil, at + " add milk", 31 * time.Minute, at + " add honey", "editMessage", 0},
		"nobody knows when it was sent":   {"groupChat", func() string { return "q-1" }, "", 0, at + " add milk", "editMessage", 0},
		"sent in days to come":            {"groupChat", func() string { return fmt.Sprint(time.Now().Add(48 * time.Hour).UnixMilli()) }, "", 0, at + " add milk", "editMessage", 0},
		"a deletion that was taken back":  {"groupChat", nil, "", time.Minute, at + " add milk", "undeleteMessage", 0},
		"a command":                       {"groupChat", nil, "/reset", time.Minute, at + " /reset", "editMessage", 1},
		"the mention is in the text only": {"groupChat", nil, "", time.Minute, "&lt;at&gt;Planbot&lt;/at&gt; add milk", "editMessage", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bottest.Test(t, bottest.Config{Actions: oddActions()}, func(t *testing.T, kit *bottest.Kit) {
				chat := kit.Conversation("19:x@thread.v2", tt.kind, "Mia")
				id := fmt.Sprint(time.Now().UnixMilli())
				if tt.id != nil {
					id = tt.id()
				}
				deliver := func(kind, text, event string) {
					a := map[string]any{"id": id, "type": kind, "text": text, "timestamp": time.Now().Format(time.RFC3339)}
					if strings.Contains(text, at) {
						a["entities"] = []any{chat.MentionOf(at)}
					}
					if event != "" {
						a["channelData"] = map[string]any{"eventType": event, "tenant": map[string]any{"id": "tenant-1"}}
					}
					chat.Deliver(a).Taken()
					kit.Settle()
				}
				kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) { return bottest.Answer{Text: plan(say("Done."))}, true })
				before := 0
				if tt.first != "" {
					deliver("message", tt.first, "")
					before = len(chat.Messages())
				}
				time.Sleep(tt.later)
				deliver("messageUpdate", tt.text, tt.event)
				deliver("messageUpdate", tt.text, tt.event)
				deliver("messageUpdate", tt.text+" and honey", tt.event)
				if n := len(chat.Messages()) - before; n != tt.answers {
					t.Errorf("%d answers, want %d", n, tt.answers)
				}
			})
		})
	}
}

// TestAHandlerOfEdits: whoever handles edits decides what is answered, and the history follows all the same.
func TestAHandlerOfEdits(t *testing.T) {
	t.Parallel()
	handles := func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		sequence, err := planner.NewSequence(ctx, planner.Config{Model: parts.Model, Actions: actions.New()})
		if err != nil {
			return nil, err
		}
		cfg := parts.Bot
		cfg.Actions, cfg.Planner = actions.New(), sequence
		b, err := bot.New(cfg)
		if err != nil {
			return nil, err
		}
		b.OnActivity(activity.MessageUpdate, func(ctx context.Context, t *bot.Turn) error { return t.Tell(ctx, "Edited.") })
		return b, nil
	}
	bottest.Test(t, bottest.Config{New: handles}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(plan(say("Hi.")))
		d := chat.Deliver(map[string]any{"type": "message", "id": fmt.Sprint(time.Now().UnixMilli()), "text": "it is hunter2"})
		chat.Expect("Hi.")
		d.Edit("it is a secret")
		chat.Expect("Edited.")
		if seen := seenNext(kit, chat); !strings.Contains(seen, "it is a secret") || strings.Contains(seen, "hunter2") {
			t.Errorf("the model sees %s", seen)
		}
	})
}

// TestAnAuthorWhoIsFaster edits or deletes a message before the bot has done anything about it: that counts.
func TestAnAuthorWhoIsFaster(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		busy, thinks time.Duration // with a message before it, and about it
		early        bool          // what the author does comes before the message
		as           string        // who does it; "": the author
		does         string        // "": deletes it
		asked, said  []string
	}{
		"deleted in the queue":                {busy: 9 * time.Second, said: []string{"Well."}, asked: []string{"wait"}},
		"edited in the queue":                 {busy: 9 * time.Second, does: "close b", asked: []string{"wait", "close b"}, said: []string{"Well.", "Done."}},
		"a command in the queue":              {busy: 9 * time.Second, does: "/reset", asked: []string{"wait"}, said: []string{"Well.", "I've cleared our conversation. Everything else that I keep for you is still here."}},
		"deleted while a plan is made":        {thinks: 9 * time.Second, asked: []string{"close a"}},
		"edited while a plan is made":         {thinks: 9 * time.Second, does: "close b", asked: []string{"close a", "close b"}, said: []string{"Done."}},
		"deleted before it comes":             {early: true},
		"deleted by somebody else before":     {early: true, as: "Eve", asked: []string{"close a"}, said: []string{"Done."}},
		"deleted by somebody else in queue":   {busy: 9 * time.Second, as: "Eve", asked: []string{"wait", "close a"}, said: []string{"Well.", "Done."}},
		"deleted while it is made, by others": {thinks: 9 * time.Second, as: "Eve", asked: []string{"close a"}, said: []string{"Done."}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			closed := []string(nil)
			acts := actions.New()
			actions.Add(acts, "close", "Closes something", func(_ context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
				closed = append(closed, turn.Text)
				return actions.Text("%s", turn.Text), nil
			})
			bottest.Test(t, bottest.Config{Actions: acts}, func(t *testing.T, kit *bottest.Kit) {
				var asked []string
				kit.Model.Decides(func(call bottest.ModelCall) (bottest.Answer, bool) {
					said := call.Messages[len(call.Messages)-1].Text
					asked = append(asked, said)
					if said == "wait" {
						return bottest.Answer{Text: plan(say("Well.")), Takes: tt.busy}, true
					}
					return bottest.Answer{Text: plan(do("close", "{}"), say("Done.")), Takes: tt.thinks}, true
				})
				chat := kit.Personal("Mia")
				who := chat
				if tt.as != "" {
					who = chat.As(tt.as)
				}
				id := fmt.Sprint(time.Now().UnixMilli())
				amends := func() {
					a := map[string]any{"type": "messageDelete", "id": id, "channelData": map[string]any{"eventType": "softDeleteMessage"}}
					if tt.does != "" {
						a["type"], a["text"] = "messageUpdate", tt.does
					}
					who.Deliver(a).Taken()
				}
				if tt.early {
					amends()
				}
				if tt.busy > 0 {
					chat.Say("wait")
				}
				chat.Deliver(map[string]any{"type": "message", "id": id, "text": "close a"}).Taken()
				if !tt.early {
					time.Sleep(2 * time.Second)
					amends()
				}
				kit.Settle()
				var said []string
				for _, m := range chat.Messages() {
					said = append(said, m.Activity.Text)
				}
				if strings.Join(said, "|") != strings.Join(tt.said, "|") || strings.Join(asked, "|") != strings.Join(tt.asked, "|") ||
					len(closed) > 0 && closed[0] != asked[len(asked)-1] {
					t.Errorf("asked %q, said %q, closed %q", asked, said, closed)
				}
				if len(tt.said) == 0 && (len(closed) > 0 || strings.Contains(keptOf(chat), "close a")) {
					t.Errorf("closed %q, kept %s", closed, keptOf(chat))
				}
			})
		})
	}
}

// TestAmendsWithTheChannelsID: Teams names only the channel of some messages that are edited or deleted.
func TestAmendsWithTheChannelsID(t *testing.T) {
	t.Parallel()
	for name, root := range map[string]bool{"the first message of a thread": true, "a reply": false} {
		for _, event := range []string{"softDeleteMessage", "editMessage"} {
			t.Run(name+", "+event, func(t *testing.T) {
				t.Parallel()
				bottest.Test(t, bottest.Config{Actions: oddActions()}, func(t *testing.T, kit *bottest.Kit) {
					const channel, at = "19:x@thread.tacv2", "<at>Planbot</at>"
					id := fmt.Sprint(time.Now().UnixMilli())
					thread := id
					if !root {
						thread = "1776000000000"
					}
					chat, bare := kit.Conversation(channel+";messageid="+thread, "channel", "Mia"), kit.Conversation(channel, "channel", "Mia")
					kit.Model.Says(plan(say("I keep it.")))
					team := map[string]any{"team": map[string]any{"id": channel}, "tenant": map[string]any{"id": "tenant-1"}}
					chat.Deliver(map[string]any{"type": "message", "id": id, "text": at + " it is hunter2", "entities": []any{chat.MentionOf(at)}, "channelData": team}).Taken()
					chat.Expect("I keep it.")
					a := map[string]any{"type": "messageDelete", "id": id}
					if event == "editMessage" {
						a["type"], a["text"], a["entities"] = "messageUpdate", at+" it is a secret", []any{chat.MentionOf(at)}
					}
					team["eventType"] = event
					a["channelData"] = team
					bare.Deliver(a).Taken()
					kit.Settle()
					if seen := seenNext(kit, chat); strings.Contains(seen, "hunter2") || (event == "editMessage") != strings.Contains(seen, "a secret") {
						t.Errorf("the model sees %s", seen)
					}
					if n := len(kit.Model.Calls()); n != 2 {
						t.Errorf("the model was asked %d times", n)
					}
				})
			})
		}
	}
}
