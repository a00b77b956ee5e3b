package bottest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/activity"
)

// story is what happened in a kit, in order.
type story struct {
	began time.Time
	mu    sync.Mutex
	lines []entry
	warns bytes.Buffer
}

// entry is one thing that happened.
type entry struct {
	Of
	at   time.Duration
	kind string
	who  string
	text string
}

// note adds to the story and returns the place.
func (k *Kit) note(e entry) (seq int) {
	k.story.mu.Lock()
	defer k.story.mu.Unlock()
	e.at = time.Since(k.story.began)
	k.story.lines = append(k.story.lines, e)
	return len(k.story.lines)
}

func (s *story) all() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]entry(nil), s.lines...)
}

// warn keeps a warning of the bot.
func (s *story) warn(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 16 << 10
	if s.warns.Len() < most {
		s.warns.Write(line)
	}
	return len(line), nil
}

func (s *story) warnings() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warns.String()
}

// warnings writes what is worth a warning to the story.
type warnings struct{ story *story }

func (w warnings) Write(line []byte) (int, error) { return len(line), nil }

// WriteLevel is what zerolog calls where there is a level.
func (w warnings) WriteLevel(level zerolog.Level, line []byte) (int, error) {
	if level >= zerolog.WarnLevel && level < zerolog.NoLevel {
		return w.story.warn(line)
	}
	return len(line), nil
}

// log is what the bot logs to.
func (k *Kit) log() zerolog.Logger {
	out := []io.Writer{warnings{&k.story}}
	if k.logs != nil {
		out = append(out, k.logs)
	}
	return zerolog.New(zerolog.MultiLevelWriter(out...)).Level(zerolog.DebugLevel)
}

// isTyping is how a typing indicator is described.
const isTyping = "(typing)"

// describeSent says in a line what the bot sent.
func describeSent(s Sent) string {
	text := s.Activity.Text
	for _, a := range s.Activity.Attachments {
		text += " [" + a.ContentType + "] " + string(a.Content)
	}
	switch {
	case s.Method == http.MethodPut:
		text = "(updates message " + s.ID + ") " + text
	case s.Activity.Type != activity.Message:
		text = "(" + string(s.Activity.Type) + ")" // isTyping is one
	}
	if s.Status >= http.StatusBadRequest {
		text += fmt.Sprintf(" (refused: %d)", s.Status)
	}
	return strings.TrimSpace(text)
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

// explain shows what happened, what the model was asked last, and what is kept. With a
// chat it is that of its conversation.
func (k *Kit) explain(c *Chat) string {
	var s strings.Builder
	section := func(title, text string) {
		if text = strings.TrimRight(text, "\n"); text != "" {
			s.WriteString("\n" + title + "\n" + indent(text) + "\n")
		}
	}
	section("what happened:", k.tell(c))
	section("the last prompt:", k.lastPrompt(c))
	if !k.foreign.Load() {
		section("what the bot keeps:", k.kept(c))
	}
	section("warnings of the bot:", k.story.warnings())
	return s.String()
}

// Explain shows all that happened in the kit, with the last prompt and what the bot keeps:
// what failures of the test show.
func (k *Kit) Explain() string { return k.explain(nil) }

// maxLine is how much of a line of the story is shown.
const maxLine = 400

func (k *Kit) tell(c *Chat) string {
	var lines []string
	typing := 0 // of the lines behind each other
	for _, e := range k.story.all() {
		if c != nil && e.Conversation != "" && e.Conversation != c.of.id || e.kind == "status" && (e.text == "200 " || e.text == "200 {}") {
			continue
		}
		text := e.text
		if len(text) > maxLine {
			text = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxLine], ""), len(text))
		}
		line := fmt.Sprintf("%8s  %-14s %s", e.at.Round(time.Millisecond), e.label(), strings.ReplaceAll(text, "\n", " ⏎ "))
		if e.kind != "sent" || e.text != isTyping {
			typing = 0
		} else if typing++; typing > 1 {
			lines[len(lines)-1] = fmt.Sprintf("%s, %d in a row", line, typing)
			continue
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// label says who did what.
func (e *entry) label() string {
	switch e.kind {
	case "said":
		return e.who
	case "sent":
		return "BOT"
	case "answers":
		return "model answers"
	case "status":
		return "  HTTP"
	case "plan", "calls", "result":
		return "  " + e.kind
	}
	return e.kind
}

// lastPrompt is what the model was asked last, the system's prompt shortened.
func (k *Kit) lastPrompt(c *Chat) string {
	calls := k.Model.Calls()
	for i := len(calls) - 1; i >= 0; i-- {
		if c != nil && calls[i].Conversation != "" && calls[i].Conversation != c.of.id {
			continue
		}
		var s strings.Builder
		for n, m := range calls[i].Messages {
			text := m.Text
			if n == 0 && m.Role == "system" && len(text) > 2*maxLine {
				text = strings.ToValidUTF8(text[:maxLine], "") + "\n[…]\n" + strings.ToValidUTF8(text[len(text)-maxLine:], "")
			}
			fmt.Fprintf(&s, "%s: %s\n", m.Role, text)
		}
		if tools := calls[i].tools(); tools != "" {
			s.WriteString("tools: " + tools + "\n")
		}
		return s.String()
	}
	return ""
}
