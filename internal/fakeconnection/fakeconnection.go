// Package fakeconnection has made-up services with actions, for tests.
package fakeconnection

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
)

//go:embed testdata
var files embed.FS

// Connection is a service that offers what a test says. It is safe for concurrent use.
type Connection struct {
	key, summary string

	mu    sync.Mutex
	all   *actions.Registry
	names []string // nil: all
	note  string
	away  bool
	asked int
}

// New makes a service with the actions of a registry.
func New(key, summary string, all *actions.Registry) *Connection {
	return &Connection{key: key, summary: summary, all: all}
}

// Key is the operator's name for the service.
func (c *Connection) Key() string { return c.key }

// Summary says what the service is for.
func (c *Connection) Summary() string { return c.summary }

// Actions are all that the service knows.
func (c *Connection) Actions() *actions.Registry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

// Offer is what the service offers in a turn.
func (c *Connection) Offer(context.Context, *actions.Turn) (names []string, note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	switch {
	case c.away:
		return nil, c.note
	case c.names == nil:
		for _, a := range c.all.All() {
			c.names = append(c.names, a.Name)
		}
	}
	return c.names, c.note
}

// Close does nothing.
func (*Connection) Close() {}

// Set changes what the service knows, and offers all of it.
func (c *Connection) Set(all *actions.Registry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all, c.names = all, nil
}

// Only offers some of the actions.
func (c *Connection) Only(names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = names
}

// Say says whether the service is away, and what models read about it.
func (c *Connection) Say(away bool, note string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away, c.note = away, note
}

// Services returns that many services with as many actions each, of those in testdata; 0: all of them. The
// sixth is the first again under another key, and so on. An action answers with its name and what it got.
func Services(services, each int) []*Connection {
	all, parameters := read("actions.txt"), read("parameters.txt")
	kinds := map[string]string{}
	for _, line := range parameters {
		name, rest, _ := strings.Cut(line, " ")
		kinds[name] = rest
	}
	type service struct {
		key, summary string
		lines        []string
	}
	var shipped []service
	for _, line := range all {
		if head, ok := strings.CutPrefix(line, "== "); ok {
			key, summary, _ := strings.Cut(head, ": ")
			shipped = append(shipped, service{key: key, summary: summary})
		} else {
			last := &shipped[len(shipped)-1]
			last.lines = append(last.lines, line)
		}
	}
	var made []*Connection
	for i := range services {
		s := shipped[i%len(shipped)]
		if round := i / len(shipped); round > 0 {
			s.key += fmt.Sprint(round + 1)
		}
		if each > 0 {
			s.lines = s.lines[:each]
		}
		registry := actions.New()
		for _, line := range s.lines {
			add(registry, s.key, line, kinds)
		}
		made = append(made, New(s.key, s.summary, registry))
	}
	return made
}

// add adds the action of a line: name(parameters): description.
func add(r *actions.Registry, key, line string, kinds map[string]string) {
	name, rest, ok := strings.Cut(line, "(")
	parameters, description, ok2 := strings.Cut(rest, "): ")
	if !ok || !ok2 {
		panic("no action: " + line)
	}
	schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for parameter := range strings.SplitSeq(parameters, ", ") {
		bare, required := strings.CutSuffix(parameter, "!")
		if bare == "" {
			continue
		}
		property := &jsonschema.Schema{Type: "string"}
		if kind, about, known := strings.Cut(kinds[bare], " "); known {
			property.Type, property.Description = kind, about
		}
		if property.Type == "array" {
			property.Items = &jsonschema.Schema{Type: "string"}
		}
		schema.Properties[bare] = property
		schema.PropertyOrder = append(schema.PropertyOrder, bare)
		if required {
			schema.Required = append(schema.Required, bare)
		}
	}
	minted := key + "_" + name
	_, err := actions.AddSchema(r, minted, description, schema, func(_ context.Context, _ *actions.Turn, entities map[string]any) (actions.Result, error) {
		return actions.Text("%s got %v", minted, entities), nil
	}, func(a *actions.Action) { a.Source = actions.Source{Connection: key, Remote: name} })
	if err != nil {
		panic(err)
	}
}

// Query is what a model searches for, and the names of the actions that are right.
type Query struct {
	Words string
	Right []string
}

// Queries are those of testdata.
func Queries() (all []Query) {
	for _, line := range read("queries.txt") {
		words, right, _ := strings.Cut(line, " => ")
		all = append(all, Query{words, strings.Split(right, " | ")})
	}
	return all
}

// read returns the lines of a file that are no comments.
func read(name string) (lines []string) {
	raw, err := files.ReadFile("testdata/" + name)
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(raw)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}
