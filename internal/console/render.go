package console

import (
	"encoding/json"
	"strings"
	"unicode"

	"github.com/planbot-go/planbot/activity"
)

// render puts a message into text: what it says, what its cards say, and the titles of its
// buttons.
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
		var offered []button
		for _, raw := range s.Actions {
			var one button
			_ = json.Unmarshal(raw, &one) // what cannot be read has no title
			offered = append(offered, one)
		}
		add(titles(offered))
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
	var card element
	if err := json.Unmarshal(at.Content, &card); err != nil {
		return "[a card that cannot be shown here]"
	}
	lines, buttons := card.read()
	if len(lines) == 0 && card.FallbackText != "" {
		lines = []string{card.FallbackText}
	}
	if names := titles(buttons); names != "" {
		lines = append(lines, names)
	}
	if len(lines) == 0 {
		return "[a card without text]"
	}
	return strings.Join(lines, "\n")
}

type button struct{ Title string }

// titles shows buttons as "[Yes] [No]".
func titles(buttons []button) string {
	var names []string
	for _, b := range buttons {
		if b.Title != "" {
			names = append(names, "["+b.Title+"]")
		}
	}
	return strings.Join(names, " ")
}

// element is an element of an Adaptive Card, or a whole card: Hero, Thumbnail and Signin cards
// have the same few fields.
type element struct {
	Title, Subtitle, Text, FallbackText string

	Inlines                           []any // texts, or TextRuns
	Facts                             []struct{ Title, Value string }
	Body, Items, Columns, Rows, Cells []element
	Actions, Buttons                  []button
}

// read collects what the element says, in the order of reading, and its buttons.
func (e *element) read() (lines []string, buttons []button) {
	for _, text := range []string{e.Title, e.Subtitle, e.Text, e.inline()} {
		if text != "" {
			lines = append(lines, text)
		}
	}
	for _, fact := range e.Facts {
		lines = append(lines, fact.Title+": "+fact.Value)
	}
	for _, inner := range [][]element{e.Body, e.Items, e.Columns, e.Rows, e.Cells} {
		for i := range inner {
			more, under := inner[i].read()
			lines, buttons = append(lines, more...), append(buttons, under...)
		}
	}
	return lines, append(append(buttons, e.Actions...), e.Buttons...)
}

// inline joins the runs of a RichTextBlock.
func (e *element) inline() string {
	var out strings.Builder
	for _, run := range e.Inlines {
		if object, ok := run.(map[string]any); ok {
			run = object["text"]
		}
		if text, ok := run.(string); ok {
			out.WriteString(text)
		}
	}
	return out.String()
}

// printable drops the control characters except line breaks and tabs: a reply is written by a
// model, and must not steer the terminal.
func printable(text string) string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
}
