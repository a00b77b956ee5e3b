package mcp_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/mcp"
)

const promises = `,"outputSchema":{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`

func TestResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quoted := func(text string) string { raw, _ := json.Marshal(text); return string(raw) }
		text := func(s string) string { return `{"type":"text","text":` + quoted(s) + `}` }
		const notUsable = "send of svc was done, but its answer is not usable."
		for what, c := range map[string]struct {
			schema, result string
			want           string
			failed         bool
		}{
			"isError":                       {"", `{"isError":true,"content":[` + text("no such repo") + `]}`, "no such repo", true},
			"isError without a text":        {"", `{"isError":true,"content":[]}`, "send of svc failed, and did not say why.", true},
			"isError with data alone":       {"", `{"isError":true,"content":[],"structuredContent":{"why":"full"}}`, `{"why":"full"}`, true},
			"isError is a text":             {"", `{"isError":"true","content":[` + text("no such repo") + `]}`, "no such repo", true},
			"isError is a text that denies": {"", `{"isError":"false","content":[` + text("a") + `]}`, "a", false},
			"isError is a number":           {"", `{"isError":1,"content":[` + text("no such repo") + `]}`, "no such repo", true},
			"content is a text":             {"", `{"content":"a"}`, "a", false},
			"content is one block":          {"", `{"content":` + text("a") + `,"structuredContent":{"id":9007199254740991}}`, `{"id":9007199254740991}`, false},
			"a text is a number":            {"", `{"content":[{"type":"text","text":7}]}`, "7", false},
			"the audience is a text":        {"", `{"content":[{"type":"text","text":"a","annotations":{"audience":"assistant","priority":"x"}}]}`, "a", false},
			"annotations are a list":        {"", `{"content":[{"type":"text","text":"a","annotations":[]}]}`, "a", false},
			"a blob without a type":         {"", `{"content":[{"type":"resource","resource":{"uri":"x:1","blob":"AAAA"}}]}`, "[file, 0 KB]", false},
			"isError with data":             {promises, `{"isError":true,"content":[` + text("no") + `],"structuredContent":{}}`, "no", true},
			"texts":                         {"", `{"content":[` + text("a") + `,` + text("b") + `]}`, "a\nb", false},
			"nothing":                       {"", `{"content":[]}`, "send of svc answered without any content.", false},
			"null":                          {"", `{"content":null}`, "send of svc answered without any content.", false},
			"an empty object":               {"", `{}`, "send of svc answered without any content.", false},
			"a large integer with its text": {"", `{"content":[` + text(`{ "id": 9007199254740993 }`) + `],"structuredContent":{"id":9007199254740993}}`, `{"id":9007199254740993}`, false},
			"a large integer without it":    {"", `{"content":[],"structuredContent":{"id":9007199254740993}}`, notUsable, true},
			"a smaller integer":             {"", `{"content":[],"structuredContent":{"id":9007199254740991}}`, `{"id":9007199254740991}`, false},
			"another text":                  {"", `{"content":[` + text("see there") + `],"structuredContent":{"id":7}}`, `{"id":7}`, false},
			"a list":                        {"", `{"content":[],"structuredContent":[1,"a"]}`, `[1,"a"]`, false},
			"as promised":                   {promises, `{"content":[` + text(`{"id":7}`) + `],"structuredContent":{"id":7}}`, `{"id":7}`, false},
			"a field is missing":            {promises, `{"content":[` + text(`{"id":7}`) + `],"structuredContent":{"name":"x"}}`, notUsable, true},
			"a field of another type":       {promises, `{"content":[],"structuredContent":{"id":"7"}}`, notUsable, true},
			"a member twice":                {"", `{"content":[],"structuredContent":{"id":1,"id":2}}`, notUsable, true},
			"a text in place of data":       {promises, `{"content":[` + text("seven") + `]}`, "seven", false},
			"a link":                        {"", `{"content":[{"type":"resource_link","name":"Log\n","uri":"file:///x"}]}`, "Log (file:///x)", false},
			"a resource":                    {"", `{"content":[{"type":"resource","resource":{"uri":"x:1","text":"inside"}}]}`, "inside", false},
			"a blob":                        {"", `{"content":[{"type":"resource","resource":{"uri":"x:1","mimeType":"application/pdf","blob":"` + strings.Repeat("A", 4096) + `"}}]}`, "[application/pdf, 3 KB]", false},
		} {
			f := newFake(t, tool("send", c.schema))
			f.saying(c.result)
			conn, _ := connectTo(t, f.URL)
			result, err := call(t, conn)
			if err != nil || result.Text() != c.want || result.Failed() != c.failed {
				t.Errorf("%s: got %q, failed %v, %v, want %q", what, result.Text(), result.Failed(), err, c.want)
			}
			if f.count("tools/call") != 1 {
				t.Errorf("%s: %d requests", what, f.count("tools/call"))
			}
		}
	})
}

