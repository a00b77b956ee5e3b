package state_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/state"
)

// maker makes JSON values and changes of them. No two strings that it makes are
// alike, and nothing is empty, so that each element can be told where it came from.
type maker struct {
	*rand.Rand
	made  int
	swaps bool // elements change places
}

func (m *maker) word() string { m.made++; return fmt.Sprintf("w%d", m.made) }

func (m *maker) value(depth int) any {
	switch kind := m.IntN(6); {
	case depth == 0, kind < 2:
		return m.word()
	case kind < 4:
		list := []any{m.word()}
		for range m.IntN(4) {
			list = append(list, m.value(depth-1))
		}
		return list
	default:
		object := map[string]any{"w": m.word()}
		for range m.IntN(4) {
			object[fmt.Sprintf("m%d", m.IntN(5))] = m.value(depth - 1)
		}
		if kind == 4 {
			object["id"] = m.word()
		}
		return object
	}
}

// change makes another value of v, and leaves v as it is.
func (m *maker) change(v any) any {
	switch v := v.(type) {
	case []any:
		return m.changeList(v)
	case map[string]any:
		changed := maps.Clone(v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			switch kind := m.IntN(6); {
			case name == "id", name == "w":
			case kind == 0:
				delete(changed, name)
			case kind < 3:
				changed[name] = m.change(v[name])
			}
		}
		if m.IntN(3) == 0 {
			changed[fmt.Sprintf("m%d", m.IntN(5))] = m.value(1)
		}
		return changed
	}
	return m.word()
}

func (m *maker) changeList(list []any) any {
	changed := []any{m.word()}
	for _, e := range list {
		switch m.IntN(8) {
		case 0:
		case 1:
			changed = append(changed, m.change(e))
		case 2:
			changed = append(changed, m.value(1), e)
		default:
			changed = append(changed, e)
		}
	}
	if m.swaps && len(changed) > 1 && m.IntN(4) == 0 {
		i, j := m.IntN(len(changed)), m.IntN(len(changed))
		changed[i], changed[j] = changed[j], changed[i]
	}
	for range m.IntN(3) {
		changed = append(changed, m.value(1))
	}
	return changed
}

func encode(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// sorted is the JSON raw with the members of objects in order.
func sorted(t *testing.T, raw string) string {
	t.Helper()
	if raw == "" {
		return ""
	}
	var v any
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatal(err)
	}
	return encode(t, v)
}

func TestMergeKeepsItsLaws(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1500) {
		m := maker{Rand: rand.New(rand.NewPCG(seed, 0)), swaps: seed%2 == 0}
		v := m.value(4)
		was, ours, theirs := encode(t, v), encode(t, m.change(v)), encode(t, m.change(v))
		if seed%10 < 2 {
			theirs = ""
		}
		for _, certain := range []bool{false, true} {
			merge := func(was, ours, theirs string) string { return state.Merge(was, ours, theirs, certain) }
			merged := merge(was, ours, theirs)
			for _, law := range []struct{ name, got, want string }{
				{"ours alone", merge(was, ours, was), ours},
				{"theirs alone", merge(was, was, theirs), theirs},
				{"both alike", merge(was, ours, ours), ours},
				{"once more", merge(was, ours, merged), merged},
			} {
				if law.name == "once more" && m.swaps {
					continue // what was moved is taken for new the second time
				}
				if sorted(t, law.got) != sorted(t, law.want) {
					t.Fatalf("seed %d, %s:\n   was %s\n  ours %s\ntheirs %s\nmerged %s\n   got %s\n  want %s",
						seed, law.name, was, ours, theirs, merged, law.got, law.want)
				}
			}
		}
	}
}

func TestMergeOfListsLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1500) {
		m := maker{Rand: rand.New(rand.NewPCG(seed, 1)), swaps: seed%2 == 0}
		var was []string
		for range m.IntN(8) {
			was = append(was, m.word())
		}
		ours, theirs := m.changeWords(was), m.changeWords(was)
		var merged []string
		raw := state.Merge(encode(t, was), encode(t, ours), encode(t, theirs), true)
		if err := json.Unmarshal([]byte(raw), &merged); err != nil {
			t.Fatal(err)
		}
		for _, w := range slices.Concat(was, ours, theirs) {
			count := len(slices.DeleteFunc(slices.Clone(merged), func(o string) bool { return o != w }))
			inOurs, inTheirs := slices.Contains(ours, w), slices.Contains(theirs, w)
			want := 0
			if inOurs && inTheirs || !slices.Contains(was, w) {
				want = 1
			}
			if count != want && !(m.swaps && count == 1 && (inOurs || inTheirs)) { // a move counts as a change
				t.Fatalf("seed %d: %v to %v and to %v gave %v: %s is there %d times, not %d", seed, was, ours, theirs, merged, w, count, want)
			}
		}
		if m.swaps {
			continue
		}
		for _, side := range [][]string{ours, theirs} {
			kept := slices.DeleteFunc(slices.Clone(merged), func(w string) bool { return !slices.Contains(side, w) })
			wanted := slices.DeleteFunc(slices.Clone(side), func(w string) bool { return !slices.Contains(merged, w) })
			if !slices.Equal(kept, wanted) {
				t.Fatalf("seed %d: %v to %v and to %v gave %v, in another order", seed, was, ours, theirs, merged)
			}
		}
	}
}

// changeWords takes away, from the front more often, and adds.
func (m *maker) changeWords(words []string) []string {
	words = slices.Clone(words)
	words = words[min(len(words), max(0, m.IntN(6)-3)):]
	words = slices.DeleteFunc(words, func(string) bool { return m.IntN(6) == 0 })
	for range m.IntN(3) {
		words = slices.Insert(words, m.IntN(len(words)+1), m.word())
	}
	for range m.IntN(3) {
		words = append(words, m.word())
	}
	if m.swaps && len(words) > 0 {
		i, j := m.IntN(len(words)), m.IntN(len(words))
		words[i], words[j] = words[j], words[i]
	}
	return words
}

type thing struct {
	ID   string   `json:"id"`
	Text string   `json:"text"`
	Tags []string `json:"tags"`
}

func TestMergeOfThingsKeepsEachOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1500) {
		m := maker{Rand: rand.New(rand.NewPCG(seed, 2)), swaps: true}
		var was []thing
		for range m.IntN(6) {
			was = append(was, m.thing())
		}
		ours, theirs := m.changeThings(was), m.changeThings(was)
		var merged []thing
		raw := state.Merge(encode(t, was), encode(t, ours), encode(t, theirs), true)
		if err := json.Unmarshal([]byte(raw), &merged); err != nil {
			t.Fatal(err)
		}
		o, th, all := things(ours), things(theirs), things(merged)
		if len(all) != len(merged) {
			t.Fatalf("seed %d: one is there twice\n%v\n%v\n%v\n%v", seed, was, ours, theirs, merged)
		}
		for id, x := range things(slices.Concat(was, ours, theirs)) {
			got, there := all[id]
			_, old := things(was)[id]
			ox, inOurs := o[id]
			tx, inTheirs := th[id]
			if must := inOurs && inTheirs || !old; must && !there || !inOurs && !inTheirs && there {
				t.Fatalf("seed %d: %v is there: %v\n%v\n%v\n%v\n%v", seed, x, there, was, ours, theirs, merged)
			}
			for _, tag := range slices.Concat(ox.Tags, tx.Tags) {
				if there && !slices.Contains(got.Tags, tag) {
					t.Fatalf("seed %d: %s is missing\n%v\n%v\n%v\n%v", seed, tag, was, ours, theirs, merged)
				}
			}
		}
	}
}

func things(list []thing) map[string]thing {
	things := map[string]thing{}
	for _, x := range list {
		things[x.ID] = x
	}
	return things
}

func (m *maker) thing() thing { return thing{m.word(), m.word(), []string{m.word()}} }

// changeThings takes away, changes, adds and moves, and adds tags only.
func (m *maker) changeThings(list []thing) []thing {
	list = slices.Clone(list)
	list = slices.DeleteFunc(list, func(thing) bool { return m.IntN(5) == 0 })
	for i := range list {
		switch m.IntN(4) {
		case 0:
			list[i].Text = m.word()
		case 1:
			list[i].Tags = append(slices.Clone(list[i].Tags), m.word())
		}
	}
	for range m.IntN(3) {
		list = slices.Insert(list, m.IntN(len(list)+1), m.thing())
	}
	m.Shuffle(min(len(list), m.IntN(4)), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
