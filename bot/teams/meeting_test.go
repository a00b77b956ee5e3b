package teams_test

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/connector"
)

// What happens in meetings, and what people have read.
func ExampleEvents() {
	events := teams.Events{
		MeetingEnded: func(ctx context.Context, t *bot.Turn, m connector.Meeting) error {
			return t.Tell(ctx, m.Title+" is over. Shall I write down what to do next?")
		},
		Read: func(_ context.Context, _ *bot.Turn, r teams.ReadReceipt) error {
			fmt.Println("read:", r.Covers("1776500000019"), r.Covers("1776500000021"))
			return nil
		},
	}
	r, close := start(teams.Routes{Events: events})
	fmt.Println(r.post(`"type": "event", "name": "application/vnd.microsoft.meetingEnd", "value": {"Id": "MQ==", "Title": "Stand-up", "EndTime": "2026-08-01T09:15:00Z"}`))
	fmt.Println("said:", <-r.said)
	r.post(`"type": "event", "name": "application/vnd.microsoft.readReceipt", "value": {"lastReadMessageId": "1776500000020"}`)
	close()
	// Output:
	// 200
	// said: Stand-up is over. Shall I write down what to do next?
	// read: true false
}
