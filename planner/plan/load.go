package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Load reads and validates a plan from a file: JSON as encoding/json or a model with the sequence
// planner writes it, or XML as a model with the sequential planner writes it. The first $INPUT of
// XML stays a variable. The plan's inputs count as set.
func Load(data []byte, reg *actions.Registry) (p Plan, err error) {
	if len(data) > maxBytes {
		return Plan{}, fmt.Errorf("load plan: it is longer than %d bytes", maxBytes)
	}
	text, _ := clean(string(data))
	if strings.HasPrefix(text, "<") {
		p, err = loadXML(text, reg)
	} else if err = p.UnmarshalJSON([]byte(text)); err == nil {
		err = validate(&p, reg, p.inputs(), false)
	}
	if err != nil {
		return Plan{}, fmt.Errorf("load plan: %w", err)
	}
	return p, nil
}

// UnmarshalJSON reads a stored plan, or one in the format of the sequence planner, with numbers as
// json.Number. It refuses unknown fields. It does not validate the plan.
func (p *Plan) UnmarshalJSON(data []byte) error {
	type plain Plan
	var kept struct {
		Type string `json:"type"` // "plan" or "answer" if a model wrote it
		plain
	}
	err := decodeStrictly(data, &kept)
	switch {
	case err != nil || kept.Type == "" || kept.Type == planType:
	case kept.Type != answerType:
		err = fmt.Errorf("the type is %q, not plan or answer", spelling.Clip(kept.Type))
	case Plan(kept.plain).LastDo() >= 0:
		err = errDoInAnswer
	}
	if err != nil {
		return fmt.Errorf("read plan: %w", plainjson.Explain(err))
	}
	for i := range kept.Commands {
		if c := &kept.Commands[i]; c.Kind == Do && c.Entities == nil {
			c.Entities = map[string]any{}
		}
	}
	*p = Plan(kept.plain)
	return nil
}

// Limits for call results in a transcript: each, and all together.
const (
	maxResultBytes  = 1 << 10
	maxResultsBytes = 4 << 10
)

// Transcript writes the commands in the format of the sequence planner, on one line, for the
// history, whatever the planner. [Plan.UnmarshalJSON] reads it. It includes only results of tool
// calls, and cuts long ones. If it is longer than so many bytes, it cuts the longest messages, too; 0: it
// does not. It is "" without commands.
func (p Plan) Transcript(most int) string {
	if len(p.Commands) == 0 {
		return ""
	}
	commands := slices.Clone(p.Commands)
	limit := min(maxResultBytes, maxResultsBytes/len(commands))
	const cut = " […]" // so the model does not take the cut text for all of it
	for i := range commands {
		c := &commands[i]
		switch {
		case c.CallID == "", len(c.Result) > limit && limit < len(cut):
			c.Result = ""
		case len(c.Result) > limit:
			c.Result = spelling.Shorten(c.Result, limit-len(cut)) + cut
		}
	}
	for {
		text, err := plainjson.Marshal(struct {
			Type     string    `json:"type"`
			Commands []Command `json:"commands"`
		}{planType, commands})
		if err != nil {
			return "" // cannot happen: entities came from JSON
		}
		longest := slices.MaxFunc(commands, func(a, b Command) int { return len(a.Response) - len(b.Response) }).Response
		room := max(len(longest)-(len(text)-most)-len(cut), len(longest)/8)
		if most == 0 || len(text) <= most || room+len(cut) >= len(longest) {
			return string(text)
		}
		for i := range commands {
			if commands[i].Response == longest {
				commands[i].Response = spelling.Shorten(longest, room) + cut
			}
		}
	}
}

// TranscriptXML writes the commands in the format of the sequential planner, so the model's own
// earlier answers serve as examples. Without a DO it is a text.
func (p Plan) TranscriptXML() string {
	if p.LastDo() < 0 {
		texts := make([]string, len(p.Commands))
		for i, c := range p.Commands {
			texts[i] = c.Response
		}
		return strings.Join(texts, "\n")
	}
	var out strings.Builder
	out.WriteString("<plan>\n")
	for _, c := range p.Commands {
		if c.Kind == Say {
			out.WriteString("  <say>" + textEscapes.Replace(c.Response) + "</say>\n")
			continue
		}
		out.WriteString("  <" + functionTag + c.Action)
		for _, name := range slices.Sorted(maps.Keys(c.Entities)) {
			if c.Entities[name] != nil {
				out.WriteString(" " + name + `="` + attributeEscapes.Replace(textOf(c.Entities[name])) + `"`)
			}
		}
		out.WriteString("/>\n")
	}
	out.WriteString("</plan>")
	return out.String()
}

var (
	textEscapes      = strings.NewReplacer("&", "&amp;", "<", "&lt;", "\r", "&#13;")
	attributeEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;", "\n", "&#10;", "\r", "&#13;", "\t", "&#9;")
)

func loadXML(text string, reg *actions.Registry) (Plan, error) {
	a := newAnswer(text, nil)
	a.xml = true
	if fault := a.scan(); fault != nil {
		return Plan{}, fault
	}
	if len(a.plans) != 1 || a.stray != nil {
		return Plan{}, InvalidPlan.Faultf("there is not one <plan>, but %d", len(a.plans))
	}
	p := &a.plans[0]
	plan, err := p.plan("", true, reg)
	if err == nil {
		a.done.add(p.notes...)
		plan = a.finish(plan, a.without(true))
	}
	return plan, err
}
