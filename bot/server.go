package bot

import (
	stdlog "log"
	"net/http"
	"time"

	"github.com/rs/zerolog"
)

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
	gate := newGate(b.cfg.MaxConnections, b.cfg.Log)
	server := &http.Server{
		Handler:           gate.around(hastening(h)),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout + b.cfg.AckTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          stdlog.New(b.cfg.Log.With().Str(zerolog.LevelFieldName, zerolog.LevelWarnValue).Str("of", "net/http").Logger(), "", 0),
		ConnState:         gate.watch,
		ConnContext:       gate.introduce,
	}
	server.RegisterOnShutdown(gate.close)
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
