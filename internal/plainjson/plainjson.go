// Package plainjson writes JSON without HTML escapes: <, > and & stay as they are, for models and people to
// read.
package plainjson

import (
	"bytes"
	"encoding/json"
)

// Marshal is [json.Marshal] without HTML escapes.
func Marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Text is v as JSON, or why v cannot be written.
func Text(v any) string {
	raw, err := Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
