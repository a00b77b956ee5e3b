// Package builtbot builds the bot for tests of the program as a whole: once for all of them, since
// the go command keeps what it built as long as no source changes.
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

const buildTimeout = 10 * time.Minute

// Bot is the program of cmd/bot. It may be used concurrently.
type Bot struct {
	path func() (string, error)
}

// New returns the bot of the module whose root is there, seen from the test's folder.
func New(root string) *Bot {
	return &Bot{sync.OnceValues(func() (string, error) {
		if bin := os.Getenv("BOT_BIN"); bin != "" {
			return filepath.Abs(bin)
		}
		return Build(root, "bot")
	})}
}

// Changed is New of a bot in whose file, seen from root, the text old is another one. BOT_BIN does
// not count.
func Changed(root, file, old, other string) *Bot {
	return replaced(root, file, func(text string) (string, error) {
		if strings.Count(text, old) != 1 {
			return "", fmt.Errorf("%s does not have %q once", file, old)
		}
		return strings.Replace(text, old, other, 1), nil
	})
}

// Other is New of a bot with that main file, seen from the test's folder. BOT_BIN does not count.
func Other(root, main string) *Bot {
	return replaced(root, "cmd/bot/main.go", func(string) (string, error) {
		text, err := os.ReadFile(main)
		return string(text), err
	})
}

// replaced is New of a bot with another text in a file.
func replaced(root, file string, change func(text string) (string, error)) *Bot {
	return &Bot{sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "planbot")
		if err != nil {
			return "", err
		}
		defer func() { _ = os.RemoveAll(dir) }() // in the temporary folder, which the system empties
		name, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			return "", err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		other, err := change(string(text))
		if err != nil {
			return "", err
		}
		changed, overlay := filepath.Join(dir, "changed"), filepath.Join(dir, "overlay.json")
		replace, err := json.Marshal(map[string]any{"Replace": map[string]string{name: changed}})
		err = errors.Join(err, os.WriteFile(changed, []byte(other), 0o600), os.WriteFile(overlay, replace, 0o600))
		if err != nil {
			return "", err
		}
		return Build(root, "bot", "-overlay="+overlay)
	})}
}

// Path is where the program is: the one in BOT_BIN, else one that is built now, once.
func (b *Bot) Path() (string, error) { return b.path() }

// Build builds a tool of the module's go.mod, with more flags of the go command, and returns where it
// is: in the cache of builds, which other tests and later runs share.
func Build(root, tool string, flags ...string) (string, error) {
	if err := lookAtSources(root); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	build := exec.CommandContext(ctx, "go", append(append([]string{"tool", "-n"}, flags...), tool)...)
	build.Dir = root
	path, err := build.Output()
	if err != nil {
		var ended *exec.ExitError
		if errors.As(err, &ended) {
			err = fmt.Errorf("%w\n%s", err, ended.Stderr)
		}
		return "", fmt.Errorf("build %s: %w", tool, err)
	}
	return strings.TrimSpace(string(path)), nil
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
