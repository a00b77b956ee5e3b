// Package bottest tests bots without a model, Azure or Teams.
//
// A [Kit] is a bot between stand-ins: a model that answers what the test scripted, a connector that
// records what the bot sends, and a Redis inside the process. The rest is the real bot, including
// its HTTP endpoint. It talks to each stand-in over HTTP, in the real format.
//
//	bottest.Test(t, bottest.Config{New: newBot}, func(t *testing.T, kit *bottest.Kit) {
//		kit.Model.Says(bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk"), bottest.Say("Added milk.")))
//		chat := kit.Personal("Mia")
//		chat.Say("add milk to groceries")
//		chat.Expect("Added milk.")
//	})
//
// [Test] runs in a bubble of [testing/synctest], over connections in memory. Waits of the bot, its
// retries and the stand-ins cost only the computing done meanwhile: a model that hangs for two
// minutes costs nothing, a day without events a fraction of a second. [New] is for tests that
// cannot run in a bubble; it uses loopback and real time.
//
// The bot must use everything the test sets up, and the test must look at everything the bot says.
// At its end a test fails if scripted model answers were not requested, if faults or crashes did
// not happen, or if no Expect or Next took a message. That last check is skipped if the test asked
// for all messages ([Chat.Messages], [Connector.Sent]) or has already failed.
//
// A failing test, also one that calls Error itself, shows the conversation, what the model was
// asked and answered, and the state.
package bottest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/internal/pipe"
	"github.com/planbot-go/planbot/internal/turnid"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

const botID = "28:bot" // the bot's account in every conversation

// Config says which bot to test. Either New or, for a bot with nothing else, Actions is required;
// the zero value of every other field is a working default.
type Config struct {
	// New makes the bot from parts, including their Store. It is called once for each process of
	// the bot, and again after [Kit.Restart].
	New func(ctx context.Context, parts Parts) (*bot.Bot, error)

	// Actions, Planner ("sequence", "sequential" or "tools"; "": sequence) and Change define the
	// bot if New is nil. Change may be nil.
	Actions *actions.Registry
	Planner string
	Change  func(*bot.Config)

	// Name is how people mention the bot. "": Planbot.
	Name string
	// Models are model names. If one cannot answer, the next is asked. None: one, "scripted".
	Models []string
	// Replicas is the number of processes of the bot. 0: one.
	Replicas int
	// Log receives the bot's log, one line at a time. Test failures show warnings in any case. nil:
	// the log is dropped.
	Log io.Writer
	// ToRedis receives what the bot sends to Redis, for tests of what it must not store. nil: it is
	// dropped.
	ToRedis io.Writer
	// Bubble says that [New] is called in a bubble of [testing/synctest]. [Test] makes one.
	Bubble bool

	// The rest is only for [Play]. Scripted says that Actions do what the scenario says: each call
	// returns the result or error that it expects of the call. Actions that change lists still do
	// so, on the conversation's own lists.
	Scripted bool
	// Cassette is a file with the prompts that the model must be sent, see [Record]; answers do not
	// matter. With Update it is rewritten unless the scenario fails. "": prompts are not compared.
	Cassette string
	Update   bool

	death *death // of a process; nil: none
}

// Parts are what you need to wire a bot for a test.
type Parts struct {
	// Model asks the scripted model the way the program does: with retries, with the other
	// Config.Models as fallbacks, and with less history if the prompt is too long. Named returns a
	// model by name, for prompts that ask for one.
	Model models.Model
	Named func(name string) (models.Model, error)
	// ModelURL is the address of the scripted model. Transport reaches it, for a client that the
	// bot makes itself: in a bubble, no other transport reaches anything.
	ModelURL  string
	Transport http.RoundTripper
	// Bot has its Store, Channel, Authenticator and Log set, and a feature that watches the bot. Add yours to
	// Features: if you replace them, the kit does not see calls and cannot crash the bot.
	Bot bot.Config
	// Replica is the number of the process that the bot is made for, starting at 1.
	Replica int

	maxRepairs int // of a scenario; 0: it does not say
}

