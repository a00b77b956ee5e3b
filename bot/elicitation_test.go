package bot_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/mcp"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/planner"
)

// tracker is an MCP server whose tool asks why before it closes an issue.
type tracker struct {
	*httptest.Server
	field string // what it asks for

	mu    sync.Mutex
	calls []trackerCall
}

type trackerCall struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		State   string          `json:"requestState"`
		Answers json.RawMessage `json:"inputResponses"`
	} `json:"params"`
}

const closeTool = `{"name":"close","description":"Closes the issue","inputSchema":{"type":"object"}}`

func newTracker(t *testing.T, field string) *tracker {
	t.Helper()
	s := &tracker{field: field}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var c trackerCall
	_ = json.NewDecoder(r.Body).Decode(&c)
	result := ""
	switch c.Method {
	case "server/discover":
		result = `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}`
	case "tools/list":
		result = `{"tools":[` + closeTool + `],"ttlMs":3600000,"cacheScope":"private"}`
	case "tools/call":
		s.mu.Lock()
		s.calls = append(s.calls, c)
		s.mu.Unlock()
		result = `{"content":[{"type":"text","text":"closed"}]}`
		if c.Params.State == "" {
			result = `{"resultType":"input_required","requestState":"issue-7","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"Why?","requestedSchema":` +
				`{"type":"object","properties":{"` + s.field + `":{"type":"string"}},"required":["` + s.field + `"]}}}}}`
		}
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, result)
}

// offers lets turns plan what a connection offers.
type offers struct{ actions.Connection }

func (o offers) Extend(ctx context.Context, turn *actions.Turn) (actions.Extra, error) {
	names, _ := o.Offer(ctx, turn)
	return actions.Extra{Key: strings.Join(names, " ") + "!", Offer: func(all *actions.Registry) (*actions.Registry, error) {
		var more []*actions.Action
		for _, name := range names {
			if a, ok := o.Actions().Lookup(name); ok {
				more = append(more, a)
			}
		}
		return all.With(more...)
	}}, nil
}

func elicits(t *testing.T, s *tracker) *bottest.Kit {
	t.Helper()
	lock := connections.NewLock() // so that a process knows the tool before it has reached the server
	must(t, lock.Set("issues", map[string]jsontext.Value{"close": jsontext.Value(closeTool)}))
	return bottest.New(t, bottest.Config{New: func(ctx context.Context, parts bottest.Parts) (*bot.Bot, error) {
		conn, err := mcp.New(mcp.Config{Key: "issues", URL: s.URL, Lock: lock, Rules: connections.Rules{Unapproved: []string{"close"}}})
		if err != nil {
			return nil, err
		}
		t.Cleanup(conn.Close)
		acts := actions.New()
		acts.AddSource(conn.Actions)
		c := parts.Bot
		c.Actions = acts
		c.Planner, err = parts.Planner(ctx, "", planner.Config{Actions: acts, Extensions: []actions.Extension{offers{conn}}})
		if err != nil {
			return nil, err
		}
		return bot.New(c)
	}})
}

const closes = `{"type":"plan","commands":[{"type":"DO","action":"issues_close","entities":{},"saveAs":"C"},{"type":"SAY","response":"It is $C."}]}`

// TestElicitation: what a server wants to know becomes a card, and the call goes on after a restart.
func TestElicitation(t *testing.T) {
	t.Parallel()
	s := newTracker(t, "reason")
	kit := elicits(t, s)
	kit.Model.Says(closes)
	chat := kit.Personal("Mia")
	chat.Say("close it")
	card := chat.ExpectCard("Why?", "Reason", "issues is asking, for: Issues close. Your answer goes there. Never answer with a password.")
	kit.Settle()
	kit.Kill(1)
	kit.Restart()
	card.Press("Send", "f0", "It works now.")
	chat.Expect("It is closed.")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) != 2 || string(s.calls[0].ID) == string(s.calls[1].ID) || s.calls[1].Params.State != "issue-7" || string(s.calls[1].Params.Answers) != `{"q":{"action":"accept","content":{"reason":"It works now."}}}` {
		t.Errorf("the server saw %+v", s.calls)
	}
}

// TestElicitationOfASecret is declined, and the person reads why.
func TestElicitationOfASecret(t *testing.T) {
	t.Parallel()
	s := newTracker(t, "password")
	kit := elicits(t, s)
	kit.Model.Says(closes)
	chat := kit.Personal("Mia")
	chat.Say("close it")
	chat.Expect("It is closed\nissues asked the person for a secret. Nothing secret is asked for with cards, so it was declined..")
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.calls) != 2 || string(s.calls[1].Params.Answers) != `{"q":{"action":"decline"}}` {
		t.Errorf("the server saw %+v", s.calls)
	}
}
