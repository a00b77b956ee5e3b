// Command pizza is a bot that takes orders for pizza: the model calls functions,
// round by round, and a person approves what is paid. See README.md beside it.
package main

import (
	"context"
	"crypto/rand"
	"slices"
	"sync"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/state"
)

// pizzabot is the bot of the shop. Its planner lets the model call functions.
func pizzabot(s *shop) app.Bot {
	return app.Bot{
		Name:     "Pizzabot",
		Examples: []string{"What pizzas do you have?", "Two large ones with mushrooms, please."},
		Planner:  "tools",
		Register: func(r *actions.Registry) { register(r, s) },
	}
}

func main() { app.Main(pizzabot(newShop())) }

// register adds what the model may call. None of it names a cart: the model
// neither sees nor chooses whose cart it is, since cartID is the host's to fill in.
func register(r *actions.Registry, s *shop) {
	actions.Provide(r, "cartID", cartID)
	actions.Add(r, "get_pizza_menu", "Returns sizes, toppings and prices", s.menu, actions.ReturnsData, actions.Parallel)
	actions.Add(r, "add_pizza_to_cart", "Adds a pizza to the person's cart", s.add, actions.ReturnsData)
	actions.Add(r, "remove_pizza_from_cart", "Removes a pizza from the cart", s.remove, actions.ReturnsData)
	actions.Add(r, "get_pizza_from_cart", "Returns one pizza in the cart", s.pizza, actions.ReturnsData)
	actions.Add(r, "get_cart", "Returns the pizzas in the cart and what they cost", s.cart, actions.ReturnsData)
	actions.Add(r, "checkout", "Orders and pays for what is in the cart", s.checkout, actions.NeedsApproval)
}

// cartID is the person's cart, kept in their state from the first time on.
func cartID(_ context.Context, turn *actions.Turn) (string, error) {
	id := state.At[string](turn.User, "cartID")
	if *id == "" {
		*id = rand.Text()
	}
	return *id, nil
}

// shop takes orders. It knows carts by their ids, and nothing of chats and models. It is
// safe for concurrent use.
type shop struct {
	mu     sync.Mutex
	carts  map[string]*cart
	orders int
}

func newShop() *shop { return &shop{carts: map[string]*cart{}} }

type cart struct {
	Pizzas []pizza `json:"pizzas"`
	Total  int     `json:"total"`
	lastID int
}

type pizza struct {
	ID       int      `json:"id"`
	Size     string   `json:"size"`
	Toppings []string `json:"toppings,omitempty"`
	Quantity int      `json:"quantity"`
	Price    int      `json:"price"` // of all of them
}

type menu struct {
	Sizes    map[string]int `json:"sizes"` // with their prices
	Toppings []string       `json:"toppings"`
	Topping  int            `json:"price_of_a_topping"`
}

var theMenu = menu{
	Sizes:    map[string]int{"Small": 8, "Medium": 10, "Large": 12},
	Toppings: []string{"Cheese", "Pepperoni", "Mushrooms"},
	Topping:  1,
}

const maxQuantity = 20

// open locks the shop and returns the cart of that id, a new one if there is none. Call
// done when you are.
func (s *shop) open(id string) (c *cart, done func()) {
	s.mu.Lock()
	if s.carts[id] == nil {
		s.carts[id] = &cart{Pizzas: []pizza{}}
	}
	return s.carts[id], s.mu.Unlock
}

func (s *shop) menu(context.Context, *actions.Turn, struct{}) (actions.Result, error) {
	return actions.JSON(theMenu), nil
}

type newPizza struct {
	CartID   string   `host:"cartID"`
	Size     string   `json:"size" enum:"Small,Medium,Large"`
	Toppings []string `json:"toppings,omitempty" enum:"Cheese,Pepperoni,Mushrooms"`
	Quantity int      `json:"quantity" default:"1" jsonschema:"how many of this pizza"`
}

func (s *shop) add(_ context.Context, _ *actions.Turn, in newPizza) (actions.Result, error) {
	if in.Quantity < 1 || in.Quantity > maxQuantity {
		return actions.Fail("a quantity has to be from 1 to %d", maxQuantity), nil
	}
	c, done := s.open(in.CartID)
	defer done()
	c.lastID++
	price := in.Quantity * (theMenu.Sizes[in.Size] + theMenu.Topping*len(in.Toppings))
	c.Pizzas = append(c.Pizzas, pizza{c.lastID, in.Size, in.Toppings, in.Quantity, price})
	c.Total += price
	return actions.JSON(c), nil
}

type pizzaInCart struct {
	CartID  string `host:"cartID"`
	PizzaID int    `json:"pizza_id" jsonschema:"the id that get_cart shows"`
}

func (s *shop) remove(_ context.Context, _ *actions.Turn, in pizzaInCart) (actions.Result, error) {
	c, done := s.open(in.CartID)
	defer done()
	at := slices.IndexFunc(c.Pizzas, func(p pizza) bool { return p.ID == in.PizzaID })
	if at < 0 {
		return actions.Fail("no such pizza in the cart"), nil
	}
	c.Total -= c.Pizzas[at].Price
	c.Pizzas = slices.Delete(c.Pizzas, at, at+1)
	return actions.JSON(c), nil
}

func (s *shop) pizza(_ context.Context, _ *actions.Turn, in pizzaInCart) (actions.Result, error) {
	c, done := s.open(in.CartID)
	defer done()
	at := slices.IndexFunc(c.Pizzas, func(p pizza) bool { return p.ID == in.PizzaID })
	if at < 0 {
		return actions.Fail("no such pizza in the cart"), nil
	}
	return actions.JSON(c.Pizzas[at]), nil
}

type wholeCart struct {
	CartID string `host:"cartID"`
}

func (s *shop) cart(_ context.Context, _ *actions.Turn, in wholeCart) (actions.Result, error) {
	c, done := s.open(in.CartID)
	defer done()
	return actions.JSON(c), nil
}

// payment has the total, so that it is on the card that asks for approval: what
// was approved is what is paid, even if the cart has changed meanwhile.
type payment struct {
	CartID string `host:"cartID"`
	Total  int    `json:"total" jsonschema:"what the cart costs, as get_cart says"`
}

// checkout orders what is in the cart and empties it.
func (s *shop) checkout(_ context.Context, _ *actions.Turn, in payment) (actions.Result, error) {
	c, done := s.open(in.CartID)
	defer done()
	switch {
	case len(c.Pizzas) == 0:
		return actions.Fail("the cart is empty"), nil
	case c.Total != in.Total:
		return actions.Fail("the cart costs %d now, not %d", c.Total, in.Total), nil
	}
	delete(s.carts, in.CartID)
	s.orders++
	return actions.Text("order %d is paid", s.orders), nil
}
