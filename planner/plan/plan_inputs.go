package plan

import (
	"maps"
	"slices"
	"strings"
)

// Inputs are the variables that the plan reads and no command of it saves, in the
// order in which they are read first. They are set when it is run, see
// [NewProgress]; one that is not set stays as it is written.
func (p Plan) Inputs() []string {
	saved := savedNames(p.Commands, nil)
	known := make(map[string]bool, len(saved))
	for name := range saved {
		known[name] = true
	}
	var inputs []string
	read := func(text string) {
		for name := range references(text) {
			if low := strings.ToLower(name); !known[low] {
				known[low] = true
				inputs = append(inputs, name)
			}
		}
	}
	for i := range p.Commands {
		readTexts(p.Commands[i].Entities, read)
		read(p.Commands[i].Response)
	}
	return inputs
}

// readTexts calls read with each string in value, those of an object by name.
func readTexts(value any, read func(string)) {
	switch value := value.(type) {
	case string:
		read(value)
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			readTexts(value[name], read)
		}
	case []any:
		for _, item := range value {
			readTexts(item, read)
		}
	}
}
