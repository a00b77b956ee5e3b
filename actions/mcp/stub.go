package mcp

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions/connections"
)

// Connection is not here yet.
type Connection struct{ connections.Connection }

// Tool is not here yet.
type Tool struct {
	Name, Remote string
	Definition   jsontext.Value
	LeftOut      string
}

// Tools is not here yet.
func (c *Connection) Tools(context.Context) ([]Tool, error) { return nil, errors.New("not here yet") }

// New is not here yet.
func New(Config) (*Connection, error) { return nil, errors.New("not here yet") }
