package openapi_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/planner/plan"
)

// TestNullIsSent: a null that a document allows goes to the service, in whichever way the document says it,
// and what is not named does not. So it may be neither forced nor left out by what models are told.
func TestNullIsSent(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	document := func(version, property string) string {
		return `{"openapi":"` + version + `","info":{"title":"t","version":"1"},"servers":[{"url":"https://service.example"}],
			"components":{"schemas":{"Due":{"type":"string"},"Maybe":{"type":"string"` + map[bool]string{true: `,"nullable":true`}[version < "3.1"] + `},"User":{"type":"object","properties":{"id":{"type":"integer"}}}}},
			"paths":{"/a":{"patch":{"operationId":"act","requestBody":{"content":{"application/json":{"schema":{"type":"object","properties":{
				"a":` + property + `,"list":{"type":"array","items":` + property + `},"in":{"type":"object","properties":{"a":` + property + `}}}}}}},
			"responses":{"200":{"description":"ok"}}}}}}`
	}
	for _, c := range []struct {
		property string
		versions string
		sent     bool
	}{
		{`{"type":"string","nullable":true}`, "3.0 3.1", true},
		{`{"type":"string","enum":["x"],"nullable":true}`, "3.0 3.1", true},
		{`{"enum":["x"],"nullable":true}`, "3.0 3.1", true},
		{`{"nullable":true,"oneOf":[{"type":"string"},{"type":"integer"}]}`, "3.0 3.1", true},
		{`{"nullable":true,"anyOf":[{"$ref":"#/components/schemas/User"},{"type":"integer"}]}`, "3.0 3.1", true},
		{`{"nullable":true,"allOf":[{"$ref":"#/components/schemas/Due"}]}`, "3.0 3.1", true},
		{`{"nullable":true,"allOf":[{"$ref":"#/components/schemas/User"},{"type":"object","required":["id"]}]}`, "3.0 3.1", true},
		{`{"type":"object","nullable":true,"allOf":[{"$ref":"#/components/schemas/User"}]}`, "3.0 3.1", true},
		{`{"nullable":true,"properties":{"x":{"type":"string"}}}`, "3.0 3.1", true},
		{`{"$ref":"#/components/schemas/User","nullable":true}`, "3.0 3.1", true},
		{`{"oneOf":[{"type":"string","nullable":true},{"type":"integer","nullable":true}]}`, "3.0", true},
		{`{"$ref":"#/components/schemas/Maybe"}`, "3.0", true},
		{`{"allOf":[{"$ref":"#/components/schemas/Maybe"}],"description":"d"}`, "3.0", true},
		{`{"type":["string","null"]}`, "3.1", true},
		{`{"type":["string","null"],"enum":["x",null]}`, "3.1", true},
		{`{"enum":["x",null]}`, "3.1", true},
		{`{"const":null}`, "3.1", true},
		{`{"oneOf":[{"type":"string"},{"type":"null"}]}`, "3.1", true},
		{`{"oneOf":[{"type":["string","null"]},{"type":["integer","null"]}]}`, "3.1", true},
		{`{"anyOf":[{"$ref":"#/components/schemas/Due"},{"type":"null"}],"title":"Due"}`, "3.1", true},
		{`{"type":"string"}`, "3.0 3.1", false},
		{`{"type":"string","nullable":false}`, "3.0", false},
		{`{"properties":{"x":{"type":"string"}}}`, "3.0 3.1", false},
		{`{"$ref":"#/components/schemas/User"}`, "3.0 3.1", false},
		{`{"oneOf":[{"type":"string"},{"type":"integer"}]}`, "3.0 3.1", false},
	} {
		for version := range strings.FieldsSeq(c.versions) {
			connection := connect(t, s, document(version+".0", c.property), allow("act"))
			raw, strict, err := plan.ToolSchema(action(t, connection, "svc_act"), true)
			if err != nil || strict == c.sent {
				t.Errorf("%s %s: strict %t, %v: %s", version, c.property, strict, err, raw)
			}
			want := `{"in":{}}`
			given := `{"body":{"a":null,"in":{"a":null}}}`
			if c.sent {
				want, given = `{"a":null,"in":{"a":null},"list":[null]}`, `{"body":{"a":null,"list":[null],"in":{"a":null}}}`
			}
			must(t, connection, "svc_act", given)
			if got := s.last(t).body; got != want {
				t.Errorf("%s %s: sent %s, want %s", version, c.property, got, want)
			}
			must(t, connection, "svc_act", `{"body":{"in":{}}}`)
			if got := s.last(t).body; got != `{"in":{}}` {
				t.Errorf("%s %s: sent %s of nothing", version, c.property, got)
			}
		}
	}
}

// TestWhatOnlyJSONCanSay: there is no null in an address, a header or a form, so no model is told of one.
func TestWhatOnlyJSONCanSay(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	const maybe = `{"anyOf":[{"type":"string"},{"type":"null"}]}`
	c := connect(t, s, one("post", "/a", `"parameters":[{"name":"q","in":"query","schema":`+maybe+`}],"requestBody":{"required":true,"content":{"application/x-www-form-urlencoded":{"schema":{"type":"object","properties":{"f":`+maybe+`}}}}},`), allow("act"))
	if _, strict, err := plan.ToolSchema(action(t, c, "svc_act"), true); err != nil || !strict {
		t.Errorf("not strict, %v", err)
	}
	must(t, c, "svc_act", `{"q":null,"body":{"f":null}}`)
	if got := s.last(t); got.uri != "/a" || got.body != "" {
		t.Errorf("sent %s %q", got.uri, got.body)
	}
	c = connect(t, s, one("post", "/a", `"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":["object","null"],"properties":{"f":`+maybe+`}}}}},`), allow("act"))
	must(t, c, "svc_act", `{"body":null}`)
	if got := s.last(t).body; got != "null" {
		t.Errorf("sent %q", got)
	}
}

// TestRequiredAndEmpty: what a document requires may be empty, if it can be sent at all.
func TestRequiredAndEmpty(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := connect(t, s, one("post", "/a", `"parameters":[{"name":"q","in":"query","required":true,"schema":{"type":"string"}}],"requestBody":{"required":true,"content":{"text/plain":{"schema":{"type":"string"}}}},`), allow("act"))
	must(t, c, "svc_act", `{"q":"","body":""}`)
	if got := s.last(t); got.uri != "/a?q=" || got.body != "" || got.header.Get("Content-Type") != "text/plain" {
		t.Errorf("sent %+v", got)
	}
	c = connect(t, s, one("post", "/a", `"requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"string"}}}},`), allow("act"))
	must(t, c, "svc_act", `{"body":""}`)
	if got := s.last(t).body; got != `""` {
		t.Errorf("sent %q", got)
	}
	c = connect(t, s, one("get", "/a/{p}", `"parameters":[{"name":"p","in":"path","required":true,"schema":{"type":"string"}}],`))
	want(t, fails(t, c, "svc_act", `{"p":""}`), "p has no value")
}
