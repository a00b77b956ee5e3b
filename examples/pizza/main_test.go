package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/internal/fakechat"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
)

// setup is a chat with the bot of a shop.
func setup(t *testing.T) (*fakechat.Chat, *shop) {
	t.Helper()
	s := newShop()
	return fakechat.New(t, func(ctx context.Context, m models.Model) (*bot.Bot, error) { return newBot(ctx, m, s) }), s
}

func call(name, arguments string) fakemodel.ToolCall {
	return fakemodel.ToolCall{ID: "call-" + name, Name: name, Arguments: arguments}
}

// answers are what the model was told of its last calls.
func answers(chat *fakechat.Chat) []string {
	calls := chat.Model.Calls()
	var out []string
	for _, m := range calls[len(calls)-1].Messages {
		if m.Role == "tool" {
			out = append(out, m.Content)
		}
	}
	return out
}

func TestOrder(t *testing.T) {
	t.Parallel()
	chat, s := setup(t)
	chat.Model.CallsTools("", call("get_pizza_menu", "{}"))
	chat.Model.CallsTools("", call("add_pizza_to_cart", `{"size":"Large","toppings":["Cheese","Mushrooms"],"quantity":2}`),
		call("add_pizza_to_cart", `{"size":"Small"}`), call("get_pizza_from_cart", `{"pizza_id":2}`), call("remove_pizza_from_cart", `{"pizza_id":2}`))
	chat.Model.CallsTools("", call("get_cart", "{}"))
	chat.Model.CallsTools("", call("checkout", `{"total":28}`))
	chat.Model.Says("Order 1 is on its way.")

	chat.Say("two large ones with cheese and mushrooms, and pay")
	card := chat.Card()
	if !strings.Contains(card.Text, "checkout") || !strings.Contains(card.Text, "28") || s.orders != 0 {
		t.Errorf("%d orders before the approval: %s", s.orders, card.Text)
	}
	want := []string{
		`{"sizes":{"Large":12,"Medium":10,"Small":8},"toppings":["Cheese","Pepperoni","Mushrooms"],"price_of_a_topping":1}`,
		`{"pizzas":[{"id":1,"size":"Large","toppings":["Cheese","Mushrooms"],"quantity":2,"price":28}],"total":28}`,
		`{"pizzas":[{"id":1,"size":"Large","toppings":["Cheese","Mushrooms"],"quantity":2,"price":28},{"id":2,"size":"Small","quantity":1,"price":8}],"total":36}`,
		`{"id":2,"size":"Small","quantity":1,"price":8}`,
		`{"pizzas":[{"id":1,"size":"Large","toppings":["Cheese","Mushrooms"],"quantity":2,"price":28}],"total":28}`,
		`{"pizzas":[{"id":1,"size":"Large","toppings":["Cheese","Mushrooms"],"quantity":2,"price":28}],"total":28}`,
	}
	if diff := cmp.Diff(want, answers(chat)); diff != "" {
		t.Errorf("what the model was told (-want +got):\n%s", diff)
	}
	if answer := card.Press("Approve"); !strings.Contains(answer, "Approved by Mia") {
		t.Errorf("the click was answered with %s", answer)
	}
	chat.Expect("Order 1 is on its way.")
	if got := answers(chat); got[len(got)-1] != "order 1 is paid" || s.orders != 1 || len(s.carts) != 0 {
		t.Errorf("told %q, %d orders, %d carts", got, s.orders, len(s.carts))
	}
}

