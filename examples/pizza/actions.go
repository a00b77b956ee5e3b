package main

import (
	"context"
	"crypto/rand"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/state"
)

// register adds what the model may call. None of it names a cart: the model
// neither sees nor chooses whose cart it is, since cartID is the host's to fill in.
func register(r *actions.Registry, s *shop) {
	actions.Provide(r, "cartID", cartID)
	c := calls{s}
	actions.Add(r, "get_pizza_menu", "Returns sizes, toppings and prices", c.menu, actions.ReturnsData, actions.Parallel)
	actions.Add(r, "add_pizza_to_cart", "Adds a pizza to the person's cart", c.add, actions.ReturnsData)
	actions.Add(r, "remove_pizza_from_cart", "Removes a pizza from the cart", c.remove, actions.ReturnsData)
	actions.Add(r, "get_pizza_from_cart", "Returns one pizza in the cart", c.pizza, actions.ReturnsData)
	actions.Add(r, "get_cart", "Returns the pizzas in the cart and what they cost", c.cart, actions.ReturnsData)
	actions.Add(r, "checkout", "Orders and pays for what is in the cart", c.checkout, actions.NeedsApproval)
}

// cartID is the person's cart, kept in their state from the first time on.
func cartID(_ context.Context, turn *actions.Turn) (string, error) {
	id := state.At[string](turn.User, "cartID")
	if *id == "" {
		*id = rand.Text()
	}
	return *id, nil
}

// calls are the functions behind the actions.
type calls struct{ shop *shop }

func (c calls) menu(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
	return actions.JSON(c.shop.menu()), nil
}

type newPizza struct {
	CartID   string   `host:"cartID"`
	Size     string   `json:"size" enum:"Small,Medium,Large"`
	Toppings []string `json:"toppings,omitempty" enum:"Cheese,Pepperoni,Mushrooms"`
	Quantity int      `json:"quantity" default:"1" jsonschema:"how many of this pizza"`
}

func (c calls) add(_ context.Context, _ *actions.Turn, in newPizza) (actions.Result, error) {
	return result(c.shop.add(in.CartID, pizza{Size: in.Size, Toppings: in.Toppings, Quantity: in.Quantity}))
}

type pizzaInCart struct {
	CartID  string `host:"cartID"`
	PizzaID int    `json:"pizza_id" jsonschema:"the id that get_cart shows"`
}

func (c calls) remove(_ context.Context, _ *actions.Turn, in pizzaInCart) (actions.Result, error) {
	return result(c.shop.remove(in.CartID, in.PizzaID))
}

func (c calls) pizza(_ context.Context, _ *actions.Turn, in pizzaInCart) (actions.Result, error) {
	return result(c.shop.pizza(in.CartID, in.PizzaID))
}

type wholeCart struct {
	CartID string `host:"cartID"`
}

func (c calls) cart(_ context.Context, _ *actions.Turn, in wholeCart) (actions.Result, error) {
	return actions.JSON(c.shop.cart(in.CartID)), nil
}

// payment has the total, so that it is on the card that asks for approval: what
// was approved is what is paid, even if the cart has changed meanwhile.
type payment struct {
	CartID string `host:"cartID"`
	Total  int    `json:"total" jsonschema:"what the cart costs, as get_cart says"`
}

func (c calls) checkout(_ context.Context, _ *actions.Turn, in payment) (actions.Result, error) {
	order, err := c.shop.checkout(in.CartID, in.Total)
	if err != nil {
		return actions.Fail("%s", err), nil
	}
	return actions.Text("order %d is paid", order), nil
}

// result is what the shop answered: data for the model, or a refusal that it may
// read.
func result[T any](value T, refused error) (actions.Result, error) {
	if refused != nil {
		return actions.Fail("%s", refused), nil
	}
	return actions.JSON(value), nil
}
