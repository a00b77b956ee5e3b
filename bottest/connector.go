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
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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

// What Teams allows a streamed message.
const (
	streamLife     = 2 * time.Minute
	streamInterval = time.Second // between two requests
	maxStreamBytes = 100 << 10   // of text in UTF-16
	maxStatusBytes = 1 << 10
	maxStatusRunes = 1000
)

// streams holds streamed messages to the rules of Teams.
type streams struct {
	mu      sync.Mutex
	bubbles map[string]*bubble // by id
}

// streamCall is a request that may be part of a stream.
type streamCall struct {
	method, to, replyTo, id string
	activity                *activity.Activity
	part                    *chunk // nil: it says nothing about a stream
	newID                   string // for a new message
	lost                    bool   // the bot will not see the answer
}

// chunk is what a request says about a stream.
type chunk struct {
	Type     string `json:"type"`
	Kind     string `json:"streamType"` // informative, streaming or final
	ID       string `json:"streamId"`   // "": it starts the stream
	Sequence *int   `json:"streamSequence"`
}

// chunkIn finds it in an activity; nil: the activity is no part of a stream.
func chunkIn(raw []byte) *chunk {
	var a struct {
		Entities []jsontext.Value `json:"entities"`
	}
	_ = json.Unmarshal(raw, &a) // it was read before
	for _, entity := range a.Entities {
		var c chunk
		if json.Unmarshal(entity, &c) == nil && c.Type == "streaminfo" {
			return &c
		}
	}
	return nil
}

// ruling is how the service answers a request of a stream, and the rule that the bot broke.
type ruling struct {
	status        int
	code, message string // of a refusal, or of a chunk that is dropped
	broken        string // "": none
}

const notAllowed = "ContentStreamNotAllowed"

func refuse(status int, code, message string) ruling {
	return ruling{status: status, code: code, message: message}
}

func (v ruling) breaks(format string, args ...any) ruling {
	v.broken = fmt.Sprintf(format, args...)
	return v
}

// body is the body of the answer. Refusals come with error around them.
func (v ruling) body(id string) string {
	switch {
	case v.code != "" && v.status < http.StatusBadRequest:
		return fmt.Sprintf(`{"code":%q,"message":%q}`, v.code, v.message)
	case v.code != "":
		return fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, v.code, v.message)
	case v.status == http.StatusCreated:
		return fmt.Sprintf(`{"id":%q}`, id)
	}
	return "{}"
}

// stop presses Stop, and reports whether there was anything to stop.
func (s *streams) stop(conversation string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.openIn(conversation)
	if b != nil {
		b.stopped = true
	}
	return b != nil
}

func (s *streams) openIn(conversation string) *bubble {
	for _, b := range s.bubbles {
		if b.conversation == conversation && b.open() {
			return b
		}
	}
	return nil
}

// judge judges a request that the test did not refuse. The zero ruling means that no stream has
// anything to do with it. The bubble is busy until [streams.answered]; nil: none is.
func (s *streams) judge(c streamCall) (ruling, *bubble) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.part != nil {
		return s.chunk(c)
	}
	if open := s.openIn(c.to); open != nil && c.method == http.MethodPost && c.activity.Type == activity.Message {
		open.left = true
	}
	b := s.bubbles[c.id]
	switch {
	case b == nil || !b.open():
		return ruling{}, nil
	case c.method == http.MethodPut:
		return refuse(http.StatusForbidden, notAllowed, "Content stream is not allowed").breaks("an update before the stream's end"), nil
	case c.method == http.MethodDelete:
		return ruling{status: http.StatusOK}.breaks("deletes an open stream: the service accepts that, and the message stays on the screen"), nil
	}
	return ruling{}, nil
}

// answered ends what [streams.judge] began.
func (s *streams) answered(b *bubble) {
	if b == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b.busy = false
}

