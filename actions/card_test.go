package actions_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
)

func ExampleCard() {
	r := actions.New()
	actions.Add(r, "showTickets", "Shows the open tickets", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		card := activity.Card{Body: []any{
			activity.TextBlock{Text: "Open tickets", Weight: "bolder"},
			activity.RichText{{Text: "7: VPN is down"}},
		}}
		return actions.Card(card, "One ticket is open: 7, VPN is down."), nil
	})
	show, _ := r.Lookup("showTickets")
	result, err := show.Call(context.Background(), &actions.Turn{}, nil)
	fmt.Println(result.Text(), len(result.Cards()), err)
	// Output: One ticket is open: 7, VPN is down. 1 <nil>
}

func ExampleReturns() {
	type ticket struct {
		ID    int    `json:"id"`
		Title string `json:"title"`
	}
	r := actions.New()
	open := actions.Add(r, "openTicket", "Opens a ticket", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
		return actions.JSON(ticket{7, "VPN is down"}), nil
	}, actions.Returns[ticket]()) // a plan may say "Ticket $T.id is open."
	result, err := open.Call(context.Background(), &actions.Turn{}, nil)
	fmt.Println(result.Text(), err)
	// Output: {"id":7,"title":"VPN is down"} <nil>
}

func TestCardResults(t *testing.T) {
	t.Parallel()
	body := activity.Card{Body: []any{activity.TextBlock{Text: "x"}}}
	named := body
	named.Fallback = "Fallback"
	for name, test := range map[string]struct {
		result      actions.Result
		text, shown string
		cards       int
	}{
		"a text":                  {actions.Card(body, "%d%%", 5), "5%", "5%", 1},
		"a text in its place":     {actions.Card(named, "Text"), "Text", "Text", 1},
		"the fallback":            {actions.Card(named, ""), "Fallback", "Fallback", 1},
		"signs":                   {actions.Card(body, "100%"), "100%", "100%", 1},
		"data":                    {actions.JSON(1).WithCard(named), "1", "Fallback", 1},
		"two":                     {actions.Done.WithCard(named).WithCard(named), "", "Fallback\nFallback", 2},
		"a text besides":          {actions.Text("More.").WithCard(named), "More.", "", 1},
		"nothing to act on":       {actions.Unchanged("No.").WithCard(named), "No.", "", 1},
		"failed":                  {actions.Fail("No.").WithCard(named), "No.", "", 0},
		"the model has to see it": {actions.Observe([]int{1}).WithCard(named), "[1]", "Fallback", 1},
		"none":                    {actions.Text("x"), "x", "", 0},
	} {
		if got := test.result; got.Text() != test.text || got.Shown() != test.shown || len(got.Cards()) != test.cards {
			t.Errorf("%s: text %q, shown %q, %d cards", name, got.Text(), got.Shown(), len(got.Cards()))
		}
	}
	if got := actions.Card(named, "Text").Cards()[0].Fallback; got != "Text" {
		t.Errorf("the card's fallback is %q", got)
	}
	r := actions.New()
	for name, card := range map[string]func() actions.Result{
		"textless":   func() actions.Result { return actions.Card(body, "") },
		"fallback":   func() actions.Result { return actions.JSON(1).WithCard(body) },
		"unwritable": func() actions.Result { return actions.Card(activity.Card{Body: []any{func() {}}}, "x") },
	} {
		a := actions.Add(r, name, "", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return card(), nil })
		if _, err := a.Call(t.Context(), &actions.Turn{}, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestReturns compares results with what actions declare.
func TestReturns(t *testing.T) {
	t.Parallel()
	type out struct {
		ID    int           `json:"id"`
		State string        `json:"state,omitempty" enum:"open,closed"`
		Due   time.Time     `json:"due,omitzero"`
		Took  time.Duration `json:"took,omitzero"`
		Tags  []string      `json:"tags"`
	}
	call := func(result actions.Result, opt actions.Option) (actions.Result, error) {
		a := actions.Add(actions.New(), "a", "", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return result, nil }, opt)
		return a.Call(t.Context(), &actions.Turn{}, nil)
	}
	object := actions.Returns[out]()
	for name, test := range map[string]struct {
		result actions.Result
		opt    actions.Option
		fault  string
	}{
		"all":               {actions.JSON(out{1, "open", time.Now(), time.Second, []string{"x"}}), object, ""},
		"the least":         {actions.JSON(out{}), object, ""},
		"more":              {actions.JSON(map[string]any{"id": 1, "tags": nil, "more": true}), object, ""},
		"another type":      {actions.JSON(map[string]any{"id": "secret", "tags": nil}), object, "at id: want an integer"},
		"another value":     {actions.JSON(map[string]any{"id": 1, "tags": nil, "state": "secret"}), object, "at state: want one of open, closed"},
		"a required one":    {actions.JSON(map[string]any{"id": 1}), object, "at tags: want a value"},
		"a text":            {actions.Text("secret"), object, "at the top: want an object"},
		"done":              {actions.Done, object, "at the top: want an object"},
		"to be seen":        {actions.Observe("secret"), object, "at the top: want an object"},
		"failed":            {actions.Fail("no"), object, ""},
		"unchanged":         {actions.Unchanged("no"), object, ""},
		"a text as wanted":  {actions.Text("x"), actions.Returns[string](), ""},
		"a list as wanted":  {actions.JSON([]int{1}), actions.Returns[[]int](), ""},
		"a list of another": {actions.JSON([]string{"secret"}), actions.Returns[[]int](), "at 0: want an integer"},
	} {
		_, err := call(test.result, test.opt)
		switch {
		case test.fault == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.fault != "" && (err == nil || !strings.HasSuffix(err.Error(), test.fault) || strings.Contains(err.Error(), "secret")):
			t.Errorf("%s: %v, want %s", name, err, test.fault)
		}
	}
	result, err := call(actions.JSON(out{}), object)
	if err != nil {
		t.Fatal(err)
	}
	value, err := result.Value()
	if err != nil {
		t.Fatal(err)
	}
	got, _ := value.(map[string]any)
	if _, has := got["state"]; !has || got["state"] != nil {
		t.Errorf("what is left out is not null: %s", cmp.Diff(nil, value))
	}
	defer func() {
		if recover() == nil {
			t.Error("a channel has a schema")
		}
	}()
	actions.Add(actions.New(), "odd", "", nothing, actions.Returns[chan int]())
}
