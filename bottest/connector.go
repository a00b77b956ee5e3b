package bottest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/turnid"
)

// Connector stands in for the Bot Framework connector. It accepts what the bot sends, records it
// for [Chat.Expect], and fails when told to. It is safe for concurrent use.
//
// A streamed message is held to the rules of Teams: at most one request a second and one stream in a
// personal chat, in order, each text a continuation of the one before, two minutes in all, no update
// or delete before the final, nothing in groups and channels. What breaks one is answered as Teams
// answers it, and fails the test. A refusal by Fails, Decides or PressStop does not.
type Connector struct {
	// URL is the serviceUrl of activities.
	URL string

	t     testing.TB
	story *story

	mu       sync.Mutex
	decide   func(Sent) Answer
	faults   []Answer
	waiting  map[string]waiting // by text
	teamSize int
	requests int
	sent     []Sent
	read     int          // of sent, by Next
	looked   map[int]bool // by Seq, the messages that the test looked at

	streams streams
}

// waiting is a message that is not answered before release is closed.
type waiting struct{ taken, release chan struct{} }

// NewConnector serves a connector on loopback until the test ends, for bots that run without a
// [Kit].
func NewConnector(t testing.TB) *Connector {
	t.Helper()
	listener, err := (&network{}).listen(t.Context())
	if err != nil {
		t.Fatalf("bottest: listen: %v", err)
	}
	return ServeConnector(t, listener)
}

// ServeConnector is [NewConnector] on a listener of the test, such as one in memory.
func ServeConnector(t testing.TB, on net.Listener) *Connector {
	c := newConnector(t, &story{began: time.Now()})
	server := &httptest.Server{Listener: on, Config: &http.Server{Handler: c.handler(), ReadHeaderTimeout: patience}}
	server.Start()
	t.Cleanup(server.Close)
	c.URL = server.URL + "/"
	return c
}

func newConnector(t testing.TB, story *story) *Connector {
	return &Connector{
		t: t, story: story, looked: map[int]bool{}, waiting: map[string]waiting{}, streams: streams{bubbles: map[string]*bubble{}},
		decide: func(Sent) Answer { return Answer{} },
	}
}

// Sent is one request of the bot to the connector.
type Sent struct {
	turnid.Of
	Seq           int    // its place among all events of the kit
	Method        string // POST sends, PUT updates, DELETE deletes
	Authorization string // the header
	Status        int    // of the response; 0: there was none, see [Answer].CutOff
	To            string // the conversation; "": the request creates one
	ReplyTo       string // the activity that it replies to; may be ""
	ID            string // the new message's id, or that of the updated message
	Targeted      bool   // only one person sees it
	Reaction      string // that the request adds (PUT) or takes away (DELETE)
	Activity      *activity.Activity
	JSON          string // the activity as received

	chat *Chat // of the test that took it
}

// Message reports whether the connector accepted it as a new message.
func (s Sent) Message() bool {
	return s.Method == http.MethodPost && s.Activity.Type == activity.Message && s.Status < http.StatusBadRequest
}

// line describes it in one line.
func (s Sent) line() string {
	text := s.Activity.Text
	for _, a := range s.Activity.Attachments {
		text += " [" + a.ContentType + "] " + string(a.Content)
	}
	switch {
	case s.Reaction != "":
		text = "(" + s.Method + " reaction " + s.Reaction + " to message " + s.ID + ")"
	case s.Method == http.MethodPut:
		text = "(updates message " + s.ID + ") " + text
	case s.Method == http.MethodDelete:
		text = "(deletes message " + s.ID + ")"
	case s.To == "":
		text = "(creates a conversation)"
	case s.Activity.Type != activity.Message && chunkIn([]byte(s.JSON)) != nil:
		text = "(streams) " + text
	case s.Activity.Type != activity.Message:
		text = "(" + string(s.Activity.Type) + ")" // such as typing
	}
	if s.Status >= http.StatusBadRequest {
		text += fmt.Sprintf(" (refused: %d)", s.Status)
	}
	return strings.TrimSpace(text)
}

// Card is the card in the message, as JSON; "" if there is none.
func (s Sent) Card() string {
	for _, a := range s.Activity.Attachments {
		if a.ContentType == activity.CardContentType {
			return string(a.Content)
		}
	}
	return ""
}

// As is the message as another person sees it.
func (s Sent) As(person string) Sent {
	s.chat = s.chat.As(person)
	return s
}

