package activity_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/activity"
)

func TestTheWireDoesNotSayWhoCalls(t *testing.T) {
	t.Parallel()
	for _, said := range []string{`"urn:botframework:aadappid:x"`, `"urn:botframework:azure"`, `""`, `null`} {
		a, err := activity.Decode([]byte(`{"type":"message","conversation":{"id":"c"},"callerId":` + said + `,"CallerId":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		if a.CallerID != "" || a.CallerApp() != "" || strings.Contains(string(a.Extra), `"callerId"`) {
			t.Errorf("%s: %q, %q, %s", said, a.CallerID, a.CallerApp(), a.Extra)
		}
	}
	if _, err := activity.Decode([]byte(`{"type":"message","conversation":{"id":"c"},"callerId":1}`)); err == nil {
		t.Error("a number is a callerId")
	}
}

func TestCallerApp(t *testing.T) {
	t.Parallel()
	for callerID, want := range map[string]string{
		"": "", "urn:botframework:azure": "", "urn:botframework:azureusgov": "", "app": "", activity.CallerOf("app"): "app",
	} {
		if got := (&activity.Activity{CallerID: callerID}).CallerApp(); got != want {
			t.Errorf("%q: %q, want %q", callerID, got, want)
		}
	}
}
