package pack_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/planbot-go/planbot/manifest"
	"github.com/planbot-go/planbot/manifest/pack"
)

// everything is an app with every part of a manifest that a bot can need.
func everything() manifest.Config {
	cfg := good()
	cfg.Extension = manifest.Extension{
		Commands: []manifest.ExtensionCommand{
			{ID: "find", Type: "query", Title: "Find a list", InitialRun: true, Parameters: []manifest.Parameter{{Name: "words", Title: "Words"}}},
			{
				ID: "add", Type: "action", Title: "Add it", Description: "Adds the message to a list", Context: []string{"message"}, FetchTask: true,
				Parameters: []manifest.Parameter{{Name: "list", Title: "List", InputType: "choiceset", Choices: []manifest.Choice{{Title: "Work", Value: "w"}}}},
			},
		},
		Domains: []string{"*.contoso.com"}, Anonymous: true, Settings: true,
	}
	cfg.Settings, cfg.Files, cfg.Targeted = true, true, true
	cfg.ResourcePermissions = []string{"OnlineMeeting.ReadBasic.Chat", "ChatMessageReadReceipt.Read.Chat"}
	cfg.Scopes, cfg.Disclaimer = []string{"personal", "groupChat", "copilot"}, "Check what matters."
	cfg.Translations = map[string]manifest.Translation{"de": {Commands: map[string]manifest.Command{"Find a list": {Title: "Liste finden"}}}}
	return cfg
}

// TestEverything: each part is where Teams reads it, in the least schema version that has it.
func TestEverything(t *testing.T) {
	t.Parallel()
	got := unpack(t, build(t, everything()))
	var doc map[string]any
	if err := json.Unmarshal([]byte(got["manifest.json"]), &doc); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	bot, _ := doc["bots"].([]any)[0].(object)
	form := object{"fetchTask": true}
	for name, pair := range map[string][2]any{
		"version":       {"1.29", doc["manifestVersion"]},
		"files":         {true, bot["supportsFiles"]},
		"targeted":      {true, bot["supportsTargetedMessages"]},
		"configuration": {object{"team": form, "groupChat": form}, bot["configuration"]},
		"agent":         {object{"customEngineAgents": []any{object{"id": appID, "type": "bot", "disclaimer": object{"text": "Check what matters."}}}}, doc["copilotAgents"]},
		"permissions": {object{"permissions": object{"resourceSpecific": []any{
			object{"name": "OnlineMeeting.ReadBasic.Chat", "type": "Application"}, object{"name": "ChatMessageReadReceipt.Read.Chat", "type": "Application"},
		}}}, doc["authorization"]},
		"web app": {object{"id": appID, "resource": "https://RscPermission"}, doc["webApplicationInfo"]},
		"extension": {[]any{object{
			"botId": appID, "canUpdateConfiguration": true,
			"messageHandlers": []any{object{"type": "link", "value": object{"domains": []any{"*.contoso.com"}, "supportsAnonymizedPayloads": true}}},
			"commands": []any{
				object{"id": "find", "type": "query", "title": "Find a list", "initialRun": true, "parameters": []any{object{"name": "words", "title": "Words"}}},
				object{
					"id": "add", "type": "action", "title": "Add it", "description": "Adds the message to a list", "context": []any{"message"}, "fetchTask": true,
					"parameters": []any{object{"name": "list", "title": "List", "inputType": "choiceset", "choices": []any{object{"title": "Work", "value": "w"}}}},
				},
			},
		}}, doc["composeExtensions"]},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for _, want := range []string{`"composeExtensions[0].commands[0].title": "Liste finden"`, `"composeExtensions[0].commands[1].description": "Adds the message to a list"`} {
		if !strings.Contains(got["de.json"], want) {
			t.Errorf("de.json lacks %s: %s", want, got["de.json"])
		}
	}
	plain := everything()
	plain.Targeted = false
	if got := unpack(t, build(t, plain))["manifest.json"]; !strings.Contains(got, `"manifestVersion": "1.25"`) || strings.Contains(got, "supportsTargetedMessages") {
		t.Errorf("an app without targeted messages: %s", got)
	}
}

// TestPartsThatDoNotFit are refused, all at once.
func TestPartsThatDoNotFit(t *testing.T) {
	t.Parallel()
	cfg := everything()
	cfg.Schema, cfg.Scopes, cfg.ResourcePermissions = "1.25", []string{"groupChat"}, []string{"x", "x"}
	cfg.Extension.Commands[0].Type, cfg.Extension.Commands[1].Title = "search", strings.Repeat("x", 33)
	err := pack.Build(io.Discard, cfg)
	for _, want := range []string{
		"targeted messages need schema version 1.29, not 1.25", "a Disclaimer is for an app with the scope copilot",
		"commands/0/type", "commands/1/title", "resourceSpecific",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q too", err, want)
		}
	}
}
