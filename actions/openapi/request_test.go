package openapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/openapi"
)

// parameter is a parameter called p, for a document in JSON.
func parameter(in, members string) string {
	required := ""
	if in == "path" {
		required = `"required":true,`
	}
	return `"parameters":[{"name":"p","in":"` + in + `",` + required + members + `}],`
}

// TestPaths has T29.
func TestPaths(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	const text = `"schema":{"type":"string"}`
	simple := connect(t, s, one("get", "/items/{p}/x", parameter("path", text)))
	for value, uri := range map[string]string{
		"a/b c+d": "/items/a%2Fb%20c+d/x", "größe": "/items/gr%C3%B6%C3%9Fe/x", "?a=b#c": "/items/%3Fa=b%23c/x", "a;b,c": "/items/a%3Bb%2Cc/x",
		"%2F": "/items/%252F/x", "...": "/items/.../x", "a..b": "/items/a..b/x", "//evil.test": "/items/%2F%2Fevil.test/x", "@evil.test": "/items/@evil.test/x",
	} {
		must(t, simple, "svc_act", `{"p":`+quote(value)+`}`)
		if got := s.last(t).uri; got != uri {
			t.Errorf("%q: %s, want %s", value, got, uri)
		}
	}
	before := s.count()
	for _, value := range []string{
		"..", ".", "%2e%2e", "%2E.", "%252e%252e", "a/../b", "../b", `a\..\b`, "a/%2e%2e/b", "a%2f..%2fb", "..%5cb", "..;x", "..;/", ".. ", "..\t", "%2e%2e/%zz", "./x", "a/.",
	} {
		want(t, fails(t, simple, "svc_act", `{"p":`+quote(value)+`}`), "p has a part . or ..")
	}
	if s.count() != before {
		t.Errorf("%d requests were made", s.count()-before)
	}

	for members, wants := range map[string]string{
		`"schema":{"type":"array","items":{"type":"string"}}`:                                 `["a","b,c"] /items/a,b%2Cc/x`,
		`"style":"label","schema":{"type":"array"}`:                                           `["a","b"] /items/.a,b/x`,
		`"style":"label","explode":true,"schema":{"type":"array"}`:                            `["a","b"] /items/.a.b/x`,
		`"style":"matrix","schema":{"type":"array"}`:                                          `["a","b"] /items/;p=a,b/x`,
		`"style":"matrix","explode":true,"schema":{"type":"array"}`:                           `["a","b"] /items/;p=a;p=b/x`,
		`"style":"matrix","schema":{"type":"integer"}`:                                        `5 /items/;p=5/x`,
		`"style":"label","schema":{"type":"boolean"}`:                                         `true /items/.true/x`,
		`"schema":{"type":"object"}`:                                                          `{"r":1,"g":"x y"} /items/g,x%20y,r,1/x`,
		`"explode":true,"schema":{"type":"object"}`:                                           `{"r":1,"g":2} /items/g=2,r=1/x`,
		`"style":"label","schema":{"type":"object"}`:                                          `{"r":1,"g":2} /items/.g,2,r,1/x`,
		`"style":"label","explode":true,"schema":{"type":"object"}`:                           `{"r":1,"g":2} /items/.g=2.r=1/x`,
		`"style":"matrix","schema":{"type":"object"}`:                                         `{"r":1,"g":2} /items/;p=g,2,r,1/x`,
		`"style":"matrix","explode":true,"schema":{"type":"object"}`:                          `{"r":1,"g":2} /items/;g=2;r=1/x`,
		`"schema":{"type":"integer"}`:                                                         `9007199254740993 /items/9007199254740993/x`,
		`"content":{"application/json":{"schema":{"type":"object"}}}`:                         `{"a":[1]} /items/%7B%22a%22:%5B1%5D%7D/x`,
		`"style":"simple","explode":true,"schema":{"type":"array","items":{"type":"number"}}`: `[1.50,2] /items/1.50,2/x`,
	} {
		value, uri, _ := strings.Cut(wants, " /")
		must(t, connect(t, s, one("get", "/items/{p}/x", parameter("path", members))), "svc_act", `{"p":`+value+`}`)
		if got := s.last(t).uri; got != "/"+uri {
			t.Errorf("%s: %s, want /%s", members, got, uri)
		}
	}
	for members, value := range map[string]string{
		`"style":"label","schema":{"type":"string"}`: `"."`, `"style":"label","explode":true,"schema":{"type":"array"}`: `["",""]`, `"schema":{"type":"array"}`: `[]`,
		`"schema":{"type":"object"}`: `{}`, `"explode":true,"schema":{"type":"array"}`: `["a",".."]`, `"style":"matrix","schema":{"type":"object"}`: `{"..":"a"}`,
	} {
		fails(t, connect(t, s, one("get", "/items/{p}/x", parameter("path", members))), "svc_act", `{"p":`+value+`}`)
	}
	fails(t, connect(t, s, one("get", "/items/.{p}", parameter("path", text))), "svc_act", `{"p":"a/../../b"}`)
	beside := connect(t, s, paths(`"/a/{x}{y}":{"get":{"operationId":"act","parameters":[{"name":"x","in":"path","required":true,"schema":{"type":"string"}},{"name":"y","in":"path","required":true,"schema":{"type":"string"}}],"responses":{"200":{"description":"ok"}}}}`))
	must(t, beside, "svc_act", `{"x":"1","y":"2"}`)
	if got := s.last(t).uri; got != "/a/12" {
		t.Error(got)
	}
}

