package metrics_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/metrics"
)

func TestWrongAddresses(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{
		"no address":       {"--bot-metrics-addr=9090"},
		"one port for two": {"--bot-addr=127.0.0.1:3978", "--bot-metrics-addr=localhost:03978"},
		"the usual port":   {"--bot-metrics-addr=:3978"},
	} {
		err := app.Settings(app.Bot{Name: "Hedda"}, metrics.Feature()).Read(flags...)
		if err == nil || !strings.HasPrefix(err.Error(), "BOT_METRICS_ADDR: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := app.Settings(app.Bot{Name: "Hedda"}, metrics.Feature()).Read("--bot-metrics-addr=127.0.0.1:9464"); err != nil {
		t.Error(err)
	}
}
