//go:build linux

package chaos_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// early and late are how long before and after its answer a reply may be in
	// flight, as far as this process can see: a killed process leaves what its
	// kernel still sends, and a living one writes down what it has sent.
	early = 500 * time.Millisecond
	late  = 2 * time.Second
)

// check is a promise, and the function that finds where it was broken, a
// sentence each.
type check struct {
	promise string
	broken  func(story) []string
}

// promises are all that has to hold, whatever goes wrong.
func promises() []check {
	return append(spoken(), check{"the model is told of the turns before", forgotten})
}

// spoken are the promises that do not hang on how much of a conversation is told
// to the model.
func spoken() []check {
	return []check{
		{"every message is taken in the end", unacknowledged},
		{"what was acknowledged is answered, all of it", unanswered},
		{"replies come in the order of acknowledgement", reordered},
		{"turns go on soon after what was broken works again", delayed},
		{"a reply comes again at most once for a fault", doubled},
		{"nobody is told what they did not ask for", strange},
		{"the model is asked once, or once more for a fault before anything was done", askedAgain},
		{"lists hold what was put there, once", miscounted},
	}
}

// unacknowledged finds messages that were never taken.
func unacknowledged(s story) (broken []string) {
	for _, m := range s.messages {
		if m.acked == 0 {
			broken = append(broken, fmt.Sprintf("%s was never acknowledged: %v", m.key, m.failures))
		}
	}
	return broken
}

// replies are the texts shown in answer to each message, by their first arrival.
func (s story) replies() map[string][]post {
	shown := map[string][]post{}
	for _, p := range s.posts {
		before := shown[p.answers()]
		if p.shown() && !slices.ContainsFunc(before, func(b post) bool { return b.text == p.text }) {
			shown[p.answers()] = append(before, p)
		}
	}
	return shown
}

func joined(posts []post) string {
	var all strings.Builder
	for _, p := range posts {
		all.WriteString(p.text)
	}
	return all.String()
}

// unanswered finds acknowledged messages without all of their replies in order,
// parts of long ones included.
func unanswered(s story) (broken []string) {
	shown := s.replies()
	for _, m := range s.messages {
		got, want := joined(shown[m.id()]), strings.Join(m.kind.says(m.key), "")
		switch {
		case m.acked == 0, !m.kind.isFree() && got == want, m.kind.isFree() && got != "", m.kind == ask, m.kind == stop, m.kind == work && isHalt(got):
		case got == "":
			broken = append(broken, fmt.Sprintf("%s, acknowledged at %s, was never answered", m.key, m.acked))
		default:
			broken = append(broken, fmt.Sprintf("%s, acknowledged at %s, was answered with %s", m.key, m.acked, outline(shown[m.id()])))
		}
	}
	return broken
}

