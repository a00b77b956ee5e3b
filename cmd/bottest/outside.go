package main

import (
	"context"
	"sync"

	"github.com/planbot-go/planbot/actions"
)

// outside runs functions outside of the bubbles that scenarios are played in. In a bubble time is not
// real, and nothing of a connection to a real service may be left behind. Close ends it.
type outside struct {
	idle    chan *worker
	workers sync.WaitGroup
}

type worker struct {
	job  chan func()
	done chan struct{}
}

const mostOutside = 8 // how many functions run at the same time

func newOutside() *outside {
	o := &outside{idle: make(chan *worker, mostOutside)}
	for range mostOutside {
		w := &worker{make(chan func()), make(chan struct{})}
		o.idle <- w
		o.workers.Go(func() {
			for f := range w.job {
				f()
				w.done <- struct{}{}
			}
		})
	}
	return o
}

// close waits for the workers. No function may be running.
func (o *outside) close() {
	for range mostOutside {
		close((<-o.idle).job)
	}
	o.workers.Wait()
}

// do runs f outside. Its context has the values of ctx, but no deadline: that of a bubble is in another
// time.
func (o *outside) do(ctx context.Context, f func(context.Context)) {
	w := <-o.idle
	w.job <- func() { f(context.WithoutCancel(ctx)) }
	<-w.done
	o.idle <- w
}

// outsider is a connection that does its work outside.
type outsider struct {
	actions.Connection
	out *outside

	mu         sync.Mutex
	from, made *actions.Registry // made of from
}

// Offer asks outside.
func (c *outsider) Offer(ctx context.Context, turn *actions.Turn) (names []string, note string) {
	c.out.do(ctx, func(ctx context.Context) { names, note = c.Connection.Offer(ctx, turn) })
	return names, note
}

// Actions are those of the connection, called outside.
func (c *outsider) Actions() *actions.Registry {
	c.mu.Lock()
	defer c.mu.Unlock()
	from := c.Connection.Actions()
	if from == c.from {
		return c.made
	}
	made := actions.New()
	for _, a := range from.All() {
		call := func(ctx context.Context, turn *actions.Turn, entities map[string]any) (result actions.Result, err error) {
			c.out.do(ctx, func(ctx context.Context) { result, err = a.Call(ctx, turn, entities) })
			return result, err
		}
		added, err := actions.AddSchema(made, a.Name, a.Description, a.Schema, call, actions.Title(a.Title), actions.Example(a.Examples...))
		if err != nil {
			continue // it was fine there
		}
		added.Detail, added.Doing, added.Told, added.Returns = a.Detail, a.Doing, a.Told, a.Returns
		added.Destructive, added.Approval, added.Connection, added.ReturnsData = a.Destructive, a.Approval, a.Connection, a.ReturnsData
		added.Parallel, added.StateOnly, added.Source = a.Parallel, a.StateOnly, a.Source
	}
	c.from, c.made = from, made
	return made
}
