package openapi_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/openapi"
)

func ExampleNew() {
	desk := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":7,"title":"Printer","path":%q}`, r.URL.Path)
	}))
	defer desk.Close()
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	document := filepath.Join(folder, "desk.yaml")
	if err := os.WriteFile(document, []byte(`
openapi: 3.1.0
info: {title: Help desk, version: "1"}
paths:
  /tickets/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: integer}}]
    get: {operationId: getTicket, summary: Shows a ticket, responses: {200: {description: the ticket}}}
    delete: {operationId: deleteTicket, responses: {204: {description: it is gone}}}
    put: {operationId: putTicket, responses: {204: {description: it is changed}}}
`), 0o600); err != nil {
		panic(err)
	}

	c, err := openapi.New(context.Background(), openapi.Config{
		Key: "desk", Document: document, Server: desk.URL, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Rules: connections.Rules{Allow: []string{"GET", "deleteTicket"}},
	})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	for _, o := range c.Operations() {
		if o.Action == nil {
			fmt.Println(o.Remote, "is left out:", o.LeftOut)
			continue
		}
		fmt.Println(o.Action.Name, "needs approval:", o.Action.Approval)
	}
	show, _ := c.Actions().Lookup("desk_getTicket")
	result, err := show.Call(context.Background(), &actions.Turn{}, map[string]any{"id": 7})
	fmt.Println(result.Text(), err)
	// Output:
	// desk_getTicket needs approval: false
	// putTicket is left out: it is not in the rules
	// desk_deleteTicket needs approval: true
	// {"id":7,"path":"/tickets/7","title":"Printer"} <nil>
}

func ExampleReadPlugin() {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	manifest := filepath.Join(folder, "ai-plugin.json")
	if err := os.WriteFile(manifest, []byte(`{
		"schema_version": "v2.4",
		"functions": [
			{"name": "getTicket"},
			{"name": "deleteTicket", "capabilities": {"confirmation": {"type": "AdaptiveCard", "title": "Delete?"}}}
		],
		"runtimes": [{"type": "OpenApi", "run_for_functions": ["*"]}]
	}`), 0o600); err != nil {
		panic(err)
	}
	plugin, err := openapi.ReadPlugin(manifest)
	fmt.Println(plugin.Rules.Allow, plugin.Rules.Approve, err)
	for _, warning := range plugin.Warnings {
		fmt.Println(warning)
	}
	// Output:
	// [getTicket deleteTicket] [deleteTicket] <nil>
	// /functions/1/capabilities/confirmation/title: has no effect
}
