package skills_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/planbot-go/planbot/skills"
)

// withFront is a SKILL.md with that front matter.
func withFront(yaml string) string { return "---\n" + yaml + "\n---\nDo it.\n" }

const sound = "name: my-skill\ndescription: Does it."

func TestParse(t *testing.T) {
	t.Parallel()
	base := func(change func(*skills.Skill)) skills.Skill {
		m := skills.Skill{Name: "my-skill", Description: "Does it."}
		if change != nil {
			change(&m)
		}
		return m
	}
	described := func(text string) skills.Skill {
		return base(func(m *skills.Skill) { m.Description = text })
	}
	for name, c := range map[string]struct {
		text string
		want skills.Skill
	}{
		"plain":             {withFront(sound), base(nil)},
		"byte order mark":   {"\ufeff" + withFront(sound), base(nil)},
		"CRLF":              {strings.ReplaceAll(withFront(sound), "\n", "\r\n"), base(nil)},
		"spaces behind ---": {"---  \n" + sound + "\n--- \nDo it.", base(nil)},
		"comments":          {withFront("# a skill\n" + sound + " # indeed"), base(nil)},
		"flow mapping":      {withFront(`{name: my-skill, description: "Does it."}`), base(nil)},
		"double quotes":     {withFront("name: my-skill\ndescription: \"a\\u00e9: \\\"b\\\" --- c\""), described(`aé: "b" --- c`)},
		"single quotes":     {withFront("name: 'my-skill'\ndescription: 'it''s: it'"), described("it's: it")},
		"continued":         {withFront("name: my-skill\ndescription: Does\n  it."), base(nil)},
		"literal block":     {withFront("name: my-skill\ndescription: |\n  a: b\n  ---\n  c"), described("a: b\n---\nc")},
		"folded block":      {withFront("name: my-skill\ndescription: >-\n  a\n  b\n\n  c"), described("a b\nc")},
		"indented block":    {withFront("name: my-skill\ndescription: |2-\n  a\n    b"), described("a\n  b")},
		"--- in a value":    {withFront("name: my-skill\ndescription: a --- b"), described("a --- b")},
		"numbers":           {withFront("name: 123\ndescription: 4.50"), skills.Skill{Name: "123", Description: "4.50"}},
		"words of YAML":     {withFront("name: null\ndescription: true"), skills.Skill{Name: "null", Description: "true"}},
		"Cyrillic":          {withFront("name: мой-навык\ndescription: d"), skills.Skill{Name: "мой-навык", Description: "d"}},
		"decomposed":        {withFront("name: cafe\u0301\ndescription: d"), skills.Skill{Name: "café", Description: "d"}},
		"64 characters":     {withFront("name: " + strings.Repeat("ж", 64) + "\ndescription: d"), skills.Skill{Name: strings.Repeat("ж", 64), Description: "d"}},
		"1024 characters":   {withFront("name: my-skill\ndescription: " + strings.Repeat("ж", 1024)), described(strings.Repeat("ж", 1024))},
		"license":           {withFront(sound + "\nlicense: LICENSE.txt has it"), base(func(m *skills.Skill) { m.License = "LICENSE.txt has it" })},
		"compatibility":     {withFront(sound + "\ncompatibility: " + strings.Repeat("x", 500)), base(func(m *skills.Skill) { m.Compatibility = strings.Repeat("x", 500) })},
		"tools":             {withFront(sound + "\nallowed-tools: Bash(jq *) Bash(git:*), Read"), base(func(m *skills.Skill) { m.AllowedTools = []string{"Bash(jq *)", "Bash(git:*)", "Read"} })},
		"tools as a list":   {withFront(sound + "\nallowed-tools:\n  - Bash(git:*)\n  - Read"), base(func(m *skills.Skill) { m.AllowedTools = []string{"Bash(git:*)", "Read"} })},
		"metadata": {withFront(sound + "\nmetadata:\n  version: 1.0\n  name: other\n  empty:"), base(func(m *skills.Skill) {
			m.Metadata = map[string]string{"version": "1.0", "name": "other", "empty": ""}
		})},
		"metadata on a line": {withFront(sound + "\nmetadata: {author: me}"), base(func(m *skills.Skill) { m.Metadata = map[string]string{"author": "me"} })},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, faults := skills.Parse([]byte(c.text), c.want.Name, false)
			if name != "tools as a list" && len(faults) > 0 || !allWarnings(faults) {
				t.Errorf("faults %v", faults)
			}
			if diff := cmp.Diff(c.want, got.Head(), cmpopts.IgnoreUnexported(skills.Skill{})); diff != "" {
				t.Error(diff)
			}
			if got.Instructions != "Do it." || !strings.HasPrefix(got.Text, "---") || strings.Contains(got.Text, "\r") {
				t.Errorf("instructions %q, text %q", got.Instructions, got.Text)
			}
		})
	}
}

