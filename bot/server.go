package bot

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

// Limits on how long the end may take.
const (
	drainTimeout = 20 * time.Second
	closeTimeout = 2 * time.Second
)

// ListenAndServe answers POST /api/messages on addr, a host:port, until ctx ends,
// and then drains: activities are refused, and the turns at work get 20 seconds.
// After that it returns nil. It is all that the main of a small bot needs:
//
//	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
//	defer stop()
//	err := b.ListenAndServe(ctx, "127.0.0.1:3978")
//
// A bot without an Authenticator listens on loopback addresses only.
func (b *Bot) ListenAndServe(ctx context.Context, addr string) error {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", addr, err)
	}
	return b.Serve(ctx, listener)
}

// Serve is [Bot.ListenAndServe] on a listener, which it closes.
func (b *Bot) Serve(ctx context.Context, listener net.Listener) error {
	addr := listener.Addr()
	if b.local && !isLoopback(addr) {
		return errors.Join(fmt.Errorf("listen on %s: a bot without an Authenticator is for loopback addresses only", addr), listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/api/messages", b)
	server := b.NewServer(mux)
	b.Start()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	b.cfg.Log.Info().Str("url", "http://"+addr.String()+"/api/messages").Msg("listening")
	select {
	case err := <-ended:
		return fmt.Errorf("serve on %s: %w", addr, err)
	case <-ctx.Done():
	}
	if err := b.shut(ctx, server); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", addr, err)
	}
	return nil
}

// shut waits for the turns at work and then for the connections, for each not
// too long.
func (b *Bot) shut(ctx context.Context, server *http.Server) error {
	b.cfg.Log.Info().Stringer("at_most", drainTimeout).Msg("draining")
	ctx = context.WithoutCancel(ctx)
	draining, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := b.Drain(draining); err != nil {
		b.cfg.Log.Warn().Err(err).Msg("turns were cut off")
	}
	closing, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if server.Shutdown(closing) != nil {
		return server.Close()
	}
	return nil
}

// Limits on what a client may hold on to.
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = 20 * time.Second // headers and body
	writeTimeout   = time.Minute      // all behind the headers: a body, an answer that is waited for, and its way out
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 32 << 10
	// lingerTimeout is how long the rest of a request is waited for that was answered
	// without it.
	lingerTimeout = 500 * time.Millisecond
)

// NewServer returns a server for h, of which the bot is a part, with all bounds on
// what clients may hold on to: the time for headers, body, answer and doing nothing,
// the size of headers, and the number of connections ([Config].MaxConnections). It
// reports to the bot's log. The caller may set other fields, but not ConnState and
// ConnContext.
func (b *Bot) NewServer(h http.Handler) *http.Server {
	cap := newConnCap(b.cfg.MaxConnections, b.cfg.Log)
	server := &http.Server{
		Handler:           cap.counting(hastening(h)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout + b.cfg.AckTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          stdlog.New(b.cfg.Log.With().Str(zerolog.LevelFieldName, zerolog.LevelWarnValue).Str("of", "net/http").Logger(), "", 0),
		ConnState:         cap.watch,
		ConnContext:       cap.connContext,
	}
	server.RegisterOnShutdown(cap.close)
	return server
}

// hastening waits only a moment for what is left of a request once h has answered it.
// The server reads that before it sends the answer, to use the connection again, and
// would give a stranger the time of a whole body for it.
func hastening(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(lingerTimeout)) // of a connection that is open
		}
	})
}
