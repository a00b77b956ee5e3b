package bottest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// trial is a test that keeps its failures, and ends when it is told to.
type trial struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (r *trial) Helper()          {}
func (r *trial) Failed() bool     { return len(r.failures) > 0 }
func (r *trial) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *trial) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *trial) Fatalf(format string, args ...any) { r.Errorf(format, args...); panic(r) }

// try runs f with a trial and returns its failures.
func try(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	r := &trial{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		f(r)
	}()
	for _, end := range slices.Backward(r.cleanups) { // as package testing does
		end()
	}
	return strings.Join(r.failures, "\n")
}

// saying answers in order.
type saying struct{ texts []string }

func (s *saying) Complete(context.Context, *models.Request) (*models.Response, error) {
	if len(s.texts) == 0 {
		return nil, &models.Error{Kind: models.Throttled, Status: 429}
	}
	text := s.texts[0]
	s.texts = s.texts[1:]
	return &models.Response{Text: text, Finish: "stop", Usage: models.Usage{Prompt: 3, Completion: 1}}, nil
}

// ask asks for each of the texts, and returns the answers.
func ask(t *testing.T, m models.Model, texts ...string) string {
	t.Helper()
	var got []string
	for _, text := range texts {
		answer, err := m.Complete(t.Context(), &models.Request{Messages: []models.Message{{Role: "system", Text: "Be good."}, {Role: "user", Text: text}}})
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, answer.Text)
	}
	return strings.Join(got, "|")
}

// offlineChain asks the offline model only.
func offlineChain(t *testing.T) models.Model {
	t.Helper()
	chain := &models.Chain{Models: []models.Model{models.Offline{}}}
	return chain
}

const notRecorded = "model bad_request, code not_recorded"

// Not parallel: it sets the environment.
func TestRecord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "testdata", "x.cassette.yaml")
	for _, step := range []struct {
		name   string
		update string
		model  models.Model
		asks   []string
		said   string
		fails  []string
	}{
		{"nothing there", "", nil, []string{"a"}, "", []string{"there is no " + file + " yet; go test with BOTTEST_UPDATE=1"}},
		{"nothing there, and no model", "1", nil, nil, "", []string{"there is no "}},
		{"nothing there, and no real model", "1", offlineChain(t), []string{"a"}, notRecorded, []string{
			file + " is to be what a real model says, and there is the offline one only: set OPENAI_API_KEY, OPENAI_BASE_URL or AZURE_OPENAI_ENDPOINT",
		}},
		{"still nothing there", "", nil, nil, "", []string{"there is no " + file + " yet"}},
		{"recorded", "1", &saying{[]string{"A", "B"}}, []string{"a", "b", "c"}, "A|B|model throttled, status 429", nil},
		{"not by the offline model", "1", models.Offline{}, []string{"a", "b"}, notRecorded + "|" + notRecorded, []string{"nothing is written"}},
		{"replayed", "", nil, []string{"a", "b", "c"}, "A|B|model throttled, status 429", nil},
		{"in another order", "", nil, []string{"c", "b", "a"}, "model throttled, status 429|B|A", nil},
		{"changed", "", &saying{[]string{"X"}}, []string{"a", "z", "c"}, "A|" + notRecorded + "|model throttled, status 429", []string{
			"call 2 of " + file + " was asked something else", "in the environment, takes it (-file +now):\n    @@ -2,4 +2,4 @@\n     Be good.\n     \n     === user\n    -b\n    +z",
		}},
		{"too few", "", nil, []string{"a"}, "A", []string{"2 of the 3 calls in " + file + " were not made"}},
		{"too many", "", nil, []string{"a", "b", "c", "d"}, "A|B|model throttled, status 429|" + notRecorded, []string{
			"has 3 calls of the model, and one more was made; it was asked:\n    === system",
		}},
		{"accepted", "1", nil, []string{"a", "z"}, "A|B", nil},
		{"as accepted", "", nil, []string{"a", "z"}, "A|B", nil},
		{"accepted, too many", "1", nil, []string{"a", "z", "y"}, "A|B|" + notRecorded, []string{"has no answer to call 3, and there is no model to ask"}},
		{"as accepted before", "", nil, []string{"a", "z"}, "A|B", nil},
	} {
		t.Setenv("BOTTEST_UPDATE", step.update)
		said := ""
		got := try(t, func(tb testing.TB) { said = ask(t, bottest.Record(tb, file, step.model), step.asks...) })
		if said != step.said || (got == "") != (step.fails == nil) {
			t.Errorf("%s: it said %s, want %s; it failed with %q", step.name, said, step.said, got)
		}
		for _, want := range step.fails {
			if !strings.Contains(got, want) {
				t.Errorf("%s: it failed with\n%s\nwant\n%s", step.name, got, want)
			}
		}
	}
}

