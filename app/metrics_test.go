package app

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
)

// logBuffer keeps a log that others, such as a client of Redis, write to as well.
type logBuffer struct {
	mu  sync.Mutex
	out strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

func TestMetricsAreShown(t *testing.T) {
	t.Parallel()
	var log logBuffer
	s, b, err := env{"port": "0", "bot-page": "false", "bot-metrics-addr": "127.0.0.1:0"}.readAll()
	if err != nil {
		t.Fatal(err)
	}
	a := &program{Settings: s, own: b, log: zerolog.New(&log)}
	t.Cleanup(a.close)
	if err := errors.Join(a.open(&log), a.assemble(t.Context())); err != nil {
		t.Fatal(err)
	}
	if err := a.serveFeatures(t.Context(), &net.TCPAddr{}); err != nil {
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
	for _, want := range []string{"planbot_turn_seconds_count 0", "planbot_model_seconds_count 0", "go_goroutines ", `planbot_build_info{version="` + Version() + `"} 1`} {
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("no %q (%v) in\n%s", want, err, body)
		}
	}
	a.close()
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_ = resp.Body.Close()
		t.Error("still shown")
	}
}