// chunk judges one of the three kinds.
func (s *streams) chunk(c streamCall) (ruling, *bubble) {
	a, part := c.activity, c.part
	typing := a.Type == activity.Typing
	switch {
	case c.replyTo != "":
		return refuse(http.StatusBadRequest, "BadSyntax", "Streaming is not supported for replies").breaks("posts to /activities/%s, want /activities", c.replyTo), nil
	case typing != (part.Kind == "informative" || part.Kind == "streaming") || !typing && part.Kind != "final":
		return refuse(http.StatusBadRequest, "BadSyntax", "Only start streaming and continue streaming types are allowed as a typing activity").
			breaks("the streamType %q in a %s", part.Kind, a.Type), nil
	case strings.HasPrefix(c.to, "19:") || a.Conversation.ConversationType == "groupChat" || a.Conversation.ConversationType == "channel":
		return refuse(http.StatusMethodNotAllowed, "BadArgument", "Streaming api is not enabled").breaks("streams to a group or a channel"), nil
	case typing && (a.ChannelID == "" || a.ChannelID == activity.Teams && a.Conversation.ConversationType != "personal"):
		return refuse(http.StatusMethodNotAllowed, "BadArgument", "Streaming api is not enabled").
			breaks("the body lacks channelId or conversation.conversationType, without which the Playground refuses a chunk"), nil
	case typing && part.ID == "":
		return s.start(c)
	case part.ID == "":
		return refuse(http.StatusBadRequest, "BadSyntax", "streamId is required").breaks("a final without streamId"), nil
	}
	b := s.bubbles[part.ID]
	if b == nil || b.conversation != c.to {
		return refuse(http.StatusBadRequest, "BadSyntax", "streamId is unknown").breaks("no stream %q was started here", part.ID), nil
	}
	waits := b.busy
	v := b.judge(part, a.Text)
	b.busy = true
	if v.status == http.StatusTooManyRequests || v.status < http.StatusBadRequest {
		b.last = time.Now()
	}
	if v.status < http.StatusBadRequest && v.code == "" {
		b.take(part, a.Text, c.lost)
	}
	if waits {
		return v, nil
	}
	return v, b
}

// start judges the first chunk of a stream.
func (s *streams) start(c streamCall) (ruling, *bubble) {
	text, part := c.activity.Text, c.part
	switch {
	case text == "":
		return refuse(http.StatusBadRequest, "BadRequest", "Start streaming activities should include text").breaks("starts without text"), nil
	case part.Sequence == nil || *part.Sequence != 1:
		return refuse(http.StatusBadRequest, "BadSyntax", "streamSequence should start with 1").breaks("starts with another streamSequence than 1, or without streamId goes on"), nil
	}
	if open := s.openIn(c.to); open != nil {
		return over(open.left, "Content stream is not allowed", "a second stream while one is open"), nil
	}
	if v := tooLong(part, text); v.broken != "" {
		return v, nil
	}
	b := &bubble{conversation: c.to, begun: time.Now(), last: time.Now(), busy: true}
	b.take(part, text, false)
	s.bubbles[c.newID] = b
	return ruling{status: http.StatusCreated}, b
}

func tooLong(part *chunk, text string) ruling {
	switch {
	case part.Kind == "informative" && (len(text) > maxStatusBytes || len([]rune(text)) > maxStatusRunes):
		return refuse(http.StatusForbidden, notAllowed, "Message size too large").breaks("a status of %d bytes", len(text))
	case 2*len(utf16.Encode([]rune(text))) > maxStreamBytes:
		return refuse(http.StatusRequestEntityTooLarge, "MessageSizeTooBig", "Message size too large").breaks("a text of %d bytes", len(text))
	}
	return ruling{}
}

