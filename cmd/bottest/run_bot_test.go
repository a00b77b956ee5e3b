package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"
)

const withSkill = `
scenarios:
  - name: unit
    steps:
      - event: {type: message, conversation: c1, from: ann, text: how many pounds are 3 kg}
        model:
          - '{"type":"plan","commands":[{"type":"DO","action":"load_skill","entities":{"skillName":"unit-converter"}}]}'
          - 6.6 pounds.
        expect: {actions: [{action: load_skill, entities: {skillName: unit-converter}}], replies: [6.6 pounds.], model_calls: 2, prompt_contains_call2: [convert.py]}
      - event: {type: message, conversation: c1, from: ann, text: /skill translator}
        expect: {replies: [Loaded the skill translator.], model_calls: 0}
`

// TestTestOfSettings: without a registry scenarios play with the skills and the prompts that
// are set.
func TestTestOfSettings(t *testing.T) {
	t.Parallel()
	file := write(t, t.TempDir(), "x.yaml", withSkill)
	if code, out, errs := execute(t, "", "run", "--bot-skills-dir", "../../examples/skills", file); code != 0 {
		t.Errorf("with skills: exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs := execute(t, "", "run", file); code != cli.ExitFailed || !strings.Contains(out, `there is no action "load_skill"`) {
		t.Errorf("without: exit code %d\n%s", code, errs)
	}
	code, out, errs := execute(t, "", "run", "--bot-prompts-dir", "none", file)
	if code != cli.ExitFailed || !strings.Contains(errs, "BOT_PROMPTS_DIR") || !strings.HasSuffix(out, "0 passed, 1 failed\n") {
		t.Errorf("wrong settings: exit code %d\n%s%s", code, out, errs)
	}
}

// TestTestOfPrompts: the prompts of a recording are compared with those in its cassette, until
// changed ones are taken.
func TestTestOfPrompts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	recorded := write(t, dir, "said.scenario.yaml", strings.Split(good, "  - name: adds")[0])
	prompts := t.TempDir()
	write(t, prompts, "sequence/prompt.txt", "Be terse.\n{{actions}}")
	const head = "# Look before you share it.\n"
	const cassette = "calls:\n  - asked: \"=== system\\nBe good.\\n\\n=== settings\\nmax_tokens: 5\\n\"\n    answer: {text: Hello., model: gpt}\n"
	tape := write(t, dir, "said.cassette.yaml", head+cassette)
	for _, step := range []struct {
		name string
		args []string
		code int
		out  string
	}{
		{"changed", nil, cli.ExitFailed, "step 1: call 1 of " + tape + " was asked something else; if this is meant, bottest run --update, takes it (-file +now):\n"},
		{"taken", []string{"--update"}, 0, ""},
		{"the same", nil, 0, ""},
		{"changed by a setting", []string{"--bot-prompts-dir", prompts}, cli.ExitFailed, "+Be terse."},
		{"not looked at", []string{"--actions", write(t, t.TempDir(), "actions.json", registryOfTests)}, 0, ""},
	} {
		code, out, errs := execute(t, "", append(append([]string{"run"}, step.args...), recorded)...)
		if code != step.code || !strings.Contains(out, step.out) || errs != "" {
			t.Errorf("%s: exit code %d\n%s%s", step.name, code, out, errs)
		}
	}
	got, err := os.ReadFile(tape)
	if err != nil || !strings.HasPrefix(string(got), head) || !strings.Contains(string(got), `"model": "gpt"`) || !strings.Contains(string(got), "max_tokens: 5") {
		t.Errorf("%v in\n%s", err, got)
	}

	for why, other := range map[string]string{
		"the answers in it are not those of the scenario": strings.Replace(cassette, "Hello.", "Hi.", 1),
		"scenarios are played with the planner sequence":  cassette + "    planner: tools\n",
	} {
		write(t, dir, "said.cassette.yaml", other)
		if code, out, errs := execute(t, "", "run", recorded); code != 0 || errs != "bottest: prompts are not compared with "+tape+": "+why+"\n" {
			t.Errorf("%s: exit code %d\n%s%s", why, code, out, errs)
		}
	}
}

// write makes a file with that text.
func write(t *testing.T, dir, name, text string) (file string) {
	t.Helper()
	file = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestTestOfAFile: the bot in a file is played, with what the file says of it, and its own tests without others.
func TestTestOfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const bot = "version: 1\nname: Stock\nwelcome: Hi there!\nactions: [addItem]\napprovals: {actions: [addItem]}\n"
	scenario := func(steps string) string { return "scenarios:\n  - name: one\n    steps:\n" + steps }
	const added = `'{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"x","item":"y"}}]}'`
	write(t, dir, "good.yaml", scenario("      - event: {type: conversationUpdate, conversation: c1, from: ann, membersAdded: [{id: \"28:bot\"}]}\n        expect: {replies: [Hi there!]}\n"+
		"      - event: {type: message, conversation: c1, from: ann, text: add y to x}\n        model: ["+added+"]\n        expect: {replies: [<approval_card addItem list=x item=y>]}\n"))
	other := write(t, dir, "other.yaml", scenario("      - event: {type: message, conversation: c1, from: ann, text: hi}\n        model: ['{\"type\":\"plan\",\"commands\":[{\"type\":\"DO\",\"action\":\"removeItem\",\"entities\":{\"list\":\"x\",\"item\":\"y\"}}]}', Hm.]\n        expect: {replies: [Hm.], actions: []}\n"))
	tested := write(t, dir, "tested.yaml", bot+"tests: [good.yaml]\n")
	for _, c := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"--file=" + tested}, 0, "1 passed, 0 failed\n"},
		{[]string{"--file=" + tested, other}, 0, "1 passed, 0 failed\n"},
		{[]string{"--file=" + write(t, dir, "bot.yaml", bot)}, cli.ExitUsage, ""},
		{[]string{"--file=" + write(t, dir, "broken.yaml", "version: 1\n")}, cli.ExitUsage, ""},
	} {
		if code, out, errs := execute(t, "", append([]string{"run"}, c.args...)...); code != c.code || out != c.out {
			t.Errorf("%s: exit code %d\n%s%s", c.args, code, out, errs)
		}
	}
}
