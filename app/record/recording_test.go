package record_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/cassette"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// registry has the list actions, and one that a person has to approve.
func registry() *actions.Registry {
	acts := actions.New()
	lists.Register(acts)
	reminders.Register(acts)
	actions.Add(acts, "sendMail", "Sends a mail", func(context.Context, *actions.Turn, struct {
		To string `json:"to"`
	},
	) (actions.Result, error) {
		return actions.Text("sent"), nil
	}, actions.NeedsApproval)
	actions.Add(acts, "clock", "Tells the time", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Text("It is %s, %d.", time.Now().Format("15:04"), rand.IntN(1<<30)), nil
	})
	actions.Add(acts, "slow", "Takes its time", slow)
	actions.Add(acts, "breakIt", "Fails", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.Fail("it is broken"), nil
	})
	actions.Add(acts, "orderCoffee", "Orders a coffee", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
		answer := actions.AttemptOf(ctx).Answer
		if answer == nil {
			size := actions.Field{Name: "size", Required: true, Choices: []actions.Choice{{Value: "s"}, {Value: "l"}}}
			return actions.Ask(actions.Form{Text: "Which size?", Fields: []actions.Field{size}}, nil), nil
		}
		if answer.Declined {
			return actions.Fail("no size was given"), nil
		}
		return actions.Text("ordered in size %s", answer.Values["size"]), nil
	})
	return acts
}

// recorded talks with a bot that is recorded, and returns the files by the ends of their
// names.
func recorded(t *testing.T, plannerName string, cfg record.Config, talk func(t *testing.T, kit *bottest.Kit)) map[string]string {
	t.Helper()
	cfg.Dir = cmp.Or(cfg.Dir, filepath.Join(t.TempDir(), "recorded"))
	var all []*record.Recorder // one for each process
	acts := registry()
	bottest.Test(t, bottest.Config{Name: "Listbot", New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		rec, err := record.New(cfg)
		if err != nil {
			return nil, err
		}
		all = append(all, rec)
		b := parts.Bot
		b.Actions, b.Channel, b.Authenticator = acts, rec.Channel(b.Channel), rec.Authenticator(b.Authenticator)
		b.Features = []bot.Feature{rec.Feature()}
		model := rec.Model(parts.Model)
		if b.Planner, err = parts.Planner(ctx, plannerName, planner.Config{Model: model, Actions: acts}); err != nil {
			return nil, err
		}
		return bot.New(b)
	}}, func(t *testing.T, kit *bottest.Kit) {
		talk(t, kit)
		kit.Settle()
		for _, rec := range all {
			rec.Close()
		}
	})
	return filesIn(t, cfg.Dir)
}

// filesIn are the files of a recording, by the ends of their names.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		info, err2 := e.Info()
		if err != nil || err2 != nil || info.Mode().Perm() != 0o600 {
			t.Fatal(err, err2, info.Mode())
		}
		files[strings.SplitN(e.Name(), "-", 4)[3]] = string(raw) // behind the day, the time, and what is by chance
	}
	return files
}

// plays plays what was recorded.
func plays(t *testing.T, file string, scripted bool) {
	t.Helper()
	list := read(t, file)
	for i := range list {
		if failures, story := bottest.Play(&list[i], bottest.Config{Actions: registry(), Scripted: scripted}); failures != nil {
			t.Errorf("%s: %q\n%s\n%s", list[i].Name, failures, file, story)
		}
	}
}

func read(t *testing.T, file string) []record.Scenario {
	t.Helper()
	list, err := record.Read("x.yaml", []byte(file))
	if err != nil {
		t.Fatalf("%v\n%s", err, file)
	}
	return list
}

