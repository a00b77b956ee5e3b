package prompts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// MaxRendered is how many bytes one rendering may have.
const MaxRendered = 4 << 20

// ErrTooLarge is wrapped by the errors of texts over a size cap: a template
// over [MaxTemplate] bytes, a rendering over [MaxRendered].
var ErrTooLarge = errors.New("too large")

// Template is a parsed prompt. It does not change after [Parse] and is safe for
// concurrent use.
type Template struct {
	name  string
	nodes []node
}

// Func is a function that templates can call. Its arguments are the formatted
// texts of what the template says; its result is put in as [Format] writes it.
type Func func(ctx context.Context, args []string) (any, error)

// Vars gives a template its variables. A variable without a scope is asked for
// in scope "temp". One that is not there renders as nothing.
type Vars interface {
	Var(scope, name string) (value any, ok bool)
}

// Scopes is the simplest [Vars]: values by scope and name.
type Scopes map[string]map[string]any

// Var returns the value of a name in a scope.
func (s Scopes) Var(scope, name string) (any, bool) {
	value, ok := s[scope][name]
	return value, ok
}

// Data is what a template is rendered with. The zero value knows no variable
// and no function.
type Data struct {
	Vars  Vars
	Funcs map[string]Func
}

// Name returns the name given to [Parse].
func (t *Template) Name() string { return t.name }

// Render puts values in the places of the template, in order. What a value
// contains never becomes template. A function that Data does not have, or that
// fails, ends the rendering with an error that wraps its cause.
func (t *Template) Render(ctx context.Context, data Data) (string, error) {
	var out strings.Builder
	for _, n := range t.nodes {
		if err := ctx.Err(); err != nil {
			return "", fmt.Errorf("render prompt %s: %w", t.name, err)
		}
		text, err := n.render(ctx, data)
		if err != nil {
			return "", fmt.Errorf("render prompt %s: %w", t.name, err)
		}
		if out.Len()+len(text) > MaxRendered {
			return "", fmt.Errorf("render prompt %s: %w: over %d bytes", t.name, ErrTooLarge, MaxRendered)
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// Functions returns the names of the functions that the template calls, sorted
// and each once: check them at start, rather than in the first turn.
func (t *Template) Functions() []string {
	var names []string
	for _, n := range t.nodes {
		if c, ok := n.(call); ok {
			names = append(names, c.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Variables returns the variables that the template reads, as "scope.name",
// sorted and each once. A template without any, whose functions put out the
// same each time, needs to be rendered only once.
func (t *Template) Variables() []string {
	var names []string
	for _, n := range t.nodes {
		switch n := n.(type) {
		case variable:
			names = append(names, n.String())
		case call:
			names = append(names, n.variables()...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// node is one piece of a template: literal text, a variable or a call.
type node interface {
	render(ctx context.Context, data Data) (string, error)
}

type literal string

func (l literal) render(context.Context, Data) (string, error) { return string(l), nil }

type variable struct{ scope, name string }

func (v variable) String() string { return v.scope + "." + v.name }

func (v variable) render(_ context.Context, data Data) (string, error) {
	if data.Vars == nil {
		return "", nil
	}
	value, ok := data.Vars.Var(v.scope, v.name)
	if !ok {
		return "", nil
	}
	text, err := Format(value)
	if err != nil {
		return "", fmt.Errorf("variable $%s: %w", v, err)
	}
	return text, nil
}

type call struct {
	name string
	args []node // literal or variable
}

func (c call) render(ctx context.Context, data Data) (string, error) {
	fn, ok := data.Funcs[c.name]
	if !ok {
		return "", fmt.Errorf("no function %q", c.name)
	}
	args := make([]string, len(c.args))
	for i, arg := range c.args {
		text, err := arg.render(ctx, data)
		if err != nil {
			return "", fmt.Errorf("function %s: %w", c.name, err)
		}
		args[i] = text
	}
	value, err := fn(ctx, args)
	if err != nil {
		return "", fmt.Errorf("function %s: %w", c.name, err)
	}
	return Format(value)
}

func (c call) variables() []string {
	var names []string
	for _, arg := range c.args {
		if v, ok := arg.(variable); ok {
			names = append(names, v.String())
		}
	}
	return names
}
