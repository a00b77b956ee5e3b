package app_test

import (
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
)

func init() { app.AllFeatures = full.Features } //nolint:gochecknoinits // before TestMain, which starts bots
