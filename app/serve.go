package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

const (
	readyTimeout = 2 * time.Second
	// closeTimeout is how long connections may take to end once no turn runs,
	// if BOT_DRAIN_TIMEOUT leaves as much.
	closeTimeout   = 2 * time.Second
	leastCloseTime = 100 * time.Millisecond
	// cutOffTime is what turns get of BOT_DRAIN_TIMEOUT to say that they were
	// cut off, at most a quarter of it.
	cutOffTime = time.Second
)

type serveCmd struct {
	Record string `type:"path" placeholder:"DIR" help:"write down what people say and the bot does, as scenarios and cassettes for tests"`
}

// Run serves until the process is told to stop, then drains.
func (cmd serveCmd) Run(ctx context.Context, s *settings, std *streams) error {
	c, err := s.checked()
	if err != nil {
		return err
	}
	log := logger(std.err, c)
	stopRecording, err := c.record(cmd.Record, std.out, &log)
	if err != nil {
		return err
	}
	defer stopRecording()
	a, err := assemble(ctx, c, log)
	if err != nil {
		return err
	}
	defer a.close()
	listener, err := listen(ctx, c.addr, "BOT_ADDR, PORT")
	if err != nil {
		return err
	}
	stopMetrics, err := a.showMetrics(ctx)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer stopMetrics()
	a.announce(std.out, listener.Addr())
	return a.serve(ctx, listener)
}

func listen(ctx context.Context, addr, setting string) (net.Listener, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s (%s): %w", addr, setting, err)
	}
	return listener, nil
}

// serve answers requests until ctx ends, and then drains: new activities are
// refused, the turns at work end, connections close.
func (a *program) serve(ctx context.Context, listener net.Listener) error {
	server := a.bot.NewServer(a.handler())
	server.BaseContext = func(net.Listener) context.Context { return a.log.WithContext(context.WithoutCancel(ctx)) }
	a.bot.Start()
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	err := a.drain(server)
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

// drain takes no longer than the drain timeout, whatever hangs.
func (a *program) drain(server *http.Server) error {
	a.log.Info().Stringer("at_most", a.config.drainTimeout).Msg("draining")
	end := time.Now().Add(a.config.drainTimeout)
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(-min(cutOffTime, a.config.drainTimeout/4)))
	defer cancel()
	if err := a.bot.Drain(ctx); err != nil {
		a.log.Warn().Err(err).Msg("turns were cut off")
	}
	ctx, cancel = context.WithTimeout(context.Background(), max(leastCloseTime, min(closeTimeout, time.Until(end))))
	defer cancel()
	var flush sync.WaitGroup
	flush.Go(func() { a.flush(ctx) })
	err := server.Shutdown(ctx)
	flush.Wait()
	if err != nil {
		a.log.Debug().Err(err).Msg("connections were cut off")
		return server.Close()
	}
	a.log.Info().Msg("stopped")
	return nil
}

func (a *program) handler() http.Handler {
	mux := http.NewServeMux()
	var door http.Handler = a.bot
	if r := a.config.recorder; r != nil {
		door = r.Handler(door)
	}
	mux.Handle("/api/messages", door)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.ready)
	return mux
}

// ready says whether this process can take activities now. Probes come every
// few seconds, so only a change of the store is news.
func (a *program) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	log := zerolog.Ctx(ctx)
	line := log.Debug()
	err := errors.New("draining")
	if !a.bot.Draining() {
		err = a.store.Ping(ctx)
		if changed := a.away.Swap(err != nil) != (err != nil); changed {
			line = log.Warn()
		}
	}
	if err != nil {
		line.Err(err).Msg("not ready")
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	line.Msg("ready")
	fmt.Fprintln(w, "ready")
}

// announce says where the bot listens, what it does without, and what to do
// next: to a person in sentences, to a log in one line.
func (a *program) announce(out io.Writer, addr net.Addr) {
	url := "http://" + addr.String() + "/api/messages"
	if a.config.noAuth {
		a.log.Warn().Msg("BOT_DANGEROUSLY_NO_AUTH is true: nobody is checked, so keep this bot on a closed network")
	}
	for _, about := range a.config.warnings {
		a.log.Warn().Str("about", about).Msg("a setting may not do what it is meant to")
	}
	line := a.log.Info()
	if !jsonLog(out, a.config) {
		line = a.log.Debug() // the sentences below say the same
		fmt.Fprintf(out, "%s listens on %s\n  state:    %s\n  model:    %s\n  identity: %s\n", a.config.bot.Name, url, a.about.state, a.about.model, a.about.identity)
		if a.about.skills != "" {
			fmt.Fprintf(out, "  skills:   %s\n  scripts:  %s\n", printable(a.about.skills), a.about.scripts)
		}
		fmt.Fprintf(out, "  next:     %s\n", a.next(url))
		fmt.Fprintln(out, `Ctrl-C ends it. "bot doctor" explains the settings, README.md the rest.`)
	}
	if a.about.skills != "" {
		line = line.Str("skills", a.about.skills).Str("scripts", a.about.scripts)
	}
	line.Str("url", url).Str("state", a.about.state).Str("model", a.about.model).
		Str("identity", a.about.identity).Str("next", a.next(url)).Msg("listening")
}

// next is what to do now that the bot runs.
func (a *program) next(url string) string {
	if a.config.AppID != "" {
		return "point the Azure Bot's messaging endpoint to https://YOUR_HOST/api/messages, see README.md"
	}
	return `talk to it: "go run ./cmd/bot chat" in another terminal, or Microsoft's client with ` +
		"npx @microsoft/m365agentsplayground -e " + url
}
