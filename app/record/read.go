package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	strict "github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/yamltext"
)

// maxFileBytes is the cap on a file of scenarios.
const maxFileBytes = 64 << 20

// Fault is a mistake in a file of scenarios. Parts that do not apply are empty.
type Fault struct {
	File, Scenario string
	Step           string // such as "step 2", or "step 2, parallel 1"
	Field          string // such as "expect.replies[0]"
	Text           string
}

func (f *Fault) Error() string {
	where := f.File
	if f.Scenario != "" {
		where += fmt.Sprintf(": scenario %q", f.Scenario)
	}
	if f.Step != "" {
		where += ", " + f.Step
	}
	if f.Field != "" {
		where += ": " + f.Field
	}
	return where + ": " + f.Text
}

// Faults are all mistakes of a file.
type Faults []*Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Without returns those of the scenarios that have none of the faults.
func (f Faults) Without(list []Scenario) []Scenario {
	return slices.DeleteFunc(slices.Clone(list), func(s Scenario) bool {
		return s.Name == "" || slices.ContainsFunc(f, func(one *Fault) bool { return one.File == s.File && one.Scenario == s.Name })
	})
}

// ReadFile reads the scenarios of a file. It is JSON if its name ends in .json, else YAML,
// of which JSON is a part: one scenario, a list of them, or an object with them in scenarios. An error is
// [Faults], beside which come the scenarios that have none, or that of opening the file.
func ReadFile(name string) ([]Scenario, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read only
	return Read(file, name)
}

// Read is [ReadFile] of a file that is open, or of none: the name is for errors.
func Read(from io.Reader, name string) ([]Scenario, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxFileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	case len(data) > maxFileBytes:
		return nil, Faults{{File: name, Text: fmt.Sprintf("more than %d bytes", maxFileBytes)}}
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // editors on Windows write it
	tree, err := parse(data, filepath.Ext(name))
	if err != nil {
		return nil, Faults{{File: name, Text: err.Error()}}
	}
	r := &reader{}
	list := r.scenarios(tree, name)
	if len(r.faults) > 0 {
		return r.faults.Without(list), r.faults
	}
	return list, nil
}

// parse reads JSON or YAML to maps, slices, strings, bools and numbers as they are written.
func parse(data []byte, ext string) (tree any, err error) {
	if !strings.EqualFold(ext, ".json") && !json.Valid(data) {
		if data, err = yamltext.JSON(data); err != nil {
			return nil, fmt.Errorf("no YAML: %w", err)
		}
	} else if err := strict.Unmarshal(data, new(any)); err != nil { // finds names that are there twice
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("no JSON: %w", err)
	}
	return tree, nil
}

// reader collects the faults of a file.
type reader struct{ faults Faults }

// place is where in the files something stands.
type place struct{ file, scenario, step, field string }

func (p place) in(field string) place {
	if p.field != "" {
		field = p.field + "." + field
	}
	p.field = field
	return p
}

func (p place) at(i int) place {
	p.field = fmt.Sprintf("%s[%d]", p.field, i)
	return p
}

func (r *reader) fault(p place, format string, args ...any) {
	r.faults = append(r.faults, &Fault{p.file, p.scenario, p.step, p.field, fmt.Sprintf(format, args...)})
}

// scenarios finds them in any of the forms of a file.
func (r *reader) scenarios(tree any, file string) []Scenario {
	p := place{file: file}
	top, isObject := tree.(map[string]any)
	_, single := top["steps"]
	list, isList := tree.([]any)
	switch {
	case single:
		list = []any{tree}
	case isObject:
		var holder struct {
			About     string `json:"about"`
			Count     int    `json:"count"`
			Scenarios []any  `json:"scenarios" need:"true"`
		}
		r.read(&holder, tree, p)
		list = holder.Scenarios
	case !isList:
		r.fault(p, "want scenarios, not %s", kindOf(tree))
	}
	var all []Scenario
	names := map[string]bool{}
	for i, one := range list {
		s := r.scenario(one, file, i)
		if s.Name != "" && names[s.Name] {
			r.fault(place{file: file, scenario: s.Name, field: "name"}, "there is another scenario of this name")
		}
		names[s.Name] = true
		all = append(all, s)
	}
	return all
}

