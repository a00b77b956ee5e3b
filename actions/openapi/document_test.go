package openapi_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/openapi"
	"github.com/planbot-go/planbot/internal/testing/ci"
)

// TestReferencesStayInTheFolder is T39, with the other ways out.
func TestReferencesStayInTheFolder(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	outside := file(t, `{"type":"string"}`)
	for _, to := range []string{
		"file:///etc/hostname", "file:document.yaml", s.URL + "/x.json", s.URL, s.URL + "#/info", "//evil.test#/info", "http:document.yaml#/info", s.URL + "/document.yaml", "//" + strings.TrimPrefix(s.URL, "http://") + "/x", "/etc/hostname", "../other.yaml", "%2e%2e/other.yaml", "..", "sub/x.yaml",
		`..\\other.yaml`, "x.yaml?y", "link.yaml", "missing.yaml", "#anchor", "#/components/schemas/Nothing", "#/paths/~1a/get/parameters/7", "folder",
	} {
		name := file(t, one("get", "/a", `"parameters":[{"name":"x","in":"query","schema":{"$ref":"`+to+`"}}],`))
		folder := filepath.Dir(name)
		if err := os.Symlink(outside, filepath.Join(folder, "link.yaml")); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(folder, "folder"), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := openapi.New(t.Context(), openapi.Config{Key: "svc", Document: name, Private: thisMachine})
		want(t, textOf(err), "/paths/~1a/get/parameters/0/schema: ", strings.TrimPrefix(filepath.Base(to), `..\\`))
	}
	if s.count() > 0 {
		t.Errorf("%d requests", s.count())
	}
}

func TestReferencesToFilesOfTheFolder(t *testing.T) {
	t.Parallel()
	name := file(t, `
openapi: 3.1.0
info: {title: t, version: "1"}
servers: [{url: "https://x.example"}]
paths:
  /a/{id}:
    get:
      operationId: act
      parameters: [{$ref: "parameters.yaml#/id"}, {$ref: "./parameters.yaml#/find"}]
      responses: {200: {description: ok}}
`)
	for other, text := range map[string]string{
		"parameters.yaml": `
id: {name: id, in: path, required: true, schema: {$ref: "#/text"}}
find: {name: find, in: query, schema: {$ref: "types.json#/Find"}}
text: {type: string, maxLength: 5}
`,
		"types.json": `{"Find":{"type":"object","properties":{"by":{"$ref":"parameters.yaml#/text"}}}}`,
	} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(name), other), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := openapi.New(t.Context(), openapi.Config{Key: "svc", Document: name})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := action(t, c, "svc_act")
	if _, err := a.Check(map[string]any{"id": "12345", "find": map[string]any{"by": "12345"}}); err != nil {
		t.Error(err)
	}
	if _, err := a.Check(map[string]any{"id": "12345", "find": map[string]any{"by": "123456"}}); err == nil {
		t.Error("a schema of another file is not checked")
	}
}

// TestAllFaultsInOneError, each with its place.
func TestAllFaultsInOneError(t *testing.T) {
	t.Parallel()
	_, err := try(t, nil, `
openapi: 3.0.0
info: {title: t}
servers: [{url: "https://x.example"}]
paths:
  /a: {get: {operationId: same, parameters: [{name: x, in: query, schema: {$ref: "#/components/schemas/Odd"}}], responses: {200: {description: ok}}}, post: {operationId: other}}
  /b/{id}: {get: {operationId: b, responses: {200: {description: ok}}}}
components: {schemas: {Odd: {type: oddity}}}
`, allow("GET", "POST"))
	want(t, textOf(err), "/paths/~1a/post: ", "(line 6)", "/paths/~1b~1{id}/get: nothing says what {id} ", "/components/schemas/Odd: ", "(line 8)")
	_, err = try(t, nil, paths(`
		"/a":{"get":{"operationId":"same","responses":{"200":{"description":"ok"}}}},
		"/b":{"get":{"operationId":"same","responses":{"200":{"description":"ok"}}},
			"put":{"operationId":"put","requestBody":{"required":true,"content":{"multipart/form-data":{}}},"responses":{"200":{"description":"ok"}}},
			"post":{"operationId":"post","requestBody":{"required":true,"content":{"application/xml":{}}},"responses":{"200":{"description":"ok"}}},
			"patch":{"operationId":"patch","requestBody":{"required":true,"content":{"application/octet-stream":{}}},"responses":{"200":{"description":"ok"}}}}`),
		allow("GET", "put", "POST /b", "PATCH"))
	want(t, textOf(err), `/paths/~1b/get: the operationId "same" is that of /paths/~1a/get`, "/paths/~1b/put: put is allowed, but cannot be offered: its body", "/paths/~1b/post: ", "application/xml")
	if strings.Contains(textOf(err), "octet-stream") {
		t.Errorf("no rule names the operation, so it is no fault: %v", err)
	}
}

