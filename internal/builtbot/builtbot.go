// Package builtbot builds the bot for tests of the program as a whole.
package builtbot

import (
	"context"
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
	if err := lookAtSources(b.root); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "planbot")
	if err != nil {
		return "", err
	}
	b.dir = dir
	bin := filepath.Join(dir, "bot")
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	build := exec.CommandContext(ctx, "go", "build", "-o", bin, "./cmd/bot")
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
