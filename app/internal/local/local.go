// Package local listens on this machine, and gets pages from a bot that does.
package local

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

const timeout = 3 * time.Second // limits how long a bot on this machine may take to answer

const maxPage = 1 << 20 // limits the bytes of a page

// Listen listens at addr. setting names what says so, for the error.
func Listen(ctx context.Context, addr, setting string) (net.Listener, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s (%s): %w", addr, setting, err)
	}
	return listener, nil
}

// Get gets a page from a bot on this machine, by the address that it listens on.
func Get(ctx context.Context, addr, path string) (body []byte, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return Fetch(ctx, &http.Transport{DisableKeepAlives: true}, "http://"+net.JoinHostPort(host, port)+path)
}

// Fetch gets a page. Any status but 200 is an error.
func Fetch(ctx context.Context, by *http.Transport, url string) (body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := by.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read only
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxPage))
}
