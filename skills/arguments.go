package skills

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
)

// commandLine is the arguments of a script, as [Sandboxed] says, and what is on its stdin.
func commandLine(arguments any) (args []string, stdin []byte, err error) {
	if text, ok := arguments.(string); ok {
		arguments = unpacked(text)
	}
	switch value := arguments.(type) {
	case nil:
		return nil, nil, nil
	case []any:
		for _, element := range value {
			args = append(args, argument(element))
		}
	case map[string]any:
		if args, err = options(value); err != nil {
			return nil, nil, err
		}
	default:
		args = []string{argument(value)}
	}
	return args, append(compact(arguments), '\n'), nil
}

// unpacked is the array or object that a string holds, nil for a blank string, else the
// string itself.
func unpacked(text string) any {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return nil
	}
	if trimmed[0] != '[' && trimmed[0] != '{' {
		return text
	}
	decoder := json.NewDecoder(strings.NewReader(trimmed))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return text
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return text
	}
	return value
}

// options writes an object as --name value, sorted by name: the order is not in the value.
func options(object map[string]any) (args []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if strings.Trim(name, "-") == "" {
			return nil, errors.New("one has no name")
		}
		values, repeated := object[name].([]any)
		if !repeated {
			values = []any{object[name]}
		}
		flag := "--" + strings.TrimLeft(name, "-") // some models write the dashes too
		for _, value := range values {
			switch value {
			case nil, false:
			case true:
				args = append(args, flag)
			default:
				args = append(args, flag, argument(value))
			}
		}
	}
	return args, nil
}

// argument is a string as it is, and JSON of anything else.
func argument(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	return string(compact(value))
}

// compact is JSON in which < stays <. Values that came from JSON can be written as JSON.
func compact(value any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