// Press clicks the button of the card with that title. inputs are the values of the card's inputs:
// an id, its value, an id… The bot must answer: see [Chat.Invoke]. The message must be one that a
// [Chat] returned.
func (s Sent) Press(title string, inputs ...any) *Delivery {
	s.chat.kit.t.Helper()
	there := []string{} // titles
	for _, button := range s.Buttons() {
		if button["title"] != title {
			there = append(there, fmt.Sprintf("%q", button["title"]))
			continue
		}
		click, err := s.Click(button, inputs...)
		if err != nil {
			s.chat.fatal("%v", err)
		}
		return s.chat.Deliver(click).answered()
	}
	s.chat.fatal("no button %q, only %s, in %s", title, cmp.Or(strings.Join(there, ", "), "none"), s.Card())
	return nil
}

// Buttons returns the actions of the card as in its JSON: first those of its bar, then those in its
// body, including containers, action sets and cards that a button shows.
func (s Sent) Buttons() []map[string]any {
	var card any
	if err := json.Unmarshal([]byte(s.Card()), &card); err != nil {
		return nil
	}
	return buttonsOf(card)
}

// notSeen are the fields of a card that people do not see: what a button sends, what replaces an
// unknown element, and what a card refreshes itself with.
var notSeen = []string{"data", "fallback", "refresh"}

func buttonsOf(part any) (buttons []map[string]any) {
	switch part := part.(type) {
	case []any:
		for _, p := range part {
			buttons = append(buttons, buttonsOf(p)...)
		}
	case map[string]any:
		if kind, _ := part["type"].(string); strings.HasPrefix(kind, "Action.") {
			buttons = append(buttons, part)
		}
		for _, name := range slices.Sorted(maps.Keys(part)) {
			if !slices.Contains(notSeen, name) {
				buttons = append(buttons, buttonsOf(part[name])...)
			}
		}
	}
	return buttons
}

// Click returns the activity of a click on one of the card's buttons: an invoke or, for an
// Action.Submit, a message. It returns an error for a button that sends nothing to the bot. It
// panics if an input value is missing or an id is not a string.
func (s Sent) Click(button map[string]any, inputs ...any) (map[string]any, error) {
	if kind := button["type"]; kind != "Action.Execute" && kind != "Action.Submit" {
		return nil, fmt.Errorf("the button %q is of type %v, which sends nothing to the bot: want Action.Execute or Action.Submit", button["title"], kind)
	}
	data := map[string]any{}
	if of, ok := button["data"].(map[string]any); ok {
		maps.Copy(data, of)
	}
	for pair := range slices.Chunk(inputs, 2) {
		data[pair[0].(string)] = pair[1]
	}
	if button["type"] == "Action.Submit" {
		return map[string]any{"type": "message", "replyToId": s.ID, "value": data}, nil
	}
	return map[string]any{
		"type": "invoke", "name": "adaptiveCard/action", "replyToId": s.ID,
		"value": map[string]any{"action": map[string]any{"type": button["type"], "verb": button["verb"], "id": button["id"], "data": data}, "trigger": "manual"},
	}, nil
}

// Fails makes the next messages fail with these faults, in order: with Status, Code and RetryAfter,
// or with CutOff after the message was accepted, so the bot cannot know that it arrived. Activities
// other than messages, such as typing indicators, do not count. An unused fault fails the test at
// its end.
func (c *Connector) Fails(faults ...Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, faults...)
}

// Decides lets f decide about the messages for which Fails says nothing, and about everything else
// but typing indicators: chunks of a stream, updates, and requests that delete a message or create a
// conversation. The zero Answer accepts one. f may be called concurrently, and may take its time.
func (c *Connector) Decides(f func(Sent) Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decide = f
}

// Holds makes the connector accept the next message with this text, and answer only when release is
// closed. taken is closed once the message is accepted. If it never comes, the test fails at its
// end.
func (c *Connector) Holds(text string) (taken <-chan struct{}, release chan<- struct{}) {
	w := waiting{make(chan struct{}), make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[text] = w
	return w.taken, w.release
}

// PressStop presses Stop in the message that the bot streams to the conversation. The bot learns of
// it from the answer to its next request. There must be such a message.
func (c *Connector) PressStop(conversation string) {
	c.t.Helper()
	if !c.streams.stop(conversation) {
		c.t.Errorf("bottest: nothing is streamed to %s, so there is nothing to stop", conversation)
	}
}

// TeamOf gives every team that many members.
func (c *Connector) TeamOf(members int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.teamSize = members
}

// Sent returns everything that the bot has sent so far, in order, including failed requests. All of
// it then counts as looked at.
func (c *Connector) Sent() []Sent {
	c.mu.Lock()
	all := slices.Clone(c.sent)
	c.mu.Unlock()
	c.look(all...)
	return all
}

// Next waits for the next message to any conversation, half a minute at most.
func (c *Connector) Next() Sent {
	c.t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		if s, ok := c.next(); ok {
			return s
		}
	}
	c.t.Fatalf("bottest: no message came; the connector got %v", c.Sent())
	return Sent{}
}

