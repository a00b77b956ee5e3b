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

// crowded is the first of the conversations in which two people write. They are threads, so many of each channel.
const crowded = 1000

// conversation is the id of a conversation. Every third is a group chat, or a thread of the channel that all such share.
func conversation(talk int) string {
	if isThread(talk) {
		return fmt.Sprintf("channel%s;messageid=%d", channelOf(talk), talk)
	}
	return fmt.Sprintf("conversation-%d", talk)
}

// channelOf tells the channels of threads apart.
func channelOf(talk int) string {
	if talk < crowded {
		return ""
	}
	return fmt.Sprint("-", talk/crowded)
}

func isGroup(talk int) bool { return talk%3 == 2 || talk >= crowded }

func isThread(talk int) bool { return talk%6 == 5 || talk >= crowded }

// speaker is the number of who writes the message: in a group chat somebody who has a personal chat, too. In a crowded
// conversation every seventh message is of somebody else. The same two write in all threads of their channel.
func (k key) speaker() int {
	switch {
	case k.talk >= crowded && k.n%7 == 0:
		return k.talk/crowded*crowded + 1
	case k.talk >= crowded:
		return k.talk / crowded * crowded
	case isGroup(k.talk):
		return k.talk - 1
	}
	return k.talk
}

// kind is what a message asks for; it is the message's first word.
type kind string

const (
	note kind = "note" // a DO and a SAY
	both kind = "both" // DO, SAY, DO, SAY
	long kind = "long" // a SAY of some parts
	show kind = "show" // what is on the lists
	open kind = "open" // a DO for which people are asked, and a SAY

	help  kind = "/help" // a command
	click kind = "click" // on a button that says what note says

	work kind = "work"  // three slow steps, with a SAY after each
	stop kind = "/stop" // what runs for the person
)

// isFree reports whether the reply to the message is not known beforehand.
func (k kind) isFree() bool { return k == show || k == help }

// text is what a person writes.
func (k kind) text(of key) string { return string(k) + " " + of.String() }

// kindOf reads a text that [kind.text] wrote.
func kindOf(text string) kind {
	first, _, _ := strings.Cut(text, " ")
	return kind(first)
}

// says are the replies to a message, if they are known.
func (k kind) says(to key) []string {
	switch k {
	case note, open, click:
		return []string{to.String() + " is noted"}
	case both:
		return []string{to.String() + " is noted", to.String() + " is noted twice"}
	case long:
		return []string{longText(to)}
	case work:
		return []string{to.String() + " has step 1", to.String() + " has step 2", to.String() + " has step 3"}
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

// call is a question to the model, with the messages that its prompt told of before, and those that it asks of together.
type call struct {
	key
	at      times
	history []key
	burst   []key
}

// step is one of a message's slow steps, when it began.
type step struct {
	key
	n  int
	at times
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
	steps    []step
	alone    []key // while the model thought of them, no other thread of the channel was answered
}