// Planner makes the planner "sequence", "sequential" or "tools", with the scripted model unless cfg
// sets another. "": sequence.
func (p Parts) Planner(ctx context.Context, name string, cfg planner.Config) (turn.Planner, error) {
	if cfg.Model == nil {
		cfg.Model, cfg.Named = p.Model, p.Named
	}
	cfg.MaxRepairs = cmp.Or(cfg.MaxRepairs, p.maxRepairs)
	switch cmp.Or(name, "sequence") {
	case "sequence":
		return planner.NewSequence(ctx, cfg)
	case "sequential":
		return planner.NewSequential(ctx, cfg)
	case "tools":
		return planner.NewTools(ctx, cfg)
	}
	return nil, fmt.Errorf("no planner %q, want sequence, sequential or tools", name)
}

// Kit is a bot under test. Its methods fail the test if they cannot do what they say. It is safe
// for concurrent use unless a method says otherwise, but use [Kit.Together] for concurrent
// deliveries.
type Kit struct {
	Model     *Model
	Connector *Connector
	Tokens    *TokenService

	t       testing.TB
	cfg     Config
	story   story
	network *network
	redis   *state.Store
	watcher *state.Store
	queue   *inbox.Inbox
	turn    chan struct{} // guards waiting for the bubble: one goroutine at a time
	ids     atomic.Int64
	ended   sync.WaitGroup // of dead processes

	mu            sync.Mutex
	processes     []*process
	conversations map[string]*conversation
	people        map[string]bool // who spoke
	calls         []Call
	finished      int // calls that ended
	crashAt       int // number of finished calls at which the process of the last one dies; 0: never
	explained     bool
	redisAway     bool
}

// Test runs f with a kit in a bubble of [testing/synctest]. The rules of bubbles apply: f must not
// call Run, Parallel or Deadline of its t, and everything it starts has to end. The bot must not
// open its own connections outside the bubble.
func Test(t *testing.T, cfg Config, f func(t *testing.T, kit *Kit)) {
	t.Helper()
	cfg.Bubble = true
	synctest.Test(t, func(t *testing.T) { f(t, New(t, cfg)) })
}

// linger gives goroutines of libraries time to notice that they can end: once the bubble's function
// has returned, time no longer passes.
const linger = time.Minute

// New makes a kit that ends with the test. It uses loopback and real time, unless it runs in a
// bubble.
func New(t testing.TB, cfg Config) *Kit {
	t.Helper()
	if cfg.New != nil && (cfg.Actions != nil || cfg.Planner != "" || cfg.Change != nil) {
		t.Fatalf("bottest: the Config has New, which makes the whole bot: Actions, Planner and Change are for a Config without it")
	}
	cfg.Name = cmp.Or(cfg.Name, "Planbot")
	cfg.Replicas = max(cfg.Replicas, 1)
	if len(cfg.Models) == 0 {
		cfg.Models = []string{"scripted"}
	}
	if cfg.Log != nil {
		cfg.Log = zerolog.SyncWriter(cfg.Log) // replicas share it
	}
	if cfg.ToRedis != nil {
		cfg.ToRedis = zerolog.SyncWriter(cfg.ToRedis)
	}
	k := &Kit{
		t: t, cfg: cfg, network: &network{inMemory: cfg.Bubble}, turn: make(chan struct{}, 1),
		conversations: map[string]*conversation{}, people: map[string]bool{}, processes: make([]*process, cfg.Replicas),
	}
	k.story.began = time.Now()
	if cfg.Bubble {
		t.Cleanup(func() { time.Sleep(linger) })
	}
	k.Model = &Model{t: t, story: &k.story}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", k.Model.complete)
	k.Model.URL = k.serve(mux) + "/v1"
	k.Connector = newConnector(t, &k.story)
	k.Connector.URL = k.serve(k.Connector.handler()) + "/"
	k.Tokens = &TokenService{decide: func(TokenCall) Answer { return Answer{} }, tokens: map[string]string{}, codes: map[string]string{}}
	k.Tokens.URL = k.serve(k.Tokens)
	k.openRedis()
	t.Cleanup(k.close) // runs after the cleanups registered below
	for i := range k.processes {
		k.begin(i)
	}
	return k
}

// serve serves h on a new address until the kit ends.
func (k *Kit) serve(h http.Handler) (url string) {
	k.t.Helper()
	listener, err := k.network.listen(k.t.Context())
	if err != nil {
		k.t.Fatalf("bottest: listen: %v", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) }) // returns when the server closes
	k.t.Cleanup(func() {
		_ = server.Close() // nothing to report it to
		served.Wait()
	})
	return "http://" + listener.Addr().String()
}

