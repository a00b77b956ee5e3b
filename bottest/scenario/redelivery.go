package scenario

import (
	"cmp"
	"fmt"
)

// checkRedeliveries finds those of activities that were never delivered, and says of the
// others what the file leaves out: the channel sends the same again.
func (r *reader) checkRedeliveries(s *Scenario, p place) {
	for i := range s.Steps {
		step := &s.Steps[i]
		for n, d := range step.deliveries() {
			if d.Event == nil || !d.Event.Redelivery {
				continue
			}
			if first := s.original(d.Event); first != nil {
				d.Event.complete(first)
				continue
			}
			at := p
			at.step = fmt.Sprintf("step %d", i+1)
			if step.Parallel != nil {
				at.step = fmt.Sprintf("%s, parallel %d", at.step, n+1)
			}
			r.fault(at.in("event.redelivery"), "no event before it, or beside it, is of this activity")
		}
	}
}

// original is the last event before this one, or one beside it, that delivers the same
// activity; nil: there is none. An event without an id is of the activity before it.
func (s *Scenario) original(again *Event) (found *Event) {
	for i := range s.Steps {
		last := false
		for _, d := range s.Steps[i].deliveries() {
			switch {
			case d.Event == nil:
			case d.Event == again && again.ID == "":
				return found
			case d.Event == again:
				last = true
			case again.repeats(d.Event) && (!last || found == nil):
				found = d.Event
			}
		}
		if last {
			return found
		}
	}
	return found
}

// repeats reports whether the event can be the other one, delivered again.
func (e *Event) repeats(other *Event) bool {
	return !other.Redelivery && other.Conversation == e.Conversation && (e.ID == "" && other.Type == e.Type || e.ID != "" && other.ID == e.ID)
}

// complete takes over what the event does not say of its activity.
func (e *Event) complete(first *Event) {
	e.From, e.Kind, e.Name = cmp.Or(e.From, first.From), cmp.Or(e.Kind, first.Kind), cmp.Or(e.Name, first.Name)
	e.Text = cmp.Or(e.Text, first.Text)
	if e.Value == nil {
		e.Value = first.Value
	}
	if e.Entities == nil {
		e.Entities = first.Entities
	}
	if e.ChannelData == nil {
		e.ChannelData = first.ChannelData
	}
	if e.MembersAdded == nil {
		e.MembersAdded = first.MembersAdded
	}
	if e.Attachments == nil {
		e.Attachments = first.Attachments
	}
}
