package skills_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills"
)

// runner stands for a sandbox: it says what it was asked to run.
type runner struct {
	digest string
	err    error // of reading the skill
	fails  error // of running
	ran    []any
	given  []string // digests
}

func (r *runner) Refuses(skills.Script, any) string { return "" }

func (r *runner) Digest(context.Context, *skills.Skill) (string, error) { return r.digest, r.err }

func (r *runner) Run(_ context.Context, s *skills.Skill, script skills.Script, arguments any, digest string) (actions.Result, error) {
	r.ran, r.given = append(r.ran, arguments), append(r.given, digest)
	return actions.Text("ran %s of %s", script.Name, s.Name), r.fails
}

// files is a skill from files.
func files(name string, allowed ...string) *skills.Skill {
	return &skills.Skill{
		Name: name, Description: "d", AllowedTools: allowed, Text: "The rule of " + name + " is this.",
		Resources: []skills.Resource{{Name: "references/r.md"}},
		Scripts:   []skills.Script{{Name: "scripts/run.py"}, {Name: "scripts/run.sh"}},
	}
}

// judge asks the policy about a call.
func (r *rig) judge(policy actions.Policy, turn *actions.Turn, action string, entities map[string]any) actions.Approval {
	r.t.Helper()
	a, ok := r.reg.Lookup(action)
	if !ok {
		r.t.Fatalf("no %s", action)
	}
	approval, err := policy(r.t.Context(), turn, actions.Call{Action: a, Entities: entities})
	if err != nil {
		r.t.Fatal(err)
	}
	return approval
}

func TestPolicyAsksPerTool(t *testing.T) {
	t.Parallel()
	all := []string{skills.LoadSkill, skills.ReadResource, skills.RunScript}
	entities := map[string]any{"skill_name": "A", "resourceName": "r", "scriptName": "./scripts/run.py"}
	load := actions.Approval{Required: true, Standing: true, Reason: "Loads the skill a."}
	read := actions.Approval{Required: true, Standing: true, Reason: "Reads references/r.md of the skill a."}
	run := actions.Approval{Required: true, Standing: true, Reason: "Runs the script scripts/run.py of the skill a.", Bind: "sha256:1"}
	free, bound := actions.Approval{}, actions.Approval{Bind: "sha256:1"}
	for name, c := range map[string]struct {
		cfg  skills.ProviderConfig
		want [3]actions.Approval
	}{
		"by default":      {skills.ProviderConfig{}, [3]actions.Approval{free, free, run}},
		"all":             {skills.ProviderConfig{Approve: all}, [3]actions.Approval{load, read, run}},
		"none":            {skills.ProviderConfig{Approve: []string{}}, [3]actions.Approval{free, free, bound}},
		"loading":         {skills.ProviderConfig{Approve: all[:1]}, [3]actions.Approval{load, free, bound}},
		"no sandbox":      {skills.ProviderConfig{}, [3]actions.Approval{free, free, free}},
		"without sandbox": {skills.ProviderConfig{Approve: all[2:]}, [3]actions.Approval{free, free, free}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			switch name {
			case "without sandbox":
			case "no sandbox":
				c.cfg = skills.RunBy(&runner{}, c.cfg)
			default:
				c.cfg = skills.RunBy(&runner{digest: "sha256:1"}, c.cfg)
			}
			r := provide(t, c.cfg, files("a"))
			for i, tool := range all {
				got := r.judge(r.Policy(nil), r.turn("mia"), tool, entities)
				if bound := len(got.Bind) == 64; bound != (got.Required && tool != skills.RunScript) {
					t.Errorf("%s: bound to %q", tool, got.Bind)
				} else if bound {
					got.Bind = "" // TestWhatIsReadIsWhatWasApproved
				}
				if diff := cmp.Diff(c.want[i], got); diff != "" {
					t.Errorf("%s: %s", tool, diff)
				}
				if a, _ := r.reg.Lookup(tool); a.Approval != slices.Contains(c.cfg.Approve, tool) && c.cfg.Approve != nil {
					t.Errorf("%s is marked: %v", tool, a.Approval)
				}
				for _, wrong := range []map[string]any{{}, {"skillName": "b", "resourceName": "r", "scriptName": "x"}, {"skillName": "a"}} {
					if tool == skills.LoadSkill && wrong["skillName"] == "a" {
						continue
					}
					if got := r.judge(r.Policy(nil), r.turn("mia"), tool, wrong); got.Required || got.Denied != "" {
						t.Errorf("%s %v: somebody is asked about what cannot be done: %+v", tool, wrong, got)
					}
				}
			}
			if got := r.judge(r.Policy(nil), r.turn("mia"), "addItem", nil); !cmp.Equal(got, free) {
				t.Errorf("addItem: %+v", got)
			}
		})
	}
}

