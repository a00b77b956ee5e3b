package bottest

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

// BotID is the account of the bot in every conversation.
const BotID = "28:bot"

// TB is what a kit needs of a test: [testing.TB] is one. Fatalf must not return.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(f func())
	Context() context.Context
}

// Config says which bot is tested. New is required, or Actions for a bot of these alone;
// the zero value of every other field is a working default.
type Config struct {
	// New makes the bot, once for each process of it: again after [Kit.Restart]. A bot
	// that takes its Store from the parts can be restarted and have replicas.
	New func(ctx context.Context, parts Parts) (*bot.Bot, error)

	// Actions, Planner ("sequence", "sequential" or "tools"; "": sequence) and Change are
	// the bot where New is nil. Change may be nil, too.
	Actions *actions.Registry
	Planner string
	Change  func(*bot.Config)

	// Name is how people mention the bot. "": Planbot.
	Name string
	// Models are the names of the models of which each is asked when those before it
	// cannot answer. None: one, "scripted".
	Models []string
	// Replicas is how many processes of the bot there are. 0: one.
	Replicas int
	// RedisURL is a server for [New] to use in place of the one in the process. All that
	// is there belongs to the bot, and what it keeps stays there: give each test a
	// database of its own.
	RedisURL string
	// Log receives what the bot logs, line by line and one line at a time. Failures of the test show its warnings
	// in any case. nil: nobody does.
	Log io.Writer
}

// Kit is a bot under test. Its methods fail the test where they cannot do what they
// say. It is safe for concurrent use as far as not said otherwise, but who delivers at
// the same time does so with [Kit.Together].
type Kit struct {
	Model     *Model
	Connector *Connector

	t       TB
	cfg     Config
	bubble  bool
	wires   *wires
	dial    func() dialer // to Redis
	url     string        // of Redis
	server  *state.Server // that it is in a bubble; nil: none
	watcher *state.Redis
	queue   *state.Inbox
	story   story
	turn    chan struct{} // to wait for the bubble, which one may at a time
	foreign atomic.Bool   // the bot keeps state where the kit does not see it
	hooked  atomic.Bool   // the bot has called the kit's hooks
	logs    io.Writer     // of Config.Log; nil: nobody's
	ids     atomic.Int64

	idPrefix string

	mu        sync.Mutex
	processes []*process
	chats     map[string]*conversation
	calls     []Call
	crashAt   int // number of the call after which its process dies; 0: none
	explained bool
	redisAway bool
	over      chan struct{} // closed when the test ends
	ended     sync.WaitGroup
}

// New makes a kit that works over loopback and in real time, and ends with the test.
func New(t TB, cfg Config) *Kit {
	t.Helper()
	return open(t, cfg, false)
}

// Test runs f with a kit in a bubble of [testing/synctest]. The rules of bubbles hold:
// f must not call Run, Parallel or Deadline of its t, and what it starts has to end. The
// bot must not have connections of its own to outside of the bubble.
func Test(t *testing.T, cfg Config, f func(t *testing.T, kit *Kit)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, NewInBubble(t, cfg)) })
}

// NewInBubble is for who has a bubble of [testing/synctest] already.
func NewInBubble(t TB, cfg Config) *Kit {
	t.Helper()
	return open(t, cfg, true)
}

func open(t TB, cfg Config, bubble bool) *Kit {
	t.Helper()
	if cfg.New != nil && (cfg.Actions != nil || cfg.Planner != "" || cfg.Change != nil) {
		t.Fatalf("bottest: the Config has New, which makes the whole bot: Actions, Planner and Change are for a Config without it")
	}
	cfg.Name = cmp.Or(cfg.Name, "Planbot")
	cfg.Replicas = max(cfg.Replicas, 1)
	if len(cfg.Models) == 0 {
		cfg.Models = []string{"scripted"}
	}
	k := &Kit{
		t: t, cfg: cfg, bubble: bubble, wires: newWires(bubble), chats: map[string]*conversation{}, turn: make(chan struct{}, 1), over: make(chan struct{}),
		processes: make([]*process, cfg.Replicas), idPrefix: "activity-",
	}
	if cfg.RedisURL != "" {
		k.idPrefix = "activity-" + rand.Text()[:8] + "-"
	}
	if cfg.Log != nil {
		k.logs = zerolog.SyncWriter(cfg.Log)
	}
	k.story.began = time.Now()
	if bubble {
		t.Cleanup(func() { time.Sleep(linger) })
	}
	k.Model, k.Connector = newModel(k), newConnector(k)
	k.openRedis()
	t.Cleanup(k.close) // before what follows, which it ends
	for i := range k.processes {
		k.begin(i)
	}
	return k
}

