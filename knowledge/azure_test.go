package knowledge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/planbot-go/planbot/knowledge"
)

// azure stands in for Azure AI Search: it understands the filter of this client alone.
type azure struct {
	documents []map[string]any
	lies      bool // it ignores the filter
	status    int
	body      string
	seen      map[string]any
	header    http.Header
	path      string
}

var azureFilter = regexp.MustCompile(`^access/any\(a: search\.in\(a, '([^']*)', '\|'\)\)$`)

func (s *azure) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, _ := io.ReadAll(r.Body)
	s.seen = nil
	_ = json.Unmarshal(raw, &s.seen)
	s.header, s.path = r.Header, r.URL.String()
	if s.status != 0 {
		w.WriteHeader(s.status)
		_, _ = io.WriteString(w, s.body)
		return
	}
	filter, _ := s.seen["filter"].(string)
	m := azureFilter.FindStringSubmatch(filter)
	if m == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	rights := strings.Split(m[1], "|")
	var found []map[string]any
	for i, d := range s.documents {
		access, _ := d["access"].([]string)
		if s.lies || slices.ContainsFunc(access, func(right string) bool { return slices.Contains(rights, right) }) {
			d["@search.score"] = 9 - i
			found = append(found, d)
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"value": found})
}

func azureSearch(t *testing.T, s http.Handler, edit func(*knowledge.AzureSearchConfig)) *knowledge.AzureSearch {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	pool := &http.Transport{}
	t.Cleanup(pool.CloseIdleConnections)
	cfg := knowledge.AzureSearchConfig{Endpoint: server.URL, Index: "handbook", Key: "k", Tenant: tenant, Transport: pool}
	if edit != nil {
		edit(&cfg)
	}
	x, err := knowledge.NewAzureSearch(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func handbook() []map[string]any {
	return []map[string]any{
		{"id": "1", "title": nil, "url": "javascript:x", "content": "for Anna", "access": []string{"person:anna"}},
		{"id": "2", "title": "Leads", "url": "https://a.example/2", "content": "for leads", "access": []string{"group:leads", "group:everybody"}},
		{"id": "3", "title": "All", "url": nil, "content": "for everyone", "access": []string{"everyone-in-tenant"}},
		{"id": "4", "content": "for nobody"},
		{"id": "5", "content": "for a team", "access": []string{"team:t1", "conversation:19:x@thread.tacv2"}},
	}
}

// TestAzureSearchRights: the service filters, and what it should not have returned is left out.
func TestAzureSearchRights(t *testing.T) {
	t.Parallel()
	for _, lies := range []bool{false, true} {
		s := &azure{documents: handbook(), lies: lies}
		x := azureSearch(t, s, nil)
		anna := person("Anna")
		leads := person("bea")
		leads.Groups = []string{"leads", "Everybody"}
		group := anna
		group.Personal, group.Groups, group.Team = false, []string{"leads"}, "T1"
		stranger := anna
		stranger.Tenant = "other"
		quote := person("x') or access/any(a: a ne 'y")
		quote.Groups = []string{"a|person:anna", "leads'"}
		for want, caller := range map[string]knowledge.Caller{
			"1 3": anna, "2 3": leads, "3 5": group, "": stranger, "3": quote, " ": {}, "3 5 ": {Tenant: tenant, Conversation: "19:x@thread.tacv2"},
		} {
			if got := found(t, x, caller, "for"); got != strings.TrimSpace(want) {
				t.Errorf("lies %t: %+v found %q, want %q", lies, caller, got, want)
			}
		}
	}
}

func TestAzureSearchAsks(t *testing.T) {
	t.Parallel()
	s := &azure{documents: handbook()}
	passages, err := azureSearch(t, s, nil).Search(t.Context(), knowledge.Query{Text: ` +days -"off" (of) vacation* `, Caller: person("anna"), Limit: 1000})
	if err != nil || len(passages) != 2 || passages[0].URL != "" || passages[0].Title != "" || passages[0].Score != 9 || passages[1].Title != "All" {
		t.Errorf("%+v, %v", passages, err)
	}
	if s.path != "/indexes/handbook/docs/search?api-version=2024-07-01" || s.header.Get("Api-Key") != "k" ||
		s.seen["search"] != "days off of vacation" || s.seen["top"] != 50.0 || s.seen["queryType"] != "simple" {
		t.Errorf("%s %v", s.path, s.seen)
	}
	x := azureSearch(t, s, func(c *knowledge.AzureSearchConfig) {
		c.Key, c.Semantic, c.Vector = "", "best", "vector"
		c.Token = func(context.Context) (string, error) { return "tok", nil }
	})
	if _, err := x.Search(t.Context(), knowledge.Query{Text: "days", Caller: everyone}); err != nil || s.header.Get("Authorization") != "Bearer tok" ||
		s.header.Get("Api-Key") != "" || s.seen["queryType"] != "semantic" || s.seen["semanticConfiguration"] != "best" ||
		fmt.Sprint(s.seen["vectorQueries"]) != "[map[fields:vector k:50 kind:text text:days]]" || s.seen["vectorFilterMode"] != "preFilter" {
		t.Errorf("%v %v %v", err, s.header, s.seen)
	}
}

// TestAzureSearchFails: nothing of an answer is in an error.
func TestAzureSearchFails(t *testing.T) {
	t.Parallel()
	for _, s := range []*azure{{status: 403, body: "secret"}, {status: 302}, {status: 206, body: `{"value":[]}`}, {status: 200, body: "secret"}, {status: 200, body: strings.Repeat(" ", 9<<20)}} {
		got, err := azureSearch(t, s, nil).Search(t.Context(), knowledge.Query{Text: "x", Caller: everyone})
		if err == nil || got != nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v, %v", s.status, got, err)
		}
	}
	_, err := knowledge.NewAzureSearch(knowledge.AzureSearchConfig{Endpoint: "http://a.example", Index: "a/b", Key: "a\n", Title: "a'"})
	for _, want := range []string{"no https address", "the Index is no name", "the Key holds", "no Tenant", `"a'" is no name of a field`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// hung is a service that never answers.
type hung struct{}

func (hung) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAzureSearchHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		x, err := knowledge.NewAzureSearch(knowledge.AzureSearchConfig{Endpoint: "https://a.example", Index: "handbook", Key: "k", Tenant: tenant, Transport: hung{}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := x.Search(t.Context(), knowledge.Query{Text: "x", Caller: everyone}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a service that hangs: %v", err)
		}
	})
}

func ExampleNewAzureSearch() {
	server := httptest.NewServer(&azure{documents: []map[string]any{{"id": "1", "title": "Leave", "content": "Thirty days a year.", "access": []string{"everyone-in-tenant"}}}})
	defer server.Close()
	source, err := knowledge.NewAzureSearch(knowledge.AzureSearchConfig{Endpoint: server.URL, Index: "handbook", Key: "query-key", Tenant: "contoso"})
	if err != nil {
		fmt.Println(err)
		return
	}
	passages, err := source.Search(context.Background(), knowledge.Query{Text: "days of leave", Caller: knowledge.Caller{Tenant: "contoso", Conversation: "19:a"}})
	fmt.Println(passages[0].Title, passages[0].Text, err)
	// Output: Leave Thirty days a year. <nil>
}
