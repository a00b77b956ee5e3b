package lists_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

type bundle struct {
	*testing.T
	registry *actions.Registry
	turn     *actions.Turn
}

func setup(t *testing.T) *bundle {
	t.Helper()
	t.Parallel()
	b := &bundle{T: t, registry: actions.New(), turn: &actions.Turn{
		Activity: &activity.Activity{}, Conversation: state.NewScope(), User: state.NewScope(),
	}}
	lists.Register(b.registry)
	return b
}

// do calls an action with entities given as key, value, key, value …
func (b *bundle) do(action string, entities ...any) actions.Result {
	b.Helper()
	in := map[string]any{}
	for i := 0; i < len(entities); i += 2 {
		in[entities[i].(string)] = entities[i+1]
	}
	a, ok := b.registry.Lookup(action)
	if !ok {
		b.Fatalf("no action %s", action)
	}
	result, err := a.Call(b.Context(), b.turn, in)
	if err != nil {
		b.Fatal(err)
	}
	return result
}

func (b *bundle) expect(want string) {
	b.Helper()
	if got := lists.Of(b.turn).String(); got != want {
		b.Errorf("lists are\n%s\nwant\n%s", got, want)
	}
}

func TestTheMainJob(t *testing.T) {
	b := setup(t)
	b.do("createList", "list", "grocery shopping")
	b.do("addItem", "list", "Grocery Shopping", "item", "bananas")
	b.do("checkItem", "list", "grocery shopping", "item", "BANANAS")
	b.do("createList", "list", "work", "items", []any{"mail", "call"})
	b.expect("**grocery shopping**\n- bananas (done)\n\n**work**\n- mail\n- call")
	if got := b.do("summarizeLists").Text(); got != lists.Of(b.turn).String() {
		t.Errorf("summary %q", got)
	}
	if got := b.do("findItem", "item", "banana").Text(); got != "bananas (done) is on the list grocery shopping." {
		t.Errorf("found %q", got)
	}
}

func TestEveryChangeMayBeMadeTwice(t *testing.T) {
	for _, c := range []struct {
		action   string
		entities []any
		want     string
	}{
		{"createList", []any{"list", "Home"}, "**home**\n- milk\n- eggs"},
		{"createList", []any{"list", "home", "items", []any{"milk", "tea"}}, "**home**\n- milk\n- eggs\n- tea"},
		{"addItem", []any{"list", "HOME", "item", "Milk"}, "**home**\n- milk\n- eggs"},
		{"addItem", []any{"list", "new", "item", "tea"}, "**home**\n- milk\n- eggs\n\n**new**\n- tea"},
		{"removeItem", []any{"list", "home", "item", "milk"}, "**home**\n- eggs"},
		{"removeItem", []any{"list", "nowhere", "item", "milk"}, "**home**\n- milk\n- eggs"},
		{"checkItem", []any{"list", "home", "item", "eggs"}, "**home**\n- milk\n- eggs (done)"},
		{"renameList", []any{"list", "home", "name", "flat"}, "**flat**\n- milk\n- eggs"},
		{"deleteList", []any{"list", "home"}, "There are no lists yet."},
	} {
		t.Run(c.action, func(t *testing.T) {
			b := setup(t)
			b.do("createList", "list", "home", "items", []any{"milk", "eggs"})
			for range 2 {
				if result := b.do(c.action, c.entities...); result.Failed() || result.Text() == "" {
					t.Errorf("result %q, failed %v", result.Text(), result.Failed())
				}
				b.expect(c.want)
			}
		})
	}
}

func TestRenamingOntoAnotherListFails(t *testing.T) {
	b := setup(t)
	b.do("createList", "list", "a")
	b.do("createList", "list", "b")
	if result := b.do("renameList", "list", "a", "name", "B"); !result.Failed() {
		t.Errorf("result %q", result.Text())
	}
	if result := b.do("renameList", "list", "a", "name", "A"); result.Failed() {
		t.Errorf("another case of its own name: %q", result.Text())
	}
}

func TestListsBelongToThePersonOrTheGroup(t *testing.T) {
	b := setup(t)
	b.do("createList", "list", "mine")
	b.turn.Activity.Conversation.ConversationType = "groupChat"
	b.do("createList", "list", "ours")
	b.expect("**ours**\n- (nothing on it)")
	b.turn.Activity.Conversation.ConversationType = "personal"
	b.expect("**mine**\n- (nothing on it)")
}

func TestCapsFailAndChangeNothing(t *testing.T) {
	b := setup(t)
	for i := range 100 {
		b.do("createList", "list", fmt.Sprint("list ", i))
	}
	before := lists.Of(b.turn).String()
	long := strings.Repeat("x", 201)
	many := make([]any, 501)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	for name, result := range map[string]actions.Result{
		"one list more":  b.do("createList", "list", "one more"),
		"by an item":     b.do("addItem", "list", "one more", "item", "x"),
		"long item":      b.do("addItem", "list", "list 0", "item", long),
		"too many items": b.do("createList", "list", "list 0", "items", many),
		"long new name":  b.do("renameList", "list", "list 0", "name", long),
	} {
		if !result.Failed() {
			t.Errorf("%s: %q", name, result.Text())
		}
	}
	b.expect(before)
}
