//go:build linux

package chaos_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// weather is how the connector treats what it gets: shares of all replies.
type weather struct {
	slow                                   time.Duration // at most, before each answer
	throttled, gateway, unavailable, reset float64
}

// channel is a connector that writes down every reply on its arrival.
type channel struct {
	*record
	port    *port
	handler http.Handler
	weather atomic.Pointer[weather]

	mu     sync.Mutex
	server *http.Server
	reset  map[string]bool // replies whose answer was lost once
}

// newChannel listens until the test ends. With a handler, that answers in its place.
func newChannel(t *testing.T, r *record, handler http.Handler) *channel {
	t.Helper()
	c := &channel{record: r, port: newPort(t), handler: handler, reset: map[string]bool{}}
	if handler == nil {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v3/conversations/{conversation}/activities", c.take)
		mux.HandleFunc("POST /v3/conversations/{conversation}/activities/{reply}", c.take)
		c.handler = mux
	}
	c.weather.Store(&weather{})
	c.up(t)
	t.Cleanup(c.down)
	return c
}

func (c *channel) url() string { return "http://" + c.port.String() + "/" }

// up begins to listen.
func (c *channel) up(t *testing.T) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", c.port.String())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: c.handler}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = server
	go func() { _ = server.Serve(listener) }() // ends with Close
}

// down refuses connections, and ends those that are open.
func (c *channel) down() {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.server.Close() // its listener and connections: nothing to lose
}

