package skills

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
)

// Files is the source of what [Discover] finds, each time anew: put a [Cache] before it.
// What is wrong is logged when it is found first, not each time. The error is that of a
// wrong cfg.
func Files(cfg Config) (Source, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	var reports reports
	return SourceFunc(func(ctx context.Context, _ *actions.Turn) ([]*Skill, error) {
		found, err := Discover(ctx, cfg)
		if err != nil {
			return nil, err
		}
		reports.log(ctx, found.Faults)
		return found.Skills, nil
	}), nil
}

// reports tells the log what is wrong, once for as long as it is.
type reports struct {
	mu   sync.Mutex
	told map[Fault]bool
}

func (r *reports) log(ctx context.Context, faults []Fault) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := make(map[Fault]bool, len(faults))
	for _, f := range faults {
		if !r.told[f] && !now[f] {
			event := zerolog.Ctx(ctx).Error()
			if f.Warning {
				event = zerolog.Ctx(ctx).Warn()
			}
			event.Str("fault", f.String()).Bool("used", f.Warning).Msg("skills have a fault")
		}
		now[f] = true
	}
	r.told = now
}

const (
	// watchEvery is how often folders are looked at, at most.
	watchEvery = time.Second
	// maxWatched files and folders are looked at.
	maxWatched = 20_000
)

// Watch is [Files] for those who write skills: it keeps what it found, and when it is asked
// it looks, at most once a second, whether something has changed, by names, sizes and times.
// A skill that becomes faulty stays as it was; one whose folder goes away goes too. Roots
// may come later. What is wrong is logged whenever it comes up. The error is that of a wrong
// cfg.
func Watch(cfg Config) (Source, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &watcher{cfg: cfg, looking: make(chan struct{}, 1)}, nil
}

type watcher struct {
	cfg  Config
	last atomic.Pointer[[]*Skill] // nil: none was looked for yet

	looking chan struct{} // holds the one who looks, who alone has what follows
	next    time.Time     // when to look again
	seen    [sha256.Size]byte
	reports reports
}

func (w *watcher) Skills(ctx context.Context, _ *actions.Turn) ([]*Skill, error) {
	last := w.last.Load()
	if last != nil {
		select {
		case w.looking <- struct{}{}:
		default: // somebody looks already
			return *last, nil
		}
	} else {
		select {
		case w.looking <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for skills: %w", ctx.Err())
		}
	}
	defer func() { <-w.looking }()
	if err := w.look(ctx); err != nil {
		return nil, err
	}
	return *w.last.Load(), nil
}

// look finds the skills anew if something has changed.
func (w *watcher) look(ctx context.Context) error {
	now := time.Now()
	if now.Before(w.next) {
		return nil
	}
	seen := fingerprint(w.cfg) // before it is read: what changes meanwhile is found later
	last := w.last.Load()
	if last == nil || seen != w.seen {
		var good []*Skill
		if last != nil {
			good = *last
		}
		found, err := discover(ctx, w.cfg, false, good)
		if err != nil {
			return err
		}
		w.last.Store(&found.Skills)
		w.reports.log(ctx, found.Faults)
		zerolog.Ctx(ctx).Info().Int("skills", len(found.Skills)).Msg("skills loaded")
	}
	w.next, w.seen = now.Add(watchEvery), seen
	return nil
}

// fingerprint tells one state of all files from another.
func fingerprint(cfg Config) [sha256.Size]byte {
	p := printer{Hash: sha256.New(), left: maxWatched, most: cfg.MaxFolders + cfg.MaxFiles}
	for _, root := range cfg.Roots {
		fmt.Fprintf(p, "%s\n", root)
		p.folder(root, cfg.Depth+cfg.SearchDepth)
	}
	return [sha256.Size]byte(p.Sum(nil))
}

type printer struct {
	hash.Hash
	left int // that may still be looked at
	most int // in one folder, as many as discovery looks at
}

// folder writes down what is in a folder and below it, so many folders deep. Links are
// followed to what they lead to, and not further: where they may be followed, that is
// below a root itself.
func (p *printer) folder(dir string, deep int) {
	list, err := p.list(dir)
	if err != nil {
		fmt.Fprintf(p, "%v\n", err)
		return
	}
	for _, entry := range list {
		if passedOver(entry.Name()) {
			continue
		}
		if p.left--; p.left < 0 {
			return
		}
		path := filepath.Join(dir, entry.Name())
		info, err := os.Stat(path)
		if err != nil {
			fmt.Fprintf(p, "%q %v\n", path, err)
			continue
		}
		fmt.Fprintf(p, "%q %v %d %d\n", path, info.Mode(), info.Size(), info.ModTime().UnixNano())
		if entry.IsDir() && deep > 0 {
			p.folder(path, deep-1)
		}
	}
}

// list reads a folder, no more of it than counts.
func (p *printer) list(dir string) ([]fs.DirEntry, error) {
	file, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe does not hold it up
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened to read only
	list, _, err := readFolder(file, min(p.most, p.left))
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}