func TestNoInstructions(t *testing.T) {
	t.Parallel()
	got, faults := skills.Parse([]byte("---\n"+sound+"\n---"), "my-skill", false)
	if len(faults) > 0 || got.Name != "my-skill" || got.Instructions != "" {
		t.Errorf("%+v, faults %v", got, faults)
	}
}

func allWarnings(faults []skills.Fault) bool {
	return !slices.ContainsFunc(faults, func(f skills.Fault) bool { return !f.Warning })
}

// TestFaults lists the faults of strict reading, and what is left of them in lenient.
func TestFaults(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("x", n) }
	const d = "\ndescription: d"
	for name, c := range map[string]struct {
		text    string
		want    []string // parts of the strict faults, in order
		lenient string   // name that the lenient mode reads; "": it does not either
	}{
		"empty":                {"", []string{"SKILL.md:1: must start with YAML frontmatter"}, ""},
		"no front matter":      {"# A skill\n", []string{"must start with YAML frontmatter"}, ""},
		"blank line before":    {"\n" + withFront(sound), []string{"must start with YAML frontmatter"}, ""},
		"four dashes":          {"----\n" + sound + "\n----\n", []string{"must start with YAML frontmatter"}, ""},
		"not closed":           {"---\n" + sound + "\n", []string{"not properly closed"}, ""},
		"closed by four":       {"---\n" + sound + "\n----\n", []string{"not properly closed"}, ""},
		"closed by set in":     {"---\n" + sound + "\n ---\n", []string{"not properly closed"}, ""},
		"no UTF-8":             {withFront(sound + "\xff"), []string{"no UTF-8"}, ""},
		"no YAML":              {withFront("description: d\nname: [invalid"), []string{"SKILL.md:3: Invalid YAML in frontmatter: the value of name has to be quoted", "invalid characters"}, ""},
		"open quote":           {withFront("name: 'my-skill" + d), []string{"Invalid YAML"}, ""},
		"text":                 {withFront("my-skill"), []string{"must be a YAML mapping"}, ""},
		"list":                 {withFront("- my-skill"), []string{"must be a YAML mapping"}, ""},
		"nothing":              {withFront(""), []string{"must be a YAML mapping"}, ""},
		"comment":              {withFront("# nothing"), []string{"must be a YAML mapping"}, ""},
		"no fields that count": {withFront("license: MIT"), []string{"required field: name", "required field: description"}, ""},
		"blank":                {withFront("name: \"\"\ndescription: |\n\nlicense:"), []string{"SKILL.md:2: Missing required field: name", "SKILL.md:3: Missing required field: description"}, ""},
		"upper case":           {withFront("name: MySkill" + d), []string{"SKILL.md:2: name \"MySkill\" has to be lowercase"}, "MySkill"},
		"upper Cyrillic":       {withFront("name: НАВЫК" + d), []string{"lowercase"}, "НАВЫК"},
		"hyphen first":         {withFront("name: -my-skill" + d), []string{"cannot start or end with a hyphen"}, "-my-skill"},
		"hyphen last":          {withFront("name: my-skill-" + d), []string{"cannot start or end with a hyphen"}, "my-skill-"},
		"two hyphens":          {withFront("name: my--skill" + d), []string{"consecutive hyphens"}, "my--skill"},
		"underscore":           {withFront("name: my_skill" + d), []string{"invalid characters"}, ""},
		"space":                {withFront("name: my skill" + d), []string{"invalid characters"}, ""},
		"markup":               {withFront("name: <b>" + d), []string{"invalid characters"}, ""},
		"line end in it":       {withFront("name: \"abc\\ndef\"" + d), []string{`name "abc\ndef" has invalid characters`}, ""},
		"traversal":            {withFront("name: ../x" + d), []string{"invalid characters"}, ""},
		"65 characters":        {withFront("name: " + long(65) + d), []string{"exceeds the 64 character limit (it has 65)"}, long(65)},
		"all at once":          {withFront("name: -A--b_" + long(70)), []string{"required field: description", "exceeds", "lowercase", "start or end", "consecutive", "invalid characters"}, ""},
		"long description":     {withFront("name: a\ndescription: " + long(1025)), []string{"description exceeds the 1024"}, "a"},
		"long compatibility":   {withFront("name: a" + d + "\ncompatibility: " + long(550)), []string{"compatibility exceeds the 500"}, "a"},
		"blank compatibility":  {withFront("name: a" + d + "\ncompatibility: ''"), []string{"compatibility is there, but blank"}, "a"},
		"unknown field":        {withFront("name: a" + d + "\nversion: 1\nunknown_field: x"), []string{`SKILL.md:4: Unexpected fields: "version"; the specification has none of this name`, `SKILL.md:5: Unexpected fields: "unknown_field"`}, "a"},
		"other case":           {withFront("Name: a" + d), []string{"required field: name", "Unexpected fields: \"Name\", which is spelled name"}, "a"},
		"both cases":           {withFront("name: a\nName: b" + d), []string{"Unexpected fields: \"Name\""}, "a"},
		"twice":                {withFront("name: a\nname: b" + d), []string{"SKILL.md:3: \"name\" is given twice, first in line 2"}, "b"},
		"merge key":            {withFront("name: a" + d + "\n<<: {license: x}"), []string{"is no plain text"}, "a"},
		"list as a name":       {withFront("name: [a]" + d), []string{"name has to be one text, not a YAML sequence", "required field: name"}, ""},
		"anchor":               {withFront("name: &a a\ndescription: *a"), []string{"name has to be one text, not a YAML a", "required field: name", "description has to be one text, not a YAML a", "required field: description"}, ""},
		"tag":                  {withFront("name: !!str a" + d), []string{"not a YAML tag", "required field: name"}, ""},
		"metadata as text":     {withFront("name: a" + d + "\nmetadata: x"), []string{"metadata has to be a mapping"}, "a"},
		"nested metadata":      {withFront("name: a" + d + "\nmetadata:\n  k: {x: y}\n  l: [z]"), []string{`SKILL.md:5: metadata: the value of "k" has to be a text, not a YAML mapping`, `the value of "l"`}, "a"},
		"nested tools":         {withFront("name: a" + d + "\nallowed-tools: [[x]]"), []string{"warning: allowed-tools is a list", "has to list texts"}, "a"},
		"colon in a value":     {withFront("name: a\ndescription: Use this: now\n  or: then\nversion: 1"), []string{"SKILL.md:3: Invalid YAML in frontmatter: the value of description has to be quoted", `SKILL.md:5: Unexpected fields: "version"`}, "a"},
		"mark at the begin":    {withFront("name: a\ndescription: @someone's"), []string{"the value of description"}, "a"},
		"tabs":                 {withFront("name: a" + d + "\nmetadata:\n\tversion: 1"), []string{"SKILL.md:5: Invalid YAML in frontmatter: the line is indented by a tab"}, "a"},
		"bomb of brackets":     {withFront("name: a\ndescription: " + strings.Repeat("[", 60_000)), []string{"the value of description", "description exceeds"}, "a"},
		"large front matter":   {withFront(sound + "\nlicense: " + long(70_000)), []string{"exceeds 65536 bytes"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, faults := skills.Parse([]byte(c.text), "", false)
			if len(faults) != len(c.want) || allWarnings(faults) {
				t.Fatalf("faults %q, want %d", faults, len(c.want))
			}
			for i, part := range c.want {
				if !strings.Contains(faults[i].String(), part) {
					t.Errorf("fault %q, want %q in it", faults[i], part)
				}
			}
			got, faults := skills.Parse([]byte(c.text), "", true)
			if usable := allWarnings(faults); usable != (c.lenient != "") || usable && got.Name != c.lenient || len(faults) == 0 {
				t.Errorf("lenient: name %q, faults %q", got.Name, faults)
			}
		})
	}
}

