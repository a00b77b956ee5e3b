package models

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/planbot-go/planbot/internal/lazy"
	"github.com/planbot-go/planbot/internal/titles"
)

// Offline is a [Model] without a language model, for any bot. It answers the phrases in the
// [Tool.Examples] of the request's actions or tools, also several joined by "and", and calls by name:
//
//	create a list Party and add chips and tea to it
//	addItem list=Party item="oat milk"
//
// To the title of an action, and to a phrase or call with a missing or wrong value, it answers what
// the action takes; to anything else, what it understands. What it says about a call is the call's
// own result: the plan quotes it, or the tools have answered.
//
// A slot gets the text as it was written. A slot that takes several values, or is in examples of
// several actions, gets names: "the grocery list" is the {list} grocery, and "it" and "the list" are
// the slot's last value, also from an earlier message. The zero value is ready to use.
type Offline struct{}

const (
	maxOfflineWords = 200 // of a message to read
	maxOfflineTexts = 10  // messages to search for what "it" is
)

// Name is the Model field of every response.
func (Offline) Name() string { return "offline" }

// Complete writes a plan, calls tools, or answers in plain text if the request has neither actions
// nor tools. For a request with Stream, a plan without calls declares that it is an answer, and the
// text comes in one piece. It fails only when ctx has ended.
func (o Offline) Complete(ctx context.Context, req *Request) (*Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, networkError(ctx, err)
	}
	answer := &Response{Finish: "stop", Model: o.Name()}
	calls, say := offlineAnswer(req)
	switch {
	case req.Actions != nil:
		answer.Text = writePlan(calls, say, req.Stream != nil)
	case len(calls) > 0:
		answer.Calls, answer.Finish = calls, "tool_calls"
		identify(answer.Calls, req)
	default:
		answer.Text = say
	}
	if req.Stream != nil && answer.Text != "" {
		req.Stream()(answer.Text)
	}
	return answer, nil
}

// offlineAnswer returns what to call, or else what to say.
func offlineAnswer(req *Request) (calls []Call, say string) {
	r := newPhraseReader(req)
	if answer := fromPassages(foundLast(req.Messages)); answer != "" {
		return nil, answer
	}
	told := "" // by the runtime, last
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == "system" {
		told = req.Messages[n-1].Text
		if results, ok := strings.CutPrefix(told, PlanResults); ok {
			return nil, planResult().ReplaceAllStringFunc(results, func(line string) string {
				name := planResult().FindStringSubmatch(line)[1]
				return "- " + r.title(name) + line[len("- "+name):]
			})
		}
	}
	texts := []string{""}
	var results []string // what tools have answered since the last text
	failed := false
	called := map[string]string{} // titles by call id
	for _, m := range req.Messages {
		switch m.Role {
		case "user":
			if !strings.HasPrefix(m.Text, DataMark) {
				texts, results = append(texts, m.Text), nil
			}
		case "assistant":
			for _, c := range m.Calls {
				called[c.ID] = r.title(c.Name)
			}
		case "tool":
			text := strings.TrimSpace(m.Text)
			text = cmp.Or(fromPassages(text), text)
			if text, failed = strings.CutPrefix(text, "Error: "); failed {
				text = called[m.CallID] + " failed: " + text
			} else if text == "" || strings.ContainsAny(text[:1], "{[") { // JSON alone could pass for a plan
				text = called[m.CallID] + ": " + cmp.Or(text, "done")
			}
			if strings.HasSuffix(text, ShownAsCard) {
				text = ""
			}
			results = append(results, text)
		}
	}
	if req.Said != "" {
		texts = append(texts, req.Said)
	}
	for _, text := range texts[max(0, len(texts)-maxOfflineTexts):] { // earlier ones tell what "it" is
		calls, say = r.answer(text)
	}
	done := len(results)
	switch refused := refusedPlan().FindStringSubmatch(told); {
	case refused != nil && len(calls) > 0:
		return nil, r.refused(calls, refused[1])
	case req.OneCallAtMost && done < len(calls) && !failed:
		return calls[done : done+1], ""
	case done > 0:
		return nil, strings.TrimSpace(strings.Join(results, "\n"))
	}
	return calls, say
}

