package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"
)

// skillTree makes a folder with these files.
func skillTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestSkillsCommands(t *testing.T) {
	t.Parallel()
	root := skillTree(t, map[string]string{
		"good/units/SKILL.md":              "\ufeff---\nname: units\ndescription: \"Converts \\e[31munits\"\nlicense: MIT\nmetadata:\n  version: 1.0\nallowed-tools: Read\n---\n# Units\n\n\tRun \x1b[2Jconvert.\n",
		"good/units/scripts/convert.py":    "print(1)",
		"good/units/references/factors.md": "1",
		"good/units/references/bin.txt":    "\xff\xfe",
		"mixed/units/SKILL.md":             "---\nname: Units\ndescription: d\nversion: 1\n---\n",
		"mixed/other/SKILL.md":             "---\nname: other\ndescription: d\n---\n",
		"mixed/none/readme.md":             "",
		"empty/x":                          "",
		"quiet/SKILL.md":                   "---\nname: quiet\ndescription: d\ndisable-model-invocation: true\n---\n",
	})
	quiet := filepath.Join(root, "quiet")
	good, mixed, empty := filepath.Join(root, "good"), filepath.Join(root, "mixed"), filepath.Join(root, "empty")
	for name, c := range map[string]struct {
		args []string
		code int
		out  []string // parts of standard output
		err  []string // and of standard error
	}{
		"validate a folder":    {[]string{"validate", good}, 0, []string{"1 skill is fine\n"}, nil},
		"validate one":         {[]string{"validate", good + "/units", mixed + "/other"}, 0, []string{"2 skills are fine\n"}, nil},
		"validate faults":      {[]string{"validate", mixed}, cli.ExitFailed, []string{mixed + "/none/SKILL.md: Missing required file: SKILL.md", "units/SKILL.md:2: name \"Units\" has to be lowercase", "units/SKILL.md:4: Unexpected fields"}, nil},
		"validate no SKILL":    {[]string{"validate", empty}, cli.ExitFailed, []string{empty + "/SKILL.md: Missing required file: SKILL.md"}, nil},
		"validate nowhere":     {[]string{"validate", root + "/nowhere"}, cli.ExitFailed, []string{"nowhere: does not exist"}, nil},
		"validate leniently":   {[]string{"validate", "--lenient", mixed + "/units"}, 0, []string{":2: warning: ", ":4: warning: ", "1 skill is fine"}, nil},
		"validate setting":     {[]string{"validate", "--bot-skills-dir=" + good}, 0, []string{"1 skill is fine"}, nil},
		"validate nothing":     {[]string{"validate"}, cli.ExitUsage, nil, []string{"BOT_SKILLS_DIR"}},
		"list":                 {[]string{"list", good}, 0, []string{"SKILL  RESOURCES  SCRIPTS  DESCRIPTION\n", "units  2          1        Converts \uFFFD[31munits\n"}, nil},
		"list with faults":     {[]string{"list", mixed}, 0, []string{"other  0          0        d\n"}, []string{"units/SKILL.md:2: "}},
		"list nothing":         {[]string{"list", empty}, cli.ExitFailed, nil, []string{"found no skill"}},
		"list setting":         {[]string{"list", "--bot-skills-dir=" + good}, 0, []string{"units"}, nil},
		"show":                 {[]string{"show", "units", good}, 0, []string{"name           units\n", "license        MIT\n", "metadata       version: 1.0\n", "allowed tools  Read\n", "references/bin.txt (binary, 2 bytes, text/plain)", "references/factors.md (text, 1 bytes, text/markdown)", "script         scripts/convert.py\n", "\n# Units\n\n    Run \uFFFD[2Jconvert.\n"}, nil},
		"show by another name": {[]string{"show", "./UNITS", good}, 0, []string{"name           units\n"}, nil},
		"show for people":      {[]string{"show", "quiet", quiet, "--lenient"}, 0, []string{"loaded by    people alone, with /skill quiet\n"}, []string{"disable-model-invocation"}},
		"show what is faulty":  {[]string{"show", "Units", mixed}, cli.ExitFailed, nil, []string{"units/SKILL.md:2: ", `no skill "Units", there are: other`}},
		"show from nothing":    {[]string{"show", "units", empty}, cli.ExitFailed, nil, []string{"found no skill"}},
		"validate two":         {[]string{"validate", "--lenient", mixed + "/units", good}, 0, []string{"good/units/SKILL.md: warning: is not used: the skill \"Units\" in " + mixed + "/units comes first\n", "1 skill is fine"}, nil},
		"list two of a name":   {[]string{"list", "--lenient", mixed, good}, 0, []string{"DESCRIPTION\nother  0          0        d\nUnits  0          0        d\n"}, []string{"good/units/SKILL.md: warning: is not used"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := execute(t, "", append([]string{"skills"}, c.args...)...)
			if code != c.code || (len(c.out) == 0) != (out == "") || (len(c.err) == 0) != (errs == "") {
				t.Fatalf("exit code %d, want %d, output:\n%s\nerrors:\n%s", code, c.code, out, errs)
			}
			for _, part := range c.out {
				if !strings.Contains(out, part) {
					t.Errorf("no %q in:\n%s", part, out)
				}
			}
			for _, part := range c.err {
				if !strings.Contains(errs, part) {
					t.Errorf("no %q in:\n%s", part, errs)
				}
			}
			if strings.Contains(out+errs, "\x1b") {
				t.Error("an escape reached the terminal")
			}
		})
	}
}

