package eval

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// Verdict is how good a plan is.
type Verdict struct {
	// Action says that the plan has the wanted actions, in their order, and none that is
	// unwanted.
	Action bool `json:"action"`
	// Entities says that they are called with the wanted entities, too: all is right.
	Entities bool `json:"entities"`
	// Unwanted are the actions of the plan that it should not have.
	Unwanted []string `json:"unwanted,omitempty"`
}

// Judge compares the plan with the wanted ones, and returns the verdict by that of them
// which it comes closest to. asked is when the model was asked, for times that are wanted.
func (c *Case) Judge(p plan.Plan, registry *actions.Registry, asked time.Time) Verdict {
	var best Verdict
	for i, want := range c.Want {
		v := c.compare(dosOf(p), want, registry, comparison{asked})
		if i == 0 || v.rank() > best.rank() || v.rank() == best.rank() && len(v.Unwanted) < len(best.Unwanted) {
			best = v
		}
	}
	return best
}

func (v *Verdict) rank() int {
	switch {
	case v.Entities:
		return 2
	case v.Action:
		return 1
	}
	return 0
}

func dosOf(p plan.Plan) []Call {
	var dos []Call
	for i := range p.Commands {
		if command := &p.Commands[i]; command.Kind == plan.Do {
			dos = append(dos, Call{command.Action, command.Entities})
		}
	}
	return dos
}

// compare looks for the wanted calls among those that came, in their order.
func (c *Case) compare(came, want []Call, registry *actions.Registry, values comparison) Verdict {
	found, same := 0, true
	for _, call := range came {
		if found == len(want) || call.Action != want[found].Action {
			continue
		}
		action, ok := registry.Lookup(call.Action)
		same = same && ok && values.call(action, want[found].Entities, call.Entities)
		found++
	}
	v := Verdict{Unwanted: c.unwanted(came, want)}
	v.Action = found == len(want) && len(v.Unwanted) == 0
	v.Entities = v.Action && same
	return v
}

// unwanted are the calls that are more than is wanted and do harm: those of an action
// that is wanted less often, or that is listed as unwanted, or any where nothing is.
func (c *Case) unwanted(came, want []Call) []string {
	left := map[string]int{}
	for _, call := range want {
		left[call.Action]++
	}
	var unwanted []string
	for _, call := range came {
		n, wanted := left[call.Action]
		switch {
		case n > 0:
			left[call.Action]--
		case wanted, len(c.Unwanted) == 0, slices.Contains(c.Unwanted, call.Action):
			unwanted = append(unwanted, call.Action)
		}
	}
	return unwanted
}

// leeway is how far a time may be from one that counts from now.
const leeway = 2 * time.Minute

// comparison compares what came with what is wanted.
type comparison struct {
	asked time.Time // when the model was asked
}

// call reports whether the action was called with the entities that are wanted.
func (c comparison) call(action *actions.Action, want, got map[string]any) bool {
	if checked, err := action.Check(got); err == nil { // as the action would get them
		got = checked
	}
	return c.object(want, got, action.Schema)
}

func (c comparison) object(want, got map[string]any, schema *jsonschema.Schema) bool {
	for name, value := range want {
		if !c.value(value, got[name], propertyOf(schema, name)) {
			return false
		}
	}
	for name, value := range got {
		if _, wanted := want[name]; !wanted && !isEmpty(value) && !isDefault(value, propertyOf(schema, name)) {
			return false
		}
	}
	return true
}

// value compares a value. A list that the schema does not ask for are alternatives.
func (c comparison) value(want, got any, schema *jsonschema.Schema) bool {
	switch want := want.(type) {
	case []any:
		if !wantsList(schema) && len(want) > 0 {
			return slices.ContainsFunc(want, func(w any) bool { return c.value(w, got, schema) })
		}
		all, ok := got.([]any)
		if !ok || len(all) != len(want) {
			return len(want) == 0 && isEmpty(got)
		}
		for i := range want {
			if !c.value(want[i], all[i], elementOf(schema)) {
				return false
			}
		}
		return true
	case map[string]any:
		object, ok := got.(map[string]any)
		return ok && c.object(want, object, schema)
	case nil:
		return isEmpty(got)
	case string:
		if schema != nil && schema.Format == "date-time" {
			return c.time(want, got)
		}
	}
	return sameScalar(want, got)
}

