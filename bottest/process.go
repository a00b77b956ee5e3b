package bottest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/pipe"
	"github.com/planbot-go/planbot/internal/turnlog"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// process is one process of the bot, as far as that goes within a test: when its cables
// are cut, nothing that it still does reaches anybody.
type process struct {
	kit     *Kit
	replica int // from 1
	dead    atomic.Bool

	redis, out *cable
	store      *state.Store
	transport  *http.Transport // over out
	bot        *bot.Bot
	server     *http.Server
	served     sync.WaitGroup
	url        string
	closers    []func()
}

// begin starts the i-th process.
func (k *Kit) begin(i int) {
	k.t.Helper()
	p := &process{kit: k, replica: i + 1, redis: newCable(k.dial()), out: newCable(k.wires.dial)}
	p.transport = &http.Transport{DialContext: p.out.dial, MaxIdleConnsPerHost: 256}
	p.closers = append(p.closers, p.transport.CloseIdleConnections)
	k.mu.Lock()
	k.processes[i] = p
	if k.redisAway {
		p.redis.cut()
	}
	k.mu.Unlock()
	if err := p.start(k.t.Context()); err != nil {
		k.t.Fatalf("bottest: start the bot: %v", err)
	}
}

func (p *process) start(ctx context.Context) error {
	var err error
	if p.store, err = p.kit.openStore(p.redis.dial); err != nil {
		return err
	}
	p.closers = append(p.closers, func() { _ = p.store.Close() }) // it may be cut off
	parts, err := p.parts()
	if err != nil {
		return err
	}
	if p.bot, err = p.kit.newBot(ctx, parts); err != nil {
		return err
	}
	if p.bot == nil {
		return errors.New("Config.New returned neither a bot nor an error")
	}
	p.kit.foreign.Store(p.kit.foreign.Load() || p.bot.Store() != p.store)
	return p.listen(ctx)
}

// listen serves the bot over HTTP.
func (p *process) listen(ctx context.Context) error {
	listener, err := p.kit.wires.listen(ctx)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	p.url = "http://" + listener.Addr().String() + "/api/messages"
	mux := http.NewServeMux()
	mux.Handle("/api/messages", p.bot)
	p.server = p.bot.NewServer(mux)
	p.served.Go(func() { _ = p.server.Serve(listener) }) // it ends when it is closed
	p.bot.Start()
	return nil
}

// parts are what the bot is made of in this process.
func (p *process) parts() (Parts, error) {
	chain, err := p.chain(p.kit.cfg.Models)
	if err != nil {
		return Parts{}, err
	}
	parts := Parts{Model: chain, ModelURL: p.kit.Model.URL, Transport: labelled{p.transport}, Replica: p.replica}
	parts.Named = func(name string) (models.Model, error) { return p.chain([]string{name}) }
	parts.Bot = bot.Config{Name: p.kit.cfg.Name, Store: p.store, Log: p.kit.log(), Hooks: p.hooks()}
	cloud, err := connector.CloudNamed("public")
	if err != nil {
		return Parts{}, err
	}
	hosts, err := connector.NewServiceHosts(cloud, nil, true)
	if err != nil {
		return Parts{}, err
	}
	client, err := connector.New(connector.Config{Hosts: hosts, Transport: labelled{p.transport}})
	if err != nil {
		return Parts{}, err
	}
	p.closers = append(p.closers, client.Close)
	guard, err := connector.NewGuard(connector.GuardConfig{Cloud: cloud, Hosts: hosts})
	if err != nil {
		return Parts{}, err
	}
	p.closers = append(p.closers, guard.Close)
	parts.Bot.Channel, parts.Bot.Authenticator = client, bot.Guarded(guard)
	return parts, nil
}

// chain asks the scripted model under these names, as patiently as the program does.
func (p *process) chain(names []string) (models.Model, error) {
	cfg := models.ChainConfig{}
	for _, name := range names {
		model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: p.kit.Model.URL, Model: name, Transport: labelled{p.transport}})
		if err != nil {
			return nil, err
		}
		cfg.Models = append(cfg.Models, model)
	}
	return models.NewChain(cfg)
}

// kill ends the process as SIGKILL does: nothing more of it is seen. What still runs of it is
// stopped: it would look for its Redis for ever, and make every hour of a bubble dear.
func (p *process) kill() {
	died := !p.dead.Swap(true)
	p.redis.cut()
	p.out.cut()
	if died && p.bot != nil {
		p.kit.ended.Go(func() { _ = p.bot.Drain(noTime()) }) // nobody waits for the dead
	}
}

