package skills_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills"
)

// forTenants keeps skills that name a tenant for that tenant.
func forTenants(source skills.Source) skills.Source {
	return func(ctx context.Context, turn *actions.Turn) ([]*skills.Skill, error) {
		list, err := source(ctx, turn)
		return slices.DeleteFunc(slices.Clone(list), func(s *skills.Skill) bool {
			only := s.Metadata["tenant"]
			if only == "" || turn == nil { // nil: on the command line
				return false
			}
			tenant, ok := turn.Activity.Tenant()
			return !ok || tenant != only
		}), err
	}
}

func ExampleAggregate() {
	greeting := &skills.Skill{
		Name: "greeting", Description: "Greets. Use it when somebody says hello.", Instructions: "Say hello, with the name.",
	}
	files := skills.Config{Roots: []string{"../examples/skills"}}.Source()
	source := skills.Aggregate(forTenants(files), skills.Memory(greeting))
	list, err := source(context.Background(), nil)
	for _, s := range list {
		fmt.Println(s.Name)
	}
	fmt.Println(err)
	// Output:
	// translator
	// unit-converter
	// greeting
	// <nil>
}