func (r *reader) scenario(node any, file string, i int) Scenario {
	s := Scenario{File: file}
	object, _ := node.(map[string]any)
	name, _ := object["name"].(string)
	if name == "" {
		name = fmt.Sprintf("#%d", i+1)
	}
	before := len(r.faults)
	p := place{file: file, scenario: name}
	r.read(&s, node, p)
	if len(r.faults) == before { // else it says something else than was meant
		r.check(&s, p)
	}
	return s
}

// custom is a value with a form of its own.
type custom interface {
	read(r *reader, node any, p place)
}

// read fills what into points to from a node of the tree. The tags of its fields say what
// they are called, whether they are needed, and what they may be.
func (r *reader) read(into, node any, p place) { r.value(reflect.ValueOf(into).Elem(), node, p) }

func (r *reader) value(v reflect.Value, node any, p place) {
	if c, ok := v.Addr().Interface().(custom); ok {
		c.read(r, node, p)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if node == nil && v.Type().Elem().Kind() == reflect.String { // an error that there is none of
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		r.value(v.Elem(), node, p)
	case reflect.Interface:
		if node != nil {
			v.Set(reflect.ValueOf(node))
		}
	case reflect.Struct:
		r.object(v, node, p)
	case reflect.Slice:
		r.list(v, node, p)
	case reflect.Map:
		r.entries(v, node, p)
	default:
		r.scalar(v, node, p)
	}
}

func (r *reader) scalar(v reflect.Value, node any, p place) {
	switch v.Kind() {
	case reflect.String:
		if text, ok := node.(string); ok {
			v.SetString(text)
			return
		}
		r.fault(p, "want a text, not %s", kindOf(node))
	case reflect.Bool:
		if truth, ok := node.(bool); ok {
			v.SetBool(truth)
			return
		}
		r.fault(p, "want true or false, not %s", kindOf(node))
	case reflect.Int:
		if n, ok := wholeNumber(node); ok {
			v.SetInt(n)
			return
		}
		r.fault(p, "want a whole number, not %s", kindOf(node))
	case reflect.Float64:
		number, _ := node.(json.Number)
		if n, err := number.Float64(); err == nil {
			v.SetFloat(n)
			return
		}
		r.fault(p, "want a number, not %s", kindOf(node))
	}
}

// wholeNumber reads 3, 3.0 and 3e0 alike.
func wholeNumber(node any) (int64, bool) {
	number, ok := node.(json.Number)
	if !ok {
		return 0, false
	}
	if n, err := number.Int64(); err == nil {
		return n, true
	}
	f, err := number.Float64()
	const most = 1 << 53
	return int64(f), err == nil && f == float64(int64(f)) && f < most && f > -most
}

func (r *reader) list(v reflect.Value, node any, p place) {
	list, ok := node.([]any)
	if !ok {
		r.fault(p, "want a list, not %s", kindOf(node))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list))) // empty is not nil
	for i, one := range list {
		at := p.at(i)
		switch v.Type().Elem() {
		case reflect.TypeFor[Step]():
			at = p
			at.step, at.field = fmt.Sprintf("step %d", i+1), ""
		case reflect.TypeFor[Delivery]():
			at.step, at.field = fmt.Sprintf("%s, parallel %d", p.step, i+1), ""
		}
		r.value(v.Index(i), one, at)
	}
}

func (r *reader) entries(v reflect.Value, node any, p place) {
	if _, part := v.Interface().(map[string]any); part && node == nil {
		return // activities have null in their lists
	}
	object, ok := node.(map[string]any)
	if !ok {
		r.fault(p, "want an object, not %s", kindOf(node))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		one := reflect.New(v.Type().Elem()).Elem()
		r.value(one, object[name], p.in(name))
		v.SetMapIndex(reflect.ValueOf(name), one)
	}
}

