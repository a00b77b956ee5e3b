// Command echo is the first sample of github.com/infracloudio/msbotbuilder-go on Planbot: its handler is as it was,
// and what was around it is one call. See docs/from-msbotbuilder.md.
package main

import (
	"github.com/infracloudio/msbotbuilder-go/core/activity"
	"github.com/infracloudio/msbotbuilder-go/schema"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/msbotbuilder"
)

var customHandler = activity.HandlerFuncs{
	OnMessageFunc: func(turn *activity.TurnContext) (schema.Activity, error) {
		return turn.SendActivity(activity.MsgOptionText("Echo: " + turn.Activity.Text))
	},
}

var echo = app.Bot{
	Name:   "Echo",
	Routes: func(b *bot.Bot) { msbotbuilder.Serve(b, customHandler) },
}

func main() { app.Main(echo, full.Features()...) }
