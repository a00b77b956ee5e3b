package page

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planbot-go/planbot/app/turnlog"
)

const (
	// keepEvery is how often the page looks whether there is something to keep or to take over.
	keepEvery = time.Second
	// keptEnd is the end of the names of the files with what was kept.
	keptEnd = ".kept.json"
	// fileEnd is that of the files that people sent: a bot may fetch one again after it was built anew.
	fileEnd = ".file.json"
	// BuildFault is the name of the file in [Config.Keep] that says why the last build of the bot failed.
	BuildFault = "build.txt"
	// maxBuildFault is how many bytes of that are shown.
	maxBuildFault = 8 << 10
)

// keeper leaves the chat and the turns in a folder, and takes over what other processes have left there:
// bot dev starts a new process for each build. The last one may still write while the new one starts.
type keeper struct {
	page *Page
	file string // of this process
	stop context.CancelFunc
	over sync.WaitGroup

	mu    sync.Mutex
	taken map[string]time.Time // files of others: when what was taken from them was written
	wrote uint64               // the last event that is written
	build string               // why the last build failed
}

// handover is what a process leaves to the next.
type handover struct {
	Version int              `json:"version"`
	Ended   bool             `json:"ended"` // no more comes
	LastID  int64            `json:"lastId"`
	People  []person         `json:"people"`
	Rooms   []keptRoom       `json:"rooms"`
	Turns   []turnlog.Record `json:"turns"`
}

type keptRoom struct {
	room
	Messages []*message `json:"messages"`
}

// open takes over what is in the folder, and then looks at it again and again until close.
func (k *keeper) open() {
	if k.page.cfg.Keep == "" {
		return
	}
	k.file = filepath.Join(k.page.cfg.Keep, strings.ToLower(rand.Text())+keptEnd)
	k.look()
	ctx, stop := context.WithCancel(context.Background()) // ends with close
	k.stop = stop
	k.over.Go(func() {
		tick := time.NewTicker(keepEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				k.look()
				k.write(false)
			}
		}
	})
}

func (k *keeper) close() {
	if k.stop != nil {
		k.stop()
		k.over.Wait()
		k.write(true)
	}
}

// look takes over what others have written since it last looked, and the fault of the build.
func (k *keeper) look() {
	k.mu.Lock()
	defer k.mu.Unlock()
	fault, err := os.ReadFile(filepath.Join(k.page.cfg.Keep, BuildFault))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		fault = []byte(err.Error())
	}
	if text := string(fault[:min(len(fault), maxBuildFault)]); text != k.build {
		k.build = text
		k.page.hub.tell(event{Room: alarm})
	}
	files, _ := filepath.Glob(filepath.Join(k.page.cfg.Keep, "*"+keptEnd)) // the pattern is right
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || file == k.file || !info.ModTime().After(k.taken[file]) {
			continue
		}
		k.taken[file] = info.ModTime()
		if err := k.take(file); err != nil {
			k.page.cfg.Log.Warn().Err(err).Msg("the page could not take over what the bot before had kept")
		}
	}
}

func (k *keeper) take(file string) error {
	raw, err := os.ReadFile(file) //nolint:gosec // in the folder of bot dev
	if err != nil {
		return err
	}
	var from handover
	if err := json.Unmarshal(raw, &from); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	if from.Version != turnlog.Version {
		return fmt.Errorf("%s has version %d, this program knows %d", file, from.Version, turnlog.Version)
	}
	k.page.turns.Restore(from.Turns)
	k.page.chat.restore(from)
	if !from.Ended {
		return nil
	}
	k.wrote = 0 // what was there is from now on in the file of this process
	defer func() { delete(k.taken, file) }()
	return errors.Join(k.writeLocked(false), os.Remove(file))
}

// write writes what has changed. ended: it is the last time.
func (k *keeper) write(ended bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.writeLocked(ended); err != nil {
		k.page.cfg.Log.Warn().Err(err).Msg("the page could not keep the chat and the turns for the next bot")
	}
}

func (k *keeper) writeLocked(ended bool) error {
	_, _, last, _ := k.page.hub.since(0)
	if last == k.wrote && !ended {
		return nil
	}
	all := handover{Version: turnlog.Version, Ended: ended}
	for _, h := range slices.Backward(k.page.turns.Turns()) {
		if r, ok := k.page.turns.Turn(h.ID); ok {
			all.Turns = append(all.Turns, r)
		}
	}
	raw, err := k.page.chat.kept(&all)
	if err != nil {
		return err
	}
	if err := os.WriteFile(k.file+".new", raw, 0o600); err != nil {
		return err
	}
	k.wrote = last
	return os.Rename(k.file+".new", k.file)
}

// buildFault is why the last build failed; "": it did not.
func (k *keeper) buildFault() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.build
}

// keepFile keeps a file for the next process, and the last ones of them only. If it cannot, the file ends
// with this process.
func (c *chat) keepFile(f *sharedFile) {
	raw, err := json.Marshal(f)
	if c.keep == "" || err != nil || os.WriteFile(filepath.Join(c.keep, f.ID+fileEnd), raw, 0o600) != nil {
		return
	}
	names, _ := filepath.Glob(filepath.Join(c.keep, "*"+fileEnd)) // the pattern is right
	at := map[string]time.Time{}
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			at[name] = info.ModTime()
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return at[b].Compare(at[a]) })
	for _, name := range names[min(maxFiles, len(names)):] {
		_ = os.Remove(name) // the next file tries again
	}
}

// keptFile is a file that was sent to an earlier process; nil: there is none.
func (c *chat) keptFile(id string) *sharedFile {
	if c.keep == "" || strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" { // see rand.Text
		return nil
	}
	raw, err := os.ReadFile(filepath.Join(c.keep, id+fileEnd))
	f := &sharedFile{}
	if err != nil || json.Unmarshal(raw, f) != nil {
		return nil
	}
	return f
}

// kept adds the chat to what is kept, and encodes it.
func (c *chat) kept(all *handover) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all.People, all.LastID = c.people, c.lastID
	for _, r := range c.rooms {
		all.Rooms = append(all.Rooms, keptRoom{*r, r.messages})
	}
	return json.Marshal(all)
}

// restore adds what another process has kept of the chat.
func (c *chat) restore(from handover) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID = max(c.lastID, from.LastID)
	for _, p := range from.People {
		if !slices.ContainsFunc(c.people, func(other person) bool { return other.Key == p.Key }) {
			c.people = append(c.people, p)
		}
	}
	for _, other := range from.Rooms {
		r := c.room(other.Key)
		if r == nil {
			r = &room{Key: other.Key, Name: other.Name, Kind: other.Kind, ID: other.ID}
			c.rooms = append(c.rooms, r)
		}
		r.Added = r.Added || other.Added
		if len(other.People) > len(r.People) {
			r.People = other.People
		}
		for _, m := range other.Messages {
			m.earlier = true
			at := slices.IndexFunc(r.messages, func(known *message) bool { return known.ID == m.ID })
			switch {
			case at < 0:
				r.messages = append(r.messages, m)
			case r.messages[at].earlier:
				r.messages[at] = m
			}
		}
		slices.SortStableFunc(r.messages, func(a, b *message) int { return a.At.Compare(b.At) })
		r.messages = r.messages[max(len(r.messages)-maxMessages, 0):]
		c.changed(r.Key)
	}
}
