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

// historyVersion is the version of the JSON of a [History]. Raise it when a reader of the old
// version would misread the new one.
const historyVersion = 1

// MaxMessage is how many bytes of a message a [History] keeps.
const MaxMessage = 8 << 10

// Limits for the stored history.
const (
	defaultTurns    = 5 // with any number of messages
	maxTurnMessages = 32
	maxHistoryBytes = 128 << 10 // of text in all

	maxSummarized = 200 // ids of messages that a summary covers
	maxAmended    = 20

	maxLines     = 20 // for people
	maxLineBytes = 500
)

const cutMark = " […]" // ends a cut message, so the model does not take it for the whole

// History is what was said in a conversation, in whole turns, oldest first, with a summary of what
// was said before, if the bot keeps one. It is a value in the conversation's state. The zero value is an empty history. It is not safe for concurrent use; a
// conversation runs one turn at a time.
//
// As JSON it is
//
//	{"v":1,"summary":"…","turns":[{"from":"29:1a","name":"Mia","messages":[{"role":"user","text":"hi"},…]},…]}
//
// and {} if empty. Reading a newer version is an error, rather than half a history.
type History struct {
	Version int    `json:"v,omitzero"`
	Summary string `json:"summary,omitzero"`
	// Summarized are the ids of the messages that Summary covers. None: nobody knows all of them.
	Summarized []string `json:"summarized,omitempty"`
	Turns      []Turn   `json:"turns,omitempty"`
	// Amended are messages that were edited or deleted while their turn waited, at most 20.
	Amended []Amended `json:"amended,omitempty"`
}

// Turn is one turn of a conversation: the person's message, then those of the model and the
// runtime.
type Turn struct {
	// From is the id of the person who spoke.
	From string `json:"from,omitzero"`
	// Name is the person's name if several people may speak. Leave it empty in a personal chat.
	Name     string    `json:"name,omitzero"`
	Messages []Message `json:"messages"`
	// Sources are the ids of the sources that the answer cites. No prompt has them.
	Sources []string `json:"sources,omitempty"`
	// IDs are the channel's ids of the person's messages, in order. None: the channel gave none, or
	// an older version of the program wrote the turn. No prompt has them.
	IDs []string `json:"ids,omitempty"`
}

// Amended is a message that its author edited or deleted while its turn waited. The turn takes the
// new words from here when it goes on.
type Amended struct {
	From string `json:"from,omitzero"`
	ID   string `json:"id"`
	Text string `json:"text,omitzero"` // "": deleted
}

// StateName is the name of a history in state.
func (*History) StateName() string { return "history" }

// Append adds a turn and keeps the newest ones, at most that many turns and 128 KiB of text; 0: 5
// turns. It cuts a message over 8 KiB. A turn with more than 32 messages, or over 128 KiB, keeps
// only its first and last message: what was asked, and how it ended. A turn without messages is
// ignored. One of the same message takes the place of what is there: a turn that could not be saved
// whole runs again.
func (h *History) Append(turn Turn, most int) {
	if len(turn.Messages) == 0 {
		return
	}
	h.Version = historyVersion
	h.Turns = slices.DeleteFunc(h.Turns, func(t Turn) bool {
		return t.From == turn.From && slices.ContainsFunc(t.IDs, func(id string) bool { return slices.Contains(turn.IDs, id) })
	})
	h.Turns = append(h.Turns, turn.limited())
	if over := len(h.Turns) - cmp.Or(most, defaultTurns); over > 0 {
		h.Turns = slices.Delete(h.Turns, 0, over)
	}
	for len(h.Turns) > 1 && h.bytes() > maxHistoryBytes {
		h.Turns = slices.Delete(h.Turns, 0, 1)
	}
}

// Lines returns what was said last, for people: at most 20 lines such as "Mia: the VPN is down", each
// of at most 500 bytes. Of the bot's plans it has only the messages. person speaks where a turn has no
// name, as in a personal chat.
func (h *History) Lines(person, bot string) []string {
	var lines []string
	add := func(who, text string) {
		line := who + ": " + text
		if len(line) > maxLineBytes {
			line = spelling.Shorten(line, maxLineBytes-len(cutMark)) + cutMark
		}
		lines = append(lines, line)
	}
	for _, t := range h.Turns {
		for _, m := range t.Messages {
			switch m.Role {
			case "user":
				add(cmp.Or(t.Name, person), m.Text)
			case "assistant":
				for _, text := range spoken(m.Text) {
					add(bot, text)
				}
			}
		}
	}
	return lines[max(0, len(lines)-maxLines):]
}

