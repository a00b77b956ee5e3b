package skills_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills"
)

// reloading is a source whose skills differ each time that it is asked, as while they are
// changed on disk.
func reloading(t *testing.T, lists ...[]*skills.Skill) skills.Source {
	t.Helper()
	return skills.Source(func(context.Context, *actions.Turn) ([]*skills.Skill, error) {
		list := lists[0]
		if len(lists) > 1 {
			lists = lists[1:]
		}
		return list, nil
	})
}

// TestWhatDidNotPassIsNotDone changes the skills between the policy and the call.
func TestWhatDidNotPassIsNotDone(t *testing.T) {
	t.Parallel()
	all := []string{skills.LoadSkill, skills.ReadResource, skills.RunScript}
	here, other, none := []*skills.Skill{files("a")}, []*skills.Skill{files("b"), files("a")}, []*skills.Skill(nil)
	shorter := files("a")
	shorter.Scripts, shorter.Resources = shorter.Scripts[1:], nil
	harmless, wild := script("go", "Does this."), script("go", "Does something else.")
	const again = " has changed while it was being asked whether it may be used. Please try again."
	for name, c := range map[string]struct {
		tool, entities string
		approve        []string
		lists          [][]*skills.Skill
		want           string // "": it is done
	}{
		"loads":              {skills.LoadSkill, `{"skillName":"a"}`, all, [][]*skills.Skill{here}, ""},
		"loads what came":    {skills.LoadSkill, `{"skillName":"a"}`, all, [][]*skills.Skill{none, here}, "Error: Skill 'a'" + again},
		"loads unasked":      {skills.LoadSkill, `{"skillName":"a"}`, all[2:], [][]*skills.Skill{here}, ""},
		"loads another":      {skills.LoadSkill, `{"skillName":"A"}`, all, [][]*skills.Skill{{files("A")}, here}, "Error: Skill 'a'" + again},
		"reads what came":    {skills.ReadResource, `{"skillName":"a","resourceName":"r"}`, all, [][]*skills.Skill{{shorter}, here}, "Error: Resource 'references/r.md'" + again},
		"runs":               {skills.RunScript, `{"skillName":"a","scriptName":"run.sh"}`, all, [][]*skills.Skill{here}, ""},
		"runs what came":     {skills.RunScript, `{"skillName":"a","scriptName":"run.sh"}`, all, [][]*skills.Skill{none, here}, "Error: Script 'scripts/run.sh'" + again},
		"runs unasked":       {skills.RunScript, `{"skillName":"a","scriptName":"run.sh"}`, []string{}, [][]*skills.Skill{none, here}, "Error: Script 'scripts/run.sh'" + again},
		"runs another":       {skills.RunScript, `{"skillName":"a","scriptName":"run"}`, all, [][]*skills.Skill{{shorter}, {script("run", "")}}, "Error: Script 'run'" + again},
		"of a larger source": {skills.RunScript, `{"skillName":"a","scriptName":"run.sh"}`, all, [][]*skills.Skill{here, other}, ""},
		"runs in Go":         {skills.RunScript, `{"skillName":"a","scriptName":"go"}`, all, [][]*skills.Skill{{harmless}}, ""},
		"another in Go":      {skills.RunScript, `{"skillName":"a","scriptName":"go"}`, all, [][]*skills.Skill{{harmless}, {wild}}, "Error: Script 'go'" + again},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sandbox := &runner{digest: "d"}
			r := provide(t, skills.RunBy(sandbox, skills.ProviderConfig{Approve: c.approve, Sources: []skills.Source{reloading(t, c.lists...)}}))
			result, err := r.call(r.turn("mia"), c.tool, c.entities)
			if err != nil || result.Failed() != (c.want != "") || c.want != "" && result.Text() != c.want {
				t.Errorf("%v, %q, want %q", err, result.Text(), c.want)
			}
			if c.want != "" && len(sandbox.ran) > 0 {
				t.Errorf("ran %v", sandbox.ran)
			}
		})
	}
}

// script is the skill a with a Go script.
func script(name, about string, marks ...actions.Option) *skills.Skill {
	s := &skills.Skill{
		Name: "a", Description: "d", Instructions: "i",
		Scripts: []skills.Script{
			skills.Func(name, about, func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
				return actions.Text("done"), nil
			}, marks...),
		},
	}
	return s
}

// TestAnEarlierCallAllowsNoLaterOne runs a script, and then asks for it again while it is
// away.
func TestAnEarlierCallAllowsNoLaterOne(t *testing.T) {
	t.Parallel()
	here := []*skills.Skill{files("a")}
	sandbox := &runner{digest: "d"}
	r := provide(t, skills.RunBy(sandbox, skills.ProviderConfig{Sources: []skills.Source{reloading(t, here, here, nil, here)}}))
	turn := r.turn("mia")
	r.told(turn, skills.RunScript, `{"skillName":"a","scriptName":"run.sh"}`)
	if got := r.told(turn, skills.RunScript, `{"skillName":"a","scriptName":"run.sh","arguments":["--all"]}`); !strings.HasSuffix(got, "Please try again.") || len(sandbox.ran) != 1 {
		t.Errorf("%q, ran %v", got, sandbox.ran)
	}
}

