// Package yamltext reads and writes YAML with goccy/go-yaml. What it reads is bounded: the
// parser's time grows with the square of the depth, and aliases can make a small text fill the
// memory. What it writes reads back as it was, which the library alone does not promise.
package yamltext

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	strict "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"

	"github.com/planbot-go/planbot/internal/plainjson"
)

const (
	maxBytes  = 16 << 20
	maxTokens = 1 << 20
	maxDepth  = 500
	maxJSON   = 2 * maxBytes // with aliases written out
)

// Error says why a text cannot be read, and on which line, counted from 1.
type Error struct {
	Line int
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *Error) Unwrap() error { return e.Err }

func tooLarge(line, most int, what string) error {
	return &Error{line, fmt.Errorf("too large: more than %d %s", most, what)}
}

// Text returns a scalar as it was written: numbers and words such as true are just text, and what is left out is "".
// Anchors, aliases and tags are not text.
func Text(node ast.Node) (text string, ok bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.NullNode:
		if n.Token.Type == token.ImplicitNullType {
			return "", true
		}
		return n.Token.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// JSON turns YAML into JSON. Its error is an [Error].
func JSON(text []byte) ([]byte, error) {
	root, err := parse(string(text), maxTokens, markNumbers)
	if err != nil {
		return nil, err
	}
	if root == nil {
		return []byte("null"), nil
	}
	var tree any
	if err := yaml.NodeToValue(root, &tree); err != nil {
		return nil, libraryError(err)
	}
	var out jsonWriter
	if err := strict.MarshalWrite(&out, tree, strict.Deterministic(true), strict.WithMarshalers(strict.MarshalToFunc(writeNumber))); out.full {
		return nil, tooLarge(1, maxJSON, "bytes with its aliases written out")
	} else if err != nil {
		return nil, &Error{1, err}
	}
	return out.Bytes(), nil
}

// numberMark begins a text that is a number which the library cannot hold, and so takes for a text. No
// text of a document has this byte, since none is UTF-8 with it.
const numberMark = "\xff"

// wholeNumber and otherNumber match the numbers of YAML 1.2.
var (
	wholeNumber = regexp.MustCompile(`^([-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$`)
	otherNumber = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	itsParts    = regexp.MustCompile(`^([-+]?)0*([0-9]*)(?:\.([0-9]*))?([eE].*)?$`)
)

// markNumbers marks the numbers that the library takes for texts.
func markNumbers(t *token.Token) {
	before := t.Prev
	for before != nil && before.Type == token.CommentType {
		before = before.Prev
	}
	switch {
	case before != nil && slices.Contains([]token.Type{token.LiteralType, token.FoldedType, token.TagType}, before.Type): // these say that it is a text
	case t.Type == token.StringType && (wholeNumber.MatchString(t.Value) || otherNumber.MatchString(t.Value)):
		t.Value = numberMark + t.Value
	}
}

// writeNumber writes a marked text as the number that it is or, if it is a name, as it was.
func writeNumber(enc *jsontext.Encoder, text string) error {
	said, marked := strings.CutPrefix(text, numberMark)
	if !marked {
		return errors.ErrUnsupported // it is written as any other
	}
	if kind, n := enc.StackIndex(enc.StackDepth()); kind == '{' && n%2 == 0 {
		return enc.WriteToken(jsontext.String(said))
	}
	if wholeNumber.MatchString(said) {
		base := 10
		if strings.HasPrefix(said, "0o") || strings.HasPrefix(said, "0x") {
			base = 0
		}
		n, _ := new(big.Int).SetString(said, base)
		return enc.WriteValue(jsontext.Value(n.String()))
	}
	part := itsParts.FindStringSubmatch(said)
	number := strings.TrimPrefix(part[1], "+") + cmp.Or(part[2], "0")
	if part[3] != "" {
		number += "." + part[3]
	}
	return enc.WriteValue(jsontext.Value(number + part[4]))
}

// jsonWriter refuses too much JSON: in a tree, an alias costs nothing.
type jsonWriter struct {
	bytes.Buffer
	full bool
}

func (w *jsonWriter) Write(p []byte) (int, error) {
	if w.full = w.Len()+len(p) > maxJSON; w.full {
		return 0, io.ErrShortWrite
	}
	return w.Buffer.Write(p)
}

// Lines returns a function that says on which line a value of YAML is, or the closest around it that is there,
// by the tokens of a JSON pointer; 0: it is not known.
func Lines(text []byte) func(tokens []string) int {
	root, err := Parse(string(text), maxTokens)
	if err != nil || root == nil {
		return func([]string) int { return 0 }
	}
	return func(tokens []string) int { return line(root, tokens) }
}

func line(node ast.Node, tokens []string) int {
	line := node.GetToken().Position.Line
	for _, t := range tokens {
		t = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
		if anchor, ok := node.(*ast.AnchorNode); ok {
			node = anchor.Value
		}
		next := ast.Node(nil)
		switch holder := node.(type) {
		case *ast.MappingNode:
			for _, entry := range holder.Values {
				if key := entry.Key.GetToken(); key.Value == t {
					next, line = entry.Value, key.Position.Line
				}
			}
		case *ast.SequenceNode:
			if i, err := strconv.Atoi(t); err == nil && i >= 0 && i < len(holder.Values) {
				next = holder.Values[i]
				line = next.GetToken().Position.Line
			}
		}
		if next == nil {
			return line
		}
		node = next
	}
	return line
}

// Parse returns the root of the one document in a text, nil if there is none. It takes so many
// tokens at most. Its error is an [Error].
func Parse(text string, maxTokens int, options ...parser.Option) (ast.Node, error) {
	return parse(text, maxTokens, func(*token.Token) {}, options...)
}

// parse is Parse with a look at each token.
func parse(text string, maxTokens int, look func(*token.Token), options ...parser.Option) (ast.Node, error) {
	text = strings.TrimPrefix(text, "\ufeff") // editors on Windows write it
	if len(text) > maxBytes {
		return nil, tooLarge(1, maxBytes, "bytes")
	}
	n := 0
	for line := range strings.Lines(text) {
		if n++; !utf8.ValidString(line) {
			return nil, &Error{n, errors.New("it is not UTF-8")}
		}
	}
	var file *ast.File
	for again := true; again; {
		tokens, err := tokenize(text, maxTokens, look)
		if err != nil {
			return nil, err
		}
		if file, err = parser.Parse(tokens, 0, options...); err == nil {
			break
		}
		err = libraryError(err)
		if text, again = withoutEmptyBlock(text, err); !again {
			return nil, err
		}
	}
	switch len(file.Docs) {
	case 0:
		return nil, nil
	case 1:
		return file.Docs[0].Body, nil
	}
	return nil, &Error{file.Docs[1].Start.Position.Line, errors.New("a second document begins")}
}

// emptyBlock matches the line of a text block.
var emptyBlock = regexp.MustCompile(`^(.*(?:[:-]|^)[ \t]+)[|>]([-+]?)[0-9]?[ \t]*(?:#.*)?$`)

// withoutEmptyBlock writes the text block that the library complains about, because there is nothing in it, as
// a text in quotes. Each block goes once, so this ends.
func withoutEmptyBlock(text string, err error) (string, bool) {
	wrong, ok := errors.AsType[*Error](err)
	if !ok || !strings.Contains(wrong.Error(), "could not find multi-line content") {
		return text, false
	}
	lines := strings.Split(text, "\n")
	blank := 0
	for i := min(wrong.Line, len(lines)) - 1; i >= 0; i-- {
		line := strings.TrimSuffix(lines[i], "\r")
		part := emptyBlock.FindStringSubmatch(line)
		switch {
		case part != nil:
			kept := ""
			if part[2] == "+" {
				kept = strings.Repeat(`\n`, blank)
			}
			lines[i] = part[1] + `"` + kept + `"`
			return strings.Join(lines, "\n"), true
		case strings.TrimSpace(line) == "":
			blank++
		case i < wrong.Line-1:
			return text, false
		}
	}
	return text, false
}

// tokenize checks as it goes how many tokens there are, and how deep they nest. Its own list of
// open brackets and the column of a dash or a question mark bound the depth; indentation needs
// no check, since a text of maxBytes has no room for much of it.
func tokenize(text string, maxTokens int, look func(*token.Token)) (token.Tokens, error) {
	var s scanner.Scanner
	s.Init(text)
	var tokens token.Tokens
	open := 0
	for {
		more, err := s.Scan()
		if errors.Is(err, io.EOF) {
			return tokens, nil
		}
		tokens.Add(more...) // also what another error is about: the parser reports it
		for _, t := range more {
			look(t)
			switch t.Type {
			case token.SequenceStartType, token.MappingStartType:
				open++
			case token.SequenceEndType, token.MappingEndType:
				open = max(open-1, 0)
			}
			inLine := t.Type == token.SequenceEntryType || t.Type == token.MappingKeyType
			if open > maxDepth || inLine && t.Position.Column > 2*maxDepth {
				return nil, tooLarge(t.Position.Line, maxDepth, "levels")
			}
		}
		if len(tokens) > maxTokens {
			return nil, tooLarge(tokens[maxTokens].Position.Line, maxTokens, "tokens")
		}
	}
}

// libraryError is an error of the library without the excerpt that it adds.
func libraryError(err error) error {
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
		return &Error{e.GetToken().Position.Line, errors.New(e.GetMessage())}
	}
	return &Error{1, err}
}

