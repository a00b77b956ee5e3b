// Command floor is the bot of cmd/bot by hand: the least that a turn needs, on the
// standard library. It takes a message, reads the state of its conversation from
// Redis, asks the model, changes lists, writes the state and replies. It checks no
// token and no plan, keeps no log, drops no duplicates and forgets a turn that it
// dies in: it says what the work costs on a machine, and is no bot to run.
//
// It listens on 127.0.0.1:$PORT and reads REDIS_URL, OPENAI_BASE_URL, OPENAI_API_KEY
// and OPENAI_MODEL. bench/turns starts it.
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// callTimeout bounds each call of the model and of the connector.
const callTimeout = time.Minute

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "floor:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	where, err := url.Parse(os.Getenv("REDIS_URL"))
	if err != nil {
		return fmt.Errorf("REDIS_URL: %w", err)
	}
	store, err := dialRedis(ctx, where.Host)
	if err != nil {
		return err
	}
	b := &bot{
		model: os.Getenv("OPENAI_BASE_URL") + "/chat/completions",
		key:   os.Getenv("OPENAI_API_KEY"),
		named: os.Getenv("OPENAI_MODEL"),
		redis: store,
		client: &http.Client{
			Timeout:   callTimeout,
			Transport: &http.Transport{MaxIdleConnsPerHost: 2048, DisableCompression: true},
		},
		busy: map[string]*lane{},
	}
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: b.routes(), ReadHeaderTimeout: callTimeout}
	go func() {
		<-ctx.Done()
		_ = server.Close() // it has no turns to wait for that anybody would miss
	}()
	if err := server.ListenAndServe(); ctx.Err() == nil {
		return fmt.Errorf("serve %s: %w", server.Addr, err)
	}
	return nil
}
