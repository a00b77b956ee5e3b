package mcp_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/mcp"
)

// TestTasksAreNotOffered: what can only be called as a task cannot be called.
func TestTasksAreNotOffered(t *testing.T) {
	t.Parallel()
	f := newFake(t, tool("send"), tool("long", `,"execution":{"taskSupport":"required"}`), tool("either", `,"execution":{"taskSupport":"optional"}`))
	c, log := connectTo(t, f.URL)
	if got := offered(t, c); !slices.Equal(got, []string{"svc_either", "svc_send"}) {
		t.Errorf("offered %v", got)
	}
	if !strings.Contains(log.String(), "only be called as a task") {
		t.Error("nobody is told")
	}
}

// TestMisspelledRules: a name that no tool has is named, with what may be meant.
func TestMisspelledRules(t *testing.T) {
	t.Parallel()
	f := newFake(t, tool("write"), tool("read"))
	c, log := connectTo(t, f.URL, func(cfg *mcp.Config) {
		cfg.Rules = connections.Rules{Allow: []string{"wriet", "read"}, Approve: []string{"reed"}, Unapproved: []string{"write"}}
		cfg.Timeouts = map[string]time.Duration{"raed": time.Second}
	})
	offered(t, c)
	offered(t, c)
	for name, count := range map[string]int{"wriet": 1, "reed": 1, "raed": 1, "did you mean write?": 1} {
		if got := strings.Count(log.String(), name); got != count {
			t.Errorf("%s stands %d times in the log", name, got)
		}
	}
	tools, err := c.List(t.Context())
	if err != nil || len(tools) != 5 {
		t.Errorf("%+v, %v", tools, err)
	}
	for _, one := range tools {
		if unknown := strings.Contains(one.LeftOut, "no such tool"); unknown != slices.Contains([]string{"wriet", "reed", "raed"}, one.Remote) {
			t.Errorf("%+v", one)
		}
	}
}

// TestWhatOldServersMayAsk: they are told that nobody can be asked, and the new ones that somebody can.
func TestWhatOldServersMayAsk(t *testing.T) {
	t.Parallel()
	f := newFake(t, tool("send"))
	f.legacy = true
	c, _ := connectTo(t, f.URL)
	offered(t, c)
	f.mu.Lock()
	defer f.mu.Unlock()
	met := false
	for _, m := range f.seen {
		if m.Method == "initialize" {
			met = true
			if strings.Contains(string(m.Params.Can), "elicitation") {
				t.Errorf("declared %s", m.Params.Can)
			}
		}
	}
	if !met {
		t.Error("no handshake")
	}
}

// TestRulesOfTheRoot are told to models, and a fault says which rule it is.
func TestRulesOfTheRoot(t *testing.T) {
	t.Parallel()
	f := newFake(t, `{"name":"pay","description":"Pays.","inputSchema":{"type":"object","properties":{"card":{"type":"string"},"iban":{"type":"string"},"cvv":{"type":"string"},"note":{"type":"string"}},
		"propertyNames":{"pattern":"^[a-z]"},"oneOf":[{"required":["card"]},{"required":["iban"]}],"dependentRequired":{"card":["cvv"]},"not":{"required":["iban","cvv"]},"minProperties":2}}`)
	c, _ := connectTo(t, f.URL)
	offered(t, c)
	a, _ := c.Actions().Lookup("svc_pay")
	for _, want := range []string{"Pays.", "Give card, or iban.", "With card give cvv, too.", "Do not give iban and cvv at the same time.", "Give at least 2 of these.", "Their names fit ^[a-z]."} {
		if !strings.Contains(a.Description, want) {
			t.Errorf("%q is not in %q", want, a.Description)
		}
	}
	for _, c := range []struct {
		given map[string]any
		want  []string
	}{
		{map[string]any{"card": "1", "iban": "2"}, []string{"the entities: want"}},
		{map[string]any{"card": "1", "note": "2"}, []string{"cvv", "because card is given"}},
		{map[string]any{"iban": "1", "cvv": "2"}, []string{"iban and cvv at the same time"}},
		{map[string]any{"iban": "1"}, []string{"at least 2"}},
		{map[string]any{"iban": "1", "2nd": "x"}, []string{"entity 2nd: want an entity of another name: pattern ^[a-z]"}},
		{map[string]any{"card": "1", "cvv": "3", "iban": "2", "note": "x"}, []string{"the entities: want"}},
	} {
		_, err := a.Check(c.given)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", c.given, err, want)
			}
		}
	}
}

// TestAServerThatDiesAtItsStart says why.
func TestAServerThatDiesAtItsStart(t *testing.T) {
	t.Parallel()
	c, log, _ := onStdio(t, "broken")
	offered(t, c)
	if !strings.Contains(log.String(), "No module named 'httpx'") || !strings.Contains(log.String(), "an MCP server is away") {
		t.Errorf("logged %s", log.String())
	}
	if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), "No module named 'httpx'") {
		t.Errorf("the operator reads %v", err)
	}
}
