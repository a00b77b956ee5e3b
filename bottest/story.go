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