func TestDocumentsThatAreNone(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"allOf":[`, 150) + "{}" + strings.Repeat("]}", 150)
	for name, c := range map[string]struct{ text, fault string }{
		"twice":      {`{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{},"paths":{"/a":{"get":{"operationId":"act","responses":{"200":{"description":"ok"}}}}}}`, "/paths: it is given twice"},
		"swagger":    {"swagger: '2.0'\ninfo: {title: t, version: '1'}\npaths: {}", "Swagger 2.0 is not supported"},
		"a number":   {"openapi: 3.1\ninfo: {title: t, version: '1'}\npaths: {}", "as text"},
		"version 4":  {`{"openapi":"4.0.0"}`, "want 3.0, 3.1 or 3.2"},
		"version 30": {`{"openapi":"3.0.0.1"}`, "want 3.0, 3.1 or 3.2"},
		"no version": {`{"info":{}}`, "/openapi"},
		"a list":     {`[1]`, "no object"},
		"no YAML":    {"a: [", "document"},
		"no JSON":    {`{"openapi":`, "document"},
		"two":        {`{"openapi":"3.1.0"} {}`, "after the end"},
		"HTML":       {"<html></html>", "document"},
		"nothing":    {"", "no object"},
		"large":      {`{"openapi":"3.1.0","x":"` + strings.Repeat("x", 20<<20) + `"}`, "too large"},
		"deep":       {paths(`"/a":{"get":{"parameters":[{"name":"x","in":"query","schema":` + deep + `}],"responses":{"200":{"description":"ok"}}}}`), "deep"},
		"a bomb":     {"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n", "document"},
		"loop":       {`{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/a":{"get":{"parameters":[{"$ref":"#/components/parameters/A"}],"responses":{"200":{"description":"ok"}}}}},"components":{"parameters":{"A":{"$ref":"#/components/parameters/B"},"B":{"$ref":"#/components/parameters/A"}}}}`, "leads to itself"},
		"self":       {`{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/a":{"get":{"parameters":[{"name":"x","in":"query","schema":{"$ref":"#/components/schemas/A"}}],"responses":{"200":{"description":"ok"}}}}},"components":{"schemas":{"A":{"$ref":"#/components/schemas/A"}}}}`, "leads to itself"},
	} {
		if name == "a bomb" && ci.UnderRace { // it makes twenty megabytes before it is refused
			continue
		}
		if _, err := try(t, nil, c.text); !strings.Contains(textOf(err), c.fault) || err == nil {
			t.Errorf("%s: %v, want %q", name, err, c.fault)
		}
	}
	for _, version := range []string{"3.0.4", "3.1.1", "3.2.0", "3.0.9"} {
		if _, err := try(t, nil, strings.Replace(one("get", "/a", ""), "3.1.0", version, 1)); err != nil {
			t.Errorf("%s: %v", version, err)
		}
	}
	if _, err := openapi.New(t.Context(), openapi.Config{Key: "svc", Document: filepath.Join(t.TempDir(), "none.yaml")}); err == nil {
		t.Error("a file that is not there was read")
	}
	if _, err := openapi.New(t.Context(), openapi.Config{Key: "svc", Document: t.TempDir()}); err == nil {
		t.Error("a folder was read")
	}
}

// TestCycles: a schema may contain itself, and others that contain it.
func TestCycles(t *testing.T) {
	t.Parallel()
	c := connect(t, nil, `
openapi: 3.0.0
info: {title: t, version: "1"}
servers: [{url: "https://x.example"}]
paths:
  /a: {post: {operationId: act, requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/Tree"}}}}, responses: {200: {description: ok}}}}
components:
  schemas:
    Tree: {type: object, properties: {name: {type: string}, left: {$ref: "#/components/schemas/Tree"}, all: {type: array, items: {$ref: "#/components/schemas/Leaf"}}}}
    Leaf: {type: object, properties: {of: {$ref: "#/components/schemas/Tree"}, size: {type: integer}}}
`, allow("act"))
	a := action(t, c, "svc_act")
	tree := func(name any) map[string]any {
		return map[string]any{"body": map[string]any{"left": map[string]any{"left": map[string]any{"all": []any{map[string]any{"of": map[string]any{"name": name}}}}}}}
	}
	if _, err := a.Check(tree("x")); err != nil {
		t.Error(err)
	}
	if _, err := a.Check(tree([]any{})); err == nil {
		t.Error("the inside of a cycle is not checked")
	}
}

// TestLargeSchemas: what is written out grows with the power of its depth, references do not.
func TestLargeSchemas(t *testing.T) {
	t.Parallel()
	var schemas []string
	for i := range 20 {
		next := `{"$ref":"#/components/schemas/` + string(rune('B'+i)) + `"}`
		schemas = append(schemas, `"`+string(rune('A'+i))+`":{"type":"object","properties":{"x":`+next+`,"y":`+next+`}}`)
	}
	schemas = append(schemas, `"U":{"type":"string","maxLength":2}`)
	document := strings.TrimSuffix(one("post", "/a", `"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/A"}}}},`), "}") +
		`,"components":{"schemas":{` + strings.Join(schemas, ",") + `}}}`
	c := connect(t, nil, document, allow("act"))
	value := any("long")
	for range 20 {
		value = map[string]any{"x": value}
	}
	if _, err := action(t, c, "svc_act").Check(map[string]any{"body": value}); err == nil {
		t.Error("the deepest schema is not checked")
	}
	many := one("get", "/a", `"parameters":[{"name":"x","in":"query","schema":{"enum":["`+strings.Repeat(`x","`, 30000)+`"]}}],`)
	want(t, operation(t, connect(t, nil, many), "act").LeftOut, "bytes")
}

func TestAThousandOperations(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range 1000 {
		all = append(all, `"/a`+strings.Repeat("x", i%7)+`/`+strings.Repeat("y", i/7)+`":{"get":{"responses":{"200":{"description":"ok"}}}}`)
	}
	if names, _ := connect(t, nil, paths(strings.Join(all, ","))).Offer(t.Context(), nil); len(names) != 1000 {
		t.Errorf("%d are offered", len(names))
	}
}

// TestDocumentFromAnAddress: it is read once, and leads nowhere else.
func TestDocumentFromAnAddress(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		switch r.URL.Path {
		case "/api/good":
			replies(200, "application/json", strings.Replace(one("get", "/a", ""), "https://service.example", "v1", 1))(w, r, 1)
		case "/api/refers":
			replies(200, "application/json", one("get", "/a", `"parameters":[{"$ref":"good"}],`))(w, r, 1)
		case "/api/moved":
			http.Redirect(w, r, "https://elsewhere.example/secret", http.StatusFound)
		case "/api/large":
			replies(200, "application/json", strings.Repeat(" ", 21<<20))(w, r, 1)
		default:
			http.NotFound(w, r)
		}
	})
	lock := connections.NewLock()
	lock.FirstUse = true
	read := func(path string) (*openapi.Connection, error) {
		c, err := openapi.New(t.Context(), openapi.Config{Key: "svc", Document: s.URL + path, Private: thisMachine, Lock: lock})
		if err == nil {
			t.Cleanup(c.Close)
		}
		return c, err
	}
	c, err := read("/api/good?key=secret")
	if err != nil {
		t.Fatal(err)
	}
	if o := operation(t, c, "act"); o.URL != s.URL+"/api/v1/a" {
		t.Errorf("%+v", o)
	}
	fails(t, c, "svc_act", `{}`)
	if got := s.last(t).uri; got != "/api/v1/a" || s.count() != 2 {
		t.Errorf("asked for %s, %d requests", got, s.count())
	}
	for path, fault := range map[string]string{
		"/api/refers": "/paths/~1a/get/parameters/0: ", "/api/moved?key=secret": "redirects to elsewhere.example", "/api/large": "too large", "/none?key=secret": "answered 404",
	} {
		if _, err := read(path); err == nil || !strings.Contains(err.Error(), fault) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", path, err, fault)
		}
	}
	_, err = openapi.New(t.Context(), openapi.Config{Key: "svc", Document: s.URL + "/api/good"})
	want(t, textOf(err), "want https")
	_, err = openapi.New(t.Context(), openapi.Config{Key: "svc", Document: "https://169.254.169.254/openapi.json"})
	want(t, textOf(err), "not public")
}

