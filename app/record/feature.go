package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/internal/turnlog"
	"github.com/planbot-go/planbot/app/internal/turnview"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bot/heads"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/scrub"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/state"
	"github.com/planbot-go/planbot/state/inbox"
)

type feature struct {
	Dir string `env:"BOT_RECORD" name:"record" else:"none" help:"folder for what bot serve does, as scenarios and cassettes for tests"`

	Content bool `env:"BOT_TURNS_CONTENT" needs:"BOT_TURNS_KEEP" help:"true: also keep what people said and what the bot did, without secrets, for bot replay --kept; at most 5,000 turns"`

	recorder *Recorder    // nil: no recording
	log      *turnlog.Log // of what Content keeps; nil: nothing
}

// commands join those of bot turns.
type commands struct {
	Turns struct {
		Export exportCmd `help:"Turn dead letters into scenarios for bottest run."`
	}
}

// Feature records what a bot does, if BOT_RECORD is set, and makes scenarios of dead letters.
func Feature() app.Feature {
	f := &feature{}
	return app.Feature{Name: "record", Settings: f, Open: f.open, Wire: f.wire, Commands: &commands{}}
}

func (f *feature) open(p *app.Program) error {
	if f.Content {
		f.log = turnlog.New(turnlog.Config{Secrets: p.Settings().Secrets(), MaxPerSecond: wholePerSecond})
		p.OnClose(f.log.Close)
		p.Announce("content of turns", "what people say and what the bot does is kept in Redis (BOT_TURNS_CONTENT): tell people")
		p.LogTo(io.Discard) // as below
	}
	if f.Dir == "" {
		return nil
	}
	cfg := Of(p)
	cfg.Dir = f.Dir
	var err error
	if f.recorder, err = New(cfg); err != nil {
		return app.Usage(fmt.Errorf("--record: %w", err))
	}
	p.OnClose(f.recorder.Close)
	p.Watch(settings.Watch{Model: f.recorder.Model})
	p.Announce("recording", "what people say and what the bot does goes to "+f.Dir+": tell people, and look before you share a file")
	p.Log().Warn().Str("dir", f.Dir).Msg("THIS BOT IS RECORDED")
	p.LogTo(io.Discard) // turns are told apart by the log of their context, so there has to be one
	return nil
}

func (f *feature) wire(_ context.Context, p *app.Program, cfg *bot.Config) error {
	if f.log != nil {
		cfg.Channel = f.log.Channel(cfg.Channel)
		cfg.Features = append(cfg.Features, f.content(cfg.Store, cfg.TurnsKeep, p.Settings().Secrets()))
	}
	if f.recorder == nil {
		return nil
	}
	cfg.Channel = f.recorder.Channel(cfg.Channel)
	cfg.Authenticator = f.recorder.Authenticator(cfg.Authenticator)
	cfg.Features = append(cfg.Features, f.recorder.Feature())
	cfg.Stream = false // scenarios do not stream
	p.WrapWebhook(func(h http.Handler) http.Handler { return f.recorder.Handler(h) })
	return nil
}

const (
	contents = "turn_contents" // a table
	// maxContents limits the turns in it, maxContent one of them.
	maxContents, maxContent = 5000, 64 << 10
)

func (f *feature) content(store *state.Store, keep time.Duration, secrets []string) bot.Feature {
	return bot.Feature{
		Name: "contents", Keeps: "For a while, I also keep what you write and what I do, to test my new versions.",
		Event: f.log.WatchTurn,
		Ended: func(ctx context.Context, t *bot.Turn, e turn.Ended) {
			if e.Own || e.Forgotten || f.log.Settle(ctx) != nil {
				return
			}
			raw, ok := wholeOf(f.log, t.ID)
			if !ok || len(raw) > maxContent {
				return
			}
			row := state.Row{ID: t.ID, Owner: heads.Owner(t), Text: scrub.New(secrets...).Text(string(raw)), Until: time.Now().Add(keep)}
			if err := store.PutRow(ctx, contents, maxContents, row); err != nil {
				t.Log().Warn().Err(err).Msg("the content of the turn is lost")
			}
		},
		Forget: func(ctx context.Context, t *bot.Turn) error { return store.DropRows(ctx, contents, heads.Owner(t)) },
	}
}

// Kept passes the turns to each that BOT_TURNS_CONTENT keeps, as lines of JSON. One that ends in the meantime is not there.
func Kept(ctx context.Context, store *state.Store, each func(id, line string)) error {
	ids, err := store.Rows(ctx, contents)
	if err != nil {
		return err
	}
	for _, id := range ids {
		row, err := store.FindRow(ctx, contents, id)
		switch {
		case err == nil:
			each(id, row.Text)
		case !errors.Is(err, state.ErrNoRow):
			return err
		}
	}
	return nil
}

