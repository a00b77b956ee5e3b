package doctor

import (
	"context"
	"fmt"
	"strings"
)

// Settings tells whether the settings make sense: err is nil, or names the
// mistakes, one a line. Warnings are about what works, but perhaps not as it is meant.
func Settings(err error, warnings []string) Probe {
	return Probe{"settings", func(context.Context) Check {
		const hint = "each line names the variable to mend; README.md explains them all"
		switch {
		case err != nil:
			return fail(err.Error(), hint)
		case len(warnings) > 0:
			return warn(strings.Join(warnings, "\n"), hint)
		}
		return ok("no contradictions")
	}}
}

// Prompts checks that the prompts in dir can be read; "" is the embedded ones
// alone. load returns the names of all prompts.
func Prompts(dir string, load func(dir string) (names []string, err error)) Probe {
	return Probe{"prompts", func(context.Context) Check {
		names, err := load(dir)
		switch {
		case err != nil:
			return fail(err.Error(), "BOT_PROMPTS_DIR names a folder with one folder for each prompt; unset it for the embedded prompts")
		case dir == "":
			return ok(fmt.Sprintf("embedded (%s)", strings.Join(names, ", ")))
		}
		return ok(fmt.Sprintf("embedded, and those in %s before them (%s)", dir, strings.Join(names, ", ")))
	}}
}
