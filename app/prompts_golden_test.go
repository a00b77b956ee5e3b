package app_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/settings"

	"github.com/planbot-go/planbot/internal/fakemodel"
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
			s := newStudent(t, map[string]string{"bot-planner": name, "bot-skills-sandbox": settings.NoSandbox})
			s.does("load_skill", map[string]any{"skillName": "translator"})
			s.says("Good morning.")
			s.Say("translate: buongiorno")
			s.Expect("Good morning.")
			var asked []string
			for _, call := range s.model.Calls() {
				asked = append(asked, golden.Prompt(requestOf(call)))
			}
			golden.Compare(t, filepath.Join("testdata", "prompts", name+".txt"), strings.Join(asked, "\n##### and then\n\n"))
		})
	}
}

// requestOf is what was asked over the wire.
func requestOf(call fakemodel.Call) *models.Request {
	req := &models.Request{}
	for _, m := range call.Messages {
		message := models.Message{Role: models.Role(m.Role), Text: m.Content, CallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			message.Calls = append(message.Calls, models.Call(c))
		}
		req.Messages = append(req.Messages, message)
	}
	for _, t := range call.Tools {
		req.Tools = append(req.Tools, models.Tool{Name: t.Name, Description: t.Description, Schema: t.Parameters, Strict: t.Strict})
	}
	return req
}
