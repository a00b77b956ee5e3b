package prompts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
)

// maxRendered is how many bytes one rendering may have.
const maxRendered = 4 << 20

// errTooLarge is wrapped by the errors of texts over a size cap: a template
// over [maxTemplate] bytes, a rendering over [maxRendered].
var errTooLarge = errors.New("too large")

// template is a parsed prompt. It does not change after [parse] and is safe for
// concurrent use.
type template struct {
	name  string
	nodes []node
}

// data is what a template is rendered with.
type data struct {
	vars  func(scope, name string) (value any, ok bool)
	funcs map[string]func(ctx context.Context, args []string) (any, error)
}

// Name returns the name given to [parse].
func (t *template) Name() string { return t.name }

// Render puts values in the places of the template, in order. What a value
// contains never becomes template.
//
// vars finds a variable; one without a scope is asked for in scope "temp". One that is not
// there renders as nothing, as all do where vars is nil. The arguments of a function are the
// formatted texts of what the template says; its result is put in as [Format] writes it. A
// function that funcs does not have, or that fails, ends the rendering with an error that
// wraps its cause.
func (t *template) Render(
	ctx context.Context, vars func(scope, name string) (any, bool), funcs map[string]func(ctx context.Context, args []string) (any, error),
) (string, error) {
	with := data{vars, funcs}
	var out strings.Builder
	for _, n := range t.nodes {
		if err := ctx.Err(); err != nil {
			return "", fmt.Errorf("render prompt %s: %w", t.name, err)
		}
		text, err := n.render(ctx, with)
		if err != nil {
			return "", fmt.Errorf("render prompt %s: %w", t.name, err)
		}
		if out.Len()+len(text) > maxRendered {
			return "", fmt.Errorf("render prompt %s: %w: over %d bytes", t.name, errTooLarge, maxRendered)
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// Functions returns the names of the functions that the template calls, sorted
// and each once: check them at start, rather than in the first turn.
func (t *template) Functions() []string {
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
func (t *template) Variables() []string {
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
	render(ctx context.Context, in data) (string, error)
}

type literal string

func (l literal) render(context.Context, data) (string, error) { return string(l), nil }

type variable struct{ scope, name string }

func (v variable) String() string { return v.scope + "." + v.name }

func (v variable) render(_ context.Context, in data) (string, error) {
	if in.vars == nil {
		return "", nil
	}
	value, ok := in.vars(v.scope, v.name)
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

func (c call) render(ctx context.Context, in data) (string, error) {
	fn, ok := in.funcs[c.name]
	if !ok {
		return "", fmt.Errorf("no function %q", c.name)
	}
	args := make([]string, len(c.args))
	for i, arg := range c.args {
		text, err := arg.render(ctx, in)
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

// maxTemplate is how many bytes the text of a template may have.
const maxTemplate = 256 << 10

// maxFaults is how many faults of one template are told.
const maxFaults = 100

// parse reads the text of a template. Its language is that of Teams AI with
// the holes closed; between {{ and }}, with white space wherever it helps:
//
//	{{$scope.name}}      a variable
//	{{$name}}            the same in scope temp
//	{{fn}}               what a function puts out
//	{{fn word 'a text' $scope.name}}
//	                     with arguments: words, texts, variables
//	{{'{{'}}             a text by itself: the way to write {{
//	{{}}                 nothing
//
// Texts stand in ', " or `, and a backslash before that quote or before a
// backslash takes its meaning away; a }} inside of a text is text. A quote
// inside of a word is part of the word. An empty text is an argument too.
// Functions do not nest, and }} outside of {{ is text.
//
// The error has each fault, a line each, with its place. With it comes a template of
// the rest, to find more faults in; it is not for rendering.
func parse(name, text string) (*template, error) {
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("prompt %s: %w: over %d bytes", name, errTooLarge, maxTemplate)
	}
	p := &parser{name: name, text: text}
	t := &template{name: name, nodes: p.template()}
	return t, errors.Join(p.faults...)
}

type parser struct {
	name     string
	text     string
	pos      int
	faults   []error
	failedAt int // where the last fault is
}

// fail notes what is wrong at a byte offset: NAME:LINE:COLUMN: what, with columns in
// characters, both from 1.
func (p *parser) fail(at int, format string, args ...any) error {
	before := p.text[:at]
	line := 1 + strings.Count(before, "\n")
	column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	fault := fmt.Errorf("%s:%d:%d: %s", p.name, line, column, fmt.Sprintf(format, args...))
	p.faults, p.failedAt = append(p.faults, fault), at
	return fault
}

// template reads the whole text. A block with a fault is left out.
func (p *parser) template() []node {
	var nodes []node
	for p.pos < len(p.text) {
		open := strings.Index(p.text[p.pos:], "{{")
		if open < 0 {
			open = len(p.text) - p.pos
		}
		if open > 0 {
			nodes = append(nodes, literal(p.text[p.pos:p.pos+open]))
			p.pos += open
			continue
		}
		n, err := p.block()
		if err == nil && n != nil {
			nodes = append(nodes, n)
		}
		if len(p.faults) >= maxFaults || err != nil && !p.resume() {
			break
		}
	}
	return nodes
}

// resume goes on behind the block with the last fault, if its end can be told.
func (p *parser) resume() bool {
	at := p.failedAt
	end := strings.Index(p.text[at:], "}}")
	p.pos = at + end + len("}}")
	return end >= 0
}

// block reads from {{ to }}. It returns nil for an empty one.
func (p *parser) block() (node, error) {
	open := p.pos
	p.pos += len("{{")
	p.space()
	n, err := p.content()
	if err != nil {
		return nil, err
	}
	p.space()
	switch {
	case p.closed():
		p.pos += len("}}")
		return n, nil
	case p.pos == len(p.text):
		return nil, p.fail(open, "{{ is never closed by }}")
	default:
		return nil, p.fail(p.pos, "want }}, have %q", p.next())
	}
}

func (p *parser) content() (node, error) {
	c := p.next()
	switch {
	case p.closed() || p.pos == len(p.text):
		return nil, nil
	case c == '$':
		return p.variable(), nil
	case isQuote(c):
		return p.quoted()
	case c == '_' || unicode.IsLetter(c):
		return p.call()
	default:
		return nil, p.fail(p.pos, "want a $variable, a function or a quoted text, have %q", c)
	}
}

// variable reads $name or $scope.name. What is wrong in it is noted, and does
// not keep the rest of the block from being read.
func (p *parser) variable() node {
	start := p.pos
	p.pos += len("$")
	path := strings.Split(p.path(), ".")
	switch {
	case slices.Contains(path, ""):
		_ = p.fail(start, "want a name after $ and after each dot")
		return literal("")
	case len(path) == 1:
		return variable{scope: "temp", name: path[0]}
	case len(path) == 2:
		return variable{scope: path[0], name: path[1]}
	default:
		_ = p.fail(start, "$%s has more than a scope and a name", strings.Join(path, "."))
		return literal("")
	}
}

func (p *parser) call() (node, error) {
	c := call{name: p.path()}
	for {
		spaced := p.space()
		if p.closed() || p.pos == len(p.text) {
			return c, nil
		}
		if !spaced {
			return nil, p.fail(p.pos, "want a space or }}, have %q", p.next())
		}
		arg, err := p.argument()
		if err != nil {
			return nil, err
		}
		c.args = append(c.args, arg)
	}
}

func (p *parser) argument() (node, error) {
	switch c := p.next(); {
	case c == '$':
		return p.variable(), nil
	case isQuote(c):
		return p.quoted()
	default:
		return p.word()
	}
}

// word reads up to white space or }}.
func (p *parser) word() (node, error) {
	start := p.pos
	for p.pos < len(p.text) && !p.closed() && !unicode.IsSpace(p.next()) {
		if strings.HasPrefix(p.text[p.pos:], "{{") {
			return nil, p.fail(p.pos, "{{ inside of {{ }}: blocks do not nest")
		}
		p.advance()
	}
	return literal(p.text[start:p.pos]), nil
}

// quoted reads a text in quotes.
func (p *parser) quoted() (node, error) {
	open, quote := p.pos, p.text[p.pos]
	var out strings.Builder
	for p.pos++; p.pos < len(p.text); p.pos++ {
		c := p.text[p.pos]
		if c == quote {
			p.pos++
			return literal(out.String()), nil
		}
		if c == '\\' && p.pos+1 < len(p.text) && (p.text[p.pos+1] == quote || p.text[p.pos+1] == '\\') {
			p.pos++
			c = p.text[p.pos]
		}
		out.WriteByte(c)
	}
	return nil, p.fail(open, "%c is never closed", quote)
}

// path reads letters, digits, _, - and dots.
func (p *parser) path() string {
	start := p.pos
	for p.pos < len(p.text) {
		c := p.next()
		if c != '_' && c != '-' && c != '.' && !unicode.IsLetter(c) && !unicode.IsDigit(c) {
			break
		}
		p.advance()
	}
	return p.text[start:p.pos]
}

// space skips white space and says whether there was any.
func (p *parser) space() bool {
	start := p.pos
	for p.pos < len(p.text) && unicode.IsSpace(p.next()) {
		p.advance()
	}
	return p.pos > start
}

func (p *parser) closed() bool { return strings.HasPrefix(p.text[p.pos:], "}}") }

// next returns the character at the position, 0 at the end.
func (p *parser) next() rune {
	if p.pos == len(p.text) {
		return 0
	}
	c, _ := utf8.DecodeRuneInString(p.text[p.pos:])
	return c
}

func (p *parser) advance() {
	_, size := utf8.DecodeRuneInString(p.text[p.pos:])
	p.pos += size
}

func isQuote(c rune) bool { return c == '\'' || c == '"' || c == '`' }

// maxYAML is how large a value may be that is looked at for the shorter form.
const maxYAML = 4 << 10

// Format writes a value as a prompt shows it: nil as nothing, text as it is, a
// time as RFC 3339, numbers and truth values as in JSON. Lists and objects are
// written as YAML or as compact JSON, whichever is shorter, JSON when in doubt and over
// 4 KiB; keys of Go maps are sorted. JSON ([jsontext.Value]) is the value that it
// stands for. The error is that of a value which JSON cannot hold.
func Format(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case jsontext.Value:
		return formatJSON(v), nil
	case fmt.Stringer:
		return v.String(), nil
	}
	raw, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("format a %T: %w", value, err)
	}
	return formatJSON(raw), nil
}

func formatJSON(value jsontext.Value) string {
	switch value.Kind() {
	case 'n':
		return ""
	case '"':
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			return string(text)
		}
	case '{', '[':
		return shorter(value.Clone())
	}
	return string(value)
}

// shorter writes a list or an object in the shorter form. YAML has to read as the very
// same JSON again: the library would round some numbers.
func shorter(value jsontext.Value) string {
	if len(value) > maxYAML || value.Compact() != nil {
		return string(value)
	}
	text, err := yaml.JSONToYAML(value)
	text = bytes.TrimSuffix(text, []byte("\n"))
	if err != nil || len(text) >= len(value) {
		return string(value)
	}
	back := jsontext.Value(nil)
	if back, err = yaml.YAMLToJSON(text); err != nil || back.Compact() != nil || !bytes.Equal(back, value) {
		return string(value)
	}
	return string(text)
}
