package planner_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/planner"
)

func saving(c planner.Command, name string) planner.Command {
	c.SaveAs = name
	return c
}

// TestValidate checks plans by rule; "" is a plan that may run.
func TestValidate(t *testing.T) {
	t.Parallel()
	reg := vectorActions(t)
	status := do("getLightStatus", map[string]any{})
	closing := func(id any) planner.Command { return do("closeTicket", map[string]any{"id": id}) }
	tests := map[string]struct {
		commands []planner.Command
		want     planner.DecodeErrorKind
	}{
		"good":                            {commands(milk, say("ok")), ""},
		"nothing":                         {nil, planner.NoPlan},
		"another kind":                    {commands(planner.Command{Kind: "do", Action: "pause"}), planner.InvalidPlan},
		"no action":                       {commands(do(" ", nil)), planner.InvalidPlan},
		"blank SAY":                       {commands(say(" ")), planner.InvalidPlan},
		"bad name to save as":             {commands(saving(status, "a b")), planner.InvalidPlan},
		"other case":                      {commands(do("ADDITEM", milk.Entities)), ""},
		"namespace":                       {commands(do("functions.addItem", milk.Entities)), ""},
		"unknown":                         {commands(milk, do("orderPizza", nil)), planner.UnknownAction},
		"unknown before missing":          {commands(do("orderPizza", nil), do("addItem", nil)), planner.UnknownAction},
		"missing before unknown":          {commands(do("addItem", nil), do("orderPizza", nil)), planner.MissingEntities},
		"form before all":                 {commands(do("orderPizza", nil), say("")), planner.InvalidPlan},
		"unknown entity":                  {commands(do("pause", map[string]any{"time": json.Number("1"), "x": []any{}})), ""},
		"fits when converted":             {commands(closing("42")), ""},
		"does not fit":                    {commands(closing("x")), planner.InvalidEntities},
		"missing before misfit":           {commands(do("updateTicket", map[string]any{"id": "x"})), planner.MissingEntities},
		"variable used behind":            {commands(saving(status, "S"), say("It is $s.")), ""},
		"variable used before":            {commands(say("It is $s."), saving(status, "S")), planner.InvalidPlan},
		"variable used by its own action": {commands(saving(do("createList", map[string]any{"list": "$S"}), "s")), planner.InvalidPlan},
		"variable deep in an entity":      {commands(do("createList", map[string]any{"list": "a", "items": []any{"$s"}}), saving(status, "S")), planner.InvalidPlan},
		"saved twice":                     {commands(saving(status, "S"), say("$S"), saving(status, "s")), ""},
		"saved by nobody":                 {commands(saving(status, "S"), say("$T costs $5")), ""},
		"escaped dollar":                  {commands(say("$$S"), saving(status, "S")), ""},
		"longest name":                    {commands(say("$Ss"), saving(status, "S")), ""},
		"typed entity from a variable":    {commands(saving(status, "S"), closing("$S")), ""},
		"typed entity with a variable":    {commands(saving(status, "S"), closing("1$S")), ""},
		"typed entity, nothing saved":     {commands(closing("$S")), planner.InvalidEntities},
		"typed entity, another saved":     {commands(saving(status, "S"), closing("$T")), planner.InvalidEntities},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := planner.Validate(planner.Plan{Commands: test.commands}, reg)
			var fault *planner.DecodeError
			if errors.As(err, &fault); fault == nil && test.want != "" || fault != nil && fault.Kind != test.want {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestValidateNames: the returned plan has the names of the registry, the plan
// that came in stays as it was, and entities are not converted.
func TestValidateNames(t *testing.T) {
	t.Parallel()
	in := planner.Plan{Commands: commands(do("functions.CLOSEticket", map[string]any{"id": "42"})), Repairs: []string{"prose"}, Salvaged: true}
	got, err := planner.Validate(in, vectorActions(t))
	if err != nil {
		t.Fatal(err)
	}
	want := planner.Plan{Commands: commands(do("closeTicket", map[string]any{"id": "42"})), Repairs: []string{"prose"}, Salvaged: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if in.Commands[0].Action != "functions.CLOSEticket" {
		t.Error("the plan that came in was changed")
	}
}