func quote(text string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range text {
		if r < ' ' || r == '"' || r == '\\' {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String() + `"`
}

// TestQueries has T30 and T31.
func TestQueries(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	const list, object, text = `"schema":{"type":"array","items":{"type":"string"}}`, `"schema":{"type":"object"}`, `"schema":{"type":"string"}`
	for _, c := range []struct{ members, entities, query string }{
		{list, `{"p":["a","b"]}`, "p=a&p=b"},
		{`"explode":false,` + list, `{"p":["a","b,c"]}`, "p=a,b%2Cc"},
		{`"style":"spaceDelimited",` + list, `{"p":["a","b"]}`, "p=a%20b"},
		{`"style":"pipeDelimited",` + list, `{"p":["a","b"]}`, "p=a%7Cb"},
		{`"style":"pipeDelimited","explode":true,` + list, `{"p":["a","b"]}`, "p=a&p=b"},
		{`"style":"deepObject",` + object, `{"p":{"r":1,"g":2}}`, "p%5Bg%5D=2&p%5Br%5D=1"},
		{`"style":"deepObject","explode":true,` + object, `{"p":{"a":{"b":1},"c":["x","y"],"d":null}}`, "p%5Ba%5D%5Bb%5D=1&p%5Bc%5D%5B%5D=x&p%5Bc%5D%5B%5D=y"},
		{`"style":"deepObject","explode":true,` + list, `{"p":["a","b"]}`, "p%5B%5D=a&p%5B%5D=b"},
		{`"style":"deepObject","explode":true,"schema":{"type":"array"}`, `{"p":[{"a":1,"b":["x"]},{"a":2}]}`, "p%5B0%5D%5Ba%5D=1&p%5B0%5D%5Bb%5D%5B%5D=x&p%5B1%5D%5Ba%5D=2"},
		{object, `{"p":{"r":1,"g":2}}`, "g=2&r=1"},
		{`"explode":false,` + object, `{"p":{"r":1,"g":2}}`, "p=g,2,r,1"},
		{text, `{"p":"a b&c=d#e+f%"}`, "p=a%20b%26c%3Dd%23e%2Bf%25"},
		{text, `{"p":"größe ½"}`, "p=gr%C3%B6%C3%9Fe%20%C2%BD"},
		{`"allowReserved":true,` + text, `{"p":"a/b?c:d&e=f#g"}`, "p=a/b?c:d%26e%3Df%23g"},
		{text, `{}`, ""},
		{text, `{"p":null}`, ""},
		{text, `{"p":""}`, ""},
		{`"allowEmptyValue":true,` + text, `{"p":""}`, "p="},
		{list, `{"p":[]}`, ""},
		{object, `{"p":{}}`, ""},
		{`"schema":{"type":"integer","default":5}`, `{}`, ""},
		{`"required":true,"schema":{"type":"integer","default":5}`, `{}`, "p=5"},
		{`"schema":{"type":"integer"}`, `{"p":0}`, "p=0"},
		{`"schema":{"type":"boolean"}`, `{"p":false}`, "p=false"},
		{`"content":{"application/json":{"schema":{"type":"object"}}}`, `{"p":{"a":"<ü>"}}`, "p=%7B%22a%22%3A%22%3C%C3%BC%3E%22%7D"},
		{`"schema":{"type":"array"}`, `{"p":[{"a":1}]}`, "p=%7B%22a%22%3A1%7D"},
	} {
		must(t, connect(t, s, one("get", "/a", parameter("query", c.members))), "svc_act", c.entities)
		if got, _ := strings.CutPrefix(s.last(t).uri, "/a"); strings.TrimPrefix(got, "?") != c.query || c.query == "" && got != "" {
			t.Errorf("%s %s: %s, want %s", c.members, c.entities, got, c.query)
		}
	}
}

func TestEntitiesOfOneName(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := connect(t, s, paths(`"/a/{id}":{"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}},{"name":"x","in":"query","schema":{"type":"integer"}}],"post":{"operationId":"act",
		"parameters":[{"name":"id","in":"query","schema":{"type":"string"}},{"name":"x","in":"query","schema":{"type":"string"}},{"name":"body","in":"query","schema":{"type":"string"}}],
		"requestBody":{"content":{"application/json":{"schema":{"type":"object"}}}},"responses":{"200":{"description":"ok"}}}}`), allow("act"))
	must(t, c, "svc_act", `{"path_id":"p","query_id":"q","x":"text","query_body":"b","body":{"a":1}}`)
	if got := s.last(t); got.uri != "/a/p?id=q&x=text&body=b" || got.body != `{"a":1}` {
		t.Errorf("%+v", got)
	}
}

// TestHeaders: a model fills in those that the operator names, and no others.
func TestHeaders(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	header := func(name, more string) string {
		return `{"name":"` + name + `","in":"header","schema":{"type":["string","array"]}` + more + `}`
	}
	document := one("get", "/a", `"parameters":[`+strings.Join([]string{
		header("X-Lang", ""), header("X-Other", ""), header("Authorization", ""), header("Accept", ""), header("Cookie", ""), header("X-Set", `,"required":true`), header("X-Forwarded-For", ""),
		`{"name":"session","in":"cookie","schema":{"type":"string"}}`,
	}, ",")+`],`)
	c := connect(t, s, document, func(cfg *openapi.Config) {
		cfg.Headers, cfg.Header = []string{"x-lang"}, http.Header{"X-Set": {"operator"}}
	})
	if properties := action(t, c, "svc_act").Schema.Properties; len(properties) != 1 || properties["X-Lang"] == nil {
		t.Errorf("entities %v", properties)
	}
	want(t, strings.Join(operation(t, c, "act").Notes, "\n"), "X-Other: the header is not in Headers", "Cookie: no model may set", "X-Forwarded-For: no model", "session: no cookies")
	must(t, c, "svc_act", `{"X-Lang":["de","en"]}`)
	if got := s.last(t).header; got.Get("X-Lang") != "de,en" || got.Get("X-Set") != "operator" || got.Get("Cookie")+got.Get("Authorization") != "" || !strings.HasPrefix(got.Get("Accept"), "application/json") {
		t.Errorf("%v", got)
	}
	want(t, fails(t, c, "svc_act", `{"X-Lang":"de\r\nX-Set: model"}`), "X-Lang")
	_, err := action(t, c, "svc_act").Check(map[string]any{"X-Lang": "de", "X-Set": "model"})
	want(t, textOf(err), "X-Set", "no such entity")
	c = connect(t, s, one("get", "/a", `"parameters":[{"name":"q\u202e\n","in":"query","schema":{"type":"string"}},{"name":"p","in":"query","schema":{"type":"string"}}],`))
	if properties := action(t, c, "svc_act").Schema.Properties; len(properties) != 1 || properties["p"] == nil {
		t.Errorf("entities %v", properties)
	}
	for _, parameter := range []string{header("X-Need", `,"required":true`), `{"name":"c","in":"cookie","required":true,"schema":{"type":"string"}}`} {
		c := connect(t, s, one("get", "/a", `"parameters":[`+parameter+`],`))
		if o := operation(t, c, "act"); o.Action != nil || !strings.Contains(o.LeftOut, "its parameter") {
			t.Errorf("%+v", o)
		}
	}
}

// TestBodies has T32.
func TestBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	body := func(mediaType, more string) string {
		return one("post", "/a", `"requestBody":{"content":{"`+mediaType+`":{`+more+`}}},`)
	}
	const email = `{"type":"object","properties":{"email":{"type":"string"}}}`
	for _, c := range []struct{ document, entities, mediaType, body string }{
		{
			body("application/json", `"schema":{"type":"object","properties":{"a":`+email+`,"b":`+email+`}}`), `{"body":{"a":{"email":"a@x"},"b":{"email":"<b&x>"}}}`,
			"application/json", `{"a":{"email":"a@x"},"b":{"email":"<b&x>"}}`,
		},
		{body("application/json", `"schema":{"type":"object","properties":{"n":{"type":"integer"}}}`), `{"body":{"n":9007199254740993}}`, "application/json", `{"n":9007199254740993}`},
		{body("application/json; charset=utf-8", `"schema":{"type":"array","items":{"type":"string"}}`), `{"body":[]}`, "application/json; charset=utf-8", `[]`},
		{body("application/vnd.api+json", ``), `{"body":{"a":1}}`, "application/vnd.api+json", `{"a":1}`},
		{body("*/*", ``), `{"body":{"a":1}}`, "application/json", `{"a":1}`},
		{body("application/json", `"schema":{"type":"object"}`), `{}`, "", ``},
		{body("application/json", `"schema":{"type":"object"}`), `{"body":{}}`, "", ``},
		{one("post", "/a", ``), `{}`, "", ``},
		{one("post", "/a", `"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object"}}}},`), `{"body":{}}`, "application/json", `{}`},
		{body("text/plain", `"schema":{"type":"string"}`), `{"body":"a\nb"}`, "text/plain", "a\nb"},
		{body("text/plain", ``), `{"body":5}`, "text/plain", "5"},
		{
			body("application/x-www-form-urlencoded", `"schema":{"type":"object"}`), `{"body":{"a":"x y&z=1","b":["1","2"],"c":{"d":"e"},"n":null}}`,
			"application/x-www-form-urlencoded", "a=x+y%26z%3D1&b=1&b=2&c=%7B%22d%22%3A%22e%22%7D",
		},
		{
			body("application/x-www-form-urlencoded", `"schema":{"type":"object"},"encoding":{"b":{"explode":false},"c":{"style":"deepObject"}}`), `{"body":{"b":["1","2"],"c":{"d":"e"}}}`,
			"application/x-www-form-urlencoded", "b=1,2&c%5Bd%5D=e",
		},
		{one("post", "/a", `"requestBody":{"content":{"text/plain":{},"application/json":{},"multipart/form-data":{}}},`), `{"body":[1]}`, "application/json", `[1]`},
	} {
		must(t, connect(t, s, c.document, allow("act")), "svc_act", c.entities)
		if got := s.last(t); got.header.Get("Content-Type") != c.mediaType || got.body != c.body {
			t.Errorf("%s of %s: %q as %q", c.entities, c.document, got.body, got.header.Get("Content-Type"))
		}
	}
	c := connect(t, s, body("application/json", ``), allow("act"))
	want(t, fails(t, c, "svc_act", `{"body":{"a":"`+strings.Repeat("x", 1<<20)+`"}}`), "larger")
	optional := connect(t, s, body("application/xml", ``), allow("act"))
	want(t, strings.Join(operation(t, optional, "act").Notes, ""), "without its body", "application/xml")
	get := connect(t, s, one("get", "/a", `"requestBody":{"content":{"application/json":{}}},`))
	want(t, strings.Join(operation(t, get, "act").Notes, ""), "without its body")
}

// TestNewerDocuments: QUERY is offered like any other method that may write, and what nobody can send is named.
func TestNewerDocuments(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	document := strings.Replace(paths(`"/a":{"query":{"operationId":"act","requestBody":{"content":{"application/json":{}}},"responses":{"200":{"description":"ok"}}},
		"additionalOperations":{"COPY":{"operationId":"copy","responses":{"200":{"description":"ok"}}}}}`), "3.1.0", "3.2.0", 1)
	c := connect(t, s, document, allow("QUERY"))
	if a := action(t, c, "svc_act"); !a.Approval || a.Parallel {
		t.Errorf("%+v", a)
	}
	must(t, c, "svc_act", `{"body":{"a":1}}`)
	if got := s.last(t); got.method != "QUERY" || got.body != `{"a":1}` {
		t.Errorf("%+v", got)
	}
	if o := operation(t, c, "COPY /a"); o.Action != nil || o.LeftOut != "its method is never offered" {
		t.Errorf("%+v", o)
	}
}

// TestAccept: a service is asked for the types that its document names.
func TestAccept(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for content, accept := range map[string]string{
		`"application/vnd.x+json":{},"image/png":{}`: "application/vnd.x+json, application/json, text/*;q=0.8, */*;q=0.1",
		`"text/csv":{}`: "application/json, text/*;q=0.8, */*;q=0.1",
	} {
		must(t, connect(t, s, paths(`"/a":{"get":{"operationId":"act","responses":{"200":{"description":"ok","content":{`+content+`}}}}}`)), "svc_act", `{}`)
		if got := s.last(t).header.Get("Accept"); got != accept {
			t.Errorf("%s: %s", content, got)
		}
	}
}

// TestSecretsWin over what a model says, and are never told.
func TestSecretsWin(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := connect(t, s, one("get", "/a", `"parameters":[{"name":"key","in":"query","required":true,"schema":{"type":"string"}},{"name":"more","in":"query","schema":{"type":"object"}},{"name":"X-Key","in":"header","schema":{"type":"string"}}],`),
		func(cfg *openapi.Config) {
			cfg.Query, cfg.Header, cfg.Headers = map[string]string{"key": "s e"}, http.Header{"x-key": {"hidden"}}, []string{"X-Key"}
		})
	if properties := action(t, c, "svc_act").Schema.Properties; len(properties) != 1 {
		t.Errorf("entities %v", properties)
	}
	must(t, c, "svc_act", `{"more":{"key":"model","k%65y":"x","other":"1"}}`)
	got := s.last(t)
	query, err := url.ParseQuery(strings.TrimPrefix(got.uri, "/a?"))
	if err != nil || len(query["key"]) != 1 || query.Get("key") != "s e" || query.Get("other") != "1" || got.header.Get("X-Key") != "hidden" {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzRequests: whatever the values are, a request stays on its server and below its base path.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{"a/b c+d", "..", "%2e%2e", "%252e%252e%252f", "//evil.test", "@evil.test:1", "#", "?x=y", "..;/", "a\\..\\b", "\x00", "\r\nHost: evil", "ü", "\xff", "[::1]", ";p=../x", ".", "{id}"} {
		f.Add(seed, seed, seed)
	}
	var last atomic.Pointer[http.Request]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(r)
		w.WriteHeader(http.StatusNoContent)
	}))
	f.Cleanup(server.Close)
	s := server.URL
	cfg := openapi.Config{Key: "svc", Private: thisMachine, Server: s + "/base/path"}
	cfg.Document = file(f, `
openapi: 3.1.0
info: {title: t, version: "1"}
paths:
  "/x/{id}/.{dot}/{label}/{matrix}/{list}/end":
    get:
      operationId: act
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
        - {name: dot, in: path, required: true, schema: {type: string}}
        - {name: label, in: path, required: true, style: label, schema: {type: string}}
        - {name: matrix, in: path, required: true, style: matrix, explode: true, schema: {type: array}}
        - {name: list, in: path, required: true, schema: {type: array}}
        - {name: q, in: query, allowReserved: true, schema: {type: string}}
        - {name: deep, in: query, style: deepObject, schema: {type: object}}
      responses: {200: {description: ok}}
`)
	c, err := openapi.New(f.Context(), cfg)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	a, _ := c.Actions().Lookup("svc_act")
	f.Fuzz(func(t *testing.T, x, y, z string) {
		last.Store(nil)
		result, err := a.Call(t.Context(), &actions.Turn{}, map[string]any{
			"id": x, "dot": y, "label": z, "matrix": []any{x, y}, "list": []any{y, z}, "q": z, "deep": map[string]any{x: map[string]any{y: z}},
		})
		if err != nil {
			t.Fatal(err)
		}
		got := last.Load()
		if got == nil {
			if !result.Failed() {
				t.Fatalf("no request, but %q", result.Text())
			}
			return
		}
		path, _, _ := strings.Cut(got.RequestURI, "?")
		parts := strings.Split(path, "/")
		if !strings.HasPrefix(path, "/base/path/x/") || !strings.HasSuffix(path, "/end") || len(parts) != 10 || "http://"+got.Host != s {
			t.Fatalf("%q, %q, %q: %s %s", x, y, z, got.Host, got.RequestURI)
		}
		for _, part := range parts {
			plain, err := url.PathUnescape(part)
			if err != nil || part == "." || part == ".." || plain == "." || plain == ".." {
				t.Fatalf("%q, %q, %q: %s", x, y, z, got.RequestURI)
			}
		}
		query, err := url.ParseQuery(got.URL.RawQuery)
		if err != nil || z != "" && query.Get("q") != z || len(query) > 2 {
			t.Fatalf("%q, %q, %q: query %s", x, y, z, got.URL.RawQuery)
		}
	})
}
