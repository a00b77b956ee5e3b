package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/planner/plan"
)

var variables = map[string]any{
	"Name": "Mia", "n": json.Number("4.50"), "list": []any{"a", json.Number("1"), "<b>"}, "sly": "$name $$", "none": nil, "empty": "", "yes": true,
}

// expanded is a command with the variables filled in.
func expanded(t *testing.T, c plan.Command, variables map[string]any) plan.Command {
	t.Helper()
	return command(t, plan.Plan{Commands: commands(c)}.Start(variables), 0)
}

func TestVariablesInTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]any{
		"":                      "",
		"plain":                 "plain",
		"Hi $NAME, $name":       "Hi Mia, Mia",
		"$name$n":               "Mia4.50",
		"$names $name_ $name1":  "$names $name_ $name1",
		"$name.":                "Mia.",
		"$$name $$$name":        "$name $Mia",
		"$5 and $ and $":        "$5 and $ and $",
		"${name} $(name)":       "${name} $(name)",
		"$sly":                  "$name $$",
		"$list":                 `["a",1,"<b>"]`,
		"[$none] [$empty] $yes": "[] [] true",
		"$Ünï $naïve":           "$Ünï $naïve",
		"$nobody":               "$nobody",
	} {
		if got := expanded(t, say(text), variables).Response; got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestVariablesInEntities(t *testing.T) {
	t.Parallel()
	entities := map[string]any{
		"exact": "$LIST", "text": "all: $list", "unknown": "$who", "dollar": "$$n", "number": json.Number("1"),
		"$name": "key", "deep": map[string]any{"in": []any{"$n", "$yes!", true, nil}},
	}
	want := map[string]any{
		"exact": []any{"a", json.Number("1"), "<b>"}, "text": `all: ["a",1,"<b>"]`, "unknown": "$who", "dollar": "$n",
		"number": json.Number("1"), "$name": "key",
		"deep": map[string]any{"in": []any{json.Number("4.50"), "true!", true, nil}},
	}
	if diff := cmp.Diff(want, expanded(t, do("a", entities), variables).Entities); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if entities["exact"] != "$LIST" {
		t.Error("the entities of the plan were changed")
	}
	if got := expanded(t, say("$name $$"), nil).Response; got != "$name $$" {
		t.Errorf("without variables: %q", got)
	}
}

// TestFields are filled in where there are such fields; behind anything else they are text.
func TestFields(t *testing.T) {
	t.Parallel()
	variables := map[string]any{"T": map[string]any{"id": json.Number("7"), "by": map[string]any{"name": "Mia"}, "gone": nil}, "S": "backup"}
	for text, want := range map[string]string{
		"Ticket $t.id.":  "Ticket 7.",
		"$T.by.name did": "Mia did",
		"[$T.gone]":      "[]",
		"$S.txt":         "backup.txt",
		"$T.by.name.x":   "Mia.x",
		"$$T.id $U.id":   "$T.id $U.id",
		"$T.by.age":      `{"name":"Mia"}.age`,
		"$T.Id":          `{"by":{"name":"Mia"},"gone":null,"id":7}.Id`,
	} {
		if got := expanded(t, say(text), variables).Response; got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	entities := map[string]any{"a": "$T.id", "b": "$T.by", "c": "no $T.id", "d": "$S.md", "e": "$T.gone"}
	want := map[string]any{"a": json.Number("7"), "b": map[string]any{"name": "Mia"}, "c": "no 7", "d": "backup.md", "e": nil}
	if diff := cmp.Diff(want, expanded(t, do("a", entities), variables).Entities); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	missing := plan.Plan{Commands: commands(do("a", map[string]any{"a": "$T.by.age"}))}.Start(variables)
	if _, err := missing.Command(0); err == nil || err.Error() != "there is no $T.by.age" {
		t.Errorf("a DO with a field that is not there: %v", err)
	}
	asXML := plan.Plan{TrimResults: true, Commands: commands(say("$T.id"))}.Start(map[string]any{"T": map[string]any{"id": true}})
	if got := command(t, asXML, 0).Response; got != `{"id":true}.id` {
		t.Errorf("in a plan in XML: %s", got)
	}
}

// TestExpansionOfSemanticKernel are the inputs of the tests of its expansion, and
// those where it goes wrong.
func TestExpansionOfSemanticKernel(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		set  map[string]any
		want string
	}{
		{"Hello world!", nil, "Hello world!"},
		{"$SOMETHING_ELSE;$SOMETHING_ELSE2", map[string]any{"SOMETHING_ELSE": "The string", "SOMETHING_ELSE2": "Another string"}, "The string;Another string"},
		{"[$FirstName,$LastName,$Age]", map[string]any{"FirstName": "John", "LastName": "Doe", "Age": "35"}, "[John,Doe,35]"},
		{"$Category ($Count)", map[string]any{"Category": "Fruits", "Count": "3"}, "Fruits (3)"},
		{"$Country is in $Continent", map[string]any{"Country": "Canada", "Continent": "North America"}, "Canada is in North America"},
		{"$VAR1 $VAR2", map[string]any{"var1": "value1", "var2": "value2"}, "value1 value2"},
		{"$A$B$A", map[string]any{"A": "a", "B": "b"}, "aba"},
		{"$NO_VAR", map[string]any{"A": "a"}, "$NO_VAR"},
		{`{"prop":"value", "$prop": 3, "prop2": "my name is $pop and $var"}`, map[string]any{"var": "foobar"}, `{"prop":"value", "$prop": 3, "prop2": "my name is $pop and foobar"}`},
		{"$ABC $A", map[string]any{"A": "x"}, "$ABC x"},
		{"$$name", map[string]any{"name": "v"}, "$name"},
		{"Hello $INPUT", map[string]any{"INPUT": "world"}, "Hello world"},
		{"$A $B", map[string]any{"A": "$B", "B": "$A"}, "$B $A"},
		{"$X[1].y", map[string]any{"X": "v"}, "v[1].y"},
	} {
		if got := expanded(t, say(test.text), test.set).Response; got != test.want {
			t.Errorf("%s: got %s, want %s", test.text, got, test.want)
		}
	}
}
