package requests_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/bot/requests"
	"github.com/planbot-go/planbot/bot/turn"
)

// TestTheRecordOfARequest: other releases read and write it, so its members keep their names.
func TestTheRecordOfARequest(t *testing.T) {
	t.Parallel()
	const request = `"request":{"subject":"s","person":"p","by":"Coder","action":"wipe","entities":{"where":"here"},"status":"rejected"}`
	rec, err := turn.Decode([]byte(`{"v":2,"id":"a","accepted":"2026-11-30T09:00:00Z","activity":{},"phase":"planning",` +
		`"notice":{"messages":null,"known":{},"run":"planbot/request",` + request + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	p, ok := requests.Of(&rec)
	if !ok || p.Action != "wipe" || string(p.Entities) != `{"where":"here"}` || requests.Program(&rec) != "Coder" {
		t.Errorf("read %+v", p)
	}
	raw, err := rec.Encode()
	if err != nil || !strings.Contains(string(raw), request) || !strings.Contains(string(raw), `"run":"planbot/request"`) {
		t.Errorf("written as %s, %v", raw, err)
	}
}
