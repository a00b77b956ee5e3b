package state_test

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/state"
)

func TestRestore(t *testing.T) {
	t.Parallel()
	store, err := state.Open(t.Context(), "redis://"+miniredis.RunT(t).Addr(), state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	key := state.UserKey("test", "bot", "mia")
	load := func() *state.Scope {
		t.Helper()
		scopes, err := store.Load(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return scopes[0]
	}
	save := func(s *state.Scope) {
		t.Helper()
		if err := store.Save(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	first := load()
	state.At[map[string]int](first, "kept")
	*state.At[map[string]int](first, "kept") = map[string]int{"a": 1}
	*state.At[int](first, "removed") = 7
	save(first)

	for name, between := range map[string]func(*state.Scope){
		"not saved": func(*state.Scope) {}, "saved": save,
	} {
		s := load()
		(*state.At[map[string]int](s, "kept"))["b"] = 2 // before the checkpoint
		before := s.Checkpoint()
		(*state.At[map[string]int](s, "kept"))["c"] = 3
		*state.At[string](s, "added") = "x"
		s.Remove("removed")
		state.At[int](s, "kept") // a fault
		if s.Err() == nil {
			t.Fatal("no fault")
		}
		s.Remove("kept")
		between(s)
		s.Restore(before)
		save(s)
		again := load()
		got := map[string]any{"kept": *state.At[map[string]int](again, "kept"), "removed": *state.At[int](again, "removed"), "added": again.Has("added")}
		if diff := cmp.Diff(map[string]any{"kept": map[string]int{"a": 1, "b": 2}, "removed": 7, "added": false}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		delete(*state.At[map[string]int](again, "kept"), "b")
		save(again)
	}
}
