// Package rdb connects package state and its inbox to Redis. It opens a server, a cluster,
// sentinels or an in-process server, runs scripts and plain commands, and tells an unavailable
// Redis from one that rejects a command.
package rdb

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/planbot-go/planbot/internal/pipe"
)

// Config configures a DB. The zero value is ready to use.
type Config struct {
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
	Server *Server // set if Dial leads to a server in this process
}

// Defaults for one client, unless its URL overrides them. A turn uses a connection for a few round
// trips of a fraction of a millisecond each, so 64 connections serve thousands of concurrent turns.
var limits = map[string]string{
	"dial_timeout": "2s", "read_timeout": "2s", "write_timeout": "2s", "pool_timeout": "3s",
	"max_retries": "1", "max_retry_backoff": "200ms", "pool_size": "64",
	"pipeline_pool_size": "-1", // we send only pipelines, so a second pool would just cost memory
	"protocol":           "2",  // we do not need RESP3 push messages
}

// Limits for a client whose reads block, whatever its URL says. It needs one connection, or on a
// cluster one per partition.
var readerLimits = map[string]string{"min_idle_conns": "0", "max_active_conns": "0", "pool_size": strconv.Itoa(Partitions)}

const (
	bufferBytes = 16 << 10 // small buffers keep connections cheap

	// ReadBlock is how long a read blocks until there is data.
	ReadBlock = 2 * time.Second
)

// DB is an open connection to Redis. It is safe for concurrent use.
//
// Nothing that others reach from here names a type of go-redis or miniredis. Otherwise the compiler writes
// wrappers for their thousands of methods into every package that sees a state.Store: each took it 1.5
// seconds and 9 MB.
type DB struct {
	Clusters bool // different partitions may be on different nodes

	name   string // without credentials
	url    string
	cfg    Config
	wire   wire
	embeds bool // this DB started cfg.Server
}

// wire sends commands to Redis. [trips] is the only one.
type wire interface {
	// trip runs calls in one round trip.
	trip(ctx context.Context, calls []*Call)
	scan(ctx context.Context, pattern string, each func(ctx context.Context, key string) error) error
	ping(ctx context.Context, keys []string) error
	info(ctx context.Context) (string, error)
	setting(ctx context.Context, name string) (string, error)
	remove(ctx context.Context, key string) error
	close() error
}

// ErrClosed is the error of a DB that is closed.
var ErrClosed = redis.ErrClosed

// Open prepares a client for the Redis at url. It does not connect.
func Open(url string, cfg Config) (*DB, error) {
	client, name, err := newClient(url, cfg.Dial, nil)
	if err != nil {
		return nil, fmt.Errorf("redis URL: %w", err)
	}
	logging.Disable() // it is global to the process, and we get failures as errors anyway
	_, clusters := client.(*redis.ClusterClient)
	return &DB{Clusters: clusters, name: name, url: url, cfg: cfg, wire: newTrips(client, clusters)}, nil
}

// OpenEmbedded starts a Redis inside the process and opens it.
func OpenEmbedded() (*DB, error) {
	server, err := StartServer()
	if err != nil {
		return nil, err
	}
	// An in-process connection loses nothing, so do not retry.
	db, err := Open("redis://in-this-process?max_retries=-1&pool_size=16", Config{Dial: server.Dial, Server: server})
	if err != nil {
		server.Close()
		return nil, err
	}
	db.name, db.embeds = "embedded redis", true
	return db, nil
}

