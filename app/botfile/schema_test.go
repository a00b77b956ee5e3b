package botfile_test

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/settings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/planbot-go/planbot/app/botfile"
	"github.com/planbot-go/planbot/internal/yamltext"
)

func schema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	raw, err := os.ReadFile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", parsed); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestTheSchemaHasTheKeys: every key that is read is in the schema, and the other way round.
func TestTheSchemaHasTheKeys(t *testing.T) {
	t.Parallel()
	compared := 0
	var compare func(path string, s *jsonschema.Schema, read reflect.Type)
	compare = func(path string, s *jsonschema.Schema, read reflect.Type) {
		for s.Ref != nil {
			s = s.Ref
		}
		switch read.Kind() {
		case reflect.Pointer:
			compare(path, s, read.Elem())
		case reflect.Slice:
			if item, ok := s.Items2020, s.Items2020 != nil; ok {
				compare(path+"[]", item, read.Elem())
			}
		case reflect.Map:
			if item, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
				compare(path+".*", item, read.Elem())
			} else {
				t.Errorf("%s: the schema has no values", path)
			}
		case reflect.Struct:
			keys := map[string]reflect.Type{}
			for i := range read.NumField() {
				if key := read.Field(i).Tag.Get("yaml"); key != "" {
					keys[key] = read.Field(i).Type
				}
			}
			if len(keys) == 0 {
				return // one value
			}
			compared++
			if s.AdditionalProperties != false {
				t.Errorf("%s: the schema allows other keys", path)
			}
			if in, out := slices.Sorted(maps.Keys(keys)), slices.Sorted(maps.Keys(s.Properties)); !slices.Equal(in, out) {
				t.Errorf("%s: read are\n%s, the schema has\n%s", path, in, out)
				return
			}
			for key, of := range keys {
				compare(path+"."+key, s.Properties[key], of)
			}
		}
	}
	compare("", schema(t), botfile.Content)
	if compared != 13 {
		t.Errorf("compared %d objects, want 13", compared)
	}
}

// whole is a file with every kind of value.
const whole = `version: 1
name: Desk
instructions: {file: secrets/token}
welcome: Hello ${PATH}
examples: [one, 2, true]
planner: tools
prompts: prompts
skills: [skills]
knowledge: {folders: [skills], access: [everyone, 'person:a'], every: 1h}
actions: [addItem]
connections:
  tracker:
    mcp: ${PLANBOT_TRACKER:-https://mcp.example.com/mcp}
    summary: Issues
    auth: {bearer: {file: secrets/token}}
    trust: annotations
    allow: [a, b]
    approve: [a]
    unapproved: [b]
    timeout: 90s
    timeouts: {a: 5m}
  local:
    command: [npx, -y, server]
    env: {LEVEL: debug, API_KEY: '${PATH}'}
  shop:
    openapi: shop.yaml
    plugin: plugin.json
    server: https://shop.example.com/v2
    variables: {region: eu}
    auth: {header: X-Key, value: '${PATH}'}
    headers: [X-Trace]
    private: [10.1.0.0/16]
    follow_redirects: true
    answers: {list: {data: /items, fields: [id]}}
  far: {openapi: 'https://far.example.com/openapi.json', auth: {query: key, value: {file: secrets/token}}}
  basic: {openapi: shop.yaml, auth: {basic: {user: me, password: '${PATH}'}}}
  mine: {mcp: 'https://mine.example.com', auth: {sign_in: Graph}}
  yours: {mcp: 'https://yours.example.com', auth: {oauth: {issuer: 'https://login.example.com', client_id: x, client_secret: '${PATH}', scopes: [a]}}}
  theirs: {mcp: 'https://theirs.example.com', auth: {oauth: {}}}
approvals: {actions: [addItem], approvers: [me], timeout: 1h}
texts: {de: {"Hello": "Hallo"}}
settings: {BOT_HISTORY_TURNS: 8, BOT_STREAM: true, PORT: '${PLANBOT_PORT:-3979}', REDIS_URL: '${PLANBOT_REDIS:-}'}
tests: [shop.yaml]
manifest:
  version: 1.0.1
  icon: icon.png
  commands: [{title: help, description: Helps}]
  scopes: [personal]
  files: true
`

