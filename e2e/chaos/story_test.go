//go:build linux

package chaos_test

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// key names a message: its conversation and its number in it.
type key struct{ talk, n int }

func (k key) String() string { return fmt.Sprintf("c%d-%04d", k.talk, k.n) }

// id is the id of the message's activity.
func (k key) id() string { return "activity-" + k.String() }

var keys = regexp.MustCompile(`\bc(\d+)-(\d{4})\b`)

// keyIn is the first key in a text.
func keyIn(text string) (k key, ok bool) {
	found := keys.FindString(text)
	_, err := fmt.Sscanf(found, "c%d-%d", &k.talk, &k.n)
	return k, err == nil
}

// conversation is the id of a conversation. Every third is a group chat, or a thread of the channel that all such share.
func conversation(talk int) string {
	if isThread(talk) {
		return fmt.Sprintf("channel;messageid=%d", talk)
	}
	return fmt.Sprintf("conversation-%d", talk)
}

func isGroup(talk int) bool { return talk%3 == 2 }

func isThread(talk int) bool { return talk%6 == 5 }

// kind is what a message asks for; it is the message's first word.
type kind string

const (
	note kind = "note" // a DO and a SAY
	both kind = "both" // DO, SAY, DO, SAY
	long kind = "long" // a SAY of some parts
	show kind = "show" // what is on the lists
)

// text is what a person writes.
func (k kind) text(of key) string { return string(k) + " " + of.String() }

// kindOf reads a text that [kind.text] wrote.
func kindOf(text string) kind {
	first, _, _ := strings.Cut(text, " ")
	return kind(first)
}

// says are the replies to a message. Those of show hang on what was done before.
func (k kind) says(to key) []string {
	switch k {
	case note:
		return []string{to.String() + " is noted"}
	case both:
		return []string{to.String() + " is noted", to.String() + " is noted twice"}
	case long:
		return []string{longText(to)}
	default:
		return nil
	}
}

// longLines make a text that is split into four parts.
const longLines = 1000

func longText(of key) string {
	var b strings.Builder
	for line := range longLines {
		fmt.Fprintf(&b, "%s line %04d, which is followed by the next one.\n", of, line)
	}
	return b.String()
}

// times are measured from the start of the test.
type times = time.Duration

// message is one message of a person, delivered until it was acknowledged.
type message struct {
	key
	kind        kind
	sent, acked times // of the first delivery, of the first 200; 0: never
	failures    []failure
	added       []string // lists that its plan wrote to, where the kind does not say
}

// failure is a delivery that was not acknowledged.
type failure struct {
	status int // 0: there was no answer
	why    string
}

// outcome is what the connector did with a reply.
type outcome string

const (
	taken   outcome = "taken"   // and so shown to the person
	dropped outcome = "dropped" // shown, and the connection reset in place of an answer
	refused outcome = "refused" // with a status that means to come again
)

// post is a reply of the bot, in the order of arrival.
type post struct {
	conversation, replyTo, text string
	at, done                    times
	outcome                     outcome
}

func (p post) shown() bool { return p.outcome != refused }

// answers is the id of the message that the reply is for: the one that it names, because a turn that answers a burst
// replies to the last one. A list names others.
func (p post) answers() string {
	if k, named := keyIn(p.text); named && !strings.Contains(p.text, "**") {
		return k.id()
	}
	return p.replyTo
}

// call is a question to the model, with the messages that its prompt told of.
type call struct {
	key
	at      times
	history []key
}

// fault is something that was broken from one time to another.
type fault struct {
	what     string
	from, to times
}

// story is all that was seen in a test.
type story struct {
	messages []message
	posts    []post
	calls    []call
	faults   []fault
	thinks   time.Duration // the model, where that is long
}
