// Package fakechat is a personal chat in Teams for the tests of small bots: what
// a person says goes to the bot over HTTP, and what the bot sends is compared.
// Between them is all of the bot; only the channel and the model are fakes.
package fakechat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planbot-go/planbot/internal/fakeconnector"
	"github.com/planbot-go/planbot/internal/fakemodel"
	"github.com/planbot-go/planbot/models"
)

// Bot is what the tests talk with, such as a *bot.Bot.
type Bot interface {
	http.Handler
	Drain(ctx context.Context) error
}

// Chat is a chat of one person with the bot.
type Chat struct {
	Model     *fakemodel.Server // which the bot asks
	Connector *fakeconnector.Connector

	t      testing.TB
	person string
	server *httptest.Server
	ids    *atomic.Int64
}

// New starts a chat of Mia with the bot that newBot makes on a scripted model. It
// ends with the test.
func New[B Bot](t testing.TB, newBot func(context.Context, models.Model) (B, error)) *Chat {
	t.Helper()
	fake := fakemodel.New(t)
	model, err := models.NewOpenAI(models.OpenAIConfig{BaseURL: fake.URL, Model: "fake"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	chat := With(t, model, newBot)
	chat.Model = fake
	return chat
}

// With is [New] on that model. Chat.Model is nil.
func With[B Bot](t testing.TB, model models.Model, newBot func(context.Context, models.Model) (B, error)) *Chat {
	t.Helper()
	b, err := newBot(t.Context(), model)
	if err != nil {
		t.Fatal(err)
	}
	channel := fakeconnector.New(t) // it is there until the bot has ended
	server := httptest.NewServer(b)
	t.Cleanup(func() {
		server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Drain(ctx); err != nil {
			t.Errorf("drain: %v", err)
		}
	})
	return &Chat{Connector: channel, t: t, person: "Mia", server: server, ids: &atomic.Int64{}}
}

// Of is the chat of another person with the same bot.
func (c *Chat) Of(person string) *Chat {
	other := *c
	other.person = person
	return &other
}

// Say sends a text and waits until the bot has handled it.
func (c *Chat) Say(text string) {
	c.t.Helper()
	c.deliver(map[string]any{"type": "message", "text": text})
}

// Expect takes the next message of the bot and compares its text.
func (c *Chat) Expect(want string) {
	c.t.Helper()
	if got := c.Connector.Next(c.t).Text(); got != want {
		c.t.Errorf("the bot said %q, want %q", got, want)
	}
}

// Card is a card that the bot sent.
type Card struct {
	// Text is the card as JSON, for searching.
	Text string

	chat    *Chat
	actions []map[string]any
}

// Card takes the next message of the bot, which has to be a card.
func (c *Chat) Card() Card {
	c.t.Helper()
	sent := c.Connector.Next(c.t)
	raw, err := json.Marshal(sent.Body["attachments"])
	if err != nil {
		c.t.Fatal(err)
	}
	var attachments []struct {
		Content struct{ Actions []map[string]any }
	}
	if err := json.Unmarshal(raw, &attachments); err != nil || len(attachments) != 1 {
		c.t.Fatalf("no card: %v", sent.Body)
	}
	return Card{string(raw), c, attachments[0].Content.Actions}
}

// Press clicks on the button with that title and returns the bot's answer.
func (c Card) Press(title string) string {
	c.chat.t.Helper()
	for _, action := range c.actions {
		if action["title"] == title {
			return c.chat.deliver(map[string]any{
				"type": "invoke", "name": "adaptiveCard/action",
				"value": map[string]any{"action": map[string]any{"type": action["type"], "verb": action["verb"], "data": action["data"]}},
			})
		}
	}
	c.chat.t.Fatalf("no button %q in %s", title, c.Text)
	return ""
}

// deliver posts an activity of the person, which has to be taken.
func (c *Chat) deliver(activity map[string]any) string {
	c.t.Helper()
	activity["id"] = fmt.Sprint("activity-", c.ids.Add(1))
	activity["channelId"] = "msteams"
	activity["serviceUrl"] = c.Connector.URL
	activity["from"] = map[string]any{"id": "29:" + c.person, "name": c.person}
	activity["recipient"] = map[string]any{"id": "28:bot"}
	activity["conversation"] = map[string]any{"id": "a:" + c.person, "conversationType": "personal"}
	raw, err := json.Marshal(activity)
	if err != nil {
		c.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.server.URL, bytes.NewReader(raw))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.server.Client().Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		c.t.Fatalf("%s was answered with %s %s, %v", raw, resp.Status, answer, err)
	}
	return string(answer)
}
