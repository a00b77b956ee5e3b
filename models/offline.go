package models

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Offline is a [Model] without a language model, for any bot. It answers the phrases in the
// [Tool.Examples] of the request's actions or tools, also several joined by "and", and calls by name:
//
//	create a list Party and add chips and tea to it
//	addItem list=Party item="oat milk"
//
// To anything else it says what it understands, in words for people in a chat. What it says about a call is the call's own result:
// the plan quotes it, or the tools have answered. "It" and "the list" mean the slot's last value,
// also from an earlier message. The zero value is ready to use.
type Offline struct{}

const (
	maxOfflineWords = 200 // of a message to read
	maxOfflineTexts = 10  // messages to search for what "it" is
)

// Name is the Model field of every response.
func (Offline) Name() string { return "offline" }

// Complete writes a plan, calls tools, or answers in plain text if the request has neither actions
// nor tools. It fails only when ctx has ended.
func (o Offline) Complete(ctx context.Context, req *Request) (*Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, networkError(ctx, err)
	}
	answer := &Response{Finish: "stop", Model: o.Name()}
	calls, say := offlineAnswer(req)
	switch {
	case req.Actions != nil:
		answer.Text = writePlan(calls, say)
	case len(calls) > 0:
		answer.Calls, answer.Finish = calls, "tool_calls"
		identify(answer.Calls, req)
	default:
		answer.Text = say
	}
	return answer, nil
}

// offlineAnswer returns what to call, or else what to say.
func offlineAnswer(req *Request) (calls []Call, say string) {
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == "system" {
		results, ok := strings.CutPrefix(req.Messages[n-1].Text, "Results of the last plan:\n")
		if ok {
			return nil, planFailure.ReplaceAllString(results, "I could not do $1: ")
		}
	}
	r := newPhraseReader(req)
	texts := []string{""}
	var results []string // what tools have answered since the last text
	failed := false
	names := map[string]string{} // by call id
	for _, m := range req.Messages {
		switch m.Role {
		case "user":
			texts, results = append(texts, m.Text), nil
		case "assistant":
			for _, c := range m.Calls {
				names[c.ID] = c.Name
			}
		case "tool":
			text := strings.TrimSpace(m.Text)
			if text, failed = strings.CutPrefix(text, "Error: "); failed {
				text = "I could not do " + names[m.CallID] + ": " + text
			} else if text == "" || strings.ContainsAny(text[:1], "{[") { // JSON alone could pass for a plan
				text = names[m.CallID] + ": " + cmp.Or(text, "done")
			}
			if strings.HasSuffix(text, offlineShown) {
				text = ""
			}
			results = append(results, text)
		}
	}
	for _, text := range texts[max(0, len(texts)-maxOfflineTexts):] { // earlier ones tell what "it" is
		calls, say = r.answer(text)
	}
	done := len(results)
	switch {
	case req.OneCallAtMost && done < len(calls) && !failed:
		return calls[done : done+1], ""
	case done > 0:
		return nil, strings.TrimSpace(strings.Join(results, "\n"))
	}
	return calls, say
}

// offlineShown ends the results that the planner says need no words.
const offlineShown = "(The person sees this as a card already.)"

var planFailure = regexp.MustCompile(`(?m)^- (\S+) failed: `)

// writePlan writes a plan that makes the calls and says their results, or only says something.
func writePlan(calls []Call, say string) string {
	type command struct {
		Type     string          `json:"type"`
		Action   string          `json:"action,omitempty"`
		Entities json.RawMessage `json:"entities,omitempty"`
		SaveAs   string          `json:"saveAs,omitempty"`
		Response string          `json:"response,omitempty"`
	}
	var commands []command
	var results []string
	for i, c := range calls {
		name := "R" + strconv.Itoa(i+1)
		results = append(results, "$"+name)
		entities := strings.ReplaceAll(c.Arguments, "$", "$$") // in a plan that saves, $$ is a dollar sign
		commands = append(commands, command{Type: "DO", Action: c.Name, Entities: json.RawMessage(entities), SaveAs: name})
	}
	commands = append(commands, command{Type: "SAY", Response: cmp.Or(strings.Join(results, "\n\n"), say)})
	raw, _ := json.Marshal(commands) // cannot fail: texts, and JSON that was written here
	return `{"type":"plan","commands":` + string(raw) + `}`
}

// phraseReader matches what a person wrote with the actions' examples.
type phraseReader struct {
	actions []*offlineAction
	phrases []phrase          // the longest first
	verbs   map[string]bool   // first words of the examples
	last    map[string]string // each slot's last value
	lacking string            // a sentence saying what the understood call still needs
}

type offlineAction struct {
	Tool
	schema jsonschema.Schema
}

// phrase is an example as words, without fillers.
type phrase struct {
	*offlineAction
	words []string
}

