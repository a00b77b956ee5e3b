package app_test

import (
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/agents"
	"github.com/planbot-go/planbot/app/full"
)

func init() { //nolint:gochecknoinits // before TestMain, which starts bots
	app.AllFeatures = full.Features
	app.OfAgents = agents.Feature
}
