// Package builtbot builds the bot for tests of the program as a whole.
package builtbot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const buildTimeout = 5 * time.Minute

// Bot is the program of cmd/bot. It may be used concurrently.
type Bot struct {
	root string
	dir  string // of a program that was built here
	path func() (string, error)
}

// New returns the bot of the module whose root is there, seen from the test's folder. Who
// calls it calls Remove in the end.
func New(root string) *Bot {
	b := &Bot{root: root}
	b.path = sync.OnceValues(b.find)
	return b
}

// Changed is New of a bot in whose file, seen from root, the text old is another one. BOT_BIN does
// not count.
func Changed(root, file, old, other string) *Bot {
	b := &Bot{root: root}
	b.path = sync.OnceValues(func() (string, error) {
		return b.build(func(dir string) (flags []string, err error) {
			name, err := filepath.Abs(filepath.Join(root, file))
			if err != nil {
				return nil, err
			}
			text, err := os.ReadFile(name)
			if err == nil && strings.Count(string(text), old) != 1 {
				err = fmt.Errorf("%s does not have %q once", file, old)
			}
			if err != nil {
				return nil, err
			}
			changed, overlay := filepath.Join(dir, "changed"), filepath.Join(dir, "overlay.json")
			replace, err := json.Marshal(map[string]any{"Replace": map[string]string{name: changed}})
			return []string{"-overlay", overlay}, errors.Join(err,
				os.WriteFile(changed, []byte(strings.Replace(string(text), old, other, 1)), 0o600), os.WriteFile(overlay, replace, 0o600))
		})
	})
	return b
}

// Path is where the program is: the one in BOT_BIN, else one that is built now, once.
func (b *Bot) Path() (string, error) { return b.path() }

// Remove deletes what was built, as far as nobody is busy with it.
func (b *Bot) Remove() {
	if b.dir != "" {
		_ = os.RemoveAll(b.dir) // in the temporary folder, which the system empties
	}
}

func (b *Bot) find() (string, error) {
	if bin := os.Getenv("BOT_BIN"); bin != "" {
		return filepath.Abs(bin)
	}
	return b.build(func(string) ([]string, error) { return nil, nil })
}

// build builds the bot in a folder of its own, where flags may put files first.
func (b *Bot) build(flags func(dir string) ([]string, error)) (string, error) {
	if err := lookAtSources(b.root); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "planbot")
	if err != nil {
		return "", err
	}
	b.dir = dir
	more, err := flags(dir)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "bot")
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	build := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", bin}, more...), "./cmd/bot")...)
	build.Dir = b.root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the bot: %w\n%s", err, out)
	}
	return bin, nil
}

// lookAtSources reads the module's folders, so that the go command knows that results of
// these tests are worth nothing once one of its files has changed.
func lookAtSources(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if name := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "e2e") {
			return fs.SkipDir
		}
		return err
	})
}