// parseURL detects the form of the URL and converts it to what the go-redis parsers accept. Its
// errors never quote raw: a password with an unescaped character may end up in any part of it.
func parseURL(raw string) (*url.URL, string, error) {
	u, err := url.Parse(raw)
	if err != nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@") {
		return nil, "", errors.New("not a URL (special characters of a password must be percent-encoded)")
	}
	scheme, form, _ := strings.Cut(strings.Replace(u.Scheme, "-", "+", 1), "+")
	if scheme != "redis" && scheme != "rediss" || u.Host == "" {
		return nil, "", errors.New("want redis://host:port, rediss://, redis+cluster:// or redis+sentinel://")
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
			return nil, "", fmt.Errorf("%s reads from replicas, which may not have what the last turn saved", stale)
		}
	}
	for name, limit := range limits {
		if query.Get(name) == "" {
			query.Set(name, limit)
		}
	}
	u.Scheme, u.RawQuery = scheme, query.Encode()
	return u, form, nil
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// newClient makes a client with go-redis's parser for the form, and returns its name. Pass
// connected for a client whose reads block.
func newClient(raw string, dial dialer, connected func(context.Context, *redis.Conn) error) (redis.UniversalClient, string, error) {
	u, form, err := parseURL(raw)
	if err != nil {
		return nil, "", err
	}
	if connected != nil {
		query := u.Query()
		for name, limit := range readerLimits {
			query.Set(name, limit)
		}
		u.RawQuery = query.Encode()
	}
	switch form {
	case "":
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, "", err
		}
		o.ContextTimeoutEnabled, o.DialerRetries, o.DisableIdentity, o.MaintNotificationsConfig = true, 1, true, quiet()
		o.ReadBufferSize, o.WriteBufferSize, o.Dialer, o.OnConnect = bufferBytes, bufferBytes, dial, connected
		return redis.NewClient(o), fmt.Sprintf("redis %s/%d", o.Addr, o.DB), nil
	case "cluster":
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, "", err
		}
		o.ContextTimeoutEnabled, o.DialerRetries, o.DisableIdentity, o.MaintNotificationsConfig = true, 1, true, quiet()
		o.ReadBufferSize, o.WriteBufferSize, o.Dialer, o.OnConnect = bufferBytes, bufferBytes, dial, connected
		return redis.NewClusterClient(o), "redis cluster " + strings.Join(o.Addrs, ","), nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return nil, "", err
		}
		if o.MasterName == "" {
			return nil, "", errors.New("sentinels need master_name")
		}
		o.ContextTimeoutEnabled, o.DialerRetries, o.DisableIdentity = true, 1, true
		o.ReadBufferSize, o.WriteBufferSize, o.Dialer, o.OnConnect = bufferBytes, bufferBytes, dial, connected
		name := fmt.Sprintf("redis %s/%d through sentinels %s", o.MasterName, o.DB, strings.Join(o.SentinelAddrs, ","))
		return redis.NewFailoverClient(o), name, nil
	}
	return nil, "", fmt.Errorf("unknown form redis+%s, want cluster or sentinel", form)
}

// quiet disables a handshake that only managed Redis services answer.
func quiet() *maintnotifications.Config {
	return &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
}

// ClientOf returns the client of a DB, for tests.
func ClientOf(db *DB) redis.UniversalClient { return db.wire.(*trips).client }

// Reader reads from lists. It is safe for concurrent use.
type Reader interface {
	// Take waits until one of the lists has an element, and pops it. It returns the list and the element, or
	// nil if there was none within [ReadBlock].
	Take(ctx context.Context, lists []string) ([]string, error)
	// Close ends all that waits.
	Close() error
}

type reader struct{ client redis.UniversalClient }

func (r *reader) Take(ctx context.Context, lists []string) ([]string, error) {
	taken, err := r.client.BLPop(ctx, ReadBlock, lists...).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return taken, err
}

func (r *reader) Close() error { return r.client.Close() }

// Reader makes a client for blocking reads. The caller closes it. It always parses the URL again
// instead of sharing options: go-redis does not tell shared options about a failover, so the client
// would keep reading from a demoted master. It calls connected for each new connection, because
// data in flight on the previous one is lost.
func (db *DB) Reader(connected func()) Reader {
	client, _, err := newClient(db.url, db.cfg.Dial, func(context.Context, *redis.Conn) error {
		connected()
		return nil
	})
	if err != nil {
		panic(fmt.Errorf("a Redis URL that was understood before: %w", err))
	}
	return &reader{client}
}

// Exec runs calls in one round trip. If the server does not know a script, that call did not run;
// Exec sends it and all later calls again with the script's text. Afterwards each call has a reply
// or an Err. ctx needs a deadline.
func (db *DB) Exec(ctx context.Context, calls ...*Call) {
	for len(calls) > 0 {
		db.wire.trip(ctx, calls)
		calls = unknown(calls)
	}
}

