package turnlog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/plainjson"
)

// maxChanges limits what one comparison lists.
const maxChanges = 200

// Compare lists what differs between two states, by path, sorted. by says who changed it.
func Compare(before, after turn.State, by string) []Change {
	c := comparison{by: by}
	for _, scope := range keys(before, after) {
		for _, name := range keys(before[scope], after[scope]) {
			was, is := before[scope][name], after[scope][name]
			if !bytes.Equal(was, is) {
				c.compare(scope+"."+name, read(was), read(is))
			}
		}
	}
	if len(c.all) > maxChanges {
		more := len(c.all) - maxChanges
		c.all = append(c.all[:maxChanges], Change{Path: fmt.Sprintf("and %d more", more), By: by})
	}
	return c.all
}

type comparison struct {
	by  string
	all []Change
}

// none stands for a value that is not there.
type none struct{}

func read(raw []byte) any {
	if len(raw) == 0 {
		return none{}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(raw)
	}
	return v
}

func (c *comparison) compare(path string, was, is any) {
	if reflect.DeepEqual(was, is) {
		return
	}
	wasMap, ok1 := was.(map[string]any)
	isMap, ok2 := is.(map[string]any)
	if (ok1 || was == none{}) && (ok2 || is == none{}) && len(wasMap)+len(isMap) > 0 {
		for _, key := range keys(wasMap, isMap) {
			c.compare(path+"."+key, member(wasMap, key), member(isMap, key))
		}
		return
	}
	wasList, ok1 := was.([]any)
	isList, ok2 := is.([]any)
	if (ok1 || was == none{}) && (ok2 || is == none{}) && len(wasList)+len(isList) > 0 {
		for i := range max(len(wasList), len(isList)) {
			c.compare(fmt.Sprintf("%s[%d]", path, i), item(wasList, i), item(isList, i))
		}
		return
	}
	c.all = append(c.all, Change{Path: path, Before: written(was), After: written(is), By: c.by})
}

func member(of map[string]any, key string) any {
	if v, ok := of[key]; ok {
		return v
	}
	return none{}
}

func item(of []any, i int) any {
	if i < len(of) {
		return of[i]
	}
	return none{}
}

func written(v any) string {
	if v == (none{}) {
		return ""
	}
	return plainjson.Text(v)
}

// keys are those of both maps, sorted.
func keys[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
