package plan

import "strings"

// prose makes the one SAY of a text that holds no plan, unless the text is empty,
// or is a plan of another kind, which must be neither run nor shown.
func (s *survey) prose() (Plan, *Fault) {
	text := strings.TrimSpace(s.withoutReasoning())
	switch {
	case text == "", text == "null", isEmptyFence(text):
		return Plan{}, Faultf(NoPlan, "the answer is empty")
	case strings.IndexByte("{[", text[0]) < 0:
	case isJSON(text), endsWithBracket(text) && (leftOpen(text) || containsFold(text, commandKeys[0])):
		return Plan{}, Faultf(InvalidPlan, "the answer is JSON, but no plan")
	case leftOpen(text):
		return Plan{}, Faultf(Truncated, "the text ends before the JSON does")
	}
	if name := dialect(text); name != "" {
		return Plan{}, Faultf(InvalidPlan, "the answer is %s, not a JSON plan", name)
	}
	said := strings.TrimSpace(withoutSay(text))
	if said == "" {
		return Plan{}, Faultf(NoPlan, "the answer says nothing")
	}
	return Plan{Commands: []Command{{Kind: Say, Response: said}}, Repairs: s.done.list(), Prose: true}, nil
}

// withoutReasoning returns the text without the blocks of reasoning in it.
func (s *survey) withoutReasoning() string {
	if len(s.reasoning) == 0 {
		return s.text
	}
	s.done |= strippedReasoning
	var rest strings.Builder
	start := 0
	for _, block := range s.reasoning {
		rest.WriteString(s.text[start:block.start])
		start = block.end
	}
	rest.WriteString(s.text[start:])
	return rest.String()
}

func leftOpen(text string) bool {
	end, _ := extent(text, 0)
	return end < 0
}

// isEmptyFence reports whether text is a code fence with nothing in it.
func isEmptyFence(text string) bool {
	if _, ok := fence(text[:min(3, len(text))]); !ok {
		return false
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if _, ok := fence(line); !ok && line != "" {
			return false
		}
	}
	return true
}

// withoutSay drops the word SAY from prose that begins with it.
func withoutSay(text string) string {
	if rest, ok := strings.CutPrefix(text, "SAY"); ok {
		rest = strings.TrimLeft(rest, " ")
		if said, ok := strings.CutPrefix(rest, ":"); ok {
			return unquote(strings.TrimSpace(said))
		}
		if said := unquote(rest); said != rest {
			return said
		}
	}
	if len(text) > 4 && strings.EqualFold(text[:4], "say:") {
		return unquote(strings.TrimSpace(text[4:]))
	}
	return text
}

// unquote drops the quotes around the whole of a text.
func unquote(text string) string {
	if len(text) >= 2 && text[0] == '"' && strings.IndexByte(text[1:], '"') == len(text)-2 {
		return text[1 : len(text)-1]
	}
	return text
}
