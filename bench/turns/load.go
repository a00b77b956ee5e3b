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
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tagMark stands before the tag of a message. The tag ends the text, and the model puts
	// both at the end of what it says: by it a reply is matched to its message.
	tagMark = " #t"
	tenant  = "00000000-0000-0000-0000-000000000001"
	// lateness is how long replies that come twice have to arrive after the last message.
	lateness = 300 * time.Millisecond
	// backOff keeps the load from asking a bot that refuses everything without a pause.
	backOff = 20 * time.Millisecond
)

// load is conversations with a bot, and the connector where its replies arrive.
type load struct {
	urls       []string // of the replicas; messages go round them
	timeout    time.Duration
	client     *http.Client
	server     *http.Server
	serviceURL string
	talks      []*conversation
	measuring  atomic.Bool
	ended      atomic.Bool // no conversation begins another turn
	running    sync.WaitGroup
	sent       atomic.Uint64

	mu     sync.Mutex
	counts outcome
	first  string // that went wrong
}

// outcome is what went wrong with messages and replies, warm-up included.
type outcome struct {
	errors    int // messages that the bot did not accept
	lost      int // accepted messages without a reply in time
	doubled   int // replies after the first to a message
	stray     int // replies to nothing that was sent
	reordered int // replies after one to a later message
}

// conversation is one person who talks to the bot. Its load's mutex guards what replies
// change.
type conversation struct {
	load     *load
	id       string
	number   int
	messages []chan time.Time // for each message, when its first reply arrived
	replied  []bool
	latest   int // number of the latest message that was replied to; -1: none

	turns []time.Duration // measured ones, of the goroutine that talks
}

func newLoad(ctx context.Context, urls []string, conversations int, timeout time.Duration) (*load, error) {
	l := &load{urls: urls, timeout: timeout}
	l.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conversations, DisableCompression: true}}
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	for i := range conversations {
		l.talks = append(l.talks, &conversation{load: l, id: fmt.Sprintf("a:%s-%d", run, i), number: i, latest: -1})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v3/conversations/{conversation}/activities", l.arrive)
	mux.HandleFunc("POST /v3/conversations/{conversation}/activities/{activity}", l.arrive)
	var err error
	l.server, l.serviceURL, err = serve(ctx, mux)
	return l, err
}

// serve answers on a port of its own until the server is closed.
func serve(ctx context.Context, h http.Handler) (s *http.Server, url string, err error) {
	socket, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", fmt.Errorf("listen: %w", err)
	}
	s = &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(socket) }() // until Close
	return s, "http://" + socket.Addr().String() + "/", nil
}

func (l *load) close() {
	l.client.CloseIdleConnections()
	_ = l.server.Close() // nobody replies any more
}

// start lets all conversations begin.
func (l *load) start(ctx context.Context) {
	for _, c := range l.talks {
		l.running.Go(func() {
			for ctx.Err() == nil && !l.ended.Load() {
				c.turn(ctx)
			}
		})
	}
}

// end waits until all conversations are over.
func (l *load) end() {
	l.ended.Store(true)
	l.running.Wait()
	time.Sleep(lateness)
}

// turn sends the next message of the cycle, waits for the reply, and reports whether it came.
func (c *conversation) turn(ctx context.Context) (answered bool) {
	l := c.load
	reply := make(chan time.Time, 1)
	l.mu.Lock()
	n := len(c.messages)
	c.messages, c.replied = append(c.messages, reply), append(c.replied, false)
	l.mu.Unlock()

	sent := time.Now()
	err := l.post(ctx, c.activity(n))
	if err != nil && ctx.Err() == nil {
		l.fail(&l.counts.errors, "post a message: %v", err)
	}
	if err != nil {
		_ = pause(ctx, backOff) // everybody who waits notices the end of ctx
		return false
	}
	late := time.NewTimer(l.timeout)
	defer late.Stop()
	select {
	case at := <-reply:
		if l.measuring.Load() {
			c.turns = append(c.turns, at.Sub(sent))
		}
		return true
	case <-late.C:
		l.fail(&l.counts.lost, "no reply in %v to message %d of %s", l.timeout, n, c.id)
	case <-ctx.Done():
	}
	return false
}

type object = map[string]any

// activity is the nth message as Teams sends it in a personal chat.
func (c *conversation) activity(n int) object {
	text := steps[n%len(steps)].text
	return object{
		"type": "message", "id": strconv.Itoa(n), "timestamp": time.Now().UTC(), "serviceUrl": c.load.serviceURL, "channelId": "msteams",
		"from":         object{"id": "29:" + c.id, "name": "Person", "aadObjectId": fmt.Sprintf("00000000-0000-0000-0000-%012d", c.number)},
		"conversation": object{"id": c.id, "conversationType": "personal", "tenantId": tenant},
		"recipient":    object{"id": "28:bot", "name": "Bot"},
		"text":         fmt.Sprintf("%s%s%d-%d", text, tagMark, c.number, n), "textFormat": "plain", "locale": "en-US",
		"entities":    []object{{"type": "clientInfo", "locale": "en-US", "country": "US", "platform": "Web"}},
		"channelData": object{"tenant": object{"id": tenant}},
	}
}

// post sends a message to the next replica, going round them.
func (l *load) post(ctx context.Context, activity object) error {
	raw, err := json.Marshal(activity)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.urls[l.sent.Add(1)%uint64(len(l.urls))], bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := l.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	said, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err == nil && res.StatusCode/100 != 2 {
		err = errors.New("answered with " + res.Status + ": " + strings.TrimSpace(string(said)))
	}
	return err
}

// arrive receives a reply.
func (l *load) arrive(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	var a struct{ Type, Text string }
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		answer(w, http.StatusBadRequest, object{"error": object{"code": "BadArgument", "message": err.Error()}})
		return
	}
	if a.Type == "message" {
		l.match(r.PathValue("conversation"), a.Text, at)
	}
	answer(w, http.StatusCreated, object{"id": "1"})
}

// match gives a reply to the message that it belongs to.
func (l *load) match(id, text string, at time.Time) {
	var number, n int
	_, err := fmt.Sscanf(text[max(strings.LastIndex(text, tagMark), 0):], tagMark+"%d-%d", &number, &n)
	l.mu.Lock()
	known := err == nil && number >= 0 && number < len(l.talks) && l.talks[number].id == id && n >= 0 && n < len(l.talks[number].messages)
	if !known {
		l.mu.Unlock()
		l.fail(&l.counts.stray, "a reply to nothing in %s: %.300s", id, text)
		return
	}
	c := l.talks[number]
	reply := c.messages[n]
	again, reordered := c.replied[n], n < c.latest
	c.replied[n], c.latest = true, max(c.latest, n)
	l.mu.Unlock()
	switch {
	case again:
		l.fail(&l.counts.doubled, "a second reply to message %d of %s", n, id)
		return
	case reordered:
		l.fail(&l.counts.reordered, "the reply to message %d of %s came after one to a later message", n, id)
	}
	reply <- at
}

// fail counts something that went wrong, and keeps the first.
func (l *load) fail(count *int, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*count++
	if l.first == "" {
		l.first = strings.ToValidUTF8(fmt.Sprintf(format, args...), "")
	}
}

// outcome is what went wrong, and the first thing of that in words.
func (l *load) outcome() (outcome, string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts, l.first
}
