package doctor

import (
	"context"
	"fmt"
	"strings"
)

// maxSkillFaults are shown; a folder may have hundreds.
const maxSkillFaults = 10

// Skills checks the folders of skills. find returns the names of those that would be used,
// and everything that is wrong, a line each; its error is that of looking.
func Skills(find func(context.Context) (names, faults []string, err error)) Probe {
	return Probe{"skills", func(ctx context.Context) Check {
		names, faults, err := find(ctx)
		if err != nil {
			return fail(reason(err), "BOT_SKILLS_DIR names folders of skills, parted as in PATH")
		}
		detail := fmt.Sprintf("%d used", len(names))
		if len(names) > 0 {
			detail += ": " + strings.Join(names, ", ")
		}
		if len(names) > 0 && len(faults) == 0 {
			return ok(detail)
		}
		shown := faults
		if len(shown) > maxSkillFaults {
			shown = append(shown[:maxSkillFaults:maxSkillFaults], fmt.Sprintf("and %d more", len(faults)-maxSkillFaults))
		}
		return warn(strings.Join(append([]string{detail}, shown...), "\n"), "bot skills list shows the same, with --lenient and --links where they are set; docs/skills.md explains how a SKILL.md is written")
	}}
}
