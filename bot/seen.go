package bot

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/state"
)

const (
	// Channels send an activity again when its answer is late; the last try
	// that was reported comes minutes later.
	seenFor = 30 * time.Minute
	// A second click on the same card button within this time is the same click.
	sameClick = time.Minute
	// The process itself remembers more: see recent.
	maxSeen = 32
)

// seen are the activities of a conversation that were handled. It is part of
// the state that the turn saves, so an activity counts as handled exactly when
// its effects are kept. Every turn reads and writes it, hence the packed form.
type seen struct {
	Marks []byte `json:"marks,omitempty"`
}

// mark is one activity that was handled.
type mark struct {
	key uint64
	by  uint64 // the turn that handled it
	at  uint32 // Unix seconds
}

const markBytes = 8 + 8 + 4

func (s *seen) unpack() []mark {
	var marks []mark
	for b := s.Marks; len(b) >= markBytes; b = b[markBytes:] {
		marks = append(marks, mark{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint32(b[16:])})
	}
	return marks
}

func (s *seen) pack(marks []mark) {
	s.Marks = s.Marks[:0]
	for _, m := range marks {
		s.Marks = binary.BigEndian.AppendUint64(s.Marks, m.key)
		s.Marks = binary.BigEndian.AppendUint64(s.Marks, m.by)
		s.Marks = binary.BigEndian.AppendUint32(s.Marks, m.at)
	}
}

// seenKeys returns what identifies the turn's activity, and for how long. Without
// an id nothing is ever taken for a duplicate. A turn that goes on after an
// approval is identified by that: its activity was handled when it began.
func (t *Turn) seenKeys() map[uint64]time.Duration {
	keys, a := map[uint64]time.Duration{}, t.Activity
	if t.resumes != "" {
		keys[hash("approval", t.resumes)] = seenFor
		return keys
	}
	if a.ID != "" {
		keys[hash(string(a.Type), a.ID)] = seenFor
	}
	if isSubmit(a) {
		keys[hash("submit", a.ReplyToID, a.From.ID, string(a.Value))] = sameClick
	}
	return keys
}

// isSubmit reports whether the activity is the click on a card's submit button.
func isSubmit(a *activity.Activity) bool {
	return a.Type == activity.Message && a.Text == "" && len(a.Value) > 0 && a.Value.Kind() != 'n'
}

// seenBefore reports whether another turn handled the activity.
func (t *Turn) seenBefore() bool {
	keys, now, self := t.seenKeys(), time.Now(), hash(t.ID)
	return slices.ContainsFunc(state.Of[seen](t.Thread).unpack(), func(m mark) bool {
		within, known := keys[m.key]
		return known && m.by != self && now.Sub(time.Unix(int64(m.at), 0)) < within
	})
}

// savedBefore reports whether an earlier attempt of this turn was saved in
// part: the conversation was, the person's state lost its race.
func (t *Turn) savedBefore() bool {
	self := hash(t.ID)
	return slices.ContainsFunc(state.Of[seen](t.Thread).unpack(), func(m mark) bool { return m.by == self })
}

// markSeen adds the activity to what was handled, once, and drops the oldest.
func (t *Turn) markSeen() {
	s, now, self := state.Of[seen](t.Thread), time.Now(), hash(t.ID)
	marks := s.unpack()
	for key := range t.seenKeys() {
		marks = slices.DeleteFunc(marks, func(m mark) bool { return m.key == key && m.by != self })
		if !slices.ContainsFunc(marks, func(m mark) bool { return m.key == key }) {
			marks = append(marks, mark{key, self, uint32(now.Unix())}) //nolint:gosec // until 2106
		}
	}
	s.pack(marks[max(0, len(marks)-maxSeen):])
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // never fails
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}