func TestALargeIntegerIsExact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send", promises))
		f.saying(`{"content":[{"type":"text","text":"{\"id\":9007199254740993}"}],"structuredContent":{"id":9007199254740993}}`)
		c, _ := connectTo(t, f.URL)
		result, err := call(t, c)
		if err != nil {
			t.Fatal(err)
		}
		value, err := result.Value()
		if object, ok := value.(map[string]any); err != nil || !ok || fmt.Sprint(object["id"]) != "9007199254740993" {
			t.Errorf("got %v, %v", value, err)
		}
		a, _ := c.Actions().Lookup("svc_send")
		if a.Returns == nil || a.Returns.Properties["id"] == nil {
			t.Error("plans do not know the fields of the result")
		}
		// An argument is as exact.
		f.set(func() {
			f.tools = []string{strings.Replace(tool("send"), `"to":{"type":"string"}`, `"to":{"type":"integer"}`, 1)}
		})
		again, _ := connectTo(t, f.URL)
		offered(t, again)
		if _, err := run(t.Context(), t, again, "svc_send", map[string]any{"to": json.Number("9007199254740993")}); err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if got := string(f.seen[len(f.seen)-1].Params.Arguments); got != `{"to":9007199254740993}` {
			t.Errorf("the server got %s", got)
		}
	})
}

func TestAPromiseThatIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send", promises))
		for _, result := range []string{`{"content":[]}`, `{}`, `{"content":[],"structuredContent":null}`} {
			f.saying(result)
			c, _ := connectTo(t, f.URL)
			if got, err := call(t, c); !errors.Is(err, actions.ErrUncertain) {
				t.Errorf("%s: got %+v, %v: want that nobody knows", result, got, err)
			}
		}
		f.saying(`{"content":[],"structuredContent":{"name":"s3cret"}}`)
		c, log := connectTo(t, f.URL)
		if _, err := call(t, c); err != nil {
			t.Fatal(err)
		}
		if text := log.String(); !strings.Contains(text, "does not fit the outputSchema: /required") && !strings.Contains(text, "required") || strings.Contains(text, "s3cret") {
			t.Errorf("operators read %s", text)
		}
	})
}

func TestImagesAreNotTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		data := base64.StdEncoding.EncodeToString(make([]byte, 150<<10))
		f := newFake(t, tool("send"))
		f.saying(`{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"image/png","data":"` + data + `"}]}`)
		c, _ := connectTo(t, f.URL)
		if result, err := call(t, c); err != nil || result.Text() != "a\n[image/png, 150 KB]" {
			t.Errorf("got %.100q, %v", result.Text(), err)
		}
	})
}

func TestWhatOnlyThePersonSees(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		f.saying(`{"content":[{"type":"text","text":"for models"},{"type":"text","text":"*for* people","annotations":{"audience":["user"]}},{"type":"text","text":"for both","annotations":{"audience":["user","assistant"]}}]}`)
		c, _ := connectTo(t, f.URL)
		result, err := call(t, c)
		if err != nil || result.Text() != "for models\nfor both" || len(result.Cards()) != 1 || result.Cards()[0].Fallback != "*for* people" {
			t.Errorf("got %+v, %v", result, err)
		}
	})
}

func TestAnswersInStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, legacy := range []bool{false, true} {
			f := newFake(t, tool("send"))
			f.legacy = legacy
			f.call = func(w http.ResponseWriter, _ *http.Request, m message) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, ": hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"x\"}}\n\n")
				fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\r\ndata: \"result\":{\"content\":[{\"type\":\"text\",\"text\":\"streamed\"}]}}\r\n\r\n", m.ID)
			}
			c, _ := connectTo(t, f.URL)
			if result, err := call(t, c); err != nil || result.Text() != "streamed" {
				t.Errorf("legacy %v: got %+v, %v", legacy, result, err)
			}
		}
	})
}

func TestWhatModelsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		many := make([]string, 150)
		for i := range many {
			many[i] = fmt.Sprintf(`"v%d"`, i)
		}
		f := newFake(t, `{"name":"send","description":"Sends","inputSchema":{
		"$schema":"https://json-schema.org/draft/2020-12/schema","$id":"https://example.com/x","$comment":"c","x-y":1,
		"$defs":{"who":{"type":"object","properties":{"id":{"type":"integer"}},"examples":[1]}},
		"type":"object",
		"properties":{
			"examples":{"type":"string","default":"d","format":"date-time","examples":["e"]},
			"kind":{"const":"a"},
			"who":{"$ref":"#/$defs/who"},
			"either":{"oneOf":[{"type":"string"},{"type":"integer"}]},
			"free":true,
			"bag":{"type":"object"},
			"many":{"enum":[`+strings.Join(many, ",")+`]}
		},
		"anyOf":[{"required":["kind","who"],"properties":{"more":{"type":"string"}}},{"required":["kind"]}]
	}}`)
		c, _ := connectTo(t, f.URL)
		if names := offered(t, c); len(names) != 1 {
			t.Fatalf("offered %v", names)
		}
		a, _ := c.Actions().Lookup("svc_send")
		raw, err := json.Marshal(a.Told)
		if err != nil {
			t.Fatal(err)
		}
		var told struct {
			Type       string
			Required   []string
			Properties map[string]struct {
				Type, Ref, Description string
				Enum                   []any
				AnyOf                  []any
				Properties             *map[string]any
			}
		}
		text := string(raw)
		if i := strings.Index(text, `"free":true`); i < 0 {
			t.Errorf("a schema that allows all: %s", text)
		}
		if err := json.Unmarshal([]byte(strings.Replace(text, `"free":true`, `"free":{}`, 1)), &told); err != nil {
			t.Fatal(err)
		}
		for _, gone := range []string{"$schema", "$id", "$comment", "x-y", `"examples":[`, "default", "oneOf", "const"} {
			if strings.Contains(text, gone) {
				t.Errorf("%s is told: %s", gone, text)
			}
		}
		p := told.Properties
		if told.Type != "object" || !slices.Equal(told.Required, []string{"kind"}) || !slices.Equal(p["kind"].Enum, []any{"a"}) || len(p["either"].AnyOf) != 2 ||
			p["bag"].Properties == nil || len(p["many"].Enum) != 100 || !strings.Contains(p["many"].Description, "50 more") || p["more"].Type != "string" || p["examples"].Type != "string" {
			t.Errorf("told %s", text)
		}
		check := func(want string, entities map[string]any) {
			t.Helper()
			checked, err := a.Check(entities)
			if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
				t.Errorf("%v: got %v, want %q", entities, err, want)
			}
			if _, filled := checked["examples"]; filled && entities["examples"] == nil {
				t.Error("a default was filled in")
			}
		}
		check("", map[string]any{"kind": "a", "who": map[string]any{"id": json.Number("1")}, "examples": "no date", "many": "v149"})
		check("", map[string]any{"kind": "a"})
		check("kind", map[string]any{"kind": "b"})
		check("kind", map[string]any{"who": map[string]any{}})
		check("who.id", map[string]any{"kind": "a", "who": map[string]any{"id": "x"}})
		check("many", map[string]any{"kind": "a", "many": "v150"})
	})
}

