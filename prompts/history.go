package prompts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/planbot-go/planbot/internal/spelling"
)

// historyVersion is the form of the JSON of a [History]. Raise it when a reader
// of the old form would misread the new one.
const historyVersion = 1

// How much of a conversation is kept.
const (
	defaultTurns    = 5 // whatever number of messages they have
	maxTurnMessages = 32
	maxMessageBytes = 8 << 10
	maxHistoryBytes = 128 << 10 // of text in all
)

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

// StateName is the name under which state keeps a history.
func (*History) StateName() string { return "history" }

// Append adds a turn and keeps the newest ones, at most so many and 128 KiB of text; 0: 5.
// A message over 8 KiB is cut. A turn of more than 32 messages, or one of more than
// 128 KiB, keeps its first message and its last: what was asked, and how it ended. A turn
// without messages is no turn.
func (h *History) Append(turn Turn, most int) {
	if len(turn.Messages) == 0 {
		return
	}
	h.Version = historyVersion
	h.Turns = append(h.Turns, turn.limited())
	if over := len(h.Turns) - cmp.Or(most, defaultTurns); over > 0 {
		h.Turns = slices.Delete(h.Turns, 0, over)
	}
	for len(h.Turns) > 1 && h.bytes() > maxHistoryBytes {
		h.Turns = slices.Delete(h.Turns, 0, 1)
	}
}

// Forget removes the turns of one person.
func (h *History) Forget(userID string) {
	h.Turns = slices.DeleteFunc(h.Turns, func(t Turn) bool { return t.From == userID })
}

// Clear removes everything.
func (h *History) Clear() { *h = History{} }

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

func (h *History) bytes() int {
	total := 0
	for _, t := range h.Turns {
		total += t.bytes()
	}
	return total
}

// limited returns a copy of the turn that keeps to the limits and that JSON can
// hold.
func (t Turn) limited() Turn {
	t.From, t.Name = valid(t.From), valid(t.Name)
	t.Messages = slices.Clone(t.Messages)
	for i, m := range t.Messages {
		text := valid(m.Text)
		if len(text) > maxMessageBytes {
			text = spelling.Shorten(text, maxMessageBytes) + cutMark
		}
		t.Messages[i].Text = text
	}
	if n := len(t.Messages); n > maxTurnMessages || n > 2 && t.bytes() > maxHistoryBytes {
		t.Messages = []Message{t.Messages[0], t.Messages[n-1]}
	}
	return t
}

func (t Turn) bytes() int {
	total := 0
	for _, m := range t.Messages {
		total += len(m.Text)
	}
	return total
}

func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
