package doctor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/planbot-go/planbot/internal/doctor"
)

func TestSkills(t *testing.T) {
	t.Parallel()
	finds := func(used int, faults, warnings []string, err error) doctor.Probe {
		return doctor.Skills(doctor.SkillSettings{Look: func(context.Context) (int, []string, []string, error) { return used, faults, warnings, err }})
	}
	faults, warnings := []string{"a/SKILL.md:2: name"}, []string{"b/SKILL.md:3: warning: license"}
	expect(t, finds(2, nil, nil, nil), doctor.OK, "2 skills can be used")
	expect(t, finds(1, nil, warnings, nil), doctor.OK, "1 skill can be used\nb/SKILL.md:3: warning: license")
	expect(t, finds(1, faults, warnings, nil), doctor.Warn, "1 skill can be used, and others not:\na/SKILL.md:2: name", "bot skills validate", "BOT_SKILLS_LENIENT")
	expect(t, finds(0, faults, nil, nil), doctor.Warn, "no skill can be used\na/SKILL.md:2: name", "bot skills validate")
	expect(t, finds(0, nil, nil, errors.New("no roots")), doctor.Fail, "no roots", "BOT_SKILLS_DIR")
}
