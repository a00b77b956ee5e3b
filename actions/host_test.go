package actions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
)

// shop is what a bot may hand to its actions: a type without a schema.
type shop struct{ Close func() }

type caller struct {
	Payer activity.Account `json:"payer" host:"user"`
}

type payment struct {
	Amount int `json:"amount"`
	caller
	Cart  string                `json:"cart" host:"cartID"`
	Shop  *shop                 `json:"-" host:"shop"`
	Where activity.Conversation `host:"conversation"`
	Turn  any                   `host:"turn"`
	Note  string                `json:"note,omitempty" default:"none"`
}

func hostRegistry() *actions.Registry {
	r := actions.New()
	actions.Provide(r, "cartID", func(_ context.Context, turn *actions.Turn) (string, error) {
		if turn.Text == "" {
			return "", errors.New("no cart")
		}
		return "cart of " + turn.Text, nil
	})
	actions.Provide(r, "shop", func(context.Context, *actions.Turn) (*shop, error) { return &shop{}, nil })
	return r
}

func hostTurn(text string) *actions.Turn {
	a := &activity.Activity{}
	a.From.ID, a.From.Name = "29:mia", "Mia"
	a.Conversation.ID = "a:mia"
	return &actions.Turn{ID: "t1", Activity: a, Text: text}
}

// TestTheModelNeitherSeesNorSetsHostFields, under whatever name it tries.
func TestTheModelNeitherSeesNorSetsHostFields(t *testing.T) {
	t.Parallel()
	var got payment
	a := actions.Add(hostRegistry(), "pay", "Pays", func(_ context.Context, _ *actions.Turn, in payment) (actions.Result, error) {
		got = in
		return actions.Done, nil
	})
	raw, err := json.Marshal(a.Schema)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{"amount":{"type":"integer"},"note":{"type":"string","default":"none"}},"required":["amount"],"additionalProperties":false}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
	checked, err := a.Check(map[string]any{
		"amount": "5", "payer": map[string]any{"id": "29:eve"}, "cart": []any{"of", "eve"}, "Cart": "of eve", "Shop": "x", "Where": 3, "Turn": "t9",
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"amount": json.Number("5"), "note": "none", "Cart": "of eve"}, checked); diff != "" {
		t.Errorf("entities (-want +got):\n%s", diff)
	}
	if _, err := a.Call(t.Context(), hostTurn("mia"), checked); err != nil {
		t.Fatal(err)
	}
	if got.Payer.ID != "29:mia" || got.Cart != "cart of mia" || got.Shop == nil || got.Where.ID != "a:mia" || got.Turn != "t1" || got.Amount != 5 {
		t.Errorf("got %+v", got)
	}
}

func TestAProvidersErrorIsTheActions(t *testing.T) {
	t.Parallel()
	a := actions.Add(hostRegistry(), "pay", "", func(context.Context, *actions.Turn, payment) (actions.Result, error) {
		t.Error("the action ran")
		return actions.Done, nil
	})
	_, err := a.Call(t.Context(), hostTurn(""), map[string]any{"amount": 1})
	if err == nil || err.Error() != "action pay: host value cartID: no cart" {
		t.Errorf("got %v", err)
	}
}

func TestWrongHostFieldsAreWiringMistakes(t *testing.T) {
	t.Parallel()
	type inner struct {
		User activity.Account `json:"user" host:"user"`
	}
	for want, add := range map[string]func(){
		`add act: host field Cart: nobody provides "cart"`: func() {
			addOf[struct {
				Cart string `host:"cart"`
			}](t)
		},
		`add act: host field User: "user" is activity.Account, not string`: func() {
			addOf[struct {
				User string `host:"user"`
			}](t)
		},
		`add act: host field user: it has to be exported`: func() {
			addOf[struct {
				user string `host:"turn"`
			}](t)
		},
		`add act: host field Account: it has to be exported, to have a name`: func() {
			addOf[struct {
				activity.Account `host:"user"`
			}](t)
		},
		`add act: host field User: it has to be exported, to have a name and to be in no embedded pointer`: func() { addOf[struct{ *inner }](t) },
		`add act: field Orders: field User: only a field of the entities themselves can have a host value`: func() {
			addOf[struct {
				Orders []inner `json:"orders"`
			}](t)
		},
		`the host value "user" is taken`: func() {
			actions.Provide(actions.New(), "user", func(context.Context, *actions.Turn) (int, error) { return 0, nil })
		},
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.Contains(p, want) {
					t.Errorf("got %s, want %s", p, want)
				}
			}()
			add()
		}()
	}
}
