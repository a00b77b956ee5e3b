package planner_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/planner/plan"
	"github.com/planbot-go/planbot/prompts"
	"github.com/planbot-go/planbot/state"
)

// fixed is a model that always answers the same.
type fixed string

func (s fixed) Complete(context.Context, *models.Request) (*models.Response, error) {
	return &models.Response{Text: string(s)}, nil
}

func ExampleNewSequential() {
	ctx := context.Background()
	registry := actions.New()
	lists.Register(registry)
	const answer = `<plan><function.addItem list="groceries" item="milk" setContextVariable="ADDED"/><say>$ADDED</say></plan>`
	sequential, err := planner.NewSequential(ctx, planner.Config{Model: fixed(answer), Actions: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := sequential.Plan(ctx, &actions.Turn{Activity: &activity.Activity{}, Thread: state.NewScope(), Text: "milk, please"})
	fmt.Println(p, err)
	// Output:
	// - addItem item="milk" list="groceries" => ADDED
	// - SAY "$ADDED" <nil>
}

// An action that is a prompt: its result is what the model writes.
func ExampleAddPrompt() {
	library, err := prompts.LoadFS(fstest.MapFS{
		"prompts/ShortPoem/prompt.txt":  {Data: []byte("Write a poem of two lines about {{$subject}}.")},
		"prompts/ShortPoem/config.json": {Data: []byte(`{"description": "Writes a short poem"}`)},
	}, "prompts")
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, model := actions.New(), fixed("Milk is white\nand gone by night.")

	type poem struct {
		Subject string `json:"subject"`
	}
	write := planner.AddPrompt[poem](registry, "ShortPoem", "", planner.Config{Model: model, Prompts: library})

	result, err := write.Call(context.Background(), &actions.Turn{}, map[string]any{"subject": "milk"})
	fmt.Println(result.Text(), err)
	// Output:
	// Milk is white
	// and gone by night. <nil>
}

// Each prompt folder whose config.json has parameters becomes an action.
func ExampleAddPromptFolders() {
	library, err := prompts.LoadFS(fstest.MapFS{
		"prompts/Poem/prompt.txt": {Data: []byte("Write a poem of two lines about {{$subject}}.")},
		"prompts/Poem/config.json": {Data: []byte(`{"description": "Writes a short poem", "input": {"parameters": [
			{"name": "subject", "description": "what the poem is about"}]}}`)},
	}, "prompts")
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := actions.New()
	err = planner.AddPromptFolders(registry, planner.Config{Model: fixed("…"), Prompts: library})
	for _, action := range registry.All() {
		fmt.Println(action.Name, "-", action.Description)
	}
	fmt.Println(err)
	// Output:
	// Poem - Writes a short poem
	// <nil>
}

// A Go value from what a person wrote: the model's answer is checked, and asked for again if it does not fit.
func ExampleAsk() {
	model := fixed("Sure! {\"item\": \"espresso\", \"count\": \"2\", \"size\": \"small\"}")

	type order struct {
		Item  string `json:"item"`
		Count int    `json:"count"`
		Size  string `json:"size" enum:"small,large"`
	}
	got, err := planner.Ask[order](context.Background(), planner.Question{
		Model: model, Instructions: "Find out what is ordered.", Text: "two small espressos, please",
	})
	fmt.Printf("%+v %v\n", got, err)
	// Output: {Item:espresso Count:2 Size:small} <nil>
}

// Manual invocation: a plan is made, looked at, and run step by step, without a bot.
func ExamplePlanner_Plan() {
	ctx := context.Background()
	registry := actions.New()
	lists.Register(registry)
	const answer = `{"type":"plan","commands":[
		{"type":"DO","action":"addItem","entities":{"list":"groceries","item":"milk"},"saveAs":"ADDED"},
		{"type":"SAY","response":"Done: $ADDED"}]}`
	sequence, err := planner.NewSequence(ctx, planner.Config{Model: fixed(answer), Actions: registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	scope := state.NewScope()
	turn := &actions.Turn{Activity: &activity.Activity{}, Conversation: scope, Thread: scope, User: scope, Text: "milk, please"}

	p, err := sequence.Plan(ctx, turn)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p)
	progress := p.Start(nil)
	for !progress.Done() {
		command, err := progress.Command(progress.Next)
		if err != nil {
			fmt.Println(err)
			return
		}
		result := actions.Done
		if command.Kind == plan.Do {
			action, _ := registry.Lookup(command.Action)
			if result, err = action.Call(ctx, turn, command.Entities); err != nil || result.Failed() {
				fmt.Println("stopped:", result.Text(), err)
				return
			}
		} else {
			fmt.Println("say:", command.Response)
		}
		if err := progress.Advance(result); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// - addItem item="milk" list="groceries" => ADDED
	// - SAY "Done: $ADDED"
	// say: Done: Added milk to the list groceries.
}
