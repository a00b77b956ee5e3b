package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/planner/plan"
)

func variables() plan.Variables {
	v := plan.Variables{}
	v.Set("Name", "Mia")
	v.Set("n", json.Number("4.50"))
	v.Set("list", []any{"a", json.Number("1"), "<b>"})
	v.Set("sly", "$name $$")
	v.Set("none", nil)
	v.Set("empty", "")
	v.Set("yes", true)
	return v
}

func TestExpandText(t *testing.T) {
	t.Parallel()
	v := variables()
	for text, want := range map[string]string{
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
		if got := v.ExpandText(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestExpandEntities(t *testing.T) {
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
	if diff := cmp.Diff(want, variables().ExpandEntities(entities)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if entities["exact"] != "$LIST" {
		t.Error("the entities of the plan were changed")
	}
	var zero plan.Variables
	if got := zero.ExpandText("$name"); got != "$name" {
		t.Errorf("the zero value: %q", got)
	}
}

// TestExpansionOfSemanticKernel are the inputs of the tests of its expansion, and
// those where it goes wrong.
func TestExpansionOfSemanticKernel(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text string
		set  map[string]string
		want string
	}{
		{"Hello world!", nil, "Hello world!"},
		{"$SOMETHING_ELSE;$SOMETHING_ELSE2", map[string]string{"SOMETHING_ELSE": "The string", "SOMETHING_ELSE2": "Another string"}, "The string;Another string"},
		{"[$FirstName,$LastName,$Age]", map[string]string{"FirstName": "John", "LastName": "Doe", "Age": "35"}, "[John,Doe,35]"},
		{"$Category ($Count)", map[string]string{"Category": "Fruits", "Count": "3"}, "Fruits (3)"},
		{"$Country is in $Continent", map[string]string{"Country": "Canada", "Continent": "North America"}, "Canada is in North America"},
		{"$VAR1 $VAR2", map[string]string{"var1": "value1", "var2": "value2"}, "value1 value2"},
		{"$A$B$A", map[string]string{"A": "a", "B": "b"}, "aba"},
		{"$NO_VAR", map[string]string{"A": "a"}, "$NO_VAR"},
		{`{"prop":"value", "$prop": 3, "prop2": "my name is $pop and $var"}`, map[string]string{"var": "foobar"}, `{"prop":"value", "$prop": 3, "prop2": "my name is $pop and foobar"}`},
		{"$ABC $A", map[string]string{"A": "x"}, "$ABC x"},
		{"$$name", map[string]string{"name": "v"}, "$name"},
		{"Hello $INPUT", map[string]string{"INPUT": "world"}, "Hello world"},
		{"$A $B", map[string]string{"A": "$B", "B": "$A"}, "$B $A"},
		{"$X[1].y", map[string]string{"X": "v"}, "v[1].y"},
	} {
		v := plan.Variables{}
		for name, value := range test.set {
			v.Set(name, value)
		}
		if got := v.ExpandText(test.text); got != test.want {
			t.Errorf("%s: got %s, want %s", test.text, got, test.want)
		}
	}
}
