package bottest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/activity"
)

// Expect takes the next message of the bot in the conversation and compares its text. It is
// for messages with one: a card is for [Chat.ExpectCard].
func (c *Chat) Expect(want string) Sent {
	c.kit.t.Helper()
	got := c.next("%q", want)
	switch {
	case got.Activity.Text == "" && c.card(got) != nil:
		c.kit.fail(c, "the bot said a card, want %q: for cards there is ExpectCard\n%s", want, quote(got))
	case got.Activity.Text != want:
		c.kit.fail(c, "the bot said %s, want %q", quote(got), want)
	}
	return got
}

// ExpectMatch takes the next message and matches its text with the regular expression.
func (c *Chat) ExpectMatch(expression string) Sent {
	c.kit.t.Helper()
	want, err := regexp.Compile(expression)
	if err != nil {
		c.kit.fatal(c, "%v", err)
	}
	got := c.next("what matches %s", expression)
	if !want.MatchString(got.Activity.Text) {
		c.kit.fail(c, "the bot said %s, want what matches %s", quote(got), expression)
	}
	return got
}

// Next takes the next message, whatever it is.
func (c *Chat) Next() Sent {
	c.kit.t.Helper()
	return c.next("anything")
}

// ExpectNothing fails the test if the bot, once it has nothing left to do, has said
// something that nobody expected yet.
func (c *Chat) ExpectNothing() {
	c.kit.t.Helper()
	if c.kit.foreign.Load() {
		c.kit.fatal(c, "ExpectNothing is for bots that take their Store from the Parts: of others nobody knows when they have nothing left to do")
	}
	c.kit.settle(nil)
	if got, ok := c.take(); ok {
		c.kit.fail(c, "the bot said %s, want nothing", quote(got))
	}
}

// next takes the next message. It ends the test when none comes.
func (c *Chat) next(want string, args ...any) Sent {
	c.kit.t.Helper()
	var got Sent
	if !c.kit.settle(func() (ok bool) { got, ok = c.take(); return ok }) {
		c.kit.fatal(c, "the bot said nothing more, want "+want+"%s", append(args, c.elsewhere())...)
	}
	return got
}

// elsewhere says why nothing may have come.
func (c *Chat) elsewhere() string {
	var s strings.Builder
	for _, sent := range c.kit.Connector.overlooked(c.of.id) {
		fmt.Fprintf(&s, "\nin %s it said %s, which nobody expected", sent.To, quote(sent))
	}
	if c.kit.foreign.Load() {
		s.WriteString("\nthe bot does not take its Store from the Parts (begin its Config with parts.Bot): does it answer through the kit's Channel?")
	}
	return s.String()
}

func (c *Chat) take() (Sent, bool) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.read == len(c.of.messages) {
		return Sent{}, false
	}
	got := c.of.messages[c.of.read]
	c.of.read++
	c.kit.Connector.look(got)
	return got, true
}

func quote(s Sent) string {
	raw, err := json.Marshal(describeSent(s))
	if err != nil {
		return s.Activity.Text
	}
	return string(raw)
}

// Card is a card that the bot sent.
type Card struct {
	// JSON is the card, for searching.
	JSON string

	chat    *Chat
	message Sent
	content map[string]any
}

// ExpectCard takes the next message, which has to be a card that shows all these texts.
func (c *Chat) ExpectCard(texts ...string) *Card {
	c.kit.t.Helper()
	got := c.next("a card")
	card := c.card(got)
	if card == nil {
		c.kit.fatal(c, "the bot said %s, want a card", quote(got))
	}
	for _, text := range texts {
		if !strings.Contains(card.JSON, text) {
			c.kit.fail(c, "the card does not show %q: %s", text, card.JSON)
		}
	}
	return card
}

// Card reads the card of a message that the bot sent in the conversation; nil: it has
// none.
func (c *Chat) Card(of Sent) *Card { return c.card(of) }

func (c *Chat) card(of Sent) *Card {
	for _, a := range of.Activity.Attachments {
		if a.ContentType != activity.CardContentType {
			continue
		}
		var content map[string]any
		if json.Unmarshal(a.Content, &content) == nil {
			return &Card{string(a.Content), c, of, content}
		}
	}
	return nil
}

// Press clicks on a button of the last card that the bot sent, by its title.
func (c *Chat) Press(title string) *Delivery {
	c.kit.t.Helper()
	for _, sent := range slices.Backward(c.of.said()) {
		if card := c.card(sent); card != nil {
			c.kit.Connector.look(sent)
			return card.Press(title)
		}
	}
	c.kit.fatal(c, "the bot has sent no card yet")
	return nil
}

// As is the card as another person sees it.
func (c *Card) As(person string) *Card {
	other := *c
	other.chat = c.chat.As(person)
	return &other
}

// Press clicks on the button with that title. Inputs are the values of the card's inputs:
// an id, its value, an id…. The bot has to answer: see [Chat.Invoke].
func (c *Card) Press(title string, inputs ...any) *Delivery {
	k := c.chat.kit
	k.t.Helper()
	for _, button := range c.Buttons() {
		if button["title"] != title {
			continue
		}
		click, err := c.Click(button, inputs...)
		if err != nil {
			k.fatal(c.chat, "%v", err)
		}
		return c.chat.Deliver(click).answered()
	}
	k.fatal(c.chat, "no button %q in %s", title, c.JSON)
	return nil
}
