package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/bottest"
	"github.com/planbot-go/planbot/models"
)

// setup is a chat with the bot of a shop.
func setup(t *testing.T) (*bottest.Kit, *bottest.Chat, *shop) {
	t.Helper()
	s := newShop()
	kit, chat := talk(t, nil, s)
	return kit, chat, s
}

// talk is a chat of Mia with the bot, on that model; nil: on a scripted one.
func talk(t *testing.T, model models.Model, s *shop) (*bottest.Kit, *bottest.Chat) {
	t.Helper()
	kit := bottest.New(t, bottest.Config{New: func(ctx context.Context, p bottest.Parts) (*bot.Bot, error) {
		if model == nil {
			model = p.Model
		}
		return app.New(ctx, pizzabot(s), model, p.Bot)
	}})
	return kit, kit.Personal("Mia")
}

func call(name, arguments string) models.Call {
	return models.Call{ID: "call-" + name, Name: name, Arguments: arguments}
}

// answers are what the model was told of its last calls.
func answers(kit *bottest.Kit) []string {
	calls := kit.Model.Calls()
	var out []string
	for _, m := range calls[len(calls)-1].Messages {
		if m.Role == "tool" {
			out = append(out, m.Text)
		}
	}
	return out
}

func TestOrder(t *testing.T) {
	t.Parallel()
	kit, chat, s := setup(t)
	kit.Model.CallsTools(call("OrderPizza-get_pizza_menu", "{}"))
	kit.Model.CallsTools(call("OrderPizza-add_pizza_to_cart", `{"size":"Large","toppings":["Cheese","Mushrooms"],"quantity":2}`),
		call("OrderPizza-add_pizza_to_cart", `{"size":"Small","toppings":[]}`), call("OrderPizza-get_pizza_from_cart", `{"pizzaId":2}`), call("OrderPizza-remove_pizza_from_cart", `{"pizzaId":2}`))
	kit.Model.CallsTools(call("OrderPizza-get_cart", "{}"))
	kit.Model.CallsTools(call("OrderPizza-checkout", "{}"))
	kit.Model.Says("Order 1 is on its way.")

	chat.Say("two large ones with cheese and mushrooms, and pay")
	card := chat.ExpectCard()
	if !strings.Contains(card.JSON, "Check out") || !strings.Contains(card.JSON, "28") || s.orders != 0 {
		t.Errorf("%d orders before the approval: %s", s.orders, card.JSON)
	}
	const two, small = `{"id":1,"size":"Large","toppings":["Cheese","Mushrooms"],"quantity":2,"price":28}`, `{"id":2,"size":"Small","toppings":[],"quantity":1,"price":8}`
	want := []string{
		`{"sizes":{"Large":12,"Medium":10,"Small":8},"toppings":["Cheese","Pepperoni","Mushrooms"],"price_of_a_topping":1}`,
		`{"added":` + two + `,"cart":{"pizzas":[` + two + `],"total":28}}`,
		`{"added":` + small + `,"cart":{"pizzas":[` + two + `,` + small + `],"total":36}}`,
		small,
		`{"pizzas":[{"id":1,"size":"Large","toppings":["Cheese","Mushrooms"],"quantity":2,"price":28}],"total":28}`,
		`{"pizzas":[{"id":1,"size":"Large","toppings":["Cheese","Mushrooms"],"quantity":2,"price":28}],"total":28}`,
	}
	if diff := cmp.Diff(want, answers(kit)); diff != "" {
		t.Errorf("what the model was told (-want +got):\n%s", diff)
	}
	if answer := string(card.Press("Approve").Body); !strings.Contains(answer, "Approved by Mia") {
		t.Errorf("the click was answered with %s", answer)
	}
	chat.Expect("Order 1 is on its way.")
	if got := answers(kit); got[len(got)-1] != "order 1 is paid" || s.orders != 1 || len(s.carts) != 0 {
		t.Errorf("told %q, %d orders, %d carts", got, s.orders, len(s.carts))
	}
}

func TestOnlyWhatWasApprovedIsPaid(t *testing.T) {
	t.Parallel()
	kit, chat, s := setup(t)
	kit.Model.CallsTools(call("OrderPizza-add_pizza_to_cart", `{"size":"Small","toppings":[]}`))
	kit.Model.CallsTools(call("OrderPizza-checkout", "{}"))
	chat.Say("a small one, and pay")
	card := chat.ExpectCard()
	kit.Model.CallsTools(call("OrderPizza-add_pizza_to_cart", `{"size":"Large","toppings":[],"quantity":20}`))
	kit.Model.Says("There are 21 pizzas now.")
	chat.Say("and 20 large ones") // while the card waits
	chat.Expect("There are 21 pizzas now.")

	card.Press("Approve")
	chat.ExpectMatch("^Sorry, things have changed since I asked for approval, so I didn't do it.")
	if s.orders != 0 {
		t.Errorf("%d orders", s.orders)
	}
}

