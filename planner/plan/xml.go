package plan

import (
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
)

// XMLDecoder reads plans in the XML of Semantic Kernel's sequential planner.
// Actions is required. It is safe for concurrent use.
type XMLDecoder struct {
	Actions *actions.Registry
	// AllowMissing leaves out the functions that are no actions, where their plan
	// would be refused else: the output of such a step is its input. What it would
	// have set as a variable is not set, and a plan that uses it is refused, as is
	// one with nothing else to run. The plan's repairs say "missing_function".
	AllowMissing bool
	// KeepInput leaves the first $INPUT in the plan as a variable that is set when
	// it is run, see [NewProgress]; the goal is not looked at.
	KeepInput bool
}

// DecodeXML is [XMLDecoder.Decode] for plans of whose functions none may be missing.
func DecodeXML(text, goal string, reg *actions.Registry) (Plan, error) {
	return (&XMLDecoder{Actions: reg}).Decode(text, goal)
}

// Decode reads the plan that a model wrote in the format of Semantic Kernel's
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
//     such outputs, a line each, those that are only set as the same NAME among
//     them; without any, of the last function's output.
//   - <say>text</say> is a SAY where it stands. Behind the last function it takes
//     the place of the last output. Semantic Kernel has no such element.
//
// Names match without regard to case, and a plugin is never dropped: the action
// of function.A.b is A-b or A_b. Of several plans the last one that may run
// counts, and none behind a broken one. Where a plan may stand is as for [Decode]; that it is in an element
// which is not of the format counts as prose. Text that holds no plan is read by [Decode]: it is a JSON plan or prose.
// The error is a [*Fault]; nothing of a text that was cut off is a plan.
func (d *XMLDecoder) Decode(text, goal string) (Plan, error) {
	if len(text) > maxBytes {
		return Plan{}, Faultf(InvalidPlan, "the answer is longer than %d bytes", maxBytes)
	}
	cleaned, done := clean(text)
	if opened, _ := openFence(cleaned); looksJSON(opened) {
		return d.readOther(text)
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
		return Plan{}, Faultf(InvalidPlan, "a function stands outside of a <plan>")
	case len(s.plans) > 0:
		return d.choose(s, goal)
	case s.concealed:
		return Plan{}, Faultf(InvalidPlan, "the plan stands in a comment or in character data")
	case containsFold(cleaned, "&lt;plan"), containsFold(cleaned, "&lt;"+functionTag):
		return Plan{}, Faultf(InvalidPlan, "the plan is written with &lt; for <")
	case cleaned != "" && onlyTags(cleaned):
		return Plan{}, Faultf(InvalidPlan, "the answer is XML, but no plan")
	}
	return d.readOther(text)
}

// readOther reads an answer in the format of the sequence planner, if that is all
// there is.
func (d *XMLDecoder) readOther(text string) (Plan, error) {
	plan, err := Decode(text)
	if err == nil {
		plan, err = Validate(plan, d.Actions)
	}
	if err == nil && plan.Salvaged && (containsFold(text, "<"+functionTag) || containsFold(text, "<say")) {
		return Plan{}, Faultf(InvalidPlan, "there is an XML plan beside the JSON plan")
	}
	return plan, err
}

// choose takes the last plan that may run. An empty one behind it takes it back,
// and when none may run, the fault is that of the last.
func (d *XMLDecoder) choose(s *xmlScan, goal string) (Plan, error) {
	if s.hasJSON() {
		return Plan{}, Faultf(InvalidPlan, "there is JSON of a plan beside the XML plan")
	}
	var fault error
	for i := len(s.plans) - 1; i >= 0; i-- {
		if p := &s.plans[i]; p.fault == nil && !p.isEmpty() {
			if err := s.apart(i); err != nil {
				return Plan{}, err // one before it may be what it takes back
			}
		}
		plan, err := d.read(s, s.plans[i], goal)
		if err == nil {
			return plan, nil
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

// read makes the commands of a plan, and validates them.
func (d *XMLDecoder) read(s *xmlScan, p xmlPlan, goal string) (Plan, error) {
	switch {
	case p.fault != nil:
		return Plan{}, p.fault
	case p.isEmpty():
		return Plan{}, Faultf(NoPlan, "the plan is empty; if it cannot be done, say so in plain text")
	}
	w, err := d.weave(p.steps, goal)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{Commands: w.commands, TrimResults: true}
	if err := validate(&plan, d.Actions, w.inputs()); err != nil {
		return Plan{}, err
	}
	if w.missing != "" {
		s.done |= leftOutStep
	}
	return s.finish(plan), nil
}

// hasJSON reports whether JSON of a plan stands outside of the XML plans: one may
// be within a string of it.
func (s *xmlScan) hasJSON() bool {
	return slices.ContainsFunc(s.around, func(part span) bool { return hasKey(s.text[part.start:part.end]) })
}

// hasKey reports whether a key of a JSON plan stands in text.
func hasKey(text string) bool {
	for i := range len(text) {
		if quote := text[i]; quote != '"' && quote != '\'' {
			continue
		}
		for _, key := range [...]string{"commands", "action", "response"} {
			if rest := text[i+1:]; len(rest) > len(key) && rest[len(key)] == text[i] && strings.EqualFold(rest[:len(key)], key) {
				return true
			}
		}
	}
	return false
}

// onlyTags reports whether text is tags and nothing else.
func onlyTags(text string) bool {
	for text != "" {
		size := 0
		if text[0] == '<' {
			size = tagSize(text)
		}
		if size == 0 {
			return false
		}
		text = strings.TrimLeft(text[size:], " \t\r\n")
	}
	return true
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