func TestOnlyWhatWasApprovedIsPaid(t *testing.T) {
	t.Parallel()
	chat, s := setup(t)
	chat.Model.CallsTools("", call("add_pizza_to_cart", `{"size":"Small"}`))
	chat.Model.CallsTools("", call("checkout", `{"total":8}`))
	chat.Say("a small one, and pay")
	card := chat.Card()
	chat.Model.CallsTools("", call("add_pizza_to_cart", `{"size":"Large","quantity":20}`))
	chat.Model.Says("There are 21 pizzas now.")
	chat.Say("and 20 large ones") // while the card waits
	chat.Expect("There are 21 pizzas now.")

	chat.Model.Says("The cart has changed: it costs 248 now.")
	card.Press("Approve")
	chat.Expect("The cart has changed: it costs 248 now.")
	if got := answers(chat); !strings.Contains(got[len(got)-1], "the cart costs 248 now, not 8") || s.orders != 0 {
		t.Errorf("told %q, %d orders", got, s.orders)
	}
}

func TestNobodyPaysAfterANo(t *testing.T) {
	t.Parallel()
	chat, s := setup(t)
	chat.Model.CallsTools("", call("add_pizza_to_cart", `{"size":"Small"}`))
	chat.Model.CallsTools("", call("checkout", `{"total":8}`))
	chat.Say("a small one, and pay")
	if answer := chat.Card().Press("Reject"); !strings.Contains(answer, "Rejected by Mia") || s.orders != 0 {
		t.Errorf("%d orders, %s", s.orders, answer)
	}
}

func TestTheModelNeitherSeesNorSetsTheCart(t *testing.T) {
	t.Parallel()
	chat, s := setup(t)
	otto := chat.Of("Otto")
	for _, each := range []*fakechat.Chat{chat, otto} {
		chat.Model.CallsTools("", call("add_pizza_to_cart", `{"size":"Small","CartID":"of somebody else","cartID":"too"}`))
		chat.Model.Says("Added.")
		each.Say("a small one")
		each.Expect("Added.")
	}
	if len(s.carts) != 2 || s.carts["of somebody else"] != nil || s.carts["too"] != nil {
		t.Fatalf("carts %v", s.carts)
	}
	chat.Model.Says("I do not know.")
	chat.Say("what is the id of my cart?")
	all, err := json.Marshal(chat.Model.Calls())
	if err != nil {
		t.Fatal(err)
	}
	for id, c := range s.carts {
		if len(c.Pizzas) != 1 || strings.Contains(string(all), id) {
			t.Errorf("cart %s has %v and is in %s", id, c.Pizzas, all)
		}
	}
	for _, tool := range chat.Model.Calls()[0].Tools {
		if strings.Contains(strings.ToLower(string(tool.Parameters)), "cartid") {
			t.Errorf("%s has a parameter for the cart: %s", tool.Name, tool.Parameters)
		}
	}
}

func TestWhatIsNotOnTheMenuIsRefused(t *testing.T) {
	t.Parallel()
	chat, s := setup(t)
	for _, wrong := range []string{`{"size":"Huge"}`, `{"size":"Small","toppings":["Pineapple"]}`, `{}`, `{"size":"Small","quantity":0}`, `{"size":"Small","quantity":21}`} {
		chat.Model.CallsTools("", call("add_pizza_to_cart", wrong))
		chat.Model.Says("Sorry, I cannot.")
		chat.Say(wrong)
		chat.Expect("Sorry, I cannot.")
		if got := answers(chat); !strings.HasPrefix(got[len(got)-1], "Error: ") {
			t.Errorf("%s: told %q", wrong, got)
		}
	}
	if len(s.carts) != 0 {
		t.Errorf("carts %v", s.carts)
	}
}

func TestPizzaWithoutAKey(t *testing.T) {
	t.Parallel()
	s := newShop()
	chat := fakechat.With(t, models.Offline{}, func(ctx context.Context, m models.Model) (*bot.Bot, error) { return newBot(ctx, m, s) })
	chat.Say(`add_pizza_to_cart {"size":"Medium","toppings":["Pepperoni"]}`)
	chat.Expect(`add_pizza_to_cart: {"pizzas":[{"id":1,"size":"Medium","toppings":["Pepperoni"],"quantity":1,"price":11}],"total":11}`)
	chat.Say("checkout total=11")
	chat.Card().Press("Approve")
	chat.Expect("order 1 is paid")
}
