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
	out, err := hello.Render(context.Background(),
		func(scope, name string) (any, error) { return map[string]any{"user.name": "Mia"}[scope+"."+name], nil },
		map[string]func(context.Context, []string) (any, error){
			"shout": func(_ context.Context, args []string) (any, error) { return args[0] + ", " + args[1] + "!", nil },
		})
	fmt.Println(out, err)
	// Output: Hello Mia, well done, Mia! {{ <nil>
}
