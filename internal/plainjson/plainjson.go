// Package plainjson writes JSON without HTML escapes: <, > and & stay as they are, for models and people to
// read.
package plainjson

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
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

// Explain is an error of [json.Unmarshal] for people: without the Go types into which something did not fit.
func Explain(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	place := "it"
	if wrong.Field != "" {
		place = wrong.Field[strings.LastIndexByte(wrong.Field, '.')+1:]
	}
	want := map[reflect.Kind]string{reflect.Slice: "array", reflect.String: "string", reflect.Bool: "boolean"}[wrong.Type.Kind()]
	return fmt.Errorf("%s is a JSON %s, want %s", place, wrong.Value, cmp.Or(want, "object"))
}
