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
// To anything else it says what it understands. What it says about a call is the call's own result:
// the plan quotes it, or the tools have answered. "It" and "the list" mean the slot's last value,
// also from an earlier message. The zero value is ready to use.
type Offline struct{}

const (
	maxOfflineText  = 4 << 10 // bytes of a message to read
	maxOfflineWords = 200     // in a phrase
	maxOfflineTexts = 10      // messages to search for what "it" is
	maxOfflineCalls = 25      // in one plan; nobody means more at once
	maxOfflineHelp  = 20      // actions named in the help: a screenful
)

// Name is the Model field of every response.
func (Offline) Name() string { return "offline" }

// Complete writes a plan, calls tools, or answers in plain text if the request has neither actions
// nor tools. It fails only when ctx has ended.
func (o Offline) Complete(ctx context.Context, req *Request) (*Response, error) {
	switch err := ctx.Err(); err {
	case nil:
	case context.Canceled:
		return nil, fmt.Errorf("complete with model %s: %w", o.Name(), err)
	default:
		return nil, &Error{Kind: Timeout, Err: err}
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
	for _, m := range req.Messages {
		if m.Role == "user" {
			texts = append(texts, m.Text)
		}
	}
	for _, text := range texts[max(0, len(texts)-maxOfflineTexts):] { // earlier ones tell what "it" is
		calls, say = r.answer(text)
	}
	results, failed := toolResults(req)
	if done := len(results); req.OneCallAtMost && done < len(calls) && !failed {
		return calls[done : done+1], ""
	}
	if len(results) > 0 {
		return nil, strings.Join(results, "\n")
	}
	return calls, say
}

var planFailure = regexp.MustCompile(`(?m)^- (\S+) failed: `)

// toolResults returns what tools answered since the person's last text, one line each. failed is
// about the last one.
func toolResults(req *Request) (lines []string, failed bool) {
	names := map[string]string{} // by call id
	for _, m := range req.Messages {
		if m.Role == "user" {
			lines = nil
		}
		for _, c := range m.Calls {
			names[c.ID] = c.Name
		}
		if m.Role != "tool" {
			continue
		}
		text, name := strings.TrimSpace(m.Text), names[m.CallID]
		if text, failed = strings.CutPrefix(text, "Error: "); failed {
			text = "I could not do " + name + ": " + text
		} else if text == "" || text == "done" {
			text = name + " is done."
		} else if text[0] == '{' || text[0] == '[' { // alone it could pass for a plan
			text = name + ": " + text
		}
		lines = append(lines, text)
	}
	return lines, failed
}

// writePlan writes a plan that makes the calls and says their results, or only says something.
func writePlan(calls []Call, say string) string {
	var commands, results []string
	for i, c := range calls {
		name := "R" + strconv.Itoa(i+1)
		results = append(results, "$"+name)
		entities := strings.ReplaceAll(c.Arguments, "$", "$$") // in a plan that saves, $$ is a dollar sign
		commands = append(commands, `{"type":"DO","action":"`+c.Name+`","entities":`+entities+`,"saveAs":"`+name+`"}`)
	}
	if len(results) > 0 {
		say = strings.Join(results, "\n\n")
	}
	commands = append(commands, `{"type":"SAY","response":`+toJSON(say)+`}`)
	return `{"type":"plan","commands":[` + strings.Join(commands, ",") + `]}`
}

// toJSON encodes texts and values that came from JSON.
func toJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("write the answer of the offline model: %v", err))
	}
	return string(raw)
}

// phraseReader matches what a person wrote with the actions' examples.
type phraseReader struct {
	actions []*offlineAction
	verbs   map[string]bool   // first words of the examples
	last    map[string]string // each slot's last value
	quotes  []string          // quoted texts in the current text
	lacking string            // a sentence saying what the understood call still needs
}

