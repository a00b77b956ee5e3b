package bot

import (
	"sync"
	"time"

	"github.com/planbot-go/planbot/activity"
)

// maxRecent bounds each half of what recent keeps.
const maxRecent = 50_000

// recent are the activities that this process handled lately, with what it
// answered to those that wait for an answer. The marks in state do the same
// across processes, but only for the last few of a conversation.
type recent struct {
	mu       sync.Mutex
	now, old map[uint64]*answered
	since    time.Time
}

// answered is what a repeated delivery gets; nil where there is nothing to say.
type answered struct {
	invoke  InvokeResponse
	replies []*activity.Activity
}

func newRecent() *recent { return &recent{now: map[uint64]*answered{}, since: time.Now()} }

// recentKey identifies the activity, if it can be identified.
func recentKey(a *activity.Activity) (key uint64, ok bool) {
	return hash(a.ChannelID, a.Conversation.ID, string(a.Type), a.ID), a.ID != ""
}

// find returns what was answered to the activity before.
func (r *recent) find(a *activity.Activity) (before *answered, known bool) {
	key, ok := recentKey(a)
	if !ok {
		return nil, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, known = r.now[key]; !known {
		before, known = r.old[key]
	}
	return before, known
}

// add keeps what was answered, for at least [seenFor] unless there is more than
// memory is given for.
func (r *recent) add(t *Turn) {
	key, ok := recentKey(t.Activity)
	if !ok {
		return
	}
	var what *answered
	switch {
	case t.Activity.Type == activity.Invoke:
		what = &answered{invoke: t.answer}
	case t.replies != nil:
		what = &answered{replies: t.replies.all()}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.now) >= maxRecent || time.Since(r.since) > seenFor {
		r.old, r.now, r.since = r.now, map[uint64]*answered{}, time.Now()
	}
	r.now[key] = what
}