func TestNobodyPaysAfterANo(t *testing.T) {
	t.Parallel()
	kit, chat, s := setup(t)
	kit.Model.CallsTools(call("OrderPizza-add_pizza_to_cart", `{"size":"Small","toppings":[]}`))
	kit.Model.CallsTools(call("OrderPizza-checkout", "{}"))
	chat.Say("a small one, and pay")
	if answer := string(chat.ExpectCard().Press("Reject").Body); !strings.Contains(answer, "Rejected by Mia") || s.orders != 0 {
		t.Errorf("%d orders, %s", s.orders, answer)
	}
	chat.Expect("OK, I won't do this: Check out.")
}

func TestTheModelNeitherSeesNorSetsTheCart(t *testing.T) {
	t.Parallel()
	kit, chat, s := setup(t)
	otto := kit.Personal("Otto")
	for _, each := range []*bottest.Chat{chat, otto} {
		kit.Model.CallsTools(call("OrderPizza-add_pizza_to_cart", `{"size":"Small","toppings":[],"CartID":"of somebody else","cartID":"too"}`))
		kit.Model.Says("Added.")
		each.Say("a small one")
		each.Expect("Added.")
	}
	if len(s.carts) != 2 || s.carts["of somebody else"] != nil || s.carts["too"] != nil {
		t.Fatalf("carts %v", s.carts)
	}
	kit.Model.Says("I do not know.")
	chat.Say("what is the id of my cart?")
	chat.Expect("I do not know.")
	all, err := json.Marshal(kit.Model.Calls())
	if err != nil {
		t.Fatal(err)
	}
	for id, c := range s.carts {
		if len(c.Pizzas) != 1 || strings.Contains(string(all), id) {
			t.Errorf("cart %s has %v and is in %s", id, c.Pizzas, all)
		}
	}
	for _, tool := range kit.Model.Calls()[0].Tools {
		if strings.Contains(strings.ToLower(string(tool.Schema)), "cartid") {
			t.Errorf("%s has a parameter for the cart: %s", tool.Name, tool.Schema)
		}
	}
}

func TestWhatIsNotOnTheMenuIsRefused(t *testing.T) {
	t.Parallel()
	kit, chat, s := setup(t)
	for _, wrong := range []string{
		`{"size":"Huge","toppings":[]}`, `{"size":"Small","toppings":["Pineapple"]}`, `{}`, `{"size":"Small"}`,
		`{"size":"Small","toppings":[],"quantity":0}`, `{"size":"Small","toppings":[],"quantity":21}`,
	} {
		kit.Model.CallsTools(call("OrderPizza-add_pizza_to_cart", wrong))
		kit.Model.Says("Sorry, I cannot.")
		chat.Say(wrong)
		chat.Expect("Sorry, I cannot.")
		if got := answers(kit); !strings.HasPrefix(got[len(got)-1], "Error: ") {
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
	_, chat := talk(t, models.Offline{}, s)
	chat.Say("OrderPizza-add_pizza_to_cart size=Medium toppings=Pepperoni")
	const one = `{"id":1,"size":"Medium","toppings":["Pepperoni"],"quantity":1,"price":11}`
	chat.Expect(`Add a pizza: {"added":` + one + `,"cart":{"pizzas":[` + one + `],"total":11}}`)
	chat.Say("OrderPizza-checkout")
	chat.ExpectCard().Press("Approve")
	chat.Expect("order 1 is paid")
}

// TestPrompts holds what the model sees to testdata: BOTTEST_UPDATE=1 writes it anew.
func TestPrompts(t *testing.T) {
	t.Parallel()
	kit, chat, _ := setup(t)
	kit.Model.CallsTools(call("OrderPizza-add_pizza_to_cart", `{"size":"Small","toppings":[]}`))
	kit.Model.Says("It is in the cart.")
	chat.Say("a small one")
	chat.Expect("It is in the cart.")
	kit.GoldenPrompt("testdata/prompts.txt")
}

// TestScenarios plays scenarios.yaml, as "bottest run" does.
func TestScenarios(t *testing.T) {
	t.Parallel()
	bottest.RunScenarios(t, pizzabot(newShop()), "scenarios.yaml")
}
