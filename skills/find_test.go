package skills_test

import (
	"strings"
	"testing"

	"github.com/planbot-go/planbot/skills"
)

func TestNamesThatModelsWrite(t *testing.T) {
	t.Parallel()
	s := files("s")
	s.Resources = nil
	for _, name := range []string{"README.md", "Readme.md", "a.md", "docs/guide.md", "docs/sub/deep.json", "one/same.md", "two/same.md", "two/both.md", "two/both.csv", "straße.txt", "x/y", "re\u0301sume\u0301.md", "x\u00b2.md", "ガ.txt", "カ\u3099.txt"} {
		s.Resources = append(s.Resources, skills.Resource{Name: name})
	}
	r := provide(t, skills.ProviderConfig{}, s)
	policy := provide(t, skills.ProviderConfig{Approve: []string{skills.ReadResource}}, s)
	for given, want := range map[string]string{ // with a space in front: what is suggested
		"a.md":                    "a.md",
		" a.md\n":                 "a.md",
		"./a.md":                  "a.md",
		"A.MD":                    "a.md",
		"a":                       "a.md",
		"README.md":               "README.md",
		"Readme.md":               "Readme.md",
		"readme.md":               " 'README.md' or 'Readme.md'",
		"docs/guide.md":           "docs/guide.md",
		`.\docs\Guide.md`:         "docs/guide.md",
		"docs/guide":              "docs/guide.md",
		"guide.md":                "docs/guide.md",
		"GUIDE":                   "docs/guide.md",
		"./guide":                 "docs/guide.md",
		"deep":                    "docs/sub/deep.json",
		"other/guide.md":          " 'docs/guide.md'",
		"../docs/guide.md":        " 'docs/guide.md'",
		"/docs/guide.md":          " 'docs/guide.md'",
		"same.md":                 " 'one/same.md' or 'two/same.md'",
		"same":                    " 'one/same.md' or 'two/same.md'",
		"two/same":                "two/same.md",
		"both":                    " 'two/both.md' or 'two/both.csv'",
		"two/both":                " 'two/both.md' or 'two/both.csv'",
		"both.csv":                "two/both.csv",
		"STRASSE.txt":             " 'straße.txt'",
		"straße\u0308":            " 'straße.txt'",
		"gide.md":                 " 'docs/guide.md'",
		"re\u0301sume\u0301.md":   "re\u0301sume\u0301.md", // as it is listed
		"r\u00e9sum\u00e9":        "re\u0301sume\u0301.md",
		"x\u00b2.md":              "x\u00b2.md",
		"x2.md":                   "x\u00b2.md",
		"ガ.txt":                   "ガ.txt",
		"カ\u3099.txt":             "カ\u3099.txt",
		"nothing like that":       "",
		"":                        "",
		"y":                       "x/y",
		"x":                       "",
		"\u202ea.md":              " 'a.md'",
		strings.Repeat("a", 9000): "",
	} {
		suggested, isSuggested := strings.CutPrefix(want, " ")
		got := policy.judge(policy.Policy(nil), policy.turn("mia"), skills.ReadResource, map[string]any{"skillName": "s", "resourceName": given}).Reason
		if found := "Reads " + want + " of the skill s."; !isSuggested && want != "" && got != found || (isSuggested || want == "") && got != "" {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
		if !isSuggested && want != "" || given == "" {
			continue
		}
		answer, err := r.call(r.turn("mia"), skills.ReadResource, `{"skillName":"s","resourceName":`+quote(given)+`}`)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(answer.Text(), "not found in skill 's'.")
		if suggested != "" {
			suggested = " Did you mean " + suggested + "?"
		}
		if after != suggested || len(answer.Text()) > 300 {
			t.Errorf("%q: %q, want %q", given, answer.Text(), suggested)
		}
	}
}
