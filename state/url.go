package state

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/rs/zerolog"
)

// What one client may use, unless its URL says otherwise. A turn holds a
// connection for two round trips, a fraction of a millisecond each, so 64
// carry thousands of concurrent turns; small buffers keep them cheap.
const (
	networkTimeout = "2s"
	poolTimeout    = "3s"
	retries        = "1"
	poolSize       = "64"
	bufferBytes    = 16 << 10

	// A reader's connections wait for a few names.
	readTimeout = readBlock + 3*time.Second
	readerBytes = 1 << 10
)

// CheckURL returns what [Open] has against a URL, nil when it would take it.
// Nothing is dialled, and like Open's the error never quotes the URL.
func CheckURL(raw string) error {
	u, form, err := parseURL(raw)
	if err != nil {
		return err
	}
	c, err := clientsFor(form, withLimits(u), nil)
	if err != nil {
		return fmt.Errorf("redis URL: %w", err)
	}
	return c.main.Close()
}

// clients are those of one Redis.
type clients struct {
	main   redis.UniversalClient
	reader func() redis.UniversalClient // makes one for reads that wait, for the caller to close
	name   string                       // without credentials
}

// newClients makes the client that a URL asks for. Nothing is dialled.
func newClients(raw string, cfg Config) (clients, error) {
	u, form, err := parseURL(raw)
	if err != nil {
		return clients{}, err
	}
	redis.SetLogger(clientLog{cfg.Log})
	c, err := clientsFor(form, withLimits(u), cfg.Dial)
	if err != nil {
		return clients{}, fmt.Errorf("redis URL: %w", err)
	}
	return c, nil
}

// parseURL finds out which form of URL raw is, and brings it into the one that
// the parsers of go-redis know. None of its errors quotes raw: a password with
// an unescaped character may end up in any part of it.
func parseURL(raw string) (*url.URL, string, error) {
	u, err := url.Parse(raw)
	if err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return nil, "", errors.New("redis URL: not a URL (special characters of a password must be percent-encoded)")
	}
	scheme, form, _ := strings.Cut(strings.Replace(u.Scheme, "-", "+", 1), "+")
	if scheme != "redis" && scheme != "rediss" || u.Host == "" {
		return nil, "", errors.New("redis URL: want redis://host:port, rediss://, redis+cluster:// or redis+sentinel://")
	}
	query := u.Query()
	switch {
	case form == "" && query.Has("master_name"):
		form = "sentinel"
	case form == "" && query.Has("addr"):
		form = "cluster"
	}
	for _, stale := range []string{"read_only", "route_by_latency", "route_randomly", "replica_only"} {
		if query.Has(stale) {
			return nil, "", fmt.Errorf("redis URL: %s reads from replicas, which may not have what the last turn saved", stale)
		}
	}
	u.Scheme = scheme
	return u, form, nil
}

// withLimits adds the limits that u does not set itself.
func withLimits(u *url.URL) string {
	query := u.Query()
	for name, limit := range map[string]string{
		"dial_timeout": networkTimeout, "read_timeout": networkTimeout, "write_timeout": networkTimeout,
		"pool_timeout": poolTimeout, "max_retries": retries, "pool_size": poolSize,
		"max_retry_backoff":  "200ms",
		"pipeline_pool_size": "-1", // pipelines are all we send: a second pool would only cost memory
		"protocol":           "2",  // nothing here needs RESP3's pushes
	} {
		if query.Get(name) == "" {
			query.Set(name, limit)
		}
	}
	limited := *u
	limited.RawQuery = query.Encode()
	return limited.String()
}

// dialer opens connections; nil: the net package does.
type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// clientsFor makes the client through go-redis' own parser for the form.
func clientsFor(form, limited string, dial dialer) (clients, error) {
	switch form {
	case "":
		return newSingle(limited, dial)
	case "cluster":
		return newCluster(limited, dial)
	case "sentinel":
		return newSentinel(limited, dial)
	}
	return clients{}, fmt.Errorf("unknown form redis+%s, want cluster or sentinel", form)
}

func newSingle(limited string, dial dialer) (clients, error) {
	o, err := redis.ParseURL(limited)
	if err != nil {
		return clients{}, err
	}
	tune(o)
	o.Dialer = dial
	return clientsOf(o, fmt.Sprintf("redis %s/%d", o.Addr, o.DB)), nil
}

func clientsOf(o *redis.Options, name string) clients {
	reading := *o
	reading.PoolSize, reading.MinIdleConns, reading.MaxActiveConns = 1, 0, 0
	reading.ReadTimeout, reading.ReadBufferSize, reading.WriteBufferSize = readTimeout, readerBytes, readerBytes
	return clients{
		main: redis.NewClient(o), name: name,
		reader: func() redis.UniversalClient { o := reading; return redis.NewClient(&o) },
	}
}

// tune sets what a URL has no option for; the other two forms do the same.
func tune(o *redis.Options) {
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	o.ReadBufferSize, o.WriteBufferSize = bufferBytes, bufferBytes
	o.DisableIdentity = true
	o.MaintNotificationsConfig = quiet()
}

func newCluster(limited string, dial dialer) (clients, error) {
	o, err := redis.ParseClusterURL(limited)
	if err != nil {
		return clients{}, err
	}
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	o.ReadBufferSize, o.WriteBufferSize = bufferBytes, bufferBytes
	o.DisableIdentity = true
	o.MaintNotificationsConfig = quiet()
	o.Dialer = dial
	reading := *o
	reading.PoolSize, reading.MinIdleConns, reading.MaxActiveConns = partitions, 0, 0
	reading.ReadTimeout, reading.ReadBufferSize, reading.WriteBufferSize = readTimeout, readerBytes, readerBytes
	return clients{
		main: redis.NewClusterClient(o), name: "redis cluster " + strings.Join(o.Addrs, ","),
		reader: func() redis.UniversalClient { o := reading; return redis.NewClusterClient(&o) },
	}, nil
}

func newSentinel(limited string, dial dialer) (clients, error) {
	o, err := redis.ParseFailoverURL(limited)
	if err != nil {
		return clients{}, err
	}
	if o.MasterName == "" {
		return clients{}, errors.New("sentinels need master_name")
	}
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	o.ReadBufferSize, o.WriteBufferSize = bufferBytes, bufferBytes
	o.DisableIdentity = true
	o.Dialer = dial
	where := fmt.Sprintf("redis %s/%d through sentinels %s", o.MasterName, o.DB, strings.Join(o.SentinelAddrs, ","))
	reading := *o
	reading.PoolSize, reading.MinIdleConns, reading.MaxActiveConns = 1, 0, 0
	reading.ReadTimeout, reading.ReadBufferSize, reading.WriteBufferSize = readTimeout, readerBytes, readerBytes
	return clients{
		main: redis.NewFailoverClient(o), name: where,
		// Not with the Options of the first, which nobody would tell of a failover: it
		// would go on reading from a server that is no master any more.
		reader: func() redis.UniversalClient { o := reading; return redis.NewFailoverClient(&o) },
	}, nil
}

// quiet switches off a handshake that only managed Redis services answer.
func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// clientLog takes the lines that go-redis would write to stderr.
type clientLog struct{ log zerolog.Logger }

func (l clientLog) Printf(_ context.Context, format string, args ...any) {
	l.log.Debug().Str("from", "redis client").Msg(fmt.Sprintf(strings.TrimSpace(format), args...))
}
