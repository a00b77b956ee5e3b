package openapi_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/openapi"
)

// TestDefinitionsOfAnAddressAreAccepted one by one. A file is the operator's own.
func TestDefinitionsOfAnAddressAreAccepted(t *testing.T) {
	t.Parallel()
	var path atomic.Value
	path.Store("/a")
	s := serve(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		replies(200, "application/json", strings.Replace(one("post", path.Load().(string), ""), "https://service.example", "/", 1))(w, r, 1)
	})
	lock := connections.NewLock()
	offered := func(document string) (openapi.Operation, bool) {
		c, err := openapi.New(t.Context(), openapi.Config{Key: "svc", Document: document, Server: s.URL, Private: thisMachine, Lock: lock, Rules: connections.Rules{Allow: []string{"act"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		names, _ := c.Offer(t.Context(), nil)
		return operation(t, c, "act"), len(names) == 1
	}
	o, is := offered(s.URL)
	if want(t, o.LeftOut, "nobody has accepted", "bot actions --pin"); is {
		t.Error("it is offered before anybody accepted it")
	}
	if _, is := offered(file(t, act("post"))); !is {
		t.Error("a file has to be accepted")
	}
	if err := lock.Set("svc", map[string]jsontext.Value{"act": o.Definition}); err != nil {
		t.Fatal(err)
	}
	if _, is := offered(s.URL); !is {
		t.Error("it is not offered, although it was accepted")
	}
	path.Store("/b")
	if o, is := offered(s.URL); is || o.Definition == nil {
		t.Errorf("it is offered in another form: %+v", o)
	}
	lock = connections.NewLock()
	lock.FirstUse = true
	if _, is := offered(s.URL); !is {
		t.Error("it is not offered at first use")
	}
	lock = nil
	if _, is := offered(s.URL); is {
		t.Error("it is offered without a lock")
	}
}

// TestDocumentOfAFileSystem: an embedded document, with the files beside it and nothing else.
func TestDocumentOfAFileSystem(t *testing.T) {
	t.Parallel()
	whole := one("get", "/a", "")
	files := fstest.MapFS{
		"api/service.json":   {Data: []byte(whole)},
		"api/leads-out.json": {Data: []byte(one("get", "/a", `"parameters":[{"name":"x","in":"query","schema":{"$ref":"../secret.json#/x"}}],`))},
		"secret.json":        {Data: []byte(`{"x":{"type":"string"}}`)},
	}
	for name, fault := range map[string]string{
		"api/service.json": "", "api/none.json": "does not exist", "../service.json": "invalid", "/api/service.json": "invalid",
		"api/leads-out.json": "leads out of the document's folder", "api": "no regular file",
	} {
		c, err := openapi.New(t.Context(), openapi.Config{Key: "svc", FS: files, Document: name})
		if fault == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if names, _ := c.Offer(t.Context(), nil); len(names) != 1 {
				t.Errorf("%s: offers %v", name, names)
			}
			c.Close()
		} else if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: got %v, want %s", name, err, fault)
		}
	}
}
