package plan_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
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
		"variable as a list":              {commands(saving(status, "S"), do("createList", map[string]any{"list": "a", "items": []any{"$s[1]"}})), plan.InvalidPlan},
		"field of a list":                 {commands(saving(status, "S"), do("createList", map[string]any{"list": "$S.items[0]"})), plan.InvalidPlan},
		"no variable before brackets":     {commands(saving(status, "S"), do("createList", map[string]any{"list": "$$S[1] $5[1]"})), ""},
		"a citation behind a variable":    {commands(saving(status, "S"), say("It is $S[1].")), ""},
		"brackets, nothing saved":         {commands(do("createList", map[string]any{"list": "$S[1]"})), ""},
		"saved by nobody":                 {commands(saving(status, "S"), say("$T costs $5")), plan.InvalidPlan},
		"not a name":                      {commands(saving(status, "S"), say("$S costs $5 or $ 6")), ""},
		"nothing is saved":                {commands(status, say("$T costs $5")), ""},
		"field of an unknown shape":       {commands(saving(status, "S"), say("It is $S.any.thing")), ""},
		"escaped dollar":                  {commands(say("$$S"), saving(status, "S")), ""},
		"longest name":                    {commands(say("$$Ss"), saving(status, "Ss"), say("$Ss"), saving(status, "S")), ""},
		"typed entity from a variable":    {commands(saving(status, "S"), closing("$S")), ""},
		"typed entity with a variable":    {commands(saving(status, "S"), closing("1$S")), ""},
		"typed entity, nothing saved":     {commands(closing("$S")), plan.InvalidEntities},
		"typed entity, another saved":     {commands(saving(status, "S"), closing("$T")), plan.InvalidPlan},
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

// shop is a registry whose actions declare their results.
func shop() *actions.Registry {
	type item struct {
		ID    int    `json:"id"`
		Owner string `json:"owner,omitempty"`
		Place struct {
			Shelf string `json:"shelf"`
		} `json:"place"`
	}
	reg := actions.New()
	nothing := func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil }
	actions.Add(reg, "find", "Finds", nothing, actions.Returns[item]())
	actions.Add(reg, "name", "Names", nothing, actions.Returns[string]())
	actions.Add(reg, "guess", "Guesses", nothing)
	actions.Add(reg, "take", "Takes", func(_ context.Context, _ *actions.Turn, in struct {
		ID int `json:"id"`
	},
	) (actions.Result, error) {
		return actions.Done, nil
	})
	return reg
}