// TestRecordOffline: a recording of the offline model can be renewed with it. Not parallel: it
// sets the environment.
func TestRecordOffline(t *testing.T) {
	t.Setenv("BOTTEST_UPDATE", "1")
	file := filepath.Join(t.TempDir(), "x.cassette.yaml")
	if err := os.WriteFile(file, []byte("calls: [{asked: before, answer: {text: Hello!, model: offline}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	said := ""
	if got := try(t, func(tb testing.TB) { said = ask(t, bottest.Record(tb, file, models.Offline{}), "now") }); got != "" {
		t.Error(got)
	}
	if raw, err := os.ReadFile(file); err != nil || said == "" || !strings.Contains(string(raw), "now") || strings.Contains(string(raw), "before") {
		t.Errorf("it said %q, %v in\n%s", said, err, raw)
	}
}

// recordedBot is a bot of lists whose model is recorded in the file.
func recordedBot(t *testing.T, file string, model models.Model) bottest.Config {
	acts := listBot().Actions
	model = bottest.Record(t, file, model)
	return bottest.Config{Name: "ListBot", New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		parts.Bot.Actions = acts
		var err error
		parts.Bot.Planner, err = planner.NewSequence(ctx, planner.Config{Model: model, Actions: acts})
		if err != nil {
			return nil, err
		}
		return bot.New(parts.Bot)
	}}
}

// TestRecordedBot: what was recorded in real time is replayed in a bubble, whose time is
// another one. Not parallel: it sets the environment.
func TestRecordedBot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.cassette.yaml")
	talk := func(kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		chat.Say("add milk to groceries")
		chat.Expect("Added milk.")
	}
	t.Run("record", func(t *testing.T) {
		t.Setenv("BOTTEST_UPDATE", "1")
		talk(bottest.New(t, recordedBot(t, file, &saying{[]string{addMilk}})))
	})
	if raw, err := os.ReadFile(file); err != nil || !strings.Contains(string(raw), "add milk to groceries") || !strings.Contains(string(raw), "\n      Today: 2006-01-02, Monday\n") {
		t.Fatalf("%v\n%s", err, raw)
	}
	t.Run("replay", func(t *testing.T) {
		t.Setenv("BOTTEST_UPDATE", "")
		bottest.Test(t, recordedBot(t, file, nil), func(_ *testing.T, kit *bottest.Kit) { talk(kit) })
	})
}

// Not parallel: it sets the environment.
func TestGoldenPrompt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prompt.txt")
	for _, step := range []struct{ update, say, fails string }{
		{"1", "one", ""}, {"", "one", ""}, {"", "two", "-one\n+two\n"},
	} {
		t.Setenv("BOTTEST_UPDATE", step.update)
		got := try(t, func(tb testing.TB) {
			kit := bottest.New(tb, listBot())
			chat := kit.Personal("Mia")
			for range 2 {
				kit.Model.Says("Hm.")
				chat.Say(step.say)
				chat.Next()
			}
			kit.GoldenPrompt(file)
		})
		if (got == "") != (step.fails == "") || !strings.Contains(got, step.fails) {
			t.Errorf("%+v: %s", step, got)
		}
	}
	if got := try(t, func(tb testing.TB) { bottest.New(tb, listBot()).GoldenPrompt(file) }); !strings.Contains(got, "the model was not asked") {
		t.Errorf("no calls: %s", got)
	}
}
