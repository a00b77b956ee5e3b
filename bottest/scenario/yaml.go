package scenario

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// yamlToJSON writes YAML as JSON. Its objects may have a name twice, of which the last
// counts; in YAML itself there is no such thing, but for what a merge brings. Aliases may make of a small file one that fills the
// memory, so what they stand for is weighed first.
func yamlToJSON(data []byte) ([]byte, error) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, fmt.Errorf("no YAML: %w", err)
	}
	if len(file.Docs) > 1 {
		return nil, errors.New("there is more than one document in it")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return []byte("null"), nil
	}
	body := file.Docs[0].Body
	if (weigher{}).weigh(body) > maxFileBytes {
		return nil, fmt.Errorf("with what its aliases stand for it has more than %d bytes", maxFileBytes)
	}
	ast.Walk(mergesFirst{}, body)
	var tree any
	if err := yaml.NodeToValue(body, &tree, yaml.UseOrderedMap()); err != nil {
		return nil, fmt.Errorf("no YAML: %w", err)
	}
	if data, err = yaml.MarshalWithOptions(tree, yaml.JSON()); err != nil {
		return nil, fmt.Errorf("no YAML: %w", err)
	}
	return data, nil
}

// mergesFirst puts "<<: *other" in front of a mapping's own fields, so that of two of one
// name the mapping's own comes last, and counts.
type mergesFirst struct{}

// Visit is for [ast.Walk].
func (m mergesFirst) Visit(node ast.Node) ast.Visitor {
	if mapping, ok := node.(*ast.MappingNode); ok {
		own := func(v *ast.MappingValueNode) int {
			if v.Key.IsMergeKey() {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(mapping.Values, func(a, b *ast.MappingValueNode) int { return own(a) - own(b) })
	}
	return m
}

// weigher knows the weights of anchors by their names.
type weigher map[string]int

// perNode is about what a node needs beside its text.
const perNode = 16

// weigh returns about how large a node is with all aliases written out.
func (w weigher) weigh(node ast.Node) int {
	sum := perNode
	add := func(n int) { sum = min(sum+n, 2*maxFileBytes) } // and no further
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
