package prompts

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// AssembleInput is what goes into the messages of one planning call, in the
// order in which it goes. What is empty is left out.
type AssembleInput struct {
	// System is the rendered prompt, the same for every turn of a bot.
	System string
	// Pinned is what stays in the conversation however long that gets: it is told whole,
	// each as a message of its own.
	Pinned []string
	// History is what was said before, in at most budget tokens, see
	// [History.Within]. nil: nothing.
	History func(budget int) []Message
	// Context is what changes with each turn: time, speaker, kind of
	// conversation. See [Situation].
	Context string
	// Input is the person's text, exactly.
	Input string
	// Results is what the DOs of the turn have put out so far, over all of its
	// plans, each from the start of a line. It is other people's text: set its
	// further lines in, so that none can pose as another result.
	Results string
}

// unbounded is the budget of a history that may take as many tokens as it likes.
const unbounded = math.MaxInt

// Assemble lays out the messages of a planning call: what is the same for every
// call first, so that a prompt cache can use it, what is new last. The person's
// text is a user message with nothing around it; the results of a plan follow
// as a system message.
func Assemble(in AssembleInput) []Message { return in.within(unbounded) }

// within has at most so many tokens of history.
func (in AssembleInput) within(history int) []Message {
	var out []Message
	add := func(role, text string) {
		if text != "" {
			out = append(out, Message{Role: role, Text: text})
		}
	}
	add(System, in.System)
	for _, text := range in.Pinned {
		add(System, text)
	}
	if in.History != nil {
		out = append(out, in.History(history)...)
	}
	add(System, in.Context)
	add(User, in.Input)
	if in.Results != "" {
		add(System, "Results of the last plan:\n"+in.Results)
	}
	return out
}

// Within is [Assemble] in at most budget tokens: System, Pinned, Input and Results are
// told whole, then Context if it fits, and History has what is left. Tokens are counted
// only when the bytes alone do not prove that all fits.
func (in AssembleInput) Within(budget int, count Counter) ([]Message, error) {
	if all := Assemble(in); sizeOf(all, func(text string) int { return len(text) }) <= budget {
		return all, nil
	}
	told := in
	told.History, told.Context = nil, ""
	needed := sizeOf(told.within(0), count.Count)
	if needed > budget {
		return nil, fmt.Errorf("prompt needs %d tokens without history, and may have %d", needed, budget)
	}
	told.Context = in.Context
	if with := sizeOf(told.within(0), count.Count); with <= budget {
		needed = with
	} else {
		told.Context = ""
	}
	told.History = in.History
	return told.within(budget - needed), nil
}

func sizeOf(messages []Message, text func(string) int) int {
	size := 0
	for _, m := range messages {
		size += text(m.Text) + MessageTokens
	}
	return size
}

// Situation is what the model should know of a turn beside the text.
type Situation struct {
	Now     time.Time // zero: not said
	Speaker string    // empty: not said
	Kind    string    // such as "group chat"; empty: not said
}

// String writes the situation in one line, for [AssembleInput]'s Context:
//
//	2026-11-21 05:46 +01:00, Saturday; group chat; "Mia" writes:
//
// The speaker's name is quoted, as the person chose it. It is the same form as
// [History.Within] gives the speakers of earlier turns.
func (s Situation) String() string {
	var parts []string
	if !s.Now.IsZero() {
		parts = append(parts, s.Now.Format("2006-01-02 15:04 -07:00, Monday"))
	}
	if kind := oneLine(s.Kind, maxWord); kind != "" {
		parts = append(parts, kind)
	}
	if s.Speaker != "" {
		parts = append(parts, quotedName(s.Speaker)+" writes:")
	}
	return strings.Join(parts, "; ")
}

// MessageTokens is what a message costs beyond its text: the marks that a model
// server puts around it.
const MessageTokens = 4

// chunkBytes is how much text is counted at a time, which bounds the memory of
// counting: the tokenizer spreads a text over four bytes a character.
const chunkBytes = 64 << 10

// Counter counts the tokens of a text. It must never count more than one token
// a byte of UTF-8 text, as no byte-level vocabulary does, and it must be safe
// for concurrent use.
type Counter interface {
	Count(text string) int
}

// o200k counts with the vocabulary o200k_base. Marks such as <|endoftext|> are counted
// as the ordinary text that they are in a message.
type o200k struct {
	once  sync.Once
	codec *codec.Codec
}

// NewCounter returns a counter with the vocabulary of OpenAI's models since GPT-4o; for
// other models it is close. It is loaded with the first count, some 20 ms and 13 MB, and
// kept for the life of the process.
func NewCounter() Counter { return &o200k{} }

// Count returns the number of tokens of text. Of a text over 64 KiB it counts
// piece by piece, which may come to a few tokens more.
func (o *o200k) Count(text string) int {
	o.once.Do(func() { o.codec = codec.NewO200kBase() })
	total := 0
	for len(text) > chunkBytes {
		cut := runeStart(text, chunkBytes)
		total += o.count(text[:cut])
		text = text[cut:]
	}
	return total + o.count(text)
}

// count falls back to the upper bound: too high a count only shortens a
// prompt. The tokenizer's one error is a time limit that is not set.
func (o *o200k) count(text string) int {
	n, err := o.codec.Count(text)
	if err != nil {
		return len(text)
	}
	return n
}

// trimBytes is a beginning of text of at most limit bytes, cut where no character is torn,
// nor one from the accents or joined emoji that belong to it.
func trimBytes(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return text[:clusterStart(text, limit)]
}

// runeStart returns the last place at or before i where a character begins.
func runeStart(text string, i int) int {
	for i > 0 && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

// clusterStart returns the last place at or before i where what a reader takes
// for one character begins. It looks back a little only: texts with endless
// accents are cut between characters.
func clusterStart(text string, i int) int {
	const far = 64
	start := runeStart(text, i)
	at := start
	for at > 0 && joined(text, at) {
		if start-at > far {
			return start
		}
		_, size := utf8.DecodeLastRuneInString(text[:at])
		at -= size
	}
	return at
}

// joined says whether the characters on both sides of i belong together.
func joined(text string, i int) bool {
	const joiner = '\u200d'
	after, _ := utf8.DecodeRuneInString(text[i:])
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	switch {
	case before == joiner || after == joiner || unicode.Is(unicode.M, after):
		return true
	case before == '\r' && after == '\n':
		return true
	case isSkinTone(after):
		return true
	}
	return isFlagHalf(before) && isFlagHalf(after)
}

func isSkinTone(r rune) bool { return r >= 0x1f3fb && r <= 0x1f3ff }

func isFlagHalf(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }
