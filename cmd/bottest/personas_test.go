package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/fakemodel"
)

// TestPersonas: simulated people get what they want of the default bot, and what they do not get is a failure, whatever
// the bot says.
func TestPersonas(t *testing.T) {
	t.Parallel()
	const shipped = "../../examples/eval/personas.yaml"
	if code, out, errs := execute(t, "", "eval", "--min=1", shipped); code != 0 || !strings.HasSuffix(out, "\n10 passed, 0 failed\n") || errs != "" {
		t.Errorf("offline: %d %s%s", code, out, errs)
	}
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "personas.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	greedy := file(`
personas:
  - {name: Ada, says: [{say: add milk to groceries}, {if: "*bread*", say: add eggs to groceries}], want: {lists: {groceries: [milk, eggs]}}}
  - {name: Ben, lists: {old: [rope]}, says: [{say: delete the old list}], want: {never: [deleteList]}}
  - {name: Cleo, says: [{say: sing}], want: {calls: [addItem]}}
`)
	code, out, errs := execute(t, "", "eval", "--min=0.5", greedy)
	if code != cli.ExitFailed || errs != "" {
		t.Errorf("code %d: %s%s", code, out, errs)
	}
	for _, want := range []string{
		"the lists are map[groceries:[milk]], not map[groceries:[eggs milk]]", "deleteList was called", "addItem was called 0 times, not 1", "0 passed, 3 failed", "Ada: add milk",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	for text, want := range map[string]string{
		"personas: []": "there are no personas", "personas: [{name: A, goal: b, moods: []}]": "moods",
		"personas: [{name: A}]": "it wants nothing", "personas: [{name: A, says: [{if: '[', say: x}], want: {never: [x]}}]": "no pattern",
	} {
		if code, _, errs := execute(t, "", "eval", file(text)); code != cli.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: %d %s", text, code, errs)
		}
	}
	if code, _, errs := execute(t, "", "eval", "--limit-tokens=5", shipped); code != cli.ExitUsage || !strings.Contains(errs, "these are personas") {
		t.Errorf("%d %s", code, errs)
	}
}

// TestPersonasOfAModel: a model plays the person, and what the bot says that it did does not count.
func TestPersonasOfAModel(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call, err := fakemodel.Read(r.Body)
		if err != nil {
			t.Error(err)
		}
		prompt := call.Messages[0].Text
		answer := `{"type":"plan","commands":[{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"}},{"type":"SAY","response":"Added milk."}]}`
		switch {
		case strings.HasPrefix(prompt, "You play Ada") && strings.Contains(call.Last("user"), "Added milk."):
			answer = "OVER"
		case strings.HasPrefix(prompt, "You play Ada"):
			answer = "milk, please"
		case call.Model == "liar":
			answer = `{"type":"plan","commands":[{"type":"SAY","response":"Added milk."}]}`
		}
		fakemodel.Answer{Text: answer}.Write(w, r, call)
	}))
	defer server.Close()
	const ada = "personas: [{name: Ada, goal: Milk is on the list groceries., want: {lists: {groceries: [milk]}}}]"
	name := filepath.Join(t.TempDir(), "ada.yaml")
	if err := os.WriteFile(name, []byte(ada), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := execute(t, "", "eval", "--min=1", "--openai-base-url="+server.URL, "--openai-model=honest", "--against=OPENAI_MODEL=liar", name)
	if code != cli.ExitFailed || !strings.Contains(out, "a ok    Ada (1 turns)") || !strings.Contains(out, "b FAIL  Ada (1 turns)") || errs != "" {
		t.Errorf("%d %s%s", code, out, errs)
	}
}
