// Package golden keeps what tests compare with in files, which tests write anew when that
// is asked for: prompts of models above all, as text.
package golden

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/planbot-go/planbot/models"
)

// T is what is needed of a test.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Failed() bool
}

// HowTo says how files are written anew.
const HowTo = "go test with BOTTEST_UPDATE=1 in the environment"

// Updating reports whether files are to be written anew.
func Updating() bool {
	yes, _ := strconv.ParseBool(os.Getenv("BOTTEST_UPDATE")) // anything else is no
	return yes
}

// Compare fails the test, and shows the difference, unless the file has that text. How lines
// end does not count: checkouts change that. When files are to be written anew, it has the text
// from now on, if the test has not failed.
func Compare(t T, file, got string) {
	t.Helper()
	if Updating() {
		if t.Failed() {
			return // what a bot says that does something wrong
		}
		if err := Write(file, []byte(got)); err != nil {
			t.Errorf("write what tests compare with: %v", err)
		}
		return
	}
	raw, err := os.ReadFile(file)
	want := strings.ReplaceAll(string(raw), "\r\n", "\n")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Errorf("there is no %s yet; %s, writes it", file, HowTo)
	case err != nil:
		t.Errorf("read what tests compare with: %v", err)
	case want != got:
		t.Errorf("%s has something else; if this is meant, %s, writes it anew (-file +now):\n%s", file, HowTo, Diff(want, got))
	}
}

// Diff shows in lines how the second text differs from the first: "" when it does not.
func Diff(a, b string) string {
	text := string(diff.Diff("a", []byte(a), "b", []byte(b)))
	if i := strings.Index(text, "\n@@ "); i >= 0 {
		return text[i+1:] // without the names, which say nothing here
	}
	return text
}

// Write makes the file, and its folder if there is none.
func Write(file string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o600)
}

// clock is the time of a turn, as prompts say it.
var clock = regexp.MustCompile(`\d{4}-\d\d-\d\d( \d\d:\d\d [+-]\d\d:\d\d)?, (Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day`)

// noon and monday stand for the time of a turn and for its date: they are others whenever a
// test runs.
const (
	noon   = "2006-01-02 12:00 +00:00, Monday"
	monday = "2006-01-02, Monday"
)

// Prompt is what a model is asked, as text for people: the messages, the tools, the form of
// the answer and the settings. A noon stands for the time of the turn.
func Prompt(req *models.Request) string {
	var s strings.Builder
	for _, m := range req.Messages {
		if req.Format != nil && req.Format.Schema != nil {
			m.Text = cmp.Or(m.WithSchema, m.Text)
		}
		section(&s, strings.TrimSpace(m.Role+" "+m.CallID), textOf(m))
	}
	tools := ""
	for _, t := range req.Tools {
		name := t.Name
		if t.Strict {
			name += " (strict)"
		}
		tools += name + ": " + t.Description + "\n" + layOut(t.Schema)
	}
	if tools != "" {
		section(&s, "tools", tools)
	}
	if f := req.Format; f != nil {
		section(&s, strings.TrimSpace(titleOfFormat+" "+f.Name), layOut(f.Schema))
	}
	if text := settings(req); text != "" {
		section(&s, titleOfSettings, text)
	}
	return s.String()
}

// The titles of what is no part of the prompt itself, and depends on the model.
const (
	titleOfFormat   = "answer as JSON"
	titleOfSettings = "settings"
	beforeTitle     = "=== "
)

// PromptOf is what [Prompt] returned without the form of the answer and the settings.
func PromptOf(asked string) string {
	for _, title := range []string{titleOfFormat, titleOfSettings} {
		asked, _, _ = strings.Cut(asked, "\n"+beforeTitle+title)
	}
	return asked
}

func section(s *strings.Builder, title, text string) {
	if s.Len() > 0 {
		s.WriteByte('\n')
	}
	s.WriteString(beforeTitle + title + "\n" + text)
	if text != "" && !strings.HasSuffix(text, "\n") {
		s.WriteByte('\n')
	}
}

// textOf is a message with what it calls. A line that looks like a title is set in.
func textOf(m models.Message) string {
	text := m.Text
	if m.Role == "system" {
		text = clock.ReplaceAllStringFunc(text, func(found string) string {
			if strings.Contains(found, ":") {
				return noon
			}
			return monday
		})
	}
	text = strings.ReplaceAll("\n"+text, "\n===", "\n ===")[1:]
	for _, c := range m.Calls {
		text = strings.TrimPrefix(text+"\n", "\n") + strings.TrimSpace("calls "+c.Name+" "+c.ID)
		if c.Arguments != "" {
			text += ": " + c.Arguments
		}
	}
	return text
}

// flat are lists of what has no parts, and their lines.
var (
	flat  = regexp.MustCompile(`\[\n[^\[\]{}]*\]`)
	lines = regexp.MustCompile(`\n *`)
)

// layOut is JSON over several lines, with its fields in their order.
func layOut(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var out bytes.Buffer
	if json.Indent(&out, raw, "", "  ") != nil {
		return string(raw) + "\n" // it is shown as it is
	}
	return flat.ReplaceAllStringFunc(out.String(), func(list string) string {
		return "[" + strings.ReplaceAll(strings.Trim(lines.ReplaceAllString(list, "\n"), "[\n]"), "\n", " ") + "]"
	}) + "\n"
}

// settings are those that were chosen, a line each.
func settings(req *models.Request) string {
	var s strings.Builder
	line := func(name string, value any) {
		if v := reflect.ValueOf(value); !v.IsZero() {
			fmt.Fprintf(&s, "%s: %v\n", name, reflect.Indirect(v))
		}
	}
	line("max_tokens", req.MaxTokens)
	line("temperature", req.Temperature)
	line("top_p", req.TopP)
	line("presence_penalty", req.PresencePenalty)
	line("frequency_penalty", req.FrequencyPenalty)
	if len(req.Stop) > 0 {
		line("stop", fmt.Sprintf("%q", req.Stop))
	}
	line("tool_choice", req.Choice)
	line("one_call_at_most", req.OneCallAtMost)
	return s.String()
}
