package knowledge

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/planbot-go/planbot/internal/spelling"
)

const (
	// formVersion is the version of readers and chunker together. Raise it when one of them makes
	// other chunks of the same file, so that the next Add reads all files again.
	formVersion = 7

	maxChunkTokens = 400
	maxHeading     = 200 // characters of a heading in a path
	pathMark       = " › "
)

// blockKind says what a block is.
type blockKind int

const (
	paragraph blockKind = iota // lines of text
	heading
	table // a head, and a line for each row
	code  // a head with the language, and lines
)

// block is a part of a document, as its reader found it.
type block struct {
	kind  blockKind
	level int    // of a heading, from 1
	head  string // see blockKind
	text  string
	lines []string // of a table or a list that grows; see [block.done]
}

// piece is a chunk of a document's text under the headings of its path. No piece has parts of two
// sections.
type piece struct{ path, text string }

// chunker cuts documents. What it returns depends on the blocks alone.
type chunker struct {
	most  int // tokens of a chunk
	count func(text string) int

	headings []string // by level
	done     []piece
	text     string // of the chunk that grows
	tokens   int
}

// cut cuts a document at headings, then at blank lines, lines, sentences and words, so that no chunk is
// larger than it may be. Each chunk of a table begins with the table's head.
func (c *chunker) cut(blocks []block) []piece {
	for _, b := range blocks {
		b.text = strings.Trim(b.text, "\n")
		switch {
		case b.kind == heading:
			c.flush()
			level := max(b.level, 1)
			for len(c.headings) < level {
				c.headings = append(c.headings, "")
			}
			c.headings = append(c.headings[:level-1], spelling.Limit(oneLine(b.text), maxHeading))
		case strings.TrimSpace(b.text) == "":
		case b.kind == paragraph:
			if !c.join("\n\n", b.text) {
				c.flush()
				c.cutParagraph(b.text)
			}
		default:
			c.cutRows(b)
		}
	}
	c.flush()
	return c.done
}

// flush ends the chunk that grows.
func (c *chunker) flush() {
	if text := strings.TrimSpace(c.text); text != "" {
		var path []string
		for _, h := range c.headings {
			if h != "" {
				path = append(path, h)
			}
		}
		c.done = append(c.done, piece{strings.Join(path, pathMark), text})
	}
	c.text, c.tokens = "", 0
}

// join adds text to the chunk if it fits.
func (c *chunker) join(mark, text string) bool {
	if c.text == "" {
		mark = ""
	}
	tokens := c.tokens + c.count(mark+text)
	if tokens > c.most {
		return false
	}
	c.text, c.tokens = c.text+mark+text, tokens
	return true
}

// cutParagraph cuts a text that does not fit into the chunk before it. Where it ends a chunk within the
// text, the next one begins with the last sentence of that one.
func (c *chunker) cutParagraph(text string) {
	last := ""
	for line := range strings.Lines(text) {
		mark := "\n"
		for _, unit := range c.units(strings.TrimRight(line, "\n")) {
			if !c.join(mark, unit) {
				c.flush()
				if c.join("", last) && !c.join(mark, unit) {
					c.text, c.tokens = "", 0
				}
				if c.text == "" {
					c.join("", unit)
				}
			}
			mark = " "
			sentences := sentencesOf(unit)
			if last = ""; len(sentences) > 0 {
				last = sentences[len(sentences)-1]
			}
		}
	}
}

// units cuts a line into what fits into a chunk.
func (c *chunker) units(line string) (units []string) {
	if c.count(line) <= c.most {
		return []string{line}
	}
	for _, sentence := range sentencesOf(line) {
		if c.count(sentence) <= c.most {
			units = append(units, sentence)
		} else {
			units = append(units, c.words(sentence, c.most)...)
		}
	}
	return units
}

// words cuts a text at words, and words that are too long anywhere.
func (c *chunker) words(text string, most int) (parts []string) {
	part, tokens := "", 0
	flush := func() {
		if part != "" {
			parts = append(parts, part)
		}
		part, tokens = "", 0
	}
	add := func(mark, word string, n int) {
		if tokens+n > most {
			flush()
		}
		part, tokens = strings.TrimSpace(part+mark+word), tokens+n
	}
	for _, word := range strings.Fields(text) {
		if n := c.count(" " + word); n <= most {
			add(" ", word, n)
			continue
		}
		flush()
		for some := range slices.Chunk([]rune(word), max(most/4, 1)) { // a character may have four tokens
			add("", string(some), c.count(string(some)))
		}
	}
	flush()
	return parts
}

// cutRows cuts a table or code. Each chunk has its head.
func (c *chunker) cutRows(b block) {
	end := ""
	if b.kind == code {
		b.head, end = "```"+b.head, "\n```"
	}
	whole := strings.TrimPrefix(b.head+"\n"+b.text, "\n") + end
	if c.join("\n\n", whole) {
		return
	}
	c.flush()
	if c.join("", whole) {
		return
	}
	room := c.most - c.count(b.head+end)
	if room < c.most/2 { // then the head is no help
		b.head, end, room = "", "", c.most
	}
	add := func(row string) {
		if c.text != "" && c.join("\n", row) {
			return
		}
		c.endRows(end)
		c.text, c.tokens = strings.TrimPrefix(b.head+"\n"+row, "\n"), c.most-room+c.count("\n"+row)
	}
	for row := range strings.Lines(b.text) {
		row = strings.TrimRight(row, "\n")
		if c.count(row) <= room {
			add(row)
			continue
		}
		for _, part := range c.words(row, room) {
			add(part)
		}
	}
	c.endRows(end)
}

func (c *chunker) endRows(end string) {
	if c.text != "" {
		c.text += end
	}
	c.flush()
}

// sentencesOf splits a text after full stops and the like.
func sentencesOf(text string) (sentences []string) {
	start := 0
	for i, r := range text {
		end := i + utf8.RuneLen(r)
		next, _ := utf8.DecodeRuneInString(text[min(end, len(text)):])
		if r == utf8.RuneError || !(strings.ContainsRune("。！？", r) || strings.ContainsRune(".!?…", r) && unicode.IsSpace(next)) {
			continue
		}
		if sentence := strings.TrimSpace(text[start:end]); sentence != "" {
			sentences = append(sentences, sentence)
		}
		start = end
	}
	if rest := strings.TrimSpace(text[start:]); rest != "" {
		sentences = append(sentences, rest)
	}
	return sentences
}

// oneLine is text with each run of white space as one space.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
