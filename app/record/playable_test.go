package record_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/state"
)

const first = "conversation-1.scenario.yaml"

// TestApprovals: what follows a decision belongs to the click that took it.
func TestApprovals(t *testing.T) {
	t.Parallel()
	mail := func(to string) string {
		return bottest.Plan(bottest.Do("sendMail", "to", to), bottest.Do("addItem", "list", "sent", "item", to), bottest.Say("Sent to "+to+"."))
	}
	for name, c := range map[string]struct {
		talk  func(kit *bottest.Kit, chat *bottest.Chat)
		parts []string
		notes int
	}{
		"two calls of one plan": {func(kit *bottest.Kit, chat *bottest.Chat) {
			kit.Model.Says(bottest.Plan(bottest.Do("sendMail", "to", "a"), bottest.Say("One."), bottest.Do("sendMail", "to", "b"), bottest.Say("Two.")))
			chat.Say("mail both")
			chat.ExpectCard().Press("Approve")
			chat.Expect("One.")
			chat.ExpectCard().Press("Approve")
			chat.Expect("Two.")
		}, []string{`replies: [One., "<approval_card Send mail>"]`, "replies: [Two.]"}, 0},
		"the newest of two, then the other": {func(kit *bottest.Kit, chat *bottest.Chat) {
			kit.Model.Says(mail("a"), mail("b"))
			chat.Say("mail a")
			one := chat.ExpectCard()
			chat.Say("mail b")
			chat.ExpectCard().Press("Approve")
			chat.Expect("Sent to b.")
			one.Press("Reject")
			chat.ExpectMatch("^OK, I won't do this: ")
		}, []string{"Sent to b.", "<denied>"}, 0},
		"the older of two": {func(kit *bottest.Kit, chat *bottest.Chat) {
			kit.Model.Says(mail("a"), mail("b"), bottest.Plan(doAs("L", "summarizeLists"), bottest.Say("$L")))
			chat.Say("mail a")
			one := chat.ExpectCard()
			chat.Say("mail b")
			chat.ExpectCard()
			one.Press("Approve")
			chat.Expect("Sent to a.")
			chat.Say("which lists?")
			chat.Next()
		}, []string{"decides another card", `name: "conversation-1, part 2"`, "seed: {lists: {sent: [a]}}", "- a"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
				chat := kit.Personal("Mia")
				c.talk(kit, chat)
			})[first]
			contains(t, file, c.parts...)
			if n := strings.Count(bare(file), "note:"); n != c.notes {
				t.Errorf("%d notes in\n%s", n, file)
			}
			plays(t, file, false)
			plays(t, file, true)
		})
	}
}

// TestDecisionsInWords: where no cards are drawn, the question is a text and so is the
// answer. It is played with a card.
func TestDecisionsInWords(t *testing.T) {
	t.Parallel()
	file := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("sendMail", "to", "a"), bottest.Say("Sent.")))
		chat.Deliver(map[string]any{"type": "message", "text": "mail a", "channelId": "sms"})
		asked := chat.ExpectMatch("^May I do this").Activity.Text
		_, approval, _ := strings.Cut(asked, "/approve ")
		approval, _, _ = strings.Cut(approval, "**")
		chat.Deliver(map[string]any{"type": "message", "text": "/approve " + approval, "channelId": "sms"})
		chat.Expect("Sent.")
	})[first]
	contains(t, file, `"<approval_card Send mail>"`, "value: {approve: true}", "replies: [Sent.]")
	plays(t, file, false)
}

// TestApprovedForGood: a call runs that a person has to approve, and nobody is asked.
func TestApprovedForGood(t *testing.T) {
	t.Parallel()
	cfg := record.Config{Approval: []string{"addItem"}}
	file := recorded(t, "", cfg, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("addItem", "list", "a", "item", "b"), bottest.Say("Done.")))
		chat.Say("go")
		chat.Expect("Done.")
	})[first]
	contains(t, file, "standing approval")
	plays(t, file, false)
}

// TestActivitiesWithoutIDs are told apart by their order.
func TestActivitiesWithoutIDs(t *testing.T) {
	t.Parallel()
	file := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Decides(func(c bottest.ModelCall) (bottest.Answer, bool) {
			return bottest.Answer{Text: bottest.Plan(bottest.Say("to " + c.Last("user"))), Takes: time.Second}, true
		})
		kit.Together(func() { chat.Deliver(map[string]any{"type": "message", "text": "one", "id": ""}) },
			func() { chat.Deliver(map[string]any{"type": "message", "text": "two", "id": ""}) })
		chat.Expect("to one")
		chat.Expect("to two")
	})[first]
	contains(t, file, "replies: [to one]", "replies: [to two]")
	plays(t, file, false)
}

// TestACardOfBefore: the click decides a card that an earlier process sent.
func TestACardOfBefore(t *testing.T) {
	t.Parallel()
	file := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("sendMail", "to", "a"), bottest.Do("addItem", "list", "sent", "item", "a"), bottest.Say("Sent.")))
		chat.Say("mail a")
		card := chat.ExpectCard()
		time.Sleep(5 * time.Second)
		kit.Restart() // with a recorder of its own
		card.Press("Approve")
		chat.Expect("Sent.")
		kit.Model.Says(bottest.Plan(doAs("L", "summarizeLists"), bottest.Say("$L")))
		chat.Say("which lists?")
		chat.Next()
	})[first]
	contains(t, file, "It decides another card than the newest.", "verb: planbot/approve", "seed: {lists: {sent: [a]}}")
	plays(t, file, false)
}

