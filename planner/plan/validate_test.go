package plan_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/planner/plan"
)

func saving(c plan.Command, name string) plan.Command {
	c.SaveAs = name
	return c
}

// TestValidate checks plans by rule; "" is a plan that may run.
func TestValidate(t *testing.T) {
	t.Parallel()
	reg := vectorActions(t)
	status := do("getLightStatus", map[string]any{})
	closing := func(id any) plan.Command { return do("closeTicket", map[string]any{"id": id}) }
	tests := map[string]struct {
		commands []plan.Command
		want     plan.FaultKind
	}{
		"good":                            {commands(milk, say("ok")), ""},
		"nothing":                         {nil, plan.NoPlan},
		"another kind":                    {commands(plan.Command{Kind: "do", Action: "pause"}), plan.InvalidPlan},
		"no action":                       {commands(do(" ", nil)), plan.InvalidPlan},
		"blank SAY":                       {commands(say(" ")), plan.InvalidPlan},
		"bad name to save as":             {commands(saving(status, "a b")), plan.InvalidPlan},
		"other case":                      {commands(do("ADDITEM", milk.Entities)), ""},
		"namespace":                       {commands(do("functions.addItem", milk.Entities)), ""},
		"unknown":                         {commands(milk, do("orderPizza", nil)), plan.UnknownAction},
		"unknown before missing":          {commands(do("orderPizza", nil), do("addItem", nil)), plan.UnknownAction},
		"missing before unknown":          {commands(do("addItem", nil), do("orderPizza", nil)), plan.MissingEntities},
		"form before all":                 {commands(do("orderPizza", nil), say("")), plan.InvalidPlan},
		"unknown entity":                  {commands(do("pause", map[string]any{"time": json.Number("1"), "x": []any{}})), ""},
		"fits when converted":             {commands(closing("42")), ""},
		"does not fit":                    {commands(closing("x")), plan.InvalidEntities},
		"missing before misfit":           {commands(do("updateTicket", map[string]any{"id": "x"})), plan.MissingEntities},
		"variable used behind":            {commands(saving(status, "S"), say("It is $s.")), ""},
		"variable used before":            {commands(say("It is $s."), saving(status, "S")), plan.InvalidPlan},
		"variable used by its own action": {commands(saving(do("createList", map[string]any{"list": "$S"}), "s")), plan.InvalidPlan},
		"variable deep in an entity":      {commands(do("createList", map[string]any{"list": "a", "items": []any{"$s"}}), saving(status, "S")), plan.InvalidPlan},
		"saved twice":                     {commands(saving(status, "S"), say("$S"), saving(status, "s")), ""},
		"saved by nobody":                 {commands(saving(status, "S"), say("$T costs $5")), ""},
		"escaped dollar":                  {commands(say("$$S"), saving(status, "S")), ""},
		"longest name":                    {commands(say("$Ss"), saving(status, "S")), ""},
		"typed entity from a variable":    {commands(saving(status, "S"), closing("$S")), ""},
		"typed entity with a variable":    {commands(saving(status, "S"), closing("1$S")), ""},
		"typed entity, nothing saved":     {commands(closing("$S")), plan.InvalidEntities},
		"typed entity, another saved":     {commands(saving(status, "S"), closing("$T")), plan.InvalidEntities},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := plan.Plan{Commands: test.commands}.Validate(reg)
			var fault *plan.Fault
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
	in := plan.Plan{Commands: commands(do("functions.CLOSEticket", map[string]any{"id": "42"})), Repairs: []string{"prose"}, Salvaged: true}
	got, err := in.Validate(vectorActions(t))
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Plan{Commands: commands(do("closeTicket", map[string]any{"id": "42"})), Repairs: []string{"prose"}, Salvaged: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if in.Commands[0].Action != "functions.CLOSEticket" {
		t.Error("the plan that came in was changed")
	}
}
