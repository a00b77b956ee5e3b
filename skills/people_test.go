package skills_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/skills"
)

// quiet is a skill from files that only people can load.
func quiet(name string) *skills.Skill {
	s := files(name)
	s.DisableModelInvocation = true
	return s
}

// TestASkillForPeople follows a skill that the model is not told of, until a person loads it.
func TestASkillForPeople(t *testing.T) {
	t.Parallel()
	r := provide(t, skills.RunBy(&runner{digest: "d"}, skills.ProviderConfig{Approve: []string{}}), files("haiku"), quiet("secret"))
	turn := r.turn("mia")
	hidden := func() {
		t.Helper()
		if seen := r.seen(turn); strings.Contains(seen, "secret") || !strings.Contains(seen, "\nhaiku: d\n") {
			t.Errorf("the model is told\n%s", seen)
		}
		if enum := r.skillsOf(skills.ReadResource); slices.Contains(enum, any("secret")) {
			t.Errorf("the model is offered %v", enum)
		}
		for tool, entities := range map[string]string{
			skills.LoadSkill:    `{"skillName":"secret"}`,
			skills.ReadResource: `{"skillName":"secret","resourceName":"r"}`,
			skills.RunScript:    `{"skillName":"secret","scriptName":"run.sh"}`,
		} {
			if got := r.told(r.turn("mia"), tool, entities); got != "Error: Skill 'secret' not found." {
				t.Errorf("%s: %q", tool, got)
			}
		}
	}
	hidden()
	if reply, _, err := r.Command(t.Context(), turn, ""); err != nil || !strings.Contains(reply, "**secret**: d") {
		t.Errorf("the person is told %q, %v", reply, err)
	}
	if reply, _, err := r.Command(t.Context(), turn, "Secret"); err != nil || reply != "Loaded the skill secret." {
		t.Errorf("%q, %v", reply, err)
	}
	turn = r.turn("mia")
	r.sees(turn, "secret", 1)
	if seen := r.seen(turn); strings.Contains(seen, "\nsecret: ") {
		t.Errorf("it is listed:\n%s", seen)
	}
	for tool, want := range map[string]bool{skills.LoadSkill: false, skills.ReadResource: true, skills.RunScript: true} {
		if got := slices.Contains(r.skillsOf(tool), any("secret")); got != want {
			t.Errorf("%s offers it: %v", tool, got)
		}
	}
	if got := r.told(turn, skills.RunScript, `{"skillName":"secret","scriptName":"run.sh"}`); got != "ran scripts/run.sh of secret" {
		t.Error(got)
	}
	for range 5 { // the last that uses it is this one
		turn = r.turn("mia")
		r.sees(turn, "secret", 1)
	}
	turn = r.turn("mia")
	hidden()
	if text := r.prompt("secret"); !strings.Contains(text, "The rule of secret is this.") {
		t.Errorf("whoever writes it sees\n%s", text)
	}
	alone := provide(t, skills.ProviderConfig{}, quiet("secret"))
	if extra := alone.extend(alone.turn("mia")); extra.Text != "" {
		t.Errorf("without others:\n%s", extra.Text)
	}
}

// skillsOf are the skills that a tool is offered with.
func (r *rig) skillsOf(tool string) []any {
	r.t.Helper()
	turn := r.turn("mia")
	turn.ID = "" // it is none of its own
	offered, err := r.extend(turn).Offer(r.reg)
	if err != nil {
		r.t.Fatal(err)
	}
	a, _ := offered.Lookup(tool)
	return a.ForModels().Properties["skillName"].Enum
}

func TestWhoMayLoadASkill(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{"true": true, "TRUE": true, `"true"`: true, "yes": true, "1": true, "false": false, "no": false, "": false} {
		text := []byte(withFront("name: a\ndescription: b\ndisable-model-invocation: " + value))
		got, faults := skills.Parse(text, "", true)
		if got.DisableModelInvocation != want || len(faults) != 1 || !faults[0].Warning || faults[0].Line != 4 {
			t.Errorf("%q: %v, %v", value, got.DisableModelInvocation, faults)
		}
		if _, faults := skills.Parse(text, "", false); allWarnings(faults) || !strings.Contains(faults[0].Text, "Unexpected fields") {
			t.Errorf("%q is strict: %v", value, faults)
		}
	}
}
