package skills_test

import (
	"context"
	"fmt"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills"
)

func ExampleNewProvider() {
	greeting := &skills.Skill{
		Name: "greeting", Description: "Greets. Use it when somebody says hello.", Instructions: "Say hello, with the name.",
	}
	provider, err := skills.NewProvider(skills.ProviderConfig{Skills: []*skills.Skill{greeting}, Template: "Skills:\n{skills}"})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry := actions.New()
	if err := provider.Register(registry); err != nil {
		fmt.Println(err)
		return
	}
	// planner.Config{Actions: registry, Extensions: []actions.Extension{provider}, …} and bot.Config{Skills: provider, …}
	extra, err := provider.Extend(context.Background(), nil)
	fmt.Println(extra.Text, err)
	// Output:
	// Skills:
	// greeting: Greets. Use it when somebody says hello. <nil>
}
