package app

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/fakemodel"
)

// TestAFolderIsAnAction: a prompt with an input is planned and run like any other
// action, with no Go written for it.
func TestAFolderIsAnAction(t *testing.T) {
	t.Parallel()
	dir := filesIn(t, map[string]string{
		"ShortPoem/skprompt.txt": "A poem about {{$input}}, please.",
		"ShortPoem/config.json":  `{"description": "Writes a short poem", "completion": {"model": "poet"}, "input": {"parameters": [{"name": "input", "description": "its subject"}]}}`,
	})
	model := fakemodel.New(t)
	model.Says(`{"type":"plan","commands":[{"type":"DO","action":"ShortPoem","entities":{"input":"cats"},"saveAs":"POEM"},{"type":"SAY","response":"Here: $POEM"}]}`)
	model.Says("Cats purr.")
	code, out, errs := execute(t, "a poem about cats\n", "chat", "--openai-base-url="+model.URL, "--openai-model=planner", "--bot-prompts-dir="+dir)
	if code != 0 || !strings.Contains(out, "Here: Cats purr.") {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	calls := model.Calls()
	if len(calls) != 2 {
		t.Fatalf("%d calls", len(calls))
	}
	if want := "ShortPoem(input) - Writes a short poem"; !strings.Contains(calls[0].Text(), want) || calls[0].Model != "planner" {
		t.Errorf("%s was asked: %s", calls[0].Model, calls[0].Text())
	}
	if got := calls[1].Text(); got != "user: A poem about cats, please.\n" || calls[1].Model != "poet" {
		t.Errorf("%s was asked: %s", calls[1].Model, got)
	}
}

func TestApprovalOfAFolder(t *testing.T) {
	t.Parallel()
	dir := filesIn(t, map[string]string{
		"Pay/prompt.txt":  "Pay.",
		"Pay/config.json": `{"description": "Pays", "input": {"parameters": []}}`,
	})
	if code, _, errs := execute(t, "", "plan", "--bot-approval-actions=Pay", "--bot-prompts-dir="+dir, "hello"); code != 0 {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestEveryFaultOfThePromptsIsListed at once, each with its file or prompt.
func TestEveryFaultOfThePromptsIsListed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"a text": {map[string]string{"sequence/prompt.txt": "{{nofn}} {{$foo.bar.baz}} {{$scope.x}} {{1}}"}, []string{
			"sequence/prompt.txt:1:10: want a $variable", "sequence/prompt.txt:1:40: want a $variable",
			`prompt sequence: no function "nofn"`, `prompt sequence: $scope.x: no scope "scope"`,
		}},
		"all files": {map[string]string{
			"sequence/prompt.txt": "{{actions}}", "sequence/extra.txt": "", "sequence/config.json": `{"foo": 1, "completion": {"max_tokens": "9"}}`,
			"sequence/actions.json": `[{"name": "createList"}, {"name": "nope"}, {"name": "createList"}]`,
		}, []string{
			"sequence/extra.txt: has no meaning", "sequence/config.json: completion.max_tokens: got string", "sequence/config.json: additional properties 'foo'",
			"sequence/actions.json: the action createList is named twice", `prompt sequence: actions.json: there is no action "nope"`,
		}},
		"an action": {map[string]string{
			"addItem/prompt.txt": "{{$input}} {{$style}}", "addItem/config.json": `{"input": {"parameters": [{"name": "input"}, {"name": "Input"}, {"name": "unused"}]}}`,
		}, []string{
			"addItem/config.json: the parameter Input: the name is taken", "addItem/config.json: the parameter unused has no effect",
			"prompt action addItem: prompt addItem: config.json: no description", "prompt action addItem: prompt addItem: $style is no parameter",
		}},
		"an action's name": {map[string]string{
			"addItem/prompt.txt": "{{$input}}", "addItem/config.json": `{"description": "d", "input": {"parameters": [{"name": "input"}]}}`,
		}, []string{`action name "addItem" is taken`}},
		"a faulty action": {map[string]string{
			"Poem/prompt.txt": "{{fn}}", "Poem/config.json": `{"description": "d", "input": {"parameters": []}}`,
			"sequence/prompt.txt": "{{oops}}", "sequence/actions.json": `[{"name": "Poem"}]`,
		}, []string{`prompt Poem: no function "fn"`, `prompt sequence: no function "oops"`, `there is no action "Poem"`}},
		"folders of nobody": {map[string]string{
			"Seqence/prompt.txt": "x", "Squence/prompt.txt": "x", "tool/prompt.txt": "x", "poem/prompt.txt": "x", "poem/config.json": "{}", "tools/prompt.txt": "for another planner",
			"odd/prompt.txt": "x", "odd/config.json": "{",
		}, []string{
			"prompt Seqence: nothing uses it, as it is neither sequence, sequential, tools nor an action (config.json without input.parameters)",
			"prompt Squence: nothing uses it", "prompt tool: nothing uses it", "prompt poem: nothing uses it", "odd/config.json: is no JSON", "prompt odd: nothing uses it",
		}},
	} {
		_, err := env{"bot-prompts-dir": filesIn(t, c.files)}.read()
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: not listed: %s in\n%v", name, want, err)
			}
		}
		lines := 0
		for line := range strings.Lines(err.Error()) {
			lines++
			if !strings.HasPrefix(line, "BOT_PROMPTS_DIR: ") || !strings.Contains(line, "/") && !strings.Contains(line, "prompt ") && !strings.Contains(line, "action ") {
				t.Errorf("%s: of what is %s", name, line)
			}
		}
		want := len(c.want)
		if lines != want {
			t.Errorf("%s: %d faults, want %d:\n%v", name, lines, want, err)
		}
	}
}
