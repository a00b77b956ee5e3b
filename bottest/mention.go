package bottest

// MentionOf is the entity of a mention of the bot that stands in a text as <at>NAME</at>.
func (c *Chat) MentionOf(at string) Activity { return c.kit.mention(at) }

// ID is the id of the message with the card.
func (c *Card) ID() string { return c.message.ID }

// Explain shows all that happened in the kit, with the last prompt: what failures of the
// test show.
func (k *Kit) Explain() string { return k.explain(nil) }