// FuzzDocument: whatever a document is, reading it ends, and what it offers has a form.
func FuzzDocument(f *testing.F) {
	f.Add(shop)
	f.Add(act("post"))
	f.Add(paths(`"/a/{p}":{"$ref":"#/paths/~1b"},"/b":{"parameters":[{"$ref":"#/paths/~1b/parameters/0"}],"get":{"requestBody":{"$ref":"#"}}}`))
	f.Add(`{"openapi":"3.2.0","info":{"title":"t","version":"1"},"paths":{"/a":{"query":{"responses":{"200":{"description":"x","content":{"a/b":null}}}},"additionalOperations":{"COPY":{}}}}}`)
	f.Add(`{"openapi":"3.1.0","info":{"title":"t","version":"1"},"servers":[null],"paths":{"/a":{"get":{"parameters":[null,{"in":"query","name":"x","schema":{"$ref":"#/components/schemas/A","allOf":[true,{"not":false}]}}]}}},"components":{"schemas":{"A":{"properties":{"a":{"$ref":"#/components/schemas/A"}},"items":[]}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := openapi.New(t.Context(), openapi.Config{Key: "svc", Document: file(t, text), Rules: connections.Rules{Allow: []string{"GET", "POST", "QUERY"}}})
		if err != nil {
			return
		}
		defer c.Close()
		for _, o := range c.Operations() {
			if (o.Action == nil) == (o.LeftOut == "") {
				t.Errorf("%+v", o)
			}
			if o.Action != nil {
				_, _ = o.Action.Check(map[string]any{"body": map[string]any{}})
			}
		}
	})
}

// TestTwoKindsOfDefinitions: what a schema has under $defs and definitions is where its references lead, and
// nowhere else.
func TestTwoKindsOfDefinitions(t *testing.T) {
	t.Parallel()
	c := connect(t, nil, `
openapi: 3.1.0
info: {title: t, version: "1"}
servers: [{url: "https://x.example"}]
paths:
  /a: {post: {operationId: act, requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/Both"}}}}, responses: {200: {description: ok}}}}
components:
  schemas:
    Both:
      type: [object]
      $defs: {a: {type: integer}}
      definitions: {a: {type: string}}
      properties: {new: {$ref: "#/components/schemas/Both/$defs/a"}, old: {$ref: "#/components/schemas/Both/definitions/a"}, definitions: {type: string}, again: {$ref: "#/components/schemas/Both"}}
`, allow("act"))
	a := action(t, c, "svc_act")
	for _, good := range []map[string]any{{"new": json.Number("1"), "old": "x", "definitions": "x"}, {"again": map[string]any{"old": "x"}}} {
		if _, err := a.Check(map[string]any{"body": good}); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for _, bad := range []map[string]any{{"new": "x"}, {"old": []any{}}, {"definitions": []any{}}, {"again": map[string]any{"old": []any{}}}} {
		if _, err := a.Check(map[string]any{"body": bad}); err == nil {
			t.Errorf("%v passes", bad)
		}
	}
}

// TestOnlyWhatIsReachedIsJudged: one bad place costs the operations that reach it, and is named with its line.
func TestOnlyWhatIsReachedIsJudged(t *testing.T) {
	t.Parallel()
	document := func(good string) string {
		return `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"servers":[{"url":"https://service.example"}],
"tags":[{"name":1}],"webhooks":{"w":7},
"paths":{
 "/good":{"get":{"operationId":"good","security":[{"key":[]}],` + good + `"responses":{"200":{"$ref":"#/components/responses/Odd"}}}},
 "/field/{id}":{"get":{"operationId":"one","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],"responses":{"200":{"description":"ok"}}}},
 "/field/{name}":{"put":{"operationId":"two","parameters":[{"name":"name","in":"path","required":true,"schema":{"type":"string"}}],"responses":{"200":{"description":"ok"}}}},
 "/schema":{"post":{"operationId":"schema","requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Outer"}}}},"responses":{"200":{"description":"ok"}}}},
 "/body":{"post":{"operationId":"body",
   "requestBody":{"$ref":"#/components/responses/Fine"},"responses":{"200":{"description":"ok"}}}},
 "/gone":{"get":{"operationId":"gone","parameters":[
   {"$ref":"#/components/parameters/Nobody"}],"responses":{"200":{"description":"ok"}}}}
},
"components":{
 "responses":{"Odd":{"description":"d","content":{"application/json":{"schema":{"type":"object","properties":{"a":{"required":true}}}}}},"Fine":{"description":"d"}},
 "schemas":{
  "Outer":{"type":"object","properties":{"inner":{"$ref":"#/components/schemas/Inner"}}},
  "Inner":{"type":"object","properties":{
    "a":{"type":"string","required":true}}},
  "Unused":{"$ref":"../elsewhere.yaml"}}}}`
	}
	names := func(c *openapi.Connection) string {
		all, _ := c.Offer(t.Context(), nil)
		return strings.Join(all, " ")
	}
	if got := names(connect(t, nil, document(""), allow("good", "one", "two"))); got != "svc_one svc_two svc_good" {
		t.Errorf("offers %s", got)
	}
	if got := names(connect(t, nil, document(`"parameters":[{"$ref":"#/paths/~1schema/post/requestBody"}],`), allow("one"))); got != "svc_one" {
		t.Errorf("offers %s", got)
	}
	for operation, place := range map[string][]string{
		"schema": {"/components/schemas/Inner/properties/a: ", "(line 18)"},
		"body":   {"/paths/~1body/post/requestBody: ", "(line 9)"},
		"gone":   {"/paths/~1gone/get/parameters/0: ", "Nobody", "(line 11)"},
	} {
		_, err := try(t, nil, document(""), allow("good", operation))
		want(t, textOf(err), place...)
	}
}

// TestABadPlaceCostsItsOperations: operations that no rule names are left out for it, with its place, and the others
// are offered.
func TestABadPlaceCostsItsOperations(t *testing.T) {
	t.Parallel()
	document := func(bad, parameter string) string {
		return `{"openapi":"3.0.3","info":{"title":"t","version":"1"},"servers":[{"url":"https://service.example"}],
"paths":{
 "/good":{"get":{"operationId":"good","responses":{"200":{"description":"ok"}}}},
 "/bad":{
  ` + bad + `"responses":{"200":{"description":"ok"}}},
  "delete":{"operationId":"also","responses":{"204":{"description":"ok"}}}},
 "/refers":{"get":{"operationId":"refers","parameters":[{"$ref":"#/paths/~1bad/get/parameters/0"}],"responses":{"200":{"description":"ok"}}}}
},
"components":{"parameters":{"P":
 ` + parameter + `}}}`
	}
	const fine = `{"name":"p","in":"query","schema":{"type":"string"}}`
	for _, c := range []struct{ bad, parameter, offered, place string }{
		{`"get":{"operationId":"bad","parameters":[{"$ref":"#/components/parameters/P"}],`, fine, "svc_bad svc_also svc_good svc_refers", ""},
		{`"get":{"operationId":"bad","parameters":[{"$ref":"#/components/parameters/P"}],`, `{"name":"p","in":"query","schema":{"type":"string","pattern":7}}`, "svc_also svc_good", "/components/parameters/P"},
		{`"get":{"operationId":"bad","parameters":[{"$ref":"#/components/parameters/Nobody"}],`, fine, "svc_also svc_good", "/paths/~1bad/get/parameters/0: "},
		{`"get":{"operationId":"bad","parameters":[{"name":"","in":"query","schema":{"type":"string"}}],`, fine, "svc_also svc_good", "/paths/~1bad/get"},
		{`"get":{"operationId":"bad","parameters":[{"name":"x","in":"query","schema":{"$ref":"#/paths/~1refers/get/parameters/0/schema"}}],`, fine, "svc_also svc_good", "/paths/~1bad/get/parameters/0/schema: "},
		{`"parameters":[{"name":"x","in":"query","schema":{"type":"oddity"}}],"get":{"operationId":"bad","parameters":[` + fine + `],`, fine, "svc_good svc_refers", "/paths/~1bad"},
		{`"get":{"operationId":"bad","parameters":[` + fine + `],"requestBody":[],`, fine, "svc_also svc_good svc_refers", "/paths/~1bad/get"},
	} {
		connection := connect(t, nil, document(c.bad, c.parameter), allow("GET", "DELETE"))
		names, _ := connection.Offer(t.Context(), nil)
		if got := strings.Join(names, " "); got != c.offered {
			t.Errorf("%s offers %s, want %s", c.bad, got, c.offered)
		}
		for _, o := range connection.Operations() {
			if o.Remote == "bad" && !strings.Contains(o.LeftOut, c.place) {
				t.Errorf("%s: %s is left out for %q", c.bad, o.Remote, o.LeftOut)
			}
		}
		if _, err := try(t, nil, document(c.bad, c.parameter), allow("good", "bad")); (err == nil) != (c.place == "") {
			t.Errorf("%s is named: %v", c.bad, err)
		}
	}
}

// TestWhatIsNotRead: what is wrong with it costs nothing.
func TestWhatIsNotRead(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`{"type":"string","examples":{"a":1}}`, `{"type":"string","regex":"a"}`, `{"type":"string","example":{"$ref":"#/none"}}`, `{"type":"string","xml":7}`,
		`{"type":"string","externalDocs":"https://x.example"}`, `{"type":"string","deprecated":"since 2024"}`, `{"type":"string","x-nullable":7,"discriminator":"kind"}`,
		`{"type":"object","properties":{"example":{"type":"string"},"tags":{"type":"array","items":{"type":"string"}}}}`,
	} {
		document := one("get", "/a", `"tags":7,"externalDocs":[],"callbacks":{"x":7},"parameters":[{"name":"p","in":"query","example":{},"examples":7,"schema":`+schema+`}],`)
		for _, version := range []string{"3.0.0", "3.1.0"} {
			document := strings.Replace(document, "3.1.0", version, 1)
			if _, err := action(t, connect(t, nil, document), "svc_act").Check(map[string]any{"p": map[string]any{"example": 7}}); err == nil {
				t.Errorf("%s: %s: the rest of the schema is not read", version, schema)
			}
		}
	}
	noServer := strings.Replace(one("get", "/a", ""), `{"url":"https://service.example"}`, `{"url":""},7`, 1)
	s := serve(t, nil)
	must(t, connect(t, s, noServer), "svc_act", `{}`)
	noSlash := connect(t, nil, paths(`"a":{"get":{"operationId":"a","responses":{"200":{"description":"ok"}}}},"/b":{"get":{"operationId":"b","responses":{"200":{"description":"ok"}}}},"x-a":7`))
	want(t, operation(t, noSlash, "a").LeftOut, "does not begin with /")
}

// TestReferencesToWhereAThingStandsFirst: bundlers write references into operations, also into their answers.
func TestReferencesToWhereAThingStandsFirst(t *testing.T) {
	t.Parallel()
	document := paths(`
		"/first/{id}":{"parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"integer"}}],
			"get":{"operationId":"first","responses":{"200":{"description":"ok","headers":{"rate":{"schema":{"type":"integer"}}},"content":{"application/json":{"schema":
				{"type":"object","properties":{"name":{"type":"string","maxLength":3},"of":{"$ref":"#/components/schemas/Kind"},"schema":{"type":"integer"}}}}}},
				"404":{"description":"gone"}}},
			"post":{"operationId":"never","requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","properties":{"by":{"type":"string"}},"required":["by"]}}}},"responses":{"200":{"description":"ok"}}}},
		"/a/{id}":{"put":{"operationId":"a","parameters":[{"$ref":"#/paths/~1first~1%7Bid%7D/parameters/0"}],
			"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/paths/~1first~1%7Bid%7D/get/responses/200/content/application~1json/schema"}}}},
			"responses":{"200":{"description":"ok","headers":{"rate":{"$ref":"#/paths/~1first~1%7Bid%7D/get/responses/200/headers/rate"}}},"404":{"$ref":"#/paths/~1first~1%7Bid%7D/get/responses/404"}}}},
		"/b":{"put":{"operationId":"b","requestBody":{"$ref":"#/paths/~1first~1%7Bid%7D/post/requestBody"},"responses":{"404":{"$ref":"#/paths/~1first~1%7Bid%7D/get/responses/404"}}},
			"post":{"operationId":"c","requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/paths/~1first~1%7Bid%7D/get/responses/200/content/application~1json/schema/properties/schema"}}}},"responses":{"200":{"description":"ok"}}}}`)
	document = strings.TrimSuffix(document, "}") + `,"components":{"schemas":{"Kind":{"enum":["x","y"]}}}}`
	s := serve(t, nil)
	for _, allowed := range [][]string{{"PUT", "POST", "first"}, {"a", "b", "c"}} {
		c := connect(t, s, document, allow(allowed...))
		must(t, c, "svc_a", `{"id":7,"body":{"name":"x","of":"y"}}`)
		must(t, c, "svc_b", `{"body":{"by":"x"}}`)
		must(t, c, "svc_c", `{"body":7}`)
		for name, entities := range map[string]map[string]any{
			"svc_a": {"id": "x", "body": map[string]any{}}, "svc_b": {"body": map[string]any{}}, "svc_c": {"body": "x"},
		} {
			if _, err := action(t, c, name).Check(entities); err == nil {
				t.Errorf("%s takes %v", name, entities)
			}
		}
		for _, body := range []map[string]any{{"name": "long"}, {"of": "z"}} {
			if _, err := action(t, c, "svc_a").Check(map[string]any{"id": json.Number("7"), "body": body}); err == nil {
				t.Errorf("svc_a takes %v", body)
			}
		}
	}
}

// TestReferencesIntoWhatIsNotUsed: a used operation may refer to a part of one that is not.
func TestReferencesIntoWhatIsNotUsed(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := connect(t, s, paths(`"/a":{"get":{"operationId":"a","parameters":[{"$ref":"#/paths/~1b/post/parameters/0"}],"responses":{"200":{"description":"ok"}}}},
		"/b":{"post":{"operationId":"b","parameters":[{"name":"q","in":"query","schema":{"type":"integer"}}],"responses":{"200":{"description":"ok"}}}}`))
	must(t, c, "svc_a", `{"q":7}`)
	if got := s.last(t).uri; got != "/a?q=7" {
		t.Error(got)
	}
	if o := operation(t, c, "b"); !o.NotAllowed {
		t.Errorf("%+v", o)
	}
}

// TestALargeDocument: with few of its operations allowed, a document costs little more than to read it.
func TestALargeDocument(t *testing.T) {
	t.Parallel()
	var all, schemas []string
	filler := strings.Repeat("Lorem ipsum. ", 700)
	for i := range 1200 {
		n := strconv.Itoa(i)
		all = append(all, `"/a`+n+`":{"get":{"operationId":"get`+n+`","description":"`+filler+`","responses":{"200":{"$ref":"#/components/responses/R`+n+`"}}}}`)
		schemas = append(schemas, `"R`+n+`":{"description":"`+filler[:1000]+`","content":{"application/json":{"schema":{"type":"oddity"}}}}`)
	}
	c := connect(t, nil, strings.TrimSuffix(paths(strings.Join(all, ",")), "}")+`,"components":{"responses":{`+strings.Join(schemas, ",")+`}}}`, allow("get7", "get1199"))
	if names, _ := c.Offer(t.Context(), nil); len(names) != 2 || len(c.Operations()) != 1200 {
		t.Errorf("offers %v of %d", names, len(c.Operations()))
	}
}
