package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// groups are the events of a step, those together that deliver one activity.
func (s *stage) groups() (all [][]*scene) {
	for _, e := range s.events {
		i := slices.IndexFunc(all, func(group []*scene) bool { return group[0].same(e) })
		if i < 0 {
			all = append(all, []*scene{e})
			continue
		}
		all[i] = append(all[i], e)
	}
	return all
}

// same reports whether both deliver one activity.
func (e *scene) same(other *scene) bool {
	return e.id == other.id && e.Event.Conversation == other.Event.Conversation
}

// judgeGroup judges the deliveries of one activity. Which of them the bot did its work for,
// nobody can tell: it is compared with what all of them expect together. One of them is to
// have the rest: if that does not say what it expects, there may be more.
func (r *run) judgeGroup(s *stage, group []*scene, each map[*scene]*seen) {
	work := &verdict{run: r, stage: s, place: placesOf(group), expect: &group[0].Expect, seen: each[group[0]], events: group}
	if len(group) > 1 {
		work.expect, work.rest, work.seen = together(group), &taker(group).Expect, &seen{}
		for _, e := range group {
			work.seen.add(each[e])
		}
	}
	work.compareWork()
	for _, e := range group {
		rest := *work
		rest.place, rest.expect, rest.seen, rest.conversation, rest.events = e.place, &e.Expect, each[e], e.Event.Conversation, []*scene{e}
		rest.compareRest()
		rest.sendings(e)
	}
	work.unasked(group)
}

// sendings looks whether the connector was asked for all that it was to answer.
func (v *verdict) sendings(e *scene) {
	if unused := len(e.Expect.Connector) - e.sendings; unused > 0 {
		v.fault("connector", "%d of the answers were not asked for", unused)
	}
}

// unasked notes the answers that the model was not asked for. They are no failure: there may
// be more of them than a bot has to need. But of one that is for a certain model
// it is expected that this is asked.
func (v *verdict) unasked(group []*scene) {
	for _, e := range group {
		for i, a := range e.Model[e.answers:] {
			i += e.answers
			if a.Deployment != "" && len(group) == 1 && e.Expect.ModelCalls == nil && v.stage.crash == 0 {
				v.Errorf("%smodel[%d].deployment: %s was not asked", e.place, i, a.Deployment)
			}
			v.unused = append(v.unused, fmt.Sprintf("%s, %smodel[%d]: %s", v.step, e.place, i, a.asked(0, false)))
		}
	}
}

// taker is the delivery that is expected to have the work done: the first that was taken by
// a process that does not die.
func taker(group []*scene) *scene {
	ordered := inTime(group)
	for _, e := range ordered {
		if e.delivered != nil && taken(e.delivered) && e.Expect.CrashAfterAction == nil {
			return e
		}
	}
	return ordered[0]
}

func inTime(events []*scene) []*scene {
	return slices.SortedStableFunc(slices.Values(events), func(a, b *scene) int { return cmp.Compare(a.Event.AtMS, b.Event.AtMS) })
}

func placesOf(group []*scene) string {
	if len(group) == 1 {
		return group[0].place
	}
	var places []string
	for _, e := range group {
		places = append(places, strings.TrimSuffix(e.place, ": "))
	}
	return strings.Join(places, " with ") + ": "
}

// together is what the deliveries of one activity expect of the work for it: lists one
// after another in the order of the deliveries, numbers as their sums.
func together(group []*scene) *Expect {
	all := &Expect{}
	for _, one := range inTime(group) {
		e := &one.Expect
		join(&all.Actions, e.Actions)
		join(&all.Replies, e.Replies)
		join(&all.ReplyMustNotContain, e.ReplyMustNotContain)
		join(&all.PromptContains, e.PromptContains)
		join(&all.PromptContainsCall2, e.PromptContainsCall2)
		join(&all.PromptMustNot, e.PromptMustNot)
		merge(&all.ModelCalls, e.ModelCalls, plus)
		merge(&all.Sends, e.Sends, plus)
		merge(&all.MaxPartUTF16Bytes, e.MaxPartUTF16Bytes, func(a, b int) int { return min(a, b) })
		merge(&all.JoinedReplyEquals, e.JoinedReplyEquals, plus)
		merge(&all.Typing, e.Typing, func(a, b bool) bool { return a || b })
		merge(&all.ModelInput, e.ModelInput, func(first, _ string) string { return first })
		merge(&all.ServedBy, e.ServedBy, func(_, last string) string { return last })
		all.Order.Either = all.Order.Either || e.Order.Either
	}
	return all
}

func join[T any](all *[]T, more []T) {
	if more != nil {
		*all = append(append([]T{}, *all...), more...) // empty is not nil
	}
}

func merge[T any](all **T, more *T, how func(a, b T) T) {
	switch {
	case more == nil:
	case *all == nil:
		*all = more
	default:
		sum := how(**all, *more)
		*all = &sum
	}
}

func plus[T int | string](a, b T) T { return a + b }

func (o *seen) add(more *seen) {
	o.calls = append(o.calls, more.calls...)
	o.replies = append(o.replies, more.replies...)
	o.asked = append(o.asked, more.asked...)
	o.sends += more.sends
	o.typing = o.typing || more.typing
}

// among reports whether the wanted ones are among those there are, in that order.
func among[W, G any](want []W, got []G, same func(W, G) bool) bool {
	for _, g := range got {
		if len(want) > 0 && same(want[0], g) {
			want = want[1:]
		}
	}
	return len(want) == 0
}
