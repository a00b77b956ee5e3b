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
	greeting, err := skills.Inline("greeting", "Greets. Use it when somebody says hello.", "Say hello, with the name.").Skill()
	if err != nil {
		fmt.Println(err)
		return
	}
	files, err := skills.Files(skills.Config{Roots: []string{"../examples/skills"}})
	if err != nil {
		fmt.Println(err)
		return
	}
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
