package skills_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/skills"
	"github.com/planbot-go/planbot/state"
)

// poem is a skill with one sentence that nothing else says.
func poem(t testing.TB, name string) *skills.Skill {
	t.Helper()
	return &skills.Skill{
		Name: name, Description: "Translates poems", Instructions: "The rule of " + name + " is this.",
		Resources: []skills.Resource{
			{Name: "r.md", Text: "resource"},
		},
		Scripts: []skills.Script{
			upper(nil),
		},
	}
}

func upper(did *[]string) skills.Script {
	type in struct {
		Text string `json:"text"`
	}
	return skills.Func("upper", "Raises its voice", func(_ context.Context, _ *actions.Turn, in in) (actions.Result, error) {
		if did != nil {
			*did = append(*did, in.Text)
		}
		return actions.Text("%s", strings.ToUpper(in.Text)), nil
	})
}

// sees says how often the model is told the rule of a skill in the turn.
func (r *rig) sees(turn *actions.Turn, name string, want int) {
	r.t.Helper()
	if n := strings.Count(r.seen(turn), "The rule of "+name+" is this."); n != want {
		r.t.Errorf("%s: the rule of %s is told %d times, want %d", turn.ID, name, n, want)
	}
}

func TestASkillStaysActiveOverTurns(t *testing.T) {
	t.Parallel()
	r := provide(t, skills.ProviderConfig{}, poem(t, "haiku"), poem(t, "sonnet"))
	turn := r.turn("mia")
	r.sees(turn, "haiku", 0)
	if got := r.told(turn, skills.LoadSkill, `{"skillName":"haiku"}`); got != "Loaded the skill haiku." {
		t.Fatal(got)
	}
	r.sees(turn, "haiku", 1)
	if pinned := r.extend(turn).Pinned; pinned != nil {
		t.Errorf("told by its outcome and pinned: %v", pinned)
	}
	if got := r.told(turn, skills.LoadSkill, `{"skillName":"Haiku"}`); got != "The skill haiku is already loaded; its instructions are above." {
		t.Error(got)
	}
	r.sees(turn, "haiku", 1)
	r.sees(turn, "sonnet", 0)

	for i := range 5 { // the turns for which the history holds the one that loaded it
		turn = r.turn("mia")
		r.sees(turn, "haiku", 1)
		if pinned := r.extend(turn).Pinned; len(pinned) != 1 {
			t.Errorf("turn %d: pinned %v", i, pinned)
		}
	}
	turn = r.turn("mia")
	r.sees(turn, "haiku", 0)
	if r.thread.Has("skills") {
		t.Error("the last skill that ended leaves something in state")
	}
	if got := r.told(turn, skills.LoadSkill, `{"skillName":"haiku"}`); got != "Loaded the skill haiku." {
		t.Error(got)
	}
	for i, use := range []string{`{"skillName":"haiku","resourceName":"r.md"}`, `{"skillName":"haiku","scriptName":"upper","arguments":{"text":"x"}}`, `{"skillName":"haiku"}`} {
		for range 4 {
			turn = r.turn("mia")
			r.sees(turn, "haiku", 1)
		}
		r.told(turn, []string{skills.ReadResource, skills.RunScript, skills.LoadSkill}[i], use)
	}
	for range 5 {
		r.sees(r.turn("mia"), "haiku", 1)
	}
	r.sees(r.turn("mia"), "haiku", 0)
}

func TestUsingASkillDoesNotLoadIt(t *testing.T) {
	t.Parallel()
	r := provide(t, skills.ProviderConfig{}, poem(t, "haiku"))
	r.told(r.turn("mia"), skills.ReadResource, `{"skillName":"haiku","resourceName":"r.md"}`)
	r.sees(r.turn("mia"), "haiku", 0)
}

func TestResetEndsActiveSkills(t *testing.T) {
	t.Parallel()
	r := provide(t, skills.ProviderConfig{}, poem(t, "haiku"))
	r.told(r.turn("mia"), skills.LoadSkill, `{"skillName":"haiku"}`)
	r.Reset(r.turn("mia"))
	r.sees(r.turn("mia"), "haiku", 0)
	if r.thread.Has("skills") {
		t.Error("something is left")
	}
}

