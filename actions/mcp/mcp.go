// Package mcp offers the tools of MCP servers as actions.
package mcp

import (
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions/connections"
)

// Config says how to reach an MCP server, and what of it a bot may use. Key, and either URL or Command,
// are required.
type Config struct {
	Key     string // see [connections.CheckKey]
	Summary string // what the server is for, in one line

	// URL is the endpoint of streamable HTTP: https, or http to this machine.
	URL string
	// Header goes to the origin of URL and nowhere else. It may be secret.
	Header http.Header
	// Command is the program of a server on stdio, with its arguments. Dir is its working directory; "":
	// the bot's. Env is its environment besides PATH, HOME, LANG and TMPDIR.
	Command []string
	Dir     string
	Env     map[string]string
	// SignIn is the OAuth connection whose token of the person each request carries, see
	// [actions.NeedsToken]: each person has a session of their own. "": all share one.
	SignIn string

	// Rules say which tools may be used, by the names that the server gives them.
	Rules connections.Rules
	// Lock has the definitions that an operator has accepted. nil: those that the server shows first are.
	Lock *connections.Lock

	// CallTimeout limits a call. 0: 60 s. Timeouts replaces it for single tools; at most 10 min.
	CallTimeout time.Duration
	Timeouts    map[string]time.Duration

	Log zerolog.Logger
}
