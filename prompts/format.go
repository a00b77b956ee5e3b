package prompts

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxYAML is how large a value may be that is looked at for the shorter form.
const maxYAML = 16 << 10

// Format writes a value as a prompt shows it: nil as nothing, text as it is, a
// time as RFC 3339, numbers and truth values as in JSON. Lists and objects are
// written as YAML or as compact JSON, whichever takes fewer tokens, JSON when in
// doubt and over 16 KiB; keys of Go maps are sorted. JSON ([jsontext.Value]) is
// the value that it stands for. The error is that of a value which JSON cannot
// hold.
//
// The tokens are estimated, in the same way whether a vocabulary is loaded or
// not: else the same value would look different from turn to turn.
func Format(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	case jsontext.Value:
		return formatJSON(v), nil
	case fmt.Stringer:
		return v.String(), nil
	}
	raw, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("format a %T: %w", value, err)
	}
	return formatJSON(raw), nil
}

func formatJSON(value jsontext.Value) string {
	switch value.Kind() {
	case 'n':
		return ""
	case '"':
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			return string(text)
		}
	case '{', '[':
		return shorter(value)
	}
	return string(value)
}

// shorter writes a list or an object in the form of fewer tokens.
func shorter(value jsontext.Value) string {
	if len(value) > maxYAML {
		return string(value)
	}
	compact := value.Clone()
	if compact.Compact() != nil {
		return string(value)
	}
	if yaml := asYAML(compact); yaml != nil && pieces(yaml) < pieces(compact) {
		return string(yaml)
	}
	return string(compact)
}
