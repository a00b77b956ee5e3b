package prompts_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/prompts"
)

func TestRenderManual(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		actions []prompts.Action
		want    string
	}{
		{"none", nil, "(none)"},
		{
			"the form of Semantic Kernel",
			[]prompts.Action{
				{Name: "A", Description: "Does a", Parameters: []prompts.Parameter{text("input", "what", true), text("b", "", true)}},
				{Name: "B"},
			},
			"A:\n  description: Does a\n  inputs:\n    - input: what\n    - b:\n\nB:\n  description: \n  inputs:",
		},
		{
			"types",
			[]prompts.Action{{Name: "A", Parameters: []prompts.Parameter{
				{Name: "size", Type: "string", Required: true, Enum: []string{"S", "L"}, Description: "how large"},
				{Name: "n", Type: "integer", Default: "1"},
				{Name: "s", Type: "string", Default: `"x"`},
				{Name: "tags", Type: "string[]", Enum: []string{"a"}, Required: true},
				{Name: "all", Type: "number[]", Required: true},
				{Name: "who", Type: "{name: string}", Required: true},
				{Name: "more", Type: "object", Required: true},
			}}},
			"A:\n  description: \n  inputs:\n    - size: how large (one of \"S\", \"L\")\n    - n: (integer, optional) (default value: 1)\n" +
				"    - s: (optional) (default value: x)\n    - tags: (JSON array of \"a\")\n    - all: (JSON array of number)\n    - who: (JSON object {name: string})\n    - more: (JSON object)",
		},
		{
			"a description cannot pose as a function",
			[]prompts.Action{{Name: "A", Description: "x\n\nB:\n  description: y"}},
			"A:\n  description: x B: description: y\n  inputs:",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, prompts.RenderManual(tt.actions)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What the prompt of the sequential planner costs is a decision too.
func TestSequentialPromptTokens(t *testing.T) {
	t.Parallel()
	library, err := prompts.Load("")
	if err != nil {
		t.Fatal(err)
	}
	template, err := library.Prompt("sequential")
	if err != nil {
		t.Fatal(err)
	}
	for limit, actions := range map[int][]prompts.Action{300: nil, 490: listActions(), 2340: manyActions(30)} {
		got, err := template.Render(context.Background(), prompts.Data{Funcs: map[string]prompts.Func{
			"manual": func(context.Context, []string) (any, error) { return prompts.RenderManual(actions), nil },
		}})
		if err != nil {
			t.Fatal(err)
		}
		n := prompts.NewCounter().Count(got)
		t.Logf("%d actions: %d tokens", len(actions), n)
		if n > limit {
			t.Errorf("%d actions: %d tokens, want at most %d", len(actions), n, limit)
		}
	}
}
