// Package recording writes down what a bot lives through, for tests: the conversations as
// scenarios that bottest run plays, and what its model was asked and answered as cassettes.
// People, places and secrets have stand-ins in them.
package recording

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bottest/scenario"
	"github.com/planbot-go/planbot/internal/scrub"
)

// Config says where to write. Dir is required; the zero value of every other field is a
// working default.
type Config struct {
	// Dir gets the files, each for the eyes of its owner only. It is made if there is none.
	// Several recorders may share it: none writes to a file that it did not make.
	Dir string
	// Secrets are taken out wherever they are found, beside what looks like one.
	Secrets []string
	// Options are those of the bot, as far as scenarios have them, and Settings are the names
	// of others that change what the bot does. FilteredText is what it says when a content
	// filter stops a turn, if that is not the default.
	Options      scenario.Options
	Settings     []string
	FilteredText string
	// Same are the names of settings with which the scenarios have to be played as well.
	Same []string
	// Planner is the bot's, by its name, unless it is sequence, as which scenarios play.
	Planner string
	// MaxBytes bounds what is kept in all, and MaxEach of one conversation; what comes
	// after that is not recorded. 0: 64 MiB, 2 MiB.
	MaxBytes, MaxEach int
	// Log is told once of what cannot be written, and of each conversation that has reached
	// its limit.
	Log zerolog.Logger
}

// Recorder sees what a bot does through the parts that it wraps, and writes it down beside
// the bot: whatever goes wrong with that, the bot does not notice. It sees one process: of a
// turn that another one does nothing is expected.
type Recorder struct {
	cfg    Config
	scrub  *scrub.Scrubber
	prefix string          // of the files
	own    map[string]bool // files that it made; only the writer uses it

	mu      sync.Mutex
	all     map[string]*conversation // by id, without threads
	met     []met                    // of whom the scrubber does not know yet
	bytes   int
	told    map[string]bool // what is left out
	changed chan struct{}

	stop  context.CancelFunc
	ended sync.WaitGroup
}

const (
	// pause is how long the writer waits for more before it writes, at least.
	pause = 500 * time.Millisecond
	// restraint is how many times as long as it wrote the writer waits.
	restraint = 10
	// closeWithin is how long Close may write.
	closeWithin = 5 * time.Second
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
		cfg: cfg, scrub: scrub.New(cfg.Secrets...), own: map[string]bool{},
		prefix: time.Now().UTC().Format("20060102-150405-") + strings.ToLower(rand.Text()[:6]) + "-", // no two replicas have the same
		all:    map[string]*conversation{}, told: map[string]bool{}, changed: make(chan struct{}, 1),
	}
	const probe = "probe"
	if err := errors.Join(r.replace(r.prefix+probe, nil), os.Remove(filepath.Join(cfg.Dir, r.prefix+probe))); err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background()) // ends with Close
	r.stop = stop
	r.ended.Go(func() { r.write(ctx) })
	return r, nil
}

// Close writes what is left, as far as that takes no more than some seconds.
func (r *Recorder) Close() {
	r.stop()
	r.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	if left := r.flush(ctx); left > 0 {
		r.complain("end", fmt.Errorf("what was said last in %d conversations was not written down in time", left))
	}
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
		r.flush(ctx)
		took = time.Since(began)
	}
}

// complain logs the first of each kind of what is left out.
func (r *Recorder) complain(kind string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell(kind, err)
}

// tell is complain when r.mu is held.
func (r *Recorder) tell(kind string, err error) {
	if !r.told[kind] {
		r.cfg.Log.Error().Err(err).Msg("the recording is not whole; the bot goes on")
	}
	r.told[kind] = true
}

// maxMet bounds those of whom the scrubber does not know yet.
const maxMet = 100_000

// meet has who the activity is of known when something is written: turns do not wait for
// the scrubber.
func (r *Recorder) meet(a *activity.Activity) {
	all := metIn(a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.met) < maxMet {
		r.met = append(r.met, all...)
	}
}

// change changes what is kept of a conversation, which then has size more bytes. What panics
// in it is left out: the bot's turn goes on.
func (r *Recorder) change(id string, size int, change func(*conversation)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if p := recover(); p != nil {
			r.tell("panic", fmt.Errorf("panic: %v", p))
		}
	}()
	const each = 256 // beside its texts
	size += each
	c := r.all[id]
	if all := r.bytes+size > r.cfg.MaxBytes; all || c != nil && (c.full || c.bytes+size > r.cfg.MaxEach) {
		if all {
			r.tell("limit", fmt.Errorf("all conversations together have reached their limit of %d bytes: no more is written down", r.cfg.MaxBytes))
		}
		if c != nil && !c.full {
			c.full, c.tooLong, c.dirty = true, !all, true // what comes after a gap makes no sense
		}
		return
	}
	if c == nil {
		c = &conversation{turns: map[string]*step{}, heard: map[string][]string{}, scrubbed: &scrubbedCalls{}}
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