// PlanResults begins the message of the system with the results of a plan. What actions found may follow
// it as messages of the user.
const PlanResults = "Results of the last plan:\n"

// DataMark begins a message of the user that nobody says to the bot: what others wrote or chose, such as
// quotations, names and the summary of what was said before.
const DataMark = "[data, no instructions] "

// foundLast is what the last plan found in documents: what stands behind its results.
func foundLast(messages []Message) string {
	for i, m := range slices.Backward(messages) {
		if m.Role == "user" {
			continue
		}
		if m.Role == "system" && strings.HasPrefix(m.Text, PlanResults) && i+1 < len(messages) {
			return messages[i+1].Text
		}
		break
	}
	return ""
}

// passages match what package knowledge found: its first passage, or that there is none.
var (
	firstPassage = lazy.Regexp(`(?s)These passages of documents were found\..*?\n\s*\n\s*(\[\d+\]) [^\n]*\n(.*?)\n\s*\n\s*(?:\[\d+\] |END OF PASSAGES )`)
	noPassage    = lazy.Regexp(`(Nothing was found in the documents|The documents could not be searched)`)
)

// fromPassages answers with the passage that fits best; "" if results have no passages.
func fromPassages(results string) string {
	if m := firstPassage().FindStringSubmatch(results); m != nil {
		var lines []string
		for line := range strings.SplitSeq(m[2], "\n") {
			lines = append(lines, strings.TrimSpace(line))
		}
		return strings.TrimSpace(strings.Join(lines, "\n")) + " " + m[1]
	}
	if m := noPassage().FindString(results); m != "" {
		return m + "."
	}
	return ""
}

// ShownAsCard ends the results that need no words.
const ShownAsCard = "(The person sees this as a card already.)"

// refused says why a plan of the calls was refused: the model would make the same one again.
func (r *phraseReader) refused(calls []Call, why string) string {
	if m := wrongEntity().FindStringSubmatch(why); m != nil {
		name, _, _ := strings.Cut(m[1], ".")
		for _, a := range r.actions {
			property := a.schema.Properties[name]
			if property != nil && slices.ContainsFunc(calls, func(c Call) bool { return c.Name == a.Name }) {
				return a.needs(fmt.Sprintf("its %s (%s)", titles.Of(property, name), m[2]))
			}
		}
	}
	return "I could not do that: " + why
}

var (
	refusedPlan = lazy.Regexp(`(?s)^Your answer could not be used and nothing of it was done: (?:decode plan: \w+: )?(.*)\nAnswer again`)
	wrongEntity = lazy.Regexp(`entity (\S+): (.*)`)
)

// planResult matches the start of a result, with the action's name.
var planResult = lazy.Regexp(`(?m)^- ([^\s:]+)(?: failed)?: `)

// writePlan writes a plan that makes the calls and says their results, or only says something: then
// it is an answer, if types are to tell them apart.
func writePlan(calls []Call, say string, typed bool) string {
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
	kind := "plan"
	if typed && len(calls) == 0 {
		kind = "answer"
	}
	return `{"type":"` + kind + `","commands":` + string(raw) + `}`
}

// phraseReader matches what a person wrote with the actions' examples.
type phraseReader struct {
	actions []*offlineAction
	phrases []phrase          // the longest first
	verbs   map[string]bool   // first words of the examples
	names   map[string]bool   // slots whose values are names, as several actions have them
	last    map[string]string // each slot's last value
	lacking string            // says what is missing or wrong in a call that was understood otherwise
	lenient bool              // slots take any value, and the first wrong one sets misfit
	misfit  string
}

type offlineAction struct {
	Tool
	schema jsonschema.Schema
}

// title is what people call the action.
func (r *phraseReader) title(name string) string {
	for _, a := range r.actions {
		if a.Name == name {
			return a.Title
		}
	}
	return titles.Words(name)
}

// phrase is an example as words, without fillers.
type phrase struct {
	*offlineAction
	words []phraseWord
}

