// Package tags reads the tags that language models and their servers leave around thinking, calls
// and answers: <think>, [THINK], ◁think▷, <|channel>thought … <channel|>, <｜DSML｜tool_calls>.
//
// New models bring new tags, so nothing here is a list of models. A tag is recognized by its form,
// and what it is for by the words in its name. A name that is not known is Other.
package tags

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is what a tag stands around.
type Kind int

// The kinds of tags.
const (
	Other    Kind = iota // an answer, HTML, or what nobody here has heard of
	Thinking             // not for people
	Call                 // of a tool
)

// Tag is a tag at the start of a text.
type Tag struct {
	Size    int    // in bytes
	Name    string // in lower case, without begin, end, start …
	Kind    Kind
	Special bool // it has the form of a control token, such as <|end|>
	Closes  bool // it ends what a tag of its name began
	Whole   bool // it stands for itself, as <br/> does
	Soft    bool // its brackets also stand around words of a text
	loose   bool // there is a space behind its first bracket
	bracket rune // its first one
}

const maxSize = 160 // limits a tag in bytes

// brackets are the opening brackets of tags, each with the one that closes it. The soft ones stand around
// all kinds of words, so in them only thinking, and what closes, is a tag.
var (
	brackets = map[rune]rune{'<': '>', '＜': '＞', '[': ']', '◁': '▷', '⟨': '⟩', '【': '】'}
	soft     = map[rune]rune{'{': '}', '(': ')', '«': '»', '‹': '›', '《': '》', '〈': '〉'}
)

// Starts reports whether a tag may begin with the first byte of a text.
func Starts(text string) bool {
	switch text[0] {
	case '<', '[':
		return true
	case '{', '(':
		return len(text) > 1 && (text[1] == '/' || text[1]|0x20 >= 'a' && text[1]|0x20 <= 'z')
	case "◁"[0], "＜"[0], "【"[0], "«"[0]: // the others begin as one of these does
		c, _ := utf8.DecodeRuneInString(text)
		return brackets[c] != 0 || soft[c] != 0
	}
	return false
}

// Read reads the tag at the start of a text.
func Read(text string) (t Tag, ok bool) {
	if text == "" || !Starts(text) {
		return t, false
	}
	open, width := utf8.DecodeRuneInString(text)
	shut := string(brackets[open])
	t.Soft = soft[open] != 0
	if t.Soft {
		shut = string(soft[open])
	}
	within := text[width:min(len(text), maxSize)]
	times := 1
	for ; strings.HasPrefix(within, string(open)); times++ {
		within = within[width:]
	}
	end := strings.Index(within, shut)
	if line := strings.IndexByte(within, '\n'); end < 0 || line >= 0 && line < end {
		return t, false
	}
	t.Size, t.bracket = times*width+end+len(shut), open
	for behind := within[end+len(shut):]; times > 1 && strings.HasPrefix(behind, shut); times-- {
		behind = behind[len(shut):]
		t.Size += len(shut)
	}
	return t, t.named(within[:end])
}

func (t *Tag) named(within string) bool {
	rest := strings.TrimLeft(within, pipes+"/ ")
	before := within[:len(within)-len(rest)]
	name := strings.TrimRight(rest, pipes+"/ ")
	after := rest[len(name):]
	t.loose = strings.Contains(before, " ")
	t.Special = strings.ContainsAny(before, pipes) || strings.ContainsAny(after, pipes) || t.bracket != '[' && strings.ContainsAny(rest, widePipes)
	t.Closes = strings.Contains(before, "/") || t.Special && !strings.ContainsAny(before, pipes) && after != ""
	t.Whole = strings.Contains(after, "/")
	if t.Special {
		name = strings.Map(func(c rune) rune {
			if strings.ContainsRune(pipes, c) || c == '▁' || unicode.IsSpace(c) {
				return '_'
			}
			return c
		}, name)
	}
	size := strings.IndexFunc(name, func(c rune) bool { return !isNamed(c) })
	first, _ := utf8.DecodeRuneInString(name)
	switch {
	case !unicode.IsLetter(first) && first != '_':
		return false
	case size < 0:
	case t.bracket == '<' && strings.IndexByte(" \t=", name[size]) >= 0: // attributes
		name = name[:size]
	default:
		return false
	}
	if before == "" && (strings.HasPrefix(name, "http:") || strings.HasPrefix(name, "https:") || strings.HasPrefix(name, "mailto:")) {
		return false
	}
	t.settle(strings.ToLower(name))
	switch {
	case t.loose && t.Kind == Other: // as in 1 < x > 0, or f <| x |> g
		return false
	case t.loose || !t.Soft:
		return true
	}
	return t.Kind == Thinking || t.Closes
}

const (
	pipes     = "|｜‖¦│❘∣∥┃║￨"
	widePipes = "｜‖"
)