func TestPolicyIsBehindAnother(t *testing.T) {
	t.Parallel()
	r := provide(t, skills.RunBy(&runner{digest: "d1"}, skills.ProviderConfig{}), files("a"))
	entities := map[string]any{"skillName": "a", "scriptName": "scripts/run.py", "resourceName": "r"}
	for name, c := range map[string]struct {
		tool       string
		next, want actions.Approval
	}{
		"both ask":          {skills.RunScript, actions.Approval{Required: true, Approvers: []string{"otto"}, Reason: "Costs money.", Bind: "b"}, actions.Approval{Required: true, Approvers: []string{"otto"}, Reason: "Costs money. Runs the script scripts/run.py of the skill a.", Bind: "b d1"}},
		"only the other":    {skills.ReadResource, actions.Approval{Required: true, Reason: "Secret."}, actions.Approval{Required: true, Reason: "Secret."}},
		"the other says no": {skills.RunScript, actions.Approval{Denied: "not today"}, actions.Approval{Denied: "not today"}},
	} {
		next := func(_ context.Context, _ *actions.Turn, call actions.Call) (actions.Approval, error) {
			if call.Action.Name != c.tool {
				t.Errorf("%s: asked about %s", name, call.Action.Name)
			}
			return c.next, nil
		}
		if diff := cmp.Diff(c.want, r.judge(r.Policy(next), r.turn("mia"), c.tool, entities)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	run, _ := r.reg.Lookup(skills.RunScript)
	fails := func(context.Context, *actions.Turn, actions.Call) (actions.Approval, error) {
		return actions.Approval{}, errBoom
	}
	if _, err := r.Policy(fails)(t.Context(), r.turn("mia"), actions.Call{Action: run}); !errors.Is(err, errBoom) {
		t.Error(err)
	}
	away := provide(t, skills.ProviderConfig{Sources: []skills.Source{failing}})
	if _, err := away.Policy(nil)(t.Context(), away.turn("mia"), actions.Call{Action: run}); !errors.Is(err, errSource) {
		t.Error(err)
	}
}

func TestWhatRunsIsWhatWasApproved(t *testing.T) {
	t.Parallel()
	sandbox := &runner{digest: "d1"}
	r := provide(t, skills.RunBy(sandbox, skills.ProviderConfig{}), files("a"))
	const run = `{"skillName":"a","scriptName":"scripts/run.py","arguments":["1","two words"]}`
	entities := map[string]any{"skillName": "a", "scriptName": "scripts/run.py"}
	if got := r.told(r.turn("mia"), skills.RunScript, run); got != "ran scripts/run.py of a" {
		t.Error(got)
	}
	var log bytes.Buffer
	action, _ := r.reg.Lookup(skills.RunScript)
	again := r.turn("mia")
	r.judge(r.Policy(nil), again, skills.RunScript, entities)
	sandbox.digest = "d2" // between the policy and the run
	if _, err := action.Call(zerolog.New(&log).WithContext(t.Context()), again, entities); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"d1", "d1"}, sandbox.given); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{[]any{"1", "two words"}, nil}, sandbox.ran); diff != "" {
		t.Error(diff)
	}
	if want := `{"level":"info","tool":"run_skill_script","skill":"a","script":"scripts/run.py","digest":"d1","message":"skill used"}` + "\n"; log.String() != want {
		t.Errorf("logged %s", log.String())
	}
	sandbox.err = errBoom
	if got := r.judge(r.Policy(nil), r.turn("mia"), skills.RunScript, entities); got.Denied != "The scripts of skill 'a' cannot be read." || got.Required {
		t.Errorf("%+v", got)
	}
	sandbox.err, sandbox.fails = nil, errBoom
	if _, err := r.call(r.turn("mia"), skills.RunScript, run); !errors.Is(err, errBoom) {
		t.Error(err)
	}
	detailed := provide(t, skills.RunBy(sandbox, skills.ProviderConfig{DetailedErrors: true}), files("a"))
	if got := detailed.told(detailed.turn("mia"), skills.RunScript, run); got != "Error: Failed to execute script 'scripts/run.py' from skill 'a'. Exception: boom-script" {
		t.Error(got)
	}
	none := provide(t, skills.ProviderConfig{}, files("a"))
	if result, err := none.call(none.turn("mia"), skills.RunScript, run); err != nil || !result.Failed() || result.Text() != "Error: script execution is disabled: no sandbox available." {
		t.Errorf("%v, %q", err, result.Text())
	}
}

