package golden_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/models"
)

// failures is a test that keeps why it fails.
type failures []string

func (*failures) Helper() {}

func (f *failures) Failed() bool { return len(*f) > 0 }

func (f *failures) Errorf(format string, args ...any) { *f = append(*f, fmt.Sprintf(format, args...)) }

// Not parallel: it sets the environment.
func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "deep", "golden.txt")
	t.Setenv("BOTTEST_UPDATE", "")
	compare := func(text string) string {
		var got failures
		golden.Compare(&got, file, text)
		return strings.Join(got, "\n")
	}
	if got := compare("one\n"); !strings.Contains(got, "there is no "+file+" yet; go test with BOTTEST_UPDATE=1") {
		t.Errorf("no file: %s", got)
	}
	t.Setenv("BOTTEST_UPDATE", "1")
	if got := compare("one\n"); got != "" {
		t.Errorf("written: %s", got)
	}
	t.Setenv("BOTTEST_UPDATE", "0")
	if got := compare("one\n"); got != "" {
		t.Errorf("the same: %s", got)
	}
	if got := compare("two\n"); !strings.HasSuffix(got, "(-file +now):\n@@ -1,1 +1,1 @@\n-one\n+two\n") {
		t.Errorf("another: %s", got)
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "one\n" {
		t.Errorf("%q, %v", raw, err)
	}
	if err := golden.Write(file, []byte("one\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := compare("one\n"); got != "" {
		t.Errorf("the same after a checkout on Windows: %s", got)
	}
}

// Not parallel: it sets the environment.
func TestNothingIsTakenFromATestThatFailed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "golden.txt")
	t.Setenv("BOTTEST_UPDATE", "1")
	golden.Compare(&failures{"it failed"}, file, "one\n")
	if _, err := os.ReadFile(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("want no file, got %v", err)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	if got := golden.Diff("a\n", "a\n"); got != "" {
		t.Errorf("%q of the same", got)
	}
	if got := golden.Diff("a\nb\nc\n", "a\nB\nc\nd\n"); got != "@@ -1,3 +1,4 @@\n a\n-b\n+B\n c\n+d\n" {
		t.Errorf("%q", got)
	}
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	warm := 0.5
	got := golden.Prompt(&models.Request{
		Messages: []models.Message{
			{Role: "system", Text: "You are a bot.\n=== user\nBe one."},
			{Role: "system", Text: `2026-11-21 05:46 +01:00, Saturday; group chat; "Mia" writes:`},
			{Role: "user", Text: "it was 2026-11-21 05:46 +01:00, Saturday"},
			{Role: "assistant", Text: "Well.", Calls: []models.Call{{ID: "c1", Name: "add", Arguments: `{"a":1}`}, {ID: "c2", Name: "sub"}}},
			{Role: "assistant", Calls: []models.Call{{ID: "c3", Name: "add"}}},
			{Role: "tool", CallID: "c1", Text: "2\n"},
		},
		Tools:  []models.Tool{{Name: "add", Description: "Adds", Schema: []byte(`{"z":1,"a":[2, "x y"],"b":[{}],"c":[]}`), Strict: true}},
		Format: &models.Format{Name: "plan", Schema: []byte(`{"type":"object"}`)}, MaxTokens: 7, Temperature: &warm,
		Stop: []string{"x"}, Choice: "required", OneCallAtMost: true,
	})
	want := `=== system
You are a bot.
 === user
Be one.

=== system
2006-01-02 12:00 +00:00, Monday; group chat; "Mia" writes:

=== user
it was 2026-11-21 05:46 +01:00, Saturday

=== assistant
Well.
calls add c1: {"a":1}
calls sub c2

=== assistant
calls add c3

=== tool c1
2

=== tools
add (strict): Adds
{
  "z": 1,
  "a": [2, "x y"],
  "b": [
    {}
  ],
  "c": []
}

=== answer as JSON plan
{
  "type": "object"
}

=== settings
max_tokens: 7
temperature: 0.5
stop: ["x"]
tool_choice: required
one_call_at_most: true
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	prompt, _, _ := strings.Cut(want, "\n=== answer")
	if diff := cmp.Diff(prompt, golden.PromptOf(got)); diff != "" {
		t.Errorf("without settings: -want +got\n%s", diff)
	}
}
