package bottest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planbot-go/planbot/internal/turnid"
)

// story is what happened in a kit, in order.
type story struct {
	began time.Time

	mu       sync.Mutex
	lines    []entry
	warnings bytes.Buffer
	unshown  []string // what the channel does not show of what the bot sent
}

// entry is one thing that happened.
type entry struct {
	turnid.Of
	at   time.Duration
	who  string // or what kind of event it is
	text string
}

// note adds an event and returns its position.
func (s *story) note(of turnid.Of, who, text string) (seq int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, entry{of, time.Since(s.began), who, text})
	return len(s.lines)
}

// Write records a warning of the bot.
func (s *story) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var has struct {
		Unshown string `json:"unshown"`
	}
	if json.Unmarshal(line, &has) == nil && has.Unshown != "" {
		s.unshown = append(s.unshown, "the channel will not show "+has.Unshown)
	}
	const most = 16 << 10
	if s.warnings.Len() < most {
		s.warnings.Write(line)
	}
	return len(line), nil
}

// lost is what the bot sent and the channel does not show.
func (s *story) lost() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Compact(slices.Clone(s.unshown))
}

func (s *story) warned() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.warnings.String()
}

const maxLine = 400 // limits the shown part of a line

const typing = "(typing)" // how a typing indicator is described

// tell returns the story as text: of one conversation; "": of all.
func (s *story) tell(conversation string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	for _, e := range s.lines {
		if conversation != "" && e.Conversation != "" && e.Conversation != conversation || e.text == typing {
			continue
		}
		text := e.text
		if len(text) > maxLine {
			text = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:maxLine], ""), len(text))
		}
		fmt.Fprintf(&out, "%8s  %-14s %s\n", e.at.Round(time.Millisecond), e.who, strings.ReplaceAll(text, "\n", " ⏎ "))
	}
	return out.String()
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
