package record

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/scrub"
)

// TestValuesWithoutAddresses is internal: the addresses of files come with invokes that no test bot answers.
func TestValuesWithoutAddresses(t *testing.T) {
	t.Parallel()
	a := &activity.Activity{Type: activity.Invoke, Name: "fileConsent/invoke", Value: []byte(`{"type":"fileUpload","action":"accept","url":"https://a.example/page?sig2=UPLOADSECRET",
		"session":{"url":"https://x.sharepoint.com/UPLOADSECRET","nextLink":"https://x.sharepoint.com/UPLOADSECRET"},"uploadUrls":["https://x.sharepoint.com/UPLOADSECRET"],
		"target":"https://x.sharepoint.com/a?tempauth=UPLOADSECRET","SasUri":"https://x.blob.example/UPLOADSECRET",
		"state":"UPLOADSECRET","inner":"{\"uploadInfo\":{\"uploadUrl\":\"https://x.sharepoint.com/UPLOADSECRET\"}}",
		"uploadInfo":{"name":"a","uploadUrl":"https://x.sharepoint.com/u?tempauth=UPLOADSECRET","contentUrl":"https://x.sharepoint.com/opaque/UPLOADSECRET"},
		"files":[{"downloadUrl":"https://UPLOADSECRET.example/"}]}`)}
	raw, err := json.Marshal(eventOf(a, scrub.New()))
	if err != nil || strings.Contains(string(raw), "UPLOADSECRET") || !strings.Contains(string(raw), `"https://a.example/page"`) {
		t.Errorf("%s, %v", raw, err)
	}
}
