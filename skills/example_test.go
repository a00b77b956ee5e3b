package skills_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

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

func ExampleProvider_sources() {
	greeting := &skills.Skill{
		Name: "greeting", Description: "Greets. Use it when somebody says hello.", Instructions: "Say hello, with the name.",
	}
	files := skills.Config{Roots: []string{"../examples/skills"}}.Source()
	provider, err := skills.NewProvider(skills.ProviderConfig{
		Skills:   []*skills.Skill{greeting},
		Sources:  []skills.Source{forTenants(files)},
		Template: "{skills}",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	extra, err := provider.Extend(context.Background(), nil)
	for line := range strings.Lines(extra.Text) {
		name, _, _ := strings.Cut(line, ":")
		fmt.Println(name)
	}
	fmt.Println(err)
	// Output:
	// greeting
	// translator
	// unit-converter
	// <nil>
}
