package bottest

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/activity"
)

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
