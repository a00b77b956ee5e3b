package mcp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// servers are the lists in testdata/servers: how many tools each has, and of which a part of the reason why they are
// not offered. README.md beside them has the sources.
var servers = map[string]struct {
	tools   int
	leftOut map[string]string
}{
	"airtable-mcp-server.json":      {tools: 16},
	"antv-mcp-server-chart.json":    {tools: 13},
	"brave-search-mcp-server.json":  {tools: 6},
	"browserstack-mcp-server.json":  {tools: 17},
	"chrome-devtools-mcp.json":      {tools: 27},
	"context7-mcp.json":             {tools: 2},
	"desktop-commander.json":        {tools: 26},
	"everything.json":               {tools: 13, leftOut: map[string]string{"simulate-research-query": "only be called as a task"}},
	"exa-mcp-server.json":           {tools: 2},
	"excel-mcp-server.json":         {tools: 11},
	"filesystem.json":               {tools: 14},
	"firecrawl-mcp.json":            {tools: 10},
	"github.json":                   {tools: 26},
	"gitlab.json":                   {tools: 9},
	"google-maps.json":              {tools: 7},
	"hubspot-mcp-server.json":       {tools: 17},
	"lark-mcp.json":                 {tools: 17},
	"line-bot-mcp-server.json":      {tools: 9},
	"mcp-server-circleci.json":      {tools: 13},
	"mcp-server-cloudflare.json":    {tools: 62},
	"mcp-server-elasticsearch.json": {tools: 4},
	"mcp-server-fetch.json":         {tools: 1},
	"mcp-server-git.json":           {tools: 12},
	"mcp-server-time.json":          {tools: 2},
	"memory.json":                   {tools: 9},
	"monday-api-mcp.json":           {tools: 9},
	"ms-365-mcp-server.json":        {tools: 12},
	"notion-mcp-server.json":        {tools: 5},
	"perplexity-mcp-server.json":    {tools: 4},
	"playwright-mcp.json":           {tools: 25},
	"postgres.json":                 {tools: 1},
	"postman-mcp-server.json":       {tools: 16},
	"resend-mcp.json":               {tools: 26},
	"sequential-thinking.json":      {tools: 1},
	"slack.json":                    {tools: 8},
	"tavily-mcp.json":               {tools: 5},
	"todoist-mcp.json":              {tools: 9},
}

// TestServers reads tool lists of real servers.
func TestServers(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("testdata/servers")
	if err != nil || len(files) != len(servers)+1 {
		t.Fatalf("%d files, for %d servers and a README: %v", len(files), len(servers), err)
	}
	for file, want := range servers {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(filepath.Join("testdata/servers", file))
			if err != nil {
				t.Fatal(err)
			}
			var list struct{ Tools []json.RawMessage }
			if err := json.Unmarshal(raw, &list); err != nil {
				t.Fatal(err)
			}
			var tools []string
			for _, one := range list.Tools {
				tools = append(tools, string(one))
			}
			c, _ := connectTo(t, newFake(t, tools...).URL)
			names := offered(t, c)
			if len(tools) != want.tools || len(names) != len(tools)-len(want.leftOut) {
				t.Errorf("%d tools, and %d are offered", len(tools), len(names))
			}
			all, err := c.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, one := range all {
				reason, isLeftOut := want.leftOut[one.Remote]
				if (one.LeftOut != "") != isLeftOut || !strings.Contains(one.LeftOut, reason) {
					t.Errorf("%q: %q,", one.Remote, one.LeftOut)
				}
			}
		})
	}
}

// TestLargeDefinitions: what a server promises may be longer than what it asks for, which models read.
func TestLargeDefinitions(t *testing.T) {
	t.Parallel()
	of := func(bytes int) string {
		return `{"type":"object","properties":{"a":{"type":"string","description":"` + strings.Repeat("x", bytes) + `"}}}`
	}
	f := newFake(t,
		`{"name":"promises","inputSchema":`+of(100)+`,"outputSchema":`+of(200_000)+`}`, `{"name":"asks","inputSchema":`+of(70_000)+`}`,
		`{"name":"boasts","inputSchema":`+of(100)+`,"outputSchema":`+of(300_000)+`}`)
	c, _ := connectTo(t, f.URL)
	if got := offered(t, c); len(got) != 1 || got[0] != "svc_promises" {
		t.Errorf("offered %v", got)
	}
}
