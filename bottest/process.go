package bottest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/turnlog"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/state"
)

// process is one process of the bot, as far as a test can have one: once its connections are cut,
// nothing it does has any effect.
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

func newProcess(k *Kit, replica int) *process {
	p := &process{kit: k, replica: replica, redis: &cable{to: k.redis.Dial}, out: &cable{to: k.network.dial}}
	p.transport = &http.Transport{DialContext: p.out.dial, MaxIdleConnsPerHost: 256}
	p.closers = append(p.closers, p.transport.CloseIdleConnections)
	return p
}

// start makes the bot and serves it over HTTP.
func (p *process) start(ctx context.Context) error {
	var err error
	if p.store, err = p.kit.openStore(p.redis.dial); err != nil {
		return err
	}
	p.closers = append(p.closers, func() { _ = p.store.Close() }) // its connection may be cut
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
	guard, client, err := connector.New(connector.Config{Transport: labelled{p.transport}})
	if err != nil {
		return Parts{}, err
	}
	p.closers = append(p.closers, client.Close, guard.Close)
	return Parts{
		Model: chain, Named: func(name string) (models.Model, error) { return p.chain([]string{name}) },
		ModelURL: p.kit.Model.URL, Transport: labelled{p.transport}, Replica: p.replica,
		Bot: bot.Config{Name: p.kit.cfg.Name, Store: p.store, Channel: client, Authenticator: bot.Guarded(guard), Log: p.kit.log(), Hooks: p.hooks()},
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

// hooks watch the process, and freeze it once it is dead.
func (p *process) hooks() bot.Hooks {
	return bot.Hooks{
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

func ofTurn(t *bot.Turn) turnlog.Of {
	return turnlog.Of{Turn: t.ID, Conversation: t.Activity.Conversation.ID, Activity: t.Activity.ID}
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
	p.redis.cut(true)
	p.out.cut(true)
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
