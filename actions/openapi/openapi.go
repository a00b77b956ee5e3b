// Package openapi offers the operations of a service with an OpenAPI document as actions.
package openapi

import (
	"net/http"
	"net/netip"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions/connections"
)

// Config says what a service offers, and what of it a bot may use. Key and Document are required.
type Config struct {
	Key     string // see [connections.CheckKey]
	Summary string // what the service is for, in one line

	// Document is the OpenAPI document: the name of a file, or an https address that is read at the start.
	Document string
	// Server replaces the servers of the document. Variables are values for the variables of its servers.
	Server    string
	Variables map[string]string
	// Header goes to the service with each call and wins over what a model says. It may be secret. Query
	// is the same for the query.
	Header http.Header
	Query  map[string]string
	// Headers are the header parameters that a model may fill in.
	Headers []string
	// Private are networks with private addresses to which calls may go.
	Private []netip.Prefix
	// FollowRedirects allows up to 3 redirects of GET within the origin.
	FollowRedirects bool
	// SignIn is the OAuth connection whose token of the person each call carries. "": none.
	SignIn string

	// Rules say which operations may be used, by operationId, "GET /path" or method. GET and HEAD may be
	// used if Allow is empty.
	Rules connections.Rules
	// Answers cut what a call returns, by operation.
	Answers map[string]Answer
	// Lock has the definitions that an operator has accepted, for a document from an address. nil: all are.
	Lock *connections.Lock

	Log zerolog.Logger
}

// Answer says which part of a JSON answer the model gets.
type Answer struct {
	Data   string   // a JSON pointer; "": all
	Fields []string // of each object; nil: all
}
