package actions

import "context"

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
