package openapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions/openapi"
)

// TestHeadersThatNobodyChooses: a header with a single value or a default is sent, and one of the operator wins.
func TestHeadersThatNobodyChooses(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	version := func(more string) string {
		return one("get", "/a", `"parameters":[{"name":"Notion-Version","in":"header",`+more+`}],`)
	}
	for more, want := range map[string]string{
		`"required":true,"schema":{"type":"string","enum":["2022-06-28"]}`:                     "2022-06-28",
		`"required":true,"schema":{"const":"v1"}`:                                              "v1",
		`"schema":{"type":"string","default":"2022-06-28","enum":["2021-01-01","2022-06-28"]}`: "2022-06-28",
		`"schema":{"type":"integer","default":3}`:                                              "3",
		`"schema":{"type":"string"}`:                                                           "",
		`"schema":{"type":"string"}},{"name":"content-length","in":"header","required":true,"schema":{"type":"integer"}},{"name":"User-Agent","in":"header","required":true,"schema":{"type":"string"}`: "",
	} {
		c := connect(t, s, version(more))
		must(t, c, "svc_act", `{}`)
		if got := s.last(t).header.Get("Notion-Version"); got != want {
			t.Errorf("%s: sent %q", more, got)
		}
		c = connect(t, s, version(more), func(cfg *openapi.Config) { cfg.Header = http.Header{"Notion-Version": {"mine"}} })
		must(t, c, "svc_act", `{}`)
		if got := s.last(t).header.Get("Notion-Version"); got != "mine" {
			t.Errorf("%s: sent %q and not the operator's", more, got)
		}
	}
}

// TestReservedInPaths: what a template has stays, a query in it is one, and a value that may have slashes keeps them.
func TestReservedInPaths(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for _, c := range []struct{ path, more, value, uri string }{
		{"/v1/{p}:cancel", "", "a", "/v1/a:cancel"},
		{"/Users('{p}')/x,y;z=1", "", "a'b", "/Users('a%27b')/x,y;z=1"},
		{"/{p}?action=list&x=1", "", "a", "/a?action=list&x=1"},
		{"/{p}#other", "", "a", "/a"},
		{"/{p}?page={page}&sort=asc&more={more}", "", "a", "/a?sort=asc"},
		{"/a?of={p}&sort=asc", "", "a&b", "/a?of=a%26b&sort=asc"},
		{"/contents/{p}", `"x-multi-segment":true,`, "docs/a b?#.md", "/contents/docs/a%20b%3F%23.md"},
		{"/contents/{p}", `"allowReserved":true,`, "a/b:c@d", "/contents/a/b:c@d"},
		{"/contents/{p}", "", "docs/a.md", "/contents/docs%2Fa.md"},
	} {
		connection := connect(t, s, one("get", c.path, `"parameters":[{"name":"p","in":"path","required":true,`+c.more+`"schema":{"type":"string"}}],`))
		must(t, connection, "svc_act", `{"p":"`+c.value+`"}`)
		if got := s.last(t).uri; strings.ReplaceAll(got, "%27", "'") != strings.ReplaceAll(c.uri, "%27", "'") {
			t.Errorf("%s with %s: %s, want %s", c.path, c.value, got, c.uri)
		}
	}
	connection := connect(t, s, one("get", "/contents/{p}", `"parameters":[{"name":"p","in":"path","required":true,"x-multi-segment":true,"schema":{"type":"string"}}],`))
	want(t, fails(t, connection, "svc_act", `{"p":"a/../b"}`), "..")
}

// TestQueriesInPaths: what a template says of a parameter of the query is what the parameter says.
func TestQueriesInPaths(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := connect(t, s, one("get", "/find?q={q}&page={page}&kind=all", `"parameters":[{"name":"q","in":"query","required":true,"schema":{"type":"string"}},{"name":"page","in":"query","schema":{"type":"integer"}}],`))
	for entities, uri := range map[string]string{`{"q":"a b","page":2}`: "/find?kind=all&q=a%20b&page=2", `{"q":"x&y"}`: "/find?kind=all&q=x%26y"} {
		must(t, c, "svc_act", entities)
		if got := s.last(t).uri; got != uri {
			t.Errorf("%s: %s, want %s", entities, got, uri)
		}
	}
	want(t, operation(t, connect(t, s, one("get", "/{a}/find?q={q}", "")), "act").LeftOut, "nothing says what {a} in its path is")
}

// TestFilesOnly: an operation that takes only a file is not offered without it.
func TestFilesOnly(t *testing.T) {
	t.Parallel()
	for _, mediaType := range []string{"multipart/form-data", "application/octet-stream", "image/png"} {
		c := connect(t, nil, one("post", "/a", `"requestBody":{"content":{"`+mediaType+`":{"schema":{"type":"object"}}}},`), allow("POST"))
		if o := operation(t, c, "act"); o.Action != nil || !strings.Contains(o.LeftOut, "its body") {
			t.Errorf("%s: %+v", mediaType, o)
		}
	}
}

// TestWhatTheServiceSaysBesides: where something is, and which fields are wrong.
func TestWhatTheServiceSaysBesides(t *testing.T) {
	t.Parallel()
	post := one("post", "/a", ``)
	at := func(status int) func(http.ResponseWriter, *http.Request, int) {
		return func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Location", "/jobs/7")
			w.WriteHeader(status)
		}
	}
	if got := must(t, connect(t, serve(t, at(202)), post, allow("act")), "svc_act", `{}`); !strings.Contains(got, "not done yet") || !strings.Contains(got, "/jobs/7") {
		t.Errorf("202: %s", got)
	}
	if got := must(t, connect(t, serve(t, at(201)), post, allow("act")), "svc_act", `{}`); !strings.Contains(got, "/jobs/7") {
		t.Errorf("201: %s", got)
	}
	s := serve(t, replies(422, "application/problem+json", `{"title":"One or more validation errors occurred.","errors":{"Due":["must be in the future"]}}`))
	want(t, fails(t, connect(t, s, post, allow("act")), "svc_act", `{}`), "One or more validation errors", "Due", "must be in the future")
}
