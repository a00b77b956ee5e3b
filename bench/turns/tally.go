package main

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// counts is what became of messages and replies, warm-up included.
type counts struct {
	errors    atomic.Int64 // messages that the bot did not take
	retried   atomic.Int64 // messages that were sent a second time
	lost      atomic.Int64 // messages that were taken and got no reply in time
	doubled   atomic.Int64 // replies after the first to a message
	stray     atomic.Int64 // replies to nothing that was sent
	reordered atomic.Int64 // replies after one to a later message
}

// message is one that was sent.
type message struct {
	sent    time.Time
	reply   chan time.Time // when the first reply arrived
	replied bool
}

// open makes the next message of the conversation, and its number.
func (c *conversation) open() (*message, int) {
	m := &message{reply: make(chan time.Time, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.messages = append(c.messages, m)
	return m, len(c.messages) - 1
}

// tagMark stands before the tag of a message. The tag ends the text, and the
// model puts both at the end of what it says.
const tagMark = " #t"

func tag(conversation, message int) string {
	return strconv.Itoa(conversation) + "-" + strconv.Itoa(message)
}

// readTag finds the numbers in the text of a reply.
func readTag(text string) (conversation, message int, ok bool) {
	at := strings.LastIndex(text, tagMark)
	if at < 0 {
		return 0, 0, false
	}
	first, second, _ := strings.Cut(strings.TrimSpace(text[at+len(tagMark):]), "-")
	conversation, err := strconv.Atoi(first)
	message, err2 := strconv.Atoi(second)
	return conversation, message, err == nil && err2 == nil && conversation >= 0 && message >= 0
}

// take gives a reply to the message that it belongs to.
func (l *load) take(id, text string, at time.Time) {
	number, n, ok := readTag(text)
	if !ok || number >= len(l.talks) || l.talks[number].id != id || !l.talks[number].take(n, at) {
		l.counts.stray.Add(1)
		l.note("a reply to nothing in " + id + ": " + text)
	}
}

// take reports whether there is a message of that number.
func (c *conversation) take(n int, at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n >= len(c.messages) {
		return false
	}
	m := c.messages[n]
	if m.replied {
		c.load.counts.doubled.Add(1)
		c.load.note("a second reply to message " + strconv.Itoa(n) + " of " + c.id)
		return true
	}
	m.replied = true
	m.reply <- at
	if n < c.latest {
		c.load.counts.reordered.Add(1)
		c.load.note("the reply to message " + strconv.Itoa(n) + " of " + c.id + " came after one to a later message")
	}
	c.latest = max(c.latest, n)
	return true
}
