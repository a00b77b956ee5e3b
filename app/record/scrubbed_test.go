package record_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/bottest"
)

// TestStandInsWithinJSON: what a model writes in JSON has the stand-ins of what the bot then
// says, however it is escaped there.
func TestStandInsWithinJSON(t *testing.T) {
	t.Parallel()
	key := strings.Join([]string{"sk", "-proj-A1b2C3d4E5f6G7h8"}, "")
	says := []string{
		`Hi\nJürgen\n` + key + `\n12345678-1234-4123-8123-123456789abc\nbob.x@contoso.com\n29:1AbCdEfGhIjKlMnOpQrSt`,
		`Hi\tJ\u00fcrgen\u00a0\u00d6zt\u00fcrk\tpwd=hunter22`,
		`the \"password\": \"hun\\\"ter23\", https:\/\/me:S3cretPw@db\/x`,
		`hunter22 and {\"to\":\"J\\u00fcrgen\"}`,
	}
	files := recorded(t, "", record.Config{}, func(_ *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Jürgen Öztürk")
		for _, text := range says {
			kit.Model.Says(`{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"J\u00fcrgen","item":"` + text + `"}},{"type":"SAY","response":"` + text + `"}]}`)
			chat.Say("hunter22, hm?")
			chat.Next()
		}
	})
	if len(files) != 3 {
		t.Errorf("%d files", len(files))
	}
	for name, file := range files {
		for _, part := range []string{"rgen", "rk\\t", key, "12345678", "contoso", "29:1Ab", "hunter22", "ter23", "S3cret"} {
			if strings.Contains(file, part) {
				t.Errorf("%s in %s:\n%s", part, name, file)
			}
		}
	}
	plays(t, files["conversation-1.scenario.yaml"], false)
	plays(t, files["conversation-1.scenario.yaml"], true)
}
