package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// profiler is a file that a bot gets only in builds for profiles, through go
// build -overlay: it serves net/http/pprof on a socket. The bots themselves have none.
//
//go:embed profiler.go.txt
var profiler string

// overlayProfiler writes what go build -overlay needs to put the profiler into a package.
func (r *rig) overlayProfiler(ctx context.Context, name, folder string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", module+folder).Output()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", folder, err)
	}
	source := filepath.Join(r.dir, name+"-profiler.go")
	overlay := filepath.Join(r.dir, name+"-overlay.json")
	where := filepath.Join(strings.TrimSpace(string(out)), "profiler_of_the_benchmark.go")
	raw, err := json.Marshal(map[string]any{"Replace": map[string]string{where: source}})
	if err != nil {
		return "", fmt.Errorf("encode the overlay: %w", err)
	}
	text := strings.ReplaceAll(profiler, "SOCKETS", strconv.Quote(r.dir))
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write the profiler: %w", err)
	}
	if err := os.WriteFile(overlay, raw, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return overlay, nil
}

// takeProfile takes a profile of the first replica over the measured time, if
// profiles are asked for and the bot was built for it.
func (r *rig) takeProfile(ctx context.Context, f *fleet, name string) error {
	pid := f.replicas[0].process.pid()
	socket := filepath.Join(r.dir, strconv.Itoa(pid)+".sock")
	if _, err := os.Stat(socket); !r.profile || err != nil {
		return nil
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("http://bot/debug/pprof/profile?seconds=%.0f", math.Ceil(r.duration.Seconds()))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: the bot answers %s", res.Status)
	}
	out, err := os.Create(r.path(name))
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if _, err = io.Copy(out, res.Body); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return out.Close()
}