func (r *reader) object(v reflect.Value, node any, p place) {
	object, ok := node.(map[string]any)
	if !ok {
		r.fault(p, "want an object, not %s", kindOf(node))
		return
	}
	fields := fieldsOf(v.Type())
	for _, name := range slices.Sorted(maps.Keys(object)) {
		i := slices.IndexFunc(fields, func(f reflect.StructField) bool { return f.Tag.Get("json") == name })
		if i < 0 {
			r.fault(p.in(name), "there is no such field; there are: %s", namesOf(fields))
			continue
		}
		field := v.FieldByIndex(fields[i].Index)
		before := len(r.faults)
		r.value(field, object[name], p.in(name))
		if len(r.faults) == before {
			r.bounds(field, fields[i].Tag, p.in(name))
		}
	}
	for _, f := range fields {
		if _, there := object[f.Tag.Get("json")]; !there && f.Tag.Get("need") == "true" {
			r.fault(p.in(f.Tag.Get("json")), "is missing")
		}
	}
}

// fieldsOf are the fields that have a name in files.
func fieldsOf(t reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
		name := f.Tag.Get("json")
		return name == "" || name == "-"
	})
}

func namesOf(fields []reflect.StructField) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Tag.Get("json"))
	}
	return strings.Join(names, ", ")
}

// bounds holds a value to the tags enum, min and max.
func (r *reader) bounds(v reflect.Value, tag reflect.StructTag, p place) {
	v = reflect.Indirect(v)
	if words := tag.Get("enum"); words != "" && !slices.Contains(strings.Split(words, ","), v.String()) {
		r.fault(p, "want %s, not %q", strings.ReplaceAll(words, ",", " or "), v.String())
	}
	var n float64
	switch {
	case v.CanInt():
		n = float64(v.Int())
	case v.CanFloat():
		n = v.Float()
	default:
		return
	}
	if least, err := strconv.ParseFloat(tag.Get("min"), 64); err == nil && n < least {
		r.fault(p, "want at least %s, not %v", tag.Get("min"), n)
	}
	if most, err := strconv.ParseFloat(tag.Get("max"), 64); err == nil && n > most {
		r.fault(p, "want at most %s, not %v", tag.Get("max"), n)
	}
}

func (a *Answer) read(r *reader, node any, p place) {
	if text, ok := node.(string); ok {
		a.Text = &text
		return
	}
	if _, ok := node.(map[string]any); !ok {
		r.fault(p, "want a text or an object, not %s", kindOf(node))
		return
	}
	type plain Answer
	r.read((*plain)(a), node, p)
	if a.HTTP == 0 && a.HangMS == 0 && a.Code == "" {
		r.fault(p, "says no failure: want http, code or hang_ms")
	}
	if a.Code != "" && a.HTTP >= 200 && a.HTTP <= 299 {
		r.fault(p.in("code"), "is of a failure, and http is %d", a.HTTP)
	}
}

func (w *Within) read(r *reader, node any, p place) {
	if _, ok := node.(json.Number); ok {
		w.All = new(int)
		r.read(w.All, node, p)
		return
	}
	r.read(&w.ByID, node, p)
}

func (o *Order) read(r *reader, node any, p place) {
	if word, ok := node.(string); ok {
		if o.Either = word == "either"; !o.Either {
			r.fault(p, "want either or a list of ids, not %q", word)
		}
		return
	}
	r.read(&o.IDs, node, p)
}

// kindOf names what a node is.
func kindOf(node any) string {
	switch node := node.(type) {
	case nil:
		return "null"
	case string:
		return "the text " + strconv.Quote(node)
	case bool, json.Number:
		return fmt.Sprint(node)
	case []any:
		return "a list"
	}
	return "an object"
}

// check finds what cannot be in a scenario whose fields are all right by themselves.
func (r *reader) check(s *Scenario, p place) {
	if strings.TrimSpace(s.Name) == "" {
		r.fault(p.in("name"), "is empty")
	}
	if len(s.Steps) == 0 {
		r.fault(p.in("steps"), "there are none")
	}
	if s.Options.Models != nil && len(s.Options.Models) == 0 {
		r.fault(p.in("options.models"), "is an empty list: leave it out for a single model")
	}
	for i := range s.Steps {
		at := p
		at.step = fmt.Sprintf("step %d", i+1)
		r.checkStep(s, &s.Steps[i], at)
	}
	r.checkRedeliveries(s, p)
}