// outline shows replies in a line.
func outline(posts []post) string {
	var parts []string
	for _, p := range posts {
		text := p.text
		if len(text) > 60 {
			text = fmt.Sprintf("%s … %s (%d bytes)", text[:30], text[len(text)-30:], len(text))
		}
		parts = append(parts, fmt.Sprintf("%q at %s", text, p.at))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// follows reports whether a was acknowledged before b was sent at all: only then
// do people, and the channel, know which of them is the first.
func follows(b, a message) bool { return a.talk == b.talk && a.acked != 0 && a.acked < b.sent }

// reordered finds replies that overtook those to a message acknowledged before,
// and turns of one conversation that ran into each other.
func reordered(s story) (broken []string) {
	shown := s.replies()
	for _, a := range s.messages {
		for _, b := range s.messages {
			first, second := shown[a.id()], shown[b.id()]
			if a.talk != b.talk || a.key == b.key || a.kind == stop || b.kind == stop || len(first) == 0 || len(second) == 0 {
				continue
			}
			last, begin := first[len(first)-1].at, second[0].at
			switch {
			case follows(b, a) && begin < last:
				broken = append(broken, fmt.Sprintf("%s was answered at %s, before %s at %s, which was acknowledged at %s", b.key, begin, a.key, last, a.acked))
			case first[0].at < begin && begin < last && !follows(b, a):
				broken = append(broken, fmt.Sprintf("the replies to %s from %s to %s were interrupted by %s at %s", a.key, first[0].at, last, b.key, begin))
			}
		}
	}
	return broken
}

// soon is how long a turn may take to begin to answer once nothing stands in its
// way: ten seconds until another process takes it over, some for the model, and
// some for a machine with much to do.
const soon = 15 * time.Second

// delayed finds turns that waited longer than that after they were acknowledged,
// after the turn before them, after the last try to answer that the connector
// refused, and after the last fault before their reply.
func delayed(s story) (broken []string) {
	shown, order := s.replies(), s.turns()
	for _, m := range s.messages {
		replies := shown[m.id()]
		if m.acked == 0 || len(replies) == 0 {
			continue
		}
		began, free := replies[0].at, m.acked
		if i := slices.Index(order[m.talk], m.key); i > 0 {
			before := shown[order[m.talk][i-1].id()]
			free = max(free, before[len(before)-1].done)
		}
		for _, p := range s.posts {
			if !p.shown() && p.answers() == m.id() && p.at < began {
				free = max(free, p.done)
			}
		}
		for _, f := range s.faults {
			if f.from < began {
				free = max(free, min(f.to, began))
			}
		}
		if began-free > soon+s.thinks {
			broken = append(broken, fmt.Sprintf("%s was answered at %s, although nothing stood in its way since %s", m.key, began, free))
		}
	}
	return broken
}

// doubled finds replies that were shown again without a fault that explains it:
// a lost answer explains one, any other fault one in each conversation.
func doubled(s story) (broken []string) {
	last := map[string]post{}
	used := map[string]bool{}
	for _, p := range s.posts {
		if !p.shown() {
			continue
		}
		reply := p.answers() + "\n" + p.text
		before, again := last[reply]
		last[reply] = p
		if !again || before.outcome == dropped {
			continue
		}
		if why := s.explains(before, p, used); why == "" {
			broken = append(broken, fmt.Sprintf("a reply was sent again %s after its first answer: %s", p.at-before.done, outline([]post{before, p})))
		}
	}
	return broken
}

// explains uses up a fault that came while the reply was in flight, the one that
// was over first.
func (s story) explains(before, again post, used map[string]bool) string {
	faults := slices.SortedFunc(slices.Values(s.faults), func(a, b fault) int { return int(a.to - b.to) })
	for i, f := range faults {
		name := fmt.Sprintf("%s %d", before.conversation, i)
		if !used[name] && f.overlaps(before.at-early, min(again.at, before.done+late)) {
			used[name] = true
			return f.what
		}
	}
	return ""
}

func (f fault) overlaps(from, to times) bool { return f.from <= to && from <= f.to }

// strange finds what nobody asked for: faults that people were told of, replies
// to the wrong message or into the wrong conversation. The last message of a burst has the replies to all.
func strange(s story) (broken []string) {
	known := map[string]message{}
	for _, m := range s.messages {
		known[m.id()] = m
	}
	for _, p := range s.posts {
		m, ok := known[cmp.Or(p.replyTo, p.answers())]
		about, named := keyIn(p.text)
		ok = ok && (!named || m.kind == show || about.talk == m.talk) && (p.replyTo != "" || m.kind == click)
		if !ok || conversation(m.talk) != p.conversation || !named && !m.kind.isFree() && m.kind != stop && !isHalt(p.text) || strings.Contains(p.text, "(turn ") {
			broken = append(broken, fmt.Sprintf("into %s, in answer to %q: %s", p.conversation, p.replyTo, outline([]post{p})))
		}
	}
	return broken
}

// askedAgain finds messages of which the model was asked once more, although a
// reply had left or nothing was broken.
func askedAgain(s story) (broken []string) {
	acted := map[string]times{}
	for _, p := range s.posts {
		if _, known := acted[p.answers()]; !known {
			acted[p.answers()] = p.at
		}
	}
	before := map[key][]call{}
	for _, c := range s.calls {
		at, ok := acted[c.id()]
		goesOn := func(f fault) bool { // a paused process sends what it was about to send
			return strings.HasPrefix(f.what, "SIGSTOP") && f.to <= c.at && c.at < f.to+early
		}
		if ok && at < c.at && !slices.ContainsFunc(s.faults, goesOn) {
			broken = append(broken, fmt.Sprintf("the model was asked of %s at %s, after the first reply at %s", c.key, c.at, at))
		}
		before[c.key] = append(before[c.key], c)
	}
	for k, calls := range before {
		faults := 0
		for _, f := range s.faults {
			if f.overlaps(calls[0].at, calls[len(calls)-1].at) {
				faults++
			}
		}
		if len(calls)-1 > faults {
			broken = append(broken, fmt.Sprintf("the model was asked of %s %d times from %s on, with %d faults in that time", k, len(calls), calls[0].at, faults))
		}
	}
	return broken
}

// kept is how many turns of a conversation the model is told of. A turn may have several messages.
const kept = 5

// forgotten finds prompts that did not tell the model of the turns before: a
// conversation's state that was lost or overwritten.
func forgotten(s story) (broken []string) {
	order := s.turns()
	for _, m := range s.messages {
		if m.kind == help { // no turn for the model
			order[m.talk] = slices.DeleteFunc(order[m.talk], func(k key) bool { return k == m.key })
		}
	}
	for _, c := range s.calls {
		turns := order[c.talk]
		i := slices.Index(turns, c.key)
		if i < 0 {
			continue // it was never answered, which is said elsewhere
		}
		if want := turns[max(0, i-max(kept, len(c.history))):i]; !slices.Equal(c.history, want) {
			broken = append(broken, fmt.Sprintf("asked of %s at %s the model was told of %v, not of %v", c.key, c.at, c.history, want))
		}
	}
	return broken
}

// turns are the messages of each conversation, as they were answered.
func (s story) turns() map[int][]key {
	first := map[key]times{}
	for _, posts := range s.replies() {
		if k, ok := strings.CutPrefix(posts[0].answers(), "activity-"); ok {
			if k, ok := keyIn(k); ok {
				first[k] = posts[0].at
			}
		}
	}
	order := map[int][]key{}
	for _, k := range slices.SortedFunc(maps.Keys(first), func(a, b key) int { return int(first[a] - first[b]) }) {
		order[k.talk] = append(order[k.talk], k)
	}
	return order
}

// miscounted finds lists that, shown at the end, do not hold what each turn put
// there, once and in the order of the turns.
func miscounted(s story) (broken []string) {
	order, shown := s.turns(), s.replies()
	wanted := map[int]map[string][]string{}
	lists := map[key][]string{}
	for _, m := range s.messages {
		lists[m.key] = append(m.kind.lists(), m.added...)
	}
	for talk, turns := range order {
		wanted[talk] = map[string][]string{}
		for _, k := range turns {
			for _, list := range lists[k] {
				wanted[talk][list] = append(wanted[talk][list], k.String())
			}
		}
	}
	for _, m := range s.messages {
		if m.kind != show {
			continue
		}
		got := readLists(joined(shown[m.id()]))
		for _, list := range []string{once, twice} {
			got[list] = slices.DeleteFunc(got[list], func(item string) bool { // of another thread
				k, _ := keyIn(item)
				return isThread(m.talk) && isThread(k.talk) && k.talk != m.talk && channelOf(k.talk) == channelOf(m.talk)
			})
			if want := wanted[m.talk][list]; !slices.Equal(got[list], want) {
				broken = append(broken, fmt.Sprintf("list %s of %s: %s", list, conversation(m.talk), difference(got[list], want)))
			}
		}
	}
	return broken
}

// The lists that turns write to.
const once, twice = "once", "twice"

// lists are those that the plan for such a message adds the key to.
func (k kind) lists() []string {
	switch k {
	case note, long, click:
		return []string{once}
	case both:
		return []string{once, twice}
	default:
		return nil
	}
}

// readLists reads the lists as the bot shows them.
func readLists(text string) map[string][]string {
	found, list := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if item, ok := strings.CutPrefix(line, "- "); ok {
			found[list] = append(found[list], item)
		} else if name := strings.Trim(line, "*"); name != line {
			list = name
		}
	}
	return found
}

func difference(got, want []string) string {
	var missing, extra []string
	for _, item := range want {
		if !slices.Contains(got, item) {
			missing = append(missing, item)
		}
	}
	for i, item := range got {
		if !slices.Contains(want, item) || slices.Contains(got[:i], item) {
			extra = append(extra, item)
		}
	}
	if len(missing)+len(extra) == 0 {
		return fmt.Sprintf("holds %v, in another order than the turns' %v", got, want)
	}
	return fmt.Sprintf("of %d items %v are missing and %v too many", len(want), missing, extra)
}

// sideBySide finds threads that waited for others of their channel.
func sideBySide() check {
	return check{"threads do not wait for each other", func(s story) (broken []string) {
		for _, k := range s.alone {
			broken = append(broken, fmt.Sprintf("while the model thought of %s for %s, no other thread of its channel was answered", k, aloneWithin))
		}
		return broken
	}}
}

// torn finds messages that were asked of together although they do not belong together, or across another one, and what
// was not answered as it was asked of.
func torn(s story) (broken []string) {
	messages, last := map[key]message{}, map[key][]key{}
	for _, m := range s.messages {
		messages[m.key] = m
	}
	for _, c := range s.calls {
		before := last[c.key]
		if len(c.burst) < len(before) || !slices.Equal(c.burst[:len(before)], before) {
			broken = append(broken, fmt.Sprintf("%s was asked of in %v, and then in %v", c.key, before, c.burst))
		}
		last[c.key] = c.burst
	}
	for k, burst := range last {
		if first := burst[0]; first != k {
			if !slices.Equal(last[first], burst) {
				broken = append(broken, fmt.Sprintf("%s was asked of in %v, and %s in %v", first, last[first], k, burst))
			}
			continue
		}
		end := messages[burst[len(burst)-1]]
		for i, one := range burst {
			if one.speaker() != k.speaker() {
				broken = append(broken, fmt.Sprintf("%v were asked of together, and %s is of somebody else", burst, one))
			}
			if len(burst) > 1 && messages[one].kind == click {
				broken = append(broken, fmt.Sprintf("%v were asked of together, and %s is a click", burst, one))
			}
			for _, later := range burst[i+1:] {
				if follows(messages[one], messages[later]) {
					broken = append(broken, fmt.Sprintf("%v were asked of together, and %s came before %s", burst, later, one))
				}
			}
		}
		for _, m := range s.messages {
			if !slices.Contains(burst, m.key) && follows(m, messages[k]) && follows(end, m) {
				broken = append(broken, fmt.Sprintf("%v were asked of together, across %s", burst, m.key))
			}
		}
	}
	for _, p := range s.posts {
		k, _ := keyIn(p.answers())
		if burst := last[k]; p.shown() && len(burst) > 0 && p.replyTo != "" && p.replyTo != burst[len(burst)-1].id() {
			broken = append(broken, fmt.Sprintf("%s was answered in reply to %s, and not to the last of %v", k, p.replyTo, burst))
		}
	}
	return broken
}

// answers allows deliveries to fail with these statuses only; 0 is no answer.
func answers(statuses ...int) check {
	return check{"the channel sees no other errors", func(s story) (broken []string) {
		for _, m := range s.messages {
			for _, f := range m.failures {
				if !slices.Contains(statuses, f.status) {
					broken = append(broken, fmt.Sprintf("%s: status %d %s", m.key, f.status, f.why))
				}
			}
		}
		return broken
	}}
}

// oneRetry finds messages that two deliveries did not bring in.
func oneRetry() check { return check{"one retry cures every error", twiceFailed} }

func twiceFailed(s story) (broken []string) {
	for _, m := range s.messages {
		if len(m.failures) > 1 {
			broken = append(broken, fmt.Sprintf("%s: %v", m.key, m.failures))
		}
	}
	return broken
}

// within finds messages that were acknowledged so late that somebody may have
// waited for the model.
func within(limit time.Duration) check {
	return check{"acknowledgements do not wait for the model", func(s story) (broken []string) {
		for _, m := range s.messages {
			if took := m.acked - m.sent; took >= limit {
				broken = append(broken, fmt.Sprintf("%s was acknowledged after %s", m.key, took))
			}
		}
		return broken
	}}
}

// interrupted reports whether something was broken while a message had some of
// its replies, and not all.
func (s story) interrupted() bool {
	for _, posts := range s.replies() {
		for _, f := range s.faults {
			if len(posts) > 1 && f.overlaps(posts[0].at, posts[len(posts)-1].at) {
				return true
			}
		}
	}
	return false
}

// summary says how much was seen.
func (s story) summary() string {
	var failures, again int
	var slowest times
	shown, all := s.replies(), 0
	for _, m := range s.messages {
		failures += len(m.failures)
		for _, p := range shown[m.id()] {
			all++
			slowest = max(slowest, p.at-m.acked)
		}
	}
	for _, p := range s.posts {
		if p.shown() {
			again++
		}
	}
	return fmt.Sprintf("%d messages, %d failed deliveries, %d calls of the model, %d replies of which %d twice, the slowest %s after its message, %d faults",
		len(s.messages), failures, len(s.calls), all, again-all, slowest.Round(time.Millisecond), len(s.faults))
}
