package mcp

import (
	"errors"

	"github.com/planbot-go/planbot/actions/connections"
)

// New is not here yet.
func New(Config) (connections.Connection, error) { return nil, errors.New("not here yet") }
