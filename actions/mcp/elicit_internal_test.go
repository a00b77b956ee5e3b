package mcp // the functions are for calls only, and calls need a server

import (
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
)

func asks(message, properties, required string) json.RawMessage {
	return json.RawMessage(`{"resultType":"input_required","requestState":"s1","inputRequests":{"q1":{"method":"elicitation/create","params":{"mode":"form","message":"` +
		message + `","requestedSchema":{"type":"object","properties":` + properties + `,"required":` + required + `}}}}}`)
}

func TestElicit(t *testing.T) {
	t.Parallel()
	one, ten := 1.0, 10.0
	form, state, err := elicit(asks("Why, and how?", `{
		"reason":{"type":"string","title":"Reason","description":"In a\nsentence","minLength":3,"maxLength":80},
		"mail":{"type":"string","format":"email","maxLength":99999},
		"priority":{"type":"integer","minimum":1,"maximum":10,"default":3},
		"share":{"type":"number"},
		"urgent":{"type":"boolean","default":true},
		"size":{"type":"string","enum":["s","l"],"enumNames":["Small"]},
		"color":{"type":"string","oneOf":[{"const":"r","title":"Red"},{"const":"g"}]}
	}`, `["reason","size"]`), "7")
	want := actions.Form{Text: "Why, and how?", Fields: []actions.Field{
		{Name: "q1\nreason", Title: "Reason", Hint: "In a sentence", Required: true, MinLength: 3, MaxLength: 80},
		{Name: "q1\nmail", Title: "Mail", Hint: "(email)"},
		{Name: "q1\npriority", Title: "Priority", Kind: actions.IntegerField, Min: &one, Max: &ten, Default: json.Number("3")},
		{Name: "q1\nshare", Title: "Share", Kind: actions.NumberField},
		{Name: "q1\nurgent", Title: "Urgent", Kind: actions.YesNoField, Default: true},
		{Name: "q1\nsize", Title: "Size", Required: true, Choices: []actions.Choice{{Value: "s", Title: "Small"}, {Value: "l"}}},
		{Name: "q1\ncolor", Title: "Color", Choices: []actions.Choice{{Value: "r", Title: "Red"}, {Value: "g"}}},
	}}
	if diff := cmp.Diff(want, form); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	actions.Ask(form, state)
	values := map[string]any{"q1\nreason": "because", "q1\npriority": json.Number("9007199254740993"), "q1\nurgent": false}
	for wantSent, answer := range map[string]actions.Answer{
		`{"q1":{"action":"accept","content":{"priority":9007199254740993,"reason":"because","urgent":false}}}`: {Values: values, State: state},
		`{"q1":{"action":"decline"}}`: {Declined: true, State: state},
		`{"q1":{"action":"cancel"}}`:  {Declined: true, Unanswered: true, State: state},
	} {
		all, server, used, err := responses(&answer)
		sent, _ := json.Marshal(all)
		if err != nil || server != "s1" || used != "7" || string(sent) != wantSent {
			t.Errorf("sent %s with the state %q, %v; want %s", sent, server, err, wantSent)
		}
	}
	if _, _, _, err := responses(&actions.Answer{State: []byte("x")}); err == nil {
		t.Error("no error with a foreign state")
	}
}

// TestElicitTwo: several questions become one form, and each gets its own answers.
func TestElicitTwo(t *testing.T) {
	t.Parallel()
	form, state, err := elicit(json.RawMessage(`{"inputRequests":{
		"b":{"method":"elicitation/create","params":{"message":"Second?","requestedSchema":{"type":"object","properties":{"x":{"type":"string"}}}}},
		"a":{"method":"elicitation/create","params":{"message":"First?"}}}}`), "7")
	if err != nil || form.Text != "First?\n\nSecond?" || len(form.Fields) != 1 {
		t.Fatalf("%+v, %v", form, err)
	}
	all, _, _, err := responses(&actions.Answer{Values: map[string]any{"b\nx": "yes"}, State: state})
	if sent, _ := json.Marshal(all); err != nil || string(sent) != `{"a":{"action":"accept"},"b":{"action":"accept","content":{"x":"yes"}}}` {
		t.Errorf("sent %s, %v", sent, err)
	}
}

