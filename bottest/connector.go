package bottest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/fakeconnector"
	"github.com/planbot-go/planbot/internal/turnlog"
)

// Connector stands in for the Bot Framework connector. It accepts what the bot sends, records it
// for [Chat.Expect], and fails when told to. It is safe for concurrent use.
type Connector struct {
	// URL is the serviceUrl of activities.
	URL string

	t     testing.TB
	story *story
	fake  *fakeconnector.Connector

	mu     sync.Mutex
	decide func(Sent) Answer
	sent   []Sent
	looked map[int]bool // by Seq, the messages that the test looked at
}

// Sent is one request of the bot to the connector.
type Sent struct {
	turnlog.Of
	Seq      int    // its place among all events of the kit
	Method   string // POST sends, PUT updates
	Status   int    // of the response; 0: there was none, see [Answer].CutOff
	To       string // the conversation
	ReplyTo  string // the activity that it replies to; may be ""
	ID       string // the new message's id, or that of the updated message
	Activity *activity.Activity
	JSON     string // the activity as received, in JSON
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
	case s.Method == http.MethodPut:
		text = "(updates message " + s.ID + ") " + text
	case s.Activity.Type != activity.Message:
		text = "(" + string(s.Activity.Type) + ")" // such as typing
	}
	if s.Status >= http.StatusBadRequest {
		text += fmt.Sprintf(" (refused: %d)", s.Status)
	}
	return strings.TrimSpace(text)
}

func newConnector(t testing.TB, story *story) *Connector {
	c := &Connector{t: t, story: story, looked: map[int]bool{}}
	c.fake = fakeconnector.Watched(c.take, c.refuse)
	return c
}

// Fails makes the next messages fail with these faults, in order: with Status, Code and RetryAfter,
// or with CutOff after the message was accepted, so the bot cannot know that it arrived. Activities
// other than messages, such as typing indicators, do not count. An unused fault fails the test at
// its end.
func (c *Connector) Fails(faults ...Answer) {
	for _, f := range faults {
		c.fake.Meets(faultOf(f))
	}
}

// Decides lets f decide about the messages for which Fails says nothing: the zero Answer accepts
// one. f may be called concurrently, and may take its time.
func (c *Connector) Decides(f func(Sent) Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decide = f
}

// Holds makes the connector accept the next message with this text, and answer only when release is
// closed. taken is closed once the message is accepted. If it never comes, the test fails at its
// end.
func (c *Connector) Holds(text string) (taken <-chan struct{}, release chan<- struct{}) {
	return c.fake.Holds(text)
}

// TeamOf gives every team that many members.
func (c *Connector) TeamOf(members int) { c.fake.TeamOf(members) }

// Sent returns everything that the bot has sent so far, in order, including failed requests. All of
// it then counts as looked at.
func (c *Connector) Sent() []Sent {
	c.mu.Lock()
	all := slices.Clone(c.sent)
	c.mu.Unlock()
	c.look(all...)
	return all
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

func (c *Connector) refuse(from fakeconnector.Sent) fakeconnector.Fault {
	c.mu.Lock()
	decide := c.decide
	c.mu.Unlock()
	if decide == nil {
		return fakeconnector.Fault{}
	}
	return faultOf(decide(c.read(from)))
}

// faultOf converts the answer for the fake.
func faultOf(a Answer) fakeconnector.Fault {
	out := fakeconnector.Fault{Status: a.Status, Code: a.Code, Loses: a.CutOff}
	if a.RetryAfter > 0 {
		out.RetryAfter = strconv.FormatFloat(a.RetryAfter.Seconds(), 'f', -1, 64)
	}
	return out
}

// take records a request.
func (c *Connector) take(from fakeconnector.Sent) {
	sent := c.read(from)
	of := sent.Of
	of.Conversation = sent.To
	c.mu.Lock()
	defer c.mu.Unlock()
	sent.Seq = c.story.note(of, "BOT", sent.line())
	c.sent = append(c.sent, sent)
}

func (c *Connector) read(from fakeconnector.Sent) Sent {
	sent := Sent{
		Of: ofHeader(from.Header), Method: from.Method, Status: from.Status, To: from.Conversation, ReplyTo: from.ReplyTo, ID: from.ID,
		Activity: &activity.Activity{},
	}
	raw, err := json.Marshal(from.Body, json.Deterministic(true))
	if err == nil {
		err = json.Unmarshal(raw, sent.Activity)
	}
	if err != nil {
		c.t.Errorf("bottest: read what the bot sent: %v", err)
	}
	sent.JSON = string(raw)
	return sent
}