// noTime is over.
func noTime() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// end waits until nothing of the process is left. A living one is shut down.
func (p *process) end() {
	if p.server != nil {
		limit := patience
		if p.kit.bubble {
			limit = bubblePatience
		}
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if p.dead.Load() {
			cancel() // nobody waits for the dead
		}
		if err := p.bot.Drain(ctx); err != nil && !p.dead.Load() && !p.kit.t.Failed() {
			p.kit.fail(nil, "the test ended and the bot was still at work after %v: %v", limit, err)
		}
		_ = p.server.Close() // of what is left, nobody reads
		p.served.Wait()
	}
	for _, end := range p.closers {
		end()
	}
}

// process is the replica with that number, nil when there is none.
func (k *Kit) process(replica int) *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	if replica < 1 || replica > len(k.processes) {
		return nil
	}
	return k.processes[replica-1]
}

// alive reports whether any process lives.
func (k *Kit) alive() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.processes {
		if p != nil && !p.dead.Load() {
			return true
		}
	}
	return false
}

// moment is what turns get to end whose messages are there already.
const moment = 500 * time.Millisecond

// Restart ends all processes of the bot as SIGKILL does and starts them again. All that
// was in their memory is lost, Redis stays. Where time is real, what is about to end gets
// a moment for it; after [Kit.Kill] it does not.
func (k *Kit) Restart() {
	k.t.Helper()
	if began := time.Now(); !k.bubble {
		k.settle(func() bool { return time.Since(began) > moment })
	}
	k.note(entry{kind: "restart", text: "all processes are killed and started again"})
	for i := range k.processes {
		k.restart(i)
	}
}

// Kill ends a replica, by its number from 1 on, as SIGKILL does; the others take over
// what it had begun.
func (k *Kit) Kill(replica int) {
	k.t.Helper()
	p := k.process(replica)
	if p == nil {
		k.fatal(nil, "there is no replica %d", replica)
	}
	k.note(entry{kind: "killed", text: fmt.Sprint("replica ", replica)})
	p.kill()
}

// Alive reports whether the replica with that number runs. There has to be one.
func (k *Kit) Alive(replica int) bool {
	k.t.Helper()
	p := k.process(replica)
	if p == nil {
		k.fatal(nil, "there is no replica %d", replica)
	}
	return !p.dead.Load()
}

func (k *Kit) restart(i int) {
	k.t.Helper()
	p := k.process(i + 1)
	p.kill()
	k.ended.Go(p.end)
	k.begin(i)
}

// CrashAfter has the process die that makes the n-th call of an action from now on, the
// first being 1: when it has been made, before anything of it is written down. It needs the
// hooks of [Parts].Bot. A crash that does not come fails the test at its end.
func (k *Kit) CrashAfter(n int) {
	k.t.Helper()
	if n < 1 {
		k.fatal(nil, "CrashAfter(%d): the first call is 1", n)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.crashAt = len(k.finished()) + n
}

// StopRedis has Redis refuse all connections, also those of processes that [Kit.Restart]
// starts, until [Kit.StartRedis].
func (k *Kit) StopRedis() {
	k.note(entry{kind: "fault", text: "redis is away"})
	k.setRedis(true)
}

// StartRedis ends what [Kit.StopRedis] began. Nothing was lost.
func (k *Kit) StartRedis() {
	k.note(entry{kind: "fault", text: "redis is back"})
	k.setRedis(false)
}

// setRedis cuts the way to Redis, also of processes that begin later, or mends it.
func (k *Kit) setRedis(away bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.redisAway = away
	for _, p := range k.processes {
		switch {
		case away:
			p.redis.cut()
		case !p.dead.Load():
			p.redis.mend()
		}
	}
}

func (k *Kit) all() []*process {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]*process(nil), k.processes...)
}

// Call is one call of an action by a plan.
type Call struct {
	Of
	Seq      int // its place among all that happened in the kit
	Replica  int
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
	return append([]Call(nil), k.calls...)
}

// hooks watch what the process does, and freeze it once it is dead.
func (p *process) hooks() bot.Hooks {
	return bot.Hooks{
		Plan: func(ctx context.Context, t *bot.Turn, next func(context.Context) (plan.Plan, error)) (plan.Plan, error) {
			made, err := next(ctx)
			if err != nil {
				return made, err
			}
			p.kit.hooked.Store(true)
			raw, err := json.Marshal(made.Commands)
			p.kit.note(entry{Of: ofTurn(t), kind: "plan", text: string(raw)})
			return made, err
		},
		Call: func(ctx context.Context, t *bot.Turn, c actions.Call, next func(context.Context, actions.Call) (actions.Result, error)) (actions.Result, error) {
			if err := p.freeze(ctx); err != nil {
				return actions.Done, err
			}
			p.kit.calling(p, ofTurn(t), c)
			result, err := next(ctx, c)
			if err != nil {
				return result, err
			}
			p.kit.called(p, ofTurn(t), c, result)
			return result, p.freeze(ctx)
		},
	}
}

// freeze holds a dead process where it died.
func (p *process) freeze(ctx context.Context) error {
	if !p.dead.Load() {
		return nil
	}
	<-ctx.Done()
	return fmt.Errorf("the process is dead: %w", ctx.Err())
}

