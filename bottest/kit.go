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
	"crypto/rand"
	"fmt"
	"io"
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
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
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
	watcher *state.Store
	queue   *inbox.Inbox
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
	if k.queue, err = inbox.Open(store, inbox.Config{}); err != nil {
		k.t.Fatalf("bottest: %v", err)
	}
	k.t.Cleanup(k.queue.Close)
}

// openStore opens Redis for one process.
func (k *Kit) openStore(dial dialer) (*state.Store, error) {
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
	close(k.over)
	for _, p := range k.all() {
		if p != nil {
			p.end()
		}
	}
	k.ended.Wait()
	if left := k.unmet(); len(left) > 0 && !k.t.Failed() {
		k.fail(nil, "%s", strings.Join(left, "\n"))
	}
	k.mu.Lock()
	explained := k.explained
	k.mu.Unlock()
	if k.t.Failed() && !explained {
		k.t.Logf("%s", k.explain(nil))
	}
	k.wires.close()
}

// unmet says what the test set up and the bot did not meet, and what the bot said that the
// test did not look at.
func (k *Kit) unmet() (left []string) {
	add := func(n int, what string) {
		if n > 0 {
			left = append(left, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(k.Model.left(), "scripted answers of the model were not asked for")
	faults, held := k.Connector.fake.Left()
	add(faults, "faults of Connector.Fails were not met: the bot sent no message that they were for")
	for _, text := range held {
		left = append(left, fmt.Sprintf("the message %q of Connector.Holds was not sent", text))
	}
	if crash := k.uncrashed(); crash != "" {
		left = append(left, crash)
	}
	for _, s := range k.Connector.overlooked("") {
		left = append(left, fmt.Sprintf("the bot said %s in %s, which nothing expected", quote(s), s.To))
	}
	return left
}

// uncrashed says why the crash of CrashAfter did not come; "": none is to come.
func (k *Kit) uncrashed() string {
	asked := len(k.Model.Calls())
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.crashAt == 0:
		return ""
	case !k.hooked.Load() && asked > 0:
		return "the crash of CrashAfter did not come: the bot does not take the Hooks of Parts.Bot, so nobody sees it call actions"
	}
	return fmt.Sprintf("the crash of CrashAfter did not come: it was for the end of call %d of an action, and there were %d", k.crashAt, len(k.finished()))
}

// How long a test may wait for a stand-in's channel, in real time and in a bubble. The
// latter is more than any test waits on purpose, and over in seconds.
const (
	maxWait       = 2 * time.Minute
	maxBubbleWait = 7 * 24 * time.Hour
)

// giveUp has what a test waits for end with a failure when it does not come: nobody else
// would tell a test that hangs why. Due does so, and says why it was still waited for.
func (k *Kit) giveUp(due func(after time.Duration) (failure string)) {
	limit := maxWait
	if k.bubble {
		limit = maxBubbleWait
	}
	k.ended.Go(func() {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-k.over:
		case <-timer.C:
			if failure := due(limit); failure != "" {
				k.fail(nil, "%s", failure)
			}
		}
	})
}

// fail reports a failure of the test, with all that is known. The chat may be nil.
func (k *Kit) fail(c *Chat, format string, args ...any) {
	k.t.Helper()
	k.t.Errorf("%s\n%s", fmt.Sprintf(format, args...), k.explainOnce(c))
}

// fatal is fail for what nothing can follow.
func (k *Kit) fatal(c *Chat, format string, args ...any) {
	k.t.Helper()
	k.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), k.explainOnce(c))
}

// explainOnce is explain, of which the end of the test then need not tell again.
func (k *Kit) explainOnce(c *Chat) string {
	k.mu.Lock()
	k.explained = true
	k.mu.Unlock()
	return k.explain(c)
}

// OfConversation reads the value of type T that the bot keeps about the conversation, once
// it has nothing left to do: the zero T when it keeps none. It is for bots that take their
// Store from the parts; of others it fails the test.
func OfConversation[T any](c *Chat) T {
	c.kit.t.Helper()
	return read(c, c.conversationKey(), state.Of[T])
}

