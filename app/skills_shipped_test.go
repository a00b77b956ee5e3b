package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/models"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

// student is a scripted model that answers in the form of a planner, and a chat with the
// bot that has the shipped skills.
type student struct {
	*bottest.Chat
	t       *testing.T
	planner string
	model   *fakemodel.Server
	scripts string
}

func newStudent(t *testing.T, s map[string]string) student {
	t.Helper()
	st := student{t: t, planner: s["bot-planner"], model: fakemodel.New(t)}
	s["openai-base-url"], s["bot-skills-dir"], s["port"] = st.model.URL, "../examples/skills", "0"
	kit := bottest.New(t, bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (b *bot.Bot, err error) {
		b, st.scripts, err = app.Assembled(ctx, t, s, parts.Bot.Store)
		return b, err
	}})
	st.Chat = kit.Personal("Mia")
	return st
}

// does scripts one call.
func (s student) does(action string, entities map[string]any) {
	s.t.Helper()
	raw, err := json.Marshal(entities)
	if err != nil {
		s.t.Fatal(err)
	}
	switch s.planner {
	case "tools":
		s.model.CallsTools("", models.Call{ID: fmt.Sprint("call", action), Name: action, Arguments: string(raw)})
	case "sequential":
		attributes := ""
		for name, value := range entities {
			text, ok := value.(string)
			if !ok {
				list, _ := json.Marshal(value)
				text = string(list)
			}
			attributes += fmt.Sprintf(` %s="%s"`, name, strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;").Replace(text))
		}
		s.model.Says("<plan><function." + action + attributes + "/></plan>")
	default:
		s.model.Says(fmt.Sprintf(`{"type":"plan","commands":[{"type":"DO","action":%q,"entities":%s}]}`, action, raw))
	}
}

// says scripts the answer that ends a turn.
func (s student) says(text string) {
	if s.planner == "sequence" {
		raw, _ := json.Marshal(text)
		text = fmt.Sprintf(`{"type":"plan","commands":[{"type":"SAY","response":%s}]}`, raw)
	}
	s.model.Says(text)
}

// prompt is the newest that the model was asked.
func (s student) prompt() string {
	calls := s.model.Calls()
	return calls[len(calls)-1].Text()
}

// TestTheShippedConverter asks what a kilogram is in pounds: the skill is
// loaded, its table read, its script run in the real sandbox after a click.
func TestTheShippedConverter(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	s := newStudent(t, map[string]string{"bot-planner": settings.Sequence})
	if !strings.Contains(s.scripts, " run in ") {
		t.Skip(s.scripts) // the sandbox's own tests fail where CI has none
	}
	s.does("load_skill", map[string]any{"skillName": "unit-converter"})
	s.does("read_skill_resource", map[string]any{"skillName": "unit-converter", "resourceName": "references/conversion-table.md"})
	s.does("run_skill_script", map[string]any{
		"skillName": "unit-converter", "scriptName": "scripts/convert.py", "arguments": []string{"--value", "1", "--factor", "2.20462"},
	})
	s.Say("一公斤有几磅?")
	card := s.ExpectCard()
	for _, want := range []string{"Run a script of a skill", "unit-converter", "scripts/convert.py", "2.20462"} {
		if !strings.Contains(card.JSON, want) {
			t.Errorf("the card does not show %s: %s", want, card.JSON)
		}
	}
	if prompt := s.prompt(); !strings.Contains(prompt, "kilogram (kg, 公斤, 千克) | pound (lb, 磅) | 2.20462") || strings.Count(prompt, "Take factors from the table") != 1 {
		t.Errorf("before the script: %s", prompt)
	}
	s.says("一公斤约为 2.20462 磅。")
	card.Press("Always approve exactly this")
	s.Expect("一公斤约为 2.20462 磅。")
	if prompt := s.prompt(); !strings.Contains(prompt, `"result": 2.20462`) {
		t.Errorf("behind the script: %s", prompt)
	}

	s.does("run_skill_script", map[string]any{ // the same again: approved for good
		"skillName": "unit-converter", "scriptName": "scripts/convert.py", "arguments": []string{"--value", "1", "--factor", "2.20462"},
	})
	s.says("2.20462")
	s.Say("sure?")
	s.Expect("2.20462")
	if prompt := s.prompt(); strings.Count(prompt, "Take factors from the table") != 1 {
		t.Errorf("the skill is not told once in the next turn: %s", prompt)
	}
}

// TestEachPlannerTellsErrorsAlike asks for a skill that there is not.
func TestEachPlannerTellsErrorsAlike(t *testing.T) {
	t.Parallel()
	for _, name := range settings.Planners() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStudent(t, map[string]string{"bot-planner": name, "bot-skills-sandbox": "none"})
			s.does("load_skill", map[string]any{"skillName": "nobody"})
			s.says("There is none.")
			s.Say("load nobody")
			s.Expect("There is none.")
			if prompt := s.prompt(); strings.Count(prompt, "Error: ") != 1 || !strings.Contains(prompt, " Error: Skill 'nobody' not found.") {
				t.Errorf("the model is told %s", prompt)
			}
		})
	}
}

// TestTheShippedTranslator reads what the skill needs, and asks nobody for that.
func TestTheShippedTranslator(t *testing.T) {
	t.Parallel()
	s := newStudent(t, map[string]string{"bot-planner": settings.Sequence, "bot-skills-sandbox": "none"})
	s.does("load_skill", map[string]any{"skillName": "translator"})
	s.does("read_skill_resource", map[string]any{"skillName": "translator", "resourceName": "images.md"})
	s.says("Literal … Literary … Free …")
	s.Say("/skill")
	if got := s.Next().Activity.Text; !strings.Contains(got, "translator") || !strings.Contains(got, "unit-converter") {
		t.Errorf("/skill lists %q", got)
	}
	s.Say("翻译：床前明月光，疑是地上霜。")
	s.Expect("Literal … Literary … Free …")
	if prompt := s.prompt(); strings.Count(prompt, "Write the three variants") != 1 || !strings.Contains(prompt, "# ") {
		t.Errorf("prompt %s", prompt)
	}
}