func (c *channel) take(w http.ResponseWriter, r *http.Request) {
	var sent struct{ Type, Text, ReplyToID string }
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &sent)
	}
	if err != nil {
		return // a process that was killed while it wrote
	}
	if sent.Type != "message" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	now := *c.weather.Load()
	status, what := now.judge()
	if what == dropped && !c.mayDrop(sent.ReplyToID+sent.Text) {
		status, what = http.StatusCreated, taken
	}
	index := c.arrives(post{conversation: r.PathValue("conversation"), replyTo: sent.ReplyToID, text: strings.ReplaceAll(cmp.Or(sent.Text, "a card"), "  \n", "\n"), outcome: what})
	if now.slow > 0 {
		wait(r.Context(), rand.N(now.slow))
	}
	c.done(index)
	if what == dropped {
		abort(w)
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"id":"reply-%d"}`, index)
}

// judge rolls the dice for one reply.
func (w weather) judge() (status int, what outcome) {
	roll := rand.Float64()
	for _, fate := range []struct {
		share  float64
		status int
		what   outcome
	}{
		{w.throttled, http.StatusTooManyRequests, refused},
		{w.gateway, http.StatusBadGateway, refused},
		{w.unavailable, http.StatusServiceUnavailable, refused},
		{w.reset, http.StatusOK, dropped},
	} {
		if roll -= fate.share; roll < 0 {
			return fate.status, fate.what
		}
	}
	return http.StatusCreated, taken
}

// mayDrop is true once for a reply: whoever sends it again is then answered.
func (c *channel) mayDrop(reply string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.reset[reply]
	c.reset[reply] = true
	return !before
}

// abort resets the connection.
func abort(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.(*net.TCPConn).SetLinger(0) // closing is then a reset
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// wait lets time go by, at most until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// model is a server whose plans come of the text of the message alone.
type model struct {
	*record
	url           string
	least, range_ time.Duration // how long it thinks
	holds         atomic.Bool   // see hold
	held, holding atomic.Int64  // how often it did, and how often it does now
}

// newModel serves until the test ends. With a handler, that answers in its place.
func newModel(t *testing.T, r *record, least, most time.Duration, handler http.Handler) *model {
	t.Helper()
	m := &model{record: r, least: least, range_: most - least}
	if handler == nil {
		handler = http.HandlerFunc(m.answer)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	m.url = "http://" + listener.Addr().String() + "/v1"
	return m
}

func (m *model) answer(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		return
	}
	var told []key
	var burst []string // the lines of the last message
	for _, said := range asked.Messages {
		if _, ok := keyIn(said.Content); said.Role != "user" || !ok {
			continue
		}
		burst = nil
		for line := range strings.Lines(said.Content) {
			if k, ok := keyIn(line); ok {
				told, burst = append(told, k), append(burst, line[max(0, strings.Index(line, k.String())-len("both ")):])
			}
		}
	}
	if len(told) == 0 {
		http.Error(w, `{"error":{"message":"no message in the prompt"}}`, http.StatusBadRequest)
		return
	}
	commands, first := []object{}, len(told)-len(burst)
	for i, text := range burst {
		at := first + i
		m.asks(call{key: told[at], history: told[:at], burst: told[first:]})
		commands = append(commands, kindOf(text).plan(told[at])["commands"].([]object)...)
	}
	if m.holds.Load() && isHeld(told[first]) {
		m.hold(r.Context(), told[first])
	}
	wait(r.Context(), m.least+rand.N(m.range_+1))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(completion(object{"type": "plan", "commands": commands}))
}

// aloneWithin is how long the model waits for another thread of the channel, at most.
const aloneWithin = 20 * time.Second

// isHeld reports whether the model waits with the message until something is answered in another thread of the channel.
// It does so now and then in one thread of each channel.
func isHeld(k key) bool { return k.talk >= crowded && k.talk%crowded == 0 && k.n%3 == 1 }

// hold waits for an answer in another thread.
func (m *model) hold(ctx context.Context, of key) {
	began := m.now()
	m.held.Add(1)
	m.holding.Add(1)
	defer m.holding.Add(-1)
	for m.now() < began+aloneWithin {
		for _, p := range m.story().posts {
			other, _ := keyIn(strings.TrimPrefix(p.replyTo, "activity-"))
			if p.at > began && other.talk != of.talk && channelOf(other.talk) == channelOf(of.talk) {
				return
			}
		}
		wait(ctx, 50*time.Millisecond)
		if ctx.Err() != nil {
			return
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.alone = append(m.alone, of)
}

// object is JSON in the making.
type object map[string]any

// written is a plan as a model writes it.
func written(plan object) string {
	text, err := json.Marshal(plan)
	if err != nil {
		panic(err) // texts always are JSON
	}
	return string(text)
}

func completion(plan object) object {
	return object{
		"id": "c", "object": "chat.completion", "model": "stand-in",
		"choices": []object{{"index": 0, "finish_reason": "stop", "message": object{"role": "assistant", "content": written(plan)}}},
		"usage":   object{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
	}
}

// plan is what the model answers to such a message.
func (k kind) plan(of key) object {
	if k == show {
		return object{"type": "plan", "commands": []object{
			{"type": "DO", "action": "summarizeLists", "entities": object{}, "saveAs": "LISTS"}, {"type": "SAY", "response": "$LISTS"},
		}}
	}
	p := planOf(of, k.lists(), k.says(of))
	if k == work {
		var commands []object
		for n, say := range p["commands"].([]object) {
			commands = append(commands, object{"type": "DO", "action": fmt.Sprintf("step%d", n+1), "entities": object{"for": of.String()}}, say)
		}
		p["commands"] = commands
	}
	if k == open {
		create := object{"type": "DO", "action": "createList", "entities": object{"list": of.String()}}
		p["commands"] = append([]object{create}, p["commands"].([]object)...)
	}
	return p
}

// planOf adds the key to one list after another and says something after each.
func planOf(of key, lists, says []string) object {
	var commands []object
	for i := range max(len(lists), len(says)) {
		if i < len(lists) {
			commands = append(commands, object{"type": "DO", "action": "addItem", "entities": object{"list": lists[i], "item": of.String()}})
		}
		if i < len(says) {
			commands = append(commands, object{"type": "SAY", "response": says[i]})
		}
	}
	return object{"type": "plan", "commands": commands}
}
