package record_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bottest"
)

// TestCodesAreNotRecorded, however a person or a client brings them, nor addresses that open a file.
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
		team.Invoke("composeExtension/submitAction", json.RawMessage(ofUpload))
	})
	var all strings.Builder
	for name, text := range files {
		all.WriteString(text)
		for _, secret := range []string{"745254", "745&#50;54", "sso-token", "UPLOADSECRET"} {
			if strings.HasSuffix(name, "scenario.yaml") && strings.Contains(text, secret) {
				t.Errorf("%s has %s:\n%s", name, secret, text)
			}
		}
	}
	if !strings.Contains(all.String(), "https://a.example/page") {
		t.Errorf("an address is not there without what its query has:\n%s", all.String())
	}
}

// ofUpload has addresses that open a file to whoever has them, where services put them.
const ofUpload = `{"type":"fileUpload","action":"accept","url":"https://a.example/page?sig2=UPLOADSECRET",
	"session":{"url":"https://x.sharepoint.com/UPLOADSECRET","nextLink":"https://x.sharepoint.com/UPLOADSECRET"},"uploadUrls":["https://x.sharepoint.com/UPLOADSECRET"],
	"target":"https://x.sharepoint.com/a?tempauth=UPLOADSECRET","SasUri":"https://x.blob.example/UPLOADSECRET",
	"state":"UPLOADSECRET","inner":"{\"uploadInfo\":{\"uploadUrl\":\"https://x.sharepoint.com/UPLOADSECRET\"}}",
	"uploadInfo":{"name":"a","uploadUrl":"https://x.sharepoint.com/u?tempauth=UPLOADSECRET","contentUrl":"https://x.sharepoint.com/opaque/UPLOADSECRET"},
	"files":[{"downloadUrl":"https://UPLOADSECRET.example/"}]}`
