package doctor_test

import (
	"context"
	"errors"
	"testing"

	"github.com/planbot-go/planbot/internal/doctor"
)

func TestScripts(t *testing.T) {
	t.Parallel()
	opens := func(box doctor.ScriptSandbox, err error) func(context.Context) (doctor.ScriptSandbox, error) {
		return func(context.Context) (doctor.ScriptSandbox, error) { return box, err }
	}
	none := opens(doctor.ScriptSandbox{}, errors.New("bubblewrap: no bwrap\nlandlock: no Landlock"))
	commands := map[string][]string{".sh": {"/usr/bin/bash"}, ".py": {"/usr/bin/python3", "-B"}}
	expect(t, doctor.Scripts(doctor.ScriptSettings{}), doctor.OK, "refused", "BOT_SKILLS_SANDBOX")
	expect(t, doctor.Scripts(doctor.ScriptSettings{Open: none}), doctor.Warn, "no bwrap", "no Landlock", "refused", "bubblewrap, and", "none")
	expect(t, doctor.Scripts(doctor.ScriptSettings{Open: none, Required: true}), doctor.Fail, "no Landlock", "auto")
	expect(t, doctor.Scripts(doctor.ScriptSettings{Open: opens(doctor.ScriptSandbox{Kind: "bubblewrap", Interpreters: commands}, nil)}),
		doctor.OK, "run in bubblewrap: .py by /usr/bin/python3, .sh by /usr/bin/bash")
	expect(t, doctor.Scripts(doctor.ScriptSettings{Open: opens(doctor.ScriptSandbox{Kind: "bubblewrap"}, nil)}), doctor.Warn, "no interpreter")
	second := doctor.ScriptSandbox{Kind: "landlock", Interpreters: commands, Refused: []error{errors.New("bubblewrap: no bwrap")}}
	expect(t, doctor.Scripts(doctor.ScriptSettings{Open: opens(second, nil)}), doctor.OK, "run in landlock", "not in bubblewrap: no bwrap")
}
