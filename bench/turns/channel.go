package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// account is a person, a bot or a conversation.
type account struct {
	ID               string `json:"id"`
	Name             string `json:"name,omitempty"`
	AADObjectID      string `json:"aadObjectId,omitempty"`
	ConversationType string `json:"conversationType,omitempty"`
	TenantID         string `json:"tenantId,omitempty"`
}

// activity is a message as Teams sends it in a personal chat.
type activity struct {
	Type         string           `json:"type"`
	ID           string           `json:"id"`
	Timestamp    time.Time        `json:"timestamp"`
	ServiceURL   string           `json:"serviceUrl"`
	ChannelID    string           `json:"channelId"`
	From         account          `json:"from"`
	Conversation account          `json:"conversation"`
	Recipient    account          `json:"recipient"`
	Text         string           `json:"text"`
	TextFormat   string           `json:"textFormat"`
	Locale       string           `json:"locale"`
	Entities     []map[string]any `json:"entities"`
	ChannelData  map[string]any   `json:"channelData"`
}

const tenant = "00000000-0000-0000-0000-000000000001"

func (c *conversation) activity(n int, text string) activity {
	return activity{
		Type: "message", ID: strconv.Itoa(n), Timestamp: time.Now().UTC(), ServiceURL: c.load.serviceURL, ChannelID: "msteams",
		From:         account{ID: "29:" + c.id, Name: "Person", AADObjectID: fmt.Sprintf("00000000-0000-0000-0000-%012d", c.number)},
		Conversation: account{ID: c.id, ConversationType: "personal", TenantID: tenant},
		Recipient:    account{ID: "28:bot", Name: "Bot"},
		Text:         text, TextFormat: "plain", Locale: "en-US",
		Entities:    []map[string]any{{"type": "clientInfo", "locale": "en-US", "country": "US", "platform": "Web"}},
		ChannelData: map[string]any{"tenant": map[string]string{"id": tenant}},
	}
}

// listen starts the connector, where the replies arrive.
func (l *load) listen(ctx context.Context) error {
	socket, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for replies: %w", err)
	}
	l.serviceURL = "http://" + socket.Addr().String() + "/"
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v3/conversations/{conversation}/activities", l.arrive)
	mux.HandleFunc("POST /v3/conversations/{conversation}/activities/{activity}", l.arrive)
	l.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = l.server.Serve(socket) }() // until close
	return nil
}

func (l *load) arrive(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	var a struct{ Type, Text string }
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		answer(w, http.StatusBadRequest, map[string]any{"error": map[string]string{"code": "BadArgument", "message": err.Error()}})
		return
	}
	if a.Type == "message" {
		l.take(r.PathValue("conversation"), a.Text, at)
	}
	answer(w, http.StatusCreated, map[string]string{"id": strconv.FormatInt(l.arrived.Add(1), 10)})
}

// maxRetryAfter bounds how long the load waits as it is told to.
const maxRetryAfter = 2 * time.Second

// deliver posts a message to the next replica, and once more to the one after it
// when the load is to send again what was refused or broke off.
func (l *load) deliver(ctx context.Context, a activity) error {
	raw, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode a message: %w", err)
	}
	first := l.sent.Add(1)
	again, wait, err := l.post(ctx, raw, first)
	if err == nil || !again || !l.retry {
		return err
	}
	l.counts.retried.Add(1)
	if err := pause(ctx, wait); err != nil {
		return err
	}
	_, _, err = l.post(ctx, raw, first+1)
	return err
}

// post sends a message to the nth replica, going round them. again says that
// sending it again, after wait, may help.
func (l *load) post(ctx context.Context, raw []byte, n uint64) (again bool, wait time.Duration, err error) {
	url := l.urls[n%uint64(len(l.urls))]
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return false, 0, fmt.Errorf("post a message: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := l.client.Do(req)
	if err != nil {
		return true, 0, fmt.Errorf("post a message: %w", err)
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	switch {
	case err != nil:
		return true, 0, fmt.Errorf("post a message: %w", err)
	case res.StatusCode/100 == 2:
		return false, 0, nil
	}
	seconds, _ := strconv.Atoi(res.Header.Get("Retry-After")) // none: at once
	wait = min(time.Duration(seconds)*time.Second, maxRetryAfter)
	err = errors.New("a message was answered with " + res.Status + ": " + strings.TrimSpace(string(said)))
	return res.StatusCode == http.StatusServiceUnavailable, wait, err
}
