// Package bottest tests bots with no model, no Azure and no Teams.
//
// A [Kit] is a bot between stand-ins: a model that says what the test wrote down, a
// connector that keeps what the bot sends, and a Redis inside the process. Between
// them is all of the bot, its HTTP endpoint included; each is spoken to over HTTP, in the
// formats of the real ones.
//
//	bottest.Test(t, bottest.Config{New: newBot}, func(t *testing.T, kit *bottest.Kit) {
//		kit.Model.Says(bottest.Plan(bottest.Do("addItem", "list", "groceries", "item", "milk"), bottest.Say("Added milk.")))
//		chat := kit.Personal("Mia")
//		chat.Say("add milk to groceries")
//		chat.Expect("Added milk.")
//	})
//
// [Test] runs in a bubble of [testing/synctest], over connections in memory: waits of
// the bot, of its retries and of the stand-ins cost no more than the computing that is
// done meanwhile: a model that hangs for two minutes nothing, a day in which nothing
// happens part of a second. [New] is for tests that cannot live in a
// bubble; it works over loopback and in real time.
//
// What a test sets up has to be met, and what the bot says has to be looked at. At its end a
// test fails for answers of the model that were not asked for, faults and crashes that did
// not come, and messages that no Expect or Next took: unless it asked for all of them
// ([Chat.Messages], [Connector.Sent]), or has failed already.
//
// A test that fails, also by an Error of its own, shows the conversation, what the model was
// asked and answered, and the state.
package bottest

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/planbot-go/planbot/internal/golden"
	"github.com/planbot-go/planbot/internal/pipe"
	"github.com/planbot-go/planbot/internal/turnlog"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

// botID is the account of the bot in every conversation.
const botID = "28:bot"

// Config says which bot is tested. New is required, or Actions for a bot of these alone;
// the zero value of every other field is a working default.
type Config struct {
	// New makes the bot from the parts, with their Store, once for each process of it: again
	// after [Kit.Restart].
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
	// Log receives what the bot logs, line by line and one line at a time. Failures of the
	// test show its warnings in any case. nil: nobody does.
	Log io.Writer
	// Bubble says that [New] is called in a bubble of [testing/synctest]. [Test] makes one.
	Bubble bool
}

// Parts are what the author of a bot needs to wire it for a test.
type Parts struct {
	// Model asks the scripted model, as the program does: with retries, with the next of
	// Config.Models behind each, and with less history when the prompt is too long. Named
	// is one of another name, for prompts that ask for it.
	Model models.Model
	Named func(name string) (models.Model, error)
	// ModelURL is where the scripted model is, and Transport leads there, for a client that
	// the bot makes itself: in a bubble no other way leads anywhere.
	ModelURL  string
	Transport http.RoundTripper
	// Bot has its Store, Channel, Authenticator and Log filled in, and Hooks that watch: a bot
	// that sets others is not seen to act, and cannot be made to crash.
	Bot bot.Config
	// Replica is the number of the process that the bot is made for, from 1 on.
	Replica int
}

// Planner makes the planner of that name, "sequence", "sequential" or "tools", with the
// scripted model unless cfg has another. "" is the first.
func (p Parts) Planner(ctx context.Context, name string, cfg planner.Config) (turn.Planner, error) {
	if cfg.Model == nil {
		cfg.Model, cfg.Named = p.Model, p.Named
	}
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

// Kit is a bot under test. Its methods fail the test where they cannot do what they
// say. It is safe for concurrent use as far as not said otherwise, but who delivers at
// the same time does so with [Kit.Together].
type Kit struct {
	Model     *Model
	Connector *Connector

	t       testing.TB
	cfg     Config
	story   story
	network *network
	redis   *state.Store
	watcher *state.Store
	queue   *inbox.Inbox
	turn    chan struct{} // to wait for the bubble, which one may at a time
	ids     atomic.Int64
	ended   sync.WaitGroup // of dead processes

	mu            sync.Mutex
	processes     []*process
	conversations map[string]*conversation
	people        map[string]bool // who spoke
	calls         []Call
	finished      int // of the calls
	crashAt       int // finished calls at which the process of the last one dies; 0: none does
	explained     bool
	redisAway     bool
}

// Test runs f with a kit in a bubble of [testing/synctest]. The rules of bubbles hold:
// f must not call Run, Parallel or Deadline of its t, and what it starts has to end. The
// bot must not have connections of its own to outside of the bubble.
func Test(t *testing.T, cfg Config, f func(t *testing.T, kit *Kit)) {
	t.Helper()
	cfg.Bubble = true
	synctest.Test(t, func(t *testing.T) { f(t, New(t, cfg)) })
}

// linger is what goroutines of libraries get to find out that they are no longer needed: no
// time passes in a bubble whose function has returned.
const linger = time.Minute

// New makes a kit that ends with the test. It works over loopback and in real time, unless
// it is in a bubble.
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
	k := &Kit{
		t: t, cfg: cfg, network: &network{inMemory: cfg.Bubble, listeners: map[string]*pipe.Listener{}}, turn: make(chan struct{}, 1),
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
	k.Connector.URL = k.serve(k.Connector.fake.Handler()) + "/"
	k.openRedis()
	t.Cleanup(k.close) // before what follows, which it ends
	for i := range k.processes {
		k.begin(i)
	}
	return k
}

// serve opens an address for h until the kit ends.
func (k *Kit) serve(h http.Handler) (url string) {
	k.t.Helper()
	listener, err := k.network.listen(k.t.Context())
	if err != nil {
		k.t.Fatalf("bottest: listen: %v", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: patience}
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) }) // it ends when it is closed
	k.t.Cleanup(func() {
		_ = server.Close() // nobody is left to be told
		served.Wait()
	})
	return "http://" + listener.Addr().String()
}

