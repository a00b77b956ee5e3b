package planner_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/prompts"
)

// TestChangedPromptsCountFromTheNextTurnOn runs in a bubble, where a second passes
// at once.
func TestChangedPromptsCountFromTheNextTurnOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("own/prompt.txt", "Plan: {{actions}}")
	write("Poem/prompt.txt", "A poem about {{$x}}.")
	write("Poem/config.json", `{"description": "d", "input": {"parameters": [{"name": "x"}]}}`)
	synctest.Test(t, func(t *testing.T) {
		library, err := prompts.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		library.Watch()
		model, registry := &recorder{answer: "Hello."}, vectorActions(t)
		if err := planner.AddPromptFolders(registry, planner.Config{Model: model, Prompts: library}); err != nil {
			t.Fatal(err)
		}
		cfg := planner.Config{Model: model, Prompts: library, Actions: registry, Prompt: "own"}
		s, err := planner.NewSequence(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		tools, err := planner.NewTools(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		ctx := zerolog.New(&log).WithContext(t.Context())
		ask := func(plan func() error) *models.Request {
			t.Helper()
			if err := plan(); err != nil {
				t.Fatal(err)
			}
			return model.asked[len(model.asked)-1]
		}
		bySequence := func() error { _, err := s.Plan(ctx, turn("x")); return err }
		byTools := func() error { _, err := tools.Plan(ctx, turn("x")); return err }
		byAction := func() error {
			poem, _ := registry.Lookup("Poem")
			_, err := poem.Call(ctx, turn("x"), map[string]any{"x": "cats"})
			return err
		}

		write("own/prompt.txt", "Now: {{actions}}")
		write("own/actions.json", `[{"name": "addItem", "description": "puts it there"}]`)
		write("Poem/prompt.txt", "A song of {{$x}}.")
		time.Sleep(time.Second)
		if got := ask(bySequence); !strings.HasPrefix(got.Messages[0].Text, "Now: addItem(") || !strings.HasSuffix(unclocked(got.Messages[0].Text), "puts it there") {
			t.Errorf("the planner says %s", got.Messages[0].Text)
		}
		if got := ask(byTools); len(got.Tools) != 1 || got.Tools[0].Description != "puts it there" {
			t.Errorf("the tools are %+v", got.Tools)
		}
		if got := ask(byAction); got.Messages[0].Text != "A song of cats." {
			t.Errorf("the action says %s", got.Messages[0].Text)
		}

		write("own/prompt.txt", "{{fly}}")
		write("Poem/prompt.txt", "{{$x}} {{$y}}")
		time.Sleep(time.Second)
		for range 2 {
			if got := ask(bySequence); !strings.HasPrefix(got.Messages[0].Text, "Now: addItem(") {
				t.Errorf("the planner says %s", got.Messages[0].Text)
			}
			if got := ask(byAction); got.Messages[0].Text != "A song of cats." {
				t.Errorf("the action says %s", got.Messages[0].Text)
			}
		}
		for _, fault := range []string{`no function \"fly\"`, "$y is no parameter of the action"} {
			if n := strings.Count(log.String(), fault); n != 1 {
				t.Errorf("%s was logged %d times: %s", fault, n, &log)
			}
		}
		write("Poem/prompt.txt", "An ode to {{$x}}.")
		time.Sleep(time.Second)
		if got := ask(byAction); got.Messages[0].Text != "An ode to cats." {
			t.Errorf("the action says %s", got.Messages[0].Text)
		}
	})
}

// TestToolsCallPromptActions: they are functions like any other.
func TestToolsCallPromptActions(t *testing.T) {
	t.Parallel()
	registry := actions.New()
	library := folder(t, poems(nil))
	if err := planner.AddPromptFolders(registry, planner.Config{Model: &recorder{answer: "Roses."}, Prompts: library}); err != nil {
		t.Fatal(err)
	}
	model := script{{Calls: []models.Call{{ID: "c1", Name: "ShortPoem", Arguments: `{"input":"cats"}`}}, Finish: "tool_calls"}}
	tools, err := planner.NewTools(t.Context(), planner.Config{Model: &model, Prompts: library, Actions: registry})
	if err != nil {
		t.Fatal(err)
	}
	in := turn("a poem about cats")
	plan, err := tools.Plan(t.Context(), in)
	if err != nil || len(plan.Commands) != 1 {
		t.Fatalf("%+v, %v", plan, err)
	}
	poem, _ := registry.Lookup(plan.Commands[0].Action)
	if got := call(t, poem, in, plan.Commands[0].Entities).Text(); got != "Roses." {
		t.Errorf("got %q", got)
	}
}