// OfUser is [OfConversation] for what the bot keeps about the person who speaks.
func OfUser[T any](c *Chat) T {
	c.kit.t.Helper()
	return read(c, c.userKey(), state.Of[T])
}

// AtConversation is [OfConversation] for the value that the bot keeps under a name, with
// [state.At].
func AtConversation[T any](c *Chat, name string) T {
	c.kit.t.Helper()
	return read(c, c.conversationKey(), func(s *state.Scope) *T { return state.At[T](s, name) })
}

// AtUser is [AtConversation] for what the bot keeps about the person who speaks.
func AtUser[T any](c *Chat, name string) T {
	c.kit.t.Helper()
	return read(c, c.userKey(), func(s *state.Scope) *T { return state.At[T](s, name) })
}

func read[T any](c *Chat, key state.Key, of func(*state.Scope) *T) T {
	c.kit.t.Helper()
	c.kit.settle(nil)
	scope := c.kit.load(c, key)
	value := *of(scope)
	if err := scope.Err(); err != nil {
		c.kit.fatal(c, "read what the bot keeps: %v", err)
	}
	return value
}

// Keep changes what the bot keeps about the conversation and about the person, before or
// between its turns; of a bot that takes its Store from the parts.
func (c *Chat) Keep(change func(conversation, user *state.Scope)) {
	c.kit.t.Helper()
	conversation, user := c.kit.load(c, c.conversationKey()), c.kit.load(c, c.userKey())
	change(conversation, user)
	if err := c.kit.watcher.Save(c.kit.t.Context(), conversation, user); err != nil {
		c.kit.fatal(c, "keep: %v", err)
	}
}

// ID is the id of the conversation.
func (c *Chat) ID() string { return c.of.id }

func (c *Chat) conversationKey() state.Key {
	base, _, _ := strings.Cut(c.of.id, ";")
	return state.ConversationKey(activity.Teams, BotID, base)
}

func (c *Chat) userKey() state.Key { return state.UserKey(activity.Teams, BotID, userID(c.person)) }

func (k *Kit) load(c *Chat, key state.Key) *state.Scope {
	k.t.Helper()
	if k.foreign.Load() {
		k.fatal(c, "what a bot keeps is known of bots that take their Store from the Parts")
	}
	scopes, err := k.watcher.Load(k.t.Context(), key)
	if err != nil {
		k.fatal(c, "read what the bot keeps: %v", err)
	}
	return scopes[0]
}

// kept shows what a bot keeps about the chat's conversation and person; of no chat, about
// all.
func (k *Kit) kept(c *Chat) string {
	var s strings.Builder
	if c != nil {
		k.keptAt(&s, "conversation", c.conversationKey())
		k.keptAt(&s, c.person, c.userKey())
		return s.String()
	}
	people := map[string]bool{}
	for _, chat := range k.allChats() {
		k.keptAt(&s, chat.of.id, chat.conversationKey())
		for _, person := range chat.of.speakers() {
			if !people[person] {
				people[person] = true
				k.keptAt(&s, person, chat.As(person).userKey())
			}
		}
	}
	return s.String()
}

func (k *Kit) keptAt(s *strings.Builder, what string, key state.Key) {
	// The context of a test that is at its end is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.t.Context()), patience)
	defer cancel()
	scopes, err := k.watcher.Load(ctx, key)
	if err != nil {
		fmt.Fprintf(s, "%s: %v\n", what, err)
		return
	}
	names := scopes[0].Names()
	slices.Sort(names)
	for _, name := range names {
		value, err := scopes[0].JSON(name)
		if err != nil {
			value = []byte(err.Error())
		}
		fmt.Fprintf(s, "%s.%s = %s\n", what, name, value)
	}
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
	if cfg.Planner, err = NewPlanner(ctx, k.cfg.Planner, planner.Config{Model: parts.Model, Actions: cfg.Actions, Named: parts.Named}); err != nil {
		return nil, err
	}
	if k.cfg.Change != nil {
		k.cfg.Change(&cfg)
	}
	return bot.New(cfg)
}

// NewPlanner makes the planner of that name: "sequence", "sequential" or "tools"; "" is
// the first.
func NewPlanner(ctx context.Context, name string, cfg planner.Config) (turn.Planner, error) {
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
