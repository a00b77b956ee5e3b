package app

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"github.com/planbot-go/planbot/internal/console"
)

// logger writes to w as the settings say: for people on a terminal, else JSON.
func logger(w io.Writer, c config) zerolog.Logger {
	if jsonLog(w, c) {
		return leveled(zerolog.New(w), c)
	}
	pretty := zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !isTerminal(w) || os.Getenv("NO_COLOR") != ""}
	return leveled(zerolog.New(pretty), c)
}

func leveled(log zerolog.Logger, c config) zerolog.Logger {
	with := log.Level(c.logLevel).With().Timestamp()
	if c.noAuth {
		with = with.Bool("no_auth", true)
	}
	return with.Logger()
}

// jsonLog reports whether every line has to be a JSON object.
func jsonLog(w io.Writer, c config) bool {
	if c.LogFormat == "" {
		return !isTerminal(w)
	}
	return strings.EqualFold(c.LogFormat, "json")
}

func isTerminal(w io.Writer) bool {
	if logs, ok := w.(*console.Logs); ok {
		w = logs.Out
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
