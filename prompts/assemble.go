package prompts

import (
	"slices"
	"strings"
	"time"
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

// Assemble lays out the messages of a planning call: what is the same for every
// call first, so that a prompt cache can use it, what is new last. The person's
// text is a user message with nothing around it; the results of a plan follow
// as a system message.
func Assemble(in AssembleInput) []Message {
	var history []Message
	if in.History != nil {
		history = in.History(Unbounded)
	}
	out := make([]Message, 0, len(in.Pinned)+len(history)+4)
	out = appendMessage(out, System, in.System)
	out = append(out, in.pinned()...)
	out = append(out, history...)
	out = appendMessage(out, System, in.Context)
	out = appendMessage(out, User, in.Input)
	return appendMessage(out, System, in.resultsText())
}

// Within is [Assemble] in at most budget tokens: System, Pinned, Input and Results are
// told whole, then Context if it fits, and History has what is left. The error is
// a [*TooLongError].
func (in AssembleInput) Within(budget int, count Counter) ([]Message, error) {
	required := func(name, role, text string) Section {
		s := TextSection(name, role, text, count)
		s.Required = true
		return s
	}
	sections := []Section{
		required("prompt", System, in.System),
		{Name: "history", Tokens: 1, Messages: in.History},
		TextSection("context", System, in.Context, count),
		required("input", User, in.Input),
		required("results", System, in.resultsText()),
	}
	if in.History == nil {
		sections = slices.Delete(sections, 1, 2)
	}
	if len(in.Pinned) > 0 {
		pinned := Section{Name: "pinned", Required: true, Messages: func(int) []Message { return in.pinned() }}
		sections = slices.Insert(sections, 1, pinned)
	}
	return Layout(budget, count, sections...)
}

func (in AssembleInput) pinned() []Message {
	var out []Message
	for _, text := range in.Pinned {
		out = appendMessage(out, System, text)
	}
	return out
}

func (in AssembleInput) resultsText() string {
	if in.Results == "" {
		return ""
	}
	return "Results of the last plan:\n" + in.Results
}

func appendMessage(out []Message, role, text string) []Message {
	if text == "" {
		return out
	}
	return append(out, Message{Role: role, Text: text})
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