// Spread is Exec for calls with keys that do not depend on each other. On a cluster each partition
// gets its own round trip: if one trip went to several nodes and one of them did not answer in
// time, all its calls would lose their replies.
func (db *DB) Spread(ctx context.Context, calls ...*Call) {
	trips := map[string][]*Call{}
	for _, c := range calls {
		tag := ""
		if key, _ := c.keys[0].(string); db.Clusters {
			tag, _, _ = strings.Cut(key, "}")
		}
		trips[tag] = append(trips[tag], c)
	}
	var wg sync.WaitGroup
	for _, trip := range trips {
		wg.Go(func() { db.Exec(ctx, trip...) })
	}
	wg.Wait()
}

// replyError says why a command of a pipeline has no reply. A command may have neither a reply nor
// an error: go-redis v9.23 leaves it like that when a connection fails to log in. Reading that as
// an empty reply would make a turn forget everything.
func replyError(reply *redis.Cmd, execErr error) error {
	switch {
	case reply.Err() != nil:
		return reply.Err()
	case reply.Val() != nil:
		return nil
	case execErr != nil:
		return execErr
	}
	return errors.New("no answer")
}

// unknown returns calls from the first one whose script the server did not know. It does not return
// a call twice: the second time the call carries the script's text.
func unknown(calls []*Call) []*Call {
	lacked := func(c *Call) bool { return c.script != nil && !c.whole && redis.HasErrorPrefix(c.Err, "NOSCRIPT") }
	i := slices.IndexFunc(calls, lacked)
	if i < 0 {
		return nil
	}
	for _, c := range calls[i:] {
		if lacked(c) {
			c.whole = true
			c.Tries-- // it did not run
		}
	}
	return calls[i:]
}

// Try is Exec with retries while Redis is unavailable, until ctx or stop ends. A nil error means
// that each call has a reply, or an Err that a retry would not fix. Each retry repeats everything
// from the first call without either. An unanswered Once call alone causes no retry.
func (db *DB) Try(ctx context.Context, stop <-chan struct{}, calls ...*Call) error {
	for try := 0; ; try++ {
		db.Exec(ctx, calls...)
		if calls = unanswered(calls); len(calls) == 0 {
			return nil
		}
		if errors.Is(calls[0].Err, ErrClosed) || !Pause(ctx, stop, try) {
			return calls[0].Err
		}
	}
}

func unanswered(calls []*Call) []*Call {
	for i, c := range calls {
		if c.Err != nil && !c.Once && IsUnavailable(c.Err) {
			return calls[i:]
		}
	}
	return nil
}

// Pause waits a little longer with each try and reports whether to try again.
func Pause(ctx context.Context, stop <-chan struct{}, try int) bool {
	wait := min(10*time.Millisecond<<min(try, 10), 400*time.Millisecond)
	timer := time.NewTimer(wait/2 + mathrand.N(wait))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-stop:
	}
	return false
}

// Scan passes every key that matches a pattern to each, one at a time. A key may come twice.
func (db *DB) Scan(ctx context.Context, pattern string, each func(ctx context.Context, key string) error) error {
	return db.wire.scan(ctx, pattern, each)
}

// Ping sets keys for a minute.
func (db *DB) Ping(ctx context.Context, keys ...string) error { return db.wire.ping(ctx, keys) }

// Info returns the server's reply to the INFO command.
func (db *DB) Info(ctx context.Context) (string, error) { return db.wire.info(ctx) }

// Setting returns one setting of the server through CONFIG GET.
func (db *DB) Setting(ctx context.Context, name string) (string, error) {
	return db.wire.setting(ctx, name)
}

// Remove deletes a key.
func (db *DB) Remove(ctx context.Context, key string) error { return db.wire.remove(ctx, key) }

// Changed returns a channel that is closed at the next write to an in-process server; nil for any
// other server.
func (db *DB) Changed() <-chan struct{} {
	if db.cfg.Server == nil {
		return nil
	}
	return db.cfg.Server.wait()
}

// Server is the in-process server; nil if there is none or Config did not name it.
func (db *DB) Server() *Server { return db.cfg.Server }

// Embedded reports whether the server lives in this process and ends with it.
func (db *DB) Embedded() bool { return db.embeds }

// String says where the data lives, without credentials, for a log line.
func (db *DB) String() string { return db.name }