// TestATurnThatIsNotOver, as kill -9 leaves it in the file.
func TestATurnThatIsNotOver(t *testing.T) {
	t.Parallel()
	var file string
	dir := filepath.Join(t.TempDir(), "recorded")
	whole := recorded(t, "", record.Config{Dir: dir}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Say("Yes.")))
		chat.Say("one")
		chat.Expect("Yes.")
		kit.Model.Answers(bottest.Answer{Text: bottest.Plan(bottest.Do("addItem", "list", "a", "item", "b"), bottest.Say("No.")), Takes: time.Minute})
		chat.Say("two")
		time.Sleep(30 * time.Second)
		file = filesIn(t, dir)[first]
		chat.Expect("No.")
	})[first]
	contains(t, file, "replies: [Yes.]", "text: two", "was not over when this was written", "Nobody knows what the model said here.")
	plays(t, file, false)
	if strings.Contains(bare(whole), "note:") {
		t.Errorf("when it is over:\n%s", whole)
	}
	plays(t, whole, false)
}

// TestRefusedMessages: what the channel refuses for good is in the scenario.
func TestRefusedMessages(t *testing.T) {
	t.Parallel()
	file := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Say("One."), bottest.Do("addItem", "list", "a", "item", "b"), bottest.Say("Two."), bottest.Say("Three.")))
		n := 0
		kit.Connector.Decides(func(bottest.Sent) bottest.Answer {
			n++
			switch n {
			case 1:
				return bottest.Answer{Status: http.StatusServiceUnavailable} // and is asked again
			case 3:
				return bottest.Answer{Status: http.StatusBadRequest}
			}
			return bottest.Answer{}
		})
		chat.Say("go")
		chat.Next()
		chat.Next()
	})[first]
	contains(t, file, "connector: [{http: 200}, {http: 400}]", `replies: [One., "<fallback>"]`)
	plays(t, file, false)
}

// TestSeeds: lists in whatever order, with what is done.
func TestSeeds(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string][]lists.List{
		"in another order": {{Name: "zeta", Items: []lists.Item{{Name: "z"}}}, {Name: "Alpha"}},
		"very many":        manyLists(),
		"with done items":  {{Name: "alpha", Items: []lists.Item{{Name: "a", Done: true}, {Name: "b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
				mia, team := kit.Personal("Mia"), kit.Group("team", "Mia")
				mia.Keep(func(_, user *state.Scope) { state.Of[lists.Lists](user).All = kept })
				team.Keep(func(conversation, _ *state.Scope) { state.Of[lists.Lists](conversation).All = kept })
				for _, chat := range []*bottest.Chat{mia, team} {
					kit.Model.Says(bottest.Plan(doAs("L", "summarizeLists"), bottest.Say("$L")))
					chat.Mention("which lists?")
					chat.Next()
				}
			})
			for _, file := range []string{files[first], files["conversation-2.scenario.yaml"]} {
				contains(t, file, "ordered:", "lpha")
				plays(t, file, false)
			}
		})
	}
}

// TestNotices: what comes by itself later is in no step, and what follows is a scenario of
// its own.
func TestNotices(t *testing.T) {
	t.Parallel()
	file := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("remindMe", "what", "water", "in_minutes", 5), bottest.Say("I will.")),
			bottest.Plan(doAs("R", "listReminders"), bottest.Say("$R")))
		chat.Say("water")
		chat.Expect("I will.")
		time.Sleep(10 * time.Minute)
		chat.ExpectMatch("water")
		chat.Say("what is left?")
		chat.Expect("There are no reminders.")
	})[first]
	contains(t, file, "part 2", "replies: [There are no reminders.]")
	plays(t, file, false)
}

// TestInstallations: a scenario says in another way that the bot was put in, and not at all
// that it was taken out.
func TestInstallations(t *testing.T) {
	t.Parallel()
	file := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		chat.Deliver(map[string]any{"type": "installationUpdate", "action": "add"})
		chat.ExpectMatch("Hello, I am")
		chat.AddBot() // says the same once more
		kit.Settle()
		chat.Deliver(map[string]any{"type": "installationUpdate", "action": "remove"})
		kit.Settle()
		chat.Deliver(map[string]any{"type": "installationUpdate", "action": "add"})
		chat.ExpectMatch("Hello, I am")
	})[first]
	contains(t, file, "The bot was removed", "part 2")
	if strings.Count(file, "<welcome>") != 2 || strings.Count(bare(file), "note:") != 1 {
		t.Errorf("file:\n%s", file)
	}
	plays(t, file, false)
}

// TestSettings: some go into scenarios, and of others it is said that they were there.
func TestSettings(t *testing.T) {
	t.Parallel()
	cfg := record.Config{Settings: []string{"BOT_TURN_TIMEOUT"}, Same: []string{"BOT_SKILLS_DIR"}, FilteredText: "Nothing of that here."}
	file := recorded(t, "", cfg, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Say("Good night.")))
		chat.Say("bye")
		chat.Next()
	})[first]
	contains(t, file, "had settings that a scenario does not have: BOT_TURN_TIMEOUT.", "Play it with these settings as they were: BOT_SKILLS_DIR.", "replies: [Good night.]")
	plays(t, file, true)
}

// TestOneFolderForMany: recorders that begin at the same time do not write over each other.
func TestOneFolderForMany(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // at the same second
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				rec, err := record.New(record.Config{Dir: dir})
				if err != nil {
					t.Error(err)
					return
				}
				defer rec.Close()
				if _, err := rec.Model(&yes{}).Complete(t.Context(), &models.Request{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
	if files, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(files) != 8 {
		t.Errorf("%q, %v", files, err)
	}
}

// manyLists are more than one turn may make.
func manyLists() (all []lists.List) {
	for i := range 60 {
		all = append(all, lists.List{Name: fmt.Sprintf("lpha %02d", 59-i), Items: []lists.Item{{Name: "x", Done: i%7 == 0}}})
	}
	return all
}