// TestWithoutAPolicy calls tools as plans do that run without a bot.
func TestWithoutAPolicy(t *testing.T) {
	t.Parallel()
	own := files("own", "Read")
	r := provide(t, skills.RunBy(&runner{digest: "d"}, skills.ProviderConfig{Approve: []string{}}), files("b"), own, script("go", "", actions.NeedsApproval), renamed(script("go", "", actions.Destructive), "c"))
	turn := r.turn("mia")
	run := func(skill, script string) string {
		a, _ := r.reg.Lookup(skills.RunScript)
		result, err := a.Call(t.Context(), turn, map[string]any{"skillName": skill, "scriptName": script})
		if err != nil {
			t.Fatal(err)
		}
		return result.Text()
	}
	if got := run("b", "run.sh"); got != "ran scripts/run.sh of b" {
		t.Error(got)
	}
	for _, marked := range []string{"a", "c"} {
		if got := run(marked, "go"); !strings.HasSuffix(got, "Please try again.") {
			t.Error(got)
		}
	}
	if _, _, err := r.Command(t.Context(), turn, "own"); err != nil {
		t.Fatal(err)
	}
	if got := run("b", "run.sh"); !strings.HasPrefix(got, "Error: run_skill_script scripts/run.sh is not among the tools") {
		t.Error(got)
	}
}

func renamed(s *skills.Skill, name string) *skills.Skill {
	other := *s
	other.Name = name
	return &other
}