// TestTheSchemaJudgesAsTheLoader: what one of them accepts the other does too, as far as a schema can tell:
// it knows no variables and no other files.
func TestTheSchemaJudgesAsTheLoader(t *testing.T) {
	t.Parallel()
	s := schema(t)
	samples := map[string]bool{head: true, whole: true, "version: 1": true, "name: Desk": false, "[]": false}
	for _, good := range []string{
		"welcome: ''", "planner: sequential", "settings: {BOT_MAX_STEPS: '7'}", "connections: {a: {mcp: 'http://localhost:8080/mcp'}}",
		"connections: {a: {command: [x]}}", "connections: {a: {openapi: shop.yaml}}", "connections: {}", "prompt: prompts/sequence", "manifest: {files: 'false'}",
	} {
		samples[head+good] = true
	}
	for _, bad := range []string{
		"promts: x", "knowledge: docs", "knowledge: {}", "knowledge: {folders: [skills]}", "knowledge: {folders: [skills], access: [all]}", "knowledge: {folders: [skills], access: ['team:']}", "settings: {BOT_KNOWLEDGE_DIR: skills}", "welcome:", "examples: hi", "examples: []", "examples: [[a]]", "planner: best", "prompts: /etc", "prompts: ../x", "prompts: a/../b",
		"skills: ['C:\\x']", "instructions: {fiel: a}", "instructions: {}", "connections: {Git: {mcp: 'https://a.example'}}", "connections: {a: {}}", "connections: {a: }",
		"connections: {a: {mcp: 'https://a.example', openapi: shop.yaml}}", "connections: {a: {mcp: 'https://a.example', env: {A: b}}}",
		"connections: {a: {mcp: 'https://a.example', server: 'https://b.example'}}", "connections: {a: {openapi: shop.yaml, timeout: 1m}}",
		"connections: {a: {mcp: a.example}}", "connections: {a: {mcp: 'https://a.example', trust: true}}", "connections: {a: {mcp: 'https://a.example', auth: {bearer: abc}}}",
		"connections: {a: {mcp: 'https://a.example', auth: {}}}", "connections: {a: {mcp: 'https://a.example', auth: {query: k, value: '${PATH}'}}}",
		"connections: {a: {openapi: shop.yaml, auth: {header: X-Key}}}", "connections: {a: {openapi: shop.yaml, auth: {bearer: '${PATH}', value: '${PATH}'}}}",
		"connections: {a: {openapi: shop.yaml, auth: {bearer: '${PATH}', sign_in: x}}}", "connections: {a: {openapi: shop.yaml, auth: {basic: {user: me}}}}",
		"connections: {a: {command: [x], auth: {sign_in: x}}}", "connections: {a: {command: [x], header: {A: b}}}", "connections: {a: {openapi: shop.yaml, header: [A]}}", "connections: {a: {command: [x], env: {my-var: a}}}", "connections: {a: {command: x}}",
		"connections: {a: {mcp: 'https://a.example', timeout: long}}", "connections: {a: {openapi: shop.yaml, follow_redirects: on}}",
		"approvals: {timeout: 5}", "approvals: {action: [a]}", "settings: {BOT_PLANNER: tools}", "settings: {BOT_FILE: a}", "settings: {BOT_STREAM: [a]}", "settings: [a]",
		"texts: {de: Hallo}", "tests: [/etc/hostname]", "manifest: {icon: /x.png}", "manifest: {files: maybe}", "manifest: {commands: [a]}", "manifest: {app_id: x}",
	} {
		samples[head+bad] = false
	}
	for text, good := range samples {
		if faults := faultsOf(t, text); (faults == nil) != good {
			t.Errorf("%s\nis read with %s", text, faults)
		}
		raw, err := yamltext.JSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != good {
			t.Errorf("%s\nby the schema: %v", text, err)
		}
	}
	if len(samples) < 50 {
		t.Errorf("only %d samples", len(samples))
	}
}

// ExampleRead reads a bot that needs no code.
func ExampleRead() {
	dir, err := os.MkdirTemp("", "bot")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "bot.yaml")
	text := "version: 1\nname: Desk\nwelcome: Hello!\npromts: folder\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		panic(err)
	}
	_, err = botfile.Read(file, new(settings.Settings))
	_, _ = os.Stdout.WriteString(strings.TrimPrefix(err.Error(), dir+string(filepath.Separator)) + "\n")
	if err := os.WriteFile(file, []byte(strings.Replace(text, "promts: folder\n", "", 1)), 0o600); err != nil {
		panic(err)
	}
	f, err := botfile.Read(file, new(settings.Settings))
	_, _ = os.Stdout.WriteString(f.Welcome() + "\n")
	// Output:
	// bot.yaml:4: there is no key "promts"; did you mean prompts?
	// Hello!
}
