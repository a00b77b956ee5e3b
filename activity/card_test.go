package activity_test

import (
	"testing"

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
