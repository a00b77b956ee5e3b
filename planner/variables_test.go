package planner_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/planner"
)

func variables() planner.Variables {
	v := planner.Variables{}
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
	var zero planner.Variables
	if got := zero.ExpandText("$name"); got != "$name" {
		t.Errorf("the zero value: %q", got)
	}
}