func TestConversations(t *testing.T) {
	t.Parallel()
	files := recorded(t, "", record.Config{Secrets: []string{"correct horse"}}, func(_ *testing.T, kit *bottest.Kit) {
		mia := kit.Personal("Mia Rossi")
		mia.Keep(func(_, user *state.Scope) {
			state.Of[lists.Lists](user).All = []lists.List{{Name: "Rossi's", Items: []lists.Item{{Name: "tea"}}}}
		})
		kit.Model.Says(
			bottest.Plan(bottest.Do("addItem", "list", "Rossi's", "item", "milk for Mia"), bottest.Say("Mia, it is there.")),
			bottest.Plan(doAs("ALL", "summarizeLists"), bottest.Say("$ALL")),
			bottest.Plan(bottest.Do("breakIt")),
			bottest.Plan(bottest.Say("It is there.")),
		)
		mia.Say("add milk for Mia, password: hunter2, correct horse, mia@rossi.it")
		mia.Expect("Mia, it is there.")
		mia.Say("what is there?")
		mia.Next()
		mia.Say("a list for me")
		mia.Expect("It is there.")
		kit.Model.Throttles(0)
		kit.Model.Throttles(0)
		kit.Model.Throttles(0)
		kit.Model.Throttles(0)
		mia.Say("again")
		mia.Next()
		mia.Say("/reset")
		mia.Next()
		mia.Say("/help")
		mia.ExpectCard()
		kit.Model.Says(bottest.Plan(doAs("T", "clock"), bottest.Say("$T")))
		mia.Say("what time is it?")
		mia.Next()

		team := kit.Group("team", "Mia Rossi", "Otto")
		kit.Model.Says(bottest.Plan(bottest.Do("sendMail", "to", "Otto")), bottest.Plan(bottest.Say("Otto has it.")))
		team.Say("nobody listens")
		team.Mention("write to Otto")
		card := team.ExpectCard()
		card.Press("Approve")
		team.Expect("Otto has it.")
		time.Sleep(5 * time.Second)   // it is written
		team.As("Otto").Say("thanks") // only now it is known who that is
	})
	if len(files) != 6 {
		t.Fatalf("%d files: %v", len(files), files)
	}
	for name, file := range files {
		for _, secret := range []string{"hunter2", "correct horse", "mia@rossi.it", "Mia", "Rossi", "Otto", "29:mia", "a:Mia", "tenant-1"} {
			standsIn := secret == "tenant-1" && strings.HasSuffix(name, record.TurnsFile)
			if !standsIn && strings.Contains(strings.ReplaceAll(file, "a:Mia-", ""), secret) {
				t.Errorf("%q in %s:\n%s", secret, name, file)
			}
		}
	}
	personal, group := files["conversation-1.scenario.yaml"], files["conversation-2.scenario.yaml"]
	for _, want := range []string{
		`seed: {lists: {user-1's: [tea]}}`, "from: user-1", "user-1, it is there.", "entities: {item: milk for user-1, list: user-1's}",
		"password: [secret], [secret], person-1@example.com", "error: it is broken", "<busy>", "<reset_done>", "http: 429",
	} {
		if !strings.Contains(strings.ReplaceAll(personal, `"`, ""), want) {
			t.Errorf("no %s in\n%s", want, personal)
		}
	}
	contains(t, group, "<at>ListBot</at> write to user-2", "<approval_card Send mail>", "value: {approve: true}", "conversationType: groupChat")
	plays(t, personal, false)
	plays(t, group, false)
	plays(t, group, true)

	calls, err := callsIn(t, files["conversation-1.cassette.yaml"])
	if err != nil || len(calls) != 6 || !strings.Contains(calls[0].Asked, "=== user\nadd milk for user-1, password: [secret]") || calls[4].Fault == nil {
		t.Errorf("%v: %+v", err, calls)
	}
}

// TestOtherPlanners: scenarios have the plans in the form of the first planner.
func TestOtherPlanners(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(*bottest.Model){
		"sequential": func(m *bottest.Model) { // which says what the last function gave back
			m.Says(`<plan><function.addItem list="shop" item="tea"/></plan>`)
		},
		"tools": func(m *bottest.Model) {
			m.CallsTools(models.Call{ID: "c1", Name: "addItem", Arguments: `{"list":"shop","item":"tea"}`})
			m.Says("Tea is on it.")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := recorded(t, name, record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
				script(kit.Model)
				chat := kit.Personal("Mia")
				chat.Say("tea to shop")
				chat.Next()
			})
			plays(t, files["conversation-1.scenario.yaml"], false)
		})
	}
}