func (c *Connector) next() (Sent, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.read < len(c.sent) {
		s := c.sent[c.read]
		c.read++
		if s.Message() {
			c.looked[s.Seq] = true
			return s, true
		}
	}
	return Sent{}, false
}

// said returns the messages to a conversation so far.
func (c *Connector) said(to string) (all []Sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sent {
		if s.To == to && s.Message() {
			all = append(all, s)
		}
	}
	return all
}

// cards returns the cards in a conversation, as they look now.
func (c *Connector) cards(to string) (all []Sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sent {
		at := slices.IndexFunc(all, func(card Sent) bool { return card.ID == s.ID })
		switch {
		case s.To != to || s.Status >= http.StatusBadRequest || s.Reaction != "":
		case s.Message() && s.Card() != "":
			all = append(all, s)
		case at >= 0 && s.Method == http.MethodPut:
			all[at].Activity, all[at].JSON = s.Activity, s.JSON
		case at >= 0 && s.Method == http.MethodDelete:
			all = slices.Delete(all, at, at+1)
		}
	}
	return all
}

// look records that the test looked at these.
func (c *Connector) look(sent ...Sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range sent {
		c.looked[s.Seq] = true
	}
}

// overlooked lists the messages that the test did not look at, except those to one conversation.
func (c *Connector) overlooked(except string) (told []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sent {
		if s.Message() && !c.looked[s.Seq] && s.To != except {
			told = append(told, fmt.Sprintf("the bot said %q in %s, which nothing expected", s.line(), s.To))
		}
	}
	return told
}

// unmet lists the setup that the bot never used.
func (c *Connector) unmet() (left []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.faults); n > 0 {
		left = append(left, fmt.Sprintf("%d faults of Connector.Fails were not met: the bot sent no message that they were for", n))
	}
	for _, text := range slices.Sorted(maps.Keys(c.waiting)) {
		left = append(left, fmt.Sprintf("the message %q of Connector.Holds was not sent", text))
	}
	return left
}

// handler answers as the connector's REST API does.
func (c *Connector) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v3/conversations/{conversation}/activities", c.take)
	mux.HandleFunc("POST /v3/conversations/{conversation}/activities/{reply}", c.take)
	mux.HandleFunc("PUT /v3/conversations/{conversation}/activities/{id}", c.take)
	mux.HandleFunc("DELETE /v3/conversations/{conversation}/activities/{id}", c.take)
	mux.HandleFunc("PUT /v3/conversations/{conversation}/activities/{id}/reactions/{reaction}", c.take)
	mux.HandleFunc("DELETE /v3/conversations/{conversation}/activities/{id}/reactions/{reaction}", c.take)
	mux.HandleFunc("POST /v3/conversations", c.take)
	mux.HandleFunc("GET /v3/conversations/{conversation}/members/{user}", member)
	mux.HandleFunc("GET /v3/teams/{team}", func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":%q,"aadGroupId":"group-1","memberCount":%d}`, r.PathValue("team"), c.teamSize)
	})
	return mux
}

