package models

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Offline is a [Model] without a model: it reads the last user message by fixed
// rules for the list actions of the default bot, and writes its plan as text like
// any other model. In a request with tools it calls them instead, and says what
// they answered. It says what it is whenever it does not understand, in plain text
// where no system message asks for a plan. An action
// that neither system messages nor tools name is never planned; any action that
// they list can be called by its name: rollDice sides=6. The zero value is ready.
type Offline struct{}

// OfflineName is the Model of every response of [Offline].
const OfflineName = "offline"

// maxOfflineText is the longest message that the rules are tried on, in bytes.
const maxOfflineText = 4 << 10

// Complete writes a plan, or calls. It fails only when ctx has ended.
func (Offline) Complete(ctx context.Context, req *Request) (*Response, error) {
	switch err := ctx.Err(); err {
	case nil:
	case context.Canceled:
		return nil, fmt.Errorf("complete with model %s: %w", OfflineName, err)
	default:
		return nil, &Error{Kind: Timeout, Err: err}
	}
	answer := &Response{Finish: FinishStop, Model: OfflineName}
	deeds, say := offlineAnswer(req)
	switch {
	case !usesTools(req) && len(deeds) > 0:
		answer.Text = encodePlan(planOf(deeds))
	case len(deeds) > 0:
		answer.Calls, answer.Finish = callsOf(deeds, req), FinishTools
	case usesTools(req) || !asksForPlan(req):
		answer.Text = say
	default:
		answer.Text = encodePlan(sayOnly(say))
	}
	return answer, nil
}

// asksForPlan reports whether req is a planner's, which explains in a system
// message what a plan is; that of an action which is a prompt does not.
func asksForPlan(req *Request) bool {
	return slices.ContainsFunc(req.Messages, func(m Message) bool { return m.Role == System })
}

// offlineAnswer decides between the few things that can be answered: with deeds,
// or without any by saying something.
func offlineAnswer(req *Request) (deeds []deed, say string) {
	known := knownActions{req}
	if results, ok := lastResults(req); ok {
		return nil, tellResults(results, known)
	}
	texts := userTexts(req)
	if len(texts) == 0 {
		return nil, "Hello! " + aboutOffline(known)
	}
	deeds, say = read(texts, known, clock(req))
	told := answersSince(req)
	if len(told) == 0 {
		return deeds, say
	}
	if next := len(told); req.OneCallAtMost && next < len(deeds) && !told[next-1].failed() {
		return deeds[next : next+1], ""
	}
	return nil, tellAnswers(told)
}

// lastResults is what the prompt of the other planners ends in when it is about a
// plan that has run.
func lastResults(req *Request) (string, bool) {
	n := len(req.Messages)
	if n == 0 || req.Messages[n-1].Role != System {
		return "", false
	}
	return strings.CutPrefix(req.Messages[n-1].Text, "Results of the last plan:")
}

// read reads the first of texts, with those before it for what it leaves out.
func read(texts []string, known knownActions, now time.Time) (deeds []deed, say string) {
	text := texts[0]
	if d, ok := directCall(text, known); ok {
		return []deed{d}, ""
	}
	if small := smallTalk(text, known); small != "" {
		return nil, small
	}
	r := reader{earlier: func() string { return listSpokenOf(texts[1:]) }}
	if r.deeds, r.ask = readReminder(text, now); len(r.deeds) == 0 && r.ask == "" {
		r.read(text)
	}
	switch {
	case r.ask != "":
		return nil, r.ask
	case len(r.deeds) == 0:
		return nil, "I did not understand that. " + aboutOffline(known)
	}
	for _, d := range r.deeds {
		if !known.has(d.action) {
			return nil, "That needs the action " + d.action + ", which this bot does not have. " + aboutOffline(known)
		}
	}
	return r.deeds, ""
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
