package botfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/settings"

	"github.com/planbot-go/planbot/app/botfile"
)

// folder is a folder with these files.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// faultsOf reads a file, and returns its faults without the name of the file.
func faultsOf(t *testing.T, text string) (faults []string) {
	t.Helper()
	dir := folder(t, map[string]string{
		"bot.yaml": text, "secrets/token": "s3cret\n", "prompts/a/prompt.txt": "Hi.", "prompts/sequence/prompt.txt": "Hi.", "skills/a/SKILL.md": "x", "icon.png": "x", "shop.yaml": "x",
		"plugin.json": `{"schema_version":"v2.1","functions":[{"name":"a"}],"runtimes":[{"type":"OpenApi","run_for_functions":["a"]}]}`, "large.txt": strings.Repeat("x", 1<<17),
	})
	f, err := botfile.Read(filepath.Join(dir, "bot.yaml"), new(settings.Settings))
	if (f == nil) != (err != nil) {
		t.Fatalf("%v with the error %v", f, err)
	}
	if err == nil {
		return nil
	}
	for line := range strings.Lines(err.Error()) {
		line, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), filepath.Join(dir, "bot.yaml")+":")
		if !ok {
			t.Errorf("%q does not name the file", line)
		}
		faults = append(faults, line)
	}
	return faults
}

// head begins each file that has to be fine otherwise.
const head = "version: 1\nname: Desk\n"

