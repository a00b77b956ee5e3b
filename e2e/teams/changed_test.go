package teams_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/bottest"
)

// toothless says which expectations of a case may be changed without a fault.
func toothless(t *testing.T, p *played, line []byte) (faults []string) {
	t.Helper()
	all := changes(t, line)
	for what, changed := range all {
		if len(p.check(changed)) == 0 {
			faults = append(faults, "passes with another "+what)
		}
	}
	if len(all) < 2 {
		faults = append(faults, fmt.Sprintf("%d expectations were changed", len(all)))
	}
	return faults
}

// changes are the expectations of a case, each with one of them changed.
func changes(t *testing.T, line []byte) map[string]expect {
	t.Helper()
	var v struct {
		Expect map[string]any `json:"expect"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatal(err)
	}
	all := map[string]expect{}
	keep := func(what string) {
		raw, err := json.Marshal(v.Expect)
		var e expect
		if err == nil {
			err = json.Unmarshal(raw, &e)
		}
		if err != nil {
			t.Fatal(err)
		}
		all[what] = e
	}
	mustNot := v.Expect["must_not"]
	calls, _ := v.Expect["calls"].([]any) // nil: they do not matter
	delete(v.Expect, "must_not")          // most changes make them weaker
	change(v.Expect, "", keep)
	v.Expect["must_not"] = mustNot
	v.Expect["calls"] = append([]any{map[string]any{"path": "/nowhere"}}, calls...)
	keep("call more")
	for i, c := range calls {
		if c.(map[string]any)["opt"] == nil {
			if v.Expect["calls_exact"] == true {
				v.Expect["calls"] = slices.Concat(calls[:i], calls[i+1:])
				keep(fmt.Sprintf("call less, number %d", i+1))
				v.Expect["calls"] = calls
			}
			v.Expect["must_not"] = []any{c}
			keep(fmt.Sprintf("must_not, call %d", i+1))
			v.Expect["must_not"] = mustNot
		}
	}
	return all
}

// change changes each value below at, one after the other, calls keep, and changes it back.
func change(at any, where string, keep func(string)) {
	switch at := at.(type) {
	case map[string]any:
		if at["opt"] == true {
			return // it may be missing
		}
		for _, name := range slices.Sorted(maps.Keys(at)) {
			was := at[name]
			if to, ok := changed(name, was); ok {
				at[name] = to
				keep(where + "." + name)
				at[name] = was
				continue
			}
			change(was, where+"."+name, keep)
		}
	case []any:
		for i, was := range at {
			name := fmt.Sprintf("%s[%d]", where, i)
			if to, ok := changed(where, was); ok {
				at[i] = to
				keep(name)
				at[i] = was
				continue
			}
			change(was, name, keep)
		}
	}
}

// changed is a value that the expectation cannot have; false: there is none, or it has parts.
func changed(name string, was any) (any, bool) {
	switch {
	case name == "calls_exact" || name == "typing":
		return nil, false
	case strings.HasSuffix(name, ".not"):
		return "", true // which every text has
	case strings.HasSuffix(name, ".headers_not"):
		_, one := was.(string)
		return "User-Agent", one // which every call has
	case name == "not_re":
		return ".", true
	case name == "not_before_ms" || name == "text_min":
		return 1_000_000_000, true
	case name == "not_after_ms" || name == "before_ms":
		return -1, true
	case name == "count" || name == "model_calls":
		return 77, true
	case was == "<abs>" || was == "<abs-or-empty>":
		return "*", true
	}
	switch was := was.(type) {
	case string:
		return "other than " + was, true
	case float64:
		return was + 77, true
	case []any: // an empty one has nothing to change
		if len(was) == 0 && name == "model_cancelled" {
			return []any{77}, true
		}
	}
	return nil, false
}

// call is a call at that time, and its answer.
func (p *played) call(at int, method, path, body, answer string) {
	c := newCall(method, "/v3/conversations/"+p.ids[0]+"/activities"+path, body)
	c.at, c.status = ms(at), http.StatusAccepted
	c.began, c.ended = p.now.Add(1), p.now.Add(1)
	_ = json.Unmarshal([]byte(answer), &c.answer) // the test's own
	p.calls = append(p.calls, c)
}

// TestExpectationLanguage: what the cases here do not use.
func TestExpectationLanguage(t *testing.T) {
	t.Parallel()
	p := &played{ids: []string{"a:kim"}}
	for _, text := range []string{"one", "two", "three"} {
		p.call(100, http.MethodPost, "", fmt.Sprintf(`{"type":"message","text":%q,"attachments":[{"name":"a"},{"name":"b"}],"cafe":"caf\u0065\u0301"}`, text), `{"id":"1"}`)
	}
	p.calls[0].query = map[string][]string{"isTargetedActivity": {"true"}}
	p.posts = []*bottest.Delivery{{Status: http.StatusOK, Body: []byte(`{"a":1}`)}, {Status: http.StatusAccepted}}
	p.know()
	for expectation, fits := range map[string]bool{
		`{"calls":[{"text":"two","any_order":true},{"text":"one","any_order":true},{"text":"three"}],"calls_exact":true}`: true,
		`{"calls":[{"text":"two"},{"text":"one"},{"text":"three"}],"calls_exact":true}`:                                   false,
		`{"calls":[{"text":"two"}]}`:                                                       true,
		`{"calls":[{"text":"two"}],"calls_exact":true}`:                                    false,
		`{"calls":[{"count":3}],"calls_exact":true}`:                                       true,
		`{"calls":[{"count":{"min":1,"max":2}}],"calls_exact":true}`:                       false,
		`{"calls":[{"text":"none","opt":true},{"count":{"min":3}}],"calls_exact":true}`:    true,
		`{"calls":[{"query_has":{"isTargetedActivity":"true"}}]}`:                          true,
		`{"calls":[{"count":3,"query_has":{"isTargetedActivity":"<abs>"}}]}`:               false,
		`{"calls":[{"body_has":{"attachments.length":2,"cafe":"café"}}]}`:                  true,
		`{"calls":[{"body_has":{"attachments.length":1}}]}`:                                false,
		`{"calls":[{"body_has":{"attachments":[{"name":"b"}]}}]}`:                          true,
		`{"calls":[{"body_has":{"attachments":[{"name":"b"},{"name":"a"}]}}]}`:             false,
		`{"calls":[{"body_has":{"attachments":[{"name":"c","<none>":true}]}}]}`:            true,
		`{"calls":[{"body_has":{"attachments":[{"name":"b","<none>":true}]}}]}`:            false,
		`{"calls":[{"body_has":{"attachments":"<abs-or-empty>"}}]}`:                        false,
		`{"calls":[{"body_has":{"nothing":"<abs-or-empty>","text":"~^o\u006ee$"}}]}`:       true,
		`{"must_not":[{"to":"any","count_over":2}]}`:                                       false,
		`{"must_not":[{"count_over":3}]}`:                                                  true,
		`{"must_not":[{"text_has":"thre"}]}`:                                               false,
		`{"must_not":[{"to":"http","text_has":"\"a\":1"}]}`:                                false,
		`{"http":[{"body_either":[{"a":2},{"a":1}]},{"status":"~^20","body_empty":true}]}`: true,
		`{"http":[{"body_either":[{"a":2}]}]}`:                                             false,
		`{"http":[{"body_empty":true}]}`:                                                   false,
		`{"http":[{},{},{}]}`:                                                              false,
		`{"calls":[{"count":3,"path":"~^/v3/conversations/{cid}/activities(/[^/]+)?$"}]}`:  true,
		`{"calls":[{"path":"~^/v3/other/"}]}`:                                              false,
		`{"quotes":0}`:                                                                     true,
		`{"quotes":1}`:                                                                     false,
		`{"quotes":"~^[0-9]$"}`:                                                            true,
		`{"quotes":[{"preview":"one"}]}`:                                                   false,
		`{"joined_text":"one twothree"}`:                                                   true,
		`{"joined_text":"one two"}`:                                                        false,
		`{"order":[["POST","PUT"]]}`:                                                       false,
	} {
		var e expect
		if err := json.Unmarshal([]byte(expectation), &e); err != nil {
			t.Fatal(err)
		}
		if faults := p.check(e); (len(faults) == 0) != fits {
			t.Errorf("%s: %q", expectation, faults)
		}
	}
}

func TestWhatIsNotKnown(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"id":"1","kind":"stream.answer","given":{"options":{"sign_in":true}}}`:       `unknown field "sign_in"`,
		`{"id":"1","kind":"stream.answer","expect":{"calls":[{"headers":{"a":"*"}}]}}`: `unknown field "headers"`,
		`{"id":"1","kind":"text","given":{"handlers":{"text:a":{"says":"b"}}}}`:        `unknown field "says"`,
		`{"id":`: "unexpected end",
	} {
		if _, err := decode([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}
