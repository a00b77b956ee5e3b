package prompts

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Format writes a value as a prompt shows it: nil as nothing, text as it is, a
// time as RFC 3339, and everything else as compact JSON with
// sorted keys. The error is that of a value which JSON cannot hold.
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
	text, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("format a %T: %w", value, err)
	}
	return string(text), nil
}

// formatJSON is Format for a value that is JSON already.
func formatJSON(value jsontext.Value) string {
	switch value.Kind() {
	case 'n':
		return ""
	case '"':
		if text, err := jsontext.AppendUnquote(nil, value); err == nil {
			return string(text)
		}
	}
	return string(value)
}