func TestMarksOfGoScriptsCount(t *testing.T) {
	t.Parallel()
	entities := map[string]any{"skillName": "a", "scriptName": "go"}
	for name, c := range map[string]struct {
		approve             []string
		mark                actions.Option
		salvaged, dangerous bool
	}{
		"unmarked":              {[]string{}, actions.ReturnsData, true, false},
		"all ask":               {nil, actions.ReturnsData, false, true},
		"needs approval":        {[]string{}, actions.NeedsApproval, false, true},
		"destructive":           {[]string{}, actions.Destructive, false, false},
		"destructive, salvaged": {[]string{}, actions.Destructive, true, true},
	} {
		r := provide(t, skills.ProviderConfig{Approve: c.approve}, script("go", "", c.mark))
		a, _ := r.reg.Lookup(skills.RunScript)
		got, err := r.Policy(nil)(t.Context(), r.turn("mia"), actions.Call{Action: a, Entities: entities, Salvaged: c.salvaged})
		if err != nil || got.Required != c.dangerous {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestWhatBindsAGoScript changes what is around a call that says the same.
func TestWhatBindsAGoScript(t *testing.T) {
	t.Parallel()
	type pay struct {
		Amount  int    `json:"amount,omitzero"`
		Account string `json:"-" host:"account"`
	}
	type other struct {
		Amount  string `json:"amount,omitzero"`
		Account string `json:"-" host:"account"`
	}
	account, fault := "test", error(nil)
	payer := func(about, instructions, description string, add func(*actions.Registry) *actions.Action) *skills.Skill {
		reg := actions.New()
		actions.Provide(reg, "account", func(context.Context, *actions.Turn) (string, error) { return account, fault })
		return &skills.Skill{
			Name: "a", Description: about, Instructions: instructions,
			Scripts: []skills.Script{
				{Name: "pay", Description: description, Action: add(reg)},
			},
		}
	}
	plain := func(reg *actions.Registry) *actions.Action {
		return actions.Add(reg, "pay", "Pays", func(_ context.Context, _ *actions.Turn, in pay) (actions.Result, error) {
			return actions.Text("%s", in.Account), nil
		})
	}
	bind := func(s *skills.Skill) string {
		r := provide(t, skills.ProviderConfig{}, s)
		return r.judge(r.Policy(nil), r.turn("mia"), skills.RunScript, map[string]any{"skillName": "a", "scriptName": "pay"}).Bind
	}
	first := payer("d", "i", "Pays", plain)
	want := bind(first)
	if again := bind(payer("d", "i", "Pays", plain)); again != want {
		t.Errorf("the same is bound to %q and %q", want, again)
	}
	seen := map[string]string{want: "as it was"}
	for name, s := range map[string]*skills.Skill{
		"another skill":       payer("other", "i", "Pays", plain),
		"other instructions":  payer("d", "other", "Pays", plain),
		"another description": payer("d", "i", "Pays twice", plain),
		"other entities": payer("d", "i", "Pays", func(reg *actions.Registry) *actions.Action {
			return actions.Add(reg, "pay", "Pays", func(_ context.Context, _ *actions.Turn, in other) (actions.Result, error) { return actions.Done, nil })
		}),
	} {
		got := bind(s)
		if before, ok := seen[got]; ok {
			t.Errorf("%s is bound to the same as %s: %q", name, before, got)
		}
		seen[got] = name
	}
	account = "production"
	if got := bind(first); got == want {
		t.Errorf("with another account it is bound to the same: %q", got)
	}
	fault = errBoom
	r := provide(t, skills.ProviderConfig{}, first)
	a, _ := r.reg.Lookup(skills.RunScript)
	if _, err := r.Policy(nil)(t.Context(), r.turn("mia"), actions.Call{Action: a, Entities: map[string]any{"skillName": "a", "scriptName": "pay"}}); !errors.Is(err, errBoom) {
		t.Errorf("a host value that is not to be had: %v", err)
	}
}

// TestApproversSeeWhatIsUsed holds the tools to the entities that are registered: of any
// other one it is said on the card that it is not used.
func TestApproversSeeWhatIsUsed(t *testing.T) {
	t.Parallel()
	sandbox := &runner{digest: "d"}
	r := provide(t, skills.RunBy(sandbox, skills.ProviderConfig{}), files("a"))
	a, _ := r.reg.Lookup(skills.RunScript)
	for _, name := range []string{"args", "Args", "arguments", "Arguments", "ARGS", "a-rgs", "argument"} {
		sandbox.ran = nil
		r.told(r.turn("mia"), skills.RunScript, `{"skill_name":"a","script_name":"run.sh","`+name+`":["--delete"]}`)
		if used, shown := sandbox.ran[0] != nil, a.Schema.Properties[name] != nil; used != shown {
			t.Errorf("%s is used: %v, and shown as that: %v", name, used, shown)
		}
	}
	both := `{"skillName":"a","scriptName":"run.sh","arguments":[],"args":["--delete"]}`
	sandbox.ran = nil
	if got := r.told(r.turn("mia"), skills.RunScript, both); got != "Error: Give arguments or args, and not both." || sandbox.ran != nil {
		t.Errorf("%q, ran %v", got, sandbox.ran)
	}
}

// TestWhatIsReadIsWhatWasApproved changes what a skill says, and a resource, behind an
// approval for good, and between the approval and the call.
func TestWhatIsReadIsWhatWasApproved(t *testing.T) {
	t.Parallel()
	text := func(instructions, resource string) *skills.Skill {
		return &skills.Skill{
			Name: "a", Description: "d", Instructions: instructions,
			Resources: []skills.Resource{
				{Name: "r", Text: resource},
			},
		}
	}
	list := []*skills.Skill{text("i", "r")}
	source := skills.Source(func(context.Context, *actions.Turn) ([]*skills.Skill, error) { return list, nil })
	r := provide(t, skills.ProviderConfig{Sources: []skills.Source{source}, Approve: []string{skills.LoadSkill, skills.ReadResource}})
	entities := map[string]any{"skillName": "a", "resourceName": "r"}
	bind := func(tool string) string { return r.judge(r.Policy(nil), r.turn("mia"), tool, entities).Bind }
	load, read := bind(skills.LoadSkill), bind(skills.ReadResource)
	for name, c := range map[string]struct {
		to         *skills.Skill
		load, read bool // it is another
	}{
		"nothing":      {text("i", "r"), false, false},
		"the resource": {text("i", "other"), false, true},
		"instructions": {text("other", "r"), true, true},
		"the folder":   {&skills.Skill{Name: list[0].Name, Description: list[0].Description, Instructions: "i", Dir: "/elsewhere", Resources: list[0].Resources}, true, true},
	} {
		was := list
		list = []*skills.Skill{c.to}
		if got := bind(skills.LoadSkill); (got != load) != c.load {
			t.Errorf("%s: loading is bound to %s, and before to %s", name, got, load)
		}
		if got := bind(skills.ReadResource); (got != read) != c.read {
			t.Errorf("%s: reading is bound to %s, and before to %s", name, got, read)
		}
		for tool, changed := range map[string]bool{skills.LoadSkill: c.load, skills.ReadResource: c.read} {
			turn := r.turn("mia")
			list = was
			r.judge(r.Policy(nil), turn, tool, entities)
			list = []*skills.Skill{c.to}
			action, _ := r.reg.Lookup(tool)
			result, err := action.Call(t.Context(), turn, entities)
			if err != nil || result.Failed() != changed {
				t.Errorf("%s: %s: %v, %q", name, tool, err, result.Text())
			}
			r.Reset(turn)
		}
		list = was
	}
}
