package app

import (
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// dropEmptyEnvironment makes an empty variable an unset one.
func dropEmptyEnvironment(app *kong.Application) {
	for _, flag := range app.Flags {
		for _, name := range flag.Envs {
			if value, set := os.LookupEnv(name); set && strings.TrimSpace(value) == "" {
				_ = os.Unsetenv(name) // fails only for names that no variable can have
			}
		}
	}
}

// spelledTwice lists variables of two spellings whose values differ: one of them would be
// passed over without a word. OpenTelemetry's are no spellings, one of those goes before
// the other.
func spelledTwice(app *kong.Application) faults {
	var found faults
	letters := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
	for _, flag := range app.Flags {
		first, others := "", []string(nil)
		if len(flag.Envs) > 0 {
			first, others = flag.Envs[0], flag.Envs[1:]
		}
		for _, name := range others {
			one, other := strings.TrimSpace(os.Getenv(first)), strings.TrimSpace(os.Getenv(name))
			if letters(name) == letters(first) && one != "" && other != "" && one != other {
				found.add(first, "and %s differ, and both are spellings of one setting", name)
			}
		}
	}
	return found
}

// trim drops the white space around each value, such as the end of the line in a file
// that a variable was filled from.
func (s *settings) trim() {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if field := v.Field(i); field.CanSet() && field.Kind() == reflect.String {
			field.SetString(strings.TrimSpace(field.String()))
		}
	}
}