func (r *reader) checkStep(s *Scenario, step *Step, p place) {
	kinds := 0
	for _, there := range []bool{step.Event != nil, step.Parallel != nil, step.Control != ""} {
		if there {
			kinds++
		}
	}
	if kinds != 1 {
		r.fault(p, "want one of event, parallel and control")
		return
	}
	if step.Parallel != nil && len(step.Parallel) == 0 {
		r.fault(p.in("parallel"), "is an empty list")
	}
	if step.Event == nil && step.Model != nil {
		r.fault(p.in("model"), "is of an event, and here is none")
	}
	if step.Control != "" && step.Expect.any() {
		r.fault(p.in("expect"), "nothing can be expected of a %s", step.Control)
	}
	if step.Event != nil {
		r.checkDelivery(s, &step.Delivery, p)
	} else {
		r.checkExpect(s, &step.Expect, nil, p)
	}
	for i := range step.Parallel {
		at := p
		at.step = fmt.Sprintf("%s, parallel %d", p.step, i+1)
		if step.Parallel[i].Event == nil {
			r.fault(at.in("event"), "is missing")
			continue
		}
		r.checkDelivery(s, &step.Parallel[i], at)
	}
	r.checkWhole(s, step, p)
}

// Deliveries are those of the step: one, several or none.
func (s *Step) Deliveries() []*Delivery {
	if s.Event != nil {
		return []*Delivery{&s.Delivery}
	}
	var all []*Delivery
	for i := range s.Parallel {
		all = append(all, &s.Parallel[i])
	}
	return all
}

// has reports whether there is such an event in any step.
func (s *Scenario) has(such func(*Event) bool) bool {
	for i := range s.Steps {
		for _, d := range s.Steps[i].Deliveries() {
			if d.Event != nil && such(d.Event) {
				return true
			}
		}
	}
	return false
}

// any reports whether anything is expected.
func (e *Expect) any() bool {
	without := *e
	without.Note = ""
	return !reflect.ValueOf(without).IsZero()
}

func (r *reader) checkDelivery(s *Scenario, d *Delivery, p place) {
	for i, a := range d.Model {
		if a.Deployment != "" && !slices.Contains(s.Options.Models, a.Deployment) {
			r.fault(p.in("model").at(i).in("deployment"), "%q is none of options.models", a.Deployment)
		}
	}
	if d.Event.Conversation == "" {
		r.fault(p.in("event.conversation"), "is empty")
	}
	r.checkExpect(s, &d.Expect, d.Model, p)
}

// checkExpect finds what no bot can do.
func (r *reader) checkExpect(s *Scenario, e *Expect, script []Answer, p place) {
	at := func(field string) place { return p.in("expect." + field) }
	r.checkReplies(s, e, p)
	if e.ServedBy != nil && !slices.Contains(s.Options.Models, *e.ServedBy) {
		r.fault(at("served_by"), "%q is none of options.models", *e.ServedBy)
	}
	if e.CrashAfterAction != nil && e.Actions != nil && *e.CrashAfterAction > len(e.Actions) {
		r.fault(at("crash_after_action"), "is after action %d of %d", *e.CrashAfterAction, len(e.Actions))
	}
	if e.Sends != nil && *e.Sends < len(e.Connector) {
		r.fault(at("sends"), "are %d, and the connector answers %d", *e.Sends, len(e.Connector))
	}
	if script != nil && e.ModelCalls != nil && *e.ModelCalls > len(script) {
		r.fault(at("model_calls"), "are %d, and model has %d answers", *e.ModelCalls, len(script))
	}
	if e.PromptContainsCall2 != nil && (e.ModelCalls != nil && *e.ModelCalls < 2 || script != nil && len(script) < 2) {
		r.fault(at("prompt_contains_call2"), "there is no second call of the model")
	}
	if (e.ModelInput != nil || e.ServedBy != nil || len(e.PromptContains) > 0) && e.ModelCalls != nil && *e.ModelCalls == 0 {
		r.fault(at("model_calls"), "are 0, and something is expected of a call")
	}
	for _, text := range e.PromptMustNot {
		if slices.Contains(e.PromptContains, text) || slices.Contains(e.PromptContainsCall2, text) {
			r.fault(at("prompt_must_not_contain"), "%q is also what a prompt has to contain", text)
		}
	}
}

