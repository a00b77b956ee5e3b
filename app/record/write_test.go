package record_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/planbot-go/planbot/app/record"

	"github.com/google/go-cmp/cmp"
)

// TestReadBack: what is written is read as what it was.
func TestScenariosAreReadBack(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../bottest/testdata/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	for _, file := range append(files, "../../bottest/testdata/providers.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list, err := record.Read(file, data)
		if err != nil {
			t.Fatal(err)
		}
		check := func(list []record.Scenario) {
			raw, err := record.Write(list)
			if err != nil {
				t.Fatal(err)
			}
			got, err := record.Read("x.yaml", raw)
			if err != nil {
				t.Fatalf("%v\n%s", err, raw)
			}
			for i := range got {
				got[i].File = list[i].File
			}
			if diff := cmp.Diff(list, got); diff != "" {
				t.Errorf("%s: -want +got\n%s\n%s", file, diff, raw)
			}
		}
		check(list)
		check(list[:1])
	}
}

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	said := map[string]string{
		"too_many_steps": "Sorry, this took too many steps.",
		"fallback":       "Sorry, something went wrong. (turn a)",
		"filtered":       "Sorry, the content filter of the AI model …",
		"welcome":        "Hello, I am Planbot.",
		"done":           "Done.",
		"sorry":          "I am Sorry, ",
	}
	for _, of := range []string{"too_many_steps", "fallback", "filtered", "welcome"} {
		_, _, means := record.Placeholder("<" + of + ">")
		for word, text := range said {
			if means(text) != (word == of) {
				t.Errorf("<%s> means %q: %v", of, text, means(text))
			}
		}
	}
}
