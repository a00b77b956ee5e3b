package activity

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Execute is a button that asks the bot, which answers the click: by Action.Execute,
// and where a client does not know that, by an Action.Submit with the verb as a member of
// its data. Verb says which button it is and is required.
type Execute struct {
	Title string
	Verb  string
	// Data comes with the click, and the values of the card's inputs among it. It is an
	// object, as a map or a struct, or nil.
	Data  any
	Style Style
	ID    string
}

// MarshalJSON writes the action.
func (e Execute) MarshalJSON() ([]byte, error) {
	if e.Verb == "" {
		return nil, errors.New("an Action.Execute without a verb")
	}
	data, submitted, err := e.data()
	if err != nil {
		return nil, err
	}
	return typed("Action.Execute", struct {
		Title    string         `json:"title,omitempty"`
		Verb     string         `json:"verb"`
		ID       string         `json:"id,omitempty"`
		Style    Style          `json:"style,omitempty"`
		Data     jsontext.Value `json:"data,omitzero"`
		Fallback Submit         `json:"fallback"`
	}{e.Title, e.Verb, e.ID, e.Style, data, Submit{e.Title, submitted, e.Style}})
}

// data is what comes with the click, and what comes with that of the fallback.
func (e *Execute) data() (data, submitted jsontext.Value, err error) {
	members := map[string]jsontext.Value{}
	if e.Data != nil {
		if data, err = json.Marshal(e.Data, json.Deterministic(true), jsontext.AllowInvalidUTF8(true)); err == nil {
			err = json.Unmarshal(data, &members, jsontext.AllowInvalidUTF8(true))
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("data of the action %s: %w", e.Verb, err)
	}
	if members == nil {
		members, data = map[string]jsontext.Value{}, nil
	}
	members["verb"] = raw(e.Verb)
	return data, raw(members), nil
}

// Submit is a button that sends its data, and the values of the card's inputs, as a
// message without a text.
type Submit struct {
	Title string `json:"title,omitempty"`
	Data  any    `json:"data,omitempty"`
	Style Style  `json:"style,omitempty"`
}

// MarshalJSON writes the action.
func (s Submit) MarshalJSON() ([]byte, error) {
	type plain Submit
	return typed("Action.Submit", plain(s))
}

// OpenURL is a button that opens an address.
type OpenURL struct {
	Title string `json:"title,omitempty"`
	URL   string `json:"url"`
}

// MarshalJSON writes the action.
func (o OpenURL) MarshalJSON() ([]byte, error) {
	type plain OpenURL
	return typed("Action.OpenUrl", plain(o))
}

// Toggle is a button that shows or hides elements, by their ids.
type Toggle struct {
	Title   string   `json:"title,omitempty"`
	Targets []string `json:"targetElements"`
}

// MarshalJSON writes the action.
func (t Toggle) MarshalJSON() ([]byte, error) {
	type plain Toggle
	return typed("Action.ToggleVisibility", plain(t))
}

// RawAction is any other action, as JSON.
type RawAction jsontext.Value

// MarshalJSON returns it.
func (r RawAction) MarshalJSON() ([]byte, error) { return r, nil }

func (Execute) action()   {}
func (Submit) action()    {}
func (OpenURL) action()   {}
func (Toggle) action()    {}
func (RawAction) action() {}
