package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// check finds what cannot be in a scenario whose fields are all right by themselves.
func (r *reader) check(s *Scenario, p place) {
	if strings.TrimSpace(s.Name) == "" {
		r.fault(p.in("name"), "is empty")
	}
	if len(s.Steps) == 0 {
		r.fault(p.in("steps"), "there are none")
	}
	if s.Options.Models != nil && len(s.Options.Models) == 0 {
		r.fault(p.in("options.models"), "is an empty list: leave it out for a single model")
	}
	for i := range s.Steps {
		at := p
		at.step = fmt.Sprintf("step %d", i+1)
		r.checkStep(s, &s.Steps[i], at)
	}
	r.checkRedeliveries(s, p)
}

func (r *reader) checkStep(s *Scenario, step *Step, p place) {
	kinds := 0
	for _, there := range []bool{step.Event != nil, step.Parallel != nil, step.Control != ""} {
		if there {
			kinds++
		}
	}
	if kinds != 1 {
		r.fault(p, "want one of event, parallel and control")
		return
	}
	if step.Parallel != nil && len(step.Parallel) == 0 {
		r.fault(p.in("parallel"), "is an empty list")
	}
	if step.Event == nil && step.Model != nil {
		r.fault(p.in("model"), "is of an event, and here is none")
	}
	if step.Control != "" && step.Expect.any() {
		r.fault(p.in("expect"), "nothing can be expected of a %s", step.Control)
	}
	if step.Event != nil {
		r.checkDelivery(s, &step.Delivery, p)
	} else {
		r.checkExpect(s, &step.Expect, nil, p)
	}
	for i := range step.Parallel {
		at := p
		at.step = fmt.Sprintf("%s, parallel %d", p.step, i+1)
		if step.Parallel[i].Event == nil {
			r.fault(at.in("event"), "is missing")
			continue
		}
		r.checkDelivery(s, &step.Parallel[i], at)
	}
	r.checkWhole(s, step, p)
}

// deliveries are those of the step: one, several or none.
func (s *Step) deliveries() []*Delivery {
	if s.Event != nil {
		return []*Delivery{&s.Delivery}
	}
	var all []*Delivery
	for i := range s.Parallel {
		all = append(all, &s.Parallel[i])
	}
	return all
}

// has reports whether there is such an event in any step.
func (s *Scenario) has(such func(*Event) bool) bool {
	for i := range s.Steps {
		for _, d := range s.Steps[i].deliveries() {
			if d.Event != nil && such(d.Event) {
				return true
			}
		}
	}
	return false
}

// any reports whether anything is expected.
func (e *Expect) any() bool {
	without := *e
	without.Note = ""
	return !reflect.ValueOf(without).IsZero()
}

func (r *reader) checkDelivery(s *Scenario, d *Delivery, p place) {
	for i, a := range d.Model {
		if a.Deployment != "" && !slices.Contains(s.Options.Models, a.Deployment) {
			r.fault(p.in("model").at(i).in("deployment"), "%q is none of options.models", a.Deployment)
		}
	}
	if d.Event.Conversation == "" {
		r.fault(p.in("event.conversation"), "is empty")
	}
	r.checkExpect(s, &d.Expect, d.Model, p)
}

// checkExpect finds what no bot can do.
func (r *reader) checkExpect(s *Scenario, e *Expect, script []Answer, p place) {
	at := func(field string) place { return p.in("expect." + field) }
	r.checkReplies(s, e, p)
	if e.ServedBy != nil && !slices.Contains(s.Options.Models, *e.ServedBy) {
		r.fault(at("served_by"), "%q is none of options.models", *e.ServedBy)
	}
	if e.CrashAfterAction != nil && e.Actions != nil && *e.CrashAfterAction > len(e.Actions) {
		r.fault(at("crash_after_action"), "is after action %d of %d", *e.CrashAfterAction, len(e.Actions))
	}
	if e.Sends != nil && *e.Sends < len(e.Connector) {
		r.fault(at("sends"), "are %d, and the connector answers %d", *e.Sends, len(e.Connector))
	}
	if script != nil && e.ModelCalls != nil && *e.ModelCalls > len(script) {
		r.fault(at("model_calls"), "are %d, and model has %d answers", *e.ModelCalls, len(script))
	}
	if e.PromptContainsCall2 != nil && (e.ModelCalls != nil && *e.ModelCalls < 2 || script != nil && len(script) < 2) {
		r.fault(at("prompt_contains_call2"), "there is no second call of the model")
	}
	if (e.ModelInput != nil || e.ServedBy != nil || len(e.PromptContains) > 0) && e.ModelCalls != nil && *e.ModelCalls == 0 {
		r.fault(at("model_calls"), "are 0, and something is expected of a call")
	}
	for _, text := range e.PromptMustNot {
		if slices.Contains(e.PromptContains, text) || slices.Contains(e.PromptContainsCall2, text) {
			r.fault(at("prompt_must_not_contain"), "%q is also what a prompt has to contain", text)
		}
	}
}

// checkWhole finds what cannot be of the deliveries of a step together.
func (r *reader) checkWhole(s *Scenario, step *Step, p place) {
	all := step.deliveries()
	ids := map[string]bool{}
	for _, d := range all {
		if d.Event != nil && d.Event.ID != "" {
			ids[d.Event.ID] = true
		}
	}
	places := map[*Expect]place{&step.Expect: p}
	for i := range step.Parallel {
		at := p
		at.step = fmt.Sprintf("%s, parallel %d", p.step, i+1)
		places[&step.Parallel[i].Expect] = at
	}
	for e, at := range places {
		for id := range e.StatusWithinMS.ByID {
			if !ids[id] {
				r.fault(at.in("expect.http_status_within_ms").in(id), "no event of this step has this id")
			}
		}
		for i, id := range e.Order.IDs {
			if !ids[id] {
				r.fault(at.in("expect.order").at(i), "no event of this step has the id %q", id)
			}
		}
		for id := range e.StateByConversation {
			if !s.has(func(e *Event) bool { return e.Conversation == id }) {
				r.fault(at.in("expect.state_by_conversation").in(id), "no event of the scenario is in such a conversation")
			}
		}
	}
}

// Check finds actions that there are not, of those that the bot is to have.
func Check(all []Scenario, known func(name string) bool) Faults {
	r := &reader{}
	for i := range all {
		s := &all[i]
		p := place{file: s.File, scenario: s.Name}
		for n, name := range s.Options.Approval {
			if !known(name) {
				r.fault(p.in("options.approval").at(n), "there is no action %q", name)
			}
		}
		for n := range s.Steps {
			at := p
			at.step = fmt.Sprintf("step %d", n+1)
			r.checkActions(&s.Steps[n].Expect, known, at)
			for m := range s.Steps[n].Parallel {
				in := at
				in.step = fmt.Sprintf("%s, parallel %d", at.step, m+1)
				r.checkActions(&s.Steps[n].Parallel[m].Expect, known, in)
			}
		}
	}
	return r.faults
}

func (r *reader) checkActions(e *Expect, known func(name string) bool, p place) {
	for i, a := range e.Actions {
		if !known(a.Action) {
			r.fault(p.in("expect.actions").at(i).in("action"), "there is no action %q", a.Action)
		}
	}
	for i, reply := range e.Replies {
		if w := wantedOf(reply); placeholderOf(reply) == "approval_card" && w.action != "" && !known(w.action) {
			r.fault(p.in("expect.replies").at(i), "there is no action %q", w.action)
		}
	}
}