func TestAllowedToolsNarrow(t *testing.T) {
	t.Parallel()
	do := func(action string) [2]string { return [2]string{action, ""} }
	py, sh, convert := [2]string{skills.RunScript, "scripts/run.py"}, [2]string{skills.RunScript, "scripts/run.sh"}, [2]string{skills.RunScript, "convert"}
	add := do("addItem")
	every := [][2]string{add, py, sh, convert}
	for words, may := range map[string][][2]string{
		"Read":                               {},
		"addItem":                            {add},
		"ADDITEM Read":                       {add},
		"run_skill_script":                   {py, sh, convert},
		"Bash":                               {py, sh, convert},
		"bash(*) addItem":                    every,
		"Bash(python:*)":                     {py},
		"Bash(python3:*)":                    {py},
		"Bash(sh:*) Bash(Python:*)":          {py, sh},
		"Bash(scripts/run.py:*)":             {py},
		"Bash(./scripts/run.sh:*)":           {sh},
		"Bash(python scripts/run.py:*)":      {py},
		"Bash(bash scripts/run.py:*)":        {},
		"Bash(scripts/other.py:*)":           {},
		"Bash(git:*)":                        {},
		"Bash(scripts/run.py)":               {},
		"Bash(python)":                       {},
		"Bash(python -c scripts/run.py:*)":   {},
		"Bash()":                             {},
		"Bash(:*)":                           {},
		"Bash(*":                             {},
		"Bashful BashOutput":                 {},
		"addItem(*)":                         {},
		"*":                                  {},
		"run_skill_script(scripts/run.py:*)": {},
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			own := files("own", strings.Fields(strings.ReplaceAll(words, "(python s", "(python\u00a0s"))...)
			own.AllowedTools = splitTools(words)
			r := provide(t, skills.RunBy(&runner{digest: "d"}, skills.ProviderConfig{}), own, files("other"), converter(t))
			turn := r.turn("mia")
			r.told(turn, skills.LoadSkill, `{"skillName":"own"}`)
			for _, c := range every {
				skill := "own"
				if c == convert {
					skill = "unit-converter"
				}
				got := r.judge(r.Policy(nil), turn, c[0], map[string]any{"skillName": skill, "scriptName": c[1]})
				if slices.Contains(may, c) != (got.Denied == "") {
					t.Errorf("%v: %q", c, got.Denied)
				}
			}
			for _, tool := range []string{skills.LoadSkill, skills.ReadResource} {
				if got := r.judge(r.Policy(nil), turn, tool, map[string]any{"skillName": "other", "resourceName": "r"}); got.Denied != "" {
					t.Errorf("%s is denied: %s", tool, got.Denied)
				}
			}
			// A path is one of the skill's own; an interpreter is whose ever script it runs.
			other := r.judge(r.Policy(nil), turn, skills.RunScript, map[string]any{"skillName": "other", "scriptName": "scripts/run.py"})
			if named := strings.Contains(words, "scripts/run.py"); named && other.Denied == "" || !named && slices.Contains(may, py) && other.Denied != "" {
				t.Errorf("the other skill's script: %q", other.Denied)
			}
		})
	}
}

