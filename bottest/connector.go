package bottest

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/internal/fakeconnector"
)

// Connector stands in for the connector of the Bot Framework: it takes what the bot
// sends and keeps it for [Chat.Expect], and fails when it is told to. It is safe for
// concurrent use.
type Connector struct {
	// URL is what activities carry as their serviceUrl.
	URL string

	kit    *Kit
	fake   *fakeconnector.Connector
	mu     sync.Mutex
	decide func(Sent) Fault
	sent   []Sent
	looked map[int]bool // by Seq, the messages that the test looked at
}

// Fault is how a message fares that is not just taken, as the zero value takes it.
type Fault struct {
	Status     int           // of HTTP, from 400 on
	Code       string        // of the error in the body, such as ConversationNotFound; "": Fault
	RetryAfter time.Duration // 0: not said

	// Loses has the connection break once the message is taken, whatever the rest says: the
	// bot cannot know that it is there.
	Loses bool
}

// wire is the fault as the fake has it.
func (f Fault) wire() fakeconnector.Fault {
	out := fakeconnector.Fault{Status: f.Status, Code: f.Code, Loses: f.Loses}
	if f.RetryAfter > 0 {
		out.RetryAfter = seconds(f.RetryAfter)
	}
	return out
}

// Sent is one request of the bot to the connector.
type Sent struct {
	Of
	Seq      int    // its place among all that happened in the kit
	Method   string // POST sends, PUT updates
	Status   int    // with which it was answered; 0: it was not, see [Fault].Loses
	To       string // the conversation
	ReplyTo  string // the activity that it answers; may be ""
	ID       string // that the message was given, or that of the message which is updated
	Activity *activity.Activity
	JSON     string // the activity as it came, in JSON
	Token    string // the Authorization that came with it
}

// Message reports whether the connector took it as a message of its own.
func (s Sent) Message() bool {
	return s.Method == http.MethodPost && s.Activity.Type == activity.Message && s.Status < http.StatusBadRequest
}

func newConnector(k *Kit) *Connector {
	c := &Connector{kit: k, looked: map[int]bool{}}
	c.fake = fakeconnector.Watched(c.take, c.refuse)
	c.URL = k.serve(c.fake) + "/"
	return c
}

// Fails makes the next messages fail with these faults, one after another. What is no
// message, such as a typing indicator, does not count. A fault that no message meets fails
// the test at its end.
func (c *Connector) Fails(faults ...Fault) {
	for _, f := range faults {
		c.fake.Meets(f.wire())
	}
}

// Decides has f decide about the messages for which Fails says nothing. It may be asked
// about several at the same time, and may take its time.
func (c *Connector) Decides(f func(Sent) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decide = f
}

// Holds makes the connector take the next message with this text, and answer only when
// release is closed. taken is closed when the message was taken. If it does not come, the
// test fails at its end or, so that it does not wait for ever, after two minutes; in a bubble
// after a week.
func (c *Connector) Holds(text string) (taken <-chan struct{}, release chan<- struct{}) {
	taken, release = c.fake.Holds(text)
	c.kit.giveUp(func(after time.Duration) string {
		if !c.fake.Forget(text, taken) {
			return ""
		}
		return fmt.Sprintf("the message %q of Connector.Holds was not sent in %v", text, after)
	})
	return taken, release
}

// TeamOf makes every team have that many members.
func (c *Connector) TeamOf(members int) { c.fake.TeamOf(members) }

// Sent returns every request so far, in order: failed ones, typing indicators and updates
// as well. Who asks for them looks at all messages that are there.
func (c *Connector) Sent() []Sent {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sent {
		c.looked[s.Seq] = true
	}
	return append([]Sent(nil), c.sent...)
}

// look notes that the test looked at these.
func (c *Connector) look(sent ...Sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range sent {
		c.looked[s.Seq] = true
	}
}

// overlooked are the messages at which the test did not look, but those to one conversation.
func (c *Connector) overlooked(except string) (all []Sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.sent {
		if s.Message() && !c.looked[s.Seq] && (except == "" || s.To != except) {
			all = append(all, s)
		}
	}
	return all
}

func (c *Connector) refuse(from fakeconnector.Sent) fakeconnector.Fault {
	c.mu.Lock()
	decide := c.decide
	c.mu.Unlock()
	if decide == nil {
		return fakeconnector.Fault{}
	}
	return decide(c.read(from)).wire()
}

// take keeps what came.
func (c *Connector) take(from fakeconnector.Sent) {
	sent := c.read(from)
	text, conversation := describeSent(sent), sent.To
	of := sent.Of
	of.Conversation = conversation
	c.mu.Lock()
	sent.Seq = c.kit.note(entry{Of: of, kind: "sent", text: text})
	c.sent = append(c.sent, sent)
	c.mu.Unlock()
	c.kit.conversation(conversation).took(sent)
}

func (c *Connector) read(from fakeconnector.Sent) Sent {
	sent := Sent{
		Of: labelOf(from.Header), Method: from.Method, Status: from.Status, To: from.Conversation, ReplyTo: from.ReplyTo, ID: from.ID,
		Token: from.Authorization, Activity: &activity.Activity{},
	}
	raw, err := json.Marshal(from.Body, json.Deterministic(true))
	if err == nil {
		err = json.Unmarshal(raw, sent.Activity)
	}
	if err != nil {
		c.kit.t.Errorf("bottest: read what the bot sent: %v", err)
	}
	sent.JSON = string(raw)
	return sent
}
