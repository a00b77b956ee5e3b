package plan

import (
	"encoding/json"
	"reflect"
	"strings"
)

// DecodeObject reads the one JSON object that a model wrote, as tolerantly as [Decode]: in a code fence,
// between words, behind reasoning, with repairs that have only one meaning. Numbers are json.Number.
// Several objects count only if they are equal. The error is a [*Fault] of kind truncated, no_plan (there
// is none) or invalid_plan.
func DecodeObject(text string) (map[string]any, error) { return decodeObject(text, false) }

// decodeObject reads a text; wrapped says that it came from a JSON string.
func decodeObject(text string, wrapped bool) (map[string]any, error) {
	if len(text) > maxBytes {
		return nil, InvalidPlan.Faultf("the answer is longer than %d bytes", maxBytes)
	}
	text, done := clean(text)
	var inner string
	if !wrapped && strings.HasPrefix(text, `"`) && json.Unmarshal([]byte(text), &inner) == nil {
		return decodeObject(inner, true)
	}
	text, fault := finalChannel(text, &done)
	if fault != nil {
		return nil, fault
	}
	a := newAnswer(text, done)
	a.objects = true
	if fault := a.scan(); fault != nil {
		return nil, fault
	}
	var only map[string]any
	for _, f := range a.found {
		value := f.value
		if list, ok := value.([]any); ok && len(list) == 1 {
			value = list[0]
		}
		object, ok := value.(map[string]any)
		switch {
		case !ok:
			return nil, InvalidPlan.Faultf("the answer has JSON that is no object")
		case f.torn:
			return nil, InvalidPlan.Faultf("a comment in the JSON holds half a quote, brace or bracket; write no comments")
		case only != nil && !reflect.DeepEqual(only, object):
			return nil, InvalidPlan.Faultf("there are several JSON objects, and they differ")
		}
		only = object
	}
	if only == nil {
		return nil, NoPlan.Faultf("the answer has no JSON object")
	}
	return only, nil
}
