package bottest_test

import (
	"context"
	"sync"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bottest"
)

// tickets is a service with an idempotency key, which outlives the bot's processes.
type tickets struct {
	mu     sync.Mutex
	opened map[string]string
}

func (s *tickets) open(key, title string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		s.opened = map[string]string{}
	}
	s.opened[key] = title
}

func (s *tickets) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.opened)
}

type ticketIn struct {
	Title string `json:"title"`
}

type closeIn struct {
	ID int `json:"id"`
}

// ticketBot opens tickets, and closes them when a person approves.
func ticketBot(s *tickets) bottest.Config {
	acts := actions.New()
	actions.Add(acts, "createTicket", "Opens a ticket", func(ctx context.Context, _ *actions.Turn, in ticketIn) (actions.Result, error) {
		s.open(actions.AttemptOf(ctx).Key, in.Title)
		return actions.Done, nil
	})
	actions.Add(acts, "closeTicket", "Closes a ticket", func(context.Context, *actions.Turn, closeIn) (actions.Result, error) {
		return actions.Done, nil
	}, actions.NeedsApproval)
	return bottest.Config{Actions: acts, Name: "TicketBot"}
}
