package scenario

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
)

func (v *verdict) actions() {
	want, got := v.expect.Actions, v.seen.calls
	if want == nil {
		return
	}
	same, more := false, v.rest != nil && v.rest.Actions == nil
	switch {
	case v.expect.Order.Either:
		left, ok := inAnyOrder(want, got, v.sameCall)
		same = ok && (more || left == 0)
	case more:
		same = among(want, got, v.sameCall)
	default:
		same = slices.EqualFunc(want, got, v.sameCall)
	}
	if !same {
		v.fault("actions", "got %s, want %s", inLines(v.describeMade(got)), inLines(v.describeActions(want)))
	}
}

// inAnyOrder reports whether each that is wanted is there, and how many others are.
func inAnyOrder[W, G any](want []W, got []G, same func(W, G) bool) (left int, ok bool) {
	rest := slices.Clone(got)
	for _, w := range want {
		i := slices.IndexFunc(rest, func(g G) bool { return same(w, g) })
		if i < 0 {
			return 0, false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return len(rest), true
}

// sameCall compares a call. What a scripted action gave back is what it was told to; of
// others a result is compared if one is given.
func (v *verdict) sameCall(want Action, got made) bool {
	if want.Action != got.action || !equalEntities(want.Entities, got.entities) {
		return false
	}
	if v.cfg.Scripted {
		return true
	}
	result := textOf(want.Result)
	if want.Unchanged != nil {
		result = *want.Unchanged
	}
	return got.failed == (want.Error != nil) && (result == "" || got.failed || result == got.result)
}

func equalEntities(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || equalJSON(a, b)
}

// equalJSON compares JSON values, numbers exactly.
func equalJSON(a, b any) bool { return reflect.DeepEqual(normal(a), normal(b)) }

// normal writes equal JSON values in one form.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, one := range v {
			out[name] = normal(one)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = normal(one)
		}
		return out
	case json.Number:
		return exact(v.String())
	case float64, float32, int, int64:
		return exact(fmt.Sprint(v))
	}
	return v
}

// fraction is a number, so that 1.5e3 is 1500. It is no text that looks like one.
type fraction string

// exact is the number as a fraction. One that is too large for that is only equal as it is
// written.
func exact(number string) fraction {
	const most = 1 << 10
	if i := strings.IndexAny(number, "eE"); len(number) > most || i >= 0 && len(number)-i > 5 {
		return fraction(number)
	}
	if r, ok := new(big.Rat).SetString(number); ok {
		return fraction(r.RatString())
	}
	return fraction(number)
}

func (v *verdict) state() {
	e := v.expect
	if e.State != nil {
		v.lists("state", v.conversation, *e.State)
	}
	for _, id := range sortedKeys(e.StateByConversation) {
		v.lists("state_by_conversation."+id, id, e.StateByConversation[id])
	}
	if e.StateUnchanged != nil {
		for _, id := range v.conversations() {
			if same := equalLists(v.stage.kept[id], v.kept(id), false); same != *e.StateUnchanged {
				v.fault("state_unchanged", "got %t, want %t: the lists of %s were %s and are %s", same, *e.StateUnchanged, id, asJSON(v.stage.kept[id]), asJSON(v.kept(id)))
			}
		}
	}
}

// conversations are those of the events that are judged.
func (v *verdict) conversations() (ids []string) {
	for _, e := range v.events {
		ids = append(ids, e.Event.Conversation)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (v *verdict) lists(field, conversation string, want State) {
	got := v.kept(conversation)
	if !equalLists(want.Lists, got, v.expect.Order.Either) {
		v.fault(field, "the lists are %s, want %s", asJSON(got), asJSON(want.Lists))
	}
}

// equalLists compares lists, of which the items may be in any order.
func equalLists(a, b map[string][]string, anyOrder bool) bool {
	return maps.EqualFunc(a, b, func(a, b []string) bool {
		if anyOrder {
			a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
		}
		return slices.Equal(a, b)
	})
}

func texts(replies []reply) []string {
	all := []string{}
	for _, one := range replies {
		all = append(all, one.String())
	}
	return all
}

// describe says what was called and, where results are real, what came of it.
func (v *verdict) describe(action string, entities map[string]any, result string, failed bool) string {
	if entities == nil {
		entities = map[string]any{}
	}
	text := action + " " + asJSON(entities)
	switch {
	case v.cfg.Scripted:
	case failed:
		text += " failed"
	case result != "":
		text += " = " + result
	}
	return text
}

func (v *verdict) describeMade(calls []made) []string {
	all := []string{}
	for _, c := range calls {
		all = append(all, v.describe(c.action, c.entities, c.result, c.failed))
	}
	return all
}

func (v *verdict) describeActions(calls []Action) []string {
	all := []string{}
	for _, c := range calls {
		all = append(all, v.describe(c.Action, c.Entities, textOf(c.Result), c.Error != nil))
	}
	return all
}

func asJSON(v any) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// inLines shows a list of texts, long ones shortened.
func inLines(list []string) string {
	const most = 300
	var out []string
	for _, one := range list {
		if len(one) > most {
			one = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(one[:most], ""), len(one))
		}
		out = append(out, fmt.Sprintf("%q", one))
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// common is how many bytes two texts begin with alike.
func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
