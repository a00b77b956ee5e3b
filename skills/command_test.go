package skills_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/skills"
)

func TestCommand(t *testing.T) {
	t.Parallel()
	hostile := files("haiku")
	hostile.Description = "See [here](https://evil) \\[there\\](https://evil) <at>all</at>\n# `x` *y* _z_"
	r := provide(t, skills.ProviderConfig{Approve: []string{skills.LoadSkill}}, hostile, files("sonnet"))
	const listed = "**/skill NAME** loads one, **/skill NAME text** uses it for that text, and **/skill off** unloads them all."
	const haiku = ": See \\[here\\](https://evil) \\\\\\[there\\\\\\](https://evil) &lt;at>all&lt;/at> # 'x' \\*y\\* \\_z\\_\n- **sonnet**"
	for _, c := range []struct{ words, reply, rest string }{
		{"", "Skills that I can use:\n\n- **haiku**" + haiku + ": d\n\n" + listed, ""},
		{"off", "No skill is loaded.", ""},
		{"off haiku", "The skill haiku is not loaded.", ""},
		{"  Haiku ", "Loaded the skill haiku.", ""},
		{"haiku", "The skill haiku is already loaded.", ""},
		{" ", "Skills that I can use:\n\n- **haiku** (loaded)" + haiku + ": d\n\n" + listed, ""},
		{"haiku write one\nabout rain ", "", "write one\nabout rain"},
		{"sonnet\nwrite  one", "", "write  one"},
		{"sonett write one", "I have no skill 'sonett'. Did you mean 'sonnet'? Say **/skill** for a list.", ""},
		{"<b>[x](y)</b>", "I have no skill '&lt;b>\\[x\\](y)&lt;/b>'. Say **/skill** for a list.", ""},
		{"OFF Sonnet", "Unloaded: sonnet.", ""},
		{"sonnet", "Loaded the skill sonnet.", ""},
		{"off", "Unloaded: haiku, sonnet.", ""},
	} {
		reply, rest, err := r.Command(t.Context(), r.turn("mia"), c.words)
		if err != nil || reply != c.reply || rest != c.rest {
			t.Errorf("/skill %s: %v\ngot  %q and %q\nwant %q and %q", c.words, err, reply, rest, c.reply, c.rest)
		}
	}
	long := files("long")
	long.Description = strings.Repeat("x", 1000)
	talks := provide(t, skills.ProviderConfig{}, long)
	if reply, _, err := talks.Command(t.Context(), talks.turn("mia"), ""); err != nil || len(reply) > 500 || !strings.Contains(reply, "xxx…") {
		t.Errorf("%q, %v", reply, err)
	}
	none := provide(t, skills.ProviderConfig{})
	if reply, _, err := none.Command(t.Context(), none.turn("mia"), ""); err != nil || reply != "I have no skills here." {
		t.Errorf("%q, %v", reply, err)
	}
	away := provide(t, skills.ProviderConfig{Sources: []skills.Source{failing}})
	if _, _, err := away.Command(t.Context(), away.turn("mia"), ""); !errors.Is(err, errSource) {
		t.Error(err)
	}
}

func TestASkillThatAPersonNamesIsLoaded(t *testing.T) {
	t.Parallel()
	for words, turns := range map[string]int{"haiku": 5, "haiku write one": 6} { // with a text, the turn itself is planned
		r := provide(t, skills.ProviderConfig{}, files("haiku"), files("sonnet"))
		turn := r.turn("mia")
		r.told(turn, skills.LoadSkill, `{"skillName":"sonnet"}`)
		turn = r.turn("mia")
		if _, _, err := r.Command(t.Context(), turn, words); err != nil {
			t.Fatal(err)
		}
		for i := range turns {
			if i > 0 || turns == 5 {
				turn = r.turn("mia")
			}
			r.sees(turn, "haiku", 1)
		}
		r.sees(r.turn("mia"), "haiku", 0)
	}
}