func TestRepairedValues(t *testing.T) {
	t.Parallel()
	text := withFront("name: a\ndescription: Use it's: \"now\"\n  or: then\nmetadata:\n\tversion: 1.0\n\tnote: |\n\t  x: y: z\nallowed-tools: [Read, Write]")
	got, faults := skills.Parse([]byte(text), "", true)
	want := skills.Skill{
		Name: "a", Description: `Use it's: "now" or: then`,
		Metadata: map[string]string{"version": "1.0", "note": "x: y: z\n"}, AllowedTools: []string{"Read", "Write"},
	}
	if diff := cmp.Diff(want, got.Head(), cmpopts.IgnoreUnexported(skills.Skill{})); diff != "" {
		t.Error(diff)
	}
	var lines []int
	for _, f := range faults {
		lines = append(lines, f.Line)
	}
	if !allWarnings(faults) || !slices.Equal(lines, []int{3, 6, 7, 8, 9}) {
		t.Errorf("faults %q", faults)
	}
}

// TestAsPeopleWrite reads lines that occur in public collections and are no YAML.
func TestAsPeopleWrite(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		`"[total] [start]" [--dry-run]`:          `"[total] [start]" [--dry-run]`,
		`'Quick' and 'dirty': it's both`:         `'Quick' and 'dirty': it's both`,
		`"a \"b\" c" # comment`:                  `a "b" c`,
		`'it''s' # comment`:                      `it's`,
		`Use when: the user says "x".`:           `Use when: the user says "x".`,
		`[brief|build] "goal"`:                   `[brief|build] "goal"`,
		"Reads.\n\n  USE WHEN: asked\n  for: it": "Reads. USE WHEN: asked for: it",
		"%s of it":                               "%s of it",
		"*bold* words":                           "*bold* words",
		"- a dash":                               "- a dash",
		"ends in a colon:":                       "ends in a colon:",
	} {
		text := withFront("name: a\ndescription: " + written + "\nmetadata:\n  x: {y: [z]}\n  b: c: d")
		got, faults := skills.Parse([]byte(text), "", true)
		if !allWarnings(faults) || got.Description != want || got.Metadata["b"] != "c: d" {
			t.Errorf("%q: description %q, metadata %q, faults %v", written, got.Description, got.Metadata, faults)
		}
	}
}

