package planner

import (
	"context"
	"sync"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/prompts"
)

// latest is what is made of a prompt, made anew when the library has another
// version of it. It is safe for concurrent use.
type latest[T any] struct {
	library *prompts.Library
	name    string
	make    func(context.Context, *prompts.Prompt) (T, error)

	mu   sync.Mutex
	made T
	seen *prompts.Prompt // the version that made is of, or that nothing could be made of
}

// newLatest makes it of the version that there is now.
func newLatest[T any](ctx context.Context, library *prompts.Library, name string, make func(context.Context, *prompts.Prompt) (T, error)) (*latest[T], error) {
	prompt, err := library.Prompt(name)
	if err != nil {
		return nil, err
	}
	made, err := make(ctx, prompt)
	if err != nil {
		return nil, err
	}
	return &latest[T]{library: library, name: name, make: make, made: made, seen: prompt}, nil
}

// get returns what counts for a turn that begins now. Of a version that cannot be
// used the fault is logged once, and what was made before stays.
func (l *latest[T]) get(ctx context.Context) T {
	l.library.Reload(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	prompt, err := l.library.Prompt(l.name)
	if prompt == l.seen {
		return l.made
	}
	l.seen = prompt
	var made T
	if err == nil {
		made, err = l.make(ctx, prompt)
	}
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("a changed prompt cannot be used, the one before stays")
		return l.made
	}
	l.made = made
	return made
}
