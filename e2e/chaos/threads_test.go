//go:build linux

package chaos_test

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// channels is how many channels have crowded threads, and threadsEach how many such each has.
const channels, threadsEach = 3, 8

// crowds are the talks of so many threads of each channel.
func crowds(each int) (talks []int) {
	for c := range channels {
		for n := range each {
			talks = append(talks, (c+1)*crowded+n)
		}
	}
	return talks
}

// kills kills a replica now and then.
func (w *world) kills() {
	w.repeatFor(briefly, func() {
		w.pass(w.between(time.Second, 3*time.Second))
		w.kill(w.dice.IntN(replicas))
	})
}

// threads: two people write in many threads of few channels. Now and then the model waits in one until another is answered.
func threads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{200 * time.Millisecond, time.Second}})
	w.model.holds.Store(true)
	w.amid(crowds(threadsEach), func(ctx context.Context, talk int) {
		w.write(ctx, talk, talk%4, []kind{note, both})
	}, func() {
		w.kills()
		w.model.holds.Store(false)
		for w.model.holding.Load() > 0 { // others have to write meanwhile
			w.pass(50 * time.Millisecond)
		}
	})
	w.holds(w.settle(), append(promises(), sideBySide())...)
	if n := w.model.held.Load(); n == 0 {
		t.Error("the model was never slow: this test showed nothing")
	}
}

// bursts: people write several messages within a moment, again and again. Somebody else's, commands and clicks come between.
func bursts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{200 * time.Millisecond, time.Second}, env: []string{"BOT_BURST=400ms"}})
	w.amid(append(crowds(2), 0, 1, 2, 3, 4, 6), func(ctx context.Context, talk int) {
		for n := 1; ctx.Err() == nil; {
			var last *delivery
			for range 2 + rand.N(4) {
				as := note
				switch {
				case n%11 == 5:
					as = help
				case n%13 == 6:
					as = click
				}
				last = w.say(key{talk, n}, as)
				n++
			}
			if rand.N(2) == 0 {
				select {
				case <-last.answered:
				case <-ctx.Done():
				}
			}
			wait(ctx, rand.N(2*time.Second))
		}
	}, w.kills)
	w.holds(w.settle(), append(promises(), check{"what is asked of together belongs together, and has one reply", torn})...)
	w.joins()
}

// upgradeThreads replaces replicas that answer all threads of a channel one after another, as releases before
// BOT_THREADS_TOGETHER did, by such that answer them side by side. Each message comes to all of them.
func upgradeThreads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, circumstances{thinks: [2]time.Duration{50 * time.Millisecond, 300 * time.Millisecond}, env: []string{
		"BOT_APPROVAL_ACTIONS=createList", "BOT_THREADS_TOGETHER=true",
	}})
	newer := append(slices.Clone(w.replicas[0].env), "BOT_THREADS_TOGETHER=false")
	before, after := key{9 * crowded, 1}, key{9*crowded + 1, 1} // approvals
	w.tell(w.replicas[0], before, open.text(before))
	w.shown(before, "/approve ")
	w.amid(crowds(2), func(ctx context.Context, talk int) {
		for n := 1; ctx.Err() == nil; n++ {
			d := w.sends(key{talk, n}, both)
			var deliveries sync.WaitGroup
			for _, r := range w.replicas {
				deliveries.Go(func() { w.deliver(r, d) })
			}
			deliveries.Wait()
			w.send(d)
			select {
			case <-d.answered:
			case <-ctx.Done():
			}
		}
	}, func() {
		for at, replace := range []func(int){w.roll, w.kill, w.roll} {
			w.pass(2 * time.Second)
			w.replicas[at].env = newer
			replace(at)
			if at == 0 {
				w.tell(w.replicas[0], after, open.text(after))
				w.approve(w.replicas[1], after)
				w.approve(w.replicas[0], before)
			}
		}
		w.pass(2 * time.Second)
	})
	w.shown(before, open.says(before)[0])
	w.shown(after, open.says(after)[0])
	s := w.settle()
	for _, k := range []key{before, after} {
		done := 0
		s.posts = slices.DeleteFunc(s.posts, func(p post) bool {
			if p.text == open.says(k)[0] {
				done++
			}
			return p.conversation == conversation(k.talk)
		})
		if done != 1 {
			t.Errorf("%s was done %d times after its approval", k, done)
		}
	}
	w.holds(s, append(promises(), answers(0, http.StatusServiceUnavailable))...)
}
