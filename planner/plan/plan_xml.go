package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
)

// The attributes of a <plan> that was written by [Plan.XML].
const (
	versionAttribute = "version"
	trimAttribute    = "trimResults"
)

// keptEscapes are escapes for attributes that every reader of XML gives back.
var keptEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;", "\n", "&#10;", "\r", "&#13;", "\t", "&#9;")

// XML writes the plan in the XML of the sequential planner, to be read and
// edited by people: a tag for each command. It says everything, so that nothing
// is filled in when [Load] reads it: each input is written, each text to say
// is a <say>, and a $NAME is what it is in the plan.
//
// Values are written as texts, to which the actions' schemas give back their
// types; entities that are null are left out, as is white space around a text to
// say, and so is how the plan came about. JSON keeps all of it. What no XML can
// say is an error: an entity whose name is no name of an attribute, or control
// characters.
func (p Plan) XML() (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "<plan %s=%q", versionAttribute, strconv.Itoa(planVersion))
	if p.TrimResults {
		fmt.Fprintf(&out, " %s=%q", trimAttribute, "true")
	}
	out.WriteString(">\n")
	for i := range p.Commands {
		if err := p.Commands[i].writeXML(&out); err != nil {
			return "", fmt.Errorf("write command %d as XML: %w", i+1, err)
		}
	}
	out.WriteString("</plan>\n")
	if text := out.String(); strings.ContainsFunc(text, isNotXML) || !utf8.ValidString(text) {
		return "", errors.New("write plan as XML: there is a control character in it")
	}
	return out.String(), nil
}

// isNotXML reports whether no XML can hold c.
func isNotXML(c rune) bool { return c < ' ' && !isSpace(c) || c == 0xFFFE || c == 0xFFFF }

func (c *Command) writeXML(out *strings.Builder) error {
	if c.Kind == Say {
		if strings.TrimSpace(c.Response) == "" {
			return errors.New("the SAY has no response")
		}
		out.WriteString("  <say>" + strings.ReplaceAll(textEscapes.Replace(c.Response), "\r", "&#13;") + "</say>\n")
		return nil
	}
	if c.Action == "" || !isTagName(functionTag+c.Action) {
		return fmt.Errorf("%q is no name of a function", spelling.Clip(c.Action))
	}
	out.WriteString("  <" + functionTag + c.Action)
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(c.Entities)) {
		low := strings.ToLower(name)
		if !isTagName(name) || seen[low] || outputOf(name) != noOutput {
			return fmt.Errorf("the entity %q cannot be an attribute", spelling.Clip(name))
		}
		seen[low] = true
		if c.Entities[name] != nil {
			out.WriteString(" " + name + `="` + keptEscapes.Replace(textOf(c.Entities[name])) + `"`)
		}
	}
	if c.SaveAs != "" {
		out.WriteString(` setContextVariable="` + keptEscapes.Replace(c.SaveAs) + `"`)
	}
	out.WriteString("/>\n")
	return nil
}

// isTagName reports whether name can be that of a tag, or of an attribute.
func isTagName(name string) bool { return name != "" && tagName("<"+name+">") == name }

// Load reads a plan from a file, and validates it: JSON as [Plan.MarshalJSON]
// writes it or as the sequence planner asks for it, XML as [Plan.XML] writes it
// or as the sequential planner asks for it. The first $INPUT of the latter stays
// a variable. The plan's [Plan.Inputs] count as set.
func Load(data []byte, reg *actions.Registry) (Plan, error) {
	p, err := loadPlan(data, reg)
	if err != nil {
		return Plan{}, fmt.Errorf("load plan: %w", err)
	}
	return p, nil
}

func loadPlan(data []byte, reg *actions.Registry) (p Plan, err error) {
	if len(data) > maxBytes {
		return p, fmt.Errorf("it is longer than %d bytes", maxBytes)
	}
	text, _ := clean(string(data))
	if strings.HasPrefix(text, "<") {
		return loadXML(text, reg)
	}
	if err := p.UnmarshalJSON([]byte(text)); err != nil {
		return p, err
	}
	return p, validate(&p, reg, p.Inputs())
}

func loadXML(text string, reg *actions.Registry) (Plan, error) {
	s := &xmlScan{tagReader: tagReader{text: text}}
	if err := s.scan(); err != nil {
		return Plan{}, err
	}
	if len(s.plans) != 1 || s.stray {
		return Plan{}, Faultf(InvalidPlan, "there is not one <plan>, but %d", len(s.plans))
	}
	p := s.plans[0]
	if p.fault != nil {
		return Plan{}, p.fault
	}
	if len(p.attributes) == 0 {
		d := &XMLDecoder{Actions: reg, KeepInput: true}
		return d.read(s, p, "")
	}
	plan := Plan{}
	if err := plan.readAttributes(p.attributes); err != nil {
		return Plan{}, err
	}
	for i := range p.steps {
		c, err := p.steps[i].literal(reg)
		if err != nil {
			return Plan{}, err
		}
		plan.Commands = append(plan.Commands, c)
	}
	return plan, validate(&plan, reg, plan.Inputs())
}

func (p *Plan) readAttributes(attributes []attribute) error {
	version := 0
	for _, a := range attributes {
		switch {
		case strings.EqualFold(a.name, versionAttribute):
			n, err := strconv.Atoi(a.value)
			if err != nil {
				return fmt.Errorf("version=%q is no number", spelling.Clip(a.value))
			}
			version = n
		case strings.EqualFold(a.name, trimAttribute):
			p.TrimResults = a.value == "true"
		default:
			return fmt.Errorf("<plan> has an attribute %s that this program does not know", spelling.Clip(a.name))
		}
	}
	if version == 0 {
		return errors.New("<plan> has attributes, but no version")
	}
	return checkVersion(version)
}

// literal is the command of a step that says everything.
func (step *xmlStep) literal(reg *actions.Registry) (Command, error) {
	if step.function == "" {
		return Command{Kind: Say, Response: step.text}, nil
	}
	names, err := outputs(step)
	if err != nil {
		return Command{}, err
	}
	if names[appendsOutput-setsOutput] != "" {
		return Command{}, Faultf(InvalidPlan, "function %s has appendToResult; in a plan with a version write <say>$NAME</say>", spelling.Clip(step.function))
	}
	action, known := resolveFunction(reg, step.function)
	if !known {
		return Command{}, Faultf(UnknownAction, "there is no function %q%s", spelling.Clip(step.function), Suggest(step.function, reg))
	}
	c := Command{Kind: Do, Action: action.Name, Entities: map[string]any{}, SaveAs: names[0]}
	for _, a := range step.attributes {
		if outputOf(a.name) != noOutput {
			continue
		}
		name := propertyName(action.Schema, a.name)
		if _, twice := c.Entities[name]; twice {
			return Command{}, Faultf(InvalidPlan, "function %s has the attribute %s twice", spelling.Clip(step.function), spelling.Clip(a.name))
		}
		c.Entities[name] = a.value
		if value := typed(action.Schema.Properties[name], a.value); value != nil {
			c.Entities[name] = value
		}
	}
	return c, nil
}
