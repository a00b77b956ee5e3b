package planner

import (
	"strings"

	"github.com/planbot-go/planbot/actions"
)

// DecodeXML reads the plan that a model wrote in the format of Semantic Kernel's
// sequential planner, validated: a <plan> whose children <function.Name …/> or
// <function.Plugin.Name …/> become DOs, with their attributes as entities.
//
//   - setContextVariable="NAME" keeps the output for later attributes, as $NAME.
//     The last write of a name wins, $$ is a dollar sign, and a name that is not
//     set stays as it is.
//   - $INPUT is the output of the function before, at first the goal. An entity
//     called input takes it when it is left out or empty, and has no default.
//     Another entity that is left out takes the variable of its name.
//   - appendToResult="NAME" keeps the output too. The plan ends in a SAY of all
//     such outputs, a line each; without any, of the last function's output.
//   - <say>text</say> is a SAY where it stands. Behind the last function it takes
//     the place of the last output. Semantic Kernel has no such element.
//
// Names match without regard to case. Of several plans the last one that may run
// counts. Text that holds no plan is read by [Decode]: it is a JSON plan or prose.
// The error is a [*DecodeError]; nothing of a text that was cut off is a plan.
func DecodeXML(text, goal string, reg *actions.Registry) (Plan, error) {
	if len(text) > maxBytes {
		return Plan{}, fail(InvalidPlan, "the answer is longer than %d bytes", maxBytes)
	}
	cleaned, done := clean(text)
	if opened, _ := openFence(cleaned); looksJSON(opened) {
		return readOther(text, reg)
	}
	cleaned, more, err := finalChannel(cleaned)
	if err != nil {
		return Plan{}, err
	}
	s := &xmlScan{tagReader: tagReader{text: cleaned, done: done | more}}
	if err := s.scan(); err != nil {
		return Plan{}, err
	}
	switch {
	case s.stray:
		return Plan{}, fail(InvalidPlan, "a function stands outside of a <plan>")
	case len(s.plans) > 0:
		return s.choose(goal, reg)
	case s.concealed:
		return Plan{}, fail(InvalidPlan, "the plan stands in a comment or in character data")
	case containsFold(cleaned, "&lt;plan"), containsFold(cleaned, "&lt;"+functionTag):
		return Plan{}, fail(InvalidPlan, "the plan is written with &lt; for <")
	}
	return readOther(text, reg)
}

// readOther reads an answer in the format of the sequence planner, if that is all
// there is.
func readOther(text string, reg *actions.Registry) (Plan, error) {
	plan, err := readJSON(text, reg)
	if err == nil && plan.Salvaged && containsFold(text, "<"+functionTag) {
		return Plan{}, fail(InvalidPlan, "there is an XML plan beside the JSON plan")
	}
	return plan, err
}

// choose takes the last plan that may run. An empty one behind it takes it back,
// and when none may run, the fault is that of the last.
func (s *xmlScan) choose(goal string, reg *actions.Registry) (Plan, error) {
	if s.hasJSON() {
		return Plan{}, fail(InvalidPlan, "there is JSON of a plan beside the XML plan")
	}
	var fault error
	for i := len(s.plans) - 1; i >= 0; i-- {
		plan, err := s.weave(s.plans[i], goal, reg)
		if err == nil {
			return s.finish(plan), nil
		}
		if fault == nil {
			fault = err
		}
		if s.plans[i].isEmpty() {
			break
		}
	}
	return Plan{}, fault
}

// weave makes the commands of a plan, and validates them.
func (s *xmlScan) weave(p xmlPlan, goal string, reg *actions.Registry) (Plan, error) {
	switch {
	case p.fault != nil:
		return Plan{}, p.fault
	case !s.stands(p):
		return Plan{}, fail(InvalidPlan, "the plan stands in the middle of a sentence or a quotation")
	case p.isEmpty():
		return Plan{}, fail(NoPlan, "the plan is empty; if it cannot be done, say so in plain text")
	}
	commands, err := weave(p.steps, goal, reg)
	if err != nil {
		return Plan{}, err
	}
	return Validate(Plan{Commands: commands}, reg)
}

// hasJSON reports whether JSON of a plan stands outside of the XML plans: one may
// be within a string of it.
func (s *xmlScan) hasJSON() bool {
	for _, part := range s.around {
		text := s.text[part.start:part.end]
		for _, key := range [...]string{"commands", "action", "response"} {
			for _, quote := range [...]string{`"`, `'`} {
				if indexFold(text, quote+key+quote) >= 0 {
					return true
				}
			}
		}
	}
	return false
}

// finish notes what was repaired, and what stood around the plan.
func (s *xmlScan) finish(p Plan) Plan {
	p.Salvaged = s.prose()
	if p.Salvaged {
		s.done |= strippedProse
	}
	for _, part := range s.around {
		if strings.Contains(s.text[part.start:part.end], "```") {
			s.done |= strippedFence
		}
	}
	p.Repairs = s.done.list()
	return p
}
