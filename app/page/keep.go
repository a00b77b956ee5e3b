package page

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1" // which keeps fields that nobody knows, see [activity.Activity]
	"github.com/planbot-go/planbot/app/internal/turnlog"
)

const (
	keepEvery = time.Second  // how often the page looks whether there is something to keep or to take over
	keptEnd   = ".kept.json" // the end of the names of the files with what was kept
	// fileEnd is that of the files that people sent: a bot may fetch one again after it was built anew.
	fileEnd = ".file.json"
	// BuildFault is the name of the file in [config].Keep that says why the last build of the bot failed.
	BuildFault = "build.txt"
	// ExitCrashed is the exit code of a bot that crashes because somebody set that on its page.
	ExitCrashed   = 86
	maxBuildFault = 8 << 10 // how many bytes of that are shown
)

// keeper leaves the chat and the turns in a folder, and takes over what other processes have left there:
// bot dev starts a new process for each build. The last one may still write while the new one starts.
type keeper struct {
	page *server
	file string // of this process
	stop func() // nil: nothing is kept

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

// tokenOf is the token of the pages that keep what they have in a folder: a form that somebody fills in while the bot is
// built anew can still be sent. "": a random one.
func tokenOf(folder string) string {
	token, name := rand.Text(), filepath.Join(folder, "token")
	if folder == "" {
		return token
	}
	if had, err := os.ReadFile(name); err == nil && len(had) == len(token) { //nolint:gosec // ours
		return string(had)
	}
	_ = os.WriteFile(name, []byte(token), 0o600) // without it, only such a form is refused
	return token
}

// open takes over what is in the folder, and then looks at it again and again until close.
func (k *keeper) open() {
	if k.page.cfg.Keep == "" {
		return
	}
	k.file = filepath.Join(k.page.cfg.Keep, strings.ToLower(rand.Text())+keptEnd)
	k.look()
	k.stop = every(keepEvery, func(time.Time) {
		k.look()
		k.write(false)
	})
}

func (k *keeper) close() {
	if k.stop != nil {
		k.stop()
		k.leave()
	}
}

// leave writes for the last time.
func (k *keeper) leave() {
	if k.stop != nil {
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