// Write writes what JSON can say: fields in their order, texts of several lines as they are.
func Write(v any) ([]byte, error) {
	raw, err := plainjson.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	out, err := yaml.MarshalWithOptions(writable(raw), yaml.IndentSequence(true), yaml.UseSingleQuote(true), yaml.UseLiteralStyleIfMultiline(true))
	if err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	return out, nil
}

// asJSON is a value that is written as JSON, which is YAML too.
type asJSON jsontext.Value

// MarshalYAML is what the library calls.
func (j asJSON) MarshalYAML() ([]byte, error) { return j, nil }

// The library does not write every text in a way that it reads back. plainName matches names that
// it does; notPlain the texts that it may not: with white space at their ends or alone on a line,
// and with anything else that cannot be seen.
var (
	plainName = regexp.MustCompile(`^\w+([ ./-]\w+)*$`)
	notPlain  = regexp.MustCompile(`^[\s?<]|[ \t]\n?$|\n\n$|\n[ \t]+\n|[^\pL\pN\pP\pS \n]|^$`)
)

// writable is JSON as the library takes it, with what would not read back as it was left as
// JSON.
func writable(v jsontext.Value) any {
	const oneLine = 110
	if len(v) <= oneLine && bytes.ContainsAny(v[:1], "{[") && !bytes.Contains(v, []byte(`\`)) {
		return asJSON(v)
	}
	d := jsontext.NewDecoder(bytes.NewReader(v)) // of JSON that was just written
	switch d.PeekKind() {
	case '"':
		if text, _ := d.ReadToken(); !notPlain.MatchString(text.String()) {
			return text.String()
		}
	case '[':
		out := []any{}
		for _, _ = d.ReadToken(); d.PeekKind() != ']'; {
			one, _ := d.ReadValue()
			out = append(out, writable(one.Clone()))
		}
		return out
	case '{':
		out := yaml.MapSlice{}
		for _, _ = d.ReadToken(); d.PeekKind() != '}'; {
			name, _ := d.ReadToken()
			key := name.String()
			if !plainName.MatchString(key) {
				return asJSON(v)
			}
			one, _ := d.ReadValue()
			out = append(out, yaml.MapItem{Key: key, Value: writable(one.Clone())})
		}
		return out
	}
	return asJSON(v)
}
