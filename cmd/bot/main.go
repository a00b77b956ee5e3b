// Command bot is the default bot of Planbot: it keeps lists and reminders. Package app gives
// it everything around that: settings, commands, health, metrics and traces. A bot of your own
// is a main like this one, with your actions.
package main

import (
	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/manifest"
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
		Manifest: manifest.Config{
			Summary: "Keeps your lists: say what you want, and it plans the steps and does them.",
			Details: "Tell the bot in your own words what you want done. It turns each message into a plan of actions, " +
				"runs them in order, and says what it did.\n\n" +
				"It keeps lists: create them, add and remove items, check items off, find an item, or ask what is on them. " +
				"In a personal chat the lists are yours; in a group chat or a channel they belong to everybody there.\n\n" +
				"Send \"help\" to see what it can do. " +
				"Replies are written with AI: check what matters.",
		},
	}, full.Features()...)
}

func register(r *actions.Registry) {
	lists.Register(r)
	reminders.Register(r)
}
