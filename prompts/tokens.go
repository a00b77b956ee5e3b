package prompts

import (
	_ "embed"
	"math"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/planbot-go/planbot/internal/spelling"
)

// Counter counts the tokens of a text of at most 64 KiB. nil: the count of [Tokens]. It is called by several
// turns at once.
type Counter func(text string) int

const (
	messageTokens = 4 // what a message costs beyond its text: the markers that a model server adds
	// chunkBytes is how much text is counted at a time. It limits the memory of counting.
	chunkBytes = 64 << 10
	maxWord    = 256 // the longest word that is merged as one: the time of that grows with its square
)

// Tokens is the number of tokens in a message with these texts. Marks such as <|endoftext|> count as ordinary
// text, which they are in a message. A text over 64 KiB is counted in pieces, which may add a few tokens.
func (c Counter) Tokens(texts ...string) int {
	if c == nil {
		c = atMost
	}
	total := messageTokens
	for _, text := range texts {
		for len(text) > chunkBytes {
			chunk := spelling.Shorten(text, chunkBytes)
			total += c(chunk)
			text = text[len(chunk):]
		}
		total += c(text)
	}
	return total
}

// Tokens is at least the number of tokens in a message with these texts, as OpenAI's models since GPT-4o count
// them, and rarely half as much again; for other models it is close. It is safe for concurrent use.
func Tokens(texts ...string) int { return Counter(nil).Tokens(texts...) }

// begin has the first 32,000 of the 200,000 tokens of OpenAI's vocabulary o200k_base, each behind its length.
//
//go:embed tokens.bin
var begin string

// ranks are the numbers of these tokens.
var ranks = sync.OnceValue(func() map[string]int32 {
	all := make(map[string]int32, 32_000)
	for at := 0; at < len(begin); {
		end := at + 1 + int(begin[at])
		all[begin[at+1:end]] = int32(len(all))
		at = end
	}
	return all
})

// atMost counts with the first tokens of the vocabulary alone. The count of the whole one is not higher: both
// merge the pair of the lowest number again and again, so they do the same until no pair of a low number is
// left, and to merge others makes fewer tokens.
func atMost(text string) (total int) {
	known := ranks()
	var parts []part
	for text != "" {
		word := text[:wordLen(text)]
		text = text[len(word):]
		for len(word) > maxWord {
			parts = merge(parts[:0], word[:maxWord], known)
			total += len(parts) + 1
			word = word[maxWord:]
		}
		if _, whole := known[word]; whole {
			total++
			continue
		}
		parts = merge(parts[:0], word, known)
		total += len(parts)
	}
	return total
}

// part is a token of a word: where it starts, and the number of the token that it makes with the next part.
type part struct {
	start int
	rank  int32
}

const noRank = math.MaxInt32

func merge(parts []part, word string, known map[string]int32) []part {
	rank := func(i int) int32 {
		end := len(word)
		if i+2 < len(parts) {
			end = parts[i+2].start
		}
		if r, ok := known[word[parts[i].start:end]]; ok && i+1 < len(parts) {
			return r
		}
		return noRank
	}
	for i := range len(word) {
		parts = append(parts, part{start: i})
	}
	for i := range parts {
		parts[i].rank = rank(i)
	}
	for {
		lowest := 0
		for i := range parts {
			if parts[i].rank < parts[lowest].rank {
				lowest = i
			}
		}
		if len(parts) == 0 || parts[lowest].rank == noRank {
			return parts
		}
		parts = slices.Delete(parts, lowest+1, lowest+2)
		parts[lowest].rank = rank(lowest)
		if lowest > 0 {
			parts[lowest-1].rank = rank(lowest - 1)
		}
	}
}

// first reports whether a letter may stand in the first part of a word: a capital, or one of a script without them.
func first(r rune) bool {
	if r < utf8.RuneSelf {
		return 'A' <= r && r <= 'Z'
	}
	return unicode.In(r, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M)
}

// second does for the other part: a small letter, or one of a script without them.
func second(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z'
	}
	return unicode.In(r, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M)
}

// wordLen is how long the first word of a text is. It splits as the vocabulary's regular expression does:
// letters with a sign before them and a contraction behind, up to three digits, signs, white space.
func wordLen(text string) int {
	opens, size := utf8.DecodeRuneInString(text)
	signed := 0 // bytes before the letters
	if opens != '\r' && opens != '\n' && !unicode.IsLetter(opens) && !unicode.IsNumber(opens) {
		signed = size
	}
	for _, letters := range []func(string) int{mixed, capitals} {
		for _, start := range []int{signed, 0} {
			if n := letters(text[start:]); n > 0 {
				return start + n + contraction(text[start+n:])
			}
		}
	}
	if unicode.IsNumber(opens) {
		n := size
		for range 2 {
			n += lead(text[n:], 1, unicode.IsNumber)
		}
		return n
	}
	space := min(lead(text, 1, func(r rune) bool { return r == ' ' }), 1)
	if n := lead(text[space:], -1, sign); n > 0 {
		n += space
		return n + len(text[n:]) - len(strings.TrimLeft(text[n:], "\r\n/"))
	}
	spaces := lead(text, -1, unicode.IsSpace)
	if line := strings.IndexAny(text[:spaces], "\r\n"); line >= 0 {
		return spaces - len(strings.TrimLeft(text[line:spaces], "\r\n"))
	}
	if _, last := utf8.DecodeLastRuneInString(text[:spaces]); spaces < len(text) && spaces > last {
		return spaces - last // the last one belongs to the next word
	}
	return spaces
}

func sign(r rune) bool { return !unicode.IsSpace(r) && !unicode.IsLetter(r) && !unicode.IsNumber(r) }

// lead is how long the runes of a kind are that a text begins with, at most so many; -1: all.
func lead(text string, most int, kind func(rune) bool) int {
	for at, r := range text {
		if most == 0 || !kind(r) {
			return at
		}
		most--
	}
	return len(text)
}

// mixed is how long the letters are that a text begins with: any of the first part, at least one of the second.
func mixed(text string) int {
	n := lead(text, -1, first)
	if rest := lead(text[n:], -1, second); rest > 0 {
		return n + rest
	}
	for n > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:n])
		if second(r) {
			return n
		}
		n -= size
	}
	return 0
}

// capitals is how long the letters of the first part are that a text begins with.
func capitals(text string) int { return lead(text, -1, first) }

// contraction is how long the 's, 't, 're, 've, 'm, 'll or 'd is that a text begins with; 0: none.
func contraction(text string) int {
	for _, one := range []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if len(text) >= len(one) && strings.EqualFold(text[:len(one)], one) {
			return len(one)
		}
	}
	return 0
}
