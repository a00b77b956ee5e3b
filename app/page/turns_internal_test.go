package page

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/turnlog"
)

// TestUnsent says why a reply that was planned is not there.
func TestUnsent(t *testing.T) {
	t.Parallel()
	said := []turnlog.Plan{{Commands: []turnlog.PlanCommand{{Kind: "SAY", Response: "Hi."}}}}
	for name, c := range map[string]struct {
		rec  turnlog.Record
		want string
	}{
		"sent":     {turnlog.Record{Plans: said, Sent: []turnlog.Sent{{Activity: []byte(`{}`)}}}, ""},
		"answered": {turnlog.Record{Plans: said, Received: turnlog.Received{Answer: []byte(`{}`)}}, ""},
		"no SAY":   {turnlog.Record{}, ""},
		"a hook":   {turnlog.Record{Plans: said, Sent: []turnlog.Sent{{Kind: "typing"}}}, "BeforeSay"},
		"around":   {turnlog.Record{Plans: said, Journal: []turnlog.Save{{Phase: "sending"}}}, "around the channel"},
	} {
		c.rec.Outcome = turnlog.OK
		if got := (&turnView{Record: c.rec}).Unsent(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
