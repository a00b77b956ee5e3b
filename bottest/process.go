package bottest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/state"
)

// process is one process of the bot, as far as that goes within a test: when its cables
// are cut, nothing that it still does reaches anybody.
type process struct {
	kit     *Kit
	replica int // from 1
	dead    atomic.Bool

	redis, out *cable
	store      *state.Redis
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
	p.kit.foreign.Store(p.kit.foreign.Load() || !parts.Bot.Store.(*watchedStore).used.Load())
	return p.listen(ctx)
}

// listen opens the bot's door.
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
	parts.Bot = bot.Config{Name: p.kit.cfg.Name, Store: &watchedStore{Redis: p.store}, Log: p.kit.log(), Hooks: p.hooks()}
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
	parts.Bot.Channel, parts.Bot.Door = client, bot.Guarded(guard)
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

// watchedStore notes whether the bot uses it.
type watchedStore struct {
	*state.Redis
	used atomic.Bool
}

// Inbox is what every bot opens in its store.
func (s *watchedStore) Inbox(cfg state.InboxConfig) (*state.Inbox, error) {
	s.used.Store(true)
	return s.Redis.Inbox(cfg)
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
