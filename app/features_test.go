package app_test

import (
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/agents"
	"github.com/planbot-go/planbot/app/documents"
	"github.com/planbot-go/planbot/app/full"
)

func init() { //nolint:gochecknoinits // before TestMain, which starts bots
	app.AllFeatures = func() []app.Feature {
		all := full.Features()
		for i, f := range all {
			if f.Name == "knowledge" { // TestMain starts bots as main does
				all[i] = documents.Feature(documents.Config{Helper: documents.Self()})
			}
		}
		return all
	}
	app.OfAgents = agents.Feature
}
