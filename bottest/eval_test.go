package bottest_test

import (
	"os"
	"testing"

	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

// Not parallel: it sets the environment.
func TestEval(t *testing.T) {
	model := fakemodel.New(t)
	model.Says(bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk")))
	t.Setenv("OPENAI_BASE_URL", model.URL)
	file := t.TempDir() + "/eval.yaml"
	writeFile(t, file, "cases:\n- {name: milk, lang: en, say: Add milk to groceries, want: [{addItem: {list: groceries, item: milk}}]}\n")
	bot := app.Bot{Name: "Listbot", Register: lists.Register}
	report, err := bottest.Eval(t.Context(), bot, file)
	if err != nil || report.Asked != 1 || report.Score() != 1 || report.Sides[0].Name != "Listbot" {
		t.Errorf("%+v, %v", report, err)
	}
	writeFile(t, file, "cases:\n- {name: tea, lang: en, say: Tea, want: [{brew: {}}]}\n")
	if _, err := bottest.Eval(t.Context(), bot, file); err == nil {
		t.Error("there is no such action")
	}
	t.Setenv("BOT_PLANNER", "magic")
	if _, err := bottest.Eval(t.Context(), bot, file); err == nil {
		t.Error("there is no such planner")
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