func sameScalar(want, got any) bool {
	switch got.(type) {
	case string, json.Number, bool:
	default:
		return false // left out, or a list or an object
	}
	_, wantText := want.(string)
	_, gotText := got.(string)
	if wantText && gotText {
		return matches(want.(string), got.(string))
	}
	a, errA := strconv.ParseFloat(fmt.Sprint(want), 64)
	b, errB := strconv.ParseFloat(fmt.Sprint(got), 64)
	if errA == nil && errB == nil {
		return a == b
	}
	return matches(fmt.Sprint(want), fmt.Sprint(got))
}

// matches compares texts; a * in the pattern is any text.
func matches(pattern, text string) bool {
	pattern, text = strings.ToLower(strings.TrimSpace(pattern)), strings.ToLower(strings.TrimSpace(text))
	parts := strings.Split(pattern, "*")
	first, last := parts[0], parts[len(parts)-1]
	if len(parts) == 1 {
		return strings.EqualFold(pattern, text)
	}
	if len(text) < len(first)+len(last) || !strings.HasPrefix(text, first) || !strings.HasSuffix(text, last) {
		return false
	}
	text = text[len(first) : len(text)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// isPattern reports whether a wanted text is more than itself.
func isPattern(text string) bool {
	_, _, ok := moment(text, time.Time{})
	return ok || strings.Contains(text, "*")
}

// time compares times; what is no time is compared as the text that it is.
func (c comparison) time(want string, got any) bool {
	at, slack, isTime := moment(want, c.asked)
	if !isTime {
		return sameScalar(want, got)
	}
	came, err := time.Parse(time.RFC3339, fmt.Sprint(got))
	return err == nil && came.Sub(at).Abs() <= slack
}

// moment reads a wanted time.
func moment(text string, asked time.Time) (at time.Time, slack time.Duration, ok bool) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, 0, true
	}
	day, rest, _ := strings.Cut(text, " ")
	if day == "in" {
		d, err := time.ParseDuration(rest)
		return asked.Add(d), leeway, err == nil
	}
	days := slices.Index([]string{"today", "tomorrow"}, day)
	clock, err := time.Parse("15:04", rest)
	if days < 0 || err != nil {
		return at, 0, false
	}
	y, m, d := asked.UTC().Date()
	return time.Date(y, m, d+days, clock.Hour(), clock.Minute(), 0, 0, time.UTC), 0, true
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return strings.TrimSpace(value) == ""
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

func isDefault(value any, schema *jsonschema.Schema) bool {
	if schema == nil || len(schema.Default) == 0 {
		return false
	}
	var otherwise any
	dec := json.NewDecoder(strings.NewReader(string(schema.Default)))
	dec.UseNumber()
	return dec.Decode(&otherwise) == nil && (reflect.DeepEqual(otherwise, value) || sameScalar(otherwise, value))
}

func propertyOf(schema *jsonschema.Schema, name string) *jsonschema.Schema {
	if schema == nil {
		return nil
	}
	return schema.Properties[name]
}

func elementOf(schema *jsonschema.Schema) *jsonschema.Schema {
	if schema == nil {
		return nil
	}
	return schema.Items
}

func wantsList(schema *jsonschema.Schema) bool {
	return schema != nil && (schema.Type == "array" || slices.Contains(schema.Types, "array"))
}

// sample is entities with the i-th alternative of each value, so that they can be checked.
func sample(entities map[string]any, schema *jsonschema.Schema, i int) map[string]any {
	out := map[string]any{}
	for name, value := range entities {
		out[name] = alternative(value, propertyOf(schema, name), i)
	}
	return out
}

func alternative(value any, schema *jsonschema.Schema, i int) any {
	switch value := value.(type) {
	case []any:
		if !wantsList(schema) {
			if len(value) == 0 {
				return nil
			}
			return alternative(value[min(i, len(value)-1)], schema, i)
		}
		all := make([]any, len(value))
		for k := range value {
			all[k] = alternative(value[k], elementOf(schema), i)
		}
		return all
	case map[string]any:
		return sample(value, schema, i)
	}
	return value
}

// most is the length of the longest list in the value, at least 1.
func most(value any) int {
	n := 1
	switch value := value.(type) {
	case []any:
		n = max(n, len(value))
		for _, v := range value {
			n = max(n, most(v))
		}
	case map[string]any:
		for _, v := range value {
			n = max(n, most(v))
		}
	}
	return n
}