func ofTurn(t *bot.Turn) Of {
	return Of{Turn: t.ID, Conversation: t.Activity.Conversation.ID, Activity: t.Activity.ID}
}

func (k *Kit) calling(p *process, of Of, c actions.Call) {
	seq := k.note(entry{Of: of, kind: "calls", text: describeCall(c)})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calls = append(k.calls, Call{Of: of, Seq: seq, Replica: p.replica, Action: c.Action.Name, Entities: c.Entities})
}

// called notes the end of a call, and has the process die if it was the one for that.
func (k *Kit) called(p *process, of Of, c actions.Call, result actions.Result) {
	text := result.Text()
	if result.Failed() {
		text = "failed: " + text
	}
	k.note(entry{Of: of, kind: "result", text: c.Action.Name + " " + text})
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range k.calls {
		if one := &k.calls[i]; !one.Ended && one.Turn == of.Turn && one.Replica == p.replica && one.Action == c.Action.Name {
			one.Result, one.Ended = result, true
			break
		}
	}
	if k.crashAt > 0 && len(k.finished()) >= k.crashAt {
		k.crashAt = 0
		k.note(entry{kind: "killed", text: fmt.Sprint("replica ", p.replica)})
		p.kill()
	}
}

// finished are the calls that ended. k.mu is held.
func (k *Kit) finished() []Call {
	var ended []Call
	for _, c := range k.calls {
		if c.Ended {
			ended = append(ended, c)
		}
	}
	return ended
}

func describeCall(c actions.Call) string {
	raw, err := json.Marshal(c.Entities)
	if err != nil {
		return c.Action.Name
	}
	return c.Action.Name + " " + string(raw)
}

// dialer opens connections.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// netDial is the dialer of the machine.
func netDial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// wires connect the parts of a kit: over memory in a bubble, else over loopback.
type wires struct {
	inMemory bool

	mu        sync.Mutex
	listeners map[string]*pipe.Listener
}

func newWires(inMemory bool) *wires {
	return &wires{inMemory: inMemory, listeners: map[string]*pipe.Listener{}}
}

// listen opens an address, which looks like one of loopback in any case: bots without
// an app id take no other.
func (w *wires) listen(ctx context.Context) (net.Listener, error) {
	if !w.inMemory {
		var lc net.ListenConfig
		return lc.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	const firstPort = 40_000
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: firstPort + len(w.listeners)}
	l := pipe.Listen(addr)
	w.listeners[addr.String()] = l
	return l, nil
}

func (w *wires) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if !w.inMemory {
		return netDial(ctx, network, addr)
	}
	w.mu.Lock()
	l := w.listeners[addr]
	w.mu.Unlock()
	if l == nil {
		return nil, errors.New("dial " + addr + ": nobody listens there, and no connection leads out of the bubble")
	}
	return l.Dial(ctx)
}

func (w *wires) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.listeners {
		_ = l.Close() // it never fails
	}
}

// cable is the way of one process to others. It can be cut: whoever uses it is then as
// good as dead.
type cable struct {
	to dialer

	mu    sync.Mutex
	isCut bool
	conns map[*onCable]struct{}
}

func newCable(to dialer) *cable { return &cable{to: to, conns: map[*onCable]struct{}{}} }

var errCut = errors.New("the connection was cut by the test")

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.dead() {
		return nil, errCut
	}
	conn, err := c.to(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	on := &onCable{conn, c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		return nil, errors.Join(errCut, conn.Close())
	}
	c.conns[on] = struct{}{}
	return on, nil
}

func (c *cable) dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isCut
}

// cut breaks all connections and lets no other come.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for on := range c.conns {
		_ = on.Conn.Close() // broken either way
	}
	clear(c.conns)
}

// mend lets connections come again.
func (c *cable) mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = false
}

// onCable is a connection that the cable knows until it is closed.
type onCable struct {
	net.Conn
	cable *cable
}

func (o *onCable) Close() error {
	o.cable.mu.Lock()
	delete(o.cable.conns, o)
	o.cable.mu.Unlock()
	return o.Conn.Close()
}

// Of says which turn something belongs to.
type Of = turnlog.Of

const ofHeader = "X-Bottest-Of"

// labelled tells the stand-ins which turn a request belongs to.
type labelled struct{ http.RoundTripper }

func (l labelled) RoundTrip(r *http.Request) (*http.Response, error) {
	label, err := json.Marshal(turnlog.From(r.Context()))
	if err != nil {
		return nil, err
	}
	out := r.Clone(r.Context())
	out.Header.Set(ofHeader, string(label))
	return l.RoundTripper.RoundTrip(out)
}

func labelOf(h http.Header) (of Of) {
	_ = json.Unmarshal([]byte(h.Get(ofHeader)), &of) // of a bot with a client of its own there is none
	return of
}
