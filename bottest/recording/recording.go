// Package recording writes down what a bot lives through, for tests: the conversations as
// scenarios that bot test plays, and what its model was asked and answered as cassettes.
// People, places and secrets have stand-ins in them.
package recording

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/bottest/cassette"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/internal/scrub"
)

// Config says where to write. Dir is required; the zero value of every other field is a
// working default.
type Config struct {
	// Dir gets the files, each for the eyes of its owner only. It is made if there is none;
	// files of an earlier recording in it are no longer written to.
	Dir string
	// Secrets are taken out wherever they are found, beside what looks like one.
	Secrets []string
	// Options are those of the bot, as far as scenarios have them.
	Options scenario.Options
	// MaxBytes bounds what is kept in all, and MaxEach of one conversation; what comes
	// after that is not recorded. 0: 64 MiB, 2 MiB.
	MaxBytes, MaxEach int
	// Log is told once of what cannot be written, or is left out.
	Log zerolog.Logger
}

// Recorder sees what a bot does through the parts that it wraps, and writes it down beside
// the bot: whatever goes wrong with that, the bot does not notice. It sees one process: a
// turn that another one has begun is in the cassette only.
type Recorder struct {
	cfg    Config
	scrub  *scrub.Scrubber
	prefix string // of the files

	mu      sync.Mutex
	all     map[string]*conversation // by id, without threads
	bytes   int
	told    bool // that something is left out
	changed chan struct{}

	stop  context.CancelFunc
	ended sync.WaitGroup
}

const (
	// pause is how long the writer waits for more before it writes, at least.
	pause = 500 * time.Millisecond
	// restraint is how many times as long as it wrote the writer waits.
	restraint = 10
)

// New makes the folder and begins to write. Close ends it.
func New(cfg Config) (*Recorder, error) {
	if cfg.Dir == "" {
		return nil, errors.New("recording: no Dir")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	cfg.MaxBytes, cfg.MaxEach = cmp.Or(cfg.MaxBytes, 64<<20), cmp.Or(cfg.MaxEach, 2<<20)
	r := &Recorder{
		cfg: cfg, scrub: scrub.New(cfg.Secrets...), prefix: time.Now().UTC().Format("20060102-150405-"),
		all: map[string]*conversation{}, changed: make(chan struct{}, 1),
	}
	probe := filepath.Join(cfg.Dir, r.prefix+"probe")
	if err := errors.Join(os.WriteFile(probe, nil, 0o600), os.Remove(probe)); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background()) // ends with Close
	r.stop = stop
	r.ended.Go(func() { r.write(ctx) })
	return r, nil
}

// Close writes what is left.
func (r *Recorder) Close() {
	r.stop()
	r.ended.Wait()
	r.flush()
}

// write writes what has changed until ctx ends.
func (r *Recorder) write(ctx context.Context) {
	for took := time.Duration(0); ; {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		}
		timer := time.NewTimer(max(pause, restraint*took))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		began := time.Now()
		r.flush()
		took = time.Since(began)
	}
}

// flush writes the files of the conversations that have changed.
func (r *Recorder) flush() {
	for id, files := range r.render() {
		for ending, data := range files {
			name := filepath.Join(r.cfg.Dir, r.prefix+id+ending)
			if err := replace(name, data); err != nil {
				r.complain(err)
			}
		}
	}
}

// render makes the files of what has changed, by the stand-in of the conversation. Turns
// do not wait for it.
func (r *Recorder) render() map[string]map[string][]byte {
	out := map[string]map[string][]byte{}
	for id, c := range r.changes() {
		name := cmp.Or(r.scrub.ID(scrub.Conversation, id), "elsewhere")
		files, err := r.files(name, c)
		if err != nil {
			r.complain(err)
			continue
		}
		out[name] = files
	}
	return out
}

// changes are the conversations that have changed, as they are now.
func (r *Recorder) changes() map[string]*conversation {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]*conversation{}
	for id, c := range r.all {
		if c.dirty {
			c.dirty = false
			out[id] = c.clone()
		}
	}
	return out
}

// head is the first line of each file.
const head = "# What people said is in here. Names, ids and secrets have stand-ins, as far as they were found: look before you share it.\n"

// files are those of a conversation. What is learned at the end of it, such as a password
// that is named there, holds for its beginning.
func (r *Recorder) files(name string, c *conversation) (out map[string][]byte, err error) {
	for version := -1; version != r.scrub.Version() && err == nil; {
		version = r.scrub.Version()
		out, err = r.filesNow(name, c)
	}
	return out, err
}

// filesNow are the files with the stand-ins that are known by now.
func (r *Recorder) filesNow(name string, c *conversation) (map[string][]byte, error) {
	out := map[string][]byte{}
	if len(c.steps) > 0 {
		raw, err := scenario.Write([]scenario.Scenario{c.scenario(name, r.cfg.Options, r.scrub)})
		if err != nil {
			return nil, err
		}
		out[".scenario.yaml"] = append([]byte(head), raw...)
	}
	if len(c.calls) > 0 {
		raw, err := cassette.Write(c.scrubbed.of(c.calls, r.scrub))
		if err != nil {
			return nil, err
		}
		out[".cassette.yaml"] = append([]byte(head), raw...)
	}
	return out, nil
}

// scrubbedCalls are calls with stand-ins: those that have them are not looked at again, as long
// as these stay the same. Only the writer uses it.
type scrubbedCalls struct {
	version int
	calls   []cassette.Call
}

func (s *scrubbedCalls) of(calls []cassette.Call, by *scrub.Scrubber) []cassette.Call {
	if version := by.Version(); version != s.version {
		s.version, s.calls = version, nil
	}
	s.calls = append(s.calls, cassette.Scrubbed(calls[len(s.calls):], by)...)
	return s.calls
}

// replace writes a file whole, or not at all.
func replace(name string, data []byte) error {
	const part = ".part"
	if err := os.WriteFile(name+part, data, 0o600); err != nil {
		return errors.Join(err, remove(name+part))
	}
	return os.Rename(name+part, name)
}

func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (r *Recorder) complain(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell(err)
}

// tell logs the first thing that is left out. r.mu is held.
func (r *Recorder) tell(err error) {
	if !r.told {
		r.cfg.Log.Error().Err(err).Msg("the recording is not whole; the bot goes on")
	}
	r.told = true
}

var errFull = errors.New("the recording has as many bytes as it may have")

// change changes what is kept of a conversation, which then has size more bytes. What panics
// in it is left out: the bot's turn goes on.
func (r *Recorder) change(id string, size int, change func(*conversation)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			r.tell(fmt.Errorf("panic: %v", p))
		}
	}()
	const each = 256 // beside its texts
	size += each
	c := r.all[id]
	if r.bytes+size > r.cfg.MaxBytes || c != nil && (c.full || c.bytes+size > r.cfg.MaxEach) {
		if c != nil {
			c.full = true // what comes after a gap makes no sense
		}
		r.tell(errFull)
		return
	}
	if c == nil {
		c = &conversation{turns: map[string]*step{}, scrubbed: &scrubbedCalls{}}
		r.all[id] = c
	}
	r.bytes += size
	c.bytes += size
	change(c)
	c.dirty = true
	select {
	case r.changed <- struct{}{}:
	default:
	}
}
