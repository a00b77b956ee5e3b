package golden

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/planbot-go/planbot/models"
)

// clock is the time of a turn, as prompts say it.
var clock = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d [+-]\d\d:\d\d, (Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day`)

// Noon stands for the time of a turn: it is another one whenever a test runs.
const Noon = "2006-01-02 12:00 +00:00, Monday"

// Prompt is what a model is asked, as text for people: the messages, the tools, the form of
// the answer and the settings. [Noon] stands for the time.
func Prompt(req *models.Request) string {
	var s strings.Builder
	for _, m := range req.Messages {
		section(&s, strings.TrimSpace(string(m.Role)+" "+m.CallID), textOf(m))
	}
	if len(req.Tools) > 0 {
		section(&s, "tools", tools(req.Tools))
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
	if m.Role == models.System {
		text = clock.ReplaceAllLiteralString(text, Noon)
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

func tools(all []models.Tool) string {
	var s strings.Builder
	for _, t := range all {
		strict := ""
		if t.Strict {
			strict = " (strict)"
		}
		fmt.Fprintf(&s, "%s%s: %s\n%s", t.Name, strict, t.Description, layOut(t.Schema))
	}
	return s.String()
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
	line := func(name string, set bool, value any) {
		if set {
			fmt.Fprintf(&s, "%s: %v\n", name, value)
		}
	}
	number := func(name string, value *float64) {
		if value != nil {
			line(name, true, *value)
		}
	}
	line("max_tokens", req.MaxTokens > 0, req.MaxTokens)
	number("temperature", req.Temperature)
	number("top_p", req.TopP)
	number("presence_penalty", req.PresencePenalty)
	number("frequency_penalty", req.FrequencyPenalty)
	line("stop", len(req.Stop) > 0, fmt.Sprintf("%q", req.Stop))
	line("tool_choice", req.Choice != models.ChoiceAuto, req.Choice)
	line("one_call_at_most", req.OneCallAtMost, true)
	return s.String()
}
