package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
)

// Address checks that the bot can listen on addr, which is host:port.
func Address(addr string) Probe {
	return Probe{"address", func(ctx context.Context) Check { return address(ctx, addr) }}
}

func address(ctx context.Context, addr string) Check {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err == nil {
		_ = listener.Close() // nobody has connected
		return ok("the bot will listen on " + addr + ", which is free; " + audience(addr))
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && healthy(ctx, addr):
		return warn(addr+" is taken by a program that says it is healthy, so the bot seems to be running already",
			"stop it before you start another one, or set PORT to a free port")
	case errors.Is(err, syscall.EADDRINUSE):
		return fail(addr+" is taken by another program", "end that program, or set PORT to a free port")
	case errors.Is(err, syscall.EACCES):
		return fail("this user may not listen on "+addr, "ports below 1024 need a privileged user: set PORT to a higher one, such as 3978")
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fail(addr+" is no address of this machine", "set BOT_ADDR to an address that this machine has, such as 127.0.0.1:3978")
	}
	return fail(fmt.Sprintf("cannot listen on %s: %v", addr, err), "set BOT_ADDR as host:port, such as 127.0.0.1:3978")
}

// audience says who can reach the address.
func audience(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	ip, err := netip.ParseAddr(host)
	switch {
	case strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback():
		return "only programs on this machine can reach it"
	case host == "" || err == nil && ip.IsUnspecified():
		return "every machine that can reach this one can reach it"
	}
	return "machines of that network can reach it"
}

// healthy reports whether what listens on addr is well, as a bot would say.
func healthy(ctx context.Context, addr string) bool {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	resp, err := get(ctx, nil, "http://"+net.JoinHostPort(host, port)+"/healthz")
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }() // read only
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 64))
	return resp.StatusCode == http.StatusOK && strings.TrimSpace(string(said)) == "ok"
}

// get asks url through rt; nil: a transport of its own for this request.
func get(ctx context.Context, rt http.RoundTripper, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Cache-Control", "no-cache") // a cached answer has an old date
	req.Close = true
	if rt == nil {
		rt = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	}
	client := http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return client.Do(req)
}
