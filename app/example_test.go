package app_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/state"
)

var hedda = app.Bot{
	Name:         "Hedda",
	Instructions: "You keep the lists of Contoso's warehouse team. Be brief.",
	Welcome:      "Hello, I am Hedda. I keep the lists of the warehouse.",
	Register:     lists.Register,
	Setup:        setUp,
	Routes:       addRoutes,
}

func setUp(cfg *bot.Config) error {
	cfg.Features = append(cfg.Features, bot.Feature{Call: func(
		ctx context.Context, t *bot.Turn, call actions.Call, next func(context.Context, actions.Call) (actions.Result, error),
	) (actions.Result, error) {
		if call.Action.Destructive && !t.Activity.Conversation.Personal() {
			return actions.Done, turn.Refuse("%s works in a personal chat only", call.Action.Name)
		}
		return next(ctx, call)
	}})
	return nil
}

func addRoutes(b *bot.Bot) {
	b.OnCommand("/hours", func(ctx context.Context, t *bot.Turn) error {
		return t.Tell(ctx, "The warehouse is open from 6 to 22.")
	})
}

// serveHedda serves the bot in a server of your own until ctx ends.
func serveHedda(ctx context.Context, listener net.Listener, identity connector.Config, redisURL string, model models.Model) error {
	store, err := state.Open(ctx, redisURL, state.Config{})
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()          // everything is saved
	guard, client, err := connector.New(identity) // authenticates callers; sends with the bot's token
	if err != nil {
		return err
	}
	defer guard.Close()
	defer client.Close()
	b, err := app.New(ctx, hedda, model, bot.Config{
		Store: store, Authenticator: bot.Guarded(guard), Channel: client, Log: *zerolog.Ctx(ctx),
	})
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("/api/messages", b)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if b.Draining() || store.Ping(ctx) != nil {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})

	server := b.NewServer(mux) // limits what a client may tie up
	b.Start()                  // goes on with what other processes left
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return errors.Join(err, b.Drain(limit), server.Shutdown(limit))
}

// A bot within a server of your own: identity, Redis, health and shutdown are yours, the rest is
// as with [app.Main].
func ExampleNew_server() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx = zerolog.New(os.Stderr).WithContext(ctx)
	identity := connector.Config{
		AppID: os.Getenv("MICROSOFT_APP_ID"),
		Credentials: connector.Credentials{
			Tenant: os.Getenv("MICROSOFT_APP_TENANT_ID"), Password: os.Getenv("MICROSOFT_APP_PASSWORD"),
		},
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", ":3978")
	if err != nil {
		panic(err)
	}
	model, err := models.NewOpenAI(models.OpenAIConfig{Key: os.Getenv("OPENAI_API_KEY")})
	if err != nil {
		panic(err)
	}
	withRetries := &models.Chain{Models: []models.Model{model}}
	if err := serveHedda(ctx, listener, identity, os.Getenv("REDIS_URL"), withRetries); err != nil {
		panic(err)
	}
}
