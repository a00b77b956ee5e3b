package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// maxBody bounds an activity and an answer.
const maxBody = 1 << 20

type account struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

type activity struct {
	Type         string  `json:"type"`
	ID           string  `json:"id,omitempty"`
	ServiceURL   string  `json:"serviceUrl,omitempty"`
	ChannelID    string  `json:"channelId,omitempty"`
	From         account `json:"from"`
	Recipient    account `json:"recipient"`
	Conversation account `json:"conversation"`
	ReplyToID    string  `json:"replyToId,omitempty"`
	Text         string  `json:"text,omitempty"`
}

// bot is safe for concurrent use.
type bot struct {
	model, key, named string
	redis             *redis
	client            *http.Client

	mu   sync.Mutex
	busy map[string]*lane // by conversation
}

// lane keeps the turns of one conversation apart.
type lane struct {
	sync.Mutex
	users int
}

// enter waits for the conversation; the caller calls leave when its turn is over.
func (b *bot) enter(conversation string) (leave func()) {
	b.mu.Lock()
	l := b.busy[conversation]
	if l == nil {
		l = &lane{}
		b.busy[conversation] = l
	}
	l.users++
	b.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		b.mu.Lock()
		defer b.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(b.busy, conversation)
		}
	}
}

func (b *bot) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/messages", func(w http.ResponseWriter, r *http.Request) {
		var in activity
		raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			err = json.Unmarshal(raw, &in)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if in.Type != "message" {
			return
		}
		if err := b.turn(r.Context(), in); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// turn answers one message. The webhook waits for it.
func (b *bot) turn(ctx context.Context, in activity) error {
	defer b.enter(in.Conversation.ID)()
	key := in.ChannelID + "/" + in.Recipient.ID + "/" + in.Conversation.ID
	s, err := b.load(ctx, key)
	if err != nil {
		return err
	}
	text, err := b.think(ctx, s, in.Text)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	if _, err := b.redis.do(ctx, "SET", key, string(raw)); err != nil {
		return err
	}
	return b.reply(ctx, in, text)
}

func (b *bot) load(ctx context.Context, key string) (*memory, error) {
	s := &memory{Lists: map[string][]string{}}
	raw, err := b.redis.do(ctx, "GET", key)
	if err != nil || raw == nil {
		return s, err
	}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("decode the state %s: %w", key, err)
	}
	return s, nil
}

// think asks the model, does what it plans and returns what it says.
func (b *bot) think(ctx context.Context, s *memory, text string) (string, error) {
	ask := completionRequest{Model: b.named, Messages: s.prompt(text), MaxTokens: 1000}
	var answer completion
	if err := b.post(ctx, b.model, ask, &answer); err != nil {
		return "", err
	}
	if len(answer.Choices) == 0 {
		return "", errors.New("the model answered without a choice")
	}
	content := answer.Choices[0].Message.Content
	var p plan
	if err := json.Unmarshal([]byte(content), &p); err != nil {
		return "", fmt.Errorf("decode the plan: %w", err)
	}
	said, err := s.run(p)
	if err != nil {
		return "", err
	}
	s.remember(text, content)
	return said, nil
}

func (b *bot) reply(ctx context.Context, in activity, text string) error {
	out := activity{
		Type: "message", ServiceURL: in.ServiceURL, ChannelID: in.ChannelID, From: in.Recipient, Recipient: in.From,
		Conversation: in.Conversation, ReplyToID: in.ID, Text: text,
	}
	to := strings.TrimSuffix(in.ServiceURL, "/") + "/v3/conversations/" + url.PathEscape(in.Conversation.ID) + "/activities/" + url.PathEscape(in.ID)
	var id struct {
		ID string `json:"id"`
	}
	return b.post(ctx, to, out, &id)
}

func (b *bot) post(ctx context.Context, to string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode for %s: %w", to, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("post to %s: %w", to, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+b.key)
	res, err := b.client.Do(req)
	if err != nil {
		return fmt.Errorf("post to %s: %w", to, err)
	}
	defer res.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return fmt.Errorf("read the answer of %s: %w", to, err)
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", to, res.Status)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("decode the answer of %s: %w", to, err)
	}
	return nil
}