// linger is what goroutines of libraries get to find out that they are no longer needed: no
// time passes in a bubble whose function has returned.
const linger = time.Minute

// openRedis finds the Redis that the processes share, and looks into it.
func (k *Kit) openRedis() {
	k.t.Helper()
	k.url = k.cfg.RedisURL
	if k.url != "" && k.bubble {
		k.t.Fatalf("bottest: RedisURL is for New: no connection leads out of a bubble")
	}
	k.dial = func() dialer { return netDial }
	if k.url == "" {
		server, err := state.StartServer()
		if err != nil {
			k.t.Fatalf("bottest: start redis: %v", err)
		}
		k.t.Cleanup(server.Close)
		k.url = "redis://in-this-process"
		k.dial = func() dialer { return server.Dial }
		if k.bubble {
			k.server = server
		}
	}
	store, err := k.openStore(k.dial())
	if err != nil {
		k.t.Fatalf("bottest: %v", err)
	}
	k.watcher = store
	k.t.Cleanup(func() { _ = store.Close() }) // it only looked
	if k.queue, err = store.Inbox(state.InboxConfig{}); err != nil {
		k.t.Fatalf("bottest: %v", err)
	}
	k.t.Cleanup(k.queue.Close)
}

// openStore opens Redis for one process.
func (k *Kit) openStore(dial dialer) (*state.Redis, error) {
	url := k.url
	if k.cfg.RedisURL == "" {
		// More connections than anybody uses: who waits for one takes a timer from a pool of
		// the client's whole program, and no timer may pass from one bubble to another.
		url += "?pool_size=10000"
	}
	return state.Open(k.t.Context(), url, state.Config{Dial: dial, Server: k.server})
}

// Settle waits until the bot has nothing left to do, whether it takes no time or, as
// with a model that hangs, minutes. [Chat.Expect] does so itself. A bot with a Store of its
// own is not waited for: nobody knows what it has to do.
func (k *Kit) Settle() {
	k.t.Helper()
	k.settle(nil)
}

// Await waits until done says so, or the bot has nothing left to do: then it is what done
// says last.
func (k *Kit) Await(done func() bool) bool {
	k.t.Helper()
	return k.settle(done)
}

// How long work may take, in real time, in a bubble, and in a bubble when nobody knows
// whether there is any.
const (
	patience        = 30 * time.Second
	bubblePatience  = 3 * time.Hour
	foreignPatience = 15 * time.Minute
)

// settle waits until the bot has nothing left to do or done says so. It is false when
// that takes too long.
func (k *Kit) settle(done func() bool) bool {
	k.t.Helper()
	limit, often := patience, 20*time.Millisecond
	if k.bubble {
		limit, often = bubblePatience, 5*time.Second
		if k.foreign.Load() {
			limit = foreignPatience
		}
	}
	for began := time.Now(); ; {
		k.rest()
		if done != nil && done() {
			return true
		}
		if k.foreign.Load() && done == nil {
			return true // nobody knows
		}
		if !k.foreign.Load() && k.idle() || !k.alive() {
			return done == nil || done()
		}
		waited := time.Since(began)
		if waited > limit {
			if done == nil {
				k.fail(nil, "the bot is still at work after %v", waited)
			}
			return false
		}
		time.Sleep(min(max(waited/8, time.Millisecond), often))
	}
}

// rest waits, in a bubble, until everybody waits for something.
func (k *Kit) rest() {
	if !k.bubble {
		return
	}
	k.turn <- struct{}{}
	synctest.Wait()
	<-k.turn
}

// idle reports whether no turn waits or is at work.
func (k *Kit) idle() bool {
	k.t.Helper()
	n, err := k.queue.Waiting(k.t.Context())
	if err != nil {
		k.t.Fatalf("bottest: look into redis: %v", err)
	}
	return n == 0
}

// Together calls all functions at the same time and waits for them: deliveries that meet.
// In a bubble they begin in their order.
func (k *Kit) Together(fs ...func()) {
	var all sync.WaitGroup
	for _, f := range fs {
		all.Go(f)
		k.rest()
	}
	all.Wait()
}
