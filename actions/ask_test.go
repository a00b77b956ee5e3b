package actions_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
)

// An action that needs to know more asks the person, and is called again with the answer.
func ExampleAsk() {
	registry := actions.New()
	order := actions.Add(registry, "orderCoffee", "Orders a coffee", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
		answer := actions.AttemptOf(ctx).Answer
		switch {
		case answer == nil:
			size := actions.Field{Name: "size", Required: true, Choices: []actions.Choice{{Value: "s", Title: "Small"}, {Value: "l", Title: "Large"}}}
			return actions.Ask(actions.Form{Text: "Which size?", Fields: []actions.Field{size}}, []byte("espresso")), nil
		case answer.Declined:
			return actions.Fail("The person did not say which size."), nil
		}
		return actions.Text("%s, size %s", answer.State, answer.Values["size"]), nil
	})

	asked, err := order.Call(actions.Attempt{MayAsk: true}.Context(context.Background()), &actions.Turn{}, nil)
	form, state := asked.Asks()
	fmt.Println(form.Text, err)
	answer := actions.Answer{Values: map[string]any{"size": "l"}, State: state}
	done, err := order.Call(actions.Attempt{MayAsk: true, Answer: &answer}.Context(context.Background()), &actions.Turn{}, nil)
	fmt.Println(done.Text(), err)
	// Output:
	// Which size? <nil>
	// espresso, size l <nil>
}

// TestAskNobody makes a call that asks again with a declined answer, unless it never takes no for an
// answer. What is called within another call may not ask.
func TestAskNobody(t *testing.T) {
	t.Parallel()
	registry, calls := actions.New(), 0
	ask := actions.Ask(actions.Form{Text: "Sure?"}, []byte("x"))
	once := actions.Add(registry, "once", "Asks", func(ctx context.Context, _ *actions.Turn, _ struct{}) (actions.Result, error) {
		calls++
		if a := actions.AttemptOf(ctx).Answer; a != nil {
			return actions.Text("%t %t %s", a.Declined, a.Unanswered, a.State), nil
		}
		return ask, nil
	}, actions.Returns[string]())
	always := actions.Add(registry, "always", "Asks", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		calls++
		return ask, nil
	})
	outer := actions.Add(registry, "outer", "Calls once", func(ctx context.Context, turn *actions.Turn, _ struct{}) (actions.Result, error) {
		return once.Call(ctx, turn, nil)
	})
	if got, err := once.Call(t.Context(), &actions.Turn{}, nil); err != nil || got.Text() != "true true x" || calls != 2 {
		t.Errorf("got %q, %v after %d calls", got.Text(), err, calls)
	}
	calls = 0
	if got, err := always.Call(t.Context(), &actions.Turn{}, nil); err == nil || calls != 4 {
		t.Errorf("got %q, %v after %d calls", got.Text(), err, calls)
	}
	within := actions.Attempt{Key: "k", MayAsk: true, Answer: &actions.Answer{}}.Context(t.Context())
	if got, err := outer.Call(within, &actions.Turn{}, nil); err != nil || got.Text() != "true true x" {
		t.Errorf("within a call: %q, %v", got.Text(), err)
	}
	if form, _ := actions.Text("no question").Asks(); form != nil {
		t.Errorf("a result asks %v", form)
	}
}

func TestFormsThatAreNone(t *testing.T) {
	t.Parallel()
	low, high := 1.0, 2.0
	field := func(f actions.Field) actions.Form {
		f.Name = "f"
		return actions.Form{Text: "?", Fields: []actions.Field{f}}
	}
	for name, form := range map[string]actions.Form{
		"no text":                   {},
		"a long text":               {Text: strings.Repeat("x", 4<<10+1)},
		"many fields":               {Text: "?", Fields: make([]actions.Field, 21)},
		"a time in the past":        {Text: "?", Within: -1},
		"a field without name":      {Text: "?", Fields: []actions.Field{{}}},
		"two of one name":           {Text: "?", Fields: []actions.Field{{Name: "a"}, {Name: "a"}}},
		"an unknown kind":           field(actions.Field{Kind: "password"}),
		"choices of a number":       field(actions.Field{Kind: actions.NumberField, Choices: []actions.Choice{{Value: "1"}}}),
		"a limit of a text":         field(actions.Field{Max: &high}),
		"limits the wrong way":      field(actions.Field{Kind: actions.NumberField, Min: &high, Max: &low}),
		"lengths the wrong way":     field(actions.Field{MinLength: 3, MaxLength: 2}),
		"a length that is too long": field(actions.Field{MaxLength: 4001}),
		"one choice twice":          field(actions.Field{Choices: []actions.Choice{{Value: "a"}, {Value: "a"}}}),
		"a default of another kind": field(actions.Field{Kind: actions.IntegerField, Default: "x"}),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			actions.Ask(form, nil)
		}()
	}
	actions.Ask(field(actions.Field{Kind: actions.NumberField, Min: &low, Max: &high, Default: 1.5}), nil)
}
