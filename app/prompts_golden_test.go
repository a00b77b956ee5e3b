package app_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/settings"

	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/models"
)

// TestTheModelSees holds what the default bot with the shipped skills asks a model, with
// each planner, to testdata: BOTTEST_UPDATE=1 writes it anew.
func TestTheModelSees(t *testing.T) {
	t.Parallel()
	for _, name := range settings.Planners() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStudent(t, map[string]string{"bot-planner": name, "bot-skills-sandbox": "none"})
			s.does("load_skill", map[string]any{"skillName": "translator"})
			s.says("Good morning.")
			s.Say("translate: buongiorno")
			s.Expect("Good morning.")
			var asked []string
			for _, call := range s.model.Calls() {
				asked = append(asked, golden.Prompt(&models.Request{Messages: call.Messages, Tools: call.Tools}))
			}
			golden.Compare(t, filepath.Join("testdata", "prompts", name+".txt"), strings.Join(asked, "\n##### and then\n\n"))
		})
	}
}
