package actions

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
)

// Extension adds to what a model is told and may plan, turn by turn. A skill provider is one.
type Extension interface {
	// Extend is called each time before a model is asked for a plan. Several turns may call it at
	// once. An error ends the turn.
	Extend(ctx context.Context, turn *Turn) (Extra, error)
}

// Extra is what an [Extension] adds in a turn. The zero value adds nothing.
type Extra struct {
	// Key identifies Text and Offer: the planner caches what it builds from them under Key, and
	// reads them once for each Key and version of the prompt. "": there are none.
	Key string
	// Text replaces {{skills}} in the prompt; without {{skills}} it follows the prompt.
	Text string
	// Offer chooses what a plan may use among the actions that the prompt offers, and how models
	// see them. It may also add actions of [Registry.AddSource]. nil: all of them, unchanged.
	Offer func(all *Registry) (*Registry, error)
	// Pinned are texts that always follow the history in full, however long the conversation gets. They come behind it
	// so that the prompt and the history before them stay in a server's cache.
	Pinned []string
	// Quoted are texts of others, such as what people wrote before. They are data and no instructions:
	// each is a message of the user's role between the history and what the person says, so it has to
	// say itself what it quotes, and quote it such that nothing in it can end the quotation.
	Quoted []string
	// Tell replaces the text of an outcome of this turn if it returns true. nil: replaces none.
	Tell func(o Outcome) (text string, ok bool)
}

// Connection is a service whose actions a bot may plan. It is safe for concurrent use.
type Connection interface {
	// Key is the operator's name for the service, see [connections.CheckKey].
	Key() string
	// Summary says in the operator's words what the service is for, in one line. It may be empty.
	Summary() string
	// Actions returns the registry of all actions that the connection knows: it is the same one while
	// nothing changes. It does not block.
	Actions() *Registry
	// Offer returns which of them a turn may plan now, by name, and what the model has to know about the
	// connection, such as that it is away; "" for nothing. It waits for the service at most until ctx
	// ends, and never fails: a service that is away costs its own actions only, and a line of the
	// connection's log, at most once a minute, which has the reason. All connections are asked
	// at the same time, so it leaves the turn's state alone.
	Offer(ctx context.Context, turn *Turn) (names []string, note string)
	// Close ends what the connection has open, and waits for it.
	Close()
}

// Lister is a [Connection] that tells operators all that its service has, also what is not offered. One that is no
// Lister is asked what it offers.
type Lister interface {
	// List asks the service. The error says why there is no list. Several goroutines may call it at once.
	List(ctx context.Context) ([]Listed, error)
}

// Listed is an action of a service, as the service has it now.
type Listed struct {
	Remote     string         // the service's own name for it; it may be any text
	Name       string         // in plans; "": it cannot be planned
	Definition jsontext.Value // what a lock keeps of it; nil: nothing
	LeftOut    string         // why it is not offered; "": it is
	NotAllowed bool           // the operator's rules leave it out
	Notes      []string       // what else an operator should know
}
