package main

import (
	"os"
	"time"
)

// usage is what was used up to a moment, or between two.
type usage struct {
	at         time.Time // of a moment
	time       time.Duration
	bot        time.Duration // CPU time of all processes of the bot
	load       time.Duration // of load, stand-ins and Redis
	redis      time.Duration // of Redis alone
	asked      redisStats
	modelCalls int64
	modelBytes int64
}

func (r *rig) snapshot(f *fleet) (usage, error) {
	asked, err := r.redis.stats()
	redis := processCPU(r.redis.process.pid())
	return usage{
		at: time.Now(), bot: f.cpu(), load: processCPU(os.Getpid()) + redis, redis: redis, asked: asked,
		modelCalls: r.model.calls.Load(), modelBytes: r.model.bytes.Load(),
	}, err
}

// since is what was used between two moments, without what the snapshots
// themselves asked of Redis. Its memory is that of the later one.
func (u usage) since(before usage) usage {
	return usage{
		time: u.at.Sub(before.at), bot: u.bot - before.bot, load: u.load - before.load, redis: u.redis - before.redis,
		asked: redisStats{
			reads:    u.asked.reads - before.asked.reads - 1,
			commands: u.asked.commands - before.asked.commands - 1,
			bytes:    u.asked.bytes - before.asked.bytes,
			memory:   u.asked.memory,
		},
		modelCalls: u.modelCalls - before.modelCalls, modelBytes: u.modelBytes - before.modelBytes,
	}
}
