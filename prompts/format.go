package prompts

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Format writes a value as a prompt shows it: nil as nothing, text as it is, a
// time as RFC 3339, JSON as it stands, and everything else as compact JSON with
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
		return string(v), nil
	case fmt.Stringer:
		return v.String(), nil
	}
	text, err := json.Marshal(value, json.Deterministic(true))
	if err != nil {
		return "", fmt.Errorf("format a %T: %w", value, err)
	}
	return string(text), nil
}