func newPhraseReader(req *Request) *phraseReader {
	r := &phraseReader{verbs: map[string]bool{}, last: map[string]string{}}
	offered := req.Actions
	if offered == nil && req.Choice != "none" {
		offered = req.Tools
	}
	for _, t := range offered {
		a := &offlineAction{Tool: t}
		_ = json.Unmarshal(t.Schema, &a.schema) // without a schema, any value is fine
		r.actions = append(r.actions, a)
		for _, example := range t.Examples {
			words := slices.DeleteFunc(strings.Fields(strings.Trim(example, ".?!")), isFiller)
			if len(words) > 0 {
				r.verbs[strings.ToLower(words[0])] = true
				r.phrases = append(r.phrases, phrase{a, words})
			}
		}
	}
	slices.SortStableFunc(r.phrases, func(a, b phrase) int { return len(b.words) - len(a.words) })
	return r
}

func (r *phraseReader) answer(text string) (calls []Call, say string) {
	r.lacking = ""
	calls = r.read(strings.TrimSpace(text))
	switch small := strings.Trim(strings.ToLower(text), " !?.,"); {
	case len(calls) > 0:
		return calls, ""
	case slices.Contains([]string{"", "hi", "hello", "hey", "help", "what can you do"}, small):
		return nil, r.help()
	default:
		return nil, cmp.Or(r.lacking, "I did not understand that.") + " " + r.help()
	}
}

// help says that there is no language model, and what is understood without one. People in Teams
// read it, so it names no setting.
func (r *phraseReader) help() string {
	text := "I have no language model, so I understand fixed phrases only."
	var names, phrases []string
	for _, a := range r.actions {
		names = append(names, a.Name)
		if len(a.Examples) > 0 {
			phrases = append(phrases, "\n- "+strings.ReplaceAll(a.Examples[0], "...}", "}"))
		}
	}
	if len(phrases) > 0 {
		text += " Say, with your own words in place of {…}:\n" + strings.Join(phrases, "")
	}
	if len(names) > 0 {
		text += "\n\nYou can call any action by its name, with name=value after it: " + strings.Join(names, ", ") + "."
	}
	return text
}

var (
	plainText  = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "«", `"`, "»", `"`, "’", "'", "\n", " ; ", "hat's ", "hat is ", "here's ", "here is ")
	quotedText = regexp.MustCompile(`"[^"]*"`)
	// These hide the words in quotes while phrases are matched.
	hide   = strings.NewReplacer(" ", "\ue000", ",", "\ue001", `"`, "")
	unhide = strings.NewReplacer("\ue000", " ", "\ue001", ",")
)

// read reads a text of one or more phrases. It returns nil if it does not understand a part.
func (r *phraseReader) read(text string) []Call {
	text = plainText.Replace(text)
	for _, a := range r.actions {
		if rest, ok := strings.CutPrefix(text+" ", a.Name+" "); ok {
			return r.readCall(a, strings.TrimSpace(rest))
		}
	}
	words := strings.Fields(quotedText.ReplaceAllStringFunc(text, hide.Replace))
	if len(words) > maxOfflineWords {
		return nil
	}
	var calls []Call
	start := 0
	for i := 1; i <= len(words); i++ {
		if i < len(words) && !(r.verbs[strings.ToLower(words[i])] && isJoint(words[i-1])) {
			continue
		}
		more := r.readPhrase(words[start:i])
		if more == nil && start == 0 && r.lacking == "" {
			return r.readPhrase(words) // what looked like a new phrase belongs to this one
		}
		if more == nil {
			return nil
		}
		calls, start = append(calls, more...), i
	}
	return calls
}

// isJoint reports whether a new phrase may start after the word.
func isJoint(word string) bool {
	return slices.Contains([]string{"and", "then", "also", "please"}, strings.ToLower(word)) || word != bare(word)
}

// bare is the word without trailing punctuation.
func bare(word string) string { return strings.TrimRight(word, ".,;:!?") }

var callValue = regexp.MustCompile(`^([A-Za-z_]\w*)=(?:"([^"]*)"|([^\s"]+))(?:\s+|$)`)

// readCall reads the name=value pairs of a call.
func (r *phraseReader) readCall(a *offlineAction, text string) []Call {
	values := map[string]any{}
	for text != "" {
		m := callValue.FindStringSubmatch(text)
		if m == nil {
			return nil
		}
		property, said := a.schema.Properties[m[1]], m[2]+m[3]
		values[m[1]] = fit(property, said)
		if values[m[1]] == nil {
			values[m[1]] = said // plan validation will say what is wrong
		}
		if isKind(property, "array") {
			values[m[1]] = []any{said}
		}
		text = text[len(m[0]):]
	}
	return r.complete(a, values)
}

// complete fills missing parameters with the last value of the same name.
func (r *phraseReader) complete(a *offlineAction, values map[string]any) []Call {
	for _, name := range a.schema.Required {
		if values[name] == nil && r.last[name] == "" {
			r.lacking = fmt.Sprintf("I understood %s, but not its %s.", a.Name, name)
			return nil
		}
		if values[name] == nil {
			values[name] = r.last[name]
		}
	}
	arguments, _ := json.Marshal(values) // came from JSON
	return []Call{{Name: a.Name, Arguments: string(arguments)}}
}

