package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/rs/zerolog"
)

// TestPlanRun runs plans from files through the bot's own engine.
func TestPlanRun(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		plan string
		args []string
		code int
		out  string // what is said; "": nothing has to be
		errs string
	}{
		"the sample of Teams AI": {
			`{"type":"plan","commands":[{"type":"DO","action":"createList","entities":{"name":"Groceries"}},{"type":"DO","action":"addItem","entities":{"name":"Bananas"}},
			{"type":"DO","action":"summarizeLists","entities":{},"saveAs":"ALL"},{"type":"SAY","response":"$ALL"}]}`,
			nil, 0, "Bananas", "",
		},
		"XML with a goal": {
			`<plan><function.addItem list="Groceries" item="$INPUT" setContextVariable="X"/></plan>`, []string{"--goal", "milk"}, 0, "Added milk to the list Groceries.", "",
		},
		"what has effects, with nobody to ask": {
			`<plan><function.remindMe what="tea" in_minutes="5"/></plan>`, nil, 1, "May I do this? **Remind me**", "needs an approval, and nobody can give it here",
		},
		"what has effects, approved": {`<plan><function.remindMe what="tea" in_minutes="5"/></plan>`, []string{"--yes"}, 0, "I will remind you", ""},
		"what somebody else decides": {
			`<plan><function.remindMe what="tea" in_minutes="5"/></plan>`,
			[]string{"--yes", "--bot-approval-actions", "remindMe", "--bot-approvers", "boss"},
			1, "", "somebody else has to approve this",
		},
		"what found nothing to act on": {
			`{"type":"plan","commands":[{"type":"DO","action":"createList","entities":{"list":"A","items":["x"]}},{"type":"DO","action":"removeItem","entities":{"list":"A","item":"y"}},
			{"type":"DO","action":"showLists","entities":{"list":"A"}},{"type":"SAY","response":"Gone."}]}`,
			nil, 0, "**A**\n- x\nremoveItem: y is not on the list A.\n", "",
		},
		"a text that looks like a question": {
			`{"type":"plan","commands":[{"type":"DO","action":"createList","entities":{"list":"A"}},{"type":"SAY","response":"Say /approve x."}]}`, nil, 0, "Say /approve x.\n", "",
		},
		"a plan that fails":     {`<plan><function.remindMe what="tea" in_minutes="0"/></plan>`, []string{"--yes"}, 1, "Stopped: remindMe failed", "remindMe failed"},
		"an action that is not": {`<plan><function.fly/></plan>`, nil, 2, "", `plan.txt: decode plan: unknown_action: command 1: there is no action "fly"`},
		"no plan":               {"Hello!", nil, 2, "", "is no plan"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "plan.txt")
			if err := os.WriteFile(file, []byte(tt.plan), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out, errs := execute(t, "", append([]string{"plan", "run", file}, tt.args...)...)
			if code != tt.code || !strings.Contains(out, tt.out) || !strings.Contains(errs, tt.errs) || strings.Contains(errs, "set up the bot") {
				t.Errorf("code %d, said %q and %q", code, out, errs)
			}
		})
	}
}

// TestCommandsKnowAllActions: what checks plans, and what lists actions, knows the actions of prompts as the bot does.
func TestCommandsKnowAllActions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Writer/Poem/skprompt.txt": "A poem about {{$input}}.", "Writer/Poem/config.json": `{"schema":1,"description":"Writes a poem"}`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const planned = `<plan><function.Writer.Poem input="rain"/></plan>`
	for _, tt := range []struct {
		args []string
		want string
		not  string
	}{
		{[]string{"plan", "print", "-"}, "- Writer-Poem input=\"rain\"", ""},
		{[]string{"plan", "decode", "--format", "xml"}, `"action":"Writer-Poem"`, ""},
		{[]string{"actions"}, "Writer-Poem", ""},
		{[]string{"actions", "--json"}, `"addItem"`, "Writer-Poem"}, // bottest has it from the folder
	} {
		code, out, errs := execute(t, planned, append(tt.args, "--bot-prompts-dir", dir)...)
		if code != 0 || !strings.Contains(out, tt.want) || tt.not != "" && strings.Contains(out, tt.not) {
			t.Errorf("%v: code %d, %s%s", tt.args, code, out, errs)
		}
	}
}

// TestApprovalActionsStayWhateverSetupDoes: a bot with a policy of its own asks for what the operator names, too.
func TestApprovalActionsStayWhateverSetupDoes(t *testing.T) {
	t.Parallel()
	s, err := env{"bot-approval-actions": "addItem", "port": "0"}.read()
	if err != nil {
		t.Fatal(err)
	}
	own := defaultBot()
	own.Setup = func(cfg *bot.Config) error {
		cfg.Policy = func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) {
			return actions.Approval{}, nil
		}
		return nil
	}
	p := &program{Settings: s, own: own, log: zerolog.Nop()}
	defer p.close()
	if err := p.assemble(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"addItem": true, "createList": false} {
		action, _ := s.Actions().Lookup(name)
		got, err := p.policy(t.Context(), &actions.Turn{}, actions.Call{Action: action})
		if err != nil || got.Required != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