// Of says what scenarios of a program's bot have to know of it.
func Of(p *app.Program) Config {
	s := p.Settings()
	// Settings that change what the bot does but that no scenario can express.
	unsaid := s.IsSet("BOT_APPROVERS", "BOT_APPROVAL_TIMEOUT", "BOT_APPROVAL_REMINDER",
		"BOT_ALLOWED_TENANTS", "BOT_ALLOWED_USERS", "BOT_ALLOWED_CHANNELS",
		"BOT_MAX_TURN_TOKENS", "BOT_MAX_TURN_COST", "BOT_TURN_TIMEOUT", "BOT_USER_TURNS_PER_MINUTE", "BOT_USER_TOKENS_PER_DAY",
		"BOT_TENANT_TURNS_PER_MINUTE", "BOT_TENANT_TOKENS_PER_DAY", "BOT_COMMANDS_OFF", "BOT_MODERATION", "BOT_MEMORY")
	planner := s.Planner
	if planner == settings.Sequence {
		planner = "" // the default planner of scenarios
	}
	return Config{
		Secrets: s.Secrets(), Log: *p.Log(),
		MaxSteps: s.MaxSteps, MaxSameCalls: s.MaxSameCalls, Approval: s.ApprovalActions,
		Settings: unsaid, Same: s.IsSet("BOT_FILE", "BOT_INSTRUCTIONS_FILE", "BOT_PROMPTS_DIR", "BOT_SKILLS_DIR", "BOT_SKILLS_APPROVAL"),
		FilteredText: s.FilteredText, Planner: planner,
	}
}

type exportCmd struct {
	Turns []string `arg:"" optional:"" placeholder:"ID" help:"ids of turns; none: all dead letters"`
	Raw   bool     `help:"one JSON line per turn with everything known about it, ids and names unchanged"`
	Out   string   `short:"o" type:"path" placeholder:"FILE" help:"new file; without it standard output"`
}

func (exportCmd) Help() string {
	return "Writes scenarios that bottest run plays: what came in, what the model planned, and what had to be done. " +
		"Names, ids and secrets have stand-ins, as far as they are found. Look before you share it."
}

// Run writes the turns. The error also covers those left out.
func (c exportCmd) Run(ctx context.Context, p *app.Program) error {
	in, err := p.OpenInbox(ctx)
	if err != nil {
		return err
	}
	dead, err := turnview.FindDead(ctx, in, c.Turns)
	if err != nil {
		return fmt.Errorf("export a turn: %w", err)
	}
	if len(dead) == 0 {
		fmt.Fprintln(p.Err(), "there are no dead letters, so there is nothing to export")
	}
	data, left := c.render(dead, p.Settings().Secrets())
	if len(data) == 0 {
		return left
	}
	if c.Out == "" {
		_, err := p.Out().Write(data)
		return errors.Join(err, left)
	}
	file, err := c.create()
	if err != nil {
		return app.Usage(err)
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close(), left)
}

// create creates the file, readable only by the operator because it contains what people wrote.
func (c exportCmd) create() (*os.File, error) {
	if !c.Raw && strings.EqualFold(filepath.Ext(c.Out), ".json") {
		return nil, fmt.Errorf("--out: %s: scenarios are written as YAML, and bottest run would read this as JSON", c.Out)
	}
	return os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// exportedTurn is a complete dead letter, with JSON as JSON.
type exportedTurn struct {
	Turn   string    `json:"turn"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
	Queue  string    `json:"queue"`
	Record any       `json:"record"`
}

// render writes the turns, raw or as scenarios.
func (c exportCmd) render(dead []inbox.Waiting, secrets []string) (data []byte, left error) {
	var out bytes.Buffer
	var all []Scenario
	var faults []error
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	for _, w := range dead {
		if c.Raw {
			faults = append(faults, lines.Encode(exportedTurn{w.ID, turn.Reason(w), w.Since, w.Queue.String(), asJSON(w.Record)}))
			continue
		}
		one, err := DeadLetter(w, secrets...)
		if err != nil {
			faults = append(faults, fmt.Errorf("cannot make a test of this (--raw shows it): %w", err))
			continue
		}
		all = append(all, one)
	}
	if len(all) > 0 {
		text, err := Write(all)
		out.Write(text)
		faults = append(faults, err)
	}
	return out.Bytes(), errors.Join(faults...)
}

// asJSON returns raw as JSON, or as a text if it is not JSON.
func asJSON(raw []byte) any {
	if json.Valid(raw) {
		return json.RawMessage(raw)
	}
	return string(raw)
}