// bubble is a streamed message, as the service keeps it.
type bubble struct {
	conversation   string
	begun          time.Time
	last           time.Time // when the newest request came that the service counts
	text           string    // the longest one that was acknowledged
	taken          int       // the number of the newest chunk that was accepted
	used           int       // that of the newest chunk that may have arrived
	busy           bool      // a request is not answered yet
	stopped, ended bool
	left           bool // the bot said something else instead of its final: it may not know the id
	told           bool // that it is stopped
}

func (b *bubble) expired() bool { return time.Since(b.begun) > streamLife }

func (b *bubble) open() bool { return !b.stopped && !b.ended && !b.expired() }

// judge judges what follows the first chunk. A late or repeated final breaks no rule: only the answer
// tells a process that took over how the stream ended.
func (b *bubble) judge(part *chunk, text string) ruling {
	final := part.Kind == "final"
	switch {
	case b.ended:
		return over(final, "Content stream is not allowed on an already completed streamed message", "a chunk after the final")
	case b.stopped:
		told := b.told
		b.told = true
		return over(final || !told, "Content stream was cancelled by user.", "a chunk after the person stopped the stream")
	case b.expired():
		return over(final, "Content stream finished due to exceeded streaming time.", "a chunk after two minutes")
	case b.busy:
		return refuse(http.StatusTooManyRequests, "TooManyRequests", "API calls quota exceeded").breaks("a request before the one before it was answered")
	case time.Since(b.last) < streamInterval:
		return refuse(http.StatusTooManyRequests, "TooManyRequests", "API calls quota exceeded").
			breaks("%v after the request before it, want %v at least", time.Since(b.last), streamInterval)
	}
	if v := tooLong(part, text); v.broken != "" {
		return v
	}
	switch {
	case final && part.Sequence != nil:
		return ruling{status: http.StatusAccepted}.breaks("a streamSequence on the final")
	case !final && (part.Sequence == nil || *part.Sequence <= b.taken || *part.Sequence > b.used+1):
		return ruling{status: http.StatusAccepted, code: "ContentStreamSequenceOrderPreConditionFailed", message: "PreCondition failed exception when processing streaming activity."}.
			breaks("out of order: the newest streamSequence was %d", b.used)
	case part.Kind == "informative" && b.text != "":
		return ruling{status: http.StatusAccepted}.breaks("a status after text, which shows nothing")
	case part.Kind != "informative" && !strings.HasPrefix(text, b.text):
		return refuse(http.StatusForbidden, notAllowed, "Request streamed content should contain the previously streamed content").
			breaks("the text does not continue what is shown: %q", b.text)
	}
	return ruling{status: http.StatusAccepted}
}

// over refuses what comes when the stream is over; broken is the rule that this breaks unless fine.
func over(fine bool, message, broken string) ruling {
	v := refuse(http.StatusForbidden, notAllowed, message)
	if !fine {
		v.broken = broken
	}
	return v
}

// take keeps what was accepted. Text whose answer is lost does not bind the bot.
func (b *bubble) take(part *chunk, text string, lost bool) {
	switch {
	case part.Kind == "final":
		b.ended = true
	case part.Sequence != nil:
		b.taken = max(b.taken, *part.Sequence)
		b.used = max(b.used, b.taken)
	}
	if part.Kind == "streaming" && !lost {
		b.text = text
	}
}

// refused keeps what a refusal by the test says about a stream.
func (s *streams) refused(part *chunk, status int, body string) {
	if part == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.bubbles[part.ID]
	if b == nil {
		return
	}
	said := strings.ToLower(body)
	switch {
	case status >= http.StatusInternalServerError: // it may have arrived, and its number is not used again
		if part.Sequence != nil {
			b.used = max(b.used, *part.Sequence)
		}
		return
	case strings.Contains(said, "cancel"):
		b.stopped, b.told = true, true
	case strings.Contains(said, "exceeded streaming time"):
		b.begun = time.Now().Add(-streamLife - time.Second)
	case strings.Contains(said, "already completed"):
		b.ended = true
	}
	b.last = time.Now()
}