// TestFieldsOfResults are checked if the action declares them, and only in JSON plans.
func TestFieldsOfResults(t *testing.T) {
	t.Parallel()
	find := saving(do("find", nil), "F")
	for text, want := range map[string]string{
		"Found $f.id of $F.owner.": "",
		"On $F.place.shelf.":       "",
		"$F.ID":                    "command 2 uses $F.ID, but the result of find has no field ID; there are id, owner, place",
		"$F.id.name":               "",
		"$F.place.row":             "command 2 uses $F.place.row, but the result of find has no field row; there are shelf",
		"$$F.x":                    "",
	} {
		p := plan.Plan{Commands: commands(find, say(text))}
		_, err := p.Validate(shop())
		if got := detail(err); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		p.TrimResults = true
		if _, err := p.Validate(shop()); err != nil {
			t.Errorf("%s as XML: %v", text, err)
		}
	}
	for name, list := range map[string][]plan.Command{
		"a text has no fields":  commands(saving(do("name", nil), "N"), say("$N.txt")),
		"nobody declares":       commands(saving(do("guess", nil), "G"), say("$G.any")),
		"the last one is meant": commands(find, saving(do("guess", nil), "f"), say("$F.any")),
		"in an entity":          commands(find, do("take", map[string]any{"id": "$F.id"})),
	} {
		if _, err := (plan.Plan{Commands: list}).Validate(shop()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wrong := plan.Plan{Commands: commands(find, do("take", map[string]any{"id": "$F.number"}))}
	var fault *plan.Fault
	if _, err := wrong.Validate(shop()); !errors.As(err, &fault) || fault.Kind != plan.InvalidPlan {
		t.Errorf("a wrong field in an entity: %v", err)
	}
}

func detail(err error) string {
	var fault *plan.Fault
	if errors.As(err, &fault) {
		return fault.Detail
	}
	return ""
}

// TestOtherNamesOfEntities: the sample plan of Teams AI names a list and an item by "name", and the list of the item
// is that of the command before it.
func TestOtherNamesOfEntities(t *testing.T) {
	t.Parallel()
	reg := actions.New()
	actions.Add(reg, "createList", "Creates a list", func(context.Context, *actions.Turn, struct {
		List string `json:"list"`
	},
	) (actions.Result, error) {
		return actions.Done, nil
	}, actions.Alias("list", "name"))
	actions.Add(reg, "addItem", "Adds an item", func(context.Context, *actions.Turn, struct {
		List string `json:"list"`
		Item string `json:"item"`
	},
	) (actions.Result, error) {
		return actions.Done, nil
	}, actions.Alias("item", "name", "text"), actions.Inherit("list"))
	actions.Add(reg, "renameList", "Renames a list", func(context.Context, *actions.Turn, struct {
		List string `json:"list"`
		Name string `json:"name"`
	},
	) (actions.Result, error) {
		return actions.Done, nil
	}, actions.Ends("list"))
	if err := reg.Check(); err != nil {
		t.Fatal(err)
	}
	create := func(name string) plan.Command { return do("createList", map[string]any{"name": name}) }
	add := func(entities map[string]any) plan.Command { return do("addItem", entities) }
	for name, test := range map[string]struct {
		commands []plan.Command
		want     map[string]any // entities of the last command; nil: the plan may not run
		fault    plan.FaultKind
	}{
		"as published":           {commands(create("Groceries"), add(map[string]any{"name": "Bananas"})), map[string]any{"list": "Groceries", "item": "Bananas"}, ""},
		"twice the same":         {commands(create("Groceries"), add(map[string]any{"Text": "Milk"}), add(map[string]any{"item": "Eggs"})), map[string]any{"list": "Groceries", "item": "Eggs"}, ""},
		"in another case":        {commands(create("A"), create("a"), add(map[string]any{"item": "x"})), map[string]any{"list": "a", "item": "x"}, ""},
		"said in full":           {commands(create("A"), add(map[string]any{"list": "B", "name": "x"})), map[string]any{"list": "B", "item": "x"}, ""},
		"both names":             {commands(create("A"), add(map[string]any{"list": "B", "item": "y", "name": "x"})), map[string]any{"list": "B", "item": "y", "name": "x"}, ""},
		"an empty list":          {commands(create("A"), add(map[string]any{"list": "", "name": "x"})), map[string]any{"list": "A", "item": "x"}, ""},
		"a list of null":         {commands(create("A"), add(map[string]any{"list": nil, "name": "x"})), map[string]any{"list": "A", "item": "x"}, ""},
		"a list of the prompt":   {commands(create("A"), add(map[string]any{"list": "<list>", "name": "x"})), map[string]any{"list": "A", "item": "x"}, ""},
		"two lists":              {commands(create("A"), create("B"), add(map[string]any{"name": "x"})), nil, plan.MissingEntities},
		"a list that is no more": {commands(create("A"), do("renameList", map[string]any{"list": "A", "name": "B"}), add(map[string]any{"name": "x"})), nil, plan.MissingEntities},
		"no list":                {commands(add(map[string]any{"name": "x"})), nil, plan.MissingEntities},
		"a list that comes late": {commands(add(map[string]any{"name": "x"}), create("A")), nil, plan.MissingEntities},
	} {
		p, err := plan.Plan{Commands: test.commands}.Validate(reg)
		var fault *plan.Fault
		if errors.As(err, &fault) != (test.want == nil) || fault != nil && fault.Kind != test.fault {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if test.want == nil {
			continue
		}
		if diff := cmp.Diff(test.want, p.Commands[len(p.Commands)-1].Entities); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
		if test.commands[0].Entities["list"] != nil {
			t.Errorf("%s: the plan that came in was changed", name)
		}
	}
	wrong := actions.New()
	actions.Add(wrong, "a", "A", func(context.Context, *actions.Turn, struct {
		X string `json:"x"`
	},
	) (actions.Result, error) {
		return actions.Done, nil
	}, actions.Alias("y", "z"), actions.Alias("x", "X"), actions.Inherit("w"))
	if err := wrong.Check(); err == nil || strings.Count(err.Error(), "action a") != 3 {
		t.Errorf("got %v, want three faults", err)
	}
}
