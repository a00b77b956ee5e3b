// Package cli runs the command lines of programs that have a bot's settings: it parses them,
// logs as the settings say, and tells what went wrong.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/planbot-go/planbot/internal/settings"
)

// Exit codes: 1 for what failed, 2 for wrong use and wrong settings.
const (
	ExitFailed = 1
	ExitUsage  = 2
)

// Streams are where a command reads and writes.
type Streams struct {
	In       *os.File
	Out, Err io.Writer
}

// Usage makes an error a mistake of whoever typed the command or set it up.
func Usage(err error) error { return settings.Fault{Err: err} }

// SilentError ends the command with a code when all is said already.
type SilentError struct{ Code int }

func (e SilentError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }

// Main runs the process's command line until it is told to stop, and exits.
func Main(run func(ctx context.Context, args []string, std *Streams) (code int)) {
	cobra.MousetrapHelpText = "" // a double click in Windows starts the program, too
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the next signal ends the process at once
	code := run(ctx, os.Args[1:], &Streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// Run runs one command line and returns the exit code.
func (p Program) Run(ctx context.Context, args []string, std *Streams) int {
	err := p.run(ctx, args, std)
	format := p.Settings.LogFormat
	if format == "" { // maybe the command line could not be parsed, so that nothing is set yet
		_, flag, _ := strings.Cut(strings.Join(args, "="), "--bot-log-format=")
		format, _, _ = strings.Cut(cmp.Or(flag, os.Getenv("BOT_LOG_FORMAT")), "=")
	}
	return report(p.Name, std.Err, strings.EqualFold(strings.TrimSpace(format), "json"), err)
}

// report prints the error, one mistake a line or as a JSON object where logs are JSON, and
// returns the exit code.
func report(name string, w io.Writer, asJSON bool, err error) int {
	if err == nil {
		return 0
	}
	if silent, ok := errors.AsType[SilentError](err); ok {
		return silent.Code
	}
	code := ExitFailed
	if _, fault := errors.AsType[settings.Fault](err); fault {
		code = ExitUsage
	}
	if asJSON {
		log := zerolog.New(w).With().Timestamp().Logger()
		log.Error().Strs("mistakes", strings.Split(err.Error(), "\n")).Msg(name + " failed")
		return code
	}
	fmt.Fprintf(w, "%s: %v\n", name, err)
	return code
}

// Check is the mistakes in the settings, and more, for a command that cannot live with them.
func Check(s *settings.Settings, more ...error) error {
	if err := errors.Join(append([]error{s.Check()}, more...)...); err != nil {
		return Usage(fmt.Errorf("these settings have to be changed:\n%w", err))
	}
	return nil
}

// Logger writes to w as the settings say: for people on a terminal, else JSON. The level counts
// where they name none.
func Logger(w io.Writer, s *settings.Settings, level zerolog.Level, copies ...io.Writer) zerolog.Logger {
	if !JSONLog(w, s) {
		w = zerolog.ConsoleWriter{Out: w, TimeFormat: time.TimeOnly, NoColor: !IsTerminal(w) || os.Getenv("NO_COLOR") != ""}
	}
	if len(copies) > 0 {
		w = zerolog.MultiLevelWriter(append([]io.Writer{w}, copies...)...)
	}
	if set, err := zerolog.ParseLevel(s.LogLevel); err == nil && s.LogLevel != "" {
		level = set
	}
	with := zerolog.New(w).Level(level).With().Timestamp()
	if s.NoAuth {
		with = with.Bool("no_auth", true)
	}
	return with.Logger()
}

// JSONLog reports whether every line has to be a JSON object.
func JSONLog(w io.Writer, s *settings.Settings) bool {
	return s.LogFormat == "json" || s.LogFormat == "" && !IsTerminal(w)
}

// IsTerminal reports whether somebody sees what is written, behind a writer that has an
// Unwrap as well.
func IsTerminal(w io.Writer) bool {
	if wrapped, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = wrapped.Unwrap()
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// PrintJSON writes a value as JSON that people can read.
func PrintJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Printable is a text from outside without what a terminal obeys.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// OneLine is a text from outside in one line, without what a terminal obeys.
func OneLine(text string) string { return Printable(strings.Join(strings.Fields(text), " ")) }

// PrintFields prints a table of names and values, leaving out what is empty.
func PrintFields(out io.Writer, rows [][2]string) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(table, "%s\t%s\n", row[0], OneLine(row[1]))
		}
	}
	return table.Flush()
}
