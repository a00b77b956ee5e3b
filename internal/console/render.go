package console

import (
	"regexp"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
)

// render puts a message into text: what it says, what its cards say, and the
// titles of its buttons.
func render(a *activity.Activity) string {
	var parts []string
	add := func(text string) {
		if text = strings.TrimSpace(printable(text)); text != "" {
			parts = append(parts, text)
		}
	}
	add(a.Text)
	for _, at := range a.Attachments {
		add(attachment(at))
	}
	if s := a.SuggestedActions; s != nil {
		add(buttons(titles(s.Actions)))
	}
	if len(parts) == 0 {
		return "(an empty message)"
	}
	return strings.Join(parts, "\n")
}

func attachment(at activity.Attachment) string {
	if len(at.Content) == 0 || !strings.HasPrefix(at.ContentType, "application/vnd.microsoft.card.") {
		return "[" + strings.TrimSpace(at.Name+" "+at.ContentType) + "]"
	}
	var root map[string]any
	if err := json.Unmarshal(at.Content, &root); err != nil {
		return "[a card that cannot be shown here]"
	}
	var c card
	c.walk(root)
	if fallback, ok := root["fallbackText"].(string); ok && len(c.lines) == 0 {
		c.lines = append(c.lines, fallback)
	}
	if len(c.buttons) > 0 {
		c.lines = append(c.lines, buttons(c.buttons))
	}
	if len(c.lines) == 0 {
		return "[a card without text]"
	}
	return strings.Join(c.lines, "\n")
}

// card collects what a card says, in the order of reading. Its JSON came
// through activity.Decode, which bounds how deep it nests.
type card struct {
	lines, buttons []string
}

func (c *card) walk(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			c.walk(item)
		}
	case map[string]any:
		c.element(v)
	}
}

// element takes an element of an Adaptive Card, or a whole card: Hero,
// Thumbnail and Signin cards have the same few fields.
func (c *card) element(e map[string]any) {
	for _, field := range []string{"title", "subtitle", "text"} {
		if text, ok := e[field].(string); ok && text != "" {
			c.lines = append(c.lines, text)
		}
	}
	if inlines, ok := e["inlines"].([]any); ok {
		c.lines = append(c.lines, inline(inlines))
	}
	for _, fact := range objects(e["facts"]) {
		name, _ := fact["title"].(string)
		value, _ := fact["value"].(string)
		c.lines = append(c.lines, name+": "+value)
	}
	for _, field := range []string{"body", "items", "columns", "rows", "cells"} {
		c.walk(e[field])
	}
	for _, field := range []string{"actions", "buttons"} {
		for _, action := range objects(e[field]) {
			if title, ok := action["title"].(string); ok {
				c.buttons = append(c.buttons, title)
			}
		}
	}
}

// inline joins the runs of a RichTextBlock, which are strings or TextRuns.
func inline(runs []any) string {
	var s strings.Builder
	for _, run := range runs {
		switch run := run.(type) {
		case string:
			s.WriteString(run)
		case map[string]any:
			text, _ := run["text"].(string)
			s.WriteString(text)
		}
	}
	return s.String()
}

func objects(v any) []map[string]any {
	list, _ := v.([]any)
	var out []map[string]any
	for _, item := range list {
		if o, ok := item.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out
}

func titles(actions []jsontext.Value) []string {
	var out []string
	for _, raw := range actions {
		var action struct {
			Title string `json:"title"`
		}
		if json.Unmarshal(raw, &action) == nil && action.Title != "" {
			out = append(out, action.Title)
		}
	}
	return out
}

func buttons(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "[" + strings.Join(names, "] [") + "]"
}

// printable drops the control characters but for line breaks and tabs: a reply
// is written by a model, and must not steer the terminal.
func printable(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}

// bold matches the one piece of markdown that a terminal can show.
var bold = regexp.MustCompile(`\*\*([^*\n]+)\*\*`)
