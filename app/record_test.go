package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"
)

func TestRecordingWhereNothingCanBeWritten(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := execute(t, "", "serve", "--record", file, "--port=0"); code != cli.ExitUsage || !strings.Contains(errs, "--record: ") {
		t.Errorf("code %d: %s", code, errs)
	}
}

func TestSecretsAndWhatIsSet(t *testing.T) {
	t.Parallel()
	s, err := env{
		"microsoft-app-id": guid, "microsoft-app-password": "one", "microsoft-app-tenant-id": guid, "redis-url": "rediss://me:two@host:1/0", "otel-exporter-otlp-headers": "authorization=three,x=four",
		"azure-openai-api-key": "five", "azure-openai-endpoint": "https://x", "azure-openai-deployment": "d", "bot-approvers": "a", "bot-turn-timeout": "1m",
	}.read()
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Secrets(); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"five", "four", "one", "three", "two"}) {
		t.Errorf("secrets: %q", got)
	}
	if got := s.IsSet("BOT_APPROVERS", "BOT_APPROVAL_TIMEOUT", "BOT_TURN_TIMEOUT"); !slices.Equal(got, []string{"BOT_APPROVERS", "BOT_TURN_TIMEOUT"}) {
		t.Errorf("set: %q", got)
	}
}
