// Package sandbox runs the scripts of skills where they can do little harm: with a
// private scratch folder, a copy of the skill that nothing can write, no network, no
// environment of the program's, no rights, and limits on time, memory, processes and
// disk. Two mechanisms do it: bubblewrap, which gives a script namespaces of its own, and
// where that is not to be had Landlock, seccomp and resource limits, which the program
// puts on a copy of itself that then becomes the script. Neither is trusted unseen: [New]
// sends a canary, and where nothing holds it back no script runs.
//
// The copies are told what they are by their first arguments, which the package looks at
// when a program that imports it starts, before main.
package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// ErrNoSandbox says that scripts cannot run on this machine; the text of the error
// around it says why each kind of sandbox does not work.
var ErrNoSandbox = errors.New("no sandbox for scripts")

// Kind is a mechanism that holds scripts.
type Kind string

// The kinds, the better one first. Under Landlock scripts see which files exist, and
// cannot change modes, times, owners and attributes: of modes and times they are told that
// they did, as programs that copy files give up otherwise.
const (
	Bubblewrap Kind = "bubblewrap" // the program bwrap: namespaces
	Landlock   Kind = "landlock"   // Landlock (Linux 6.12 or later), seccomp and resource limits
)

// Config says how scripts run. The zero value works.
type Config struct {
	Kinds        []Kind              // what may be used, best first; nil: Bubblewrap, Landlock
	Bubblewrap   string              // absolute path of bwrap; "": found on PATH
	Interpreters map[string][]string // the command for each extension, beginning with an absolute path; nil: [Interpreters]
	ReadOnly     []string            // more files and folders of the machine that scripts may read, without sockets in them; absolute
	Limits       Limits              // for each run that does not say otherwise
	Concurrent   int                 // scripts at work at the same time; 0: 4
	UID          int                 // who scripts run as when this program is root, with a group of the same number; 0: 65534
	TempDir      string              // where copies of skills lie during a run, absolute; "": [os.TempDir]
	SkillBytes   int64               // the largest skill folder whose scripts run; 0: 64 MiB
	SkillFiles   int                 // and the most files and folders in it; 0: 2000
}

// Sandbox runs scripts. Its methods may be called concurrently.
type Sandbox struct {
	cfg     Config
	slots   chan struct{}
	backend backend
	refused []error
}

// backend is a mechanism that holds scripts.
type backend interface {
	kind() Kind
	// prepare makes j ready to be started. What it opens for that, j closes.
	prepare(j *job) error
}

// New looks for a sandbox that works here: each kind in turn runs a copy of this program
// that tries to get out. It also removes what killed programs left in TempDir. The error lists every mistake in cfg, or wraps [ErrNoSandbox].
func New(ctx context.Context, cfg Config) (*Sandbox, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("sandbox config: %w", err)
	}
	cfg = cfg.complete()
	cfg.sweep()
	s := &Sandbox{cfg: cfg, slots: make(chan struct{}, cfg.Concurrent)}
	for _, kind := range cfg.Kinds {
		err := s.try(ctx, kind)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("look for a sandbox: %w", context.Cause(ctx))
		}
		s.refused = append(s.refused, fmt.Errorf("%s: %w", kind, err))
	}
	return nil, fmt.Errorf("%w: %w", ErrNoSandbox, errors.Join(s.refused...))
}

// Kind is the mechanism in use.
func (s *Sandbox) Kind() Kind { return s.backend.kind() }

// Limits are those of runs that have none of their own.
func (s *Sandbox) Limits() Limits { return s.cfg.Limits }

// Interpreters are those that scripts may have, by their extensions.
func (s *Sandbox) Interpreters() map[string][]string { return maps.Clone(s.cfg.Interpreters) }

// Refused says why the kinds that were tried before the one in use do not work here.
func (s *Sandbox) Refused() []error { return slices.Clone(s.refused) }

// try takes the kind into use if it holds the canary.
func (s *Sandbox) try(ctx context.Context, kind Kind) (err error) {
	if s.backend, err = newBackend(kind, s.cfg); err != nil {
		return err
	}
	return s.sendCanary(ctx)
}

// enter waits for a free place.
func (s *Sandbox) enter(ctx context.Context) (leave func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other scripts: %w", context.Cause(ctx))
	}
}

func (c Config) check() error {
	var errs []error
	for _, kind := range c.Kinds {
		if kind != Bubblewrap && kind != Landlock {
			errs = append(errs, fmt.Errorf("Kinds: %q is none", kind))
		}
	}
	for _, path := range slices.Concat([]string{cmp.Or(c.Bubblewrap, "/"), cmp.Or(c.TempDir, "/")}, c.ReadOnly) {
		if !filepath.IsAbs(path) {
			errs = append(errs, fmt.Errorf("%q is not an absolute path", path))
		}
	}
	errs = append(errs, checkInterpreters(c.Interpreters), c.Limits.check())
	if c.Concurrent < 0 || c.UID < 0 || c.SkillBytes < 0 || c.SkillFiles < 0 {
		errs = append(errs, errors.New("Concurrent, UID, SkillBytes or SkillFiles is negative"))
	}
	return errors.Join(errs...)
}

func (c Config) complete() Config {
	if c.Kinds == nil {
		c.Kinds = []Kind{Bubblewrap, Landlock}
	}
	if c.Interpreters == nil {
		c.Interpreters = Interpreters()
	}
	c.Limits = c.Limits.or(defaults)
	c.Concurrent = cmp.Or(c.Concurrent, 4)
	c.UID = cmp.Or(c.UID, 65534)
	c.TempDir = cmp.Or(c.TempDir, os.TempDir())
	c.SkillBytes = cmp.Or(c.SkillBytes, 64<<20)
	c.SkillFiles = cmp.Or(c.SkillFiles, 2000)
	return c
}
