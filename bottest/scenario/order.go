package scenario

import (
	"cmp"
	"slices"

	"github.com/planbot-go/planbot/bottest"
)

// span is when the bot was at work for an event, by the places of what it did in all that
// happened.
type span struct {
	id                   string
	first, last, replied int
}

// spans are those of the events of a step for which anything was done.
func (v *verdict) spans() []span {
	byOwner := map[*scene]*span{}
	note := func(of bottest.Of, seq int, replies bool) {
		owner := v.stage.owner(of)
		if owner == nil || !slices.Contains(v.stage.events, owner) {
			return
		}
		s := byOwner[owner]
		if s == nil {
			s = &span{id: owner.id, first: seq}
			byOwner[owner] = s
		}
		s.last = seq
		if replies && s.replied == 0 {
			s.replied = seq
		}
	}
	var all []func()
	var places []int
	add := func(of bottest.Of, seq int, replies bool) {
		all, places = append(all, func() { note(of, seq, replies) }), append(places, seq)
	}
	for _, c := range v.kit.Model.Calls()[v.stage.asked:] {
		add(c.Of, c.Seq, false)
	}
	for _, sent := range v.kit.Connector.Sent()[v.stage.sent:] {
		if sent.Message() {
			add(ofSent(sent), sent.Seq, true)
		}
	}
	for _, i := range sortedBy(places) {
		all[i]()
	}
	var list []span
	for _, s := range byOwner {
		list = append(list, *s)
	}
	return list
}

// sortedBy are the indexes of the places in their order.
func sortedBy(places []int) []int {
	indexes := make([]int, len(places))
	for i := range indexes {
		indexes[i] = i
	}
	slices.SortFunc(indexes, func(a, b int) int { return cmp.Compare(places[a], places[b]) })
	return indexes
}

// order compares in which order the events were answered.
func (v *verdict) order() {
	want := v.expect.Order.IDs
	if want == nil {
		return
	}
	spans := v.spans()
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(cmp.Or(a.replied, a.last), cmp.Or(b.replied, b.last)) })
	var got []string
	for _, s := range spans {
		if slices.Contains(want, s.id) {
			got = append(got, s.id)
		}
	}
	if !slices.Equal(got, want) {
		v.fault("order", "got %v, want %v", got, want)
	}
}

// together compares how many turns were at work at the same time.
func (v *verdict) together() {
	spans := v.spans()
	most := 0
	for _, a := range spans {
		n := 0
		for _, b := range spans {
			if b.first <= a.first && a.first <= b.last {
				n++
			}
		}
		most = max(most, n)
	}
	if want := v.expect.MaxConcurrentTurns; want != nil && most > *want {
		v.fault("max_concurrent_turns", "got %d, want at most %d", most, *want)
	}
}