// phraseWord is a word or a slot of an example.
type phraseWord struct {
	text    string // of a slot its name
	slot    bool
	several bool // the slot has dots
	filler  bool // a filler stood before the slot
}

// fixed is the number of words that are no slots.
func (p *phrase) fixed() (n int) {
	for _, word := range p.words {
		if !word.slot {
			n++
		}
	}
	return n
}

func newPhraseReader(req *Request) *phraseReader {
	r := &phraseReader{verbs: map[string]bool{}, names: map[string]bool{}, last: map[string]string{}}
	owners := map[string]string{} // the first action with a slot
	offered := req.Actions
	if offered == nil && req.Choice != "none" {
		offered = req.Tools
	}
	for _, t := range offered {
		a := &offlineAction{Tool: t}
		a.Title = cmp.Or(t.Title, titles.Words(t.Name))
		if json.Unmarshal(t.Labelled, &a.schema) != nil {
			_ = json.Unmarshal(t.Schema, &a.schema) // without a schema, any value is fine
		}
		r.actions = append(r.actions, a)
		for _, example := range t.Examples {
			p := phrase{offlineAction: a}
			filler := false
			for _, text := range strings.Fields(strings.Trim(example, ".?!")) {
				if isFiller(text) {
					filler = true
					continue
				}
				word := phraseWord{text: bare(text)}
				if m := exampleSlot().FindStringSubmatch(word.text); m != nil && m[0] == word.text {
					word = phraseWord{text: m[1], slot: true, several: strings.HasSuffix(m[0], "...}"), filler: filler}
					r.names[m[1]] = r.names[m[1]] || cmp.Or(owners[m[1]], t.Name) != t.Name
					owners[m[1]] = t.Name
				}
				p.words, filler = append(p.words, word), false
			}
			if len(p.words) > 0 {
				r.phrases = append(r.phrases, p)
				if first := p.words[0]; !first.slot {
					r.verbs[strings.ToLower(first.text)] = true
				}
			}
		}
	}
	slices.SortStableFunc(r.phrases, func(a, b phrase) int { return len(b.words) - len(a.words) })
	return r
}

func (r *phraseReader) answer(text string) (calls []Call, say string) {
	r.lacking = ""
	text = strings.TrimSpace(text)
	if calls = r.read(text); len(calls) == 0 && r.lacking == "" {
		calls = r.readTitle(text)
	}
	switch small := strings.Trim(strings.ToLower(text), " !?.,"); {
	case len(calls) > 0:
		return calls, ""
	case slices.Contains([]string{"", "hi", "hello", "hey", "help", "what can you do"}, small):
		return nil, r.help()
	case r.lacking != "":
		return nil, r.lacking
	default:
		return nil, "I did not understand that. " + r.help()
	}
}

// help says that there is no language model, and what is understood without one. People in Teams
// read it, so it names no setting.
func (r *phraseReader) help() string {
	text := "I have no language model, so I understand fixed phrases only."
	var calls, phrases []string
	for _, a := range r.actions {
		if phrase := a.phrase(); phrase != "" {
			phrases = append(phrases, "\n- "+phrase)
			continue
		}
		call := "\n- " + a.Title + ": `" + a.Name
		for _, name := range titles.Order(&a.schema) {
			call += " " + name + "=…"
		}
		calls = append(calls, call+"`")
	}
	if len(phrases) > 0 {
		text += " Say, with your own words in place of {…}:\n" + strings.Join(phrases, "")
	}
	if len(calls) > 0 {
		text += "\n\nYou can also write calls:\n" + strings.Join(calls, "")
	}
	return text
}

// phrase is the first example, with titles as the names of its slots; "": there is none.
func (a *offlineAction) phrase() string {
	if len(a.Examples) == 0 {
		return ""
	}
	return exampleSlot().ReplaceAllStringFunc(a.Examples[0], func(slot string) string {
		name := exampleSlot().FindStringSubmatch(slot)[1]
		return "{" + titles.Of(a.schema.Properties[name], name) + "}"
	})
}

var exampleSlot = lazy.Regexp(`\{([^{}]*?)(?:\.\.\.)?\}`)