// Close closes all connections and stops an embedded server.
func (db *DB) Close() error {
	err := db.wire.close()
	if db.embeds {
		db.cfg.Server.Close()
	}
	return err
}

// Server is a Redis inside the process. It has no listener, and a clock for TTLs. Each embedded
// store has its own. Tests let several stores share one, as the replicas of a bot do, by using its
// Dial as the Dial of each store. It is safe for concurrent use.
type Server struct {
	mini interface { // a miniredis.Miniredis; see DB
		RequireAuth(password string)
		FastForward(passed time.Duration)
		Close()
	}
	srv interface { // mini's server; mini gives it out only until it is closed
		ServeConn(conn net.Conn)
		IsReadOnlyCommand(cmd string) bool
	}

	mu      sync.Mutex
	closed  bool
	changed chan struct{} // closed at the next write; nil: nobody waits for one

	aging sync.Mutex
	aged  time.Time // the time up to which TTLs have advanced
}

// StartServer starts a Server. Close it when its data is no longer needed.
func StartServer() (*Server, error) {
	mini := miniredis.NewMiniRedis()
	s := &Server{mini: mini, aged: time.Now()}
	first, err := mini.Dial() // starts the server without a port; miniredis's own pipe cannot pipeline
	if err != nil {
		return nil, err
	}
	if err := first.Close(); err != nil {
		return nil, err
	}
	srv := mini.Server()
	s.srv = srv
	srv.SetPreHook(func(_ *server.Peer, cmd string, _ ...string) (done bool) {
		s.before(cmd)
		return false
	})
	return s, nil
}

// Dial connects to the server and ignores the address.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("embedded redis is closed")
	}
	client, server := pipe.New()
	s.srv.ServeConn(aging{server, s})
	return client, nil
}

// Serve serves connections of other processes that know the password, until ctx ends. It closes the
// listener. Dial needs the password from then on, too.
func (s *Server) Serve(ctx context.Context, l net.Listener, password string) error {
	s.mini.RequireAuth(password)
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("serve the embedded redis: %w", err)
		}
		s.srv.ServeConn(aging{conn, s})
	}
}

// before runs before each command, including those of scripts, and under their lock.
func (s *Server) before(cmd string) {
	switch cmd {
	case "EVALSHA", "EVAL", "TIME", "BLPOP": // none of these changes data by itself
		return
	}
	if s.srv.IsReadOnlyCommand(cmd) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// wait returns a channel that is closed at the next write.
func (s *Server) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// aging is a connection that advances the server's clock whenever data comes in.
type aging struct {
	net.Conn
	s *Server
}

func (a aging) Read(p []byte) (int, error) {
	n, err := a.Conn.Read(p)
	a.s.age()
	return n, err
}

// age advances the clock for TTLs in steps of at least a second. Without it miniredis would never
// expire keys; with smaller steps it would check all keys on every command.
func (s *Server) age() {
	s.aging.Lock()
	defer s.aging.Unlock()
	if passed := time.Since(s.aged); passed >= time.Second {
		s.mini.FastForward(passed)
		s.aged = s.aged.Add(passed)
	}
}

// Close stops the server and waits for its goroutines. Its data is lost.
func (s *Server) Close() {
	s.mu.Lock()
	closed := s.closed
	s.closed = true
	s.mu.Unlock()
	if closed {
		return
	}
	s.mini.Close()
}

const (
	// tripsAtOnce is how many round trips may be in flight before commands wait. It is small, so
	// that waiting commands share a trip, and large enough that one slow trip does not block all
	// others.
	tripsAtOnce = 4

	maxTogether = 128 // how many callers share one round trip
)

// trips combines what several callers send at the same time into one round trip. A caller's
// commands stay in order and together. So a busy bot needs a fraction of the writes and reads, and
// only a few connections, however many turns it runs.
//
// On a cluster each caller gets its own trip: a shared trip would go to several nodes, and the
// slowest would delay everybody.
type trips struct {
	client redis.UniversalClient
	alone  bool
	next   chan *batch
	closed chan struct{}
	once   sync.Once // guards the close of closed
	work   sync.WaitGroup
}

// batch is the commands of one caller.
type batch struct {
	cmds  []redis.Cmder
	until time.Time // when its caller stops waiting
	err   error     // of the trip
	done  chan struct{}
}

func newTrips(client redis.UniversalClient, alone bool) *trips {
	t := &trips{client: client, alone: alone, next: make(chan *batch), closed: make(chan struct{})}
	for range tripsAtOnce {
		t.work.Go(t.travel)
	}
	return t
}

func (t *trips) trip(ctx context.Context, calls []*Call) {
	cmds := make([]redis.Cmder, len(calls))
	replies := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		replies[i] = commandOf(ctx, c)
		cmds[i] = replies[i]
		c.Tries++
	}
	left, err := t.send(ctx, cmds)
	for i, c := range calls {
		if left {
			replies[i] = redis.NewCmd(ctx) // the client may still write to the old one
		}
		c.reply = replies[i].Val()
		c.Err = replyError(replies[i], err)
	}
}