// splitTools parts words as the front matter does.
func splitTools(words string) []string {
	s, faults := skills.Parse([]byte("---\nname: a\ndescription: b\nallowed-tools: \""+words+"\"\n---\nc"), "", true)
	if len(faults) > 0 {
		panic(faults)
	}
	return s.AllowedTools
}

func TestWhatAllowedToolsDoNotMean(t *testing.T) {
	t.Parallel()
	none, python := files("none"), files("python", "Bash(python:*)")
	none.AllowedTools = []string{} // it says that there are none
	fake := skills.Func("fake", "", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil })
	fake.Name = "fake.py"
	python.Scripts = append(python.Scripts, fake)
	for name, c := range map[string]struct {
		action   string
		entities map[string]any
	}{
		"none":   {"addItem", nil},
		"python": {skills.RunScript, map[string]any{"skillName": "python", "scriptName": "fake.py"}}, // no interpreter runs it
	} {
		r := provide(t, skills.RunBy(&runner{digest: "d"}, skills.ProviderConfig{}), none, python)
		turn := r.turn("mia")
		r.told(turn, skills.LoadSkill, `{"skillName":"`+name+`"}`)
		if got := r.judge(r.Policy(nil), turn, c.action, c.entities); got.Denied == "" {
			t.Errorf("%s allows %s: %+v", name, c.action, got)
		}
	}
}

func TestDeniedSaysWhy(t *testing.T) {
	t.Parallel()
	r := provide(t, skills.RunBy(&runner{digest: "d"}, skills.ProviderConfig{}), files("a", "Read", "Bash(python:*)"), files("b", "addItem", "Bash"), files("c"))
	policy := r.Policy(nil)
	turn := r.turn("mia")
	py, sh := map[string]any{"skillName": "a", "scriptName": "scripts/run.py"}, map[string]any{"skillName": "a", "scriptName": "scripts/run.sh"}
	if got := r.judge(policy, turn, "addItem", nil); got.Denied != "" {
		t.Errorf("nothing is loaded: %s", got.Denied)
	}
	r.told(turn, skills.LoadSkill, `{"skillName":"c"}`)
	if got := r.judge(policy, turn, "addItem", nil); got.Denied != "" {
		t.Errorf("c says nothing of tools: %s", got.Denied)
	}
	r.told(turn, skills.LoadSkill, `{"skillName":"a"}`)
	const of = " is not among the tools that the skill a allows while it is loaded (Read Bash(python:*)). The person can end it with /skill off a."
	if got := r.judge(policy, turn, "addItem", nil); got.Denied != "addItem"+of {
		t.Errorf("got %q", got.Denied)
	}
	if got := r.judge(policy, turn, skills.RunScript, sh); got.Denied != "run_skill_script scripts/run.sh"+of {
		t.Errorf("got %q", got.Denied)
	}
	r.told(turn, skills.LoadSkill, `{"skillName":"b"}`) // each narrows: addItem is b's alone
	if got := r.judge(policy, turn, "addItem", nil); got.Denied == "" {
		t.Error("b widens what a allows")
	}
	if got := r.judge(policy, turn, skills.RunScript, py); got.Denied != "" || !got.Required {
		t.Errorf("both allow it: %+v", got)
	}
	if _, _, err := r.Command(t.Context(), turn, "off a"); err != nil {
		t.Fatal(err)
	}
	if got := r.judge(policy, turn, "addItem", nil); got.Denied != "" {
		t.Errorf("a has ended: %s", got.Denied)
	}
}