// openRedis starts the Redis that the processes share, and a client for the kit to inspect it.
func (k *Kit) openRedis() {
	k.t.Helper()
	var err error
	if k.redis, err = state.Open(k.t.Context(), "", state.Config{}); err != nil {
		k.t.Fatalf("bottest: start redis: %v", err)
	}
	k.t.Cleanup(func() { _ = k.redis.Close() })
	if k.watcher, err = k.openStore(k.redis.Dial); err == nil {
		k.t.Cleanup(func() { _ = k.watcher.Close() }) // it only reads
		k.queue, err = inbox.Open(k.watcher, inbox.Config{})
	}
	if err != nil {
		k.t.Fatalf("bottest: %v", err)
	}
	k.t.Cleanup(k.queue.Close)
}

func (k *Kit) openStore(dial pipe.Dialer) (*state.Store, error) {
	cfg := state.Config{Dial: dial}
	if k.cfg.Bubble {
		cfg.Server = k.redis
	}
	// More connections than anyone needs. Waiting for one takes a timer from a pool that go-redis
	// shares across the program, and a timer must not cross bubbles.
	return state.Open(k.t.Context(), "redis://in-this-process?pool_size=10000", cfg)
}

// Settle waits until the bot has nothing left to do, even if that takes minutes, as with a model
// that hangs. [Chat.Expect] calls it itself.
func (k *Kit) Settle() {
	k.t.Helper()
	k.Await(nil)
}

// Limits for the bot's work, in real time and in a bubble.
const (
	patience       = 30 * time.Second
	bubblePatience = 3 * time.Hour
)

func (k *Kit) patience() time.Duration {
	if k.cfg.Bubble {
		return bubblePatience
	}
	return patience
}

// Await waits until done returns true or the bot has nothing left to do. It returns the last result
// of done. done may be nil.
func (k *Kit) Await(done func() bool) bool {
	k.t.Helper()
	often := 20 * time.Millisecond
	if k.cfg.Bubble {
		often = 5 * time.Second
	}
	for began := time.Now(); ; {
		k.rest()
		if done != nil && done() {
			return true
		}
		if k.idle() || !k.alive() {
			return done == nil || done()
		}
		waited := time.Since(began)
		if waited > k.patience() {
			if done == nil {
				k.fail("the bot is still at work after %v", waited)
			}
			return false
		}
		time.Sleep(min(max(waited/8, time.Millisecond), often))
	}
}

// rest waits, in a bubble, until every goroutine is blocked.
func (k *Kit) rest() {
	if !k.cfg.Bubble {
		return
	}
	k.turn <- struct{}{}
	synctest.Wait()
	<-k.turn
}

// idle reports whether no turn is waiting or running.
func (k *Kit) idle() bool {
	k.t.Helper()
	n, err := k.queue.Depth(k.t.Context())
	if err != nil {
		k.t.Fatalf("bottest: look into redis: %v", err)
	}
	return n == 0
}

// Together calls all functions concurrently and waits for them, to test concurrent deliveries. In a
// bubble they start in order.
func (k *Kit) Together(fs ...func()) {
	var all sync.WaitGroup
	for _, f := range fs {
		all.Go(f)
		k.rest()
	}
	all.Wait()
}

// close stops everything, and reports unused setup and messages that the test never looked at.
func (k *Kit) close() {
	for _, p := range k.all() {
		if p != nil {
			p.end()
		}
	}
	k.ended.Wait()
	if left := k.unmet(); len(left) > 0 && !k.t.Failed() {
		k.fail("%s", strings.Join(left, "\n"))
	}
	if k.t.Failed() && !k.explained {
		k.t.Logf("%s", k.Explain())
	}
	k.network.memory.Close()
}

// unmet lists setup that the bot never used, what the channel does not show of what the bot sent, and messages that
// the test did not look at.
func (k *Kit) unmet() (left []string) {
	if n := k.Model.left(); n > 0 {
		left = append(left, fmt.Sprintf("%d scripted answers of the model were not asked for", n))
	}
	left = append(left, k.Connector.unmet()...)
	left = append(left, k.story.lost()...)
	if k.crashAt > 0 {
		left = append(left, fmt.Sprintf("the crash of CrashAfter did not come: it was for the end of call %d of an action, and the kit saw %d; "+
			"it sees none of a bot that does not take the Features of Parts.Bot", k.crashAt, k.finished))
	}
	return append(left, k.Connector.overlooked("")...)
}