func TestSoManySkillsAreLoadedAtMost(t *testing.T) {
	t.Parallel()
	var list []*skills.Skill
	for i := range 9 {
		list = append(list, poem(t, fmt.Sprint("s", i)))
	}
	r := provide(t, skills.ProviderConfig{}, list...)
	turn := r.turn("mia")
	for i := range 8 {
		r.told(turn, skills.LoadSkill, fmt.Sprintf(`{"skillName":"s%d"}`, i))
	}
	result, err := r.call(turn, skills.LoadSkill, `{"skillName":"s8"}`)
	if want := "Error: 8 skills are loaded, and no more can be. The person can end them with /skill off."; err != nil || !result.Failed() || result.Text() != want {
		t.Errorf("%v, %q", err, result.Text())
	}
	if got := r.told(turn, skills.LoadSkill, `{"skillName":"s7"}`); !strings.Contains(got, "already loaded") {
		t.Error(got)
	}
}

// allowed is a source whose skills a test can take away, by person and name.
type allowed struct {
	mu    sync.Mutex
	taken map[string]bool
}

func (a *allowed) keep(_ context.Context, turn *actions.Turn, s *skills.Skill) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.taken[userOf(turn)+" "+s.Name]
}

func (a *allowed) take(user, skill string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.taken[user+" "+skill] = true
}

func TestASkillThatSomebodyMayNotHaveIsNotThere(t *testing.T) {
	t.Parallel()
	acl := &allowed{taken: map[string]bool{"otto haiku": true}}
	list := []*skills.Skill{poem(t, "haiku"), poem(t, "sonnet")}
	list[0].AllowedTools = []string{"Read"}
	r := provide(t, skills.ProviderConfig{Sources: []skills.Source{filter(memory(list...), acl.keep)}})
	policy := r.Policy(nil)
	add, _ := r.reg.Lookup("addItem")
	denied := func(turn *actions.Turn) bool {
		approval, err := policy(t.Context(), turn, actions.Call{Action: add})
		if err != nil {
			t.Fatal(err)
		}
		return approval.Denied != ""
	}
	mia := r.turn("mia")
	r.told(mia, skills.LoadSkill, `{"skillName":"haiku"}`)

	otto := r.turn("otto")
	r.sees(otto, "haiku", 0)
	if seen := r.seen(otto); strings.Contains(seen, "haiku") || !strings.Contains(seen, "sonnet") || denied(otto) {
		t.Errorf("Otto is told\n%s\nand addItem is denied: %v", seen, denied(otto))
	}
	for tool, entities := range map[string]string{
		skills.LoadSkill:    `{"skillName":"haiku"}`,
		skills.ReadResource: `{"skillName":"haiku","resourceName":"r.md"}`,
		skills.RunScript:    `{"skillName":"haiku","scriptName":"upper","arguments":{"text":"x"}}`,
	} {
		if got := r.told(otto, tool, entities); got != "Error: Skill 'haiku' not found." {
			t.Errorf("%s: %q", tool, got)
		}
	}
	for _, words := range []string{"", "haiku", "haiku write one", "off haiku", "off"} {
		reply, rest, err := r.Command(t.Context(), otto, words)
		if err != nil || rest != "" || strings.Count(reply, "haiku") > strings.Count(words, "haiku") {
			t.Errorf("/skill %s: %q, %q, %v", words, reply, rest, err)
		}
	}
	r.sees(r.turn("mia"), "haiku", 1) // whatever Otto said

	// Taken away from her in the middle of the turn that loaded another.
	mia = r.turn("mia")
	r.told(mia, skills.LoadSkill, `{"skillName":"sonnet"}`)
	r.sees(mia, "sonnet", 1)
	if !denied(mia) {
		t.Error("haiku does not narrow")
	}
	acl.take("mia", "sonnet")
	acl.take("mia", "haiku")
	if seen := r.seen(mia); strings.Contains(seen, "The rule of") || !strings.Contains(seen, "The skill is not available any more.") || denied(mia) {
		t.Errorf("told\n%s\nand addItem is denied: %v", seen, denied(mia))
	}
	if got := r.told(mia, skills.ReadResource, `{"skillName":"sonnet","resourceName":"r.md"}`); got != "Error: Skill 'sonnet' not found." {
		t.Error(got)
	}
}

