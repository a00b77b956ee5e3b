// Package fakeconnector is a Bot Framework connector for tests: it takes what a
// bot sends over HTTP, remembers it, and fails when it is told to.
package fakeconnector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// patience is how long Next waits for a reply that should come at once.
const patience = 30 * time.Second

// Sent is one request of the bot.
type Sent struct {
	Method, Path, Authorization string
	Body                        map[string]any
	At                          time.Time

	// For who watches: the parts of the path, the request's headers, and the id and
	// status that it was answered with, 0 when it was not answered.
	Conversation, ReplyTo, ID string
	Header                    http.Header
	Status                    int
}

// Text is the text of the activity, or "".
func (s Sent) Text() string { text, _ := s.Body["text"].(string); return text }

// Type is the type of the activity.
func (s Sent) Type() string { typ, _ := s.Body["type"].(string); return typ }

// Connector is a running fake. It is safe for concurrent use.
type Connector struct {
	// URL is what activities carry as their serviceUrl.
	URL string

	watch  func(Sent)
	decide func(Sent) Fault

	mu       sync.Mutex
	all      []Sent
	faults   []Fault
	held     map[string]held
	teamSize int

	messages, updates, typing chan Sent // of New
}

// Fault is how a message is refused. The zero value takes it.
type Fault struct {
	Status     int
	RetryAfter string
	Code       string // in the error's body; "": Fault
	Loses      bool   // it is taken and the connection broken in place of an answer
}

// New starts a connector that ends with the test.
func New(t testing.TB) *Connector {
	t.Helper()
	c := &Connector{held: map[string]held{}, decide: func(Sent) Fault { return Fault{} }}
	c.messages, c.updates, c.typing = make(chan Sent, 4096), make(chan Sent, 4096), make(chan Sent, 4096)
	c.watch = func(s Sent) {
		switch {
		case s.Status >= http.StatusBadRequest:
		case s.Method == http.MethodPut:
			c.updates <- s
		case s.Type() != "message":
			c.typing <- s
		default:
			c.messages <- s
		}
	}
	server := httptest.NewServer(c.Handler())
	t.Cleanup(server.Close)
	c.URL = server.URL + "/"
	return c
}

// Watched makes a connector that its caller serves. It tells watch of every request,
// once its answer is known, and asks decide what becomes of a message for which no fault
// was set.
func Watched(watch func(Sent), decide func(Sent) Fault) *Connector {
	return &Connector{held: map[string]held{}, watch: watch, decide: decide}
}

// Handler answers as the Connector's REST API does.
func (c *Connector) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v3/conversations/{conversation}/activities", c.take)
	mux.HandleFunc("POST /v3/conversations/{conversation}/activities/{reply}", c.take)
	mux.HandleFunc("PUT /v3/conversations/{conversation}/activities/{id}", c.take)
	mux.HandleFunc("GET /v3/teams/{team}", c.team)
	return mux
}

// Fails makes the next messages fail with these statuses, one after another.
func (c *Connector) Fails(retryAfter string, statuses ...int) {
	for _, status := range statuses {
		c.Meets(Fault{Status: status, RetryAfter: retryAfter})
	}
}

// Meets makes the next message meet this fault, behind those that were set before.
func (c *Connector) Meets(f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, f)
}

// held is a message whose answer waits.
type held struct{ taken, release chan struct{} }

// Holds makes the connector take the next message with this text, and answer only when
// release is closed. taken is closed when the message was taken.
func (c *Connector) Holds(text string) (taken <-chan struct{}, release chan<- struct{}) {
	h := held{make(chan struct{}), make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held[text] = h
	return h.taken, h.release
}

// Left is what was not met so far: how many of the faults of Fails, and the texts of Holds.
func (c *Connector) Left() (faults int, held []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.faults), slices.Sorted(maps.Keys(c.held))
}