// fail fails the test and shows everything the kit knows.
func (k *Kit) fail(format string, args ...any) {
	k.t.Helper()
	k.t.Errorf("%s\n%s", fmt.Sprintf(format, args...), k.explain(""))
}

// fatal is like fail and ends the test.
func (k *Kit) fatal(format string, args ...any) {
	k.t.Helper()
	k.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), k.explain(""))
}

// Explain shows everything that happened in the kit, the last prompt and the stored state. Failing
// tests show it.
func (k *Kit) Explain() string {
	return k.explain("")
}

// explain is [Kit.Explain] for one conversation; "": all of them. The end of the test then does not
// show it again.
func (k *Kit) explain(conversation string) string {
	k.mu.Lock()
	k.explained = true
	k.mu.Unlock()
	var last string
	for _, call := range slices.Backward(k.Model.Calls()) {
		if conversation == "" || call.Conversation == "" || call.Conversation == conversation {
			last = call.told()
			break
		}
	}
	var s strings.Builder
	for _, part := range [][2]string{
		{"what happened:", k.story.tell(conversation)},
		{"the last prompt:", last},
		{"what the bot keeps:", k.kept()},
		{"warnings of the bot:", k.story.warned()},
	} {
		if part[1] != "" {
			fmt.Fprintf(&s, "\n%s\n%s\n", part[0], indent(part[1]))
		}
	}
	return s.String()
}

// Bot returns the stored state of the whole bot once the bot has nothing left to do, for [state.Of] and
// [state.At].
func (k *Kit) Bot() *state.Scope {
	k.t.Helper()
	k.Settle()
	return k.load(state.BotKey())
}

// kept shows the stored state of the bot and of all conversations and people.
func (k *Kit) kept() string {
	keys := map[string]state.Key{"bot": state.BotKey()}
	k.mu.Lock()
	for id := range k.conversations {
		keys[id] = conversationKey(id)
	}
	for person := range k.people {
		keys[person] = userKey(person)
	}
	k.mu.Unlock()
	// At the end of a test its context is already cancelled.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.t.Context()), patience)
	defer cancel()
	var s strings.Builder
	for _, what := range slices.Sorted(maps.Keys(keys)) {
		scopes, err := k.watcher.Load(ctx, keys[what])
		if err != nil {
			fmt.Fprintf(&s, "%s: %v\n", what, err)
			continue
		}
		for _, name := range slices.Sorted(slices.Values(scopes[0].Names())) {
			value, err := scopes[0].JSON(name)
			if err != nil {
				value = []byte(err.Error())
			}
			fmt.Fprintf(&s, "%s.%s = %s\n", what, name, value)
		}
	}
	return s.String()
}

func conversationKey(id string) state.Key {
	base, _, _ := strings.Cut(id, ";")
	return state.ConversationKey(activity.Teams, botID, base)
}

func userKey(person string) state.Key { return state.UserKey(activity.Teams, botID, userID(person)) }

func (k *Kit) load(key state.Key) *state.Scope {
	k.t.Helper()
	scopes, err := k.watcher.Load(k.t.Context(), key)
	if err != nil {
		k.fatal("read what the bot keeps: %v", err)
	}
	return scopes[0]
}

func (c Config) newBot(ctx context.Context, parts Parts) (*bot.Bot, error) {
	if c.New != nil {
		return c.New(ctx, parts)
	}
	if c.Actions == nil {
		return nil, fmt.Errorf("the Config has neither New nor Actions")
	}
	cfg := parts.Bot
	cfg.Actions = c.Actions
	var err error
	if cfg.Planner, err = parts.Planner(ctx, c.Planner, planner.Config{Actions: cfg.Actions}); err != nil {
		return nil, err
	}
	if c.Change != nil {
		c.Change(&cfg)
	}
	return bot.New(cfg)
}

func (k *Kit) log() zerolog.Logger {
	out := []io.Writer{&zerolog.FilteredLevelWriter{Writer: zerolog.LevelWriterAdapter{Writer: &k.story}, Level: zerolog.WarnLevel}}
	if k.cfg.Log != nil {
		out = append(out, k.cfg.Log)
	}
	return zerolog.New(zerolog.MultiLevelWriter(out...)).Level(zerolog.DebugLevel)
}

