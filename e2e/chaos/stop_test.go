//go:build linux

package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the bot says of a stop: in the turn that it ends, and in the one of the command.
const (
	stopped, leftOut = "I stopped.", "You stopped me before I began"
	stopsSoon        = "I'll stop as soon as"
	nothingRuns      = "Nothing that you asked me for is running here."
)

// isHalt reports whether a turn that the person stopped says so at its end.
func isHalt(text string) bool {
	return strings.Contains(text, stopped) || strings.Contains(text, leftOut)
}

// stops: people stop what they asked for at any moment, and others try to.
func stops(t *testing.T) {
	t.Parallel()
	ledger := filepath.Join(t.TempDir(), "ledger")
	w := newWorld(t, circumstances{bot: deciders, thinks: [2]time.Duration{200 * time.Millisecond, time.Second}, env: []string{"LEDGER=" + ledger}})
	w.apart = true
	w.channel.weather.Store(&weather{slow: 200 * time.Millisecond})
	w.amid(append(crowds(2), 0, 1, 3, 4, 6, 7), func(ctx context.Context, talk int) {
		for n := 1; ctx.Err() == nil; n += 7 {
			asked := w.say(key{talk, n}, work)
			if rand.N(3) == 0 {
				asked = w.say(key{talk, n + 1}, work) // behind it
			}
			wait(ctx, rand.N(4*time.Second))
			by := n + 2
			if rand.N(3) == 0 {
				by = n + 6 // of somebody else, in a crowd
			}
			w.say(key{talk, by}, stop)
			if rand.N(3) == 0 {
				asked = w.say(key{talk, n + 3}, work) // which comes later
			}
			select {
			case <-asked.answered:
			case <-ctx.Done():
			}
		}
	}, w.kills)
	w.await()
	w.pass(quietAfterFaults)
	s := w.story()
	lines, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		taken, at := step{}, int64(0)
		taken.key, _ = keyIn(line)
		if _, err := fmt.Sscanf(line[strings.Index(line, " "):], " step%d %d", &taken.n, &at); err != nil {
			t.Fatal(err)
		}
		taken.at = time.Unix(0, at).Sub(w.start)
		s.steps = append(s.steps, taken)
	}
	w.holds(s, append(spoken(), stopping()...)...)
	seen := map[string]int{}
	for _, p := range s.posts {
		for _, words := range []string{stopped, "Before that I did", "I cannot tell", leftOut, stopsSoon, nothingRuns} {
			if strings.Contains(p.text, words) {
				seen[words]++
			}
		}
	}
	t.Logf("%d steps; %v", len(s.steps), seen)
	if seen[stopped] == 0 || seen[nothingRuns] == 0 {
		t.Error("nothing was stopped, or there always was something to stop: this test showed too little")
	}
}

// stopping are the promises about stops.
func stopping() []check {
	return []check{
		{"after a stop is confirmed nothing of the turn runs", ranOn},
		{"what is said of a stopped turn is true", misreported},
		{"a turn ends early only because its own person stopped it, after they wrote", haltedByOthers},
		{"each stop stops something, or says that nothing runs", unheard},
	}
}

// stoppedBy reports whether the stop is of the message's person and may have come after the message.
func stoppedBy(m, by message) bool {
	return by.kind == stop && m.kind == work && by.talk == m.talk && by.speaker() == m.speaker() && !follows(m, by)
}

// ranOn finds steps that began after somebody was told that there are none any more.
func ranOn(s story) (broken []string) {
	for _, p := range s.posts {
		k, _ := keyIn(p.replyTo)
		for _, taken := range s.steps {
			after := p.shown() && taken.at > p.at
			if after && isHalt(p.text) && taken.key == k {
				broken = append(broken, fmt.Sprintf("step %d of %s began at %s, after %s", taken.n, k, taken.at, outline([]post{p})))
			}
		}
		if !strings.HasPrefix(p.text, stopsSoon) && p.text != nothingRuns {
			continue
		}
		by := s.message(k)
		for _, taken := range s.steps {
			if m := s.message(taken.key); taken.at > p.at && stoppedBy(m, by) && follows(by, m) {
				broken = append(broken, fmt.Sprintf("step %d of %s began at %s, after the answer to %s: %s", taken.n, m.key, taken.at, by.key, outline([]post{p})))
			}
		}
	}
	return broken
}

// message is the one with that key.
func (s story) message(k key) message {
	i := slices.IndexFunc(s.messages, func(m message) bool { return m.key == k })
	if i < 0 {
		return message{}
	}
	return s.messages[i]
}

var aStep = regexp.MustCompile(`(?i)step \d`)

// misreported finds texts about steps that are not so.
func misreported(s story) (broken []string) {
	took := map[key][]string{} // as in texts
	for _, taken := range s.steps {
		took[taken.key] = append(took[taken.key], fmt.Sprintf("step %d", taken.n))
	}
	for _, p := range s.posts {
		k, ok := keyIn(p.answers())
		if !ok || s.message(k).kind != work {
			continue
		}
		var did, unsure, left []string
		for sentence := range strings.SplitSeq(p.text, ". ") {
			steps := aStep.FindAllString(strings.ToLower(sentence), -1)
			switch {
			case strings.HasPrefix(sentence, "I did not do this"):
				left = steps
			case strings.HasPrefix(sentence, "I cannot tell"):
				unsure = steps
			default:
				did = append(did, steps...)
			}
		}
		isWrong := slices.ContainsFunc(did, func(one string) bool { return !slices.Contains(took[k], one) }) ||
			slices.ContainsFunc(left, func(one string) bool { return slices.Contains(took[k], one) })
		for _, one := range took[k] {
			isWrong = isWrong || isHalt(p.text) && !slices.Contains(did, one) && !slices.Contains(unsure, one)
		}
		if isWrong {
			broken = append(broken, fmt.Sprintf("%s took %v, and it was said: %s", k, took[k], outline([]post{p})))
		}
	}
	return broken
}

// haltedByOthers finds turns that ended early although their person did not stop them, or did so before they wrote.
func haltedByOthers(s story) (broken []string) {
	for _, p := range s.posts {
		k, _ := keyIn(p.replyTo)
		m := s.message(k)
		own := func(by message) bool { return stoppedBy(m, by) && by.sent < p.at }
		if isHalt(p.text) && !slices.ContainsFunc(s.messages, own) {
			broken = append(broken, fmt.Sprintf("nobody who may stopped %s, sent at %s: %s", k, m.sent, outline([]post{p})))
		}
	}
	return broken
}

// unheard finds stops after which nothing was said of them.
func unheard(s story) (broken []string) {
	for _, by := range s.messages {
		tells := func(p post) bool {
			k, _ := keyIn(p.replyTo)
			return p.shown() && p.at > by.sent && (k == by.key || isHalt(p.text) && stoppedBy(s.message(k), by))
		}
		if by.kind == stop && by.acked > 0 && !slices.ContainsFunc(s.posts, tells) {
			broken = append(broken, fmt.Sprintf("%s, acknowledged at %s, stopped nothing and was not answered", by.key, by.acked))
		}
	}
	return broken
}
