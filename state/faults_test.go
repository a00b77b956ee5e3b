package state_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/planbot-go/planbot/state"
)

var key = state.ConversationKey("test", "bot", "c")

// load loads one scope that must load.
func load(t testing.TB, r *state.Store, key state.Key) *state.Scope {
	t.Helper()
	scopes, err := r.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return scopes[0]
}

// put stores a Counter.
func put(t testing.TB, r *state.Store, key state.Key, n int) {
	t.Helper()
	s := load(t, r, key)
	state.Of[Counter](s).N = n
	if err := r.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// What lies under a key and is not ours is refused, never overwritten by a
// Save, and a Delete gets rid of it.
func TestForeignDocuments(t *testing.T) {
	t.Parallel()
	header := "planbot/1 ABCDEFGHIJKLMNOPQRSTUVWXYZ 68e00000\n"
	for name, tt := range map[string]struct {
		doc  string
		want string
	}{
		"newer format":  {"planbot/2 whatever it is\n", "2, this program knows 1"},
		"not ours":      {`{"json":true}`, "not written by this program"},
		"no format":     {"planbot/x", "not written by this program"},
		"cut header":    {header[:30], "not written by this program"},
		"no time":       {strings.Replace(header, "68e00000", "xxxxxxxx", 1), "not written by this program"},
		"cut line":      {header + `counter {"n":1}`, "not written by this program"},
		"line of noise": {header + "counter\n", "not written by this program"},
		"bad name":      {header + "%zz 1\n", "not written by this program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openEmbedded(t, state.Config{})
			if err := r.Client().Set(t.Context(), key.String(), tt.doc, 0).Err(); err != nil {
				t.Fatal(err)
			}
			checkRefused(t, r, tt.want)
		})
	}
	t.Run("another type", func(t *testing.T) {
		t.Parallel()
		r := openEmbedded(t, state.Config{})
		if err := r.Client().LPush(t.Context(), key.String(), "x").Err(); err != nil {
			t.Fatal(err)
		}
		scopes, err := r.Load(t.Context(), key)
		if !errors.Is(err, state.ErrValue) || len(scopes) != 1 || !errors.Is(scopes[0].Err(), state.ErrValue) {
			t.Errorf("load: %v", err)
		}
	})
}

// What lies under the key of a set and is none has no members, and gets none.
func TestForeignSets(t *testing.T) {
	t.Parallel()
	r, set := openEmbedded(t, state.Config{}), key.Under("notes", "places")
	if err := r.Client().SAdd(t.Context(), set.String(), "x").Err(); err != nil {
		t.Fatal(err)
	}
	var members []string
	each := func(some []string) error {
		members = append(members, some...)
		return nil
	}
	if err := r.Members(t.Context(), set, each); err != nil || len(members) > 0 {
		t.Errorf("%q, %v", members, err)
	}
	if err := r.Join(t.Context(), set, "a"); err == nil {
		t.Error("joined")
	}
}

func checkRefused(t *testing.T, r *state.Store, want string) {
	t.Helper()
	other := state.UserKey("test", "bot", "u")
	scopes, err := r.Load(t.Context(), key, other)
	if !errors.Is(err, state.ErrValue) || !strings.Contains(err.Error(), key.String()) || !strings.Contains(err.Error(), want) {
		t.Fatalf("load: %v, want an ErrValue about %q", err, want)
	}
	s := scopes[0]
	state.Of[Counter](s).N = 1
	if !errors.Is(s.Err(), state.ErrValue) || scopes[1].Err() != nil {
		t.Errorf("Err: %v and %v", s.Err(), scopes[1].Err())
	}
	if err := r.Save(t.Context(), s); !errors.Is(err, state.ErrValue) {
		t.Errorf("save: %v", err)
	}
	s.Delete()
	state.Of[Counter](s).N = 2
	if err := r.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := state.Of[Counter](load(t, r, key)).N; got != 2 {
		t.Errorf("after Delete and a write n = %d", got)
	}
}

func TestTooLargeToLoad(t *testing.T) {
	t.Parallel()
	r := openEmbedded(t, state.Config{MaxBytes: 200})
	if err := r.Client().Set(t.Context(), key.String(), strings.Repeat("x", 5000), 0).Err(); err != nil {
		t.Fatal(err)
	}
	w := &wire{}
	r.AddHook(w)
	scopes, err := r.Load(t.Context(), key)
	w.did(t, "load of what is too large", 1, "getrange")
	if w.asked != 201 {
		t.Errorf("asked for %d bytes, want no more than are needed to know", w.asked)
	}
	if !errors.Is(err, state.ErrTooLarge) {
		t.Fatalf("%v, want an ErrTooLarge", err)
	}
	for _, part := range []string{key.String(), "200"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not name %s", err, part)
		}
	}
	scopes[0].Delete()
	if err := r.Save(t.Context(), scopes[0]); err != nil {
		t.Error(err)
	}
	if load(t, r, key).Has("counter") {
		t.Error("the document is still there")
	}
}