// TestFaults: T40, T41 and the other faults that a file can have. Each has the line that it is on.
func TestFaults(t *testing.T) {
	t.Parallel()
	const secret = "is a secret, which must not be in this file: name a variable, as ${NAME}, or a file, as {file: NAME}"
	const variable = "the variable PLANBOT_NOT_SET is not set; write ${PLANBOT_NOT_SET:-} if it may be empty"
	const query = "has a secret in its query, which must not be in this file: name a variable, as ${NAME}"
	for name, c := range map[string]struct {
		text string
		want []string // in its order
	}{
		"T40": {"version: 1\nname: Desk\npromts: x\nwelcome: ${PLANBOT_NOT_SET}\nconnections:\n  crm:\n    mcp: https://mcp.example.com\n    auth:\n      bearer: abc\nprompts: ../x\n", []string{
			`3: there is no key "promts"; did you mean prompts?`, "4: welcome: " + variable, "9: connections.crm.auth.bearer: " + secret,
			"10: prompts: has .. in its path: name what is beside this file or below it",
		}},
		"T41": {head + "connections:\n  crm: {openapi: shop.yaml}\n  shop: {openapi: shop.yaml}\n  crm: {mcp: https://mcp.example.com}\n", []string{
			"6: connections.crm: is given twice, in line 4 and in line 6",
		}},
		"no file":   {"", []string{"1: there is nothing in it"}},
		"no YAML":   {head + "a: [", []string{"3: sequence end token ']' not found"}},
		"two":       {head + "---\n" + head, []string{"3: a second document begins"}},
		"no map":    {"- a", []string{"1: want names and values, have a list"}},
		"nothing":   {"x: 1", []string{`1: there is no key "x"; there are actions, approvals, connections, examples, instructions, knowledge, manifest, name, planner, prompt, prompts, settings, skills, tests, texts, version, welcome`, "1: version: has to be 1, the version of this format"}},
		"version":   {"version: 2\nname: a", []string{"1: version: has to be 1, the version of this format"}},
		"versions":  {"name: a\nversion: one", []string{`2: version: "one" is not a whole number`}},
		"a name":    {"version: 1\nname: [a]", []string{"2: name: want one value, have a list"}},
		"no value":  {head + "welcome:\nexamples: []", []string{"3: welcome: has no value", "4: examples: is an empty list"}},
		"a list":    {head + "examples: hi\nskills: {a: b}", []string{"3: examples: want a list, have one value", "4: skills: want a list, have names and values"}},
		"knowledge": {head + "knowledge: docs", []string{"3: knowledge: want names and values, have one value"}},
		"rights": {head + "knowledge: {folders: [skills], access: [all, 'person:', nobody]}", []string{
			"3: knowledge.access.1: is not everyone, nobody, or person:, team:, conversation: or group: with an id behind it",
			"3: knowledge.access.2: is not everyone, nobody, or person:, team:, conversation: or group: with an id behind it",
		}},
		"no rights": {head + "knowledge: {folders: [skills]}", []string{"3: knowledge: needs folders and access: who may read them, such as everyone or nobody"}},
		"aliases": {head + "welcome: &a hi\nexamples: [*a]\ntexts:\n  <<: *a\nplanner: !!str tools", []string{
			"3: anchors, aliases and merged keys are not allowed: write it out", "4: anchors, aliases and merged keys are not allowed: write it out",
			"6: anchors, aliases and merged keys are not allowed: write it out", "6: anchors, aliases and merged keys are not allowed: write it out", "7: tags are not allowed",
		}},
		"keys": {head + "texts:\n  ${HOME}: {a: b}\n  de: {a: b, a: c}", []string{
			`4: texts: variables stand in values only, not in the key "${HOME}"`, "5: texts.de.a: is given twice, in line 5 and in line 5",
		}},
		"variables": {head + "welcome: ${1}\nexamples: ['a ${PATH', '${PLANBOT_NOT_SET:-${PATH}}']", []string{
			"3: welcome: ${ begins a variable, which has the form ${NAME} or ${NAME:-default}; write $${ for these characters",
			"4: examples.1: ${ begins a variable, which has the form ${NAME} or ${NAME:-default}; write $${ for these characters",
			"4: examples.2: ${ begins a variable, which has the form ${NAME} or ${NAME:-default}; write $${ for these characters",
		}},
		"paths": {head + "prompts: /etc\nskills: [a/../../b, 'C:\\b', icon.png, none, '']\ntests: [skills]\nmanifest: {icon: \"${PATH}\"}\ninstructions: {file: /etc/hostname}", []string{
			"3: prompts: is an absolute path: name what is beside this file or below it",
			"4: skills.1: has .. in its path: name what is beside this file or below it",
			"4: skills.2: is an absolute path: name what is beside this file or below it",
			`4: skills.3: "icon.png" is not a folder`, `4: skills.4: "none" is not beside this file`, "4: skills.5: is not a path",
			`5: tests.1: "skills" is not a file`,
			"6: manifest.icon: is an absolute path: name what is beside this file or below it",
			"7: instructions: is an absolute path: name what is beside this file or below it",
		}},
		"files": {head + "instructions: {file: large.txt}\nmanifest: {icon: none.png}", []string{
			"3: instructions: large.txt is larger than 64 KiB", `4: manifest.icon: "none.png" is not beside this file`,
		}},
		"no file named": {head + "instructions: {fiel: a}", []string{`3: instructions: there is no key "fiel"; did you mean file?`}},
		"planner":       {head + "planner: best", []string{"3: planner: has to be one of sequence, sequential, tools"}},
		"settings": {head + "settings:\n  BOT_MAX_STEPS: none\n  BOT_MAX_STEP: 3\n  OPENAI_API_KEY: sk-1\n  REDIS_URL: redis://:pw@localhost\n  BOT_PLANNER: tools\n  BOT_FILE: a\n  BOT_DATA_DIR: /var\n  BOT_STREAM: [a]\n  PORT: ${PATH}", []string{
			`4: settings.BOT_MAX_STEPS: "none" is not a whole number from 1 to 2147483647`, "5: settings.BOT_MAX_STEP: there is no such setting; did you mean BOT_MAX_STEPS?",
			"6: settings.OPENAI_API_KEY: " + secret, "7: settings.REDIS_URL: " + secret, "8: settings.BOT_PLANNER: stands in this file as planner",
			"9: settings.BOT_FILE: cannot be set here", "10: settings.BOT_DATA_DIR: has to be a path below the folder of this file",
			"11: settings.BOT_STREAM: want one value, have a list", "12: settings.PORT: the value of its variable is not what this setting takes",
		}},
		"kinds": {head + "connections:\n  Git: {mcp: https://a.example}\n  a: {summary: none}\n  b: {mcp: https://a.example, openapi: shop.yaml}\n  c: {mcp: https://a.example, env: {A: b}, server: https://b.example}\n  d: {openapi: shop.yaml, timeout: 1m}\n  e: {command: [./none.sh]}\n  f:", []string{
			"4: connections.Git: want a lower-case letter, then at most 15 lower-case letters or digits",
			"5: connections.a: wants one of mcp, command and openapi, has 0 of them",
			"6: connections.b: wants one of mcp, command and openapi, has 2 of them",
			"7: connections.c.env: is for a connection with command", "7: connections.c.server: is for a connection with openapi",
			"8: connections.d.timeout: is for a connection with mcp or command", `9: connections.e.command: "./none.sh" is not beside this file`,
			"10: connections.f: has no value",
		}},
		"addresses": {head + "connections:\n  a: {mcp: mcp.example.com}\n  b: {mcp: 'https://me:pw@mcp.example.com'}\n  c: {openapi: shop.yaml, server: 'https://me@shop.example.com', private: [10.0.0.1]}", []string{
			"4: connections.a.mcp: is not an address such as https://mcp.example.com/mcp", "5: connections.b.mcp: is not an address without a user name and a password",
			"6: connections.c.private.1: \"10.0.0.1\" is not a network such as 10.1.0.0/16", "6: connections.c.server: is not an address without a user name and a password",
		}},
		"keys in addresses": {head + "connections:\n  a: {mcp: 'https://a.example/mcp?tenant=1&api_key=abc'}\n  b: {mcp: 'https://${PLANBOT_NOT_SET:-b.example}/mcp?api_key=${PATH}&token='}\n" +
			"  c: {openapi: 'https://c.example/doc?token=${PLANBOT_NOT_SET:-abc}', server: 'https://c.example?sig=1&key=x${PATH}'}\n  d: {mcp: '${PLANBOT_NOT_SET:-https://d.example/?key=abc}'}", []string{
			"4: connections.a.mcp: " + query, "6: connections.c.openapi: " + query, "6: connections.c.server: " + query, "7: connections.d.mcp: " + query,
		}},
		"rules": {head + "connections:\n  a: {mcp: https://a.example, trust: 'yes', allow: [x], approve: [y], unapproved: [x], timeouts: {z: 1m}}\n  b: {openapi: shop.yaml, approve: [x], unapproved: [x], allow: []}", []string{
			"4: connections.a.timeouts: z is not allowed", "4: connections.a.trust: has to be annotations, or left out",
			"5: connections.b.allow: is an empty list", "5: connections.b.unapproved.1: x is in approve as well",
		}},
		"a file as short as can be": {"version: 1\nprompt: prompts/sequence\nskills: [skills/]\nconnections:\n  github: {mcp: https://mcp.example.com/, auth: {bearer: \"${PATH}\"}, trust: annotations}\n" +
			"  crm: {openapi: shop.yaml, server: https://crm.example.com/v2, auth: {header: X-Key, value: \"${PATH}\"}}\nactions:\n" +
			"  - {from: github, allow: [search_issues, create_issue], approve: [create_issue]}\n  - {from: crm, allow: [GET], approve: [POST, PATCH]}\n", nil},
		"rules in actions": {head + "connections:\n  a: {mcp: https://a.example, allow: [x]}\n  b: {mcp: https://a.example}\nactions:\n  - {from: a, allow: [x]}\n  - {from: c}\n  - {from: b}\n  - {from: b, approve: [x]}\n  - {allow: [x]}", []string{
			"7: actions.1: the rules of a stand elsewhere, too", `8: actions.2.from: there is no connection "c"`, "10: actions.4: the rules of b stand elsewhere, too",
			`11: actions.5.from: there is no connection ""`,
		}},
		"prompt": {head + "prompt: prompts/a", []string{"3: prompt: has to be a folder with the name of a planner: sequence, sequential, tools"}},
		"client credentials": {head + "connections:\n  a: {mcp: https://a.example, auth: {client_credentials: {token_url: 'http://b.example', client_id: x, client_secret: '${PATH}'}}}\n" +
			"  b: {mcp: https://a.example, auth: {client_credentials: {token_url: https://b.example, client_id: x, client_secret: abc}}}", []string{
			"4: connections.a.auth.client_credentials: needs token_url, an https address, and client_id and client_secret", "5: connections.b.auth.client_credentials.client_secret: " + secret,
		}},
		"prompt and planner": {head + "prompt: prompts/sequence\nplanner: tools", []string{"3: prompt: is for the planner sequence, and planner says tools"}},
		"auth": {head + "connections:\n  a: {mcp: https://a.example, auth: {}}\n  b: {mcp: https://a.example, auth: {query: key, value: '${PATH}'}}\n  c: {openapi: shop.yaml, auth: {header: X-Key}}\n" +
			"  d: {openapi: shop.yaml, auth: {basic: {user: me}}}\n  e: {openapi: shop.yaml, auth: {header: 'X Key', value: '${PATH}'}}\n  f: {command: [x], auth: {sign_in: x}}\n" +
			"  g: {openapi: shop.yaml, auth: {basic: {user: me, password: pw}}}\n  h: {openapi: shop.yaml, auth: {bearer: '${PLANBOT_NOT_SET:-pw}'}}\n  i: {openapi: shop.yaml, auth: {bearer: 'x${PATH}'}}\n" +
			"  j: {openapi: shop.yaml, auth: {bearer: {file: ../token}}}\n  k: {openapi: shop.yaml, auth: {bearer: '${PLANBOT_NOT_SET}'}}\n  l: {openapi: shop.yaml, auth: {bearer: [a]}}", []string{
			"4: connections.a.auth: wants one of bearer, basic, header, query, sign_in, oauth and client_credentials, has 0 of them", "5: connections.b.auth.query: is for a connection with openapi",
			"6: connections.c.auth: value is for header and query, which need it", "7: connections.d.auth.basic: needs user and password",
			"8: connections.e.auth.header: is not the name of a header", "9: connections.f.auth: is not for a command, which gets its secrets as env",
			"10: connections.g.auth.basic.password: " + secret, "11: connections.h.auth.bearer: " + secret, "12: connections.i.auth.bearer: " + secret,
			"13: connections.j.auth.bearer: has .. in its path: name what is beside this file or below it", "14: connections.k.auth.bearer: " + variable,
			"15: connections.l.auth.bearer: want a variable such as ${NAME}, or a file, have a list",
		}},
		"oauth": {head + "connections:\n  a: {openapi: shop.yaml, auth: {oauth: {}}}\n  b: {mcp: https://a.example, auth: {oauth: {client_secret: abc, scope: x}}}", []string{
			"4: connections.a.auth.oauth: needs resource, the address of the service, as the connection has no server",
			"5: connections.b.auth.oauth.client_secret: " + secret, "5: connections.b.auth.oauth: needs issuer with a client_secret: otherwise the service would say who gets it",
			`5: connections.b.auth.oauth: there is no key "scope"; did you mean scopes?`,
		}},
		"header": {head + "connections:\n  a:\n    openapi: shop.yaml\n    auth: {bearer: {file: token}}\n    header:\n      X-Api-Key: abc\n      'a b': c\n      Authorization: ${PLANBOT_SET:-x}", []string{
			`6: connections.a.auth.bearer: "token" is not beside this file`, "8: connections.a.header.X-Api-Key: " + secret,
			"9: connections.a.header.a b: is not the name of a header", "10: connections.a.header.Authorization: is the header of auth",
		}},
		"env": {head + "connections:\n  a:\n    command: [x]\n    env:\n      API_TOKEN: abc\n      LEVEL: debug\n      my-var: a\n      EMPTY_KEY: ''", []string{
			"7: connections.a.env.API_TOKEN: " + secret, "9: connections.a.env.my-var: is not the name of a variable",
		}},
		"plugin": {head + "connections:\n  a: {openapi: shop.yaml, plugin: plugin.json, allow: [x]}\n  b: {openapi: shop.yaml, plugin: shop.yaml}\n  c: {openapi: shop.yaml, plugin: plugin.json}", []string{
			"4: connections.a.allow: is what the manifest in plugin says: have one of them", "5: connections.b.plugin: jsontext: invalid character 'x' at start of value",
		}},
		"approvals of services": {head + "connections: {crm: {openapi: shop.yaml}}\napprovals: {actions: [crm_send, crmSend]}", []string{
			"4: approvals.actions.1: is an action of a connection: name it in connections.crm.approve, as the service does",
		}},
		"approvals": {head + "approvals: {actions: ['a,b'], timeout: long}", []string{`3: approvals.actions.1: is not the name of an action`, `3: approvals.timeout: "long" is not a duration such as 30s or 5m`}},
		"a bool":    {head + "manifest: {files: on}", []string{`3: manifest.files: "on" is not true or false`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := faultsOf(t, c.text)
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("faults:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

// TestFaultsShowNoSecret: what came from a variable or a file is in no error.
func TestFaultsShowNoSecret(t *testing.T) {
	t.Setenv("PLANBOT_SECRET", "s3cret\nvalue")
	faults := strings.Join(faultsOf(t, head+"connections:\n  a: {openapi: shop.yaml, auth: {bearer: '${PLANBOT_SECRET}'}}\n  b: {mcp: '${PLANBOT_SECRET}'}\nplanner: ${PLANBOT_SECRET}\nprompts: ${PLANBOT_SECRET}\nversion: ${PLANBOT_SECRET}\n"), "\n")
	if strings.Contains(faults, "s3cret") || strings.Count(faults, "\n") < 4 {
		t.Error(faults)
	}
}

// TestFaultsShowNoValueOfAVariable: beside other text, in a long value that is cut, or quoted, wherever a fault
// names what stands in the file.
func TestFaultsShowNoValueOfAVariable(t *testing.T) {
	t.Setenv("PLANBOT_SECRET", `s3cret"x`)
	t.Setenv("PLANBOT_LONG", strings.Repeat("l0ng-s3cret.", 20))
	for _, text := range []string{
		"settings: {BOT_MAX_STEPS: '1${V}'}", "settings: {PORT: 'a ${V} b'}", "settings: {BOT_LOG_LEVEL: '${V}'}",
		"actions: [{from: 'x${V}', allow: [a]}]", "planner: 'x${V}'", "version: '1${V}'", "examples: [{a: '${V}'}]",
		"instructions: {file: '${V}.md'}", "instructions: {file: '${V}'}", "prompt: 'a/${V}'", "knowledge: {folders: ['k${V}'], access: ['x${V}']}",
		"connections: {a: {mcp: 'ftp//${V}'}}", "connections: {a: {openapi: 'x${V}.yaml'}}", "connections: {a: {openapi: shop.yaml, plugin: '${V}.json'}}",
		"connections: {a: {mcp: 'https://a.example', approve: ['x${V}'], unapproved: ['x${V}']}}",
		"connections: {a: {mcp: 'https://a.example', trust: '${V}'}}", "connections: {a: {mcp: 'https://a.example', timeout: '${V}'}}",
		"connections: {a: {openapi: shop.yaml, private: ['10.${V}']}}", "manifest: {files: 'x${V}', icon: '${V}.png'}", "tests: ['${V}/x']",
		"approvals: {actions: ['a,${V}'], timeout: '1${V}'}",
	} {
		for _, name := range []string{"PLANBOT_SECRET", "PLANBOT_LONG"} {
			faults := strings.Join(faultsOf(t, head+strings.ReplaceAll(text, "${V}", "${"+name+"}")+"\n"), "\n")
			if faults == "" || strings.Contains(faults, "s3cret") {
				t.Errorf("%s: %s", text, faults)
			}
		}
	}
}

// TestSizes: a file is at most 1 MiB, and has at most 100 faults to read.
func TestSizes(t *testing.T) {
	t.Parallel()
	if got := faultsOf(t, head+strings.Repeat("a: 1\n", 500)); len(got) != 101 || got[100] != " 400 more faults" {
		t.Errorf("%d faults, the last is %q", len(got), got[len(got)-1])
	}
	dir := folder(t, map[string]string{"bot.yaml": head + "# " + strings.Repeat("x", 1<<20)})
	for name, want := range map[string]string{"bot.yaml": "bot.yaml is larger than 1024 KiB", "none.yaml": "BOT_FILE: " + dir + "/none.yaml does not exist", ".": "is not a file"} {
		if _, err := botfile.Read(filepath.Join(dir, name), new(settings.Settings)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
