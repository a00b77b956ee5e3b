package models

import (
	"encoding/json"
	"fmt"
	"strings"
)

// offeredTools are the tools that may be called.
func offeredTools(req *Request) []Tool {
	if req.Choice == ChoiceNone {
		return nil
	}
	return req.Tools
}

// usesTools reports whether req is about tools, also when none are left, so that
// an answer is calls or plain text and never a plan.
func usesTools(req *Request) bool {
	if len(req.Tools) > 0 {
		return true
	}
	for i := range req.Messages {
		if len(req.Messages[i].Calls) > 0 {
			return true
		}
	}
	return false
}

// callsOf writes each deed as a call.
func callsOf(deeds []deed, req *Request) []Call {
	if req.OneCallAtMost {
		deeds = deeds[:1]
	}
	out := make([]Call, len(deeds))
	for i := range deeds {
		arguments, err := json.Marshal(deeds[i].entities())
		if err != nil { // strings and values that came from JSON always go back to it
			panic(fmt.Sprintf("write a call of the offline model: %v", err))
		}
		out[i] = Call{Name: deeds[i].action, Arguments: string(arguments)}
	}
	identify(out, req)
	return out
}

// toolAnswer is what a tool said.
type toolAnswer struct{ name, text string }

// failedMark stands before the answer of a call that failed.
const failedMark = "Error: "

func (a toolAnswer) failed() bool { return strings.HasPrefix(a.text, failedMark) }

// answersSince are the answers to the calls after the person's last text.
func answersSince(req *Request) []toolAnswer {
	var out []toolAnswer
	names := map[string]string{} // of calls, by id
	for _, m := range req.Messages {
		if m.Role == User {
			out = nil
		}
		for _, c := range m.Calls {
			names[c.ID] = c.Name
		}
		if m.Role == ToolRole {
			out = append(out, toolAnswer{names[m.CallID], strings.TrimSpace(m.Text)})
		}
	}
	return out
}

// tellAnswers says what the tools answered, and no more.
func tellAnswers(answers []toolAnswer) string {
	lines := make([]string, len(answers))
	for i, a := range answers {
		switch reason, failed := strings.CutPrefix(a.text, failedMark); {
		case failed:
			lines[i] = "I could not do " + a.name + ": " + reason
		case a.text == "" || a.text == "done":
			lines[i] = a.name + " is done."
		case strings.HasPrefix(a.text, "{"), strings.HasPrefix(a.text, "["): // alone it could pass for a plan
			lines[i] = a.name + ": " + a.text
		default:
			lines[i] = a.text
		}
	}
	return strings.Join(lines, "\n")
}
