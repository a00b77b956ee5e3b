package app

import (
	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
)

// defaultBot is the bot of cmd/bot.
func defaultBot() Bot {
	return Bot{Name: "Planbot", Examples: []string{"What is on my lists?"}, Register: func(r *actions.Registry) {
		lists.Register(r)
		reminders.Register(r)
	}}
}
