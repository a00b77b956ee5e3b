package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	good = `
scenarios:
  - name: greets
    steps:
      - event: {type: message, conversation: c1, from: ann, text: hi}
        model: [Hello.]
        expect: {replies: [Hello.], model_calls: 1}
  - name: adds
    steps:
      - event: {type: message, conversation: c1, from: ann, text: add tea}
        model: ['{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"shop","item":"tea"}},{"type":"SAY","response":"Added."}]}']
        expect: {actions: [{action: addItem, entities: {list: shop, item: tea}}], replies: [Added.], state: {lists: {shop: [tea]}}}
`
	bad = `{"name": "wrong", "steps": [{"event": {"type": "message", "conversation": "c1", "from": "ann", "text": "hi"}, "model": ["Hello."], "expect": {"replies": ["Good bye."]}}]}`
)

func TestTestCommand(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"good.yaml": good, "bad.json": bad, "broken.json": strings.Replace(bad, `"replies"`, `"reply"`, 1), "empty.json": "[]",
		"unknown.json": strings.Replace(bad, `"replies": ["Good bye."]`, `"actions": [{"action": "openPod"}]`, 1),
		"actions.json": `[{"name": "addItem", "description": "d", "parameters": {"type": "object", "properties": {"list": {"type": "string"}, "item": {"type": "string"}}}}, {"name": "openPod", "description": "d"}]`,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := func(name string) string { return filepath.Join(root, name) }
	for name, c := range map[string]struct {
		args []string
		code int
		out  []string // parts of standard output
		last string   // its last line
		err  string   // a part of standard error
	}{
		"all pass":       {[]string{file("good.yaml")}, 0, nil, "2 passed, 0 failed", ""},
		"verbose":        {[]string{"-v", file("good.yaml")}, 0, []string{"ok    greets", "ok    adds", "add tea"}, "2 passed, 0 failed", ""},
		"scripted":       {[]string{"--actions", file("actions.json"), file("good.yaml")}, 0, nil, "2 passed, 0 failed", ""},
		"one of them":    {[]string{"--run", "^gre", "-v", file("good.yaml")}, 0, []string{"ok    greets"}, "1 passed, 0 failed", ""},
		"as go test":     {[]string{"-run", "adds", file("good.yaml")}, 0, nil, "1 passed, 0 failed", ""},
		"as go test, =":  {[]string{"-run=adds", file("good.yaml")}, 0, nil, "1 passed, 0 failed", ""},
		"failure":        {[]string{file("bad.json"), file("good.yaml")}, exitFailed, []string{"FAIL  wrong", `step 1: expect.replies: got ["Hello."], want ["Good bye."]`, "what happened:"}, "2 passed, 1 failed", ""},
		"fault":          {[]string{file("broken.json"), file("good.yaml")}, exitFailed, nil, "2 passed, 1 failed", file("broken.json") + `: scenario "wrong", step 1: expect.reply: there is no such field`},
		"unknown action": {[]string{file("unknown.json")}, exitFailed, nil, "0 passed, 1 failed", `scenario "wrong", step 1: expect.actions[0].action: there is no action "openPod"`},
		"known there":    {[]string{"--actions", file("actions.json"), file("unknown.json")}, exitFailed, []string{"expect.actions: got []"}, "0 passed, 1 failed", ""},
		"no file":        {[]string{file("none.json")}, exitUsage, nil, "", "none.json"},
		"no scenario":    {[]string{file("empty.json")}, exitUsage, nil, "", "there is no scenario to play"},
		"none so named":  {[]string{"--run", "x", file("good.yaml")}, exitUsage, nil, "", "there is no scenario to play"},
		"no expression":  {[]string{"--run", "(", file("good.yaml")}, exitUsage, nil, "", "--run: "},
		"no actions":     {[]string{"--actions", file("good.yaml"), file("good.yaml")}, exitUsage, nil, "", "good.yaml: "},
		"no arguments":   {nil, exitUsage, nil, "", "<file>"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := run(t, "", append([]string{"test"}, c.args...)...)
			lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
			if code != c.code || c.last != "" && lines[len(lines)-1] != c.last || !strings.Contains(errs, c.err) {
				t.Fatalf("exit code %d, want %d, output:\n%s\nerrors:\n%s", code, c.code, out, errs)
			}
			for _, part := range c.out {
				if !strings.Contains(out, part) {
					t.Errorf("no %q in:\n%s", part, out)
				}
			}
		})
	}
	t.Run("forms", func(t *testing.T) {
		t.Parallel()
		code, out, errs := run(t, "", "test", "--json", "--junit", file("junit.xml"), file("bad.json"), file("good.yaml"))
		var got struct{ Passed, Failed int }
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitFailed || got.Passed != 2 || got.Failed != 1 || !strings.HasSuffix(errs, "2 passed, 1 failed\n") {
			t.Errorf("exit code %d, %v, output:\n%s\nerrors:\n%s", code, err, out, errs)
		}
		raw, err := os.ReadFile(file("junit.xml"))
		if err != nil {
			t.Fatal(err)
		}
		var suites struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
		}
		if err := xml.Unmarshal(raw, &suites); err != nil || suites.Tests != 3 || suites.Failures != 1 {
			t.Errorf("%v in %s", err, raw)
		}
	})
}
