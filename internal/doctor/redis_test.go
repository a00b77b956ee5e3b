package doctor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/internal/doctor"
)

const soundInfo = "# Server\r\nredis_version:7.2.4\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n"

func text(s string, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return s, err }
}

func TestRedis(t *testing.T) {
	t.Parallel()
	const noAOF = "redis_version:8.0.1\nmaxmemory_policy:noeviction\naof_enabled:0\n"
	for name, c := range map[string]struct {
		info, snapshots func(context.Context) (string, error)
		status          doctor.Status
		words           []string
	}{
		"sound":               {text(soundInfo, nil), nil, doctor.OK, []string{"redis at x answers in", "version 7.2.4", "never throws keys away", "AOF"}},
		"ping alone":          {nil, nil, doctor.OK, []string{"answers in"}},
		"silent about it":     {text("", errors.New("NOPERM")), nil, doctor.OK, []string{"does not say", "NOPERM"}},
		"odd":                 {text("\x00:\n:::\nredis_version:x.y\n", nil), nil, doctor.OK, nil},
		"old":                 {text("redis_version:6.0.16\n", nil), nil, doctor.Warn, []string{"older than 6.2"}},
		"older":               {text("redis_version:5.9.1\n", nil), nil, doctor.Warn, []string{"older than 6.2"}},
		"valkey":              {text("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.1.0\n", nil), nil, doctor.OK, []string{"Valkey 8.1.0"}},
		"replica":             {text("role:slave\n", nil), nil, doctor.Fail, []string{"takes no writes"}},
		"replica that evicts": {text("role:slave\nmaxmemory_policy:allkeys-lru\n", nil), nil, doctor.Fail, []string{"allkeys-lru"}},
		"evicts":              {text("maxmemory_policy:allkeys-lru\n", nil), nil, doctor.Warn, []string{"allkeys-lru", "noeviction"}},
		"no AOF, unknown":     {text(noAOF, nil), nil, doctor.Warn, []string{"latest changes", "appendonly"}},
		"no AOF, not told":    {text(noAOF, nil), text("", errors.New("ERR unknown command")), doctor.Warn, []string{"latest changes"}},
		"no AOF, no RDB":      {text(noAOF, nil), text("", nil), doctor.Warn, []string{"loses everything"}},
		"RDB alone":           {text(noAOF, nil), text("3600 1 300 100", nil), doctor.OK, []string{"snapshots", "3600 1 300 100"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, doctor.Redis(doctor.RedisSettings{Name: "redis at x", Ping: answers(nil), Info: c.info, Snapshots: c.snapshots}), c.status, c.words...)
		})
	}
}

func TestRedisEmbedded(t *testing.T) {
	t.Parallel()
	expect(t, doctor.Redis(doctor.RedisSettings{Embedded: true}), doctor.OK, "gone when it ends", "REDIS_URL")
	expect(t, doctor.Redis(doctor.RedisSettings{Embedded: true, Shared: true}), doctor.Warn, "second replica", "REDIS_URL")
}

func TestRedisDoesNotAnswer(t *testing.T) {
	t.Parallel()
	for fault, hint := range map[string]string{
		"dial tcp 127.0.0.1:6379: connect: connection refused": "start Redis",
		"NOAUTH Authentication required":                       "wants a password",
		"WRONGPASS invalid username-password pair":             "is wrong",
		"anything": "redis-cli",
	} {
		expect(t, doctor.Redis(doctor.RedisSettings{Name: "redis at x", Ping: answers(errors.New(fault))}), doctor.Fail, fault, hint)
	}
	expect(t, doctor.Redis(doctor.RedisSettings{Ping: answers(context.DeadlineExceeded)}), doctor.Fail, "no answer in time")
}

func TestSlowRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := func(context.Context) error {
			time.Sleep(60 * time.Millisecond)
			return nil
		}
		expect(t, doctor.Redis(doctor.RedisSettings{Name: "redis at x", Ping: slow}), doctor.Warn, "answers in 60ms", "slow")
	})
}
