package skills_test

import (
	"context"
	"fmt"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills"
)

// tenantOnly keeps skills that name a tenant for that tenant.
func tenantOnly(_ context.Context, turn *actions.Turn, s *skills.Skill) bool {
	only := s.Metadata["tenant"]
	if only == "" || turn == nil { // nil: on the command line
		return true
	}
	tenant, ok := turn.Activity.Tenant()
	return ok && tenant == only
}

func newSource(folder string, own ...*skills.Skill) (skills.Source, error) {
	files, err := skills.Files(skills.Config{Roots: []string{folder}})
	if err != nil {
		return nil, err
	}
	return skills.NewSource(skills.SourceConfig{
		Sources: []skills.Source{files, skills.Memory(own...)},
		Cache:   skills.CacheConfig{TTL: time.Minute},
		Keep:    tenantOnly,
	})
}

func ExampleNewSource() {
	greeting, err := skills.Inline("greeting", "Greets. Use it when somebody says hello.", "Say hello, with the name.").Skill()
	if err != nil {
		fmt.Println(err)
		return
	}
	source, err := newSource("../examples/skills", greeting)
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := source.Skills(context.Background(), nil)
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
