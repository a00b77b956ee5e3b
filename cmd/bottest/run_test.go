package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"
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
	registryOfTests = `[{"name": "addItem", "description": "d", "parameters": {"type": "object", "properties": {"list": {"type": "string"}, "item": {"type": "string"}}}}, {"name": "openPod", "description": "d"}]`
	titled          = `[{"name": "addItem", "title": "Put on a list", "examples": ["put {item} on {list}"], "parameters": {"type": "object", "properties": {"list": {"type": "string"}, "item": {"type": "string", "title": "Thing"}}}}]`
	helps           = `{"name": "helps", "steps": [{"event": {"type": "message", "conversation": "c1", "from": "ann", "text": "help"}, "expect": {"model_calls": 0}}]}`
	bad             = `{"name": "wrong", "steps": [{"event": {"type": "message", "conversation": "c1", "from": "ann", "text": "hi"}, "model": ["Hello."], "expect": {"replies": ["Good bye."]}}]}`
)

func TestTestCommand(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range map[string]string{
		"good.yaml": good, "bad.json": bad, "broken.json": strings.Replace(bad, `"replies"`, `"reply"`, 1), "empty.json": "[]",
		"unknown.json": strings.Replace(bad, `"replies": ["Good bye."]`, `"actions": [{"action": "openPod"}]`, 1),
		"bare":         good, "bare-json": bad, "mixed/a.YAML": good, "mixed/b.json": bad, "mixed/c.txt": "no", "mixed/a.cassette.yaml": "calls: []", "mixed/.d.json": "no", "mixed/sub/e.txt": "no",
		"mixed/actions.json": registryOfTests, "mixed/registry.json": registryOfTests, "actions.json": registryOfTests,
		"helps.json": helps, "titled.json": titled,
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700); err != nil {
			t.Fatal(err)
		}
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
		"with titles":    {[]string{"-v", "--actions", file("titled.json"), file("helps.json")}, 0, []string{"**Put on a list**: “put {Thing} on {List}”"}, "1 passed, 0 failed", ""},
		"one of them":    {[]string{"--run", "^gre", "-v", file("good.yaml")}, 0, []string{"ok    greets"}, "1 passed, 0 failed", ""},
		"as go test":     {[]string{"-run", "adds", file("good.yaml")}, 0, nil, "1 passed, 0 failed", ""},
		"all as go test": {[]string{"-actions", file("actions.json"), "-junit", file("go.xml"), "-verbose", "-run=adds", file("good.yaml")}, 0, []string{"ok    adds"}, "1 passed, 0 failed", ""},
		"as go test, =":  {[]string{"-run=adds", file("good.yaml")}, 0, nil, "1 passed, 0 failed", ""},
		"failure":        {[]string{file("bad.json"), file("good.yaml")}, cli.ExitFailed, []string{"FAIL  wrong", `step 1: expect.replies: got ["Hello."], want ["Good bye."]`, "what happened:"}, "2 passed, 1 failed", ""},
		"fault":          {[]string{file("broken.json"), file("good.yaml")}, cli.ExitFailed, nil, "2 passed, 1 failed", file("broken.json") + `: scenario "wrong", step 1: expect.reply: there is no such field`},
		"unknown action": {[]string{file("unknown.json")}, cli.ExitFailed, []string{`step 1: expect.actions[0].action: there is no action "openPod"`}, "0 passed, 1 failed", ""},
		"known there":    {[]string{"--actions", file("actions.json"), file("unknown.json")}, cli.ExitFailed, []string{"expect.actions: got []"}, "0 passed, 1 failed", ""},
		"no file":        {[]string{file("none.json"), file("good.yaml")}, cli.ExitFailed, nil, "2 passed, 1 failed", file("none.json") + ": no such file or directory\n"},
		"no scenario":    {[]string{file("empty.json"), file("good.yaml")}, cli.ExitFailed, nil, "2 passed, 1 failed", file("empty.json") + ": there are no scenarios in it\n"},
		"none so named":  {[]string{"--run", "x", file("good.yaml")}, cli.ExitFailed, nil, "0 passed, 1 failed", "--run x: no scenario has such a name\n"},
		"no actions":     {[]string{"--actions", file("good.yaml"), file("good.yaml")}, cli.ExitFailed, nil, "0 passed, 1 failed", file("good.yaml") + ": "},
		"actions away":   {[]string{"--actions", file("none.json"), file("good.yaml")}, cli.ExitFailed, nil, "0 passed, 1 failed", file("none.json") + ": no such file or directory\n"},
		"folder":         {[]string{"-v", "--actions", file("mixed/registry.json"), file("mixed")}, cli.ExitFailed, []string{"ok    greets", "ok    adds", "FAIL  wrong"}, "2 passed, 1 failed", ""},
		"empty folder":   {[]string{file("mixed/sub"), file("good.yaml")}, cli.ExitFailed, nil, "2 passed, 1 failed", file("mixed/sub") + ": there is no file of scenarios in this folder\n"},
		"no such JUnit":  {[]string{"--junit", file("none/junit.xml"), file("good.yaml")}, cli.ExitFailed, nil, "2 passed, 0 failed", "bottest: --junit: open " + file("none/junit.xml")},
		"JUnit a folder": {[]string{"--junit", root, file("bad.json")}, cli.ExitFailed, []string{"FAIL  wrong"}, "0 passed, 1 failed", root},
		"YAML by no ext": {[]string{file("bare")}, 0, nil, "2 passed, 0 failed", ""},
		"JSON by no ext": {[]string{file("bare-json")}, cli.ExitFailed, []string{"FAIL  wrong"}, "0 passed, 1 failed", ""},
		"no expression":  {[]string{"--run", "(", file("good.yaml")}, cli.ExitUsage, nil, "", "--run: "},
		"no arguments":   {nil, cli.ExitUsage, nil, "", "<file>"},
		"no such flag":   {[]string{"-nope", file("good.yaml")}, cli.ExitUsage, nil, "", "--nope"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := execute(t, "", append([]string{"run"}, c.args...)...)
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
		code, out, errs := execute(t, "", "run", "-json", "--junit", file("junit.xml"), file("none.json"), file("bad.json"), file("good.yaml"))
		var got struct {
			Passed, Failed int
			Scenarios      []struct{ Name, File string }
		}
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != cli.ExitFailed || got.Passed != 2 || got.Failed != 2 || !strings.HasSuffix(errs, "2 passed, 2 failed\n") {
			t.Errorf("exit code %d, %v, output:\n%s\nerrors:\n%s", code, err, out, errs)
		}
		raw, err := os.ReadFile(file("junit.xml"))
		if err != nil {
			t.Fatal(err)
		}
		var suites struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
			Cases    []struct {
				Name string `xml:"name,attr"`
			} `xml:"testsuite>testcase"`
		}
		if err := xml.Unmarshal(raw, &suites); err != nil || suites.Tests != 4 || suites.Failures != 2 {
			t.Errorf("%v in %s", err, raw)
		}
		if want := file("none.json"); got.Scenarios[0].Name != want || suites.Cases[0].Name != want || suites.Cases[1].Name != "wrong" {
			t.Errorf("what cannot be read is called %q and %q, want %s", got.Scenarios[0].Name, suites.Cases[0].Name, want)
		}
		if left, err := filepath.Glob(file("*.part")); err != nil || left != nil {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	t.Run("standard input", func(t *testing.T) {
		t.Parallel()
		if code, out, errs := execute(t, good, "run", "-"); code != 0 || !strings.HasSuffix(out, "2 passed, 0 failed\n") {
			t.Errorf("YAML: exit code %d\n%s%s", code, out, errs)
		}
		if code, out, errs := execute(t, "\ufeff"+bad, "run", "-", file("good.yaml")); code != cli.ExitFailed || !strings.Contains(out, "FAIL  wrong") || !strings.HasSuffix(out, "2 passed, 1 failed\n") {
			t.Errorf("JSON: exit code %d\n%s%s", code, out, errs)
		}
		if code, out, errs := execute(t, "", "run", "-"); code != cli.ExitFailed || out != "0 passed, 1 failed\n" || !strings.HasPrefix(errs, "stdin: ") {
			t.Errorf("nothing: exit code %d\n%s%s", code, out, errs)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out, errs strings.Builder
		code := run(ctx, []string{"run", "--junit", file("cut.xml"), file("good.yaml")}, &cli.Streams{In: os.Stdin, Out: &out, Err: &errs})
		raw, err := os.ReadFile(file("cut.xml"))
		if code != cli.ExitFailed || out.String() != "0 passed, 0 failed\n" || !strings.Contains(errs.String(), "interrupted") || err != nil || xml.Unmarshal(raw, new(struct{})) != nil {
			t.Errorf("exit code %d, %v\n%s%s\n%s", code, err, out.String(), errs.String(), raw)
		}
	})
}

// TestJUnitToADevice: what is no plain file is written to, not replaced by one.
func TestJUnitToADevice(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	target, link := filepath.Join(root, "there.xml"), filepath.Join(root, "link.xml")
	if err := errors.Join(os.WriteFile(target, nil, 0o600), os.Symlink(target, link), os.WriteFile(filepath.Join(root, "a.yaml"), []byte(good), 0o600)); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := execute(t, "", "run", "--junit", link, filepath.Join(root, "a.yaml")); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	raw, err := os.ReadFile(target)
	info, lerr := os.Lstat(link)
	if err != nil || lerr != nil || info.Mode().IsRegular() || !strings.Contains(string(raw), `tests="2"`) {
		t.Errorf("%v, %v: %s", err, lerr, raw)
	}
}

// TestHelpBeginsWithTheCommand: what belongs to a command comes before the settings.
func TestHelpBeginsWithTheCommand(t *testing.T) {
	t.Parallel()
	for flag, command := range map[string]string{"--junit FILE": "run", "--against NAME=VALUE": "eval"} {
		_, out, _ := execute(t, "", command, "--help")
		own, settings, port := strings.Index(out, flag), strings.Index(out, "Settings, also"), strings.Index(out, "--port int")
		if own < 0 || own > settings || settings > port {
			t.Errorf("bottest %s --help:\n%.1500s", command, out)
		}
	}
}
