package mcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/titles"
)

// A server may need to know something of the person before it does a call. It then answers the call with
// what it asks and a state of its own, and does the call once it gets both back with the answers.

// Why a question of a server is not asked.
var (
	errSecret  = errors.New("it asks for a secret")
	errNotFlat = errors.New("it asks in a form that is not supported")
	errNothing = errors.New("it asks nothing, and wants to be called again with its state")
)

const (
	maxElicited   = 4   // questions of one answer
	maxFieldName  = 128 // bytes
	maxFieldTitle = 200 // characters
	maxFieldHint  = 300
)

// elicitState is what a call keeps while the person is asked.
type elicitState struct {
	State string              `json:"state,omitempty"` // of the server
	ID    string              `json:"id,omitempty"`    // of the request that it answered with questions
	Asked map[string][]string `json:"asked"`           // names of fields, by the server's ids of its questions
}

// elicit makes the form that asks what a server wants to know, from the result of the request with that id. state is for
// [responses], also with an error: then the server is to be told that the person declined. The error is
// [errSecret], [errNotFlat] or [errNothing].
func elicit(result json.RawMessage, id string) (form actions.Form, state []byte, err error) {
	var r struct {
		State    string `json:"requestState"`
		Requests map[string]struct {
			Method string `json:"method"`
			Params struct {
				Mode    string          `json:"mode"`
				Message string          `json:"message"`
				Schema  json.RawMessage `json:"requestedSchema"`
			} `json:"params"`
		} `json:"inputRequests"`
	}
	if json.Unmarshal(result, &r) != nil || len(r.Requests) == 0 && r.State == "" {
		return form, nil, errNotFlat
	}
	kept, texts := elicitState{State: r.State, ID: id, Asked: map[string][]string{}}, []string(nil)
	for _, key := range slices.Sorted(maps.Keys(r.Requests)) {
		q := r.Requests[key]
		kept.Asked[key] = []string{}
		if q.Method != "elicitation/create" || q.Params.Mode != "" && q.Params.Mode != "form" || len(r.Requests) > maxElicited {
			err = errNotFlat
			continue
		}
		texts = append(texts, strings.TrimSpace(q.Params.Message))
		fields, fault := fieldsOf(q.Params.Schema)
		for _, f := range fields {
			kept.Asked[key] = append(kept.Asked[key], f.Name)
			f.Name = fieldOf(key, f.Name)
			form.Fields = append(form.Fields, f)
		}
		if fault != nil && !errors.Is(err, errSecret) {
			err = fault
		}
	}
	const maxText, maxFields, maxState = 4 << 10, 20, 60 << 10 // what [actions.Ask] takes
	state, _ = json.Marshal(kept)                              // texts always encode
	form.Text = strings.Join(texts, "\n\n")
	if len(r.Requests) == 0 && len(state) <= maxState {
		return form, state, errNothing
	}
	if err == nil && (form.Text == "" || len(form.Text) > maxText || len(form.Fields) > maxFields || len(state) > maxState) {
		err = errNotFlat
	}
	return form, state, err
}

// fieldOf is the name of a field in the form, which may have several questions.
func fieldOf(id, name string) string { return id + "\n" + name }

// responses are what to send with the call when it is made again: the answers, and the server's state. used is
// the id of the request that asked, which the new one must not have.
func responses(answer *actions.Answer) (all sdk.InputResponseMap, state, used string, err error) {
	var kept elicitState
	if err := json.Unmarshal(answer.State, &kept); err != nil {
		return nil, "", "", fmt.Errorf("read what the server asked: %w", err)
	}
	all = sdk.InputResponseMap{}
	for id, names := range kept.Asked {
		switch {
		case answer.Unanswered:
			all[id] = &sdk.ElicitResult{Action: "cancel"}
		case answer.Declined:
			all[id] = &sdk.ElicitResult{Action: "decline"}
		default:
			content := map[string]any{}
			for _, name := range names {
				if value, given := answer.Values[fieldOf(id, name)]; given {
					content[name] = value
				}
			}
			all[id] = &sdk.ElicitResult{Action: "accept", Content: content}
		}
	}
	return all, kept.State, kept.ID, nil
}

