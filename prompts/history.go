package prompts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// historyVersion is the form of the JSON of a [History]. Raise it when a reader
// of the old form would misread the new one.
const historyVersion = 1

// maxTurnMessages is how many messages of one turn are kept whole.
const maxTurnMessages = 32

// cutMark ends a message that was cut, so that the model does not take its end
// for what was said.
const cutMark = " […]"

// History is what was said in a conversation, by whole turns, oldest first. It
// is a value of the conversation's state. The zero value is an empty history.
// It is not safe for concurrent use; its conversation has one turn at a time.
//
// As JSON it is
//
//	{"v":1,"turns":[{"from":"29:1a","name":"Mia","messages":[{"role":"user","text":"hi"},…]},…]}
//
// with an empty history as {}. A history of a newer version than this one is
// an error, rather than half of it.
type History struct {
	Version int    `json:"v,omitzero"`
	Turns   []Turn `json:"turns,omitempty"`
}

// Turn is one turn of a conversation: the person's message, then what the model
// and the runtime made of it.
type Turn struct {
	// From is the id of the person who spoke.
	From string `json:"from,omitzero"`
	// Name is the person's name where more than one may speak. Leave it empty
	// in a personal chat.
	Name     string    `json:"name,omitzero"`
	Messages []Message `json:"messages"`
}

// Limits says how much of a conversation a [History] keeps. In a field, 0 is
// the default.
type Limits struct {
	Turns        int // 5, whatever number of messages they have
	MessageBytes int // 8 KiB; a longer message is cut
	Bytes        int // 128 KiB of text in all
}

func (l Limits) withDefaults() Limits {
	l.Turns = cmp.Or(l.Turns, 5)
	l.MessageBytes = cmp.Or(l.MessageBytes, 8<<10)
	l.Bytes = cmp.Or(l.Bytes, 128<<10)
	return l
}

// StateName is the name under which state keeps a history.
func (*History) StateName() string { return "history" }

// Append adds a turn and drops the oldest ones over the limits, each as a whole.
// A turn of more than 32 messages, or one that is over the limits by itself,
// keeps its first message and its last: what was asked, and how it ended. A
// turn without messages is no turn.
func (h *History) Append(turn Turn, limits Limits) {
	if len(turn.Messages) == 0 {
		return
	}
	limits = limits.withDefaults()
	h.Version = historyVersion
	h.Turns = append(h.Turns, turn.limited(limits))
	if over := len(h.Turns) - limits.Turns; over > 0 {
		h.Turns = slices.Delete(h.Turns, 0, over)
	}
	for len(h.Turns) > 1 && h.bytes() > limits.Bytes {
		h.Turns = slices.Delete(h.Turns, 0, 1)
	}
}

// Forget removes the turns of one person.
func (h *History) Forget(userID string) {
	h.Turns = slices.DeleteFunc(h.Turns, func(t Turn) bool { return t.From == userID })
}

// Clear removes everything.
func (h *History) Clear() { *h = History{} }

// Within returns the messages of the newest turns that fit into budget tokens,
// oldest first: never half a turn, never with a gap, and never beginning with
// what the bot said. Tokens are counted only when the bytes alone do not prove
// that all turns fit.
//
// Where turns carry a name, a system message in front of a turn says who
// speaks, whenever that changes. It is a message of its own, because a name
// inside of the person's text could be forged by that text, and because the
// name field of chat requests does not take most people's names.
func (h *History) Within(budget int, count Counter) []Message {
	first := h.firstWithin(budget, count)
	for first < len(h.Turns) && !h.Turns[first].opens() {
		first++
	}
	var out []Message
	speaker := ""
	for _, t := range h.Turns[first:] {
		if t.Name != "" && t.Name != speaker {
			out = append(out, t.label())
		}
		speaker = t.Name
		out = append(out, t.Messages...)
	}
	return out
}

// Retold is a copy in which the messages of the assistant are written anew.
func (h *History) Retold(anew func(text string) string) *History {
	retold := &History{Version: h.Version, Turns: slices.Clone(h.Turns)}
	for i, t := range retold.Turns {
		retold.Turns[i].Messages = slices.Clone(t.Messages)
		for j, m := range t.Messages {
			if m.Role == Assistant {
				retold.Turns[i].Messages[j].Text = anew(m.Text)
			}
		}
	}
	return retold
}

// UnmarshalJSONFrom reads a history and refuses one of a newer version.
func (h *History) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	type plain History
	var p plain
	if err := json.UnmarshalDecode(dec, &p); err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	if p.Version > historyVersion {
		return fmt.Errorf("read history: version %d is newer than %d", p.Version, historyVersion)
	}
	*h = History(p)
	return nil
}

// firstWithin returns the index of the oldest turn that still fits.
func (h *History) firstWithin(budget int, count Counter) int {
	if h.bound() <= budget {
		return 0
	}
	first := len(h.Turns)
	for first > 0 {
		budget -= h.Turns[first-1].tokens(count)
		if budget < 0 {
			break
		}
		first--
	}
	return first
}

// bound is a number of tokens that the history cannot exceed.
func (h *History) bound() int {
	bound := 0
	for _, t := range h.Turns {
		for _, m := range t.all() {
			bound += len(m.Text) + MessageTokens
		}
	}
	return bound
}

func (h *History) bytes() int {
	total := 0
	for _, t := range h.Turns {
		total += t.bytes()
	}
	return total
}

// limited returns a copy of the turn that keeps to the limits and that JSON can
// hold.
func (t Turn) limited(limits Limits) Turn {
	t.From, t.Name = valid(t.From), valid(t.Name)
	t.Messages = slices.Clone(t.Messages)
	for i, m := range t.Messages {
		text := valid(m.Text)
		if len(text) > limits.MessageBytes {
			text = trimBytes(text, limits.MessageBytes) + cutMark
		}
		t.Messages[i].Text = text
	}
	if n := len(t.Messages); n > maxTurnMessages || n > 2 && t.bytes() > limits.Bytes {
		t.Messages = []Message{t.Messages[0], t.Messages[n-1]}
	}
	return t
}

// opens says that a turn can stand first: its first message that is not the
// runtime's is the person's.
func (t Turn) opens() bool {
	for _, m := range t.Messages {
		if m.Role != System {
			return m.Role == User
		}
	}
	return false
}

// all returns the messages of the turn with the label that may stand in front.
func (t Turn) all() []Message {
	if t.Name == "" {
		return t.Messages
	}
	return append([]Message{t.label()}, t.Messages...)
}

func (t Turn) label() Message {
	return Message{Role: System, Text: quotedName(t.Name) + " writes:"}
}

func (t Turn) tokens(count Counter) int {
	total := 0
	for _, m := range t.all() {
		total += count.Count(m.Text) + MessageTokens
	}
	return total
}

func (t Turn) bytes() int {
	total := 0
	for _, m := range t.Messages {
		total += len(m.Text)
	}
	return total
}

func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// quotedName writes a person's name, which the person chose, so that it cannot
// pass for anything else.
func quotedName(name string) string {
	return string(appendQuoted(nil, oneLine(name, maxWord)))
}
