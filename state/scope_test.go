package state_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/state"
)

type Counter struct {
	N int `json:"n"`
}

type named struct{ N int }

func (*named) StateName() string { return "counter" }

func TestOfAndAtShareLiveValues(t *testing.T) {
	t.Parallel()
	s := state.NewScope()
	c := state.Of[Counter](s)
	c.N++
	if again := state.At[Counter](s, "counter"); again != c || again.N != 1 {
		t.Errorf("the same value is %p %+v, then %p %+v", c, c, again, again)
	}
	if !s.Has("counter") || s.Has("Counter") || s.Has("n") {
		t.Error("Has does not know the live value, or knows too much")
	}
	if s.Err() != nil {
		t.Error(s.Err())
	}
}

// A value that was only read costs a save nothing. It is watched from when somebody asks for it to
// change it, also after a checkpoint.
func TestPeekReads(t *testing.T) {
	t.Parallel()
	s := state.ScopeOf(map[string]jsontext.Value{"counter": jsontext.Value(`{"n":1}`)})
	peeked := state.Peek[Counter](s)
	state.Peek[named](s) // the same name
	if peeked.N != 1 || s.Err() == nil {
		t.Errorf("read %+v, fault %v", peeked, s.Err())
	}
	s = state.ScopeOf(map[string]jsontext.Value{"counter": jsontext.Value(`{"n":1}`)})
	peeked = state.Peek[Counter](s)
	before := s.Checkpoint()
	counter := state.Of[Counter](s)
	counter.N++
	if raw, err := s.JSON("counter"); err != nil || string(raw) != `{"n":2}` || peeked != counter {
		t.Errorf("changed: %s, %v, the same value %t", raw, err, peeked == counter)
	}
	s.Restore(before)
	if got := state.Of[Counter](s).N; got != 1 || s.Err() != nil {
		t.Errorf("restored: %d, %v", got, s.Err())
	}
	none := state.NewScope()
	peeked = state.Peek[Counter](none)
	before = none.Checkpoint()
	peeked.N = 7 // nobody may
	none.Restore(before)
	if got := state.Of[Counter](none); *got != (Counter{}) || none.Err() != nil || none.Has("counter") {
		t.Errorf("restored to nothing: %+v, %v", got, none.Err())
	}
}

func TestOneNameHasOneType(t *testing.T) {
	t.Parallel()
	s := state.NewScope()
	state.Of[Counter](s).N = 1
	if got := state.Of[named](s); got == nil || got.N != 0 {
		t.Errorf("the other type's value is %+v", got)
	}
	if err := s.Err(); !errors.Is(err, state.ErrValue) || !strings.Contains(err.Error(), `value "counter"`) {
		t.Errorf("%v, want an ErrValue for counter", err)
	}
	if got := state.Of[Counter](s); got.N != 1 {
		t.Errorf("the first type's value is %+v", got)
	}
	s.Remove("counter")
	if state.Of[named](s).N = 1; s.Err() != nil {
		t.Error(s.Err())
	}
}

func TestOfNeedsAName(t *testing.T) {
	t.Parallel()
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "state.At") {
			t.Errorf("Of a type without a name: %v", r)
		}
	}()
	state.Of[map[string]int](state.NewScope())
}

func TestDeleteEmptiesAScope(t *testing.T) {
	t.Parallel()
	s := state.NewScope()
	state.Of[Counter](s).N = 1
	_ = *state.Of[named](s)
	s.Delete()
	if s.Has("counter") || s.Err() != nil || state.Of[named](s).N != 0 {
		t.Errorf("a deleted scope has a value or a fault: %v", s.Err())
	}
}

type Groceries struct {
	Items []string `json:"items"`
}

func TestJSONReadsWithoutAType(t *testing.T) {
	t.Parallel()
	s := state.NewScope()
	expect := func(name, want string) {
		t.Helper()
		if got, err := s.JSON(name); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v, want %s", name, got, err, want)
		}
	}
	expect("counter", "")
	state.Of[Counter](s)
	expect("counter", "") // only looked at
	state.Of[Counter](s).N = 2
	expect("counter", `{"n":2}`)
	s.Remove("counter")
	expect("counter", "")
	*state.At[any](s, "bad") = func() {}
	if _, err := s.JSON("bad"); err == nil || !strings.Contains(err.Error(), "bad") {
		t.Errorf("got %v", err)
	}
}

func ExampleOf() {
	conversation := state.NewScope() // a handler's comes with the turn
	list := state.Of[Groceries](conversation)
	list.Items = append(list.Items, "milk")

	fmt.Println(state.Of[Groceries](conversation).Items) // the same value, wherever it is asked for
	fmt.Println(conversation.Has("groceries"))
	// Output:
	// [milk]
	// true
}
