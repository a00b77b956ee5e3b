package openapi

import (
	"context"
	"errors"

	"github.com/planbot-go/planbot/actions/connections"
)

// New is not here yet.
func New(context.Context, Config) (connections.Connection, error) { return nil, errors.New("not here yet") }
