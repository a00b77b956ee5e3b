package activity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/activity"
)

func TestZone(t *testing.T) {
	t.Parallel()
	const clientInfo = `"entities":[{"type":"mention"},7,{"type":"clientInfo","locale":"en-GB","timezone":"Europe/Oslo"}]`
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct{ fields, want string }{
		"nothing":               {``, "12:00 +00:00"},
		"its name":              {`"localTimezone":"Asia/Kolkata"`, "17:30 +05:30"},
		"of the client":         {clientInfo, "14:00 +02:00"},
		"its name first":        {`"localTimezone":"Asia/Kolkata",` + clientInfo, "17:30 +05:30"},
		"a name that is none":   {`"localTimezone":"Middle/Earth",` + clientInfo, "14:00 +02:00"},
		"the offset":            {`"localTimestamp":"2026-07-01T05:00:00.1234567-07:00"`, "05:00 -07:00"},
		"no offset":             {`"localTimestamp":"2026-07-01T05:00:00"`, "12:00 +00:00"},
		"a wrong type":          {`"localTimezone":7,"localTimestamp":{}`, "12:00 +00:00"},
		"that of the machine":   {`"localTimezone":"Local"`, "12:00 +00:00"},
		"a way out":             {`"localTimezone":"../../etc/passwd"`, "12:00 +00:00"},
		"a file":                {`"localTimezone":"/etc/passwd"`, "12:00 +00:00"},
		"a name without an end": {`"localTimezone":"` + strings.Repeat("a/", 1000) + `"`, "12:00 +00:00"},
	} {
		raw := `{"type":"message","conversation":{"id":"c"}`
		if test.fields != "" {
			raw += "," + test.fields
		}
		a, err := activity.Decode([]byte(raw + "}"))
		if err != nil {
			t.Fatal(name, err)
		}
		if got := noon.In(a.Zone()).Format("15:04 -07:00"); got != test.want {
			t.Errorf("%s: noon is at %s, want %s", name, got, test.want)
		}
	}
}
