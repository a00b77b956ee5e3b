package skills

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/planbot-go/planbot/internal/yamltext"
)

// maxTokens of YAML are taken. The parser's time grows with the square of the depth, so
// this is what bounds it.
const maxTokens = 4096

// firstLine is the line of SKILL.md on which the YAML begins.
const firstLine = 2

// field is one field of the front matter.
type field struct {
	name string
	line int
	node ast.Node
}

// readFields reads the front matter as a mapping. ok is false when it is none. What is no
// YAML and can be mended is read on also in strict mode, to find the other faults.
func readFields(f *faults, head string) (fields map[string]field, ok bool) {
	root, line, err := parseYAML(head)
	if err != nil {
		mended, mends, failed := mendYAML(f, head)
		if failed != nil {
			f.add(line, "Invalid YAML in frontmatter: %v", err)
			return nil, false
		}
		root, f.list = mended, append(f.list, mends...)
	}
	mapping, is := root.(*ast.MappingNode)
	if !is {
		f.add(firstLine, "frontmatter must be a YAML mapping")
		return nil, false
	}
	return fieldsOf(f, mapping), true
}

// fieldsOf lists the entries of a mapping by name. The last one of a name counts.
func fieldsOf(f *faults, mapping *ast.MappingNode) map[string]field {
	fields := map[string]field{}
	for _, entry := range mapping.Values {
		line := lineOf(entry.Key)
		name, ok := plainKey(entry.Key)
		if !ok {
			f.mend(line, "Unexpected fields: the key %s is no plain text", quoted(entry.Key.String()))
			continue
		}
		if before, twice := fields[name]; twice {
			f.mend(line, "%s is given twice, first in line %d", quoted(name), before.line)
		}
		fields[name] = field{name, line, entry.Value}
	}
	return fields
}

func plainKey(key ast.MapKeyNode) (string, bool) {
	if _, merge := key.(*ast.MergeKeyNode); merge {
		return "", false
	}
	return textOf(key)
}

// parseYAML returns the root of the document, nil for an empty one, or the line of SKILL.md
// and what is wrong in it.
func parseYAML(text string) (root ast.Node, line int, err error) {
	root, err = yamltext.Parse(text, maxTokens, parser.AllowDuplicateMapKey())
	if fault, ok := errors.AsType[*yamltext.Error](err); ok {
		return nil, fault.Line + firstLine - 1, fault.Err
	}
	return root, 0, nil
}

func lineOf(node ast.Node) int { return yamltext.Line(node) + firstLine - 1 }

// textOf is a scalar as it was written: neither numbers nor words such as true are more
// than text here. Anchors, aliases and tags are none.
func textOf(node ast.Node) (string, bool) {
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

// scalar is the value of a field that has one text, without white space around it.
func (v field) scalar(f *faults) string {
	text, ok := textOf(v.node)
	if !ok {
		f.mend(v.line, "%s has to be one text, not %s", v.name, kindOf(v.node))
	}
	return strings.TrimSpace(text)
}

// texts is the value of a field that has texts by name.
func (v field) texts(f *faults) map[string]string {
	mapping, ok := v.node.(*ast.MappingNode)
	if !ok {
		f.mend(v.line, "%s has to be a mapping of texts to texts, not %s", v.name, kindOf(v.node))
		return nil
	}
	texts := map[string]string{}
	entries := fieldsOf(f, mapping)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		entry := entries[name]
		text, ok := textOf(entry.node)
		if !ok {
			f.mend(entry.line, "%s: the value of %s has to be a text, not %s", v.name, quoted(name), kindOf(entry.node))
			continue
		}
		texts[name] = text
	}
	return texts
}

// tools is the value of a field that lists tools: one text, or, as many write it, a list.
func (v field) tools(f *faults) []string {
	list, isList := v.node.(*ast.SequenceNode)
	if !isList {
		return splitTools(v.scalar(f))
	}
	f.warn(v.line, "%s is a list; the specification has one text with spaces between the tools", v.name)
	tools := []string{} // which is not to say nothing of them
	for _, node := range list.Values {
		text, ok := textOf(node)
		if !ok {
			f.mend(lineOf(node), "%s has to list texts, not %s", v.name, kindOf(node))
			continue
		}
		tools = append(tools, splitTools(text)...)
	}
	return tools
}

func kindOf(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias"
	case *ast.TagNode:
		return "a tagged value"
	}
	return "something else"
}
