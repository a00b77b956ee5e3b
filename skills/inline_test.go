package skills_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills"
)

type conversion struct {
	Value  float64 `json:"value" jsonschema:"what to convert"`
	Factor float64 `json:"factor"`
}

func convert(_ context.Context, _ *actions.Turn, in conversion) (actions.Result, error) {
	return actions.Text("%g", in.Value*in.Factor), nil
}

func ExampleSkill() {
	s := &skills.Skill{
		Name: "unit-converter", Description: "Converts units.", Instructions: "Find the factor, then run convert.", License: "MIT",
		Resources: []skills.Resource{{Name: "factors.md", Description: "Factors of all units", Text: "1 mile = 1.60934 km"}},
		Scripts:   []skills.Script{skills.Func("convert", "Multiplies", convert)},
	}
	factors, _ := resource(s, "factors.md")
	data, _ := factors.Read(context.Background())
	fmt.Println(s.Name, s.License, data)
	// Output: unit-converter MIT 1 mile = 1.60934 km
}

func TestInline(t *testing.T) {
	t.Parallel()
	calls := 0
	s := &skills.Skill{
		Name: "u", Description: "d", Instructions: "i",
		Resources: []skills.Resource{
			{Name: "f", Func: func(context.Context) ([]byte, error) { calls++; return []byte{byte('0' + calls)}, nil }},
			{Name: "large", Func: func(context.Context) ([]byte, error) { return bytes.Repeat([]byte("x"), 1<<20+1), nil }},
		},
		Scripts: []skills.Script{skills.Func("convert", "Multiplies", convert)},
	}
	f, _ := resource(s, "f")
	for _, want := range []string{"1", "2", "3"} {
		if got, err := f.Read(t.Context()); err != nil || got.String() != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	large, _ := resource(s, "large")
	if _, err := large.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("large: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Read(ended); !errors.Is(err, context.Canceled) || calls != 3 {
		t.Errorf("ended: %v, %d calls", err, calls)
	}
	if _, ok := resource(s, "R"); ok {
		t.Error("found a resource of another name")
	}
	convertScript, ok := scriptOf(s, "convert")
	if !ok || convertScript.Action.Schema.Properties["value"].Description != "what to convert" {
		t.Fatalf("script %+v", convertScript)
	}
	if _, err := convertScript.Action.Check(map[string]any{"value": "many"}); err == nil {
		t.Error("took wrong arguments")
	}
	result, err := convertScript.Action.Call(t.Context(), nil, map[string]any{"value": 26.2, "factor": 1.60934})
	if err != nil || result.Text() != "42.164708" {
		t.Errorf("got %q, %v", result.Text(), err)
	}
	if _, ok := scriptOf(s, "other"); ok {
		t.Error("found a script that is not there")
	}
}

func TestInlineFaults(t *testing.T) {
	t.Parallel()
	_, err := skills.NewProvider(skills.ProviderConfig{Skills: []*skills.Skill{{
		Name: "My Skill", Description: " ",
	}}})
	for _, want := range []string{`skill "My Skill": name "My Skill" has invalid characters`, "description"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %s in %v", want, err)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	png := "\x89PNG\r\n\x1a\n\x00\x00"
	for name, c := range map[string]struct {
		file, raw, media, shown string
		binary                  bool
	}{
		"Markdown":        {"a/b.MD", "# Hi", "text/markdown", "# Hi", false},
		"JSON":            {"a.json", "{}", "application/json", "{}", false},
		"YAML":            {"a.yml", "a: b", "application/yaml", "a: b", false},
		"CSV":             {"a.csv", "a,b", "text/csv", "a,b", false},
		"XML":             {"a.xml", "<a/>", "application/xml", "<a/>", false},
		"byte order mark": {"a.txt", "\ufeffHi", "text/plain", "Hi", false},
		"empty":           {"a.txt", "", "text/plain", "", false},
		"image":           {"a.png", png, "image/png", "binary, 10 bytes, image/png", true},
		"PDF as text":     {"a.md", "%PDF-1.7\n\xff\xfe", "application/pdf", "binary, 11 bytes, application/pdf", true},
		"Latin-1":         {"a.txt", "caf\xe9", "text/plain", "binary, 4 bytes, text/plain", true},
		"NUL":             {"a.json", "{}\x00", "application/octet-stream", "binary, 3 bytes, application/octet-stream", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := skills.Describe(c.file, []byte(c.raw))
			if d.MediaType != c.media || d.Binary != c.binary || d.String() != c.shown || string(d.Bytes) != c.raw {
				t.Errorf("got %q, binary %t, shown %q", d.MediaType, d.Binary, d)
			}
		})
	}
}
