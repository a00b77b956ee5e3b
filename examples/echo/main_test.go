package main

import (
	"testing"

	"github.com/planbot-go/planbot/bottest"
)

// TestScenarios plays scenarios.yaml, as "bottest run" does.
func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, echo, "scenarios.yaml")
}