// openRedis starts the Redis that the processes share, and looks into it.
func (k *Kit) openRedis() {
	k.t.Helper()
	var err error
	if k.redis, err = state.Open(k.t.Context(), "", state.Config{}); err != nil {
		k.t.Fatalf("bottest: start redis: %v", err)
	}
	k.t.Cleanup(func() { _ = k.redis.Close() })
	if k.watcher, err = k.openStore(k.redis.Dial); err == nil {
		k.t.Cleanup(func() { _ = k.watcher.Close() }) // it only looked
		k.queue, err = inbox.Open(k.watcher, inbox.Config{})
	}
	if err != nil {
		k.t.Fatalf("bottest: %v", err)
	}
	k.t.Cleanup(k.queue.Close)
}

// openStore opens Redis for one process.
func (k *Kit) openStore(dial dialer) (*state.Store, error) {
	cfg := state.Config{Dial: dial}
	if k.cfg.Bubble {
		cfg.Server = k.redis
	}
	// More connections than anybody uses: who waits for one takes a timer from a pool of
	// the client's whole program, and no timer may pass from one bubble to another.
	return state.Open(k.t.Context(), "redis://in-this-process?pool_size=10000", cfg)
}

// Settle waits until the bot has nothing left to do, whether it takes no time or, as
// with a model that hangs, minutes. [Chat.Expect] does so itself.
func (k *Kit) Settle() {
	k.t.Helper()
	k.Await(nil)
}

// How long the bot's work may take, in real time and in a bubble.
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

// Await waits until done says so, or the bot has nothing left to do: then it is what done
// says last. done may be nil.
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

// rest waits, in a bubble, until everybody waits for something.
func (k *Kit) rest() {
	if !k.cfg.Bubble {
		return
	}
	k.turn <- struct{}{}
	synctest.Wait()
	<-k.turn
}

// idle reports whether no turn waits or is at work.
func (k *Kit) idle() bool {
	k.t.Helper()
	n, err := k.queue.Depth(k.t.Context())
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

// close ends what runs, and reports what was set up for nothing and what nobody looked at.
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
	for _, l := range k.network.listeners {
		_ = l.Close() // it never fails
	}
}

// unmet says what the test set up and the bot did not meet, and what the bot said that the
// test did not look at.
func (k *Kit) unmet() (left []string) {
	if n := k.Model.left(); n > 0 {
		left = append(left, fmt.Sprintf("%d scripted answers of the model were not asked for", n))
	}
	faults, held := k.Connector.fake.Left()
	if faults > 0 {
		left = append(left, fmt.Sprintf("%d faults of Connector.Fails were not met: the bot sent no message that they were for", faults))
	}
	for _, text := range held {
		left = append(left, fmt.Sprintf("the message %q of Connector.Holds was not sent", text))
	}
	if k.crashAt > 0 {
		left = append(left, fmt.Sprintf("the crash of CrashAfter did not come: it was for the end of call %d of an action, and the kit saw %d; "+
			"it sees none of a bot that does not take the Hooks of Parts.Bot", k.crashAt, k.finished))
	}
	return append(left, k.Connector.overlooked("")...)
}

// fail reports a failure of the test, with all that is known.
func (k *Kit) fail(format string, args ...any) {
	k.t.Helper()
	k.t.Errorf("%s\n%s", fmt.Sprintf(format, args...), k.explain(""))
}

// fatal is fail for what nothing can follow.
func (k *Kit) fatal(format string, args ...any) {
	k.t.Helper()
	k.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), k.explain(""))
}

// Explain shows all that happened in the kit, with the last prompt and what the bot keeps:
// what failures of the test show.
func (k *Kit) Explain() string {
	return k.explain("")
}

// explain is [Kit.Explain] for one conversation, or for all for "". The end of the test then
// need not tell it again.
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

