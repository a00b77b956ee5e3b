package console

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
)

const (
	botID      = "bot"
	maxRefusal = 1 << 10 // bytes of a refusal that are read
)

// outgoing is an activity of the person's.
type outgoing = activity.Activity

// bot is the way to the bot's webhook.
type bot struct {
	cfg          Config
	conversation string
	serviceURL   string
	client       *http.Client
}

func newBot(cfg Config, conversation, serviceURL string) *bot {
	return &bot{
		cfg:          cfg,
		conversation: conversation,
		serviceURL:   serviceURL,
		client: &http.Client{
			Transport:     &http.Transport{}, // no proxy: the bot is on this machine
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (b *bot) close() { b.client.CloseIdleConnections() }

// hello says that the bot has come into the conversation.
func (b *bot) hello() *outgoing {
	a := b.activity(activity.ConversationUpdate)
	a.MembersAdded = []activity.Account{a.Recipient}
	return a
}

func (b *bot) message(text string) *outgoing {
	a := b.activity(activity.Message)
	a.Text, a.TextFormat = strings.ToValidUTF8(text, "\ufffd"), "plain"
	return a
}

func (b *bot) activity(t activity.Type) *outgoing {
	a := &outgoing{
		Type:       t,
		ID:         rand.Text(),
		ChannelID:  ChannelID,
		ServiceURL: b.serviceURL,
		From:       activity.NewAccount(b.cfg.UserID, b.cfg.Name),
		Recipient:  activity.NewAccount(botID, b.cfg.BotName),
		Extra:      times(time.Now()),
	}
	a.Conversation.ID = b.conversation
	a.Conversation.ConversationType = "personal"
	return a
}

// times are when an activity is sent, and what time that is for the person.
func times(now time.Time) jsontext.Value {
	return jsontext.Value(`{"timestamp":"` + now.UTC().Format(time.RFC3339Nano) + `","localTimestamp":"` + now.Format(time.RFC3339Nano) + `"}`)
}

// post has one turn: it returns when the bot is done with the activity. Its
// errors are sentences for the person.
func (b *bot) post(ctx context.Context, a *outgoing) error {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	body, err := a.Encode()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.cfg.BotURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := b.client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("the bot did not finish within %s", b.cfg.Timeout)
	}
	if err != nil {
		return fmt.Errorf("the bot cannot be reached: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the bot did not take the message: %s %s", resp.Status, strings.TrimSpace(printable(string(said))))
	}
	return nil
}
