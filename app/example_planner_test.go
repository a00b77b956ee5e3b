package app_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/planner/plan"
)

// A bot whose plans come from rules.
func ExamplePlannerFunc() {
	type light struct {
		Room string `json:"room"`
	}
	registry := actions.New()
	actions.Add(registry, "turnOn", "Turns on a light", func(_ context.Context, _ *actions.Turn, in light) (actions.Result, error) {
		return actions.Text("the light in the %s", in.Room), nil
	})
	// rules plans without a model: it knows one sentence, and asks back for everything else.
	rules := bot.PlannerFunc(func(_ context.Context, t *actions.Turn) (plan.Plan, error) {
		room, ok := strings.CutPrefix(t.Text, "light in the ")
		if !ok {
			return plan.Plan{Commands: []plan.Command{{Kind: plan.Say, Response: "Which room?"}}}, nil
		}
		p := plan.Plan{Commands: []plan.Command{
			{Kind: plan.Do, Action: "turnOn", Entities: map[string]any{"room": room}, SaveAs: "WHAT"},
			{Kind: plan.Say, Response: "I turned on $WHAT."},
		}}
		return p.Validate(registry)
	})
	b, err := bot.New(bot.Config{Actions: registry, Planner: rules})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = b.Drain(context.Background()) }()

	server := httptest.NewServer(b)
	defer server.Close()
	for i, text := range []string{"light, please", "light in the hall"} {
		fmt.Println(post(context.Background(), server.URL, fmt.Sprintf(`{
			"type": "message", "id": "%d", "text": %q, "deliveryMode": "expectReplies", "serviceUrl": "http://127.0.0.1",
			"channelId": "emulator", "from": {"id": "mia"}, "recipient": {"id": "bot"}, "conversation": {"id": "c1"}}`, i, text)))
	}
	// Output:
	// Which room?
	// I turned on the light in the hall.
}
