package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// version is set at link time; without it the build's own record counts.
var version string

type versionCmd struct{}

// Run prints the version of the program and of what it was built with.
func (versionCmd) Run(std *streams) error {
	fmt.Fprintln(std.out, "bot", versionText(), runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH)
	return nil
}

func versionText() string {
	revision := ""
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return cmp.Or(version, "unknown")
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value[:min(12, len(s.Value))]
		}
	}
	main := strings.Trim(info.Main.Version, "()") // "(devel)" where nothing is known
	return cmp.Or(version, revision, main, "devel")
}

const healthTimeout = 3 * time.Second

type healthcheckCmd struct{}

// Run asks /readyz of the bot that runs with the same settings.
func (healthcheckCmd) Run(ctx context.Context, s *settings) error {
	c, err := s.checked()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(c.addr)
	if err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", http.NoBody)
	if err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("healthcheck: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10))
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("healthcheck: %s", resp.Status)
	}
	return nil
}
