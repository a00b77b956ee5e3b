package yamltext

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// What is read at most. The parser's time grows with the square of the depth and of the
// entries of one mapping, and a token takes some 300 bytes.
const (
	maxBytes   = 16 << 20
	maxWeight  = 2 * maxBytes
	maxTokens  = 1 << 20
	maxDepth   = 500
	maxEntries = 10_000
)

// ErrTooLarge is wrapped by the errors of what has more of something than is read.
var ErrTooLarge = errors.New("too large")

// Error is why a text cannot be read, and the line of it, from 1.
type Error struct {
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

// Parse returns the root of the document in a text, nil where there is none. With most
// above 0 it takes so many tokens only. The error is an [Error].
func Parse(text string, most int, options ...parser.Option) (ast.Node, error) {
	text = strings.TrimPrefix(text, "\ufeff") // editors on Windows write it
	if err := checkLines(text); err != nil {
		return nil, err
	}
	tokens, err := tokenize(text, most)
	if err != nil {
		return nil, err
	}
	if err := checkShape(tokens); err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, options...)
	if err != nil {
		return nil, errorOf(err)
	}
	switch len(file.Docs) {
	case 0:
		return nil, nil
	case 1:
		return file.Docs[0].Body, nil
	}
	return nil, &Error{Line(file.Docs[1].Body), errors.New("a second document begins")}
}

// JSON writes YAML as JSON. Aliases may make of a small text one that fills the memory, so what
// they stand for is weighed first. An object may have a name twice, where a merge ("<<: *other")
// brings one that the mapping has, too: the last one counts. The error is an [Error].
func JSON(text []byte) ([]byte, error) {
	root, err := Parse(string(text), 0)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return []byte("null"), nil
	}
	if (weigher{}).weigh(root) > maxWeight {
		return nil, tooLarge(1, maxWeight, "bytes with what its aliases stand for")
	}
	ast.Walk(mergesFirst{}, root)
	var tree any
	if err := yaml.NodeToValue(root, &tree, yaml.UseOrderedMap()); err != nil {
		return nil, errorOf(err)
	}
	out, err := yaml.MarshalWithOptions(tree, yaml.JSON())
	if err != nil {
		return nil, errorOf(err)
	}
	return out, nil
}

// mergesFirst puts merges in front of a mapping's own entries, over which they do not go.
type mergesFirst struct{}

// Visit is for [ast.Walk].
func (m mergesFirst) Visit(node ast.Node) ast.Visitor {
	if mapping, ok := node.(*ast.MappingNode); ok {
		slices.SortStableFunc(mapping.Values, func(a, b *ast.MappingValueNode) int {
			switch isMerge := a.Key.IsMergeKey(); {
			case isMerge == b.Key.IsMergeKey():
				return 0
			case isMerge:
				return -1
			}
			return 1
		})
	}
	return m
}

// Line is that of a node, 1 where nobody knows.
func Line(node ast.Node) int {
	if node == nil {
		return 1
	}
	return lineOf(node.GetToken())
}

func lineOf(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 1
	}
	return t.Position.Line
}

// errorOf is an error of the library without the excerpt around it.
func errorOf(err error) error {
	if fault, ok := errors.AsType[yaml.Error](err); ok {
		return &Error{lineOf(fault.GetToken()), errors.New(fault.GetMessage())}
	}
	return &Error{1, err}
}

func tooLarge(line, most int, what string) error {
	return &Error{line, fmt.Errorf("%w: more than %d %s", ErrTooLarge, most, what)}
}

// checkLines bounds the bytes, and what may be tokens in one line: the lexer reads a line at
// once. It refuses what is no text, which the lexer would take.
func checkLines(text string) error {
	if len(text) > maxBytes {
		return tooLarge(1, maxBytes, "bytes")
	}
	line, marks := 1, 0
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)) {
			return &Error{line, fmt.Errorf("the byte %#02x is no UTF-8", text[i])}
		}
		switch r {
		case '\n':
			line, marks = line+1, 0
		case '[', ']', '{', '}', ',', ':', '-', '?', '&', '*', '!', '|', '>', '\'', '"', '#', '%', '@', '`':
			if marks++; marks > maxTokens {
				return tooLarge(line, maxTokens, "tokens")
			}
		}
	}
	return nil
}

// tokenize is the library's lexer, which stops where there are too many tokens.
func tokenize(text string, most int) (token.Tokens, error) {
	if most <= 0 {
		most = maxTokens
	}
	var s scanner.Scanner
	s.Init(text)
	var tokens token.Tokens
	for {
		more, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return tokens, nil
		}
		tokens.Add(more...) // with that which an error is about, for the parser to tell
		if len(tokens) > most {
			return nil, tooLarge(lineOf(tokens[most]), most, "tokens")
		}
	}
}

// level is a block that is open: where it is set in, and how many entries it has.
type level struct{ column, entries int }

// checkShape bounds how deep the text nests and how many entries a mapping has, as far as
// tokens tell.
func checkShape(tokens token.Tokens) error {
	var blocks []level
	flow := 0 // brackets that are open
	for i, t := range tokens {
		column := 0
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(flow-1, 0)
		case token.SequenceEntryType, token.MappingKeyType:
			column = t.Position.Column
		case token.MappingValueType:
			column = tokens[max(i-1, 0)].Position.Column
		}
		if flow == 0 && column > 0 {
			blocks = enter(blocks, column)
			if blocks[len(blocks)-1].entries > maxEntries && t.Type == token.MappingValueType {
				return tooLarge(lineOf(t), maxEntries, "entries in one mapping")
			}
		}
		if flow+len(blocks) > maxDepth {
			return tooLarge(lineOf(t), maxDepth, "levels")
		}
	}
	return nil
}

// enter leaves the blocks that are set in further than an entry, and counts it.
func enter(blocks []level, column int) []level {
	for len(blocks) > 0 && blocks[len(blocks)-1].column > column {
		blocks = blocks[:len(blocks)-1]
	}
	if len(blocks) == 0 || blocks[len(blocks)-1].column < column {
		blocks = append(blocks, level{column: column})
	}
	blocks[len(blocks)-1].entries++
	return blocks
}

// weigher knows the weights of anchors by their names.
type weigher map[string]int

// perNode is about what a node needs beside its text.
const perNode = 16

// weigh returns about how large a node is with all aliases written out.
func (w weigher) weigh(node ast.Node) int {
	sum := perNode
	add := func(n int) { sum = min(sum+n, 2*maxWeight) } // and no further
	switch node := node.(type) {
	case *ast.MappingNode:
		for _, value := range node.Values {
			add(w.weigh(value))
		}
	case *ast.MappingValueNode:
		add(w.weigh(node.Key))
		add(w.weigh(node.Value))
	case *ast.SequenceNode:
		for _, value := range node.Values {
			add(w.weigh(value))
		}
	case *ast.AnchorNode:
		add(w.weigh(node.Value))
		w[node.Name.String()] = sum
	case *ast.AliasNode:
		add(w[node.Value.String()])
	case *ast.TagNode:
		add(w.weigh(node.Value))
	case nil:
	default:
		if t := node.GetToken(); t != nil {
			add(len(t.Value))
		}
	}
	return sum
}
