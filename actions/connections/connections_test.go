package connections_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions/connections"
)

func TestName(t *testing.T) {
	t.Parallel()
	long := "x" + strings.Repeat("2345678901", 5)[:46]
	for _, c := range []struct{ key, remote, want string }{
		{"github", "create_issue", "github_create_issue"},
		{"jira", "create.issue", "jira_create_issue_5f6199e0"},
		{"jira", "create_issue", "jira_create_issue"},
		{"svc", "größe", "svc_gr__e_c2f527d2"},
		{"github", "-x", "github_-x"},
		{"vercel", "update_project_deployment_protection_for_production_environment_x", "vercel_update_project_deployment_protection_for_product_eeffdc7a"},
		{"abcdefghijklmnop", long, "abcdefghijklmnop_" + long},
		{"abcdefghijklmnop", long + "8", "abcdefghijklmnop_x2345678901234567890123456789012345678_c61a98e4"},
	} {
		if got := connections.Name(c.key, c.remote); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.remote, c.key, got, c.want)
		}
	}
	for _, key := range []string{"git_hub", "Git", "", "abcdefghijklmnopq"} {
		if connections.CheckKey(key) == nil {
			t.Errorf("%q is a key", key)
		}
	}
	if err := connections.CheckKey("abcdefghijklmnop"); err != nil {
		t.Error(err)
	}
}

// TestNeeds reads what services write in other words and orders.
func TestNeeds(t *testing.T) {
	t.Parallel()
	for challenge, want := range map[string][]string{
		`Bearer error="insufficient_scope", scope="files:read files:write"`:                             {"files:read", "files:write"},
		`Bearer realm="a, b=\"c\"", scope="x", error=insufficient_scope, resource_metadata="https://x"`: {"x"},
		`bearer error = "insufficient_scope"`:                                                           {},
		`Basic realm="x", Bearer error="insufficient_scope",scope="a"`:                                  {"a"},
		`Bearer error="invalid_token", scope="a"`:                                                       nil,
		`Bearer scope="error=insufficient_scope"`:                                                       nil,
		``:  nil,
		`"`: nil,
	} {
		got := connections.Needs(http.Header{"Www-Authenticate": {challenge}})
		if (got == nil) != (want == nil) || got != nil && !slices.Equal(got.Scopes, want) {
			t.Errorf("%s: %v, want %v", challenge, got, want)
		}
	}
}