type offlineAction struct {
	Tool
	schema  jsonschema.Schema
	phrases [][]string // the examples as words, without fillers
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
		for _, example := range t.Examples {
			phrase := slices.DeleteFunc(strings.Fields(strings.Trim(example, ".?!")), isFiller)
			if len(phrase) > 0 {
				r.verbs[strings.ToLower(phrase[0])] = true
				a.phrases = append(a.phrases, phrase)
			}
		}
		r.actions = append(r.actions, a)
	}
	return r
}

func (r *phraseReader) answer(text string) (calls []Call, say string) {
	r.lacking = ""
	if len(text) <= maxOfflineText {
		calls = r.read(strings.TrimSpace(text))
	}
	switch small := strings.Trim(strings.ToLower(text), " !?.,"); {
	case len(calls) > maxOfflineCalls:
		return nil, "That is a lot at once. Please send it in smaller parts."
	case len(calls) > 0:
		return calls, ""
	case slices.Contains([]string{"", "hi", "hello", "hey", "help", "what can you do"}, small):
		return nil, r.help()
	default:
		return nil, cmp.Or(r.lacking, "I did not understand that.") + " " + r.help()
	}
}

// help says that this is the offline model, what it understands, and how to get a real one.
func (r *phraseReader) help() string {
	text := "I am running on the offline model: it knows fixed phrases, and there is no language model behind it."
	var names, phrases []string
	for _, a := range r.actions[:min(len(r.actions), maxOfflineHelp)] {
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
	return text + "\n\nTo talk to me freely, set OPENAI_API_KEY (OpenAI), or OPENAI_BASE_URL and OPENAI_MODEL (Ollama, " +
		"llama.cpp, vLLM), or AZURE_OPENAI_ENDPOINT, AZURE_OPENAI_API_KEY and AZURE_OPENAI_DEPLOYMENT, and start me again."
}

var (
	plainText  = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "«", `"`, "»", `"`, "’", "'", "\n", " ; ", "hat's ", "hat is ", "here's ", "here is ")
	quotedText = regexp.MustCompile(`"[^"]*"`)
)

// firstQuote stands in for the first quoted text while reading, so that nothing inside is taken for
// a word. The following characters stand in for the next ones.
const firstQuote = '\ue000'

// read reads a text of one or more phrases. It returns nil if it does not understand a part.
func (r *phraseReader) read(text string) []Call {
	for _, a := range r.actions {
		if rest, ok := strings.CutPrefix(text+" ", a.Name+" "); ok {
			return r.readCall(a, strings.TrimSpace(rest))
		}
	}
	r.quotes = nil
	text = quotedText.ReplaceAllStringFunc(plainText.Replace(text), func(quoted string) string {
		r.quotes = append(r.quotes, strings.Trim(quoted, `"`))
		return string(rune(firstQuote + len(r.quotes) - 1))
	})
	words := strings.Fields(text)
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
	return []Call{{Name: a.Name, Arguments: toJSON(values)}}
}

var (
	politeStart = regexp.MustCompile(`(?i)^(?:(?:please|can you|could you|would you|i want to|i need to|we need to|ok|hi|hey|hello)[\s,]+)+`)
	politeEnd   = regexp.MustCompile(`(?i)(?:[\s,.!?;]+(?:and|then|also|please|thanks|for me)|[\s,.!?;])+$`)
)

// readPhrase returns the calls of the longest example that matches.
func (r *phraseReader) readPhrase(words []string) []Call {
	if len(words) > maxOfflineWords {
		return nil
	}
	text := politeEnd.ReplaceAllString(politeStart.ReplaceAllString(strings.Join(words, " "), ""), "")
	words = strings.Fields(text)
	var best *phraseMatch
	for _, a := range r.actions {
		for _, phrase := range a.phrases {
			m := &phraseMatch{reader: r, action: a, length: len(phrase), values: map[string][]any{}}
			if (best == nil || m.length > best.length) && m.match(phrase, words) {
				best = m
			}
		}
	}
	if best == nil {
		return nil
	}
	return best.calls()
}

