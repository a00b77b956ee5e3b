package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestMetricsAreShown(t *testing.T) {
	t.Parallel()
	c, err := settings{Port: "0", MetricsAddr: "127.0.0.1:0"}.check()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	a, err := assemble(t.Context(), c, zerolog.New(&log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	stop, err := a.showMetrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`http://\S+/metrics`).FindString(log.String())
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%v in log %s", err, log.String())
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	for _, want := range []string{"planbot_turn_seconds_count 0", "planbot_model_seconds_count 0", "go_goroutines "} {
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("no %q (%v) in\n%s", want, err, body)
		}
	}
	stop()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("still shown")
	}
}