// send runs the commands in one round trip. The error is the first one of the trip, not necessarily
// of these commands. left means that ctx ended first: the commands may still be in flight, so the
// caller must not touch them.
func (t *trips) send(ctx context.Context, cmds []redis.Cmder) (left bool, err error) {
	if err := ctx.Err(); err != nil { // else the choices below are a matter of luck
		return true, err
	}
	if t.alone {
		return false, t.run(ctx, cmds)
	}
	b := &batch{cmds: cmds, done: make(chan struct{})}
	b.until, _ = ctx.Deadline()
	select {
	case t.next <- b:
	case <-t.closed:
		return false, redis.ErrClosed
	case <-ctx.Done():
		return true, ctx.Err()
	}
	select {
	case <-b.done:
		return false, b.err
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// travel makes one trip after another, each with everything that is waiting.
func (t *trips) travel() {
	for {
		select {
		case <-t.closed:
			return
		case b := <-t.next:
			t.together(t.waiting(b))
		}
	}
}

// waiting returns first and the batches behind it.
func (t *trips) waiting(first *batch) []*batch {
	group := []*batch{first}
	for len(group) < maxTogether {
		select {
		case b := <-t.next:
			group = append(group, b)
		default:
			return group
		}
	}
	return group
}

// together makes one trip for a group and stops when its last caller has stopped waiting.
func (t *trips) together(group []*batch) {
	var until time.Time
	var cmds []redis.Cmder
	for _, b := range group {
		cmds = append(cmds, b.cmds...)
		if b.until.After(until) {
			until = b.until
		}
	}
	ctx, cancel := context.WithDeadline(context.Background(), until.Add(10*time.Millisecond)) // callers leave first
	defer cancel()
	err := t.run(ctx, cmds)
	for _, b := range group {
		b.err = err
		close(b.done)
	}
}

func (t *trips) run(ctx context.Context, cmds []redis.Cmder) error {
	if len(cmds) == 1 { // a tenth cheaper than a pipeline of one
		return t.client.Process(ctx, cmds[0])
	}
	pipe := t.client.Pipeline()
	_ = pipe.BatchProcess(ctx, cmds...) // it only queues them
	_, err := pipe.Exec(ctx)
	return err
}

func (t *trips) scan(ctx context.Context, pattern string, each func(ctx context.Context, key string) error) error {
	var one sync.Mutex
	scan := func(ctx context.Context, node redis.Cmdable) error {
		one.Lock()
		defer one.Unlock()
		keys := node.Scan(ctx, 0, pattern, 1000).Iterator()
		for keys.Next(ctx) {
			if err := each(ctx, keys.Val()); err != nil {
				return err
			}
		}
		return keys.Err()
	}
	if cluster, ok := t.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return scan(ctx, node) })
	}
	return scan(ctx, t.client)
}

func (t *trips) ping(ctx context.Context, keys []string) error {
	_, err := t.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Set(ctx, key, "", time.Minute)
		}
		return nil
	})
	return err
}

func (t *trips) info(ctx context.Context) (string, error) { return t.client.Info(ctx).Result() }

func (t *trips) setting(ctx context.Context, name string) (string, error) {
	values, err := t.client.ConfigGet(ctx, name).Result()
	return values[name], err
}

func (t *trips) remove(ctx context.Context, key string) error { return t.client.Del(ctx, key).Err() }

func (t *trips) close() error {
	t.once.Do(func() { close(t.closed) })
	err := t.client.Close()
	t.work.Wait()
	return err
}
