package prompts_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/planbot-go/planbot/prompts"
)

func ExampleLoadFS() {
	library, err := prompts.LoadFS(fstest.MapFS{
		"own/hello/prompt.txt": {Data: []byte("Hello {{$user.name}}, {{shout 'well done' $user.name}} {{'{{'}}")},
	}, "own")
	if err != nil {
		fmt.Println(err)
		return
	}
	hello, err := library.Prompt("hello")
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := hello.Render(context.Background(), prompts.Data{
		Vars: func(scope, name string) (any, bool) { return "Mia", scope == "user" && name == "name" },
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
