package openapi_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
)

// TestAnswersThatAreNotQuiteRight: services write the type of an answer as they like, and some begin
// with a byte order mark.
func TestAnswersThatAreNotQuiteRight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status                int
		mediaType, body, want string
	}{
		{200, "application/json; charset", `{"a":1}`, `{"a":1}`},
		{200, `application/json; charset="utf-8`, `{"a":1}`, `{"a":1}`},
		{200, "text/plain; charset", `a`, `a`},
		{200, "application/json", "\ufeff{\"a\":1}", `{"a":1}`},
		{404, "application/problem+json; charset", `{"title":"gone"}`, `svc answered 404: gone`},
	} {
		result, err := run(t.Context(), t, connect(t, serve(t, replies(c.status, c.mediaType, c.body)), act("get")), "svc_act", `{}`)
		if err != nil || result.Text() != c.want {
			t.Errorf("%s %q: %q, %v", c.mediaType, c.body, result.Text(), err)
		}
	}
}

// TestRedirectsToNowhere: what a redirect without an address answers may have been done.
func TestRedirectsToNowhere(t *testing.T) {
	t.Parallel()
	for status, uncertain := range map[int]bool{301: true, 302: true, 303: true, 304: false, 307: false, 308: false} {
		result, err := run(t.Context(), t, connect(t, serve(t, replies(status, "", "")), act("post"), allow("act")), "svc_act", `{}`)
		if errors.Is(err, actions.ErrUncertain) != uncertain || result.Failed() == uncertain {
			t.Errorf("%d: %q, %v", status, result.Text(), err)
		}
	}
}

// TestFieldsOfNewerDocuments: what 3.1 and 3.2 have anew is no fault, and in 3.0 it still is.
func TestFieldsOfNewerDocuments(t *testing.T) {
	t.Parallel()
	const get = `{"operationId":"act","responses":{"200":{"description":"ok"}}}`
	for _, c := range []struct{ version, top, path string }{
		{"3.1.0", `"components":{"pathItems":{"P":{"get":` + get + `}}}`, `{"$ref":"#/components/pathItems/P"}`},
		{"3.2.0", `"$self":"https://service.example/openapi.json"`, `{"get":` + get + `}`},
		{"3.2.0", `"tags":[{"name":"a","summary":"A","parent":"b","kind":"nav"},{"name":"b"}]`, `{"get":` + get + `}`},
		{"3.2.0", `"components":{"mediaTypes":{"M":{"schema":{"type":"string"}}}}`, `{"get":` + get + `}`},
		{"3.2.0", `"x-a":1`, `{"get":{"operationId":"act","responses":{"200":{"summary":"fine","description":"ok"}}}}`},
		{"3.2.0", `"x-a":1`, `{"servers":[{"url":"https://service.example","name":"live"}],"get":` + get + `}`},
		{"3.2.0", `"components":{"securitySchemes":{"S":{"type":"oauth2","flows":{"deviceAuthorization":{"deviceAuthorizationUrl":"https://x.example/d","tokenUrl":"https://x.example/t","scopes":{}}}}}}`, `{"get":` + get + `}`},
	} {
		document := `{"openapi":"` + c.version + `","info":{"title":"t","version":"1"},"servers":[{"url":"https://service.example"}],` + c.top + `,"paths":{"/a":` + c.path + `}}`
		s := serve(t, nil)
		must(t, connect(t, s, document), "svc_act", `{}`)
	}
}

// TestDynamicReferences stay in the document, too.
func TestDynamicReferences(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	for _, to := range []string{"file:///etc/hostname", s.URL + "/x.json"} {
		_, err := try(t, s, one("get", "/a", `"parameters":[{"name":"x","in":"query","schema":{"$dynamicRef":"`+to+`"}}],`))
		want(t, textOf(err), "/paths/~1a/get/parameters/0/schema: ", "leads out of the document")
	}
	if s.count() > 0 {
		t.Errorf("%d requests", s.count())
	}
}

// TestAnchors: a schema with one may be used twice.
func TestAnchors(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	document := strings.TrimSuffix(one("post", "/a", `"requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/S"},"b":{"$ref":"#/components/schemas/S"}}}}}},`), "}") +
		`,"components":{"schemas":{"S":{"$anchor":"s","$dynamicAnchor":"d","type":"string"}}}}`
	must(t, connect(t, s, document, allow("act")), "svc_act", `{"body":{"a":"x","b":"y"}}`)
	if got := s.last(t).body; got != `{"a":"x","b":"y"}` {
		t.Error(got)
	}
}

// TestReadOnly: what only answers have is not asked for, wherever the document says so.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	for _, schemas := range []string{
		`"B":{"allOf":[{"$ref":"#/components/schemas/Base"},{"type":"object","required":["id","name"]}]},"Base":{"type":"object","properties":{"id":{"type":"integer","readOnly":true},"name":{"type":"string"}}}`,
		`"B":{"required":["id","name"],"allOf":[{"$ref":"#/components/schemas/Base"}]},"Base":{"type":"object","properties":{"id":{"type":"integer","readOnly":true},"name":{"type":"string"}}}`,
		`"B":{"allOf":[{"allOf":[{"$ref":"#/components/schemas/Base"}]},{"required":["id","name"]}]},"Base":{"type":"object","properties":{"id":{"type":"integer","readOnly":true},"name":{"type":"string"}}}`,
		`"B":{"type":"object","required":["id","name"],"properties":{"id":{"$ref":"#/components/schemas/B2"},"name":{"type":"string"}}},"B2":{"type":"object","readOnly":true,"required":["id"],"properties":{"id":{"$ref":"#/components/schemas/B2"},"b":{"$ref":"#/components/schemas/B"}}}`,
	} {
		s := serve(t, nil)
		document := strings.Replace(strings.TrimSuffix(one("post", "/a", `"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/B"}}}},`), "}")+`,"components":{"schemas":{`+schemas+`}}}`, "3.1.0", "3.0.3", 1)
		c := connect(t, s, document, allow("act"))
		must(t, c, "svc_act", `{"body":{"name":"x"}}`)
		if got := s.last(t).body; got != `{"name":"x"}` {
			t.Error(got)
		}
		_, err := action(t, c, "svc_act").Check(map[string]any{"body": map[string]any{}})
		want(t, textOf(err), "name")
		if told, err := json.Marshal(action(t, c, "svc_act").ForModels()); err != nil || strings.Contains(string(told), `"id"`) || strings.Contains(string(told), `\u0000`) {
			t.Errorf("%s, %v", told, err)
		}
	}
}
