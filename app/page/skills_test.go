package page_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/app/page"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/state"
)

// folderWith is a folder with these files.
func folderWith(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

type faultOf struct {
	Path, Text string
	Line       int
	Warning    bool
}

type skillsSeen struct {
	Version int
	Scripts string
	Skills  []struct {
		Name, Source, Digest, DigestOfAll string
		Resources, Loaded                 []string
		Scripts                           []struct{ Name, Refused string }
		Faults                            []faultOf
	}
	Others []faultOf
}

func TestSkills(t *testing.T) {
	t.Parallel()
	dir := folderWith(t, map[string]string{
		"vacation/SKILL.md":     "---\nname: vacation\ndescription: How to take a vacation, " + strings.Repeat("x", 500) + "\nmetadata:\n  who: \"" + `<img src=x onerror=alert(1)>` + "\"\n---\nAsk first.",
		"vacation/rules.md":     "Rules.",
		"vacation/count.py":     "print(1)",
		"strange/SKILL.md":      "---\nname: strange\ndescription: \"" + `</p><script>alert(1)</script>\u202egnp.exe\u0007` + "\"\nunknown: 1\n---\n<script>alert(1)</script>",
		"broken/SKILL.md":       "---\nname: Broken Name\ndescription: [1]\n---\nNo.",
		"endless/SKILL.md":      "---\nname: endless\ndescription: fine\n---\n" + strings.Repeat("C", 200<<10),
		"<img src=x>/SKILL.md":  "---\nname: other\n---\n",
		"again/deep/x/SKILL.md": "nothing",
	})
	c := setup(t, set{parts: page.Parts{Skills: skills.Config{Roots: []string{dir}, Lenient: true}, Scripts: "scripts of skills are refused: there is none"}})
	c.say("mia", "hello")
	head := c.page.Turns().Turns()[0]
	rec, _ := c.page.Turns().Turn(head.ID)
	var a struct{ Recipient struct{ ID string } }
	if err := json.Unmarshal(rec.Received.Activity, &a); err != nil {
		t.Fatal(err)
	}
	scopes, err := c.bot.Store().Load(t.Context(), state.ConversationKey("msteams", a.Recipient.ID, head.Conversation))
	if err != nil {
		t.Fatal(err)
	}
	*state.At[map[string]any](scopes[0], "skills") = map[string]any{"loaded": []any{map[string]any{"skill": "vacation"}}}
	if err := c.bot.Store().Save(t.Context(), scopes...); err != nil {
		t.Fatal(err)
	}
	var seen skillsSeen
	if err := json.Unmarshal([]byte(c.get("/dev/skills.json")), &seen); err != nil || seen.Version != 1 {
		t.Fatal(err, seen.Version)
	}
	at := func(name string) int {
		for i, s := range seen.Skills {
			if s.Name == name {
				return i
			}
		}
		t.Fatalf("no skill %s in %+v", name, seen)
		return 0
	}
	one := seen.Skills[at("vacation")]
	if !slices.Equal(one.Loaded, []string{"Mia Meyer"}) || one.Source != filepath.Join(dir, "vacation") || len(one.Digest) != 64 || len(one.DigestOfAll) < 32 ||
		!slices.Equal(one.Resources, []string{"rules.md"}) || len(one.Scripts) != 1 || one.Scripts[0].Refused != "there is no sandbox" {
		t.Errorf("got %+v", one)
	}
	if other := seen.Skills[at("endless")]; len(other.Loaded) > 0 || other.Digest == one.Digest {
		t.Errorf("got %+v", other)
	}
	strange := seen.Skills[at("strange")]
	if len(strange.Faults) == 0 || !strange.Faults[0].Warning || strange.Faults[0].Line == 0 {
		t.Errorf("a small fault is not at its skill: %+v", strange)
	}
	broken := func(f faultOf) bool { return strings.Contains(f.Path, "broken") && !f.Warning && f.Line > 0 }
	if !slices.ContainsFunc(seen.Others, broken) {
		t.Errorf("what is wrong with a skill that cannot be used: %+v", seen.Others)
	}
	body := c.get("/dev/skills")
	noScript(t, body)
	for _, want := range []string{`data-skill="vacation"`, "cannot run: there is no sandbox", "Mia Meyer", one.Digest, "scripts of skills are refused", ">What is not used, and why<"} {
		if !strings.Contains(body, want) {
			t.Errorf("the view lacks %q", want)
		}
	}
}
