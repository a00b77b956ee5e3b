package prompts_test

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/prompts"
)

func ExampleParse() {
	template, err := prompts.Parse("hello", "Hello {{$user.name}}, {{shout 'well done' $user.name}} {{'{{'}}")
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := template.Render(context.Background(), prompts.Data{
		Vars: prompts.Scopes{"user": {"name": "Mia"}},
		Funcs: map[string]prompts.Func{
			"shout": func(_ context.Context, args []string) (any, error) { return args[0] + ", " + args[1] + "!", nil },
		},
	})
	fmt.Println(out, err)
	// Output: Hello Mia, well done, Mia! {{ <nil>
}

func ExampleRenderActions() {
	fmt.Println(prompts.RenderActions([]prompts.Action{{
		Name:        "addItem",
		Description: "Adds an item to a list",
		Parameters: []prompts.Parameter{
			{Name: "list", Type: "string", Required: true},
			{Name: "size", Type: "string", Enum: []string{"S", "L"}, Description: "of the item"},
			{Name: "quantity", Type: "integer", Default: "1"},
		},
	}}))
	// Output: addItem(list: string, size?: "S"|"L" "of the item", quantity?: integer = 1) - Adds an item to a list
}
