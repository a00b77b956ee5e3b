package doctor_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/internal/doctor"
)

func TestSkills(t *testing.T) {
	t.Parallel()
	finds := func(names, faults []string, err error) doctor.Probe {
		return doctor.Skills(func(context.Context) ([]string, []string, error) { return names, faults, err })
	}
	expect(t, finds([]string{"a", "b"}, nil, nil), doctor.OK, "2 used: a, b")
	expect(t, finds([]string{"a"}, []string{"b/SKILL.md:1: oops"}, nil), doctor.Warn, "1 used: a\nb/SKILL.md:1: oops", "bot skills list")
	expect(t, finds(nil, nil, nil), doctor.Warn, "0 used")
	expect(t, finds(nil, nil, errors.New("oops")), doctor.Fail, "oops", "BOT_SKILLS_DIR")
	many := slices.Repeat([]string{"oops"}, 12)
	c := examine(t, finds([]string{"a"}, many, nil))
	if strings.Count(c.Detail, "oops") != 10 || !strings.HasSuffix(c.Detail, "\nand 2 more") || many[10] != "oops" {
		t.Errorf("%+v", c)
	}
}