func (k *Kit) begin(i int) {
	k.t.Helper()
	p := newProcess(k, i+1)
	k.mu.Lock()
	k.processes[i] = p
	p.redis.Cut(k.redisAway)
	k.mu.Unlock()
	if err := p.start(k.t.Context()); err != nil {
		k.t.Fatalf("bottest: start the bot: %v", err)
	}
}

// process returns the replica with that number, starting at 1. It must exist.
func (k *Kit) process(replica int) *process {
	k.t.Helper()
	all := k.all()
	if replica < 1 || replica > len(all) {
		k.fatal("there is no replica %d", replica)
	}
	return all[replica-1]
}

func (k *Kit) all() []*process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.processes)
}

// alive reports whether any process is running.
func (k *Kit) alive() bool {
	return slices.ContainsFunc(k.all(), func(p *process) bool { return p != nil && !p.dead.Load() })
}

const moment = 500 * time.Millisecond // gives turns that have already sent their messages time to end

// Restart kills all processes of the bot as SIGKILL does and starts them again. Their memory is
// lost; Redis stays. In real time, turns that are about to end first get a moment to do so.
// [Kit.Kill] gives them none.
func (k *Kit) Restart() {
	k.t.Helper()
	if began := time.Now(); !k.cfg.Bubble {
		k.Await(func() bool { return time.Since(began) > moment })
	}
	k.story.note(turnid.Of{}, "restart", "all processes are killed and started again")
	for i, p := range k.all() {
		p.kill()
		k.ended.Go(p.end)
		k.begin(i)
	}
}

// Kill kills a replica, numbered from 1, as SIGKILL does. The other replicas take over its turns.
func (k *Kit) Kill(replica int) {
	k.t.Helper()
	k.story.note(turnid.Of{}, "killed", fmt.Sprint("replica ", replica))
	k.process(replica).kill()
}

// Alive reports whether the replica with that number is running. It must exist.
func (k *Kit) Alive(replica int) bool {
	k.t.Helper()
	return !k.process(replica).dead.Load()
}

// CrashAfter kills the process that makes the n-th action call from now on, counting from 1: after
// the call returns and before anything about it is saved. It needs the hooks of [Parts].Bot. If the
// crash never happens, the test fails at its end.
func (k *Kit) CrashAfter(n int) {
	k.t.Helper()
	if n < 1 {
		k.fatal("CrashAfter(%d): the first call is 1", n)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.crashAt = k.finished + n
}

// StopRedis makes Redis refuse all connections, including those of processes that [Kit.Restart]
// starts, until [Kit.StartRedis].
func (k *Kit) StopRedis() { k.setRedis(true) }

// StartRedis ends [Kit.StopRedis]. No data is lost.
func (k *Kit) StartRedis() { k.setRedis(false) }

func (k *Kit) setRedis(away bool) {
	k.story.note(turnid.Of{}, "redis", map[bool]string{true: "is away", false: "is back"}[away])
	k.mu.Lock()
	defer k.mu.Unlock()
	k.redisAway = away
	for _, p := range k.processes {
		p.redis.Cut(away || p.dead.Load())
	}
}

// Call is one call of an action by a plan.
type Call struct {
	turnid.Of
	Replica  int
	Key      string // stays the same if the call is repeated after a crash
	Action   string
	Entities map[string]any
	// Result is the result of the call. Ended is false if the call is still running, was cut off,
	// or ended in a Go error or a panic.
	Result actions.Result
	Ended  bool
}

// Calls returns the action calls that the kit has seen so far: see [Parts].Bot.
func (k *Kit) Calls() []Call {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.calls)
}

// calling records the start of a call, and returns its number.
func (k *Kit) calling(p *process, of turnid.Of, key string, c actions.Call) int {
	raw, err := json.Marshal(c.Entities)
	if err != nil {
		raw = []byte(err.Error())
	}
	k.story.note(of, "  calls", c.Action.Name+" "+string(raw))
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, Call{Of: of, Replica: p.replica, Key: key, Action: c.Action.Name, Entities: c.Entities})
	return len(k.calls) - 1
}

// called records the end of the n-th call, and kills the process if a crash was set for it.
func (k *Kit) called(p *process, n int, result actions.Result, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := &k.calls[n]
	k.finished++
	if err == nil {
		c.Result, c.Ended = result, true
		text := result.Text()
		if result.Failed() {
			text = "failed: " + text
		}
		k.story.note(c.Of, "  result", c.Action+" "+text)
	}
	if k.crashAt > 0 && k.finished >= k.crashAt {
		k.crashAt = 0
		k.story.note(turnid.Of{}, "killed", fmt.Sprint("replica ", p.replica))
		p.kill()
	}
}