func TestSkillsValidateJSON(t *testing.T) {
	t.Parallel()
	root := skillTree(t, map[string]string{"a/SKILL.md": "---\nname: a\n---\n", "b/SKILL.md": "---\nname: b\ndescription: d\n---\n"})
	type fault struct {
		Path    string `json:"path"`
		Line    int    `json:"line"`
		Text    string `json:"text"`
		Warning bool   `json:"warning"`
	}
	type answer struct {
		Valid  bool     `json:"valid"`
		Skills int      `json:"skills"`
		Faults *[]fault `json:"faults"`
	}
	code, out, _ := execute(t, "", "skills", "validate", "--json", root)
	var got answer
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != cli.ExitFailed || got.Valid || got.Skills != 1 || got.Faults == nil || len(*got.Faults) != 1 {
		t.Fatalf("exit code %d, %v, output:\n%s", code, err, out)
	}
	if f := (*got.Faults)[0]; f.Path != filepath.Join(root, "a", "SKILL.md") || !strings.Contains(f.Text, "description") || f.Warning {
		t.Errorf("fault %+v", f)
	}
	code, out, _ = execute(t, "", "skills", "validate", "--json", filepath.Join(root, "b"))
	got = answer{}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || !got.Valid || got.Skills != 1 || got.Faults == nil || len(*got.Faults) != 0 {
		t.Errorf("exit code %d, %v, output:\n%s", code, err, out)
	}
}

// The doctor tells of skills as the bot would use them.
func TestDoctorLooksAtSkills(t *testing.T) {
	t.Parallel()
	root := skillTree(t, map[string]string{
		"good/b/SKILL.md": "---\nname: b\ndescription: d\n---\n", "mixed/b/SKILL.md": "---\nname: b\ndescription: d\n---\n", "mixed/c/SKILL.md": "---\nname: d\ndescription: d\n---\n",
		"bad/a/SKILL.md": "oops",
	})
	in := func(names ...string) string {
		for i, name := range names {
			names[i] = filepath.Join(root, name)
		}
		return "--bot-skills-dir=" + strings.Join(names, string(filepath.ListSeparator))
	}
	for name, c := range map[string]struct {
		args   []string
		status string
		detail []string
	}{
		"fine":    {[]string{in("good")}, "ok", []string{"1 used: b"}},
		"bad":     {[]string{in("bad")}, "warn", []string{"0 used\n", "a/SKILL.md:1: must start"}},
		"both":    {[]string{in("good", "mixed")}, "warn", []string{"1 used: b\n", "mixed/b/SKILL.md: warning: is not used", "c/SKILL.md:2: directory name"}},
		"lenient": {[]string{in("good", "mixed"), "--bot-skills-lenient=true"}, "warn", []string{"2 used: b, d\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := execute(t, "", append([]string{"doctor", "--port=0", "--bot-skills-sandbox=none", "--json"}, c.args...)...)
			var checks []check
			if err := json.Unmarshal([]byte(out), &checks); err != nil || code != 0 {
				t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
			}
			i := slices.IndexFunc(checks, func(c check) bool { return c.Name == "skills" })
			if i < 0 || string(checks[i].Status) != c.status {
				t.Fatalf("checks %+v", checks)
			}
			for _, part := range c.detail {
				if !strings.Contains(checks[i].Detail+"\n", part) {
					t.Errorf("no %q in %q", part, checks[i].Detail)
				}
			}
		})
	}
}