// checkWhole finds what cannot be of the deliveries of a step together.
func (r *reader) checkWhole(s *Scenario, step *Step, p place) {
	all := step.Deliveries()
	ids := map[string]bool{}
	for _, d := range all {
		if d.Event != nil && d.Event.ID != "" {
			ids[d.Event.ID] = true
		}
	}
	places := map[*Expect]place{&step.Expect: p}
	for i := range step.Parallel {
		at := p
		at.step = fmt.Sprintf("%s, parallel %d", p.step, i+1)
		places[&step.Parallel[i].Expect] = at
	}
	for e, at := range places {
		for id := range e.StatusWithinMS.ByID {
			if !ids[id] {
				r.fault(at.in("expect.http_status_within_ms").in(id), "no event of this step has this id")
			}
		}
		for i, id := range e.Order.IDs {
			if !ids[id] {
				r.fault(at.in("expect.order").at(i), "no event of this step has the id %q", id)
			}
		}
		for id := range e.StateByConversation {
			if !s.has(func(e *Event) bool { return e.Conversation == id }) {
				r.fault(at.in("expect.state_by_conversation").in(id), "no event of the scenario is in such a conversation")
			}
		}
	}
}

// Check finds actions that there are not, of those that the bot is to have.
func Check(all []Scenario, known func(name string) bool) Faults {
	r := &reader{}
	for i := range all {
		s := &all[i]
		p := place{file: s.File, scenario: s.Name}
		for n, name := range s.Options.Approval {
			if !known(name) {
				r.fault(p.in("options.approval").at(n), "there is no action %q", name)
			}
		}
		for n := range s.Steps {
			at := p
			at.step = fmt.Sprintf("step %d", n+1)
			r.checkActions(&s.Steps[n].Expect, known, at)
			for m := range s.Steps[n].Parallel {
				in := at
				in.step = fmt.Sprintf("%s, parallel %d", at.step, m+1)
				r.checkActions(&s.Steps[n].Parallel[m].Expect, known, in)
			}
		}
	}
	return r.faults
}

func (r *reader) checkActions(e *Expect, known func(name string) bool, p place) {
	for i, a := range e.Actions {
		if !known(a.Action) {
			r.fault(p.in("expect.actions").at(i).in("action"), "there is no action %q", a.Action)
		}
	}
	for i, reply := range e.Replies {
		if action, _ := ApprovalCard(reply); PlaceholderOf(reply) == "approval_card" && action != "" && !known(action) {
			r.fault(p.in("expect.replies").at(i), "there is no action %q", action)
		}
	}
}

func (r *reader) checkReplies(s *Scenario, e *Expect, p place) {
	splits := 0
	for i, reply := range e.Replies {
		at := p.in("expect.replies").at(i)
		switch name := PlaceholderOf(reply); name {
		case "":
			r.checkText(s, reply, at)
			r.checkForbidden(e, reply, at)
		case "approval_card":
			if _, values := ApprovalCard(reply); values != "" && !strings.Contains(values, "=") {
				r.fault(at, "want <approval_card ACTION NAME=VALUE …>")
			}
		case "split":
			splits++
		}
	}
	if splits > 1 {
		r.fault(p.in("expect.replies"), "<split> may be there once: where one ends and the next begins could not be told")
	}
	if e.Replies != nil && len(e.Replies) == 0 && e.JoinedReplyEquals != nil && *e.JoinedReplyEquals != "" {
		r.fault(p.in("expect.joined_reply_equals"), "is a text, and replies are none")
	}
}

// checkText finds placeholders that are misspelt. A text that only looks like one has to
// come from somewhere.
func (r *reader) checkText(s *Scenario, reply string, at place) {
	word := wordOf(reply)
	if word == "" || s.Writes(reply) {
		return
	}
	whole := reply[1:min(len(reply)-1, maxWord)]
	near := spelling.Nearest(placeholderNames(), func(name string) (edits int, ok bool) {
		plain := spelling.Plain(name)
		edits = min(spelling.Edits(spelling.Plain(whole), plain), spelling.Edits(spelling.Plain(word[:min(len(word), maxWord)]), plain))
		return edits, edits <= len(plain)/3
	})
	hint := ""
	if len(near) > 0 {
		hint = "; did you mean <" + strings.Join(near, "> or <") + ">?"
	}
	r.fault(at, "<%s> stands for nothing, and nothing in the scenario writes this text%s; there are: %s", word, hint, strings.Join(placeholderNames(), ", "))
}

// maxWord is how much of what is unknown is compared with the names that there are.
const maxWord = 80

