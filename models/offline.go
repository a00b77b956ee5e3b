package models

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// Offline is a [Model] without a model: it reads the last user message by fixed
// rules for the list actions of the default bot, and writes its plan as text like
// any other model. It says what it is whenever it does not understand. An action
// that the system messages do not name is never planned; any action that they
// list can be called by its name: rollDice sides=6. The zero value is ready.
type Offline struct{}

// OfflineName is the Model of every response of [Offline].
const OfflineName = "offline"

// maxOfflineText is the longest message that the rules are tried on, in bytes.
const maxOfflineText = 4 << 10

// Complete writes a plan. It fails only when ctx has ended.
func (Offline) Complete(ctx context.Context, req *Request) (*Response, error) {
	switch err := ctx.Err(); err {
	case nil:
	case context.Canceled:
		return nil, fmt.Errorf("complete with model %s: %w", OfflineName, err)
	default:
		return nil, &Error{Kind: Timeout, Err: err}
	}
	return &Response{Text: encodePlan(offlineAnswer(req)), Finish: FinishStop, Model: OfflineName}, nil
}

// offlineAnswer decides between the few things that can be answered.
func offlineAnswer(req *Request) []planCommand {
	known := knownActions{req}
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == System {
		if results, ok := strings.CutPrefix(req.Messages[n-1].Text, "Results of the last plan:"); ok {
			return sayOnly(tellResults(results, known))
		}
	}
	texts := userTexts(req)
	if len(texts) == 0 {
		return sayOnly("Hello! " + aboutOffline(known))
	}
	text := texts[0]
	if call, ok := directCall(text, known); ok {
		return call
	}
	if small := smallTalk(text, known); small != "" {
		return sayOnly(small)
	}
	r := reader{earlier: func() string { return listSpokenOf(texts[1:]) }}
	r.read(text)
	switch {
	case r.ask != "":
		return sayOnly(r.ask)
	case len(r.deeds) == 0:
		return sayOnly("I did not understand that. " + aboutOffline(known))
	}
	for _, d := range r.deeds {
		if !known.has(d.action) {
			return sayOnly("That needs the action " + d.action + ", which this bot does not have. " + aboutOffline(known))
		}
	}
	return planOf(r.deeds)
}

// userTexts are what people wrote, the last first, without blanks.
func userTexts(req *Request) []string {
	var out []string
	for i := len(req.Messages) - 1; i >= 0; i-- {
		m := req.Messages[i]
		text := strings.TrimSpace(m.Text)
		if m.Role == User && text != "" {
			out = append(out, text)
		}
	}
	return out
}

// maxEarlier is how many messages back "it" may reach.
const maxEarlier = 10

// listSpokenOf is the list of the first of texts that names one.
func listSpokenOf(texts []string) string {
	for _, text := range texts[:min(len(texts), maxEarlier)] {
		r := reader{}
		r.read(text)
		if r.list != "" {
			return r.list
		}
	}
	return ""
}

// planCommand is one command in the format that the planner prompt asks for.
type planCommand struct {
	Type     string         `json:"type"`
	Action   string         `json:"action,omitempty"`
	Entities map[string]any `json:"entities,omitempty"`
	SaveAs   string         `json:"saveAs,omitempty"`
	Response string         `json:"response,omitempty"`
}

func sayOnly(text string) []planCommand { return []planCommand{{Type: "SAY", Response: text}} }

func encodePlan(commands []planCommand) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Type     string        `json:"type"`
		Commands []planCommand `json:"commands"`
	}{"plan", commands})
	if err != nil { // strings and values that came from JSON always go back to it
		panic(fmt.Sprintf("write the plan of the offline model: %v", err))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// escapeDollars writes text for a plan that saves something, where $NAME is a
// variable and $$ a dollar.
func escapeDollars(text string) string { return strings.ReplaceAll(text, "$", "$$") }

func escapeValue(v any) any {
	switch v := v.(type) {
	case string:
		return escapeDollars(v)
	case []string:
		out := make([]string, len(v))
		for i := range v {
			out[i] = escapeDollars(v[i])
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = escapeValue(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			out[key] = escapeValue(value)
		}
		return out
	default:
		return v
	}
}