func (c *Connector) hold(r *http.Request, text string) {
	c.mu.Lock()
	h, ok := c.held[text]
	delete(c.held, text)
	c.mu.Unlock()
	if !ok {
		return
	}
	close(h.taken)
	select {
	case <-h.release:
	case <-r.Context().Done():
	}
}

// TeamOf makes every team have that many members.
func (c *Connector) TeamOf(members int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.teamSize = members
}

// Next waits for the next message that was taken.
func (c *Connector) Next(t testing.TB) Sent {
	t.Helper()
	return c.await(t, c.messages, "message")
}

// NextUpdate waits for the next update of a message that was sent.
func (c *Connector) NextUpdate(t testing.TB) Sent {
	t.Helper()
	return c.await(t, c.updates, "update")
}

// AwaitTyping waits for a typing indicator.
func (c *Connector) AwaitTyping(t testing.TB) {
	t.Helper()
	c.await(t, c.typing, "typing indicator")
}

func (c *Connector) await(t testing.TB, queue chan Sent, what string) Sent {
	t.Helper()
	select {
	case s := <-queue:
		return s
	case <-time.After(patience):
		t.Fatalf("no %s came; the connector got %v", what, c.All())
		return Sent{}
	}
}

// None fails the test when a message is there that Next did not take.
func (c *Connector) None(t testing.TB) {
	t.Helper()
	select {
	case s := <-c.messages:
		t.Errorf("unexpected message %v", s.Body)
	default:
	}
}

// All returns every request so far, typing indicators and failed ones included.
func (c *Connector) All() []Sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// take takes an activity: a message, which may meet a fault, an update, or anything else.
func (c *Connector) take(w http.ResponseWriter, r *http.Request) {
	sent := Sent{
		Method: r.Method, Path: r.URL.EscapedPath(), Authorization: r.Header.Get("Authorization"), At: time.Now(),
		Conversation: r.PathValue("conversation"), ReplyTo: r.PathValue("reply"), ID: r.PathValue("id"), Header: r.Header,
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewDecoder(r.Body).Decode(&sent.Body); err != nil {
		http.Error(w, `{"error":{"code":"BadArgument","message":"no activity"}}`, http.StatusBadRequest)
		return
	}
	n, f := c.enter(sent)
	switch {
	case f.Loses:
		sent.ID = strconv.Itoa(n)
		c.watch(sent)
		panic(http.ErrAbortHandler)
	case f.Status >= http.StatusBadRequest:
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		sent.Status = f.Status
		c.watch(sent)
		w.WriteHeader(f.Status)
		fmt.Fprintf(w, `{"error":{"code":%q,"message":"status %d"}}`, cmp.Or(f.Code, "Fault"), f.Status)
		return
	case sent.message():
		sent.ID, sent.Status = strconv.Itoa(n), http.StatusCreated
	case sent.Method == http.MethodPut:
		sent.Status = http.StatusOK
	default:
		sent.Status = http.StatusAccepted
	}
	c.watch(sent)
	if sent.message() {
		c.hold(r, sent.Text())
	}
	w.WriteHeader(sent.Status)
	fmt.Fprintf(w, `{"id":%q}`, sent.ID)
}

// message reports whether the request sends a message of its own.
func (s Sent) message() bool { return s.Method == http.MethodPost && s.Type() == "message" }

// enter keeps the request, and says which one it is and what becomes of it.
func (c *Connector) enter(sent Sent) (n int, f Fault) {
	c.mu.Lock()
	c.all = append(c.all, sent)
	n = len(c.all)
	scripted := sent.message() && len(c.faults) > 0
	if scripted {
		f, c.faults = c.faults[0], c.faults[1:]
	}
	c.mu.Unlock()
	if sent.message() && !scripted {
		f = c.decide(sent) // which may take its time: others are answered meanwhile
	}
	return n, f
}

func (c *Connector) team(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":%q,"memberCount":%d}`, r.PathValue("team"), c.teamSize)
}