// A document of exactly the limit fits, in both directions.
func TestLimitIsInclusive(t *testing.T) {
	t.Parallel()
	const limit = 200
	r := openEmbedded(t, state.Config{MaxBytes: limit})
	s := load(t, r, key)
	text := state.At[string](s, "t")
	*text = strings.Repeat("x", limit-state.HeaderBytes-len(`t ""`)-1)
	if err := r.Save(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if n := r.Client().StrLen(t.Context(), key.String()).Val(); n != limit {
		t.Fatalf("the document has %d bytes, want %d", n, limit)
	}
	s = load(t, r, key)
	text = state.At[string](s, "t")
	*text += "x"
	if err := r.Save(t.Context(), s); !errors.Is(err, state.ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

// answers breaks everything with an answer of the server.
type answers struct{ text string }

func (a answers) Error() string                               { return a.text }
func (a answers) RedisError()                                 {}
func (a answers) DialHook(next redis.DialHook) redis.DialHook { return next }
func (a answers) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.SetErr(a)
		return a
	}
}

func (a answers) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(a)
		}
		return a
	}
}

func TestAnswersThatMeanUnavailable(t *testing.T) {
	t.Parallel()
	for text, unavailable := range map[string]bool{
		"LOADING Redis is loading the dataset in memory":          true,
		"READONLY You can't write against a read only replica.":   true,
		"CLUSTERDOWN The cluster is down":                         true,
		"TRYAGAIN Multiple keys request during rehashing":         true,
		"MASTERDOWN Link with MASTER is down":                     true,
		"OOM command not allowed when used memory > 'maxmemory'.": true,
		"MISCONF Redis is configured to save RDB snapshots":       true,
		"NOAUTH Authentication required.":                         true,
		"ERR max number of clients reached":                       true,
		"ERR Error running script":                                false,
		// Redis 6.2, where a command of a script met it.
		"ERR Error running script (call to f_beef): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.": true,
		"ERR Error running script (call to f_beef): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.":   true,
		"ERR Error running script (call to f_beef): @user_script:1: @user_script: 1: -WRONGTYPE Operation against a key":                       false,
		"ERR unknown command with : -OOM": false,
	} {
		r := openEmbedded(t, state.Config{})
		s := load(t, r, key)
		r.AddHook(answers{text})
		state.Of[Counter](s).N = 1
		_, loadErr := r.Load(t.Context(), key)
		for what, err := range map[string]error{"load": loadErr, "save": r.Save(t.Context(), s), "ping": r.Ping(t.Context())} {
			if err == nil || errors.Is(err, state.ErrUnavailable) != unavailable || !strings.Contains(err.Error(), text) {
				t.Errorf("%s with %q: %v", what, text, err)
			}
		}
	}
}

// A connection that fails to log in leaves the commands of a pipeline without
// an answer and without an error: that is not an empty state.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.RequireAuth("right")
	r := openURL(t, "redis://:sesame@"+server.Addr(), state.Config{TTL: time.Hour})
	scopes, loadErr := r.Load(t.Context(), key)
	s := load(t, openEmbedded(t, state.Config{}), key)
	state.Of[Counter](s).N = 1
	for what, err := range map[string]error{"load": loadErr, "save": r.Save(t.Context(), s), "ping": r.Ping(t.Context())} {
		if !errors.Is(err, state.ErrUnavailable) || !strings.Contains(err.Error(), "WRONGPASS") || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: %v, want WRONGPASS", what, err)
		}
	}
	if scopes != nil {
		t.Error("a load without an answer gave scopes")
	}
}

// Nothing listens: Open is content, everything else says so and soon.
func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	for _, url := range []string{
		"redis://user:sesame@" + addr, "redis+cluster://user:sesame@" + addr,
		"redis+sentinel://user:sesame@" + addr + "?master_name=main",
	} {
		r := openURL(t, url, state.Config{})
		_, loadErr := r.Load(t.Context(), key)
		for what, err := range map[string]error{"load": loadErr, "ping": r.Ping(t.Context())} {
			if !errors.Is(err, state.ErrUnavailable) || strings.Contains(err.Error(), "sesame") {
				t.Errorf("%s %s: %v", what, r, err)
			}
		}
	}
}

// A server that takes the connection and never answers costs a turn
// Config.Timeout, and the error is not taken for the caller's own deadline.
func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	r := openURL(t, "redis://"+listener.Addr().String(), state.Config{Timeout: 50 * time.Millisecond})
	s := load(t, openEmbedded(t, state.Config{}), key)
	state.Of[Counter](s).N = 1
	for what, do := range map[string]func(context.Context) error{
		"load": func(ctx context.Context) error { _, err := r.Load(ctx, key); return err },
		"save": func(ctx context.Context) error { return r.Save(ctx, s) },
		"ping": r.Ping,
	} {
		start := time.Now()
		err := do(t.Context())
		if took := time.Since(start); !errors.Is(err, state.ErrUnavailable) || took > 1500*time.Millisecond {
			t.Errorf("%s: after %v: %v", what, took, err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v is the caller's deadline", what, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if err := do(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, state.ErrUnavailable) {
			t.Errorf("%s with a deadline of its own: %v", what, err)
		}
		cancel()
	}
}
