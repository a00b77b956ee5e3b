package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The tests are in package main: a program has no outside.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// measured runs the program and returns the lines that it wrote, and its status.
func measured(t *testing.T, args ...string) (cells []cell, stdout string, status int) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out := t.TempDir()
	var printed, notes strings.Builder
	status = run(ctx, append([]string{"-pin=false", "-idle", "200ms", "-warmup", "100ms", "-duration", "1s", "-out", out}, args...), &printed, &notes)
	t.Log(notes.String())
	raw, err := os.ReadFile(filepath.Join(out, "turns.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var c cell
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		cells = append(cells, c)
	}
	return cells, printed.String(), status
}

func TestTheBotsOfThisModuleAreMeasured(t *testing.T) {
	t.Parallel()
	cells, table, status := measured(t, "-conversations", "2,4", "-latency", "1ms", "-cold", "1", "-burst", "2", "-cpuprofile")
	if status != 0 || len(cells) != 4 {
		t.Fatalf("status %d, cells %+v", status, cells)
	}
	for _, c := range cells {
		if c.Turns == 0 || c.P50MS < 1 || c.P99MS < c.P50MS || c.AckP50MS <= 0 {
			t.Errorf("times of %+v", c)
		}
		if c.CPUMS <= 0 || c.PeakRSSMiB < 1 || c.RedisCPUMS <= 0 {
			t.Errorf("usage of %+v", c)
		}
		if c.Commands < 1.5 || c.RoundTrips <= 0 || c.ModelCalls < 0.8 || c.ModelCalls > 1.2 || c.BytesPerCall < 1000 {
			t.Errorf("work of %+v", c)
		}
	}
	if strings.Count(table, "| planbot |") != 3 || strings.Count(table, "| floor |") != 3 {
		t.Errorf("%s", table)
	}
}

// A rolling restart shows the channel nothing that one retry does not cure, and no
// message gets lost, doubled or out of order in it.
func TestARollingRestartIsMeasured(t *testing.T) {
	t.Parallel()
	cells, _, status := measured(t, "-only", "planbot", "-conversations", "8", "-latency", "20ms", "-cold", "0", "-burst", "2", "-replicas", "2", "-restart")
	if status != 0 || len(cells) != 1 {
		t.Fatalf("status %d, cells %+v", status, cells)
	}
	if c := cells[0]; c.Replicas != 2 || c.Retried == 0 {
		t.Errorf("nobody noticed the restart: %+v", c)
	}
}
