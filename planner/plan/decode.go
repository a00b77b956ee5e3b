package plan

import "strings"

// maxBytes is the longest output that is decoded.
const maxBytes = 1 << 20

// Decode reads the plan that a model wrote. It takes strict JSON as it is, and
// repairs what can be repaired without guessing; only in a plan that does nothing
// but SAY does it guess where a string ends. Text that holds no plan is one SAY.
// The error is a [*Fault] of the kinds truncated, no_plan or invalid_plan.
//
// The package says where a plan with a DO may stand. Besides, a plan counts only
// where it stands on its own, never in a comment, a block quote or another, broken
// plan, nor where the prose beside it plainly says that it is not meant to run, in
// English; several plans count only when they are equal. Decode takes linear time. It does not know the actions: the
// plan has to pass [Validate] before it may run.
func Decode(text string) (Plan, error) {
	plan, err := decode(text, 0)
	if err != nil {
		return Plan{}, err
	}
	return plan, nil
}

// decode reads a text that was unwrapped from a JSON string the given number of
// times.
func decode(text string, unwrapped int) (Plan, *Fault) {
	if len(text) > maxBytes {
		return Plan{}, Faultf(InvalidPlan, "the answer is longer than %d bytes", maxBytes)
	}
	text, done := clean(text)
	if inner, ok := wholeString(text); ok {
		return unwrapString(inner, isJSON(text), unwrapped)
	}
	if isCutString(text) {
		return Plan{}, Faultf(Truncated, "the text ends within a string of JSON")
	}
	text, more, err := finalChannel(text)
	if err != nil {
		return Plan{}, err
	}
	done |= more
	s, more := surveyOf(text)
	s.done |= done | more
	return s.resolve()
}

// surveyOf surveys an answer. Where all before a tag turns out to be reasoning,
// it begins anew behind the tag.
func surveyOf(text string) (*survey, repairs) {
	text, done := openFence(text)
	s := newSurvey(text)
	s.look(text)
	for s.restart >= 0 {
		var stripped, fenced repairs
		text, stripped = stripPrefix(s.text[s.restart:])
		text, fenced = openFence(text)
		done = done&^strippedFence | stripped | fenced | strippedReasoning | s.done
		s.look(text)
	}
	return s, done
}

// clean makes the text valid UTF-8 and drops what stands around an answer.
func clean(text string) (string, repairs) {
	valid := strings.ToValidUTF8(text, "\ufffd")
	stripped, done := stripPrefix(valid)
	if valid != text {
		done |= repairedUTF8
	}
	stripped, more := stripSuffix(stripped)
	return stripped, done | more
}

// openFence returns the contents of a text that is one code fence, closed or not,
// with JSON in it.
func openFence(text string) (string, repairs) {
	inner := strings.TrimLeft(text, "`")
	if len(text)-len(inner) < 3 {
		if inner = strings.TrimLeft(text, "~"); len(text)-len(inner) < 3 {
			return text, 0
		}
	}
	mark := text[:3]
	for _, language := range [...]string{"json5", "jsonc", "json", "plan", "text"} {
		if hasPrefixFold(inner, language) {
			inner = inner[len(language):]
			break
		}
	}
	inner = strings.TrimFunc(inner, isBlank)
	inner = strings.TrimFunc(strings.TrimRight(inner, mark[:1]), isBlank)
	if strings.Contains(inner, mark) || inner != "null" && !looksJSON(inner) {
		return text, 0
	}
	return inner, strippedFence
}

// wholeString returns the contents of a text that is one JSON string.
func wholeString(text string) (string, bool) {
	if !strings.HasPrefix(text, `"`) {
		return "", false
	}
	r := reader{text: text}
	if !r.read(0) || r.pos != len(text) || r.tape[0].kind != stringNode || r.done&^repairedControls != 0 {
		return "", false
	}
	return r.tape[0].text, true
}

// isCutString reports whether text is the beginning of a JSON string of a plan.
func isCutString(text string) bool {
	if !hasAnyPrefix(text, `"{`, `"[`) {
		return false
	}
	r := reader{text: text}
	return !r.read(0) && r.fault == cut
}

// unwrapString reads an output that is a JSON string of a plan or of prose. One
// level is all: deeper, something went wrong.
func unwrapString(inner string, strict bool, unwrapped int) (Plan, *Fault) {
	if unwrapped > 0 {
		return Plan{}, Faultf(InvalidPlan, "the answer is a JSON string of a JSON string")
	}
	p, err := decode(inner, unwrapped+1)
	switch {
	case err != nil:
		return Plan{}, err
	case p.Salvaged, !strict && p.LastDo() >= 0:
		return Plan{}, Faultf(InvalidPlan, "the plan stands within a string of prose, or in one that is no JSON")
	}
	p.Repairs = (unwrappedString | codesOf(p.Repairs)).list()
	return p, nil
}
