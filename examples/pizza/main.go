// Command pizza is a bot that takes orders for pizza: the model calls functions,
// round by round, and a person approves what is paid. See README.md beside it.
package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bot"
	"github.com/planbot-go/planbot/models"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// newBot wires the actions below with a planner that lets the model call
// them.
func newBot(ctx context.Context, model models.Model, s *shop) (*bot.Bot, error) {
	registry := actions.New()
	register(registry, s)
	tools, err := planner.NewTools(ctx, planner.Config{Model: model, Actions: registry})
	if err != nil {
		return nil, err
	}
	return bot.New(bot.Config{
		Name: "Pizzabot", Actions: registry, Planner: tools, Log: *zerolog.Ctx(ctx),
		Examples: []string{"What pizzas do you have?", "Two large ones with mushrooms, please."},
	})
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := zerolog.New(zerolog.ConsoleWriter{Out: os.Stderr}).Level(zerolog.InfoLevel).With().Timestamp().Logger()
	if err := run(log.WithContext(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	model, err := models.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	b, err := newBot(ctx, model, newShop())
	if err != nil {
		return err
	}
	return b.ListenAndServe(ctx, cmp.Or(os.Getenv("BOT_ADDR"), "127.0.0.1:3978"))
}

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

// shop takes orders as a service somewhere else would: it knows carts by their
// ids, and nothing of chats and models. It is safe for concurrent use.
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

const maxQuantity = 20

var errNotThere = errors.New("no such pizza in the cart")

func (*shop) menu() menu {
	return menu{
		Sizes:    map[string]int{"Small": 8, "Medium": 10, "Large": 12},
		Toppings: []string{"Cheese", "Pepperoni", "Mushrooms"},
		Topping:  1,
	}
}

// add puts the pizza into the cart of that id, which need not exist yet.
func (s *shop) add(id string, p pizza) (cart, error) {
	if p.Quantity < 1 || p.Quantity > maxQuantity {
		return cart{}, fmt.Errorf("a quantity is from 1 to %d", maxQuantity)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.carts[id]
	if c == nil {
		c = &cart{}
		s.carts[id] = c
	}
	c.lastID++
	p.ID, p.Price = c.lastID, p.Quantity*(s.menu().Sizes[p.Size]+s.menu().Topping*len(p.Toppings))
	c.Pizzas = append(c.Pizzas, p)
	c.Total += p.Price
	return c.copy(), nil
}

func (s *shop) remove(id string, pizzaID int) (cart, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.carts[id]
	at := c.find(pizzaID)
	if at < 0 {
		return cart{}, errNotThere
	}
	c.Total -= c.Pizzas[at].Price
	c.Pizzas = slices.Delete(c.Pizzas, at, at+1)
	return c.copy(), nil
}

func (s *shop) pizza(id string, pizzaID int) (pizza, error) {
	c := s.cart(id)
	at := c.find(pizzaID)
	if at < 0 {
		return pizza{}, errNotThere
	}
	return c.Pizzas[at], nil
}

func (s *shop) cart(id string) cart {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.carts[id].copy()
}

// checkout orders what is in the cart if that costs total, which is what the
// customer agreed to, and empties it.
func (s *shop) checkout(id string, total int) (order int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c := s.carts[id].copy(); {
	case len(c.Pizzas) == 0:
		return 0, errors.New("the cart is empty")
	case c.Total != total:
		return 0, fmt.Errorf("the cart costs %d now, not %d", c.Total, total)
	}
	delete(s.carts, id)
	s.orders++
	return s.orders, nil
}

func (c *cart) find(pizzaID int) int {
	if c == nil {
		return -1
	}
	return slices.IndexFunc(c.Pizzas, func(p pizza) bool { return p.ID == pizzaID })
}

// copy is what others may keep; of no cart it is an empty one.
func (c *cart) copy() cart {
	if c == nil {
		return cart{Pizzas: []pizza{}}
	}
	return cart{Pizzas: slices.Clone(c.Pizzas), Total: c.Total}
}
