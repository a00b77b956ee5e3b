package activity_test

import (
	"fmt"

	"github.com/planbot-go/planbot/activity"
)

func ExampleDecode() {
	in, err := activity.Decode([]byte(`{"type":"message","id":"1","channelId":"msteams","text":"<at>Hedda</at> good morning",
		"from":{"id":"29:mia","name":"Mia"},"recipient":{"id":"28:hedda"},"conversation":{"id":"19:team@thread.v2","isGroup":true},
		"entities":[{"type":"mention","mentioned":{"id":"28:hedda"},"text":"<at>Hedda</at>"}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(in.Addressed(), in.Said())
	out := in.Reply("Good morning, Mia.")
	fmt.Println(out.ReplyToID, out.Recipient.ID, out.Text)
	// Output:
	// true good morning
	// 1 29:mia Good morning, Mia.
}

// A reference outlives the activity: keep it, and write there later.
func ExampleTo() {
	in := &activity.Activity{Type: activity.Message, ID: "1", ChannelID: activity.Teams}
	in.Conversation.ID = "19:team@thread.v2"
	reference := in.Reference()

	typing := activity.To(reference, activity.Typing)
	fmt.Println(typing.Type, typing.Conversation.ID)
	// Output: typing 19:team@thread.v2
}
