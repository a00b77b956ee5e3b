package approvers_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions/graph"
	"github.com/planbot-go/planbot/app/approvers"
)

// TestDoctor: it shows who has which name. The start stops at a name that nobody has, and not because Graph is away.
func TestDoctor(t *testing.T) {
	t.Parallel()
	entra := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/users/"), "@")
		switch name {
		case "ben", "carla":
			fmt.Fprintf(w, `{"id":"aad-%s","accountEnabled":true}`, name)
		case "away":
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(entra.Close)
	for _, tt := range []struct {
		names        []string
		status, says string
		starts       bool
	}{
		{[]string{"ben@contoso.com", "carla@contoso.com"}, "ok", "ben@contoso.com is aad-ben, carla@contoso.com is aad-carla", true},
		{[]string{"ben@contoso.com", "nora@contoso.com"}, "fail", `find "nora@contoso.com": nobody in Entra`, false},
		{[]string{"Ben"}, "fail", `find "Ben": nobody in Entra`, false},
		{[]string{"away@contoso.com"}, "fail", "503", true},
	} {
		feature := approvers.Feature(graph.Client{URL: entra.URL}.Named(tt.names...))
		if err := feature.Wire(t.Context(), nil, nil); (err == nil) != tt.starts {
			t.Errorf("%v: start %v", tt.names, err)
		}
		got := feature.Doctor["approvers"](t.Context(), nil)
		if got.Status != tt.status || !strings.Contains(got.Detail, tt.says) {
			t.Errorf("%v: %+v", tt.names, got)
		}
	}
}