var (
	ending      = regexp.MustCompile(`(?i)(?:[\s,.!?;]+(?:and|then|also|please|thanks|for me)|[\s,.!?;])+$`)
	enumeration = regexp.MustCompile(`(?i)\s*,\s+(?:and\s+)?|\s+and\s+|\s+&\s+`)
)

// readPhrase returns the calls of the longest example that matches: one, or one per value of a slot
// that takes several.
func (r *phraseReader) readPhrase(words []string) (calls []Call) {
	words = strings.Fields(ending.ReplaceAllString(strings.Join(words, " "), ""))
	values := map[string][]any{}
	i := slices.IndexFunc(r.phrases, func(p phrase) bool {
		clear(values)
		return r.match(p, words, values)
	})
	if i < 0 {
		return nil
	}
	most := 1
	for slot, several := range values {
		r.last[slot], _ = several[len(several)-1].(string)
		most = max(most, len(several))
	}
	for n := range most {
		entities := map[string]any{}
		for slot, several := range values {
			entities[slot] = several[min(n, len(several)-1)]
		}
		calls = append(calls, r.complete(r.phrases[i].offlineAction, entities)...)
	}
	return calls
}

// match finds each slot's values. A slot takes as few words as possible.
func (r *phraseReader) match(p phrase, words []string, values map[string][]any) bool {
	if len(p.words) == 0 {
		return len(words) == 0
	}
	rest := phrase{p.offlineAction, p.words[1:]}
	slot, isSlot := strings.CutPrefix(p.words[0], "{")
	if !isSlot {
		for len(words) > 0 && isFiller(words[0]) {
			words = words[1:]
		}
		return len(words) > 0 && strings.EqualFold(bare(words[0]), p.words[0]) && r.match(rest, words[1:], values)
	}
	slot, several := strings.CutSuffix(strings.TrimSuffix(slot, "}"), "...")
	for n := 1; n <= len(words); n++ {
		if r.match(rest, words[n:], values) {
			if values[slot] = r.valuesOf(p.schema.Properties[slot], slot, strings.Join(words[:n], " "), several); values[slot] != nil {
				return true
			}
		}
	}
	return false
}

// valuesOf reads a slot's values. It returns nil if the words cannot be such a value.
func (r *phraseReader) valuesOf(property *jsonschema.Schema, slot, said string, several bool) (values []any) {
	array := isKind(property, "array")
	if array {
		property = property.Items
	}
	parts := []string{said}
	if array || several {
		parts = enumeration.Split(said, -1)
	}
	for _, part := range parts {
		value := fit(property, r.valueOf(slot, strings.Fields(bare(part))))
		if value == nil {
			return nil
		}
		values = append(values, value)
	}
	if array {
		return []any{values}
	}
	return values
}

// valueOf is the value said for a slot, without an article and the slot's own name: "the grocery
// list" and "a list called grocery" mean the {list} grocery; "it" and "the list" mean the last one.
func (r *phraseReader) valueOf(slot string, words []string) string {
	for len(words) > 0 && slices.Contains(articles, strings.ToLower(words[0])) {
		words = words[1:]
	}
	if len(words) == 1 && slices.Contains([]string{"it", "there", "them", slot}, strings.ToLower(words[0])) {
		return r.last[slot]
	}
	for len(words) > 1 && slices.Contains([]string{slot, "called", "named"}, strings.ToLower(words[0])) {
		words = words[1:]
	}
	if last := len(words) - 1; last > 0 && strings.EqualFold(words[last], slot) {
		words = words[:last]
	}
	return strings.TrimSpace(unhide.Replace(strings.Join(words, " ")))
}

// Words that are no part of a value, and words that may be missing from an example or a phrase.
var (
	articles = []string{"the", "a", "an", "my", "our", "your", "some", "this", "that"}
	fillers  = slices.Concat(articles, []string{"me", "us", "all", "please"})
)

func isFiller(word string) bool { return slices.Contains(fillers, strings.ToLower(word)) }

// isKind reports whether a property may have the type.
func isKind(property *jsonschema.Schema, kind string) bool {
	return property != nil && (property.Type == kind || slices.Contains(property.Types, kind))
}

// fit converts text to a value of the property, or returns nil if it cannot be one.
func fit(property *jsonschema.Schema, text string) any {
	var number json.Number
	switch {
	case text == "":
		return nil
	case isKind(property, "number") || isKind(property, "integer"):
		if json.Unmarshal([]byte(text), &number) != nil {
			return nil
		}
		return number
	case property == nil || property.Enum == nil:
		return text
	}
	for _, option := range property.Enum {
		if strings.EqualFold(fmt.Sprint(option), text) {
			return option
		}
	}
	return nil
}
