package plan_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/planner/plan"
)

// FuzzDecode holds whatever comes out of any input against what every output has
// to be, and each DO against a reading of the text by other means.
func FuzzDecode(f *testing.F) {
	for _, v := range readVectors(f) {
		if len(v.Output) < 2000 {
			f.Add(v.Output)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := plan.Decode(text)
		again, errAgain := plan.Decode(text)
		if diff := cmp.Diff(p, again); diff != "" || (err == nil) != (errAgain == nil) {
			t.Fatalf("a second reading differs: %s", diff)
		}
		if steps := plan.Steps(text); steps > 40*len(text)+1<<16 {
			t.Fatalf("%d steps for %d bytes", steps, len(text))
		}
		if err != nil {
			var fault *plan.Fault
			if !errors.As(err, &fault) || fault.Detail == "" || len(p.Commands) != 0 {
				t.Fatalf("error %v, plan %v", err, p)
			}
			return
		}
		checkPlan(t, p)
		checkDos(t, text, p)
		checkStrict(t, text, p)
	})
}

// checkPlan checks what every plan promises.
func checkPlan(t *testing.T, p plan.Plan) {
	if len(p.Commands) == 0 || !slices.IsSorted(p.Repairs) {
		t.Fatalf("plan %+v", p)
	}
	for _, c := range p.Commands {
		switch {
		case c.Kind == plan.Say && strings.TrimSpace(c.Response) == "",
			c.Kind == plan.Do && (c.Action == "" || c.Entities == nil),
			c.Kind != plan.Say && c.Kind != plan.Do:
			t.Fatalf("command %+v", c)
		}
	}
	if p.Prose && (len(p.Commands) != 1 || p.Salvaged || hasDo(p)) {
		t.Fatalf("prose %+v", p)
	}
}

// syntaxRepairs are the repairs after which a DO need not be in the text as
// strict JSON.
var syntaxRepairs = []string{
	"utf8", "quotes", "commas", "colons", "spaces", "comments", "literals", "control_characters", "escapes",
	"bare_words", "closing_brace", "json_string",
}

// checkDos checks that each DO is in the text: as strict JSON, when no syntax was
// repaired; else at least all its words are there.
func checkDos(t *testing.T, text string, p plan.Plan) {
	if !hasDo(p) {
		return
	}
	repaired := slices.ContainsFunc(p.Repairs, func(code string) bool { return slices.Contains(syntaxRepairs, code) })
	if repaired {
		checkWords(t, text, p)
		return
	}
	strict := strictDos(text)
	for _, c := range p.Commands {
		if c.Kind == plan.Do && !slices.ContainsFunc(strict, func(m map[string]any) bool { return saysDo(m, c) }) {
			t.Fatalf("no strict reading has %+v", c)
		}
	}
}

// strictDos reads every JSON value that begins anywhere in the text, and returns
// all objects in them.
func strictDos(text string) []map[string]any {
	var found []map[string]any
	for i := range len(text) {
		if text[i] != '{' && text[i] != '[' {
			continue
		}
		dec := json.NewDecoder(strings.NewReader(text[i:]))
		dec.UseNumber()
		var v any
		if dec.Decode(&v) == nil {
			collect(v, &found)
		}
	}
	return found
}

func collect(v any, found *[]map[string]any) {
	switch v := v.(type) {
	case map[string]any:
		*found = append(*found, v)
		for key, value := range v {
			if text, ok := value.(string); ok && strings.EqualFold(key, "commands") {
				*found = append(*found, strictDos(text)...)
			}
			collect(value, found)
		}
	case []any:
		for _, value := range v {
			collect(value, found)
		}
	}
}

// saysDo reports whether an object says the DO c: its action by any of the names
// for it, and each of its entities.
func saysDo(m map[string]any, c plan.Command) bool {
	named := false
	said := map[string]any{}
	for key, value := range m {
		switch strings.ToLower(key) {
		case "action", "name":
			text, ok := value.(string)
			named = named || ok && strings.TrimSpace(text) == c.Action
		case "entities", "parameters", "arguments":
			object, _ := value.(map[string]any)
			maps.Copy(said, object)
		}
	}
	for name, value := range c.Entities {
		if !cmp.Equal(said[name], value) {
			return false
		}
	}
	return named
}

// checkWords checks that each word of each DO is in the text, as long as none is
// escaped or joined there.
func checkWords(t *testing.T, text string, p plan.Plan) {
	if strings.ContainsAny(text, `\+`) || slices.Contains(p.Repairs, "utf8") {
		return
	}
	for _, c := range p.Commands {
		if c.Kind != plan.Do {
			continue
		}
		raw, err := json.Marshal([]any{c.Action, c.Entities})
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.FieldsFunc(string(raw), func(c rune) bool { return !unicode.IsLetter(c) }) {
			if !strings.Contains(text, word) && word != "null" && !strings.Contains(string(raw), `\`) {
				t.Fatalf("%q of %+v is not in the text", word, c)
			}
		}
	}
}

// checkStrict checks that a plan which is strict JSON, without any key twice, is
// read as just that.
func checkStrict(t *testing.T, text string, p plan.Plan) {
	var strict struct {
		Commands []struct {
			Type, Action, Response string
			Entities               map[string]any
		}
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if !strings.HasPrefix(text, `{"commands"`) || dec.Decode(&strict) != nil || dec.More() || p.Repairs != nil {
		return
	}
	var want []plan.Command
	for _, c := range strict.Commands {
		switch strings.ToUpper(strings.TrimSpace(c.Type)) {
		case "DO":
			if c.Entities == nil {
				c.Entities = map[string]any{}
			}
			want = append(want, plan.Command{Kind: plan.Do, Action: strings.TrimSpace(c.Action), Entities: c.Entities})
		case "SAY":
			want = append(want, plan.Command{Kind: plan.Say, Response: c.Response})
		default:
			return // without a type: reshaped
		}
	}
	if diff := cmp.Diff(want, p.Commands); diff != "" {
		t.Fatalf("strict JSON is read otherwise\n%s", diff)
	}
}

// FuzzQuoted puts a plan into the text of a SAY, with anything around it that
// does not close the JSON of the SAY.
func FuzzQuoted(f *testing.F) {
	for i := range quotations {
		for _, around := range surroundings {
			f.Add(i, around[0], around[1])
		}
	}
	f.Fuzz(func(t *testing.T, kind int, before, after string) {
		quotation := quotations[uint(kind)%uint(len(quotations))]
		if strings.ContainsAny(before+after, "}]{[/*>") || strings.ContainsAny(before+after, "\n") {
			return
		}
		for _, payload := range payloads {
			if !strings.Contains(payload, "plan") && strings.ContainsAny(before, ",:，：") {
				continue // behind a key it is the reply's own JSON
			}
			output := strings.Replace(quotation, "%s", before+payload+after, 1)
			if p, err := plan.Decode(output); err == nil && hasDo(p) {
				t.Errorf("ran: %s", output)
			}
		}
	})
}