// GoldenPrompt compares what the model was asked so far with a file: the messages and the tools,
// without the time of the turn. A difference fails the test and is shown. There must be at least
// one model call. Keep the files with the code, to see a changed prompt before you ship it. See
// [Record] for how to update files.
func (k *Kit) GoldenPrompt(file string) {
	k.t.Helper()
	calls := k.Model.Calls()
	if len(calls) == 0 {
		k.t.Fatalf("the model was not asked, so there is no prompt for %s: a bot has to answer before its calls are known", file)
	}
	var text []string
	for i, c := range calls {
		title := ""
		if len(calls) > 1 {
			title = fmt.Sprintf("##### call %d\n\n", i+1)
		}
		text = append(text, title+golden.Prompt(&models.Request{Messages: c.Messages, Tools: c.Tools}))
	}
	golden.Compare(k.t, file, strings.Join(text, "\n"))
}

// process is one process of the bot, as far as a test can have one: once its connections are cut,
// nothing it does has any effect.
type process struct {
	kit     *Kit
	replica int // from 1
	dead    atomic.Bool

	redis, out *pipe.Cable
	store      *state.Store
	transport  *http.Transport // over out
	bot        *bot.Bot
	server     *http.Server
	served     sync.WaitGroup
	url        string
	closers    []func()
}

func newProcess(k *Kit, replica int) *process {
	p := &process{kit: k, replica: replica, out: pipe.NewCable(k.network.dial, nil)}
	p.redis = pipe.NewCable(k.cfg.death.at(p, k.redis.Dial), k.cfg.ToRedis)
	p.transport = &http.Transport{DialContext: p.out.Dial, MaxIdleConnsPerHost: 256}
	p.closers = append(p.closers, p.transport.CloseIdleConnections)
	return p
}

// start makes the bot and serves it over HTTP.
func (p *process) start(ctx context.Context) error {
	var err error
	if p.store, err = p.kit.openStore(p.redis.Dial); err != nil {
		return err
	}
	p.closers = append(p.closers, func() { _ = p.store.Close() }) // its connection may be cut
	parts, err := p.parts()
	if err != nil {
		return err
	}
	if p.bot, err = p.kit.cfg.newBot(ctx, parts); err != nil {
		return err
	}
	if p.bot == nil {
		return errors.New("Config.New returned neither a bot nor an error")
	}
	if p.bot.Store() != p.store {
		return errors.New("the bot does not take its Store from the Parts: begin its Config with parts.Bot")
	}
	listener, err := p.kit.network.listen(ctx)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p.url = "http://" + listener.Addr().String() + "/api/messages"
	mux := http.NewServeMux()
	mux.Handle("/api/messages", p.bot)
	p.server = p.bot.NewServer(mux)
	p.served.Go(func() { _ = p.server.Serve(listener) }) // returns when the server closes
	p.bot.Start()
	return nil
}

// parts are what the bot is made of in this process.
func (p *process) parts() (Parts, error) {
	chain, err := p.chain(p.kit.cfg.Models)
	if err != nil {
		return Parts{}, err
	}
	guard, client, err := connector.New(connector.Config{Transport: labelled{p.transport}, TokenURL: p.kit.Tokens.URL})
	if err != nil {
		return Parts{}, err
	}
	p.closers = append(p.closers, client.Close, guard.Close)
	return Parts{
		Model: chain, Named: func(name string) (models.Model, error) { return p.chain([]string{name}) },
		ModelURL: p.kit.Model.URL, Transport: labelled{p.transport}, Replica: p.replica,
		Bot: bot.Config{Name: p.kit.cfg.Name, Store: p.store, Channel: client, Tokens: client, Authenticator: bot.Guarded(guard), Log: p.kit.log(), Features: []bot.Feature{p.feature()}},
	}, nil
}

// chain asks the scripted model under these names, with the same retries as the program.
func (p *process) chain(names []string) (models.Model, error) {
	cfg := &models.Chain{}
	for _, name := range names {
		model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: p.kit.Model.URL, Model: name, Transport: labelled{p.transport}})
		if err != nil {
			return nil, err
		}
		cfg.Models = append(cfg.Models, model)
	}
	return cfg, nil
}