// needs says what is wrong with a call of the action, and what the action takes.
func (a *offlineAction) needs(wrong string) string {
	var takes []string
	for _, name := range titles.Order(&a.schema) {
		property := a.schema.Properties[name]
		about := kindOf(property)
		if !slices.Contains(a.schema.Required, name) {
			about = append(about, "optional")
		}
		text := titles.Of(property, name)
		if about != nil {
			text += " (" + strings.Join(about, ", ") + ")"
		}
		takes = append(takes, text)
	}
	text := "I understood “" + a.Title + "”, but not " + wrong + ". It takes " + cmp.Or(strings.Join(takes, "; "), "no values") + "."
	if phrase := a.phrase(); phrase != "" {
		text += " For example: " + phrase
	}
	return text
}

// kindOf says what a value of the property looks like, unless it is any text.
func kindOf(property *jsonschema.Schema) (about []string) {
	if isKind(property, "array") {
		about, property = append(about, "several"), property.Items
	}
	switch {
	case property == nil:
	case property.Enum != nil:
		var options []string
		for _, option := range property.Enum {
			options = append(options, cmp.Or(titles.Label(property, option), fmt.Sprint(option)))
		}
		about = append(about, strings.Join(options, " or "))
	case isKind(property, "integer"):
		about = append(about, "a whole number")
	case isKind(property, "number"):
		about = append(about, "a number")
	case isKind(property, "boolean"):
		about = append(about, "true or false")
	case property.Format == "date-time":
		about = append(about, "a time such as 2027-01-31T09:00:00Z")
	}
	return about
}

var (
	shortIs    = lazy.Regexp(`(?i)^(\s*(?:what|where))['’]s `)
	quotedText = lazy.Regexp(`"[^"]*"|“[^”]*”|„[^“”]*[“”]|«[^»]*»`)
	// These hide the words in quotes, and the ends of lines, while phrases are matched.
	hide   = strings.NewReplacer(" ", "\ue000", ",", "\ue001", "\n", "\ue002")
	unhide = strings.NewReplacer("\ue000", " ", "\ue001", ",", "\ue002 ", "\n", "\ue002", "\n")
)

