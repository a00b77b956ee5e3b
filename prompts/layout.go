package prompts

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Unbounded is the budget of a [Section] that may take as many tokens as it likes.
const Unbounded = math.MaxInt

// Section is one part of what a model is told, with its share of the tokens.
type Section struct {
	Name string // for errors
	// Tokens is how many tokens it may have: over 1 that many; above 0 and up to 1
	// that share of what the other kinds leave, or less when the shares come to
	// more than 1 together; 0 or -1 as many as it takes.
	Tokens float64
	// Required says that nothing is told without it. A section that is not is left
	// out when it does not fit, the last one first.
	Required bool
	// Messages are those of the section, in at most budget tokens. It may be asked
	// for more than once.
	Messages func(budget int) []Message
}

// TextSection is a section of one message, none for an empty text. A text that is
// over the section's own Tokens is cut, with a mark.
func TextSection(name, role, text string, count Counter) Section {
	return Section{Name: name, Messages: func(budget int) []Message {
		if budget == Unbounded || Fits(text, budget-MessageTokens, count) {
			return appendMessage(nil, role, text)
		}
		cut := Trim(text, budget-MessageTokens-count.Count(cutMark), count)
		if cut == "" {
			return nil
		}
		return []Message{{Role: role, Text: cut + cutMark}}
	}}
}

// TooLongError says that the required sections do not fit into a budget.
type TooLongError struct {
	Budget int
	Needed int
	Sizes  string // of each section
}

func (e *TooLongError) Error() string {
	return fmt.Sprintf("prompt needs %d tokens (%s), and may have %d", e.Needed, e.Sizes, e.Budget)
}

// Layout gives the messages of the sections, in their order, in at most budget
// tokens. What has no share goes first: all of the required sections, and as many
// of the others as fit. What they leave is shared among those with a share. The
// error is a [*TooLongError].
//
// Tokens are counted only when the bytes alone do not prove that all fits. A
// message costs [MessageTokens] beside its text.
func Layout(budget int, count Counter, sections ...Section) ([]Message, error) {
	l := layout{sections: sections, messages: make([][]Message, len(sections)), sizes: make([]int, len(sections))}
	l.render()
	l.measure(bytesOf)
	if l.fitsUncounted(budget) {
		return slices.Concat(l.messages...), nil
	}
	l.measure(count.Count)
	if err := l.fit(budget); err != nil {
		return nil, err
	}
	if err := l.share(budget); err != nil {
		return nil, err
	}
	return slices.Concat(l.messages...), nil
}

func bytesOf(text string) int { return len(text) }

type layout struct {
	sections []Section
	messages [][]Message
	sizes    []int
}

func (s *Section) proportional() bool { return s.Tokens > 0 && s.Tokens <= 1 }

// render gets the messages of the sections without a share.
func (l *layout) render() {
	for i, s := range l.sections {
		if s.proportional() {
			continue
		}
		room := Unbounded
		if s.Tokens > 1 {
			room = int(min(s.Tokens, 1<<31))
		}
		l.messages[i] = s.Messages(room)
	}
}

// measure sizes the messages of the sections without a share.
func (l *layout) measure(text func(string) int) {
	for i, messages := range l.messages {
		if !l.sections[i].proportional() {
			l.sizes[i] = sizeOf(messages, text)
		}
	}
}

func sizeOf(messages []Message, text func(string) int) int {
	size := 0
	for _, m := range messages {
		size += text(m.Text) + MessageTokens
	}
	return size
}

func (l *layout) total() int {
	total := 0
	for _, size := range l.sizes {
		total += size
	}
	return total
}

// fit leaves sections out until the others are within the budget.
func (l *layout) fit(budget int) error {
	for i := len(l.sections) - 1; i >= 0 && l.total() > budget; i-- {
		if !l.sections[i].Required {
			l.messages[i], l.sizes[i] = nil, 0
		}
	}
	if l.total() > budget {
		return l.tooLong(budget)
	}
	return nil
}

// part is what section i, which has a share, may have of what is left.
func (l *layout) part(i, left int) int {
	sum := 0.0
	for _, s := range l.sections {
		if s.proportional() {
			sum += s.Tokens
		}
	}
	return int(float64(left) * l.sections[i].Tokens / max(1, sum))
}

// fitsUncounted takes all of each section with a share, if the bytes prove that
// everything fits.
func (l *layout) fitsUncounted(budget int) bool {
	left := budget - l.total()
	for i, s := range l.sections {
		if left < 0 || !s.proportional() {
			continue
		}
		l.messages[i] = s.Messages(Unbounded)
		if sizeOf(l.messages[i], bytesOf) > l.part(i, left) {
			return false
		}
	}
	return left >= 0
}

// share gives each section with a share its part of what is left.
func (l *layout) share(budget int) error {
	left := budget - l.total()
	for i, s := range l.sections {
		if !s.proportional() {
			continue
		}
		l.messages[i] = s.Messages(l.part(i, left))
		if s.Required && len(l.messages[i]) == 0 && len(s.Messages(Unbounded)) > 0 {
			return l.tooLong(budget)
		}
	}
	return nil
}

func (l *layout) tooLong(budget int) error {
	var sizes []string
	needed := 0
	for i, s := range l.sections {
		if s.Required && l.sizes[i] > 0 {
			needed += l.sizes[i]
			sizes = append(sizes, fmt.Sprintf("%s %d", s.Name, l.sizes[i]))
		} else if s.Required && s.proportional() {
			sizes = append(sizes, s.Name)
		}
	}
	return &TooLongError{Budget: budget, Needed: needed, Sizes: strings.Join(sizes, ", ")}
}
