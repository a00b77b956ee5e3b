package eval

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// judge says in the result how good its plan is, by that of the wanted plans which it comes
// closest to. asked is when the model was asked, for times that are wanted.
func (c *Case) judge(p plan.Plan, registry *actions.Registry, asked time.Time, r *Result) {
	came := slices.DeleteFunc(slices.Clone(p.Commands), func(c plan.Command) bool { return c.Kind != plan.Do })
	for i, want := range c.Want {
		var one Result
		one.Action, one.Entities, one.Unwanted = c.compare(came, want, registry, comparison{asked})
		better := cmp.Or(cmp.Compare(one.rank(), r.rank()), cmp.Compare(len(r.Unwanted), len(one.Unwanted)))
		if i == 0 || better > 0 {
			r.Action, r.Entities, r.Unwanted = one.Action, one.Entities, one.Unwanted
		}
	}
}

func (r *Result) rank() int {
	switch {
	case r.Entities:
		return 2
	case r.Action:
		return 1
	}
	return 0
}

// compare looks for the wanted calls among those that came, in their order.
func (c *Case) compare(came, want []plan.Command, registry *actions.Registry, values comparison) (sameActions, sameEntities bool, unwanted []string) {
	found, same := 0, true
	for _, call := range came {
		if found == len(want) || call.Action != want[found].Action {
			continue
		}
		action, ok := registry.Lookup(call.Action)
		same = same && ok && values.call(action, want[found].Entities, call.Entities)
		found++
	}
	unwanted = c.unwanted(came, want)
	sameActions = found == len(want) && len(unwanted) == 0
	return sameActions, sameActions && same, unwanted
}

// unwanted are the calls that are more than is wanted and do harm: those of an action
// that is wanted less often, or that is listed as unwanted, or any where nothing is.
func (c *Case) unwanted(came, want []plan.Command) (unwanted []string) {
	left := map[string]int{}
	for _, call := range want {
		left[call.Action]++
	}
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
			if !c.value(want[i], all[i], schema.Items) {
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

// sameScalar compares numbers as numbers, and all else as texts.
func sameScalar(want, got any) bool {
	switch got.(type) {
	case string, json.Number, bool:
	default:
		return false // left out, or a list or an object
	}
	_, wantText := want.(string)
	_, gotText := got.(string)
	a, errA := strconv.ParseFloat(fmt.Sprint(want), 64)
	b, errB := strconv.ParseFloat(fmt.Sprint(got), 64)
	if !(wantText && gotText) && errA == nil && errB == nil {
		return a == b
	}
	return matches(fmt.Sprint(want), fmt.Sprint(got))
}

// matches compares texts; a * in the wanted one is any text.
func matches(want, text string) bool {
	parts := strings.Split(strings.TrimSpace(want), "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile("(?is)^" + strings.Join(parts, ".*") + "$").MatchString(strings.TrimSpace(text))
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
	return decode(schema.Default, &otherwise) == nil && (reflect.DeepEqual(otherwise, value) || sameScalar(otherwise, value))
}

func propertyOf(schema *jsonschema.Schema, name string) *jsonschema.Schema {
	if schema == nil {
		return nil
	}
	return schema.Properties[name]
}

func wantsList(schema *jsonschema.Schema) bool {
	return schema != nil && (schema.Type == "array" || slices.Contains(schema.Types, "array"))
}
