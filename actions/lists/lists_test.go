package lists_test

import (
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
	before := b.turn.Personal().Checkpoint()
	result, err := a.Call(b.Context(), b.turn, in)
	if err != nil {
		b.Fatal(err)
	}
	if result.Failed() { // as a bot does
		b.turn.Personal().Restore(before)
	}
	return result
}

func (b *bundle) expect(want string) {
	b.Helper()
	if got := b.do("summarizeLists").Text(); got != want {
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

// TestCreatingSaysWhatWasAdded: also to a list that was there.
func TestCreatingSaysWhatWasAdded(t *testing.T) {
	b := setup(t)
	for _, c := range []struct {
		items []any
		want  string
	}{
		{[]any{"milk"}, "Created the list home."},
		{[]any{"Milk", "tea", "eggs", " "}, "The list home already exists; items on it: 3."},
		{[]any{"jam"}, "The list home already exists; items on it: 4."},
		{[]any{"jam", "tea"}, "The list home already exists; items on it: 4."},
		{nil, "The list home already exists; items on it: 4."},
	} {
		if got := b.do("createList", "list", "home", "items", c.items).Text(); got != c.want {
			t.Errorf("with %v: %q, want %q", c.items, got, c.want)
		}
	}
}

// TestNamesAreOneVisibleLine: nothing in a name breaks a line, hides or turns the
// text around it; the name matches however it was written.
func TestNamesAreOneVisibleLine(t *testing.T) {
	b := setup(t)
	for range 2 {
		b.do("createList", "list", "my\n\t home\x00", "items", []any{"red\u202e \u2066wine\u2069\u202c\u200b", "\x00\u202e"})
		b.do("addItem", "list", "MY home", "item", "\r\nred\u00a0wine")
		b.do("addItem", "list", " My\u2028Home ", "item", "👩‍🍳\x1b[31m")
		b.expect("**my home**\n- red wine\n- 👩‍🍳 [31m")
	}
	if got := b.do("checkItem", "list", "my home", "item", "red\nwine").Text(); got != "Marked red wine on the list my home as done." {
		t.Errorf("checked: %q", got)
	}
	b.do("renameList", "list", "my\nhome", "name", "\u2067our\nhome")
	b.expect("**our home**\n- red wine (done)\n- 👩‍🍳 [31m")
	for action, entities := range map[string][]any{
		"createList": {"list", "\u202e"},
		"addItem":    {"list", "our home", "item", "\x00"},
		"findItem":   {"item", "\u2066\u2069"},
		"renameList": {"list", "our home", "name", "\x00"},
	} {
		if result := b.do(action, entities...); !result.Failed() {
			t.Errorf("%s with nothing to be seen: %q", action, result.Text())
		}
	}
	for action, want := range map[string]string{
		"removeItem": "There is no list a b.", "checkItem": "There is no list a b.", "deleteList": "There is no list a b.",
		"renameList": "There is no list a b.",
	} {
		if got := b.do(action, "list", "a\nb\u202e", "item", "x", "name", "y").Text(); got != want {
			t.Errorf("%s: %q, want %q", action, got, want)
		}
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

func TestLongNamesAreCut(t *testing.T) {
	b := setup(t)
	long := strings.Repeat("x", 201)
	b.do("createList", "list", "a", "items", []any{long})
	b.do("addItem", "list", "a", "item", long)
	b.expect("**a**\n- " + long[:199] + "…")
}