func isNamed(c rune) bool {
	return unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c) || strings.ContainsRune("_.:-", c)
}

// settle takes the words of direction out of a name, and decides its kind.
func (t *Tag) settle(name string) {
	words := strings.FieldsFunc(name, func(c rune) bool { return strings.ContainsRune("_.:-", c) })
	var named []string
	for i, word := range words {
		outer := i == 0 || i == len(words)-1
		switch {
		case outer && slices.Contains([]string{"start", "begin", "open", "prefix"}, word):
		case outer && slices.Contains([]string{"end", "stop", "close", "suffix"}, word):
			t.Closes = true
		case word != "of" || i == 0 && len(words) == 1:
			named = append(named, t.glued(word))
		}
	}
	t.Name = strings.Join(named, "_")
	switch t.Name { // MedGemma's, which have no name of their own
	case "unused94":
		t.Name = "thought"
	case "unused95":
		t.Name, t.Closes = "thought", true
	}
	t.Kind = kindOf(t.Name, t.Special)
}

// glued takes a direction out of a word, as in endofthinking. Models open with one form of think and close
// with another.
func (t *Tag) glued(word string) string {
	for _, direction := range [...]string{"startof", "beginof", "endof", "start", "begin", "end"} {
		rest, found := strings.CutPrefix(word, direction)
		if found && rest != "" && kindOf(rest, false) == Thinking {
			t.Closes = t.Closes || strings.HasPrefix(direction, "end")
			word = rest
			break
		}
	}
	switch word {
	case "thinking":
		return "think"
	case "thoughts":
		return "thought"
	}
	return word
}

// IsThinking reports whether a word of a text, such as Thoughts, may name what follows as thinking.
func IsThinking(word string) bool { return kindOf(strings.ToLower(word), false) == Thinking }

func kindOf(name string, special bool) Kind {
	for word := range strings.SplitSeq(name, "_") {
		for _, means := range []string{"tool", "invoke", "dsml", "functioncall"} {
			if strings.Contains(word, means) {
				return Call
			}
		}
		switch word {
		case "function", "functions", "call", "calls", "plugin":
			return Call
		case "python", "action", "parameter", "parameters":
			if special {
				return Call
			}
		}
	}
	for word := range strings.SplitSeq(name, "_") {
		for _, means := range []string{"think", "thought", "reason", "reflect", "scratch", "monolog", "ponder", "deliberat", "contemplat", "introspect", "brainstorm"} {
			if strings.Contains(word, means) {
				return Thinking
			}
		}
		switch word {
		case "analysis", "cot", "inner", "rationale", "channel":
			return Thinking
		}
	}
	return Other
}

// End finds the tag that closes t in the text behind it. from is negative if there is none.
func (t *Tag) End(behind string) (from, to int) {
	for at := 0; at < len(behind); at++ {
		next := strings.IndexRune(behind[at:], t.bracket)
		if next < 0 {
			break
		}
		at += next
		if other, ok := Read(behind[at:]); ok && other.Ends(t) {
			return at, at + other.Size
		}
	}
	return -1, -1
}

// Ends reports whether t closes the other tag. <|end|> closes each control token.
func (t *Tag) Ends(other *Tag) bool {
	return t.Closes && t.bracket == other.bracket && (t.Name == other.Name || t.Name == "" && t.Special && other.Special)
}

// answers are what the first word of a channel says of one that is for people.
var answers = []string{"final", "answer", "response", "reply"}

// IsAnswer reports whether t, with what stands behind it, begins the answer itself: Gemma's channels
// have their names behind the tag. It returns the size of that name.
func (t *Tag) IsAnswer(behind string) (size int, yes bool) {
	if t.Name != "channel" {
		return 0, false
	}
	word := behind[:len(behind)-len(strings.TrimLeftFunc(behind, unicode.IsLetter))]
	return len(word), slices.Contains(answers, strings.ToLower(word))
}

// WithoutThinking returns a text without the thinking at its start. What never ends is thinking to the
// end: then cut is true, and nothing is left. The channels of gpt-oss stay: the caller has to find the last.
func WithoutThinking(text string) (rest string, cut bool) {
	for {
		begin := strings.TrimLeftFunc(text, unicode.IsSpace)
		t, ok := Read(begin)
		if !ok || t.Kind != Thinking || t.Closes || t.Whole {
			return text, false
		}
		behind := begin[t.Size:]
		if _, final := t.IsAnswer(behind); final || strings.HasPrefix(behind, "(") || strings.HasPrefix(begin, "<|channel|>") {
			return text, false
		}
		_, to := t.End(behind)
		if to < 0 {
			if t.Soft {
				return text, false
			}
			return "", true
		}
		text = strings.TrimLeftFunc(behind[to:], unicode.IsSpace)
	}
}
