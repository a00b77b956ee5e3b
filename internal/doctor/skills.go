package doctor

import (
	"context"
	"fmt"
	"strings"
)

// SkillSettings say where the bot's skills are.
type SkillSettings struct {
	// Look returns how many can be used, and what is wrong with any: those that are left
	// out, and those that are used all the same.
	Look func(context.Context) (used int, faults, warnings []string, err error)
}

// Skills checks that the bot has skills.
func Skills(s SkillSettings) Probe {
	return Probe{"skills", func(ctx context.Context) Check { return lookAtSkills(ctx, s) }}
}

func lookAtSkills(ctx context.Context, s SkillSettings) Check {
	const validate = "bot skills validate names every fault; BOT_SKILLS_LENIENT=true lives with many"
	used, faults, warnings, err := s.Look(ctx)
	found := fmt.Sprintf("%d skills can be used", used)
	if used == 1 {
		found = "1 skill can be used"
	}
	switch {
	case err != nil:
		return fail(reason(err), "set BOT_SKILLS_DIR to a folder of skills")
	case used == 0:
		return warn(strings.Join(append([]string{"no skill can be used"}, faults...), "\n"), validate)
	case len(faults) > 0:
		return warn(found+", and others not:\n"+strings.Join(faults, "\n"), validate)
	case len(warnings) > 0:
		return ok(found + "\n" + strings.Join(warnings, "\n"))
	}
	return ok(found)
}
