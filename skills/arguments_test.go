package skills_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/skills"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		arguments string   // JSON; "" for none
		args      []string // nil: none
	}{
		"none":                     {},
		"null":                     {arguments: `null`},
		"an array":                 {arguments: `["--value","26.2","two words",""]`, args: []string{"--value", "26.2", "two words", ""}},
		"numbers as written":       {arguments: `[1,2.50,1e3,12345678901234567890]`, args: []string{"1", "2.50", "1e3", "12345678901234567890"}},
		"what is no string":        {arguments: `[true,null,{"b":[1],"a":"<"},["x"]]`, args: []string{"true", "null", `{"a":"<","b":[1]}`, `["x"]`}},
		"an empty array":           {arguments: `[]`},
		"an object":                {arguments: `{"value":26.2,"from":"mile","to":"a b"}`, args: []string{"--from", "mile", "--to", "a b", "--value", "26.2"}},
		"an empty object":          {arguments: `{}`},
		"flags":                    {arguments: `{"all":true,"dry-run":false,"limit":null}`, args: []string{"--all"}},
		"repeated":                 {arguments: `{"tag":["a",2,null,{"x":1}],"unused":[]}`, args: []string{"--tag", "a", "--tag", "2", "--tag", `{"x":1}`}},
		"flags repeated":           {arguments: `{"v":[true,true,false]}`, args: []string{"--v", "--v"}},
		"nested":                   {arguments: `{"point":{"x":1}}`, args: []string{"--point", `{"x":1}`}},
		"dashes in names":          {arguments: `{"--all":true,"-n":5}`, args: []string{"--all", "--n", "5"}},
		"a negative number":        {arguments: `{"offset":-5}`, args: []string{"--offset", "-5"}},
		"a string":                 {arguments: `"kilometres"`, args: []string{"kilometres"}},
		"a number":                 {arguments: `26.20`, args: []string{"26.20"}},
		"true":                     {arguments: `true`, args: []string{"true"}},
		"a blank string":           {arguments: `"  \n"`},
		"a string with an array":   {arguments: `" [\"--all\", 1]\n"`, args: []string{"--all", "1"}},
		"a string with an object":  {arguments: `"{\"value\": 1.0}"`, args: []string{"--value", "1.0"}},
		"a string with a number":   {arguments: `"007"`, args: []string{"007"}},
		"a string with a cut":      {arguments: `"[\"a\""`, args: []string{`["a"`}},
		"a string with more":       {arguments: `"[1] and [2]"`, args: []string{"[1] and [2]"}},
		"a string with a Markdown": {arguments: `"[link](https://example.com)"`, args: []string{"[link](https://example.com)"}},
		"not unpacked in values":   {arguments: `{"list":"[1]"}`, args: []string{"--list", "[1]"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if args, why := skills.CommandLine(value(t, tc.arguments)); why != "" || !slices.Equal(args, tc.args) {
				t.Errorf("%q, %s; want %q", args, why, tc.args)
			}
		})
	}
	for _, nameless := range []string{`{"":1}`, `{"--":true}`} {
		if args, why := skills.CommandLine(value(t, nameless)); why == "" {
			t.Errorf("%s became %q", nameless, args)
		}
	}
}

// value decodes JSON as plans do.
func value(t *testing.T, text string) (v any) {
	t.Helper()
	if text == "" {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}
