package planner_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
)

// TestTheFormatOfAMonologue by the response format, and that only the planner sequence has it.
func TestTheFormatOfAMonologue(t *testing.T) {
	t.Parallel()
	files := map[string]string{"sequence/prompt.txt": "Keep lists.\n{{actions}}", "sequence/config.json": `{"augmentation": {"augmentation_type": "monologue"}}`}
	for format, want := range map[string]string{"": "thoughts", "json_object": "", "text": "none"} {
		model := &recorder{answer: `{"thoughts":{},"action":{"name":"SAY","parameters":{"text":"Hi."}}}`}
		p, err := planner.NewSequence(t.Context(), planner.Config{Model: model, Prompts: folder(t, files), Actions: vectorActions(t), ResponseFormat: format})
		if err != nil {
			t.Fatal(err)
		}
		in, seen := watched("hello") // where people see answers early, a monologue shows nothing
		made, err := p.Plan(t.Context(), in)
		if err != nil || made.Commands[0].Response != "Hi." || made.Observe || len(*seen) > 0 {
			t.Errorf("%q: %+v, %v, seen %q", format, made, err, *seen)
		}
		got := "none"
		if f := model.asked[0].Format; f != nil {
			var schema struct{ Required []string }
			_ = json.Unmarshal(f.Schema, &schema) // nil: none
			got = strings.Join(schema.Required[:min(len(schema.Required), 1)], "")
		}
		if system := model.asked[0].Messages[0]; got != want || strings.Count(system.Text, "Take one action at a time.") != 1 || strings.Contains(system.Text, "\nActions:") || strings.Contains(system.Text, `{"type":"answer"`) {
			t.Errorf("%q: format %s, prompt %s", format, got, system.Text)
		}
	}
	for name, make := range map[string]func() error{
		"tools": func() error {
			_, err := planner.NewTools(t.Context(), planner.Config{Model: models.Offline{}, Actions: vectorActions(t), Prompt: "sequence", Prompts: folder(t, files)})
			return err
		},
		"sequential": func() error {
			_, err := planner.NewSequential(t.Context(), planner.Config{Model: models.Offline{}, Actions: vectorActions(t), Prompt: "sequence", Prompts: folder(t, files)})
			return err
		},
	} {
		if err := make(); err == nil || !strings.Contains(err.Error(), "augmentation_type monologue contradicts the planner, which is "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
