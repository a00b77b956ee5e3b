package app

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/cli"
)

func TestSkillsPrompt(t *testing.T) {
	t.Parallel()
	root := skillTree(t, map[string]string{
		"good/units/SKILL.md":              "---\nname: units\ndescription: \"Converts \\e[31munits & <more>\"\n---\n# Units\n\n\tRun \x1b[2Jconvert.\n",
		"good/units/scripts/convert.sh":    "echo 1",
		"good/units/scripts/convert.csx":   "",
		"good/units/references/factors.md": "1",
		"good/haiku/SKILL.md":              "---\nname: haiku\ndescription: Writes poems\n---\nCount.\n",
		"mixed/units/SKILL.md":             "---\nname: Units\ndescription: d\n---\n",
		"mixed/other/SKILL.md":             "---\nname: other\ndescription: d\n---\n",
		"empty/x":                          "",
	})
	good, mixed, empty := filepath.Join(root, "good"), filepath.Join(root, "mixed"), filepath.Join(root, "empty")
	for name, c := range map[string]struct {
		args []string
		code int
		out  []string // parts of standard output
		err  []string // and of standard error
	}{
		"all": {[]string{"--dir=" + good}, 0, []string{
			"<available_skills>\nhaiku: Writes poems\nunits: Converts [31munits &amp; &lt;more&gt;\n</available_skills>\n",
			"\nload_skill(skillName: \"haiku\"|\"units\" ", "\nread_skill_resource(skillName: \"units\" ", "arguments?: string[] ",
		}, nil},
		"two folders":  {[]string{"--dir=" + mixed, "--dir=" + good}, 0, []string{"\nhaiku: ", "\nother: d\n", "\nunits: "}, []string{"units/SKILL.md:2: "}},
		"one":          {[]string{"Units", "--dir=" + good}, 0, []string{"The skill units is loaded. ", "<skill_content name=\"units\">\n---\nname: units\n", "\n    Run \uFFFD[2Jconvert.\n", "<resource name=\"references/factors.md\"/>\n", "<script name=\"scripts/convert.sh\">\n"}, nil},
		"setting":      {[]string{"haiku", "--bot-skills-dir=" + good}, 0, []string{"Count."}, nil},
		"unknown":      {[]string{"unit", "--dir=" + good}, cli.ExitFailed, nil, []string{"Skill 'unit' not found. Did you mean 'units'?"}},
		"nothing":      {[]string{"--dir=" + empty}, cli.ExitFailed, nil, []string{"found no skill"}},
		"no folder":    {nil, cli.ExitUsage, nil, []string{"BOT_SKILLS_DIR"}},
		"by the names": {[]string{"a", "b"}, cli.ExitUsage, nil, []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := execute(t, "", append([]string{"skills", "prompt"}, c.args...)...)
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
			if strings.Contains(out, ".csx") {
				t.Error("a script that nothing here runs is told")
			}
			if strings.Contains(out+errs, "\x1b") {
				t.Error("an escape reached the terminal")
			}
		})
	}
}
