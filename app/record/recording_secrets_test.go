package record_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bottest"
)

// TestCodesAreNotRecorded, however a person or a client brings them.
func TestCodesAreNotRecorded(t *testing.T) {
	t.Parallel()
	files := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
		team := kit.Group("team", "Mia Rossi")
		at := team.MentionOf("<at>Listbot</at>")
		for _, text := range []string{"745254 <at>Listbot</at>", "<at>Listbot</at>&nbsp;745254", "<at>Listbot</at> 745&#50;54"} {
			kit.Model.Says(bottest.Plan(bottest.Say("Hello.")))
			team.Deliver(map[string]any{"type": "message", "text": text, "entities": []any{at}})
			team.Expect("Hello.")
		}
		team.Invoke("adaptiveCard/action", map[string]any{"action": map[string]any{"type": "Action.Execute", "verb": "show"}, "state": "745254"})
		for _, name := range []string{"query", "queryLink", "fetchTask", "submitAction"} {
			team.Invoke("composeExtension/"+name, map[string]any{"commandId": "find", "state": "745254"})
			team.Invoke("composeExtension/"+name, map[string]any{"commandId": "find", "authentication": map[string]any{"connectionName": "graph", "token": "sso-token"}})
		}
	})
	for name, text := range files {
		for _, secret := range []string{"745254", "745&#50;54", "sso-token"} {
			if strings.HasSuffix(name, "scenario.yaml") && strings.Contains(text, secret) {
				t.Errorf("%s has %s:\n%s", name, secret, text)
			}
		}
	}
}
