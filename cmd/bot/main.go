// Command bot is the default bot of Planbot: it keeps lists and reminders. Package app gives
// it everything around that: settings, commands, health, metrics and traces. A bot of your own
// is a main like this one, with your actions.
package main

import (
	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/app"
)

func main() {
	app.Main(app.Bot{
		Name:     "Planbot",
		Register: register,
		Examples: []string{
			"What is on my lists?",
			"Create a grocery shopping list and add bananas to it.",
			"Remind me in 10 minutes to drink water.",
		},
	})
}

func register(r *actions.Registry) {
	lists.Register(r)
	reminders.Register(r)
}
