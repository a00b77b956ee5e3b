package plan_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/planner/plan"
)

// A plan that was kept is an action of other plans, and is run with other inputs
// each time.
func ExamplePlan_AddAction() {
	type text struct {
		Input string `json:"input"`
	}
	reg := actions.New()
	actions.Add(reg, "upper", "Makes a text large", func(_ context.Context, _ *actions.Turn, in text) (actions.Result, error) {
		return actions.Text("%s", strings.ToUpper(in.Input)), nil
	})
	greet, err := plan.Load([]byte(`<plan><function.upper input="hello $INPUT"/></plan>`), reg)
	if err != nil {
		fmt.Println(err)
	}
	if _, err := greet.AddAction(reg, "greet", "Greets somebody"); err != nil {
		fmt.Println(err)
	}
	both, err := plan.Load([]byte(`<plan><function.greet input="$A" setContextVariable="G"/><say>$G! And $B.</say></plan>`), reg)
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(both)
	result, err := both.Start(map[string]any{"A": "Mia", "B": "you"}).Run(context.Background(), &actions.Turn{}, reg)
	fmt.Println(result.Text(), err)
	// Output:
	// - greet INPUT="$A" => G
	// - SAY "$G! And $B."
	// HELLO MIA! And you. <nil>
}

// turnOn is a registry with one action.
func turnOn() *actions.Registry {
	type light struct {
		Room string `json:"room"`
	}
	reg := actions.New()
	actions.Add(reg, "turnOn", "Turns on a light", func(_ context.Context, _ *actions.Turn, in light) (actions.Result, error) {
		return actions.Text("the light in the %s", in.Room), nil
	})
	return reg
}

// What a model writes is decoded, then checked whole, before any of it runs.
func ExampleDecode() {
	for _, text := range []string{
		`Sure! {"type":"plan","commands":[{"type":"DO","action":"turnOn","entities":{"room":"hall"}},{"type":"SAY","response":"It is on."}]}`,
		`{"type":"plan","commands":[{"type":"DO","action":"turnOn","entities":{}},{"type":"SAY","response":"It is on."}]}`,
		`{"type":"plan","commands":[{"type":"DO","action":"turnOn","entities":{"room":"ha`,
	} {
		p, err := plan.Decode(text)
		if err == nil {
			p, err = p.Validate(turnOn())
		}
		if fault, ok := errors.AsType[*plan.Fault](err); ok {
			fmt.Println(fault.Kind)
			continue
		}
		fmt.Println(p)
	}
	// Output:
	// - turnOn room="hall"
	// - SAY "It is on."
	// missing_entities
	// truncated
}

func ExampleDecodeXML() {
	p, err := plan.DecodeXML(`<plan><function.turnOn room="hall" setContextVariable="WHAT"/><say>$WHAT is on.</say></plan>`, "light, please", turnOn())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p)
	// Output:
	// - turnOn room="hall" => WHAT
	// - SAY "$WHAT is on."
}

// A plan from a file runs without a model and without a chat.
func ExampleLoad() {
	reg := turnOn()
	p, err := plan.Load([]byte(`{"type":"plan","commands":[
		{"type":"DO","action":"turnOn","entities":{"room":"$ROOM"},"saveAs":"WHAT"},{"type":"SAY","response":"I turned on $WHAT."}]}`), reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := p.Start(map[string]any{"ROOM": "hall"}).Run(context.Background(), &actions.Turn{}, reg)
	fmt.Println(result.Text(), err)
	// Output: I turned on the light in the hall. <nil>
}
