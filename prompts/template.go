package prompts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/goccy/go-yaml"
	"github.com/planbot-go/planbot/internal/spelling"
)

// template is a parsed prompt. It is immutable and safe for concurrent use.
type template struct {
	name  string
	nodes []node
}

// node is one piece of a template: a text, a variable, which has a scope, or a function call.
type node struct {
	text        string // if it has no name
	scope, name string
	short       bool // a variable that is written without its scope
	args        []node
}

// Name returns the name given to [parse].
func (t *template) Name() string { return t.name }

// Render fills values into the template, in order. A value is never parsed as template.
//
// vars looks up a variable; one without a scope is looked up in scope "temp". nil renders as
// nothing. Function arguments are formatted texts; [Format] writes the result. An unknown function,
// or a lookup or function that fails, ends the rendering with an error that wraps its cause.
func (t *template) Render(
	ctx context.Context, vars func(scope, name string) (any, error), funcs map[string]func(ctx context.Context, args []string) (any, error),
) (string, error) {
	var out strings.Builder
	for _, n := range t.nodes {
		text, err := n.render(ctx, vars, funcs)
		if err != nil {
			return "", fmt.Errorf("render prompt %s: %w", t.name, err)
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

func (n *node) render(
	ctx context.Context, vars func(scope, name string) (any, error), funcs map[string]func(ctx context.Context, args []string) (any, error),
) (text string, err error) {
	var value any
	what := "function " + n.name
	switch fn := funcs[n.name]; {
	case n.name == "":
		return n.text, nil
	case n.scope != "":
		what = "variable $" + n.scope + "." + n.name
		value, err = vars(n.scope, n.name)
	case fn == nil:
		return "", fmt.Errorf("no function %q", n.name)
	default:
		args := make([]string, len(n.args))
		for i := range n.args {
			if args[i], err = n.args[i].render(ctx, vars, funcs); err != nil {
				return "", fmt.Errorf("%s: %w", what, err)
			}
		}
		value, err = fn(ctx, args)
	}
	if err == nil {
		text, err = Format(value)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return text, nil
}

// Functions returns the names of the functions that the template calls, sorted and without
// duplicates: check them at start rather than in the first turn.
func (t *template) Functions() []string {
	return t.names(func(n node) (string, bool) { return n.name, n.scope == "" && n.name != "" })
}

// Variables returns the variables that the template reads, as "scope.name", sorted and without
// duplicates. A template without variables, whose functions always return the same, needs to be
// rendered only once.
func (t *template) Variables() []string {
	return t.names(func(n node) (string, bool) { return n.scope + "." + n.name, n.scope != "" })
}

// ShortNames returns the variables that the template writes without a scope, by name, sorted and without duplicates.
func (t *template) ShortNames() []string {
	return t.names(func(n node) (string, bool) { return n.name, n.short })
}

func (t *template) names(of func(n node) (name string, ok bool)) []string {
	var names []string
	for _, n := range t.nodes {
		for _, n := range slices.Concat(n.args, []node{n}) {
			if name, ok := of(n); ok {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

const maxTemplate = 256 << 10 // limits the bytes of a template's text

// parse reads the text of a template. The language is that of Teams AI without its ambiguities.
// Between {{ and }}, white space is optional:
//
//	{{$scope.name}}      a variable
//	{{$name}}            the same in scope temp
//	{{fn}}               the result of a function
//	{{fn word 'a text' $scope.name}}
//	                     with arguments: words, texts, variables
//	{{'{{'}}             a literal text: how to write {{
//	{{}}                 nothing
//
// Texts are quoted with ', " or `. A backslash escapes that quote and a backslash; a }} inside a
// text is text. A quote inside a word is part of the word. An empty text is an argument too.
// Functions do not nest, and }} outside {{ is text.
//
// The error lists each fault on a line, with the position of its block: NAME:LINE:COLUMN, columns
// in characters, both from 1. With it comes a template of the rest, only to find more faults in,
// not for rendering.
func parse(name, text string) (*template, error) {
	t := &template{name: name}
	if len(text) > maxTemplate {
		return t, fmt.Errorf("%s: is over %d bytes", name, maxTemplate)
	}
	var faults []error
	fault := func(rest, what string) {
		before := text[:len(text)-len(rest)]
		column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
		faults = append(faults, fmt.Errorf("%s:%d:%d: %s", name, 1+strings.Count(before, "\n"), column, strings.ReplaceAll(what, "\n", " ")))
	}
	for _, at := range wideBlock.FindAllStringIndex(text, -1) {
		fault(text[at[0]:], "the braces are full-width, so this would be text: write {{ and }}")
	}
	for rest := text; rest != ""; {
		before, _, found := strings.Cut(rest, "{{")
		if before != "" {
			t.nodes = append(t.nodes, node{text: before})
		}
		if rest = rest[len(before):]; !found {
			break
		}
		if parts := block.FindStringSubmatch(rest); parts != nil {
			if n := nodeOf(parts[1]); n.text != "" || n.name != "" {
				t.nodes = append(t.nodes, n)
			}
			rest = rest[len(parts[0]):]
			continue
		}
		inner, behind, closed := strings.Cut(rest, "}}")
		what := fmt.Sprintf("want a $variable, a function with arguments or a quoted text, have %s}}", spelling.Clip(inner))
		if !closed {
			what = "{{ is never closed by }}"
		}
		fault(rest, what)
		rest = behind
	}
	return t, errors.Join(faults...)
}

// The words of the language.
const (
	variableForm = `\$[\pL\pN_-]+(?:\.[\pL\pN_-]+)?`
	quotedForm   = `'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|` + "`(?:\\\\.|[^`\\\\])*`"
	wordForm     = "[^\\s'\"`${](?:[^\\s{]|\\{[^\\s{])*?"
	functionForm = `[\pL_][\pL\pN_.-]*`
	argumentForm = variableForm + "|" + quotedForm + "|"
)

var (
	block = regexp.MustCompile(`(?s)^\{\{\s*(` + variableForm + "|" + quotedForm + "|" + functionForm + `(?:\s+(?:` + argumentForm + wordForm + `))*)?\s*\}\}`)
	// wideBlock matches a variable in the full-width braces that some pages show in place of {{.
	wideBlock = regexp.MustCompile(`｛｛\s*\$`)
	function  = regexp.MustCompile("^" + functionForm)
	argument  = regexp.MustCompile(`(?s)\s+(` + argumentForm + `\S+)`)
)

// nodeOf makes a node from the contents of a block: a variable, a text, or a function with its
// arguments.
func nodeOf(content string) node {
	if text, isVariable := strings.CutPrefix(content, "$"); isVariable {
		if scope, name, found := strings.Cut(text, "."); found {
			return node{scope: scope, name: name}
		}
		return node{scope: "temp", name: text, short: true}
	}
	if content == "" {
		return node{}
	}
	if quote := content[:1]; strings.Contains("'\"`", quote) {
		return node{text: strings.NewReplacer(`\`+quote, quote, `\\`, `\`).Replace(content[1 : len(content)-1])}
	}
	n := node{name: function.FindString(content)}
	for _, parts := range argument.FindAllStringSubmatch(content[len(n.name):], -1) {
		arg := node{text: parts[1]}
		if strings.ContainsAny(arg.text[:1], "$'\"`") {
			arg = nodeOf(arg.text)
		}
		n.args = append(n.args, arg)
	}
	return n
}

// blank reports whether a text would show nothing.
func (t *template) blank() bool {
	return !slices.ContainsFunc(t.nodes, func(n node) bool { return n.name != "" || strings.TrimSpace(n.text) != "" })
}

const maxYAML = 4 << 10 // limits the values that are also tried as YAML

// Format writes a value as a prompt shows it: nil as nothing, text unchanged, a time as RFC 3339,
// numbers and booleans as in JSON. Lists and objects are written as YAML or compact JSON, whichever
// is shorter; JSON in a tie and over 4 KiB. Keys of Go maps are sorted. A [jsontext.Value] is
// written as the value that it encodes. The error is for a value that JSON cannot represent.
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

// shorter writes a list or an object in the shorter form. It uses YAML only if that reads back as
// the very same JSON: the library would round some numbers.
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
