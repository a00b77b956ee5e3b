// Command pizza is a bot that takes orders for pizza: the model calls functions,
// round by round, and a person approves what is paid. See README.md beside it.
package main

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"sync"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/full"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/state"
)

// pizzabot is the bot of the shop. Its planner lets the model call functions.
func pizzabot(s *shop) app.Bot {
	return app.Bot{
		Name:     "Pizzabot",
		Examples: []string{"What pizzas do you have?", "Two large ones with mushrooms, please."},
		Planner:  "tools",
		Register: func(r *actions.Registry) { register(r, s) },
		Setup: func(cfg *bot.Config) error {
			cfg.Policy = s.policy
			return nil
		},
	}
}

func main() { app.Main(pizzabot(newShop()), full.Features()...) }

// register adds what the model may call. None of it names a cart: the model
// neither sees nor chooses whose cart it is, since cartID is the host's to fill in.
func register(r *actions.Registry, s *shop) {
	actions.Provide(r, "cartID", cartID)
	actions.Add(r, "OrderPizza-get_pizza_menu", "Returns sizes, toppings and prices", s.menu, actions.ReturnsData, actions.Parallel)
	actions.Add(r, "OrderPizza-add_pizza_to_cart", "Adds a pizza to the person's cart; returns the new item and the updated cart", s.add,
		actions.ReturnsData, actions.Title("Add a pizza"))
	actions.Add(r, "OrderPizza-remove_pizza_from_cart", "Removes a pizza from the cart", s.remove, actions.ReturnsData)
	actions.Add(r, "OrderPizza-get_pizza_from_cart", "Returns one pizza in the cart as it is now, which earlier messages may not show", s.pizza, actions.ReturnsData)
	actions.Add(r, "OrderPizza-get_cart", "Returns the pizzas in the cart and what they cost", s.cart, actions.ReturnsData)
	actions.Add(r, checkout, "Orders and pays for what is in the cart", s.checkout, actions.Title("Check out"))
}

const checkout = "OrderPizza-checkout"

// policy has a person approve what is paid. An approval is of the total on its card: if the cart changes meanwhile, it
// does not count.
func (s *shop) policy(ctx context.Context, turn *actions.Turn, call actions.Call) (actions.Approval, error) {
	if call.Action.Name != checkout {
		return actions.DefaultPolicy(ctx, turn, call)
	}
	id, err := cartID(ctx, turn)
	if err != nil {
		return actions.Approval{}, err
	}
	c, done := s.open(id)
	defer done()
	if len(c.Pizzas) == 0 {
		return actions.Approval{Denied: "the cart is empty"}, nil
	}
	total := strconv.Itoa(c.Total)
	return actions.Approval{Required: true, Reason: "It costs " + total + ".", Bind: total}, nil
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
	Toppings []string `json:"toppings"`
	Quantity int      `json:"quantity"`
	Special  string   `json:"specialInstructions,omitempty"`
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
	Toppings []string `json:"toppings" enum:"Cheese,Pepperoni,Mushrooms"`
	Quantity int      `json:"quantity" default:"1" jsonschema:"how many of this pizza"`
	Special  string   `json:"specialInstructions" default:"" jsonschema:"for the kitchen"`
}

// delta is what was added, and the cart with it.
type delta struct {
	Added pizza `json:"added"`
	Cart  *cart `json:"cart"`
}

func (s *shop) add(_ context.Context, _ *actions.Turn, in newPizza) (actions.Result, error) {
	if in.Quantity < 1 || in.Quantity > maxQuantity {
		return actions.Fail("a quantity has to be from 1 to %d", maxQuantity), nil
	}
	c, done := s.open(in.CartID)
	defer done()
	c.lastID++
	price := in.Quantity * (theMenu.Sizes[in.Size] + theMenu.Topping*len(in.Toppings))
	added := pizza{ID: c.lastID, Size: in.Size, Toppings: in.Toppings, Quantity: in.Quantity, Special: in.Special, Price: price}
	c.Pizzas = append(c.Pizzas, added)
	c.Total += price
	return actions.JSON(delta{added, c}), nil
}

type pizzaInCart struct {
	CartID  string `host:"cartID"`
	PizzaID int    `json:"pizzaId" jsonschema:"the id that the cart shows"`
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

// checkout orders what is in the cart and empties it.
func (s *shop) checkout(_ context.Context, _ *actions.Turn, in wholeCart) (actions.Result, error) {
	c, done := s.open(in.CartID)
	defer done()
	if len(c.Pizzas) == 0 {
		return actions.Fail("the cart is empty"), nil
	}
	delete(s.carts, in.CartID)
	s.orders++
	return actions.Text("order %d is paid", s.orders), nil
}
