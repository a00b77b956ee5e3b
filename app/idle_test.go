//go:build !race

// A week takes the race detector minutes: .ci/run has it without.

package app_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/actions/reminders"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/documents"
	"github.com/planbot-go/planbot/app/memory"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/quota"
	"github.com/planbot-go/planbot/bot/turn/files"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/internal/testing/ci"
	"github.com/planbot-go/planbot/knowledge"
)

// commandCount counts the commands about documents that a bot sends to Redis.
type commandCount struct {
	mu sync.Mutex
	n  int
}

func (c *commandCount) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, command := range []string{"getrange", "pexpire", "evalsha"} {
		c.n += bytes.Count(p, []byte(command))
	}
	return len(p), nil
}

// take returns the count since the last call.
func (c *commandCount) take() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.n
	c.n = 0
	return n
}

// A bot with everything that keeps something in Redis, idle for a week, asks Redis as little at its end as on
// its first day: nothing is renewed over and over because it was written long ago. go test has two days of it.
func TestIdleWeek(t *testing.T) {
	t.Parallel()
	busy := app.Bot{
		Name: "Busy", Memory: true,
		Register: func(r *actions.Registry) {
			lists.Register(r)
			reminders.Register(r)
		},
		Features: func() []app.Feature {
			return []app.Feature{memory.Feature(), documents.Feature(documents.Config{Folders: []knowledge.Folder{{
				FS: fstest.MapFS{"hours.md": {Data: []byte("# Hours\n\nThe warehouse is open from 6 to 22.\n")}}, Name: "handbook",
				Access: []string{knowledge.EveryoneInTenant},
			}}})}
		},
		Setup: func(cfg *bot.Config) error {
			cfg.AuditKeep, cfg.TurnsKeep = 30*24*time.Hour, 30*24*time.Hour
			cfg.Quota = quota.Limits{UserTurnsPerMinute: 10, UserTokensPerDay: 1 << 20}
			cfg.Requests, cfg.Stream, cfg.Feedback = true, true, true
			cfg.Attachments = files.Attachments{Shown: true, Files: knowledge.Files{}}
			return nil
		},
	}
	sent := &commandCount{}
	bottest.Test(t, bottest.Config{Name: "Busy", ToRedis: sent, New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		return app.New(ctx, busy, p.Model, p.Bot)
	}}, func(t *testing.T, kit *bottest.Kit) {
		chat := kit.Personal("Mia")
		kit.Model.Says(bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk"), bottest.Say("Added milk.")))
		chat.Say("add milk to groceries")
		chat.Expect("Added milk.")
		days := 2
		if ci.Runs() {
			days = 7
		}
		first := 0
		for passed := time.Duration(0); passed < time.Duration(days)*24*time.Hour; passed += 6 * time.Hour {
			sent.take()
			time.Sleep(6 * time.Hour)
			n := sent.take()
			if first == 0 {
				first = n
			}
			if n == 0 || n > first+first/20 {
				t.Fatalf("after %v, six idle hours took %d commands, the first six %d", passed, n, first)
			}
		}
	})
}
