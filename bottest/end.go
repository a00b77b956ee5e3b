package bottest

import (
	"fmt"
	"strings"
	"time"
)

// close ends what runs, and reports what was set up for nothing and what nobody looked at.
func (k *Kit) close() {
	close(k.over)
	for _, p := range k.all() {
		if p != nil {
			p.end()
		}
	}
	k.ended.Wait()
	if left := k.unmet(); len(left) > 0 && !k.t.Failed() {
		k.fail(nil, "%s", strings.Join(left, "\n"))
	}
	k.mu.Lock()
	explained := k.explained
	k.mu.Unlock()
	if k.t.Failed() && !explained {
		k.t.Logf("%s", k.explain(nil))
	}
	k.wires.close()
}

// unmet says what the test set up and the bot did not meet, and what the bot said that the
// test did not look at.
func (k *Kit) unmet() (left []string) {
	add := func(n int, what string) {
		if n > 0 {
			left = append(left, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(k.Model.left(), "scripted answers of the model were not asked for")
	faults, held := k.Connector.fake.Left()
	add(faults, "faults of Connector.Fails were not met: the bot sent no message that they were for")
	for _, text := range held {
		left = append(left, fmt.Sprintf("the message %q of Connector.Holds was not sent", text))
	}
	if crash := k.uncrashed(); crash != "" {
		left = append(left, crash)
	}
	for _, s := range k.Connector.overlooked("") {
		left = append(left, fmt.Sprintf("the bot said %s in %s, which nothing expected", quote(s), s.To))
	}
	return left
}

// uncrashed says why the crash of CrashAfter did not come; "": none is to come.
func (k *Kit) uncrashed() string {
	asked := len(k.Model.Calls())
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.crashAt == 0:
		return ""
	case !k.hooked.Load() && asked > 0:
		return "the crash of CrashAfter did not come: the bot does not take the Hooks of Parts.Bot, so nobody sees it call actions"
	}
	return fmt.Sprintf("the crash of CrashAfter did not come: it was for the end of call %d of an action, and there were %d", k.crashAt, len(k.finished()))
}

// How long a test may wait for a stand-in's channel, in real time and in a bubble. The
// latter is more than any test waits on purpose, and over in seconds.
const (
	maxWait       = 2 * time.Minute
	maxBubbleWait = 7 * 24 * time.Hour
)

// giveUp has what a test waits for end with a failure when it does not come: nobody else
// would tell a test that hangs why. Due does so, and says why it was still waited for.
func (k *Kit) giveUp(due func(after time.Duration) (failure string)) {
	limit := maxWait
	if k.bubble {
		limit = maxBubbleWait
	}
	k.ended.Go(func() {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-k.over:
		case <-timer.C:
			if failure := due(limit); failure != "" {
				k.fail(nil, "%s", failure)
			}
		}
	})
}

// fail reports a failure of the test, with all that is known. The chat may be nil.
func (k *Kit) fail(c *Chat, format string, args ...any) {
	k.t.Helper()
	k.t.Errorf("%s\n%s", fmt.Sprintf(format, args...), k.explainOnce(c))
}

// fatal is fail for what nothing can follow.
func (k *Kit) fatal(c *Chat, format string, args ...any) {
	k.t.Helper()
	k.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), k.explainOnce(c))
}

// explainOnce is explain, of which the end of the test then need not tell again.
func (k *Kit) explainOnce(c *Chat) string {
	k.mu.Lock()
	k.explained = true
	k.mu.Unlock()
	return k.explain(c)
}
