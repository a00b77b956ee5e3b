// Package fakeconnector is a Bot Framework connector for tests: it takes what a
// bot sends over HTTP, remembers it, and fails when it is told to.
package fakeconnector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
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

	mu       sync.Mutex
	all      []Sent
	faults   []Fault
	held     map[string]held
	teamSize int
	messages chan Sent
	updates  chan Sent
	typing   chan struct{}
	mux      *http.ServeMux

	watch  func(Sent) // nil: requests go into the channels
	decide func(Sent) Fault
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
	c := newConnector()
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.URL = server.URL + "/"
	return c
}

// Watched makes a connector that who calls it serves. It tells watch of every request,
// once its answer is known, and asks decide what becomes of a message for which Fails has
// nothing.
func Watched(watch func(Sent), decide func(Sent) Fault) *Connector {
	c := newConnector()
	c.watch, c.decide = watch, decide
	return c
}

func newConnector() *Connector {
	c := &Connector{held: map[string]held{}, messages: make(chan Sent, 4096), updates: make(chan Sent, 4096), typing: make(chan struct{}, 4096), mux: http.NewServeMux()}
	c.mux.HandleFunc("POST /v3/conversations/{conversation}/activities", c.take)
	c.mux.HandleFunc("POST /v3/conversations/{conversation}/activities/{reply}", c.take)
	c.mux.HandleFunc("PUT /v3/conversations/{conversation}/activities/{id}", c.update)
	c.mux.HandleFunc("GET /v3/teams/{team}", c.team)
	return c
}

// ServeHTTP answers as the Connector's REST API does.
func (c *Connector) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

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

// Forget gives up the message that Holds waits for, if it still does: then taken is closed
// by this.
func (c *Connector) Forget(text string, taken <-chan struct{}) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.held[text]
	if !ok || h.taken != taken {
		return false
	}
	delete(c.held, text)
	close(h.taken)
	return true
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
	select {
	case s := <-c.messages:
		return s
	case <-time.After(patience):
		t.Fatalf("no message came; the connector got %v", c.All())
		return Sent{}
	}
}

// NextUpdate waits for the next update of a message that was sent.
func (c *Connector) NextUpdate(t testing.TB) Sent {
	t.Helper()
	select {
	case s := <-c.updates:
		return s
	case <-time.After(patience):
		t.Fatalf("no update came; the connector got %v", c.All())
		return Sent{}
	}
}

// AwaitTyping waits for a typing indicator.
func (c *Connector) AwaitTyping(t testing.TB) {
	t.Helper()
	select {
	case <-c.typing:
	case <-time.After(patience):
		t.Error("no typing indicator came")
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
	return append([]Sent(nil), c.all...)
}

// read returns the request, or answers that it holds no activity.
func read(w http.ResponseWriter, r *http.Request) (Sent, bool) {
	sent := Sent{
		Method: r.Method, Path: r.URL.EscapedPath(), Authorization: r.Header.Get("Authorization"), At: time.Now(),
		Conversation: r.PathValue("conversation"), ReplyTo: r.PathValue("reply"), ID: r.PathValue("id"), Header: r.Header,
	}
	raw, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(raw, &sent.Body)
	}
	if err != nil {
		http.Error(w, `{"error":{"code":"BadArgument","message":"no activity"}}`, http.StatusBadRequest)
	}
	return sent, err == nil
}

func (c *Connector) update(w http.ResponseWriter, r *http.Request) {
	sent, ok := read(w, r)
	if !ok {
		return
	}
	c.mu.Lock()
	c.all = append(c.all, sent)
	c.mu.Unlock()
	sent.Status = http.StatusOK
	c.tell(sent, c.updates)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":%q}`, r.PathValue("id"))
}

// tell says that a request was taken, or refused.
func (c *Connector) tell(sent Sent, queue chan Sent) {
	switch {
	case c.watch != nil:
		c.watch(sent)
	case sent.Status < http.StatusBadRequest:
		queue <- sent
	}
}

func (c *Connector) take(w http.ResponseWriter, r *http.Request) {
	sent, ok := read(w, r)
	if !ok {
		return
	}
	id, f, decided := c.record(sent)
	if !decided && c.decide != nil {
		f = c.decide(sent) // which may take its time: others are answered meanwhile
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case f.Loses:
		sent.ID = id
		c.tell(sent, c.messages)
		panic(http.ErrAbortHandler)
	case f.Status >= http.StatusBadRequest:
		c.refuse(w, sent, f)
		return
	}
	if sent.Type() != "message" {
		sent.Status = http.StatusAccepted
		c.tellTyping(sent)
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprint(w, `{}`)
		return
	}
	sent.ID, sent.Status = id, http.StatusCreated
	c.tell(sent, c.messages)
	c.hold(r, sent.Text())
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintf(w, `{"id":%q}`, id)
}

func (c *Connector) refuse(w http.ResponseWriter, sent Sent, f Fault) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	sent.Status = f.Status
	c.tell(sent, nil)
	w.WriteHeader(f.Status)
	fmt.Fprintf(w, `{"error":{"code":%q,"message":"status %d"}}`, cmp.Or(f.Code, "Fault"), f.Status)
}

func (c *Connector) tellTyping(sent Sent) {
	if c.watch != nil {
		c.watch(sent)
		return
	}
	c.typing <- struct{}{}
}

// record keeps the request, and says what becomes of it if that is decided.
func (c *Connector) record(sent Sent) (id string, f Fault, decided bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, sent)
	decided = sent.Type() != "message"
	if !decided && len(c.faults) > 0 {
		f, c.faults, decided = c.faults[0], c.faults[1:], true
	}
	return strconv.Itoa(len(c.all)), f, decided
}

func (c *Connector) team(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"id":%q,"memberCount":%d}`, r.PathValue("team"), c.teamSize)
}