// TestNameAfterFolder is what lenient reading makes of names that are none.
func TestNameAfterFolder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, folder, want, fault string }{
		"none":              {"license: MIT", "units", "units", `SKILL.md: warning: Missing required field: name (or it is blank): the directory's is used, "units"`},
		"blank":             {"name:", "units", "units", `SKILL.md:2: warning: Missing required field: name (or it is blank): the directory's is used, "units"`},
		"a title":           {"name: Unit Converter", "units", "units", `SKILL.md:2: warning: name "Unit Converter" has invalid characters: the directory's is used, "units"`},
		"a path":            {"name: team/units", "units", "units", `"team/units" has invalid characters`},
		"underscores":       {"name: unit_converter", "unit-converter", "unit-converter", `"unit_converter" has invalid characters`},
		"decomposed":        {"license: MIT", "cafe\u0301", "café", `the directory's is used, "café"`},
		"a folder, too":     {"name: unit_converter", "unit_converter", "", `SKILL.md:2: name "unit_converter" has invalid characters: letters, digits and hyphens only`},
		"both, of another":  {"name: a b", "c d", "", "letters, digits and hyphens only"},
		"no folder":         {"license: MIT", "", "", "SKILL.md: Missing required field: name (or it is blank)"},
		"one that is valid": {"name: other", "units", "other", "SKILL.md:2: warning: directory name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := []byte(withFront(c.line + "\ndescription: d"))
			got, faults := skills.Parse(text, c.folder, true)
			if !strings.Contains(fmt.Sprint(faults), c.fault) {
				t.Errorf("faults %v", faults)
			}
			if usable := allWarnings(faults); usable != (c.want != "") || usable && got.Name != c.want {
				t.Errorf("name %q, want %q, faults %v", got.Name, c.want, faults)
			}
			if _, faults := skills.Parse(text, c.folder, false); allWarnings(faults) {
				t.Error("strict reading takes it")
			}
		})
	}
}

