// Package full has every feature that Planbot ships, for programs that want them all:
//
//	app.Main(bot, full.Features()...)
//
// A program that names the features it uses does not link the others.
package full

import (
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/agentskills"
	"github.com/planbot-go/planbot/app/audit"
	"github.com/planbot-go/planbot/app/botfile"
	"github.com/planbot-go/planbot/app/dev"
	"github.com/planbot-go/planbot/app/documents"
	"github.com/planbot-go/planbot/app/memory"
	"github.com/planbot-go/planbot/app/metrics"
	"github.com/planbot-go/planbot/app/moderation"
	"github.com/planbot-go/planbot/app/newbot"
	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/app/plans"
	"github.com/planbot-go/planbot/app/record"
	"github.com/planbot-go/planbot/app/replay"
	"github.com/planbot-go/planbot/app/services"
	"github.com/planbot-go/planbot/app/teamsapp"
	"github.com/planbot-go/planbot/app/tokens"
	"github.com/planbot-go/planbot/app/traces"
	"github.com/planbot-go/planbot/app/upgradecheck"
	"github.com/planbot-go/planbot/app/viewer"
)

// Features returns them, each anew: a feature belongs to one program.
func Features() []app.Feature {
	return []app.Feature{
		record.Feature(), // around the others
		documents.Feature(documents.Config{}),
		memory.Feature(), // before others that add actions
		agentskills.Feature(agentskills.Config{}),
		audit.Feature(),
		botfile.Feature(),
		dev.Feature(),
		metrics.Feature(),
		moderation.Feature(),
		newbot.Feature(),
		page.Feature(),
		plans.Feature(),
		replay.Feature(),
		services.Feature(),
		teamsapp.Feature(),
		tokens.Feature(),
		traces.Feature(),
		upgradecheck.Feature(),
		viewer.Feature(),
	}
}
