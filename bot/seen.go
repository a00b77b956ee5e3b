package bot

import (
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
// its effects are kept.
type seen struct {
	Marks []mark `json:"marks,omitempty"`
}

type mark struct {
	Key uint64 `json:"k"`
	By  uint64 `json:"b"` // the turn that handled it
	At  int64  `json:"t"` // Unix seconds
}

// seenKeys returns what identifies the activity, and for how long. Without an
// id nothing is ever taken for a duplicate.
func seenKeys(a *activity.Activity) map[uint64]time.Duration {
	keys := map[uint64]time.Duration{}
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
	keys, now, self := seenKeys(t.Activity), time.Now(), hash(t.ID)
	return slices.ContainsFunc(state.Of[seen](t.Thread).Marks, func(m mark) bool {
		within, known := keys[m.Key]
		return known && m.By != self && now.Sub(time.Unix(m.At, 0)) < within
	})
}

// savedBefore reports whether an earlier attempt of this turn was saved in
// part: the conversation was, the person's state lost its race.
func (t *Turn) savedBefore() bool {
	self := hash(t.ID)
	return slices.ContainsFunc(state.Of[seen](t.Thread).Marks, func(m mark) bool { return m.By == self })
}

// markSeen adds the activity to what was handled, once, and drops the oldest.
func (t *Turn) markSeen() {
	s, now := state.Of[seen](t.Thread), time.Now()
	for key := range seenKeys(t.Activity) {
		s.Marks = slices.DeleteFunc(s.Marks, func(m mark) bool { return m.Key == key && m.By != hash(t.ID) })
		if !slices.ContainsFunc(s.Marks, func(m mark) bool { return m.Key == key }) {
			s.Marks = append(s.Marks, mark{key, hash(t.ID), now.Unix()})
		}
	}
	if len(s.Marks) > maxSeen {
		s.Marks = slices.Delete(s.Marks, 0, len(s.Marks)-maxSeen)
	}
}

func hash(parts ...string) uint64 {
	h := fnv.New64a()
	for _, p := range parts {
		_, _ = h.Write([]byte(p)) // never fails
		_, _ = h.Write([]byte{0})
	}
	return h.Sum64()
}
