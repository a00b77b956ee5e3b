package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

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
