package state

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"
)

// Config says how state is kept. Its zero value is ready to use.
type Config struct {
	// TTL is how long a document lives after it was last in use. 0: 30 days.
	TTL time.Duration
	// MaxBytes bounds one document as stored, when it is saved and when it is
	// loaded. 0: 1 MiB.
	MaxBytes int
	// Timeout bounds one Load, Save or Ping, retries included, whatever the
	// caller's context allows. 0: 5 seconds.
	Timeout time.Duration
	// Dial opens the connections of [Open], for tests and for ways to a server that only
	// the caller knows. nil: the net package does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Server is the one that Dial leads to, if it is in this process. Then its inbox does not
	// look every second whether there is something to do, but sleeps until there is: for
	// tests in which days pass. nil: it looks.
	Server *Server
	// Log takes what the Redis client has to say, at debug level. The zero
	// Logger is silent. The client knows one logger in the whole process: the
	// last one opened wins.
	Log zerolog.Logger
}

func (c Config) withDefaults() Config {
	c.TTL = cmp.Or(c.TTL, 30*24*time.Hour)
	c.MaxBytes = cmp.Or(c.MaxBytes, 1<<20)
	c.Timeout = cmp.Or(c.Timeout, 5*time.Second)
	return c
}

// validate refuses what cannot be meant. A TTL under a second would make every
// turn forget the one before.
func (c Config) validate() error {
	switch {
	case c.TTL < time.Second:
		return fmt.Errorf("state config: TTL %v is under a second", c.TTL)
	case c.MaxBytes < headerBytes:
		return fmt.Errorf("state config: MaxBytes %d leaves no room for a value", c.MaxBytes)
	case c.Timeout < 0:
		return fmt.Errorf("state config: Timeout %v is negative", c.Timeout)
	}
	return nil
}

// Redis keeps state in a Redis server, a cluster, or inside the process. It is
// safe for concurrent use. Make one with [Open] or [OpenEmbedded] and Close it.
type Redis struct {
	client   redis.UniversalClient
	reader   func() redis.UniversalClient // see clients
	together *together
	cfg      Config
	name     string
	stop     func() // ends the embedded server; nil for a real one
}

// Open makes a Redis from a URL:
//
//	redis://user:password@host:6379/0                  one server
//	redis+cluster://user:password@host:6379?addr=host2:6379
//	redis+sentinel://user:password@host:26379/0?master_name=main&addr=host2:26379
//
// rediss, rediss+cluster and rediss+sentinel use TLS. The query may hold the
// options of go-redis, such as pool_size, read_timeout or, for sentinels, the
// username and password of Redis itself. A redis URL with addr is a cluster's
// and one with master_name the sentinels', as in go-redis.
//
// A server that cannot be reached is no error: the bot starts, [Redis.Ping]
// tells, and it works as soon as the server is there. A URL that makes no sense
// is one; it never holds the URL itself, which may hold a password.
func Open(ctx context.Context, url string, cfg Config) (*Redis, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c, err := newClients(url, cfg)
	if err != nil {
		return nil, fmt.Errorf("open redis: %w", err)
	}
	return newRedis(c, cfg), nil
}

func newRedis(c clients, cfg Config) *Redis {
	return &Redis{client: c.main, reader: c.reader, together: newTogether(c.main, cfg.Timeout), cfg: cfg, name: c.name}
}

// Ping reports whether Redis answers and keeps the keys of this program: it sets
// one, for a minute, in each of four partitions, so that on a cluster several nodes
// must be well. A server that is full, or only to be read, is not. Its error is for
// the operator to read.
func (r *Redis) Ping(ctx context.Context) error {
	const doing = "ping redis"
	bounded, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	_, err := r.client.Pipelined(bounded, func(p redis.Pipeliner) error {
		for i := 0; i < partitions; i += partitions / 4 {
			p.Set(bounded, fmt.Sprintf("%s{%d}/ping", keyPrefix, i), "", time.Minute)
		}
		return nil
	})
	if err != nil {
		return explain(ctx, doing, err)
	}
	return nil
}

// Close gives up all connections and, for an embedded server, ends it: what it
// kept is gone.
func (r *Redis) Close() error {
	err := r.together.close()
	if r.stop != nil {
		r.stop()
	}
	if err != nil {
		return fmt.Errorf("close redis: %w", err)
	}
	return nil
}

// Embedded reports whether state lives in this process and ends with it.
func (r *Redis) Embedded() bool { return r.stop != nil }

// String says where state lives, without credentials, for a log line.
func (r *Redis) String() string { return r.name }
