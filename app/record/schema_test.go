package record_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/record"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

const schemaFile = "../../docs/scenario.schema.json"

var update = flag.Bool("update", false, "write the schema anew")

func TestSchemaFileIsThatOfTheReader(t *testing.T) {
	t.Parallel()
	if *update {
		if err := os.WriteFile(schemaFile, record.Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, record.Schema()) {
		t.Errorf("%s is not what the reader takes; go test ./app/record -update writes it anew", schemaFile)
	}
}

// TestSchemaTakesWhatTheReaderTakes holds the two against each other.
func TestSchemaTakesWhatTheReaderTakes(t *testing.T) {
	t.Parallel()
	schema := compile(t)
	files, err := filepath.Glob("../../bottest/scenario/testdata/[b-z]*.*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, ".json") {
			if data, err = yaml.YAMLToJSON(data); err != nil {
				t.Fatal(err)
			}
		}
		if err := validate(t, schema, data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, wrong := range []string{
		`{}`, `[{"name": "s"}]`, `{"name": "s", "steps": [], "nmae": 1}`, expect(`"reply": []`), expect(`"replies": "Hi."`), expect(`"model_calls": 1.5`),
		expect(`"sends": -1`), `{"name": "s", "bot": "pizza", "steps": []}`, step(`"model": [7]`), expect(`"order": "any"`), expect(`"actions": [{"entities": {}}]`),
		`{"name": "s", "steps": [{"event": {"type": "mesage", "conversation": "c"}}]}`,
	} {
		if validate(t, schema, []byte(wrong)) == nil {
			t.Errorf("the schema takes %s", wrong)
		}
	}
}

func compile(t *testing.T) *jsonschema.Schema {
	t.Helper()
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(record.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("scenario.json", tree); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, data []byte) error {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	return schema.Validate(tree)
}
