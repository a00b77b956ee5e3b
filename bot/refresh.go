package bot

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/bot/turn"
)

// Limits of how often a handler of [Bot.OnCardRefresh] runs for one person and card. Clients ask once
// a minute, and when the message was edited.
const (
	refreshBurst = 3
	refreshEvery = 5 * time.Second
	// refreshKept is how long, and maxRefreshes of how many views, the last answer is kept.
	refreshKept  = time.Minute
	maxRefreshes = 1000
	maxRefresh   = 32 << 10 // bytes of an answer that is kept
)

// views are the last answers to refreshes of cards in this process, for those who ask too often.
type views struct {
	mu  sync.Mutex
	all map[string]*view
}

// view is a card as one person saw it last.
type view struct {
	limit  *rate.Limiter
	answer turn.Answer
	asked  time.Time
}

// viewOf identifies who asks for which card.
func viewOf(a *activity.Activity, c click) string {
	return a.CallerID + "\n" + a.ChannelID + "\n" + a.Recipient.ID + "\n" + a.Conversation.ID + "\n" + a.ReplyToID + "\n" + a.From.ID + "\n" + a.From.AadObjectID + "\n" + c.Verb + "\n" + string(c.Data)
}

// last returns the last answer if the person asked too often. ok is false if the handler may run.
func (v *views) last(id string) (answer turn.Answer, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	one := v.all[id]
	if one == nil {
		if len(v.all) >= maxRefreshes {
			maps.DeleteFunc(v.all, func(_ string, old *view) bool { return now.Sub(old.asked) > refreshKept })
		}
		if v.all == nil || len(v.all) >= maxRefreshes {
			v.all = map[string]*view{}
		}
		one = &view{limit: rate.NewLimiter(rate.Every(refreshEvery), refreshBurst)}
		v.all[id] = one
	}
	one.asked = now
	if one.limit.Allow() || one.answer.Body == nil {
		return turn.Answer{}, false
	}
	return one.answer, true
}

// keep remembers an answer.
func (v *views) keep(id string, answer turn.Answer) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if one := v.all[id]; one != nil && len(answer.Body) <= maxRefresh {
		one.answer = answer
	}
}
