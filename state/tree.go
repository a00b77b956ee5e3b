package state

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// none stands for a value that is not there.
const none = -1

// forest holds JSON values as one flat list of nodes, each before its children,
// so that a large value is read in one pass and costs little memory.
//
// Nodes that are equal as JSON have the same id, whatever the order of their
// members: an id is given to each scalar, and to each list of children's ids.
type forest struct {
	nodes   []node
	ids     map[string]int32
	scratch []byte
}

type node struct {
	text string // the JSON it was read from
	id   int32
	key  int32 // in an array: elements with the same key are the same one, maybe changed
	next int32 // after its last child
	kind jsontext.Kind
}

// add reads a value and returns where it is. What is not JSON is kept as a
// scalar of its own, equal to the same text only.
func (f *forest) add(value jsontext.Value) int {
	if value == nil {
		return none
	}
	if f.ids == nil {
		f.ids = map[string]int32{}
	}
	root, text := len(f.nodes), string(value)
	dec := jsontext.NewDecoder(bytes.NewBuffer(value))
	err := f.read(dec, text)
	if err == nil && strings.Trim(text[dec.InputOffset():], " \t\r\n") == "" {
		return root
	}
	id := f.id("!" + text)
	f.nodes = append(f.nodes[:root], node{text: text, id: id, key: id, next: int32(root + 1)})
	return root
}

func (f *forest) read(dec *jsontext.Decoder, text string) error {
	kind := dec.PeekKind()
	if kind != jsontext.KindBeginObject && kind != jsontext.KindBeginArray {
		return f.readScalar(dec, text, kind)
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	at, start := len(f.nodes), dec.InputOffset()-1
	f.nodes = append(f.nodes, node{kind: kind})
	for {
		end := dec.PeekKind()
		if end == jsontext.KindEndObject || end == jsontext.KindEndArray {
			break
		}
		if err := f.read(dec, text); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	n := &f.nodes[at]
	n.text, n.next = text[start:dec.InputOffset()], int32(len(f.nodes))
	if kind == jsontext.KindBeginArray {
		f.closeArray(at)
	} else {
		f.closeObject(at)
	}
	return nil
}

func (f *forest) readScalar(dec *jsontext.Decoder, text string, kind jsontext.Kind) error {
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	end := int(dec.InputOffset())
	text = text[end-len(raw) : end]
	name := text
	if kind == jsontext.KindString && strings.Contains(text, `\`) {
		unquoted, err := jsontext.AppendUnquote([]byte{'"'}, raw)
		if err != nil {
			return err
		}
		name = string(append(unquoted, '"'))
	}
	id := f.id(name)
	f.nodes = append(f.nodes, node{kind: kind, text: text, id: id, key: id, next: int32(len(f.nodes) + 1)})
	return nil
}

func (f *forest) closeArray(at int) {
	name := append(f.scratch[:0], '[')
	for i := range f.children(at) {
		name = binary.AppendVarint(name, int64(f.nodes[i].id))
	}
	f.scratch = name
	id := f.idOf(name)
	f.nodes[at].id, f.nodes[at].key = id, id
}

// closeObject gives an object its id and its key: that of its member "id", if
// it has one that is a string or a number.
func (f *forest) closeObject(at int) {
	var members [][2]int32
	own := int32(none)
	for name, i := range f.members(at) {
		n := f.nodes[i]
		members = append(members, [2]int32{f.nodes[name].id, n.id})
		if strings.EqualFold(f.nodes[name].text, `"id"`) && (n.kind == jsontext.KindString || n.kind == jsontext.KindNumber) {
			own = n.id
		}
	}
	slices.SortFunc(members, func(a, b [2]int32) int { return cmp.Compare(a[0], b[0]) })
	name := append(f.scratch[:0], '{')
	for _, m := range members {
		name = binary.AppendVarint(binary.AppendVarint(name, int64(m[0])), int64(m[1]))
	}
	id := f.idOf(name)
	f.nodes[at].id, f.nodes[at].key = id, id
	if own != none {
		name = binary.AppendVarint(append(name[:0], '#'), int64(own))
		f.nodes[at].key = f.idOf(name)
	}
	f.scratch = name
}

func (f *forest) idOf(name []byte) int32 {
	if id, ok := f.ids[string(name)]; ok {
		return id
	}
	return f.id(string(name))
}

func (f *forest) id(name string) int32 {
	id, ok := f.ids[name]
	if !ok {
		id = int32(len(f.ids))
		f.ids[name] = id
	}
	return id
}

// children are an array's elements.
func (f *forest) children(at int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := at + 1; i < int(f.nodes[at].next) && yield(i); i = int(f.nodes[i].next) {
		}
	}
}

// members are an object's names and values.
func (f *forest) members(at int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for i := at + 1; i < int(f.nodes[at].next) && yield(i, i+1); i = int(f.nodes[i+1].next) {
		}
	}
}
