package state_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/state"
)

// Names of the tables' columns: what was, what we made of it, what they made of
// it, what becomes of that; nothing is no value.
type threeWay struct{ was, ours, theirs, want string }

func TestMerge(t *testing.T) {
	t.Parallel()
	for name, table := range map[string][]threeWay{
		"one side": {
			{`1`, `1`, `2`, `2`},
			{`1`, `2`, `1`, `2`},
			{``, `{"a":1}`, ``, `{"a":1}`},
			{``, ``, `{"a":1}`, `{"a":1}`},
			{`{"a":1}`, ``, `{"a":1}`, ``},
			{`{"a":1}`, `{"a":1}`, ``, ``},
			{`{"a":1,"b":2}`, `{"b":2,"a":1}`, `[]`, `[]`},
		},
		"scalars": {
			{`"a"`, `"b"`, `"c"`, `"b"`},
			{`"a"`, `"b"`, `"b"`, `"b"`},
			{`1`, `"b"`, `2`, `"b"`},
			{`true`, `null`, `false`, `null`},
			{`1`, `[1]`, `{"a":1}`, `[1]`},
			{`1.5`, `2.5`, `3.5`, `2.5`},
		},
		"counts": {
			{`5`, `6`, `7`, `8`},
			{`5`, `6`, `6`, `7`},
			{`5`, `4`, `2`, `1`},
			{``, `1`, `2`, `3`},
			{`{"n":1}`, `{"n":2}`, `{"n":3}`, `{"n":4}`},
			{`1`, `2.5`, `2`, `2.5`},
			{`1760000000`, `1760000001`, `1760000002`, `1760000001`},
			{`1`, `9223372036854775807`, `2`, `9223372036854775807`},
		},
		"objects": {
			{`{"a":1,"b":2}`, `{"a":"x","b":2}`, `{"a":1,"b":"y"}`, `{"a":"x","b":"y"}`},
			{`{}`, `{"a":"x"}`, `{"b":"y"}`, `{"b":"y","a":"x"}`},
			{``, `{"a":"x"}`, `{"b":"y"}`, `{"b":"y","a":"x"}`},
			{`{"a":1,"b":2}`, `{"a":1}`, `{"a":"y","b":2}`, `{"a":"y"}`},
			{`{"a":{"b":{"c":"1","d":"1"}}}`, `{"a":{"b":{"c":"2","d":"1"}}}`, `{"a":{"b":{"c":"1","d":"2"}}}`, `{"a":{"b":{"c":"2","d":"2"}}}`},
			{`{"a":{}}`, `{"a":null}`, `{"a":{"b":1}}`, `{"a":null}`},
		},
		"arrays": {
			{`["a"]`, `["a","b"]`, `["a","c"]`, `["a","c","b"]`},
			{`[]`, `["b"]`, `["c"]`, `["c","b"]`},
			{``, `["b"]`, `["c","b"]`, `["c","b"]`},
			{`["a","b","c"]`, `["b","c"]`, `["a","b"]`, `["b"]`},
			{`["a","b","c"]`, `["a","x","c"]`, `["a","b","c","d"]`, `["a","x","c","d"]`},
			{`["a"]`, `["b"]`, `["c"]`, `["c","b"]`},
			{`["a"]`, `["x","a"]`, `["y","a"]`, `["x","y","a"]`},
			{`["a"]`, `["a","b"]`, `["a","b","c"]`, `["a","b","c"]`},
			{`["a"]`, `["a","a"]`, `["a","c"]`, `["a","c","a"]`},
			{`["a","b","c"]`, `["c","a","b"]`, `["a","b","c","d"]`, `["c","a","b","d"]`},
			{`[{"a":1,"b":2}]`, `[{"b":2,"a":1},"x"]`, `[]`, `["x"]`},
			{`[["a"]]`, `[["a","b"]]`, `[["a"],["c"]]`, `[["a","b"],["c"]]`},
			{`[41.9,12.5]`, `[48.8,2.3]`, `[52.5,13.4]`, `[48.8,2.3]`},
			{`[1,2]`, `[1,2,3]`, `[1,2,4]`, `[1,2,4,3]`},
		},
		"histories": {
			{`["1","2","3"]`, `["2","3","4"]`, `["2","3","5"]`, `["2","3","5","4"]`},
			{`["1","2","3"]`, `["2","3","4"]`, `["3","5","6"]`, `["3","5","6","4"]`},
			{`["1","2","3"]`, `["2","3","4"]`, `["5","6","7"]`, `["5","6","7","4"]`},
			{`["1","2","3"]`, `["5","6","7"]`, `["2","3","4"]`, `["5","6","7","4"]`},
			{`["ok","a","b"]`, `["a","b","c"]`, `["a","b","ok"]`, `["a","b","ok","c"]`},
			{`["ok","a","b"]`, `["a","b","ok"]`, `["a","b","c"]`, `["a","b","c","ok"]`},
			{`["ok","ok","ok"]`, `["ok","ok","x"]`, `["ok","ok","y"]`, `["ok","ok","y","x"]`},
			{`[1,2,3]`, `[2,3,4]`, `[2,3,5]`, `[2,3,5,4]`},
		},
		"elements with an id": {
			{
				`[{"id":1,"t":"a"},{"id":2,"t":"b"}]`, `[{"id":1,"t":"a","done":true},{"id":2,"t":"b"}]`, `[{"id":1,"t":"A"},{"id":2,"t":"b"},{"id":3}]`,
				`[{"id":1,"t":"A","done":true},{"id":2,"t":"b"},{"id":3}]`,
			},
			{`[{"ID":"x","t":"a"}]`, `[{"ID":"x","t":"b"}]`, `[]`, `[{"ID":"x","t":"b"}]`},
			{`[{"ID":"x","t":"a"}]`, `[]`, `[{"ID":"x","t":"b"}]`, `[{"ID":"x","t":"b"}]`},
			{`[]`, `[{"id":3,"t":"milk"}]`, `[{"id":3,"t":"eggs"}]`, `[{"id":3,"t":"eggs"},{"id":3,"t":"milk"}]`},
		},
		"taken away and changed": {
			{`{"a":{"b":1,"c":"2"}}`, `{"a":{"b":1,"c":"3"}}`, `{}`, `{"a":{"b":1,"c":"3"}}`},
			{`{"a":{"b":1,"c":"2"}}`, `{}`, `{"a":{"b":1,"c":"3"}}`, `{"a":{"b":1,"c":"3"}}`},
			{`{"a":["1","2"]}`, `{"a":["1","2","3"]}`, `{}`, `{"a":["3"]}`},
			{`{"a":["1","2"]}`, `{"a":["2"]}`, `{}`, `{}`},
		},
		"all of it taken away": {
			{`["1","2"]`, `["2","3"]`, ``, `["3"]`},
			{`["1","2"]`, `["2"]`, ``, ``},
			{`{"name":"Mia","city":"Rome"}`, `{"name":"Mia","city":"Paris"}`, ``, `{"city":"Paris"}`},
			{`{"name":"Mia","city":"Rome"}`, ``, `{"name":"Mia","city":"Paris"}`, `{"city":"Paris"}`},
			{`{"p":{"name":"Mia","city":"Rome"},"l":["a"]}`, `{"p":{"name":"Mia","city":"Rome","age":7},"l":["a","b"]}`, ``, `{"p":{"age":7},"l":["b"]}`},
			{`{"a":1,"b":2}`, `{"a":1}`, ``, ``},
			{`"a"`, `"b"`, ``, `"b"`},
		},
		"no JSON": {
			{`{`, `}`, `]`, `}`},
			{`{"a":1}`, `{"a":1,"a":2}`, `{"a":2}`, `{"a":1,"a":2}`},
			{`{"a":1}`, `{"a":1} x`, `{"a":2}`, `{"a":1} x`},
		},
	} {
		for _, c := range table {
			if got := state.Merge(c.was, c.ours, c.theirs, true); got != c.want {
				t.Errorf("%s: %s to %s and to %s\n gave %s\n want %s", name, c.was, c.ours, c.theirs, got, c.want)
			}
		}
	}
}