// take takes an activity. Only messages can fail.
func (c *Connector) take(w http.ResponseWriter, r *http.Request) {
	sent := Sent{
		Of: ofHeader(r.Header), Method: r.Method, Authorization: r.Header.Get("Authorization"), Status: http.StatusAccepted,
		Targeted: r.URL.Query().Get("isTargetedActivity") == "true",
		To:       r.PathValue("conversation"), ReplyTo: r.PathValue("reply"), ID: r.PathValue("id"), Reaction: r.PathValue("reaction"), Activity: &activity.Activity{},
	}
	w.Header().Set("Content-Type", "application/json")
	raw, err := io.ReadAll(r.Body)
	if err == nil && len(raw) > 0 {
		err = json.Unmarshal(raw, sent.Activity)
	}
	if err != nil {
		c.t.Errorf("bottest: read what the bot sent: %v", err)
		http.Error(w, `{"error":{"code":"BadArgument","message":"no activity"}}`, http.StatusBadRequest)
		return
	}
	sent.JSON = string(raw)
	if aimed := sent.Activity.Targeted(); aimed != (sent.Targeted && r.Method == http.MethodPost) || aimed && sent.Activity.Recipient.ID == "" {
		c.t.Errorf("bottest: a new message that one person sees names them, no other does: %s %s %s", r.Method, r.URL, raw)
		http.Error(w, `{"error":{"code":"BadArgument","message":"Bad argument"}}`, http.StatusBadRequest)
		return
	}
	isMessage, part := sent.Message(), chunkIn(raw)
	id, a := c.answer(sent, isMessage, part)
	var v ruling
	switch {
	case sent.Reaction != "": // which may come at any time
	case a.Status >= http.StatusBadRequest:
		c.streams.refused(part, a.Status, a.Body)
	default:
		var b *bubble
		v, b = c.streams.judge(streamCall{
			method: sent.Method, to: sent.To, replyTo: sent.ReplyTo, id: sent.ID, activity: sent.Activity, part: part, newID: id, lost: a.CutOff,
		})
		defer c.streams.answered(b)
	}
	body := ""
	switch {
	case a.Status >= http.StatusBadRequest:
		sent.Status, body = a.Status, cmp.Or(a.Body, fmt.Sprintf(`{"error":{"code":%q,"message":"status %d"}}`, cmp.Or(a.Code, "Fault"), a.Status))
	case v.status != 0:
		sent.Status, body = v.status, v.body(id)
		if part != nil {
			sent.ID = cmp.Or(part.ID, id)
		}
	case isMessage:
		sent.ID, sent.Status = id, http.StatusCreated
	case sent.To == "": // a person's own conversation, always the same
		sent.Status = http.StatusCreated
		sent.ID = personal(raw)
	case sent.Method != http.MethodPost:
		sent.Status = http.StatusOK
	}
	if a.Status < http.StatusBadRequest && v.code == "" {
		sent.Status, body = cmp.Or(a.Status, sent.Status), cmp.Or(a.Body, body)
	}
	body = cmp.Or(body, fmt.Sprintf(`{"id":%q}`, sent.ID))
	if a.CutOff {
		sent.Status = 0
	}
	c.record(sent)
	if v.broken != "" {
		c.t.Errorf("bottest: a stream to %s breaks a rule of the service: %s: %s", sent.To, v.broken, sent.line())
	}
	if isMessage && sent.Status < http.StatusBadRequest && !a.CutOff {
		c.wait(r.Context(), sent.Activity.Text)
	}
	select {
	case <-time.After(a.Takes):
	case <-r.Context().Done():
	}
	if a.CutOff {
		panic(http.ErrAbortHandler)
	}
	if a.RetryAfter > 0 && a.Status >= http.StatusBadRequest {
		w.Header().Set("Retry-After", strconv.FormatFloat(a.RetryAfter.Seconds(), 'f', -1, 64))
	}
	w.WriteHeader(sent.Status)
	fmt.Fprint(w, body)
}

// personal is the id of the conversation that a request creates.
func personal(request []byte) string {
	var chat struct {
		Members []struct {
			ID string `json:"id"`
		} `json:"members"`
	}
	if json.Unmarshal(request, &chat) != nil || len(chat.Members) != 1 {
		return ""
	}
	return "a:" + nameIn(chat.Members[0].ID)
}

// nameIn is the person's name in the id of their account or in their directory id.
func nameIn(id string) string { return strings.TrimPrefix(strings.TrimPrefix(id, "29:"), "aad-") }

// member answers who a member of a conversation is. In a personal one there is only its person; everybody is in the
// others.
func member(w http.ResponseWriter, r *http.Request) {
	conversation, name := r.PathValue("conversation"), nameIn(r.PathValue("user"))
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(conversation, "a:") && !strings.EqualFold(conversation, "a:"+name) {
		http.Error(w, `{"error":{"code":"MemberNotFoundInConversation","message":"Member not found in conversation."}}`, http.StatusNotFound)
		return
	}
	fmt.Fprintf(w, `{"id":%q,"name":%q,"aadObjectId":%q}`, userID(name), name, "aad-"+name)
}

// answer returns the id of a new message, and how to answer it.
func (c *Connector) answer(sent Sent, isMessage bool, part *chunk) (id string, a Answer) {
	c.mu.Lock()
	c.requests++
	id = strconv.Itoa(c.requests)
	decide := c.decide
	scripted := isMessage && len(c.faults) > 0
	if scripted {
		a, c.faults = c.faults[0], c.faults[1:]
	}
	c.mu.Unlock()
	if !scripted && (isMessage || part != nil || sent.Method != http.MethodPost || sent.To == "") {
		a = decide(sent) // without the lock: it may take time
	}
	return id, a
}

func (c *Connector) record(sent Sent) {
	of := sent.Of
	of.Conversation = sent.To
	c.mu.Lock()
	defer c.mu.Unlock()
	sent.Seq = c.story.note(of, "BOT", sent.line())
	c.sent = append(c.sent, sent)
}

// wait waits as [Connector.Holds] says.
func (c *Connector) wait(ctx context.Context, text string) {
	c.mu.Lock()
	w, ok := c.waiting[text]
	delete(c.waiting, text)
	c.mu.Unlock()
	if !ok {
		return
	}
	close(w.taken)
	select {
	case <-w.release:
	case <-ctx.Done():
	}
}