// elicited is the schema of one value that a server asks for.
type elicited struct {
	Type        any      `json:"type"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	Format      string   `json:"format"`
	Enum        []any    `json:"enum"`
	EnumNames   []string `json:"enumNames"`
	OneOf       []option `json:"oneOf"`
	AnyOf       []option `json:"anyOf"`
	Minimum     *float64 `json:"minimum"`
	Maximum     *float64 `json:"maximum"`
	MinLength   int      `json:"minLength"`
	MaxLength   *int     `json:"maxLength"`
	Default     any      `json:"default"`
}

// option is one of the values that the person may choose.
type option struct {
	Const any    `json:"const"`
	Title string `json:"title"`
}

// fieldsOf makes the fields of a schema, in its order. The schema has to be flat: texts, numbers, yes or
// no, and choices.
func fieldsOf(raw json.RawMessage) (fields []actions.Field, err error) {
	var schema struct {
		Type       any             `json:"type"`
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if json.Unmarshal(raw, &schema) != nil || schema.Type != "object" {
		return nil, errNotFlat
	}
	properties, err := members(schema.Properties)
	for _, p := range properties {
		f, fault := fieldFrom(p.name, p.value)
		f.Required = slices.Contains(schema.Required, p.name)
		fields = append(fields, f)
		if fault != nil && !errors.Is(err, errSecret) {
			err = fault
		}
	}
	return fields, err
}

type member struct {
	name  string
	value json.RawMessage
}

// members are those of a JSON object, in their order.
func members(object json.RawMessage) (all []member, err error) {
	if len(object) == 0 || string(object) == "null" {
		return nil, nil
	}
	in := json.NewDecoder(bytes.NewReader(object))
	if open, err := in.Token(); err != nil || open != json.Delim('{') {
		return nil, errNotFlat
	}
	for in.More() {
		name, err := in.Token()
		var one member
		if err == nil {
			err = in.Decode(&one.value)
		}
		text, ok := name.(string)
		known := slices.ContainsFunc(all, func(m member) bool { return m.name == text })
		if err != nil || !ok || text == "" || len(text) > maxFieldName || known {
			return nil, errNotFlat
		}
		one.name = text
		all = append(all, one)
	}
	return all, nil
}

func fieldFrom(name string, raw json.RawMessage) (actions.Field, error) {
	var s elicited
	in := json.NewDecoder(bytes.NewReader(raw))
	in.UseNumber()
	if in.Decode(&s) != nil {
		return actions.Field{}, errNotFlat
	}
	f := actions.Field{
		Name:      name,
		Title:     cmp.Or(spelling.OneLine(s.Title, maxFieldTitle), titles.Words(name)),
		Hint:      spelling.OneLine(s.Description, maxFieldHint),
		Min:       s.Minimum,
		Max:       s.Maximum,
		MinLength: s.MinLength,
		Default:   s.Default,
	}
	if s.Format == "password" || secretive(name) || secretive(s.Title) {
		return f, errSecret
	}
	if s.Format != "" {
		f.Hint = strings.TrimSpace(f.Hint + " (" + spelling.OneLine(s.Format, maxFieldTitle) + ")")
	}
	if s.MaxLength != nil {
		f.MaxLength = max(1, *s.MaxLength)
	}
	switch s.Type {
	case "string":
	case "number":
		f.Kind = actions.NumberField
	case "integer":
		f.Kind = actions.IntegerField
	case "boolean":
		f.Kind = actions.YesNoField
	default:
		return f, errNotFlat
	}
	var err error
	f.Choices, err = choicesOf(s)
	if f.Choices != nil {
		f.MinLength, f.MaxLength = 0, 0
	}
	if f.MaxLength > maxTyped {
		f.MaxLength = 0
	}
	if err == nil && !fits(f) {
		err = errNotFlat
	}
	return f, err
}

const maxTyped = 4000 // how many characters a person may type into one field

// fits reports whether people can be asked for the field.
func fits(f actions.Field) (yes bool) {
	defer func() { yes = recover() == nil }() // with a wrong field it panics
	actions.Ask(actions.Form{Text: "?", Fields: []actions.Field{f}}, nil)
	return true
}

// choicesOf are the values that the person may choose; nil: there is no choice.
func choicesOf(s elicited) (all []actions.Choice, err error) {
	options := slices.Concat(s.OneOf, s.AnyOf)
	for i, value := range s.Enum {
		o := option{Const: value}
		if i < len(s.EnumNames) {
			o.Title = s.EnumNames[i]
		}
		options = append(options, o)
	}
	for _, o := range options {
		text, ok := o.Const.(string)
		if !ok || len(options) > maxChoices {
			return nil, errNotFlat
		}
		all = append(all, actions.Choice{Value: text, Title: spelling.OneLine(o.Title, maxFieldTitle)})
	}
	return all, nil
}

const maxChoices = 100 // how many choices a card shows

// secrets are how fields for secrets are called, in letters only; secretWords only count as whole words.
var (
	secrets = []string{
		"password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "motdepasse", "contraseña",
		"secret", "token", "apikey", "accesskey", "privatekey", "credential",
		"cardnumber", "creditcard", "cardno", "securitycode", "kartennummer",
	}
	secretWords = []string{"pwd", "pin", "otp", "cvv", "cvc", "tan", "ssn"}
	wordStart   = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// secretive reports whether a field with that name asks for a secret.
func secretive(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(wordStart.ReplaceAllString(name, "$1 $2")), func(r rune) bool { return !unicode.IsLetter(r) })
	letters := strings.Join(words, "")
	return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(letters, s) }) ||
		slices.ContainsFunc(words, func(w string) bool { return slices.Contains(secretWords, w) })
}
