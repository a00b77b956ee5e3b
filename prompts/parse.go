package prompts

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxTemplate is how many bytes the text of a template may have.
const MaxTemplate = 256 << 10

// maxFaults is how many faults of one template are told.
const maxFaults = 100

// SyntaxError says what is wrong in the text of a template, and where. Line and
// Column count from 1; Column counts characters.
type SyntaxError struct {
	Name         string
	Line, Column int
	Msg          string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.Name, e.Line, e.Column, e.Msg)
}

// Parse reads the text of a template. Its language is that of Teams AI with
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
// The error wraps a [*SyntaxError] for each fault, a line each, or it wraps
// [ErrTooLarge]. With the former comes a template of the rest, to find more
// faults in; it is not for rendering.
func Parse(name, text string) (*Template, error) {
	if len(text) > MaxTemplate {
		return nil, fmt.Errorf("prompt %s: %w: over %d bytes", name, ErrTooLarge, MaxTemplate)
	}
	p := &parser{text: text}
	return &Template{name: name, nodes: p.template()}, p.located(name)
}

// Escape returns a template text that renders as text itself.
func Escape(text string) string {
	return strings.ReplaceAll(text, "{{", "{{'{{'}}")
}

type parser struct {
	text   string
	pos    int
	faults []*fault
}

// fault is a syntax error at a byte offset.
type fault struct {
	at  int
	msg string
}

func (f *fault) Error() string { return f.msg }

func (p *parser) fail(at int, format string, args ...any) error {
	f := &fault{at: at, msg: fmt.Sprintf(format, args...)}
	p.faults = append(p.faults, f)
	return f
}

// located turns the offsets of the faults into lines and columns.
func (p *parser) located(name string) error {
	var all []error
	for _, f := range p.faults {
		before := p.text[:f.at]
		line := 1 + strings.Count(before, "\n")
		column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
		all = append(all, &SyntaxError{Name: name, Line: line, Column: column, Msg: f.msg})
	}
	return errors.Join(all...)
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
	at := p.faults[len(p.faults)-1].at
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