func TestWhatIsTooMuchIsLeftOut(t *testing.T) {
	t.Parallel()
	{
		var log strings.Builder
		cfg := record.Config{MaxBytes: 20_000, Log: zerolog.New(&log)}
		files := recorded(t, "", cfg, func(_ *testing.T, kit *bottest.Kit) {
			chat := kit.Personal("Mia")
			for range 5 {
				kit.Model.Says(bottest.Plan(bottest.Say("Yes.")))
				chat.Say("well?")
				chat.Expect("Yes.")
			}
		})
		if n := strings.Count(bare(files["conversation-1.scenario.yaml"]), "event:"); n == 0 || n == 5 || strings.Count(log.String(), "limit of") != 1 || !strings.Contains(log.String(), "20000 bytes") {
			t.Errorf("%d steps, %s", n, log.String())
		}
	}
}

// TestEvents: of all that a channel says of an activity, a scenario has what the bot looks
// at, with stand-ins.
func TestEvents(t *testing.T) {
	t.Parallel()
	files := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
		kit.Model.Decides(func(bottest.ModelCall) (bottest.Answer, bool) {
			return bottest.Answer{Text: bottest.Plan(bottest.Say("Well."))}, true
		})
		chat := kit.Channel("general", "Mia")
		said := chat.Deliver(map[string]any{
			"type": "message", "text": "<at>Listbot</at> ask <at>Ugo</at>", "entities": []any{
				chat.MentionOf("<at>Listbot</at>"),
				map[string]any{"type": "clientInfo", "locale": "it-IT"},
				map[string]any{"type": "mention", "text": "<at>Ugo</at>", "mentioned": map[string]any{"id": "29:ugo", "name": "Ugo"}},
			},
			"attachments": []any{map[string]any{"contentType": "text/html", "content": "x"}, map[string]any{"contentType": "image/png", "contentUrl": "https://secret"}},
		})
		chat.Expect("Well.")
		said.Again(chat)
		said.Edit("<at>Listbot</at> no")
		said.Edit("<at>Listbot</at> yes")
		chat.AddBot()
		chat.ExpectMatch("^Hello")
		other := kit.Conversation("room-of-mia", "groupChat", "Mia")
		other.Deliver(map[string]any{"type": "message", "text": "hi", "channelId": "emulator"})
		other.Expect("Well.")
	})
	for name, parts := range map[string][]string{
		"conversation-1.scenario.yaml": {
			"conversation-1;messageid=", "conversationType: channel", "text: \"<at>ListBot</at> ask <at>user-2</at>\"",
			`mentioned: {id: "28:bot", name: ListBot}`, `mentioned: {id: "29:user-2", name: user-2}`, "attachments: [{contentType: image/png}]",
			"channelData: {eventType: editMessage}", `membersAdded: [{id: "28:bot"}]`,
		},
		"conversation-2.scenario.yaml": {`text: "<at>ListBot</at> hi"`},
	} {
		contains(t, files[name], parts...)
		plays(t, files[name], false)
	}
	if n := strings.Count(bare(files["conversation-1.scenario.yaml"]), "event:"); n != 4 || strings.Contains(files["conversation-1.scenario.yaml"], "it-IT") {
		t.Errorf("%d events:\n%s", n, files["conversation-1.scenario.yaml"])
	}
}

// TestABrokenRecordingDisturbsNoTurn: the folder is gone.
func TestABrokenRecordingDisturbsNoTurn(t *testing.T) {
	t.Parallel()
	if _, err := record.New(record.Config{}); err == nil {
		t.Error("no folder, and no error")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := record.New(record.Config{Dir: file}); err == nil {
		t.Error("a file for a folder, and no error")
	}
	dir := filepath.Join(t.TempDir(), "gone")
	var log strings.Builder
	rec, err := record.New(record.Config{Dir: dir, Log: zerolog.New(&log)})
	if err != nil || os.Remove(dir) != nil {
		t.Fatal(err)
	}
	m := rec.Model(&yes{})
	for range 2 {
		if answer, err := m.Complete(t.Context(), &models.Request{}); err != nil || answer.Text != "Yes." {
			t.Error(answer, err)
		}
	}
	rec.Close()
	if strings.Count(log.String(), "the recording is incomplete") != 1 {
		t.Errorf("log: %s", log.String())
	}
}

type yes struct{}

func (yes) Complete(context.Context, *models.Request) (*models.Response, error) {
	return &models.Response{Text: "Yes."}, nil
}

// callsIn reads a cassette.
func callsIn(t *testing.T, text string) ([]cassette.Call, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return cassette.Read(file)
}
