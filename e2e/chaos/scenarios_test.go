//go:build linux

package chaos_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/testing/ci"
)

func TestWorlds(t *testing.T) {
	needRedis(t)
	t.Parallel()
	t.Run("KilledReplicas", killedReplicas)
	t.Run("RollingRestart", rollingRestart)
	t.Run("RedisAway", redisAway)
}

func killedReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{200 * time.Millisecond, time.Second}})
	w.while(24, []kind{note, both}, func() {
		w.repeat(func() {
			w.pass(w.between(2*time.Second, 4*time.Second))
			w.kill(w.dice.IntN(replicas))
		})
	})
	w.holds(w.settle(), promises()...)
	w.joins()
}

// TestMoreWorlds has the scenarios that .ci/run plays beside the three that go test plays.
func TestMoreWorlds(t *testing.T) {
	ci.Only(t, "half a minute of redis-server and three bots for each world")
	needRedis(t)
	t.Parallel()
	for name, world := range map[string]func(*testing.T){
		"KilledHeirs":       killedHeirs,
		"ThreefoldDelivery": threefoldDelivery,
		"PausedReplica":     pausedReplica,
		"ConnectorAway":     connectorAway,
		"BadConnector":      badConnector,
		"PartsOfALongReply": partsOfALongReply,
		"ManyQuickMessages": manyQuickMessages,
		"Upgrade":           upgrade,
		"UpgradeApproval":   upgradeApproval,
		"Approvals":         approvalsOfOthers,
		"KilledStreams":     killedStreams,
		"RestoredBackup":    restoredBackup,
		"Threads":           threads,
		"Bursts":            bursts,
		"Stops":             stops,
		"UpgradeThreads":    upgradeThreads,
	} {
		t.Run(name, world)
	}
}

// killedHeirs kills a replica, and then those that take its turns over, at once.
func killedHeirs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{200 * time.Millisecond, time.Second}})
	killed := 0
	w.while(24, []kind{note, both}, func() {
		w.repeat(func() {
			w.pass(w.between(time.Second, 3*time.Second))
			w.kill(w.dice.IntN(replicas))
			killed += w.killHeirs()
			w.pass(takenOverWithin) // the next ones live: three in a row end in a dead letter
		})
	})
	if killed == 0 {
		t.Error("no replica was killed as it took turns over: this test showed nothing")
	}
	w.holds(w.settle(), promises()...)
}

func threefoldDelivery(t *testing.T) {
	t.Parallel()
	const think = time.Second
	w := newWorld(t, circumstances{thinks: [2]time.Duration{think, 2 * think}})
	for talk := range 8 {
		w.talks.Go(func() {
			for n := range 2 {
				d := w.sends(key{talk, n}, both)
				var deliveries sync.WaitGroup
				for _, r := range w.replicas {
					deliveries.Go(func() { w.deliver(r, d) })
				}
				deliveries.Wait()
			}
		})
	}
	w.talks.Wait()
	w.holds(w.settle(), append(promises(), answers(), within(think))...)
}

func pausedReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{200 * time.Millisecond, time.Second}})
	w.while(16, []kind{note, both}, func() {
		w.repeat(func() {
			w.pass(time.Second)
			w.stop(w.dice.IntN(replicas), 9*time.Second)
		})
		w.pass(time.Second)
	})
	w.holds(w.settle(), append(promises(), answers(0, http.StatusServiceUnavailable))...)
}

func rollingRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{200 * time.Millisecond, 2 * time.Second}})
	w.while(16, []kind{note, both}, func() {
		w.repeat(func() {
			for at := range replicas {
				w.pass(time.Second)
				w.roll(at)
			}
		})
		w.pass(time.Second)
	})
	w.holds(w.settle(), append(promises(), oneRetry(), answers(0, http.StatusServiceUnavailable))...)
}

func redisAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{200 * time.Millisecond, time.Second}})
	w.while(16, []kind{note, both}, func() {
		w.repeat(func() {
			w.pass(2 * time.Second)
			w.redisAway(3 * time.Second)
			w.pass(3 * time.Second)
			if ci.Runs() {
				w.redisAway(12 * time.Second)
			}
		})
		w.pass(2 * time.Second)
	})
	w.holds(w.settle(), append(promises(), answers(0, http.StatusServiceUnavailable))...)
}

func connectorAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{200 * time.Millisecond, time.Second}})
	w.while(8, []kind{note, both}, func() {
		w.repeat(func() {
			w.pass(2 * time.Second)
			w.connectorAway(35 * time.Second)
		})
		w.pass(2 * time.Second)
	})
	w.holds(w.settle(), append(promises(), answers())...)
}

func badConnector(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{50 * time.Millisecond, 300 * time.Millisecond}})
	w.channel.weather.Store(&weather{slow: 500 * time.Millisecond, throttled: 0.1, gateway: 0.1, unavailable: 0.1, reset: 0.1})
	w.while(16, []kind{note, both}, func() { w.pass(*loadFor / 2) })
	w.holds(w.settle(), append(promises(), answers())...)
}

func partsOfALongReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{50 * time.Millisecond, 300 * time.Millisecond}})
	w.channel.weather.Store(&weather{slow: 500 * time.Millisecond})
	w.while(4, []kind{long}, func() {
		w.repeat(func() {
			w.pass(w.between(time.Second, 3*time.Second))
			w.kill(w.dice.IntN(replicas)) // all at once would park a turn that never gets a part out
		})
	})
	s := w.settle()
	if !s.interrupted() {
		t.Error("no reply was interrupted between two of its parts: this test showed nothing")
	}
	w.holds(s, spoken()...)
}

func manyQuickMessages(t *testing.T) {
	t.Parallel()
	const think = 600 * time.Millisecond
	w := newWorld(t, circumstances{thinks: [2]time.Duration{think, think + 200*time.Millisecond}})
	w.talks.Go(func() { // as fast as they are acknowledged
		for n := range 20 {
			w.say(key{0, n}, note)
		}
	})
	w.talks.Go(func() { // all at once
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() { w.say(key{1, n}, both) })
		}
		all.Wait()
	})
	w.talks.Wait()
	w.holds(w.settle(), append(promises(), answers(), within(think))...)
	w.joins()
}

// joins fails the test if no messages that waited became one turn.
func (w *world) joins() {
	w.t.Helper()
	n := w.logged("answered as one question")
	w.t.Logf("%d turns answered several messages", n)
	if n == 0 {
		w.t.Error("no message joined another: this test showed nothing of that")
	}
}
