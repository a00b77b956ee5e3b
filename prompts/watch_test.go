package prompts_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/prompts"
)

// TestWatch runs in a bubble, where a second passes at once.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"poem/prompt.txt": "one"})
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		library, err := prompts.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		library.Watch()
		var log bytes.Buffer
		ctx := zerolog.New(&log).WithContext(t.Context())
		expect := func(want string, lines int) {
			t.Helper()
			library.Reload(ctx)
			if got := rendered(t, library, "poem"); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if got := strings.Count(log.String(), "\n"); got != lines {
				t.Errorf("%d lines, want %d: %s", got, lines, &log)
			}
		}
		write("poem/prompt.txt", "two two")
		expect("one", 0) // it was looked at a moment ago
		time.Sleep(time.Second)
		expect("two two", 1)
		before, _ := library.Prompt("poem")
		time.Sleep(time.Second)
		expect("two two", 1)
		if after, _ := library.Prompt("poem"); after != before {
			t.Error("loaded anew without a change")
		}
		write("poem/prompt.txt", "{{oops")
		for range 3 {
			time.Sleep(time.Second)
			expect("two two", 2) // said once
		}
		if !strings.Contains(log.String(), "poem/prompt.txt:1:1") {
			t.Errorf("no fault in %s", &log)
		}
		write("poem/config.json", "{}")
		write("poem/prompt.txt", "three")
		time.Sleep(time.Second)
		expect("three", 3)
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		expect("three", 4)
	})
}

func TestLoadIsNotReloaded(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"poem/prompt.txt": "one"})
	library, err := prompts.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	library.Reload(t.Context())
	if got := rendered(t, library, "poem"); got != "one" {
		t.Errorf("got %q", got)
	}
	if _, err := prompts.Load(dir); err == nil {
		t.Error("loaded a folder that is not there")
	}
}
