package prompts

import (
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

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

// O200k counts with the vocabulary o200k_base, that of OpenAI's models since
// GPT-4o; for other models it is close. The vocabulary is loaded with the first
// count, some 20 ms and 13 MB, and kept for the life of the process. Marks such
// as <|endoftext|> are counted as the ordinary text that they are in a message.
// Make one with [NewCounter].
type O200k struct {
	once   sync.Once
	loaded atomic.Bool
	codec  *codec.Codec
}

// NewCounter returns a counter that has loaded nothing yet.
func NewCounter() *O200k { return &O200k{} }

// Loaded says whether the vocabulary is in memory.
func (o *O200k) Loaded() bool { return o.loaded.Load() }

// Count returns the number of tokens of text. Of a text over 64 KiB it counts
// piece by piece, which may come to a few tokens more.
func (o *O200k) Count(text string) int {
	o.once.Do(func() {
		o.codec = codec.NewO200kBase()
		o.loaded.Store(true)
	})
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
func (o *O200k) count(text string) int {
	n, err := o.codec.Count(text)
	if err != nil {
		return len(text)
	}
	return n
}

// Fits says whether text has at most budget tokens. It counts only when the
// bytes alone do not prove that.
func Fits(text string, budget int, count Counter) bool {
	if len(text) <= budget && utf8.ValidString(text) {
		return true
	}
	return budget > 0 && count.Count(text) <= budget
}

// Trim returns a beginning of text that fits, about as long as can be. It is cut
// where no character is torn, nor one from the accents or joined emoji that
// belong to it. A text that fits comes back as it is.
func Trim(text string, budget int, count Counter) string {
	if Fits(text, budget, count) {
		return text
	}
	if budget <= 0 {
		return ""
	}
	fits, over := 0, len(text) // text[:fits] fits, text[:over] does not
	for {
		middle := clusterStart(text, fits+(over-fits)/2)
		if middle <= fits {
			if middle = clusterEnd(text, fits); middle >= over {
				return text[:fits]
			}
		}
		if Fits(text[:middle], budget, count) {
			fits = middle
		} else {
			over = middle
		}
	}
}

// trimBytes is [Trim] by bytes.
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

// clusterEnd returns the first place after i where such a character begins.
func clusterEnd(text string, i int) int {
	for i < len(text) {
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
		if i == len(text) || clusterStart(text, i) == i {
			return i
		}
	}
	return i
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