func TestActiveSkillsAreKeptInRedis(t *testing.T) {
	t.Parallel()
	store, err := state.Open(t.Context(), "", state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() }) //nolint:errcheck // the test is over
	r := provide(t, skills.ProviderConfig{}, poem(t, "haiku"))
	load := func() {
		scopes, err := store.Load(t.Context(), state.ConversationKey("test", "bot", "c1"))
		if err != nil {
			t.Fatal(err)
		}
		r.thread = scopes[0]
	}
	save := func() {
		if err := store.Save(t.Context(), r.thread); err != nil {
			t.Fatal(err)
		}
	}
	load()
	r.told(r.turn("mia"), skills.LoadSkill, `{"skillName":"haiku"}`)
	save()
	for range 5 {
		load()
		r.sees(r.turn("mia"), "haiku", 1)
		save()
	}
	load()
	if raw, err := r.thread.JSON("skills"); err != nil || !strings.Contains(string(raw), `"loaded":[{"skill":"haiku"}]`) || strings.Contains(string(raw), "rule") {
		t.Errorf("%v, kept %s", err, raw)
	}
	r.sees(r.turn("mia"), "haiku", 0)
	save()
	load()
	if r.thread.Has("skills") {
		t.Error("something is left")
	}
	*state.At[[]string](r.thread, "skills") = []string{"nonsense"} // what another version may have left
	if _, err := r.Extend(t.Context(), r.turn("mia")); err == nil || !strings.Contains(err.Error(), "read which skills are loaded") {
		t.Errorf("state that cannot be read: %v", err)
	}
}

// TestFindingIsAllowed: a skill may name actions that the model has to find first. It reaches no others.
func TestFindingIsAllowed(t *testing.T) {
	t.Parallel()
	s := poem(t, "haiku")
	s.AllowedTools = []string{"desk_get_ticket"}
	r := provide(t, skills.ProviderConfig{}, s)
	turn := r.turn("mia")
	r.told(turn, skills.LoadSkill, `{"skillName":"haiku"}`)
	policy := r.Policy(nil)
	for _, c := range []struct {
		name   string
		option actions.Option
		denied bool
	}{
		{"findActions", actions.StateOnly, false}, {"findActions", actions.ReturnsData, true}, {"desk_get_ticket", actions.ReturnsData, false}, {"desk_close_ticket", actions.ReturnsData, true},
	} {
		a := actions.Add(actions.New(), c.name, "Does it", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil }, c.option)
		if approval, err := policy(t.Context(), turn, actions.Call{Action: a}); err != nil || (approval.Denied != "") != c.denied {
			t.Errorf("%s: %+v, %v, want it denied: %t", c.name, approval, err, c.denied)
		}
	}
}

func TestAuditNamesWhatWasUsed(t *testing.T) {
	t.Parallel()
	s := poem(t, "haiku")
	s.AllowedTools = []string{"Read", "Bash(git:*)", "addItem", "Edit", "run_skill_script"}
	r := provide(t, skills.ProviderConfig{}, s)
	var out bytes.Buffer
	ctx := zerolog.New(&out).With().Str("turn", "t1").Logger().WithContext(t.Context())
	turn := r.turn("mia")
	for _, c := range []struct {
		tool     string
		entities map[string]any
	}{
		{skills.LoadSkill, map[string]any{"skillName": "haiku"}},
		{skills.LoadSkill, map[string]any{"skillName": "haiku"}},
		{skills.ReadResource, map[string]any{"skillName": "haiku", "resourceName": "r"}},
		{skills.RunScript, map[string]any{"skillName": "haiku", "scriptName": "upper", "arguments": map[string]any{"text": "secret"}}},
		{skills.RunScript, map[string]any{"skillName": "nobody", "scriptName": "upper"}},
	} {
		r.judge(r.Policy(nil), turn, c.tool, c.entities)
		action, _ := r.reg.Lookup(c.tool)
		if _, err := action.Call(ctx, turn, c.entities); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`{"level":"info","turn":"t1","tool":"load_skill","skill":"haiku","message":"skill used"}`,
		`{"level":"info","turn":"t1","tool":"read_skill_resource","skill":"haiku","resource":"r.md","message":"skill used"}`,
		`{"level":"info","turn":"t1","tool":"run_skill_script","skill":"haiku","script":"upper","message":"skill used"}`,
	}
	if got := strings.Split(strings.TrimSpace(out.String()), "\n"); !slices.Equal(got, want) {
		t.Errorf("logged\n%s", out.String())
	}
}

