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

// puppets are calls of a bot that streams, for the cases that no bot here can play.
var puppets = map[string]func(p *played){
	"own-answer": func(p *played) {
		p.chunk(500, 1, "The roof of the shed needs")
		p.chunk(2000, 2, "The roof of the shed needs new tiles,")
		p.message(4500, "The roof of the shed needs new tiles, a gutter and a coat of paint.")
		p.models = make([]bottest.ModelCall, 1)
	},
	"own-restart": func(p *played) {
		p.chunk(500, 1, "There must be some thirty")
		p.message(13_000, "There must be some thirty")
		p.call(13_500, "PUT", "/7", `{"type":"message","text":"Forty-one nails are left."}`, `{"id":"7"}`)
		p.models = make([]bottest.ModelCall, 2)
	},
}

// TestChangedExpectation: a case of which one expectation is changed fails.
func TestChangedExpectation(t *testing.T) {
	t.Parallel()
	for _, line := range read(t, ownVectors) {
		v, err := decode(line)
		if err != nil {
			t.Fatal(err)
		}
		var p *played
		switch puppet := puppets[v.ID]; {
		case streams || !v.streams():
			p = play(t, v)
		case puppet != nil:
			p = pulled(v, puppet)
		default:
			continue
		}
		if faults := p.check(v.Expect); len(faults) > 0 {
			t.Errorf("%s: unchanged: %s\n%s", v.ID, faults, p.told())
			continue
		}
		n := 0
		for what, changed := range changes(t, line) {
			n++
			if len(p.check(changed)) == 0 {
				t.Errorf("%s passes with another %s", v.ID, what)
			}
		}
		if n < 5 {
			t.Errorf("%s: %d expectations were changed", v.ID, n)
		}
	}
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
	mustNot, calls := v.Expect["must_not"], v.Expect["calls"].([]any)
	delete(v.Expect, "must_not") // most changes make them weaker
	change(v.Expect, "", keep)
	v.Expect["must_not"] = mustNot
	v.Expect["calls"] = append([]any{map[string]any{"path": "/nowhere"}}, calls...)
	keep("call more")
	for i, c := range calls {
		if c.(map[string]any)["opt"] == nil {
			v.Expect["calls"] = slices.Concat(calls[:i], calls[i+1:])
			keep(fmt.Sprintf("call less, number %d", i+1))
			v.Expect["calls"] = calls
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

// pulled is a case as a puppet plays it.
func pulled(v vector, puppet func(p *played)) *played {
	p := &played{}
	for _, e := range v.In {
		if e.Post != nil {
			p.ids = append(p.ids, e.Post["conversation"].(map[string]any)["id"].(string))
			p.posts = append(p.posts, &bottest.Delivery{Status: http.StatusOK})
		}
	}
	puppet(p)
	p.know()
	return p
}

// call is a call at that time, and its answer.
func (p *played) call(at int, method, path, body, answer string) {
	c := newCall(method, "/v3/conversations/"+p.ids[0]+"/activities"+path, body)
	c.at, c.status = ms(at), http.StatusAccepted
	c.began, c.ended = p.now.Add(1), p.now.Add(1)
	_ = json.Unmarshal([]byte(answer), &c.answer) // the test's own
	p.calls = append(p.calls, c)
}

// chunk is a chunk of the stream 7. Number 1 starts it.
func (p *played) chunk(at, number int, text string) {
	about, answer := fmt.Sprintf(`"streamType":"streaming","streamSequence":%d`, number), `{"id":"7"}`
	if number > 1 {
		about, answer = about+`,"streamId":"7"`, "{}"
	}
	p.call(at, http.MethodPost, "", fmt.Sprintf(`{"type":"typing","text":%q,"channelId":"msteams","conversation":{"conversationType":"personal"},"entities":[{"type":"streaminfo",%s}],"channelData":{%s}}`, text, about, about), answer)
}

// message is the final of the stream.
func (p *played) message(at int, text string) {
	p.call(at, http.MethodPost, "", fmt.Sprintf(`{"type":"message","text":%q,"entities":[{"type":"streaminfo","streamType":"final","streamId":"7"}]}`, text), "{}")
}