// What a subset of JSON Schema would let through is checked, too.
func TestCallsAreCheckedWhole(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, `{"name":"send","inputSchema":{"type":"object","properties":{"a":{},"b":{},"list":{"type":"array","prefixItems":[{"type":"integer"}],"contains":{"const":2}}},
		"patternProperties":{"^n_":{"type":"integer"}},"propertyNames":{"maxLength":5},"dependentRequired":{"a":["b"]},
		"if":{"properties":{"b":{"const":1}},"required":["b"]},"then":{"required":["list"]},"not":{"required":["never"]}}}`)
		c, _ := connectTo(t, f.URL)
		offered(t, c)
		a, ok := c.Actions().Lookup("svc_send")
		if !ok {
			t.Fatal("no action")
		}
		number := func(s string) json.Number { return json.Number(s) }
		for _, bad := range []map[string]any{
			{"n_x": "text"},
			{"toolong": "x"},
			{"a": "x"},
			{"b": number("1")},
			{"never": "x"},
			{"list": []any{"x", number("2")}},
			{"list": []any{number("1")}},
		} {
			if _, err := a.Check(bad); err == nil {
				t.Errorf("%v passes", bad)
			}
		}
		for _, good := range []map[string]any{{"n_x": number("1")}, {"a": "x", "b": "y"}, {"b": number("1"), "list": []any{number("1"), number("2")}}} {
			if _, err := a.Check(good); err != nil {
				t.Errorf("%v: %v", good, err)
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for want, cfg := range map[string]mcp.Config{
		"want a lower-case letter":                {Key: "Git", URL: "https://example.com"},
		"either a URL or a Command":               {Key: "x"},
		"want either":                             {Key: "x", URL: "https://example.com", Command: []string{"x"}},
		"want https, or http to this":             {Key: "x", URL: "http://example.com"},
		"without a user":                          {Key: "x", URL: "https://ada:s3cret@example.com"},
		"Header: Idempotency-Key":                 {Key: "x", URL: "https://example.com", Header: http.Header{"idempotency-key": {"1"}}},
		"SignIn, Authorize and Header need a URL": {Key: "x", Command: []string{"x"}, SignIn: "y"},
		"Header: \"a b\" or its value":            {Key: "x", URL: "https://example.com", Header: http.Header{"a b": {"1"}}},
		"Rules: a name is empty":                  {Key: "x", URL: "https://example.com", Rules: connections.Rules{Allow: []string{""}}},
		"Command: the program has no name":        {Key: "x", Command: []string{""}},
		"Dir: /nowhere is no folder":              {Key: "x", Command: []string{"x"}, Dir: "/nowhere"},
		"Env: \"a=b\" cannot be":                  {Key: "x", Command: []string{"x"}, Env: map[string]string{"a=b": "c"}},
		"Timeouts: send":                          {Key: "x", URL: "https://example.com", Timeouts: map[string]time.Duration{"send": time.Hour}},
		"CallTimeout":                             {Key: "x", URL: "https://example.com", CallTimeout: -1},
	} {
		if _, err := mcp.New(cfg); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for _, address := range []string{"http://127.0.0.1:1/mcp", "http://[::1]:1", "http://localhost", "https://example.com/x?y=z"} {
		c, err := mcp.New(mcp.Config{Key: "x", URL: address})
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		c.Close()
	}
}

// Schemas from other languages have patterns that look ahead, such as those of zod for addresses. The server
// checks them.
func TestPatternsOfOtherLanguages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ahead = `^(?!\\.)(?!.*\\.\\.)([A-Za-z0-9_'+\\-\\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\\-]*\\.)+[A-Za-z]{2,}$`
		f := newFake(t, `{"name":"send","inputSchema":{"type":"object","properties":{
		"to":{"type":"string","format":"email","pattern":"`+ahead+`"},"n":{"type":"string","pattern":"^[0-9]+$"},"pattern":{"type":"string"},
		"tags":{"type":"object","patternProperties":{"^(?!x)":{"type":"integer"},"^y":{"type":"string"}},"additionalProperties":false}},"additionalProperties":false},
		"outputSchema":{"type":"object","properties":{"from":{"type":"string","pattern":"`+ahead+`"},"n":{"type":"string","pattern":"^[0-9]+$"}}}}`)
		f.saying(`{"content":[],"structuredContent":{"from":"a@b.example","n":"7"}}`)
		c, _ := connectTo(t, f.URL)
		result, err := call(t, c)
		if err != nil || result.Text() != `{"from":"a@b.example","n":"7"}` {
			t.Fatalf("got %q, %v", result.Text(), err)
		}
		a, _ := c.Actions().Lookup("svc_send")
		if a.Told.Properties["to"].Pattern != "" || a.Told.Properties["n"].Pattern == "" || a.Told.Properties["pattern"] == nil {
			t.Errorf("models are told %+v", a.Told.Properties)
		}
		for entities, fine := range map[string]bool{`{"n":"7"}`: true, `{"n":"x"}`: false, `{"tags":{"a":1}}`: true, `{"tags":{"y":1}}`: false, `{"other":1}`: false} {
			var values map[string]any
			if err := json.Unmarshal([]byte(entities), &values); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Check(values); (err == nil) != fine {
				t.Errorf("%s: %v", entities, err)
			}
		}
		f.saying(`{"content":[],"structuredContent":{"n":"x"}}`)
		if result, err := call(t, c); err != nil || !result.Failed() {
			t.Errorf("got %q, %v", result.Text(), err)
		}
	})
}

