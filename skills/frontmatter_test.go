package skills_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/skills"
)

// A list of tools that is there and empty allows none; only one that is not there allows all.
func TestEmptyAllowedTools(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]string{
		"":                         nil,
		"allowed-tools:":           {},
		`allowed-tools: ""`:        {},
		`allowed-tools: ","`:       {},
		"allowed-tools: []":        {},
		`allowed-tools: [""]`:      {},
		"allowed-tools: [{a: b}]":  {},
		"allowed-tools: {a: b}":    {},
		"allowed-tools: [Read, a]": {"Read", "a"},
	} {
		s, _ := skills.Parse([]byte(withFront("name: a\ndescription: d\n"+value)), "", true)
		if diff := cmp.Diff(want, s.AllowedTools); diff != "" {
			t.Errorf("%s: %s", value, diff)
		}
	}
}

func TestBlankLettersInNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"units\u3164", "units\u115f", "\u1160", "un\uffa0its", "units\U00013441", "\U00013442"} {
		for _, lenient := range []bool{false, true} {
			s, faults := skills.Parse([]byte(withFront("name: "+name+"\ndescription: d")), name, lenient)
			if (skills.Found{Faults: faults}).Sound() {
				t.Errorf("%+q is taken for a name: %+q", name, s.Name)
			}
		}
	}
	for _, name := range []string{"einheiten-größe", "단위", "単位", "وحدات"} {
		if _, faults := skills.Parse([]byte(withFront("name: "+name+"\ndescription: d")), name, false); len(faults) > 0 {
			t.Errorf("%s: %v", name, faults)
		}
	}
}