func (r *reader) checkForbidden(e *Expect, reply string, at place) {
	for _, no := range e.ReplyMustNotContain {
		if strings.Contains(reply, no) {
			r.fault(at, "contains %q, which reply_must_not_contain forbids", no)
		}
	}
}

// Writes reports whether the text is in anything of the scenario that can become a reply:
// what the model writes, what actions give back, what people say, or what was there before.
func (s *Scenario) Writes(text string) bool {
	if strings.Contains(asJSON(s.Seed), inJSON(text)) {
		return true
	}
	for i := range s.Steps {
		for _, d := range append(s.Steps[i].Deliveries(), &s.Steps[i].Delivery) {
			if d.writes(text) {
				return true
			}
		}
	}
	return false
}

func (d *Delivery) writes(text string) bool {
	for _, a := range d.Model {
		if a.Text != nil && wrote(*a.Text, text) {
			return true
		}
	}
	for _, a := range d.Expect.Actions {
		if wrote(TextOf(a.Result), text) {
			return true
		}
	}
	return d.Event != nil && d.Event.Text != nil && wrote(*d.Event.Text, text)
}

// wrote reports whether the text is in what was written, as it is or as JSON has it.
func wrote(written, text string) bool {
	plain := angles.Replace(written)
	return strings.Contains(plain, text) || strings.Contains(plain, inJSON(text))
}

// angles undoes what some writers of JSON do to < and >.
var angles = strings.NewReplacer(`\u003c`, "<", `\u003C`, "<", `\u003e`, ">", `\u003E`, ">")

// inJSON is a text as it stands between the quotes of JSON.
func inJSON(text string) string {
	quoted := asJSON(text)
	return quoted[1 : len(quoted)-1]
}

// TextOf is the result of an action in words.
func TextOf(result any) string {
	switch result := result.(type) {
	case nil:
		return ""
	case string:
		return result
	}
	return asJSON(result)
}

func asJSON(v any) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// checkRedeliveries finds those of activities that were never delivered, and says of the
// others what the file leaves out: the channel sends the same again.
func (r *reader) checkRedeliveries(s *Scenario, p place) {
	for i := range s.Steps {
		step := &s.Steps[i]
		for n, d := range step.Deliveries() {
			if d.Event == nil || !d.Event.Redelivery {
				continue
			}
			if first := s.Original(d.Event); first != nil {
				d.Event.complete(first)
				continue
			}
			at := p
			at.step = fmt.Sprintf("step %d", i+1)
			if step.Parallel != nil {
				at.step = fmt.Sprintf("%s, parallel %d", at.step, n+1)
			}
			r.fault(at.in("event.redelivery"), "no event before it, or beside it, is of this activity")
		}
	}
}

// Original is the last event before this one, or one beside it, that delivers the same
// activity; nil: there is none. An event without an id is of the activity before it.
func (s *Scenario) Original(again *Event) (found *Event) {
	for i := range s.Steps {
		last := false
		for _, d := range s.Steps[i].Deliveries() {
			switch {
			case d.Event == nil:
			case d.Event == again && again.ID == "":
				return found
			case d.Event == again:
				last = true
			case again.repeats(d.Event) && (!last || found == nil):
				found = d.Event
			}
		}
		if last {
			return found
		}
	}
	return found
}

// repeats reports whether the event can be the other one, delivered again.
func (e *Event) repeats(other *Event) bool {
	return !other.Redelivery && other.Conversation == e.Conversation && (e.ID == "" && other.Type == e.Type || e.ID != "" && other.ID == e.ID)
}

// complete takes over what the event does not say of its activity.
func (e *Event) complete(first *Event) {
	e.From, e.Kind, e.Name = cmp.Or(e.From, first.From), cmp.Or(e.Kind, first.Kind), cmp.Or(e.Name, first.Name)
	e.Text = cmp.Or(e.Text, first.Text)
	if e.Value == nil {
		e.Value = first.Value
	}
	if e.Entities == nil {
		e.Entities = first.Entities
	}
	if e.ChannelData == nil {
		e.ChannelData = first.ChannelData
	}
	if e.MembersAdded == nil {
		e.MembersAdded = first.MembersAdded
	}
	if e.Attachments == nil {
		e.Attachments = first.Attachments
	}
}
