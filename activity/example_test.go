package activity_test

import (
	"fmt"

	"github.com/planbot-go/planbot/activity"
)

func ExampleActivity_Cite() {
	m := activity.Activity{Type: activity.Message, ChannelID: activity.Teams, Text: "Tea is brewed for three minutes [1]."}
	m.LabelAI()
	m.Cite(
		activity.Citation{Title: "The tea book", Abstract: "Black tea: three minutes.", URL: "https://example.com/tea"},
		activity.Citation{Title: "A source that the text does not name"},
	)
	raw, _ := m.Fit().Encode()
	fmt.Println(string(raw))
	// Output: {"type":"message","channelId":"msteams","text":"Tea is brewed for three minutes [1].","entities":[{"type":"https://schema.org/Message","@type":"Message","@context":"https://schema.org","@id":"","additionalType":["AIGeneratedContent"],"citation":[{"@type":"Claim","position":1,"appearance":{"@type":"DigitalDocument","name":"The tea book","abstract":"Black tea: three minutes.","url":"https://example.com/tea"}}]}]}
}

func ExampleCard() {
	card := activity.Card{
		Fallback: "Lunch at noon?",
		Body:     []any{activity.TextBlock{Text: "Lunch at noon?"}},
		Actions:  []any{activity.Button{Title: "Yes", Verb: "lunch", Data: map[string]any{"at": 12}}},
	}
	m := activity.Activity{Type: activity.Message, Summary: "Lunch", Attachments: []activity.Attachment{card.Attachment()}}
	fmt.Println(m.Attachments[0].ContentType)
	// Output: application/vnd.microsoft.card.adaptive
}