// spoken returns the messages of an answer: of a plan, its SAYs.
func spoken(answer string) (texts []string) {
	var plan struct {
		Commands []struct {
			Type     string `json:"type"`
			Response string `json:"response"`
		} `json:"commands"`
	}
	if json.Unmarshal([]byte(answer), &plan) != nil {
		return []string{answer}
	}
	for _, c := range plan.Commands {
		if c.Type == "SAY" {
			texts = append(texts, c.Response)
		}
	}
	return texts
}

// Forget removes the turns of one person, and the summary: nobody knows whose words are in it.
func (h *History) Forget(userID string) {
	h.DropSummary()
	h.Turns = slices.DeleteFunc(h.Turns, func(t Turn) bool { return t.From == userID })
	h.Amended = slices.DeleteFunc(h.Amended, func(m Amended) bool { return m.From == userID })
}

// DropSummary forgets the summary.
func (h *History) DropSummary() { h.Summary, h.Summarized = "", nil }

// Summarize puts a summary in the place of that many of the oldest turns, and of the summary before.
func (h *History) Summarize(summary string, of int) {
	ids, known := h.Summarized, h.Summary == "" || len(h.Summarized) > 0
	for _, t := range h.Turns[:of] {
		ids = append(ids, t.IDs...)
		known = known && len(t.IDs) >= min(len(t.said()), 1)
	}
	if !known || len(ids) > maxSummarized {
		ids = nil
	}
	h.Summary, h.Summarized, h.Turns = summary, ids, slices.Delete(h.Turns, 0, of)
}

// said returns where the person's messages are in the turn.
func (t *Turn) said() (at []int) {
	for i, m := range t.Messages {
		if m.Role == "user" {
			at = append(at, i)
		}
	}
	return at
}

// find returns the number of the turn with that message of that person, or -1.
func (h *History) find(userID, id string) int {
	return slices.IndexFunc(h.Turns, func(t Turn) bool { return t.From == userID && slices.Contains(t.IDs, id) })
}

// Has reports whether a turn has that message of that person, or the summary has or may have words of it.
func (h *History) Has(userID, id string) bool {
	covered := h.Summary != "" && (len(h.Summarized) == 0 || slices.Contains(h.Summarized, id))
	return id != "" && (covered || h.find(userID, id) >= 0)
}

// Edit puts new words in the place of a person's message; with "" it removes the turn of the message, and
// so it does where it cannot tell which words of the turn are meant. A summary of the message goes.
func (h *History) Edit(userID, id, text string) {
	if !h.Has(userID, id) {
		return
	}
	i := h.find(userID, id)
	if i < 0 {
		h.DropSummary()
		return
	}
	said := h.Turns[i].said()
	if text == "" || len(said) != len(h.Turns[i].IDs) {
		h.Turns = slices.Delete(h.Turns, i, i+1)
		return
	}
	messages := slices.Clone(h.Turns[i].Messages)
	messages[said[slices.Index(h.Turns[i].IDs, id)]].Text = limited(text)
	h.Turns[i].Messages = messages
}

// Amend notes what became of a message whose turn waits: its new words, or "" if it was deleted.
func (h *History) Amend(userID, id, text string) {
	h.Version = historyVersion
	h.Settle(id)
	h.Amended = append(h.Amended, Amended{valid(userID), valid(id), limited(text)})
	h.Amended = slices.Delete(h.Amended, 0, max(0, len(h.Amended)-maxAmended))
}

// AmendedText returns what [History.Amend] noted of a message.
func (h *History) AmendedText(id string) (text string, ok bool) {
	for _, m := range h.Amended {
		if m.ID == id {
			return m.Text, true
		}
	}
	return "", false
}

// Settle forgets what [History.Amend] noted of a message.
func (h *History) Settle(id string) {
	h.Amended = slices.DeleteFunc(h.Amended, func(m Amended) bool { return m.ID == id })
}

// UnmarshalJSONFrom reads a history and refuses a newer version.
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

// limited returns a copy of the turn within the limits and valid in JSON.
func (t Turn) limited() Turn {
	t.From, t.Name = valid(t.From), valid(t.Name)
	t.Messages = slices.Clone(t.Messages)
	for i, m := range t.Messages {
		t.Messages[i].Text = limited(m.Text)
	}
	if n := len(t.Messages); n > maxTurnMessages || n > 2 && t.bytes() > maxHistoryBytes {
		t.Messages = []Message{t.Messages[0], t.Messages[n-1]}
	}
	return t
}

// limited returns a text within the limits and valid in JSON.
func limited(text string) string {
	text = valid(text)
	if len(text) > MaxMessage {
		text = spelling.Shorten(text, MaxMessage) + cutMark
	}
	return text
}

func (t Turn) bytes() int {
	total := 0
	for _, m := range t.Messages {
		total += len(m.Text)
	}
	return total
}

func valid(text string) string { return strings.ToValidUTF8(text, "\ufffd") }
