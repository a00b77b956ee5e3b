package prompts

import (
	"strings"
	"time"
)

// AssembleInput is what goes into the messages of one planning call, in the
// order in which it goes. What is empty is left out.
type AssembleInput struct {
	// System is the rendered prompt, the same for every turn of a bot.
	System string
	// History is what was said before.
	History []Message
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
	out := make([]Message, 0, len(in.History)+4)
	out = appendMessage(out, System, in.System)
	out = append(out, in.History...)
	out = appendMessage(out, System, in.Context)
	out = appendMessage(out, User, in.Input)
	if in.Results != "" {
		out = appendMessage(out, System, "Results of the last plan:\n"+in.Results)
	}
	return out
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