// TestManyTurnsAtOnce is for the race detector, too.
func TestManyTurnsAtOnce(t *testing.T) {
	t.Parallel()
	acl := &allowed{taken: map[string]bool{"u1 sonnet": true}}
	r := provide(t, skills.ProviderConfig{Sources: []skills.Source{filter(memory(poem(t, "haiku"), poem(t, "sonnet")), acl.keep)}})
	policy := r.Policy(nil)
	var turns sync.WaitGroup
	for i := range 10 {
		turn := r.turn(fmt.Sprint("u", i%3))
		turn.Thread = state.NewScope()
		turns.Go(func() {
			for range 20 {
				name, want := "haiku", "Loaded the skill haiku."
				if i%3 == 1 {
					name, want = "sonnet", "Error: Skill 'sonnet' not found."
				}
				load, _ := r.reg.Lookup(skills.LoadSkill)
				result, err := load.Call(t.Context(), turn, map[string]any{"skillName": name})
				turn.Rounds = []actions.Round{{Outcomes: []actions.Outcome{{Action: skills.LoadSkill, Text: result.Text(), Failed: result.Failed()}}}}
				if err != nil || result.Text() != want {
					t.Errorf("%v, %q", err, result.Text())
				}
				r.sees(turn, "haiku", min(1, strings.Count(want, "haiku")))
				if _, err := policy(t.Context(), turn, actions.Call{Action: load, Entities: map[string]any{"skillName": "haiku"}}); err != nil {
					t.Error(err)
				}
				r.Reset(turn)
				turn.Rounds = nil
			}
		})
	}
	turns.Wait()
}

func BenchmarkExtend(b *testing.B) {
	var list []*skills.Skill
	for i := range 200 {
		list = append(list, &skills.Skill{
			Name: fmt.Sprintf("skill-%03d", i), Description: strings.Repeat("What it is for. ", 8),
			Text: strings.Repeat("What to do. ", 1000),
		})
	}
	for name, loaded := range map[string]int{"listed": 0, "loaded": 3} {
		b.Run(name, func(b *testing.B) {
			p, err := skills.NewProvider(skills.ProviderConfig{Skills: list})
			if err != nil {
				b.Fatal(err)
			}
			turn := of("mia")
			turn.ID, turn.Thread = "t", state.NewScope()
			for i := range loaded {
				if _, _, err := p.Command(b.Context(), turn, fmt.Sprintf("skill-%03d", i)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				extra, err := p.Extend(b.Context(), turn)
				if err != nil || len(extra.Pinned) != loaded {
					b.Fatal(err, len(extra.Pinned))
				}
			}
		})
	}
}

// TestExtendAllocatesLittle holds Extend to its promise. How long it takes, BenchmarkExtend says.
//
//nolint:paralleltest // testing.AllocsPerRun counts those of the whole process
func TestExtendAllocatesLittle(t *testing.T) {
	var list []*skills.Skill
	for i := range 200 {
		list = append(list, &skills.Skill{Name: fmt.Sprintf("skill-%03d", i), Description: "What it is for."})
	}
	r := provide(t, skills.ProviderConfig{}, list...)
	turn := r.turn("mia")
	r.extend(turn)
	if allocs := testing.AllocsPerRun(50, func() { r.extend(turn) }); allocs > 4 {
		t.Errorf("%v allocations", allocs)
	}
}
