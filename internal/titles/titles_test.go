package titles_test

import (
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/internal/titles"
)

func TestWords(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"createList": "Create list", "summarizeLists": "Summarize lists", "find_item": "Find item", "Writer-Translate": "Writer translate",
		"remove-item": "Remove item", "help": "Help", "readURL": "Read url", "": "", "öffneListe2": "Öffne liste2", "\xff": "\ufffd",
	} {
		if got := titles.Words(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

func TestLabel(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"enum":["p1",2],"enumNames":["Urgent","Later"]}`:     "Later",
		`{"enum":["p1",2],"enumNames":["Urgent"]}`:             "",
		`{"enum":["p1",2],"enumNames":"Urgent"}`:               "",
		`{"enum":["p1",2]}`:                                    "",
		`{"oneOf":[{"const":"p1"},{"const":2,"title":"Low"}]}`: "Low",
		`{"type":"integer"}`:                                   "",
	} {
		var schema jsonschema.Schema
		if err := json.Unmarshal([]byte(text), &schema); err != nil {
			t.Fatal(err)
		}
		if got := titles.Label(&schema, json.Number("2")); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if got := titles.Label(nil, 2); got != "" {
		t.Errorf("no schema: %q", got)
	}
}
