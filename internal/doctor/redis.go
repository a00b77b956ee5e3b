package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RedisSettings say where state lives.
type RedisSettings struct {
	Embedded bool
	Shared   bool   // the bot serves others, so that losing state at exit matters
	Name     string // where, without a password; unused when embedded
	// Ping asks for one answer. Required unless embedded.
	Ping func(context.Context) error
	// Info returns the text of INFO. nil: only Ping is tried.
	Info func(context.Context) (string, error)
	// Snapshots returns the value of CONFIG GET save, which many hosted servers
	// refuse. nil: not asked.
	Snapshots func(context.Context) (string, error)
}

const (
	pings     = 5
	slowRedis = 20 * time.Millisecond
	// oldestMajor and oldestMinor are the oldest Redis that the scripts were tried
	// with; those before it get no fixes any more.
	oldestMajor, oldestMinor = 6, 2
)

// Redis checks that state can be kept, and that it is kept as one would expect.
func Redis(s RedisSettings) Probe {
	return Probe{"redis", func(ctx context.Context) Check { return redis(ctx, s) }}
}

func redis(ctx context.Context, s RedisSettings) Check {
	const keep = "set REDIS_URL, such as redis://localhost:6379, to keep it"
	switch {
	case s.Embedded && s.Shared:
		return warn("embedded: conversations and lists live in this process, are gone when it ends, and a second replica does not see them", keep)
	case s.Embedded:
		c := ok("embedded: conversations and lists live in this process and are gone when it ends")
		c.Hint = keep
		return c
	}
	latency, err := ping(ctx, s.Ping)
	if err != nil {
		return fail(fmt.Sprintf("no answer from %s, and without it the bot takes no message: %s", s.Name, reason(err)), hintFor(err, redisHints(),
			"see that the server runs (redis-cli -u \"$REDIS_URL\" ping) and that REDIS_URL names it"))
	}
	about := newReport(fmt.Sprintf("%s answers in %s", s.Name, took(latency)))
	if latency > slowRedis {
		about.warn("that is slow", "run Redis near the bot: each message asks it three times")
	}
	if s.Info != nil {
		about.info(ctx, s)
	}
	return about.check()
}

func redisHints() [][2]string {
	return [][2]string{
		{"noauth", "the server wants a password: redis://:password@host:6379 in REDIS_URL"},
		{"wrongpass", "the user or the password in REDIS_URL is wrong"},
		{"noperm", "the user of REDIS_URL may not do what the bot needs: see ACL LIST"},
		{"connection refused", "nothing listens there: start Redis (redis-server, or docker run -p 6379:6379 redis), or correct REDIS_URL"},
		{"no such host", "this machine does not know the host in REDIS_URL"},
		{"tls", "use rediss:// for a server with TLS and redis:// for one without"},
	}
}

// ping returns the middle of a few round trips, the first of which connects.
func ping(ctx context.Context, once func(context.Context) error) (time.Duration, error) {
	if err := once(ctx); err != nil {
		return 0, err
	}
	all := make([]time.Duration, pings)
	for i := range all {
		start := time.Now()
		if err := once(ctx); err != nil {
			return 0, err
		}
		all[i] = time.Since(start)
	}
	slices.Sort(all)
	return all[pings/2], nil
}

// report collects what is to be said about one setting.
type report struct {
	status         Status
	details, hints []string
}

func newReport(detail string) *report { return &report{status: OK, details: []string{detail}} }

func (r *report) say(detail string) { r.details = append(r.details, detail) }

func (r *report) warn(detail, hint string) {
	if r.status == OK {
		r.status = Warn
	}
	r.say(detail)
	r.hints = append(r.hints, hint)
}

func (r *report) fail(detail, hint string) {
	r.warn(detail, hint)
	r.status = Fail
}

func (r *report) check() Check {
	return Check{Status: r.status, Detail: strings.Join(r.details, "; "), Hint: strings.Join(r.hints, "\n")}
}

// info reads the server's own account of itself.
func (r *report) info(ctx context.Context, s RedisSettings) {
	text, err := s.Info(ctx)
	if err != nil {
		r.say("it does not say how it is set up (" + reason(err) + ")")
		return
	}
	info := parseInfo(text)
	r.version(info)
	if info["role"] == "slave" {
		r.fail("it is a replica, which takes no writes", "name the primary in REDIS_URL, or use redis+sentinel://")
	}
	r.eviction(info)
	r.persistence(ctx, info, s.Snapshots)
}

func (r *report) version(info map[string]string) {
	version := info["redis_version"]
	if version == "" {
		return
	}
	if info["server_name"] == "valkey" {
		r.say("Valkey " + info["valkey_version"])
		return
	}
	r.say("version " + version)
	if older(version) {
		r.warn(fmt.Sprintf("older than %d.%d", oldestMajor, oldestMinor), "bring Redis up to date")
	}
}

func older(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(minor)
	if errors.Join(errA, errB) != nil {
		return false
	}
	return a < oldestMajor || a == oldestMajor && b < oldestMinor
}

func (r *report) eviction(info map[string]string) {
	switch policy := info["maxmemory_policy"]; policy {
	case "":
	case "noeviction":
		r.say("it never throws keys away")
	default:
		r.warn("when its memory is full it throws keys away ("+policy+"), conversations and queued messages among them",
			"set maxmemory-policy to noeviction (redis-cli CONFIG SET maxmemory-policy noeviction)")
	}
}

// persistence tells whether a restart of the server loses state.
func (r *report) persistence(ctx context.Context, info map[string]string, snapshots func(context.Context) (string, error)) {
	const hint = "switch on the append-only file (redis-cli CONFIG SET appendonly yes, and appendonly yes in redis.conf)"
	switch info["aof_enabled"] {
	case "":
		return
	case "1":
		r.say("it writes everything to disk (AOF)")
		return
	}
	if snapshots == nil {
		r.warn("it keeps no append-only file, so that a restart loses at least the latest changes", hint)
		return
	}
	switch rules, err := snapshots(ctx); {
	case err != nil:
		r.warn("it keeps no append-only file, so that a restart loses at least the latest changes", hint)
	case strings.TrimSpace(rules) == "":
		r.warn("it writes nothing to disk, so that a restart loses everything", hint)
	default:
		r.say("it writes snapshots to disk (RDB " + rules + "), so that a crash loses the changes since the last one")
	}
}

// parseInfo reads the "name:value" lines of INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			info[name] = value
		}
	}
	return info
}