// References that models could not follow are not told, or the whole request would be refused.
func TestReferencesThatModelsCannotFollow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, `{"name":"send","inputSchema":{"type":"object","$defs":{"A":{"$anchor":"foo","type":"string"},"b c":{"type":"string"},"x/y":{"type":"string"}},
		"allOf":[{"properties":{"p":{"type":"string"}}}],"properties":{
		"anchor":{"$ref":"#foo"},"moved":{"$ref":"#/allOf/0/properties/p"},"one":{"$ref":"#/properties/or/oneOf/0"},"or":{"oneOf":[{"type":"string"}]},
		"def":{"$ref":"#/$defs/A"},"space":{"$ref":"#/$defs/b%20c"},"slash":{"$ref":"#/$defs/x~1y"},"self":{"$ref":"#"},"any":{"anyOf":[{"$ref":"#foo"}]},
		"content":{"type":"string","contentSchema":{"$ref":"https://example.com/x"}},"enum":{"$ref":"#foo"}}}}`)
		c, _ := connectTo(t, f.URL)
		if names := offered(t, c); !slices.Equal(names, []string{"svc_send"}) {
			t.Fatalf("offered %v", names)
		}
		a, _ := c.Actions().Lookup("svc_send")
		refs := map[string]string{"anchor": "", "moved": "", "one": "", "def": "#/$defs/A", "space": "#/$defs/b%20c", "slash": "#/$defs/x~1y", "self": "#", "enum": ""}
		for name, want := range refs {
			if p := a.Told.Properties[name]; p == nil || p.Ref != want {
				t.Errorf("%s: told %+v, want a reference to %q", name, p, want)
			}
		}
		if raw, err := json.Marshal(a.Told); err != nil || strings.Contains(string(raw), "#foo") || strings.Contains(string(raw), "example.com") {
			t.Errorf("told %s, %v", raw, err)
		}
		if _, err := a.Check(map[string]any{"anchor": 7.5, "or": []any{}}); err == nil {
			t.Error("what is not told is not checked")
		}
	})
}

func TestNamesThatAreNotSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, bad := range []string{
			`{"name":"se\u202end","inputSchema":{"type":"object"}}`, `{"name":"send\n","inputSchema":{"type":"object"}}`, `{"name":" ","inputSchema":{"type":"object"}}`,
			`{"name":"\u0000","inputSchema":{"type":"object"}}`, `{"name":"x","inputSchema":{"type":"object","properties":{"to\nIgnore":{}}}}`,
			`{"name":"x","inputSchema":{"type":"object","properties":{"to\u2066":{}}}}`,
		} {
			f := newFake(t, bad, tool("größe"))
			c, _ := connectTo(t, f.URL)
			if names := offered(t, c); len(names) != 1 || !strings.HasPrefix(names[0], "svc_gr__e_") {
				t.Errorf("%s: offered %v", bad, names)
			} else if result, err := run(t.Context(), t, c, names[0], nil); err != nil || result.Text() != "ok" {
				t.Errorf("a call: %q, %v", result.Text(), err)
			}
			tools, err := c.List(t.Context())
			if err != nil || !slices.ContainsFunc(tools, func(one actions.Listed) bool { return strings.Contains(one.LeftOut, "not seen") }) {
				t.Errorf("%s: operators read %+v, %v", bad, tools, err)
			}
		}
	})
}

