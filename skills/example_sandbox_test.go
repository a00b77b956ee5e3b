package skills_test

import (
	"fmt"

	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// Scripts run without any protection where a developer says so: on a system without a sandbox, with skills that they
// have read.
func ExampleSandbox() {
	cfg := skills.ProviderConfig{
		Sandbox: sandbox.Unprotected{Interpreters: map[string][]string{".py": {"python3"}}},
	}
	_, err := skills.NewProvider(cfg)
	fmt.Println("scripts run in", cfg.Sandbox, err)
	// Output: scripts run in ordinary programs of this user, without any protection: they can read, change and send away what the user can <nil>
}