func TestMergeOfAKeptChange(t *testing.T) {
	t.Parallel()
	for _, c := range []threeWay{
		{`5`, `6`, `6`, `6`}, // it arrived
		{`5`, `6`, `5`, `6`},
		{`5`, `6`, `9`, `10`},
		{`{"n":5,"l":["a"]}`, `{"n":6,"l":["a","b"]}`, `{"n":6,"l":["a","b","c"]}`, `{"n":6,"l":["a","b","c"]}`},
	} {
		if got := state.Merge(c.was, c.ours, c.theirs, false); got != c.want {
			t.Errorf("%s to %s and to %s gave %s, want %s", c.was, c.ours, c.theirs, got, c.want)
		}
	}
}

func TestMergeOfLargeArraysIsQuick(t *testing.T) {
	t.Parallel()
	const n = 20_000
	array := func(element func(i int) string) string {
		var all []string
		for i := range n {
			all = append(all, element(i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	up := array(func(i int) string { return fmt.Sprint(i) })
	down := array(func(i int) string { return fmt.Sprint(n - i) })
	few := array(func(i int) string { return fmt.Sprint(i % 3) })
	other := array(func(i int) string { return fmt.Sprint(i * i % 7) })
	deep := strings.Repeat("[", 9000) + "1" + strings.Repeat("]", 9000)
	for _, c := range [][3]string{{up, down, few}, {few, up, other}, {few, other, down}, {deep, up, deep[:9000] + "2" + deep[9001:]}} {
		if got := state.Merge(c[0], c[1], c[2], true); len(got) < 1000 {
			t.Errorf("merged to %s", got)
		}
	}
}

// FuzzMerge holds the merge to its laws, whatever the three values are.
func FuzzMerge(f *testing.F) {
	for _, c := range []threeWay{
		{`{"n":1,"l":[1,"a",{"id":1}]}`, `{"n":2,"l":["a",{"id":1,"x":[]}]}`, `{"l":[1,"a","b",{"id":2}]}`, ``},
		{`["a","b","a"]`, `["b","a","a"]`, `["c","a"]`, ``},
		{`[[1],[1,2],{"":{}}]`, `[]`, `{"a":null}`, ``},
		{`5`, `6`, `"\u0061"`, ``},
		{``, `{"a":{"b":[1e3]}}`, `{"a":{"b":[1000]}}`, ``},
	} {
		f.Add(c.was, c.ours, c.theirs)
	}
	f.Fuzz(func(t *testing.T, was, ours, theirs string) {
		for _, certain := range []bool{false, true} {
			merged := state.Merge(was, ours, theirs, certain)
			if again := state.Merge(was, ours, theirs, certain); again != merged {
				t.Fatalf("%q, then %q", merged, again)
			}
			wantSame(t, "ours alone", state.Merge(was, ours, was, certain), ours)
			wantSame(t, "theirs alone", state.Merge(was, was, theirs, certain), theirs)
		}
		wantSame(t, "both alike", state.Merge(was, ours, ours, false), ours)
	})
}

// wantSame checks that both are equal as JSON, or the same text where it is none.
func wantSame(t *testing.T, what, got, want string) {
	t.Helper()
	var g, w any
	if json.Unmarshal([]byte(want), &w) != nil {
		raw := jsontext.Value(want)
		_ = raw.Compact() // what is nearly JSON is compacted, the rest is left alone
		w = string(raw)
	}
	if json.Unmarshal([]byte(got), &g) != nil {
		g = got
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Fatalf("%s: %s", what, diff)
	}
}
