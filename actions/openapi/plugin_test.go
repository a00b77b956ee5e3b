package openapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions/openapi"
)

const manifest = `{
	"$schema": "https://developer.microsoft.com/json-schemas/copilot/plugin/v2.4/schema.json",
	"schema_version": "v2.4", "name_for_human": "Shop", "namespace": "shop", "description_for_human": "x",
	"functions": [
		{"name": "listItems", "description": "Lists", "capabilities": {
			"confirmation": {"type": "AdaptiveCard", "isNonConsequential": true, "title": "Sure?"},
			"response_semantics": {"data_path": "$.data.items", "properties": {"title": "$.name"}}}},
		{"name": "getItem", "capabilities": {"confirmation": {"type": "AdaptiveCard"}, "response_semantics": {"data_path": "$.items[*].x"}}},
		{"name": "addItem", "capabilities": {"confirmation": {"type": "None"}, "security_info": {"data_handling": ["ResourceStateUpdate"]}}},
		{"name": "other"}
	],
	"runtimes": [
		{"type": "OpenApi", "auth": {"type": "None"}, "spec": {"url": "shop.yaml"}, "run_for_functions": ["*Item", "listItems"]},
		{"type": "RemoteMCPServer", "spec": {"url": "https://mcp.example"}}
	]
}`

// TestReadPlugin: a manifest is an allow-list, and what else it says is named.
func TestReadPlugin(t *testing.T) {
	t.Parallel()
	p, err := openapi.ReadPlugin(file(t, manifest))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Rules.Allow, []string{"listItems", "getItem", "addItem"}) || !slices.Equal(p.Rules.Approve, []string{"getItem"}) || p.Rules.Unapproved != nil || p.Rules.Trust {
		t.Errorf("%+v", p.Rules)
	}
	if diff := cmp.Diff(map[string]openapi.Answer{"listItems": {Data: "/data/items"}}, p.Answers); diff != "" {
		t.Error(diff)
	}
	warnings := `/name_for_human: has no effect
/namespace: has no effect
/description_for_human: has no effect
/functions/0/description: has no effect
/functions/0/capabilities/confirmation/title: has no effect
/functions/0/capabilities/response_semantics/properties: has no effect
/functions/1/capabilities/response_semantics/data_path: only the names of members are understood, such as $.items: the whole answer is used
/functions/2/capabilities/confirmation/type: None takes no approval away
/functions/2/capabilities/security_info/data_handling: ResourceStateUpdate is not enforced
/functions/3: no OpenApi runtime runs other
/runtimes/0/auth: has no effect
/runtimes/0/spec: has no effect
/runtimes/1: a runtime of the type RemoteMCPServer has no effect`
	wanted := strings.Split(warnings, "\n")
	slices.Sort(wanted)
	slices.Sort(p.Warnings)
	if diff := cmp.Diff(wanted, p.Warnings); diff != "" {
		t.Error(diff)
	}
	c := connect(t, nil, shop, func(cfg *openapi.Config) { cfg.Rules, cfg.Answers = p.Rules, p.Answers })
	for name, approval := range map[string]bool{"svc_listItems": false, "svc_getItem": true, "svc_addItem": true} {
		if a := action(t, c, name); a.Approval != approval {
			t.Errorf("%s: approval %t", name, a.Approval)
		}
	}
}

func TestPluginsThatAreNone(t *testing.T) {
	t.Parallel()
	for text, faults := range map[string]string{
		`{`:  "read plugin",
		`[]`: "read plugin",
		`{"schema_version":"v2.1","schema_version":"v2.1"}`:                                   "duplicate",
		`{"schema_version":"v1"}`:                                                             "/schema_version: want v2|/runtimes: there is no OpenApi runtime",
		`{"schema_version":"v2.4","runtimes":{}}`:                                             "/runtimes: want a list",
		`{"schema_version":"v2.4","runtimes":[{"type":"OpenApi","run_for_functions":["a"]}]}`: "/functions: there are none",
		`{"schema_version":"v2.4","functions":[],"runtimes":[{"type":"OpenApi"}]}`:            "/functions: no OpenApi runtime runs any",
		`{"schema_version":"v2.4","functions":[{"name":"a"},{"name":"a"},{"name":"a-b"},{}],"runtimes":[{"type":"OpenApi","run_for_functions":["[", 1]}]}`: "/functions/1/name: a is there twice|/functions/2/name: want|/functions/3/name: want|/runtimes/0/run_for_functions/0|/runtimes/0/run_for_functions/1",
		`{"schema_version":"v2.4","functions":[{"name":"a","capabilities":{"confirmation":{"type":"Card"}}}],"runtimes":[{"type":"OpenApi"}]}`:             "/functions/0/capabilities/confirmation/type: want None or AdaptiveCard",
		strings.Repeat(" ", 1<<20) + "{}": "too large",
	} {
		_, err := openapi.ReadPlugin(file(t, text))
		for fault := range strings.SplitSeq(faults, "|") {
			if !strings.Contains(textOf(err), fault) {
				t.Errorf("%.100s: %v, want %q", text, err, fault)
			}
		}
	}
	p, err := openapi.ReadPlugin(file(t, `{"schema_version":"v2.1","runtimes":[{"type":"OpenApi"}]}`))
	if err != nil || p.Rules.Allow != nil {
		t.Errorf("%+v, %v", p, err)
	}
}
