package page

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	maxTabs     = 32                     // open streams; the oldest gives way
	maxMissed   = 1024                   // events that a stream may catch up on
	flushEvery  = 100 * time.Millisecond // the least time between two messages of a stream
	pingEvery   = 15 * time.Second       // when a silent stream says that it is alive
	writeWithin = 30 * time.Second       // limits one write to a stream
)

// event says what changed: a turn by its id, or a conversation by its key, or what alarm stands for.
type event struct{ Turn, Room string }

const alarm = "!alarm" // in place of a conversation when the bar above each view has other words

// hub tells open pages what changed. It keeps no queue for any of them: a page that was away asks for
// what came after the last event that it saw.
type hub struct {
	mu      sync.Mutex
	last    uint64  // number of the last event
	events  []event // the last ones
	tabs    []*tab  // oldest first
	closed  bool
	started string // tells one start of the bot from another, for pages that outlive it
	keeps   bool   // chat and turns outlive the process
}

// tab is an open stream.
type tab struct {
	changed chan struct{} // has one element if there is something to send
	gone    chan struct{} // closed when it gives way to another
}

// newHub makes a hub whose events have higher numbers than those of an earlier process: a page that has
// seen that one loads everything.
func newHub(keeps bool) *hub {
	return &hub{last: uint64(time.Now().UnixMilli()), started: rand.Text()[:8], keeps: keeps}
}

// tell records an event and wakes the streams. It never blocks.
func (h *hub) tell(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	if len(h.events) == maxMissed {
		h.events = slices.Delete(h.events, 0, maxMissed/4) // not one by one
	}
	h.events = append(h.events, e)
	for _, t := range h.tabs {
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}
}

// open adds a stream. nil: the hub is closed.
func (h *hub) open() *tab {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if len(h.tabs) == maxTabs {
		close(h.tabs[0].gone)
		h.tabs = slices.Delete(h.tabs, 0, 1)
	}
	t := &tab{changed: make(chan struct{}, 1), gone: make(chan struct{})}
	h.tabs = append(h.tabs, t)
	return t
}

func (h *hub) leave(t *tab) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tabs = slices.DeleteFunc(h.tabs, func(other *tab) bool { return other == t })
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, t := range h.tabs {
		close(t.gone)
	}
	h.tabs = nil
}

// since returns what changed after an event, each turn and room once. ok is false if that is not
// known any more.
func (h *hub) since(seen uint64) (turns, rooms []string, last uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if seen > h.last || h.last-seen > uint64(len(h.events)) {
		return nil, nil, h.last, false
	}
	turns, rooms = []string{}, []string{} // not null
	for _, e := range h.events[len(h.events)-int(h.last-seen):] {
		if e.Turn != "" && !slices.Contains(turns, e.Turn) {
			turns = append(turns, e.Turn)
		}
		if e.Room != "" && !slices.Contains(rooms, e.Room) {
			rooms = append(rooms, e.Room)
		}
	}
	return turns, rooms, h.last, true
}

// serve is the stream of one page. It begins after the event that the page saw last, as the header
// Last-Event-ID or the parameter after say, or else now.
func (h *hub) serve(w http.ResponseWriter, r *http.Request) {
	t := h.open()
	if t == nil {
		http.Error(w, "The bot is shutting down.", http.StatusServiceUnavailable)
		return
	}
	defer h.leave(t)
	_, _, seen, _ := h.since(0)
	from := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
	if n, err := strconv.ParseUint(from, 10, 64); err == nil {
		seen = n
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the server's would end the request
	send := func(format string, args ...any) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeWithin))
		_, err := fmt.Fprintf(w, format, args...)
		return err == nil && control.Flush() == nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if !send("retry: 1000\nid: %d\nevent: hello\ndata: {\"started\":%q,\"keeps\":%t}\n\n", seen, h.started, h.keeps) {
		return
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		turns, rooms, last, ok := h.since(seen)
		seen = last
		alive := true
		switch {
		case !ok:
			alive = send("id: %d\nevent: reset\ndata: {}\n\n", seen)
		case len(turns)+len(rooms) > 0:
			data, _ := json.Marshal(map[string][]string{"turns": turns, "rooms": rooms}) // texts
			alive = send("id: %d\nevent: change\ndata: %s\n\n", seen, data)
		}
		if !alive {
			return
		}
		select {
		case <-time.After(flushEvery):
		case <-t.gone:
		case <-r.Context().Done():
			return
		}
		select {
		case <-t.changed:
		case <-ping.C:
			if !send(": still here\n\n") {
				return
			}
		case <-t.gone:
			send("event: bye\ndata: {}\n\n")
			return
		case <-r.Context().Done():
			return
		}
	}
}
