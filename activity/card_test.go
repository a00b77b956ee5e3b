package activity_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/activity"
)

func TestCard(t *testing.T) {
	t.Parallel()
	most := 5.0
	card := activity.NewCard("Book a room.",
		activity.TextBlock{Text: "Book a *room*", Size: activity.Large, Weight: activity.Bolder, Color: activity.Accent, OneLine: true},
		activity.RichText{{Text: "*as it is*", Mono: true, Subtle: true}},
		activity.Facts{{Title: "Floor", Value: "3"}},
		activity.Image{URL: "https://x/y.png", Alt: "The room"},
		activity.Container{ID: "more", Hidden: true, Style: activity.Emphasis, Items: []activity.Element{activity.TextBlock{Text: "More"}}},
		activity.Columns{{Width: "auto", Items: []activity.Element{activity.TextBlock{Text: "L"}}}, {Width: "stretch"}},
		activity.TextInput{Input: activity.Input{ID: "why", Label: "Why?", Required: true, Error: "Say why"}, Multiline: true, MaxLength: 100},
		activity.NumberInput{Input: activity.Input{ID: "people"}, Max: &most},
		activity.DateInput{Input: activity.Input{ID: "day"}, Value: "2026-01-02"},
		activity.TimeInput{Input: activity.Input{ID: "time"}},
		activity.ToggleInput{Input: activity.Input{ID: "coffee"}, Title: "Coffee", Value: "true"},
		activity.ChoiceInput{Input: activity.Input{ID: "room"}, Style: "compact", Choices: []activity.Choice{{"Blue <1>", "1"}}},
		activity.ActionSet{activity.Toggle{Title: "More", Targets: []string{"more"}}},
		activity.RawElement(`{"type":"Media","sources":[]}`),
	).With(
		activity.Execute{Title: "Book", Verb: "book", Style: activity.Positive, Data: map[string]any{"floor": 3}},
		activity.Execute{Title: "Again", Verb: "again"},
		activity.Submit{Title: "Old", Data: map[string]any{"say": "old"}},
		activity.OpenURL{Title: "Map", URL: "https://x/map"},
		activity.RawAction(`{"type":"Action.ShowCard"}`),
	)
	card.FullWidth, card.Mentions = true, []activity.Account{activity.NewAccount("29:mia", "Mia")}
	card.Refresh = &activity.Refresh{Action: activity.Execute{Verb: "refresh"}, UserIDs: []string{"29:mia"}}
	want := `{"type":"AdaptiveCard","$schema":"http://adaptivecards.io/schemas/adaptive-card.json","version":"1.5","fallbackText":"Book a room.","body":[
		{"type":"TextBlock","text":"Book a *room*","size":"large","weight":"bolder","color":"accent"},
		{"type":"RichTextBlock","inlines":[{"type":"TextRun","text":"*as it is*","isSubtle":true,"fontType":"monospace"}]},
		{"type":"FactSet","facts":[{"title":"Floor","value":"3"}]},
		{"type":"Image","url":"https://x/y.png","altText":"The room"},
		{"type":"Container","id":"more","isVisible":false,"style":"emphasis","items":[{"type":"TextBlock","text":"More","wrap":true}]},
		{"type":"ColumnSet","columns":[{"type":"Column","width":"auto","items":[{"type":"TextBlock","text":"L","wrap":true}]},{"type":"Column","width":"stretch","items":[]}]},
		{"type":"Input.Text","id":"why","label":"Why?","isRequired":true,"errorMessage":"Say why","isMultiline":true,"maxLength":100},
		{"type":"Input.Number","id":"people","max":5},
		{"type":"Input.Date","id":"day","value":"2026-01-02"},
		{"type":"Input.Time","id":"time"},
		{"type":"Input.Toggle","id":"coffee","title":"Coffee","value":"true"},
		{"type":"Input.ChoiceSet","id":"room","style":"compact","choices":[{"title":"Blue <1>","value":"1"}]},
		{"type":"ActionSet","actions":[{"type":"Action.ToggleVisibility","title":"More","targetElements":["more"]}]},
		{"type":"Media","sources":[]}],
	"actions":[
		{"type":"Action.Execute","title":"Book","verb":"book","style":"positive","data":{"floor":3},"fallback":{"type":"Action.Submit","title":"Book","style":"positive","data":{"floor":3,"verb":"book"}}},
		{"type":"Action.Execute","title":"Again","verb":"again","fallback":{"type":"Action.Submit","title":"Again","data":{"verb":"again"}}},
		{"type":"Action.Submit","title":"Old","data":{"say":"old"}},
		{"type":"Action.OpenUrl","title":"Map","url":"https://x/map"},
		{"type":"Action.ShowCard"}],
	"refresh":{"action":{"type":"Action.Execute","verb":"refresh","fallback":{"type":"Action.Submit","data":{"verb":"refresh"}}},"userIds":["29:mia"]},
	"msteams":{"width":"Full","entities":[{"type":"mention","mentioned":{"id":"29:mia","name":"Mia"},"text":"<at>Mia</at>"}]}}`
	at := card.Attachment()
	if at.ContentType != activity.CardContentType {
		t.Errorf("content type %q", at.ContentType)
	}
	if diff := cmp.Diff(generic(t, []byte(want)), generic(t, at.Content)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithLeavesTheCardAsItWas(t *testing.T) {
	t.Parallel()
	base := activity.NewCard("x").With(activity.OpenURL{URL: "https://a"})
	one, two := base.With(activity.OpenURL{URL: "https://b"}), base.With(activity.OpenURL{URL: "https://c"})
	if !strings.Contains(string(one.Attachment().Content), "https://b") || !strings.Contains(string(two.Attachment().Content), "https://c") || len(base.Actions) != 1 {
		t.Error("cards share their actions")
	}
}

func TestCardsThatAreMistakes(t *testing.T) {
	t.Parallel()
	for name, card := range map[string]activity.Card{
		"no fallback":         {Body: []activity.Element{activity.TextBlock{Text: "x"}}},
		"no verb":             activity.NewCard("x").With(activity.Execute{Title: "x"}),
		"data of no object":   activity.NewCard("x").With(activity.Execute{Verb: "x", Data: []int{1}}),
		"data of no JSON":     activity.NewCard("x").With(activity.Execute{Verb: "x", Data: map[string]any{"f": func() {}}}),
		"an input without id": activity.NewCard("x", activity.TextInput{}),
		"too many refresh":    {Fallback: "x", Refresh: &activity.Refresh{Action: activity.Execute{Verb: "x"}, UserIDs: make([]string, 61)}},
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