// phraseMatch matches an example with what the person said.
type phraseMatch struct {
	reader *phraseReader
	action *offlineAction
	length int              // of the example, in words
	values map[string][]any // by slot
}

// match gives each slot as few words as possible.
func (m *phraseMatch) match(phrase, words []string) bool {
	if len(phrase) == 0 {
		return len(words) == 0
	}
	slot, isSlot := strings.CutPrefix(phrase[0], "{")
	if !isSlot {
		for len(words) > 0 && isFiller(words[0]) {
			words = words[1:]
		}
		return len(words) > 0 && strings.EqualFold(bare(words[0]), phrase[0]) && m.match(phrase[1:], words[1:])
	}
	for n := 1; n <= len(words); n++ {
		if m.match(phrase[1:], words[n:]) && m.take(strings.TrimSuffix(slot, "}"), words[:n]) {
			return true
		}
	}
	return false
}

var enumeration = regexp.MustCompile(`(?i)\s*,\s+(?:and\s+)?|\s+and\s+|\s+&\s+`)

// take reads a slot's values. It returns false if the words cannot be such a value.
func (m *phraseMatch) take(slot string, words []string) bool {
	slot, several := strings.CutSuffix(slot, "...")
	said := strings.Join(words, " ")
	property, parts := m.action.schema.Properties[slot], []string{said}
	array := isKind(property, "array")
	if array {
		property = property.Items
	}
	if array || several {
		parts = enumeration.Split(said, -1)
	}
	var values []any
	for _, part := range parts {
		value := fit(property, m.reader.valueOf(slot, strings.Fields(bare(part))))
		if value == nil {
			return false
		}
		values = append(values, value)
	}
	if array {
		values = []any{values}
	}
	m.values[slot] = values
	return true
}

// calls returns one call, or one per value if the parameter takes one at a time.
func (m *phraseMatch) calls() (calls []Call) {
	most := 1
	for slot, values := range m.values {
		m.reader.last[slot], _ = values[len(values)-1].(string)
		most = max(most, len(values))
	}
	for i := range most {
		entities := map[string]any{}
		for slot, values := range m.values {
			entities[slot] = values[min(i, len(values)-1)]
		}
		calls = append(calls, m.reader.complete(m.action, entities)...)
	}
	return calls
}

// valueOf is the value said for a slot, without an article and the slot's own name: "the grocery
// list" and "a list called grocery" mean the {list} grocery; "it" and "the list" mean the last one.
func (r *phraseReader) valueOf(slot string, words []string) string {
	for len(words) > 1 && isArticle(words[0]) {
		words = words[1:]
	}
	if len(words) == 1 && slices.Contains([]string{"it", "that", "this", "there", "them", slot}, strings.ToLower(words[0])) {
		return r.last[slot]
	}
	if len(words) == 1 && isArticle(words[0]) {
		return ""
	}
	for len(words) > 1 && slices.Contains([]string{slot, "called", "named"}, strings.ToLower(words[0])) {
		words = words[1:]
	}
	if last := len(words) - 1; last > 0 && strings.EqualFold(words[last], slot) {
		words = words[:last]
	}
	said := strings.Join(words, " ")
	for i, quoted := range r.quotes {
		said = strings.ReplaceAll(said, string(rune(firstQuote+i)), quoted)
	}
	return strings.TrimSpace(said)
}

// isArticle reports whether a word is not part of a value.
func isArticle(word string) bool {
	return slices.Contains([]string{"the", "a", "an", "my", "our", "your", "some", "this", "that"}, strings.ToLower(word))
}

// isFiller reports whether a word may be missing from an example or a phrase.
func isFiller(word string) bool {
	return isArticle(word) || slices.Contains([]string{"me", "us", "all", "please"}, strings.ToLower(word))
}

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