// TestElicitRefuses what is secret or not flat. The state still says what to decline.
func TestElicitRefuses(t *testing.T) {
	t.Parallel()
	for properties, want := range map[string]error{
		`{"password":{"type":"string"}}`:                                          errSecret,
		`{"reason":{"type":"string"},"userPassword":{"type":"string"}}`:           errSecret,
		`{"api_key":{"type":"string"}}`:                                           errSecret,
		`{"accessToken":{"type":"string"}}`:                                       errSecret,
		`{"x":{"type":"string","title":"Credit card number"}}`:                    errSecret,
		`{"PIN":{"type":"integer"}}`:                                              errSecret,
		`{"x":{"type":"string","format":"password"}}`:                             errSecret,
		`{"list":{"type":"array","items":{"type":"string"}},"secret":{"type":1}}`: errSecret,
		`{"x":{"type":"array","items":{"type":"string","enum":["a"]}}}`:           errNotFlat,
		`{"x":{"type":"object","properties":{}}}`:                                 errNotFlat,
		`{"x":{"type":["string","null"]}}`:                                        errNotFlat,
		`{"x":{"$ref":"#/$defs/x"}}`:                                              errNotFlat,
		`{"x":{"type":"string","enum":[1]}}`:                                      errNotFlat,
		`{"x":{"type":"string","minLength":5000}}`:                                errNotFlat,
		`{"x":{"type":"string"},"x":{"type":"string"}}`:                           errNotFlat,
		`{"":{"type":"string"}}`:                                                  errNotFlat,
		`{"x":true}`:                                                              errNotFlat,
		`[]`:                                                                      errNotFlat,
	} {
		_, state, err := elicit(asks("?", properties, `[]`), "7")
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", properties, err, want)
		}
		all, server, _, err := responses(&actions.Answer{Declined: true, State: state})
		if sent, _ := json.Marshal(all); err != nil || server != "s1" || string(sent) != `{"q1":{"action":"decline"}}` {
			t.Errorf("%s: declined with %s, %q, %v", properties, sent, server, err)
		}
	}
	for _, harmless := range []string{"spinner", "pinned", "titanium", "passenger", "discard"} {
		if _, _, err := elicit(asks("?", `{"`+harmless+`":{"type":"string"}}`, `[]`), "7"); err != nil {
			t.Errorf("%s: %v", harmless, err)
		}
	}
	for _, other := range []string{
		`{"inputRequests":{"q1":{"method":"sampling/createMessage","params":{}}}}`, `{"inputRequests":{}}`, `{}`, `[]`,
		`{"inputRequests":{"q1":{"method":"elicitation/create","params":{"mode":"url","message":"Go","url":"https://x.example"}}}}`,
		`{"inputRequests":{"q1":{"method":"elicitation/create","params":{"mode":"form","message":" "}}}}`,
	} {
		if _, _, err := elicit(json.RawMessage(other), "7"); !errors.Is(err, errNotFlat) {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// TestWhereItDials: a server is on the internet, in a network of the operator's or, with http, on this machine.
func TestWhereItDials(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		url     string
		private []netip.Prefix
		fine    bool
	}{
		{"https://localhost/mcp", nil, false},
		{"https://internal.example/mcp", nil, false},
		{"https://internal.example/mcp", connections.ThisMachine(), true},
		{"http://localhost/mcp", nil, true},
	} {
		endpoint, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := newBase(tt.private, endpoint).DialContext(t.Context(), "tcp", l.Addr().String())
		if (err == nil) != tt.fine || err != nil && !errors.Is(err, connections.ErrAddress) {
			t.Errorf("%s %v: %v", tt.url, tt.private, err)
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
}
