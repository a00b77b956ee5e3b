package connector_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/connector"
)

// TestGovernmentCommunityCloud: what its tenants are told by other hosts is followed
// within Microsoft's public connector, and nowhere else.
func TestGovernmentCommunityCloud(t *testing.T) {
	t.Parallel()
	const (
		public = "https://smba.trafficmanager.net/amer/"
		gcc    = "https://smba.infra.gcc.teams.microsoft.com/teams"
	)
	tests := []struct {
		name, cloud, listed, service string
		status                       int
		code                         string
		stubborn                     bool // every host says so
		want                         []string
	}{
		{"moved", "public", "", public, 403, "InvalidBotApiHost", false, []string{public, gcc + "/"}},
		{"everywhere refused", "public", "", public, 403, "InvalidBotApiHost", true, []string{public, gcc + "/"}},
		{"refused there", "public", "", gcc, 403, "InvalidBotApiHost", true, []string{gcc + "/"}},
		{"another refusal", "public", "", public, 403, "BotNotInConversationRoster", false, []string{public}},
		{"another status", "public", "", public, 400, "InvalidBotApiHost", false, []string{public}},
		{"another cloud", "gcch", "", "https://smba.infra.gov.teams.microsoft.us/gcch/", 403, "InvalidBotApiHost", false, []string{"https://smba.infra.gov.teams.microsoft.us/gcch/"}},
		{"a listed host", "public", "connector.example", "https://connector.example/", 403, "InvalidBotApiHost", false, []string{"https://connector.example/"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cloud, err := connector.CloudNamed(tt.cloud)
			if err != nil {
				t.Fatal(err)
			}
			allowed, err := connector.NewServiceHosts(cloud, []string{tt.listed}, false)
			if err != nil {
				t.Fatal(err)
			}
			var asked []string
			transport := roundTripper(func(r *http.Request) (*http.Response, error) {
				asked = append(asked, strings.TrimSuffix(r.URL.String(), "v3/conversations/a:1%3Bmessageid=2/activities"))
				w := httptest.NewRecorder()
				if len(asked) == 1 || tt.stubborn {
					answer(tt.status, `{"error":{"code":"`+tt.code+`"}}`)(w, r)
				} else {
					answer(201, `{"id":"1"}`)(w, r)
				}
				return w.Result(), nil
			})
			c, err := connector.New(connector.Config{Hosts: allowed, Tokens: fixedToken("t"), Transport: transport})
			if err != nil {
				t.Fatal(err)
			}
			var e *connector.Error
			id, err := c.Send(t.Context(), reference(tt.service), message())
			if moved := len(tt.want) == 2 && !tt.stubborn; moved != (id == "1") || !moved && (!errors.As(err, &e) || e.Status != tt.status) {
				t.Errorf("id %q, err %v", id, err)
			}
			if diff := cmp.Diff(tt.want, asked); diff != "" {
				t.Errorf("hosts (-want +got):\n%s", diff)
			}
		})
	}
}