// feature watches the process, and freezes it once it is dead.
func (p *process) feature() bot.Feature {
	return bot.Feature{
		Name: "kit",
		Plan: func(ctx context.Context, t *bot.Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
			made, err := next(ctx)
			if err == nil {
				raw, _ := json.Marshal(made.Commands) // commands are always valid JSON
				p.kit.story.note(ofTurn(t), "  plan", string(raw))
			}
			return made, err
		},
		Call: func(ctx context.Context, t *bot.Turn, c actions.Call, next func(context.Context, actions.Call) (actions.Result, error)) (actions.Result, error) {
			if err := p.freeze(ctx); err != nil {
				return actions.Done, err
			}
			n := p.kit.calling(p, ofTurn(t), actions.AttemptOf(ctx).Key, c)
			result, err := next(ctx, c)
			p.kit.called(p, n, result, err)
			return result, cmp.Or(p.freeze(ctx), err)
		},
	}
}

func ofTurn(t *bot.Turn) turnid.Of {
	return turnid.Of{Turn: t.ID, Conversation: t.Activity.Conversation.ID, Activity: t.Activity.ID}
}

// freeze blocks a dead process where it died.
func (p *process) freeze(ctx context.Context) error {
	if !p.dead.Load() {
		return nil
	}
	<-ctx.Done()
	return fmt.Errorf("the process is dead: %w", ctx.Err())
}

// kill ends the process as SIGKILL does: nothing it does is visible any more. It stops what is
// still running, which would otherwise look for its Redis forever and make time in a bubble
// expensive.
func (p *process) kill() {
	p.redis.Cut(true)
	p.out.Cut(true)
	if died := !p.dead.Swap(true); died && p.bot != nil {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		p.kit.ended.Go(func() { _ = p.bot.Drain(over) }) // the result of a dead process does not matter
	}
}

// end waits until everything of the process has ended. It shuts down a living one.
func (p *process) end() {
	if p.bot != nil {
		ctx, cancel := context.WithTimeout(context.Background(), p.kit.patience())
		defer cancel()
		if p.dead.Load() {
			cancel() // a dead process gets no time
		}
		if err := p.bot.Drain(ctx); err != nil && !p.dead.Load() && !p.kit.t.Failed() {
			p.kit.fail("the test ended and the bot was still at work after %v: %v", p.kit.patience(), err)
		}
	}
	if p.server != nil {
		_ = p.server.Close() // nothing to report it to
		p.served.Wait()
	}
	for _, end := range p.closers {
		end()
	}
}

// story is what happened in a kit, in order.
type story struct {
	began time.Time

	mu       sync.Mutex
	lines    []entry
	warnings bytes.Buffer
	unshown  []string // what the channel does not show of what the bot sent
}

// entry is one thing that happened.
type entry struct {
	turnid.Of
	at   time.Duration
	who  string // or what kind of event it is
	text string
}

// note adds an event and returns its position.
func (s *story) note(of turnid.Of, who, text string) (seq int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, entry{of, time.Since(s.began), who, text})
	return len(s.lines)
}

// Write records a warning of the bot.
func (s *story) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var has struct {
		Unshown string `json:"unshown"`
	}
	if json.Unmarshal(line, &has) == nil && has.Unshown != "" {
		s.unshown = append(s.unshown, "the channel will not show "+has.Unshown)
	}
	const most = 16 << 10
	if s.warnings.Len() < most {
		s.warnings.Write(line)
	}
	return len(line), nil
}

// lost is what the bot sent and the channel does not show.
func (s *story) lost() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Clone(s.unshown))
}

func (s *story) warned() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warnings.String()
}

const maxLine = 400 // limits the shown part of a line

const typing = "(typing)" // how a typing indicator is described

// tell returns the story as text: of one conversation; "": of all.
func (s *story) tell(conversation string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for _, e := range s.lines {
		if conversation != "" && e.Conversation != "" && e.Conversation != conversation || e.text == typing {
			continue
		}
		text := e.text
		if len(text) > maxLine {
			text = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxLine], ""), len(text))
		}
		fmt.Fprintf(&out, "%8s  %-14s %s\n", e.at.Round(time.Millisecond), e.who, strings.ReplaceAll(text, "\n", " ⏎ "))
	}
	return out.String()
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