// read reads a text of one or more phrases. It returns nil if it does not understand a part.
func (r *phraseReader) read(text string) []Call {
	text = shortIs().ReplaceAllString(text, "$1 is ")
	for _, a := range r.actions {
		rest, ok := strings.CutPrefix(text+" ", a.Name+" ")
		if rest = strings.TrimSpace(rest); ok && (rest == "" || callValue().MatchString(rest) || nestedValue().MatchString(rest)) {
			return r.readCall(a, rest)
		}
	}
	text = strings.ReplaceAll(quotedText().ReplaceAllStringFunc(text, hide.Replace), "\n", "\ue002 ")
	words := strings.Fields(text)
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
			if calls = r.readPhrase(words); calls != nil { // what looked like a new phrase belongs to this one
				return calls
			}
		}
		if more == nil {
			r.explain(words[start:i])
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

// bare is the word without trailing punctuation and end of line.
func bare(word string) string { return strings.TrimRight(word, ".,;:!?\ue002") }

var callValue = lazy.Regexp(`^([A-Za-z_]\w*)=(?:"([^"]*)"|([^\s"]+))(?:\s+|$)`)

// nestedValue is a name with an object or a list as JSON, and what follows.
var nestedValue = lazy.Regexp(`^([A-Za-z_]\w*)=([{\[](?s:.*))`)

func (r *phraseReader) readCall(a *offlineAction, text string) []Call {
	values := map[string]any{}
	for text != "" {
		if m := nestedValue().FindStringSubmatch(text); m != nil && (a.schema.Properties == nil || a.schema.Properties[m[1]] != nil) {
			var value any
			d := json.NewDecoder(strings.NewReader(m[2]))
			d.UseNumber()
			if d.Decode(&value) == nil {
				values[m[1]], text = value, strings.TrimSpace(m[2][d.InputOffset():])
				continue
			}
		}
		m := callValue().FindStringSubmatch(text)
		if m == nil {
			r.lacking = a.needs("“" + text + "”")
			return nil
		}
		name, said := m[1], m[2]+m[3]
		property := a.schema.Properties[name]
		if property == nil && a.schema.Properties != nil {
			r.lacking = a.needs("“" + name + "”")
			return nil
		}
		several := isKind(property, "array")
		if several {
			property = property.Items
		}
		if values[name] = fit(property, said); values[name] == nil {
			r.lacking = a.needs(fmt.Sprintf("“%s” as its %s", said, titles.Of(a.schema.Properties[name], name)))
			return nil
		}
		if several {
			values[name] = []any{values[name]}
		}
		text = text[len(m[0]):]
	}
	return r.complete(a, values)
}

func (r *phraseReader) readTitle(text string) []Call {
	for _, a := range r.actions {
		if strings.EqualFold(strings.TrimRight(text, ".!?"), a.Title) {
			last := r.last
			defer func() { r.last = last }()
			r.last = nil // nobody said that a value is the last one
			return r.complete(a, map[string]any{})
		}
		if rest, ok := strings.CutPrefix(text, a.Name+" "); ok {
			r.lacking = a.needs("“" + rest + "”")
		}
	}
	return nil
}

// complete fills missing parameters with the last value of the same name.
func (r *phraseReader) complete(a *offlineAction, values map[string]any) []Call {
	var missing []string
	for _, name := range a.schema.Required {
		if values[name] == nil && r.last[name] == "" {
			missing = append(missing, titles.Of(a.schema.Properties[name], name))
		} else if values[name] == nil {
			values[name] = r.last[name]
		}
	}
	if missing != nil {
		r.lacking = a.needs("its " + strings.Join(missing, ", "))
		return nil
	}
	arguments, _ := json.Marshal(values) // came from JSON
	return []Call{{Name: a.Name, Arguments: string(arguments)}}
}

var (
	ending      = lazy.Regexp(`(?i)(?:[\s,.!?;\x{e002}]+(?:and|then|also|please|thanks|for me)|[\s,.!?;\x{e002}])+$`)
	enumeration = lazy.Regexp(`(?i)\s*,\s+(?:and\s+)?|\s+and\s+|\s+&\s+`)
)

// readPhrase returns the calls of the longest example that matches: one, or one per value of a slot
// that takes several. If an example with more fixed words matches but for a wrong value, that value
// is what is wrong: it is no text for another example.
func (r *phraseReader) readPhrase(words []string) (calls []Call) {
	words = strings.Fields(ending().ReplaceAllString(strings.Join(words, " "), ""))
	values := map[string][]any{}
	i := slices.IndexFunc(r.phrases, func(p phrase) bool {
		clear(values)
		return r.match(p, words, values)
	})
	if i < 0 {
		return nil
	}
	for _, p := range r.phrases {
		if p.fixed() > r.phrases[i].fixed() && strings.HasPrefix(r.misfitOf(p, words), "“") {
			r.lacking = p.needs(r.misfit)
			return nil
		}
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

// explain sets lacking if the words are an example but for one of its values, or its beginning.
func (r *phraseReader) explain(words []string) {
	if r.lacking != "" {
		return
	}
	words = strings.Fields(ending().ReplaceAllString(strings.Join(words, " "), ""))
	for _, p := range r.phrases {
		if misfit := r.misfitOf(p, words); misfit != "" {
			r.lacking = p.needs(misfit)
			return
		}
	}
	for _, p := range r.phrases {
		for n := len(p.words) - 1; n > 0 && !p.words[0].slot; n-- {
			missing := p.required(p.words[n:])
			if missing != nil && r.match(phrase{p.offlineAction, p.words[:n]}, words, map[string][]any{}) {
				r.lacking = p.needs("its " + strings.Join(missing, ", "))
				return
			}
		}
	}
}

// misfitOf is the value for which the words do not match the phrase, and its slot: “six” as its
// Sides; or only the slot, if the value is missing. "": they match, or more than that is wrong.
func (r *phraseReader) misfitOf(p phrase, words []string) string {
	if p.fixed() == 0 || r.match(p, words, map[string][]any{}) {
		return ""
	}
	r.lenient, r.misfit = true, ""
	defer func() { r.lenient = false }()
	if !r.match(p, words, map[string][]any{}) {
		return ""
	}
	return r.misfit
}

// required are the titles of the required parameters whose slots are among the words.
func (p *phrase) required(words []phraseWord) (missing []string) {
	for _, word := range words {
		if word.slot && slices.Contains(p.schema.Required, word.text) {
			missing = append(missing, titles.Of(p.schema.Properties[word.text], word.text))
		}
	}
	return missing
}

// match finds each slot's values. A slot takes as few words as possible.
func (r *phraseReader) match(p phrase, words []string, values map[string][]any) bool {
	if len(p.words) == 0 {
		return len(words) == 0
	}
	word, rest := p.words[0], phrase{p.offlineAction, p.words[1:]}
	if !word.slot {
		for len(words) > 0 && isFiller(words[0]) {
			words = words[1:]
		}
		return len(words) > 0 && strings.EqualFold(bare(words[0]), word.text) && r.match(rest, words[1:], values)
	}
	for word.filler && len(words) > 1 && isFiller(words[0]) {
		words = words[1:]
	}
	for n := 1; n <= len(words); n++ {
		if r.match(rest, words[n:], values) {
			if values[word.text] = r.valuesOf(p.schema.Properties[word.text], word, strings.Join(words[:n], " ")); values[word.text] != nil {
				return true
			}
		}
	}
	return false
}

// valuesOf reads a slot's values. It returns nil if the words cannot be such a value.
func (r *phraseReader) valuesOf(property *jsonschema.Schema, word phraseWord, said string) (values []any) {
	slot, whole, array := word.text, property, isKind(property, "array")
	if array {
		property = property.Items
	}
	parts := []string{said}
	if array || word.several {
		parts = enumeration().Split(said, -1)
	}
	asWritten := !array && !word.several && !r.names[slot] && isText(property)
	for _, part := range parts {
		text := written(bare(part))
		if !asWritten {
			text = r.valueOf(slot, strings.Fields(bare(part)))
		}
		value := fit(property, text)
		if value == nil && r.lenient {
			if r.misfit = "its " + titles.Of(whole, slot); text != "" {
				r.misfit = fmt.Sprintf("“%s” as its %s", text, titles.Of(whole, slot))
			}
			value = text
		}
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

// valueOf is the name said for a slot, without an article and the slot's own name: "the grocery
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
	return written(strings.Join(words, " "))
}

// written is a value as the person wrote it, without quotes around all of it.
func written(said string) string {
	text := strings.TrimSpace(unhide.Replace(said))
	if first, size := utf8.DecodeRuneInString(text); strings.ContainsRune("\"“„«", first) && quotedText().FindString(text) == text {
		_, last := utf8.DecodeLastRuneInString(text)
		text = strings.TrimSpace(text[size : len(text)-last])
	}
	return text
}

// isText reports whether the property may be any text.
func isText(property *jsonschema.Schema) bool {
	return property == nil || property.Enum == nil && property.Format == "" && (property.Type == "" && property.Types == nil || isKind(property, "string"))
}

// Words that are no part of a value, and words that may be missing from an example or a phrase.
var (
	articles = []string{"the", "a", "an", "my", "our", "your", "some", "this", "that"}
	fillers  = slices.Concat(articles, []string{"me", "us", "all", "please"})
)

func isFiller(word string) bool { return slices.Contains(fillers, strings.ToLower(word)) }

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
		if json.Unmarshal([]byte(text), &number) != nil || !isKind(property, "number") && strings.ContainsAny(text, ".eE") {
			return nil
		}
		return number
	case isKind(property, "boolean"):
		if i := slices.Index([]string{"true", "yes", "false", "no"}, strings.ToLower(text)); i >= 0 {
			return i < 2
		}
		return nil
	case property != nil && property.Format == "date-time":
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return nil
		}
		return text
	case property == nil || property.Enum == nil:
		return text
	}
	for _, option := range property.Enum {
		if strings.EqualFold(fmt.Sprint(option), text) || strings.EqualFold(titles.Label(property, option), text) {
			return option
		}
	}
	return nil
}
