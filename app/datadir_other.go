//go:build !unix

package app

import (
	"context"
	"errors"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/internal/settings"
)

// dataDir needs file locks and process groups of Unix.
type dataDir struct{}

func openDataDir(context.Context, string, zerolog.Logger) (*dataDir, error) {
	return nil, settings.Fault{Err: errors.New("BOT_DATA_DIR: works on Linux and macOS only; set REDIS_URL instead")}
}

func freeDataDir(string) error { return nil }

func (*dataDir) close() {}