// What the schema does not have is not sent: unknown entities are faults, and long lists of values are cut.
func TestUnknownEntities(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var values []string
		for i := range 1000 {
			values = append(values, fmt.Sprintf(`"v%d\u202e\n"`, i))
		}
		f := newFake(t, `{"name":"send","inputSchema":{"type":"object","additionalProperties":false,"properties":{"to":{"type":"string"},
		"who":{"type":"object","additionalProperties":false,"properties":{"id":{"type":"string"}}},
		"one":{"oneOf":[{"type":"object","additionalProperties":false,"properties":{"a":{"type":"string"}}},{"type":"object","additionalProperties":false,"properties":{"b":{"type":"string"}}}]},
		"kind":{"enum":[`+strings.Join(values, ",")+`]}}}}`, `{"name":"free","inputSchema":{"type":"object","properties":{"to":{"type":"string"}}}}`)
		c, _ := connectTo(t, f.URL)
		if names := offered(t, c); len(names) != 2 {
			t.Fatalf("offered %v", names)
		}
		send, _ := c.Actions().Lookup("svc_send")
		for entities, fault := range map[string]string{
			`{"to":"x","cc":"y"}`:          "entity cc: want nothing, since there is no such entity",
			`{"who":{"id":"x","name":7}}`:  "entity who.name: want nothing, since there is no such entity",
			`{"one":{"b":"x"}}`:            "",
			`{"one":{"c":"x"}}`:            "entity one.c: want nothing, since there is no such entity",
			`{"to":null,"who":{"id":"x"}}`: "",
			`{"kind":"x"}`:                 "950 more values",
		} {
			var values map[string]any
			if err := json.Unmarshal([]byte(entities), &values); err != nil {
				t.Fatal(err)
			}
			switch _, err := send.Check(values); {
			case (err != nil) != (fault != ""), err != nil && !strings.Contains(err.Error(), fault):
				t.Errorf("%s: %v, want %s", entities, err, fault)
			case err != nil && (len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\n\u202e")):
				t.Errorf("%s: %d bytes: %.200q", entities, len(err.Error()), err)
			}
		}
		free, _ := c.Actions().Lookup("svc_free")
		if _, err := free.Check(map[string]any{"cc": "y"}); err != nil {
			t.Errorf("what the schema allows is refused: %v", err)
		}
	})
}

// TestTwoKindsOfDefinitions: a schema may have both $defs and definitions, with the same names, and say that
// it is of an object in a list.
func TestTwoKindsOfDefinitions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, `{"name":"send","inputSchema":{"type":["object"],"$defs":{"a":{"type":"integer"}},
		"definitions":{"a":{"type":["string"]},"b":{"properties":{"c":{"$ref":"#/definitions/a"}}},"b c":{"type":"boolean"}},"properties":{
		"new":{"$ref":"#/$defs/a"},"old":{"$ref":"#/definitions/a"},"deep":{"$ref":"#/definitions/b/properties/c"},"space":{"$ref":"#/definitions/b%20c"},
		"definitions":{"type":"string"}}}}`)
		c, _ := connectTo(t, f.URL)
		if names := offered(t, c); !slices.Equal(names, []string{"svc_send"}) {
			t.Fatalf("offered %v", names)
		}
		a, _ := c.Actions().Lookup("svc_send")
		for entities, fine := range map[string]bool{
			`{"new":1,"old":"x","deep":"x","space":true,"definitions":"x"}`: true,
			`{"new":"x"}`: false, `{"old":1}`: false, `{"deep":1}`: false, `{"space":1}`: false, `{"definitions":1}`: false,
		} {
			var values map[string]any
			if err := json.Unmarshal([]byte(entities), &values); err != nil {
				t.Fatal(err)
			}
			if _, err := a.Check(values); (err == nil) != fine {
				t.Errorf("%s: %v", entities, err)
			}
		}
		for name, want := range map[string]string{"new": "#/$defs/a", "old": "#/$defs/a_", "deep": "#/$defs/b_/properties/c", "space": "#/$defs/b%20c_"} {
			if got := a.Told.Properties[name].Ref; got != want {
				t.Errorf("%s: told a reference to %q, want %q", name, got, want)
			}
		}
	})
}