// TestFieldsOfOthers reads front matter as other clients have it.
func TestFieldsOfOthers(t *testing.T) {
	t.Parallel()
	text := withFront(`name: units
version: 1.2
description: Converts units. Use when: somebody asks.
argument-hint: "[value] [unit]"
allowed-tools: Read, Grep, Bash(python:*)
disable-model-invocation: true
metadata: {"client": {"emoji": "📏", "requires":{"bins":["python3"]}}, "author": "me"}`)
	got, faults := skills.Parse([]byte(text), "units", true)
	want := skills.Skill{
		Name: "units", Description: "Converts units. Use when: somebody asks.",
		AllowedTools: []string{"Read", "Grep", "Bash(python:*)"}, Metadata: map[string]string{"author": "me"},
		DisableModelInvocation: true,
	}
	if diff := cmp.Diff(want, got.Head(), cmpopts.IgnoreUnexported(skills.Skill{})); diff != "" {
		t.Error(diff)
	}
	var lines []int
	for _, f := range faults {
		lines = append(lines, f.Line)
	}
	if !allWarnings(faults) || !slices.Equal(lines, []int{3, 4, 5, 7, 8}) {
		t.Errorf("faults %q", faults)
	}
}

func TestFolderOfAnotherName(t *testing.T) {
	t.Parallel()
	_, faults := skills.Parse([]byte(withFront(sound)), "other", false)
	if fmt.Sprint(faults) != `[SKILL.md:2: directory name "other" must match skill name "my-skill"]` {
		t.Errorf("faults %v", faults)
	}
	if _, faults = skills.Parse([]byte(withFront(sound)), "other", true); len(faults) != 1 || !faults[0].Warning {
		t.Errorf("lenient: %v", faults)
	}
	decomposed := withFront("name: café\ndescription: d")
	if _, faults = skills.Parse([]byte(decomposed), "cafe\u0301", false); len(faults) != 0 {
		t.Errorf("decomposed: %v", faults)
	}
}

func TestFaultIsOneLine(t *testing.T) {
	t.Parallel()
	f := skills.Fault{Path: "a\nb\x1b[2J", Line: 3, Text: "x\u2028y\u202ez", Warning: true}
	if got := f.String(); got != "a?b?[2J:3: warning: x?y?z" {
		t.Errorf("got %q", got)
	}
}

func FuzzParse(f *testing.F) {
	for _, yaml := range []string{
		sound, "name: [a\ndescription: b", "a: &x 1\nb: *x", "? a\n: b", "x: |2-\n    a\n  b", "name: a\nname: b", "- a", "{a: b}", "a: !!str b",
		"d: Use: it\n\tx: y", "metadata:\n  a: {b: c}", "<<: *x", "'a': \"b\\x41\"", "%YAML 1.2", "description: >+\n\n\n", "a:\n- b\n- c: d",
	} {
		f.Add(withFront(yaml), true)
		f.Add(withFront(yaml), false)
	}
	f.Fuzz(func(t *testing.T, text string, lenient bool) {
		got, faults := skills.Parse([]byte(text), "", lenient)
		for _, fault := range faults {
			if strings.ContainsAny(fault.String(), "\n\x1b") || fault.Line < 0 || fault.Line > 1+strings.Count(text, "\n") {
				t.Errorf("fault %q in line %d", fault, fault.Line)
			}
		}
		if !allWarnings(faults) {
			return
		}
		if got.Name == "" || got.Description == "" || strings.ContainsAny(got.Name, " /\\.<>\"'`\x00\n") || !utf8.ValidString(got.Name) {
			t.Errorf("name %q, description %q", got.Name, got.Description)
		}
		if !strings.Contains(got.Text, got.Instructions) {
			t.Error("the instructions are not in the text")
		}
		if lenient {
			return
		}
		if utf8.RuneCountInString(got.Name) > 64 || got.Name != strings.ToLower(got.Name) || utf8.RuneCountInString(got.Description) > 1024 {
			t.Errorf("name %q, description of %d bytes", got.Name, len(got.Description))
		}
		if _, faults := skills.Parse([]byte(text), "", true); !allWarnings(faults) {
			t.Errorf("strict takes what lenient refuses: %v", faults)
		}
	})
}

func TestEmptyAllowedToolsAllowNothing(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`""`, `[]`, `[""]`, `null`, ``, `","`} {
		got, _ := skills.Parse([]byte(withFront("name: a\ndescription: b\nallowed-tools: "+value)), "", true)
		if got.AllowedTools == nil || len(got.AllowedTools) > 1 {
			t.Errorf("%q: %#v", value, got.AllowedTools)
		}
	}
}

func TestNamesHaveNoLettersThatAreNotSeen(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"units\u3164", "units\u115f", "\u1160", "un\uffa0its"} {
		if got, faults := skills.Parse([]byte(withFront("name: "+name+"\ndescription: b")), name, false); allWarnings(faults) {
			t.Errorf("%+q is taken as %+q", name, got.Name)
		}
	}
}
