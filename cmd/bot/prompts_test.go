package main

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
	code, out, errs := run(t, "a poem about cats\n", "chat", "--openai-base-url="+model.URL, "--openai-model=planner", "--bot-prompts-dir="+dir)
	if code != 0 || !strings.Contains(out, "Here: Cats purr.") {
		t.Fatalf("exit %d\n%s\n%s", code, out, errs)
	}
	calls := model.Calls()
	if len(calls) != 2 {
		t.Fatalf("%d calls", len(calls))
	}
	if want := `ShortPoem(input: string "its subject") - Writes a short poem`; !strings.Contains(calls[0].Text(), want) || calls[0].Model != "planner" {
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
	if code, _, errs := run(t, "", "plan", "--bot-approval-actions=Pay", "--bot-prompts-dir="+dir, "hello"); code != 0 {
		t.Errorf("exit %d: %s", code, errs)
	}
}
