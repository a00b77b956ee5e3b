package scenario

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// yamlToJSON writes YAML as JSON. Aliases may make of a small file one that fills the
// memory, so what they stand for is weighed first.
func yamlToJSON(data []byte) ([]byte, error) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, fmt.Errorf("no YAML: %w", err)
	}
	if len(file.Docs) > 1 {
		return nil, errors.New("there is more than one document in it")
	}
	w := weigher{}
	for _, doc := range file.Docs {
		if doc.Body != nil && w.weigh(doc.Body) > maxFileBytes {
			return nil, fmt.Errorf("with what its aliases stand for it has more than %d bytes", maxFileBytes)
		}
	}
	if data, err = yaml.YAMLToJSON(data); err != nil {
		return nil, fmt.Errorf("no YAML: %w", err)
	}
	return data, nil
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
