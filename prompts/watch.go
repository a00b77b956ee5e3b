package prompts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// watchEvery is how often a folder is looked at, at most.
const watchEvery = time.Second

// watched is the folder of a library that is loaded anew when it changes.
type watched struct {
	dir string

	mu   sync.Mutex
	next time.Time // when to look again
	seen string    // the files as they were looked at last
}

// Watch is [Load] for those who write prompts: [Library.Reload] finds what has
// changed in dir since.
func Watch(dir string) (*Library, error) {
	seen := fingerprint(dir) // before it is read: what changes meanwhile is found later
	l, err := Load(dir)
	if err != nil {
		return nil, err
	}
	l.watched = &watched{dir: dir, seen: seen, next: time.Now().Add(watchEvery)}
	return l, nil
}

// Reload loads the folder of [Watch] anew if a file of it has changed. It looks at
// most once a second, by names, sizes and times. What does not load is logged
// once, and the last good prompts stay. Call it before each turn: for a library of
// [Load] it does nothing.
func (l *Library) Reload(ctx context.Context) {
	w := l.watched
	if w == nil || !w.mu.TryLock() {
		return
	}
	defer w.mu.Unlock()
	now := time.Now()
	if now.Before(w.next) {
		return
	}
	w.next = now.Add(watchEvery)
	seen := fingerprint(w.dir)
	if seen == w.seen {
		return
	}
	w.seen = seen
	fresh, err := Load(w.dir)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("prompts have changed and cannot be used, the last good ones stay")
		return
	}
	l.prompts.Store(fresh.prompts.Load())
	zerolog.Ctx(ctx).Info().Str("dir", w.dir).Msg("prompts loaded anew")
}

// fingerprint tells one state of the files of all prompts from another.
func fingerprint(dir string) string {
	var out strings.Builder
	for _, folder := range entriesOf(dir) {
		fmt.Fprintf(&out, "%s\n", folder)
		for _, file := range entriesOf(filepath.Join(dir, folder)) {
			info, err := os.Stat(filepath.Join(dir, folder, file)) // follows a link
			if err != nil {
				fmt.Fprintf(&out, " %s %v\n", file, err)
				continue
			}
			fmt.Fprintf(&out, " %s %d %d\n", file, info.Size(), info.ModTime().UnixNano())
		}
	}
	return out.String()
}

// entriesOf are the names in a folder that may mean something.
func entriesOf(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, entry := range entries {
		if !passedOver(entry.Name()) && len(names) <= maxPrompts {
			names = append(names, entry.Name())
		}
	}
	return names
}