// kept shows what the bot keeps about all conversations and people.
func (k *Kit) kept() string {
	keys := map[string]state.Key{}
	k.mu.Lock()
	for id := range k.conversations {
		keys[id] = conversationKey(id)
	}
	for person := range k.people {
		keys[person] = userKey(person)
	}
	k.mu.Unlock()
	// The context of a test that is at its end is over.
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

// newBot makes the bot as the config says.
func (k *Kit) newBot(ctx context.Context, parts Parts) (*bot.Bot, error) {
	if k.cfg.New != nil {
		return k.cfg.New(ctx, parts)
	}
	if k.cfg.Actions == nil {
		return nil, fmt.Errorf("the Config has neither New nor Actions")
	}
	cfg := parts.Bot
	cfg.Actions = k.cfg.Actions
	var err error
	if cfg.Planner, err = parts.Planner(ctx, k.cfg.Planner, planner.Config{Actions: cfg.Actions}); err != nil {
		return nil, err
	}
	if k.cfg.Change != nil {
		k.cfg.Change(&cfg)
	}
	return bot.New(cfg)
}

// log is what the bot logs to.
func (k *Kit) log() zerolog.Logger {
	out := []io.Writer{&zerolog.FilteredLevelWriter{Writer: zerolog.LevelWriterAdapter{Writer: &k.story}, Level: zerolog.WarnLevel}}
	if k.cfg.Log != nil {
		out = append(out, k.cfg.Log)
	}
	return zerolog.New(zerolog.MultiLevelWriter(out...)).Level(zerolog.DebugLevel)
}

// begin starts the i-th process.
func (k *Kit) begin(i int) {
	k.t.Helper()
	p := newProcess(k, i+1)
	k.mu.Lock()
	k.processes[i] = p
	p.redis.cut(k.redisAway)
	k.mu.Unlock()
	if err := p.start(k.t.Context()); err != nil {
		k.t.Fatalf("bottest: start the bot: %v", err)
	}
}

// process is the replica with that number, from 1 on. There has to be one.
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

// alive reports whether any process lives.
func (k *Kit) alive() bool {
	return slices.ContainsFunc(k.all(), func(p *process) bool { return p != nil && !p.dead.Load() })
}

// moment is what turns get to end whose messages are there already.
const moment = 500 * time.Millisecond

// Restart ends all processes of the bot as SIGKILL does and starts them again. All that
// was in their memory is lost, Redis stays. Where time is real, what is about to end gets
// a moment for it; after [Kit.Kill] it does not.
func (k *Kit) Restart() {
	k.t.Helper()
	if began := time.Now(); !k.cfg.Bubble {
		k.Await(func() bool { return time.Since(began) > moment })
	}
	k.story.note(turnlog.Of{}, "restart", "all processes are killed and started again")
	for i, p := range k.all() {
		p.kill()
		k.ended.Go(p.end)
		k.begin(i)
	}
}

// Kill ends a replica, by its number from 1 on, as SIGKILL does; the others take over
// what it had begun.
func (k *Kit) Kill(replica int) {
	k.t.Helper()
	k.story.note(turnlog.Of{}, "killed", fmt.Sprint("replica ", replica))
	k.process(replica).kill()
}

// Alive reports whether the replica with that number runs. There has to be one.
func (k *Kit) Alive(replica int) bool {
	k.t.Helper()
	return !k.process(replica).dead.Load()
}

// CrashAfter has the process die that makes the n-th call of an action from now on, the
// first being 1: when it has been made, before anything of it is written down. It needs the
// hooks of [Parts].Bot. A crash that does not come fails the test at its end.
func (k *Kit) CrashAfter(n int) {
	k.t.Helper()
	if n < 1 {
		k.fatal("CrashAfter(%d): the first call is 1", n)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.crashAt = k.finished + n
}

// StopRedis has Redis refuse all connections, also those of processes that [Kit.Restart]
// starts, until [Kit.StartRedis].
func (k *Kit) StopRedis() { k.setRedis(true) }

// StartRedis ends what [Kit.StopRedis] began. Nothing was lost.
func (k *Kit) StartRedis() { k.setRedis(false) }

func (k *Kit) setRedis(away bool) {
	k.story.note(turnlog.Of{}, "redis", map[bool]string{true: "is away", false: "is back"}[away])
	k.mu.Lock()
	defer k.mu.Unlock()
	k.redisAway = away
	for _, p := range k.processes {
		p.redis.cut(away || p.dead.Load())
	}
}

// Call is one call of an action by a plan.
type Call struct {
	turnlog.Of
	Replica  int
	Key      string // the same for a call that is made again after a crash
	Action   string
	Entities map[string]any
	// Result is what came of it. Ended is false of a call that is under way, was cut off
	// or ended in a Go error or a panic.
	Result actions.Result
	Ended  bool
}

// Calls returns the calls of actions so far, as far as they were seen: see [Parts].Bot.
func (k *Kit) Calls() []Call {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.calls)
}

// calling notes that a call begins, and returns which one it is.
func (k *Kit) calling(p *process, of turnlog.Of, key string, c actions.Call) int {
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

// called notes the end of the n-th call, and has the process die if it was the one for that.
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
		k.story.note(turnlog.Of{}, "killed", fmt.Sprint("replica ", p.replica))
		p.kill()
	}
}

// GoldenPrompt compares what the model was asked so far with a file, and shows the difference as
// a failure of the test: the messages and the tools, without the time of the turn. There has to
// be a call. Keep the files with the code, and a changed prompt is seen before it is shipped.
// See [Record] for how files are written anew.
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
