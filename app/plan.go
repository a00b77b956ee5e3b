package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/activity"
	"github.com/planbot-go/planbot/planner"
	"github.com/planbot-go/planbot/state"
)

// maxOutputBytes is the largest text that decode reads as one model output,
// and the longest line of --jsonl.
const maxOutputBytes = 16 << 20

type planCmd struct {
	Show   planShowCmd   `cmd:"" default:"withargs" help:"Show the prompt for a text and the plan that the model makes; run nothing."`
	Decode planDecodeCmd `cmd:"" help:"Decode what a model wrote, from standard input, to one JSON line."`
	Print  planPrintCmd  `cmd:"" help:"Print a plan from a file, JSON or XML, that may run; run nothing."`
}

type planShowCmd struct {
	Text string `arg:"" help:"what the person says"`
}

// Run prints the messages and the plan.
func (c planShowCmd) Run(ctx context.Context, s *settings, std *streams) error {
	cfg, err := s.checked()
	if err != nil {
		return err
	}
	log := logger(std.err, cfg).Level(max(cfg.logLevel, zerolog.WarnLevel))
	parts, err := newParts(log.WithContext(ctx), cfg, s.bot.registry(), nil)
	if err != nil {
		return err
	}
	a := &activity.Activity{Type: activity.Message, ChannelID: "console", Text: c.Text}
	temp := state.NewScope()
	turn := &actions.Turn{ID: "plan", Activity: a, Text: a.Said(), Conversation: temp, Thread: temp, User: temp, Temp: temp}
	messages, err := parts.planner.Messages(ctx, turn)
	if err != nil {
		return fmt.Errorf("prompt: %w", err)
	}
	for _, m := range messages {
		fmt.Fprintf(std.out, "--- %s\n%s\n", m.Role, m.Text)
	}
	plan, err := parts.planner.Plan(log.WithContext(ctx), turn)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	fmt.Fprintln(std.out, "--- plan")
	out := json.NewEncoder(std.out)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(decodedOf(plan))
}

// registryFlag says which actions plans are checked against.
type registryFlag struct {
	Actions string `type:"path" placeholder:"FILE" help:"registry in the form of Teams AI's actions.json; without it the actions of this bot"`
}

func (f registryFlag) registry(s *settings) (*actions.Registry, error) {
	if f.Actions == "" {
		return s.bot.registry(), nil
	}
	file, err := os.Open(f.Actions)
	if err != nil {
		return nil, usageError{err}
	}
	defer func() { _ = file.Close() }() // read only
	registry, err := actions.Read(file)
	if err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", f.Actions, err)}
	}
	return registry, nil
}

type planDecodeCmd struct {
	registryFlag
	JSONL  bool   `name:"jsonl" help:"read lines of {\"name\",\"output\"}, write lines of {\"name\",…}"`
	Format string `enum:"json,xml" default:"json" help:"what was asked of the model: json as by the planner sequence, xml as by sequential"`
	Goal   string `help:"what the person said, for the $INPUT of xml"`
}

// decoder reads what a model wrote to a plan that may run.
type decoder func(text string) (planner.Plan, error)

func (c planDecodeCmd) decoder(registry *actions.Registry) decoder {
	if c.Format == "xml" {
		return func(text string) (planner.Plan, error) { return planner.DecodeXML(text, c.Goal, registry) }
	}
	return func(text string) (planner.Plan, error) {
		plan, err := planner.Decode(text)
		if err != nil {
			return plan, err
		}
		return planner.Validate(plan, registry)
	}
}

// decoded is what decode prints of one output.
type decoded struct {
	Name     string                  `json:"name,omitempty"`
	Commands []command               `json:"commands,omitempty"`
	Repairs  []string                `json:"repairs,omitzero"`
	Salvaged bool                    `json:"salvaged,omitempty"`
	Say      string                  `json:"say,omitempty"`
	Error    planner.DecodeErrorKind `json:"error,omitempty"`
	Detail   string                  `json:"detail,omitempty"`
}

// command is a [planner.Command] that always shows the entities of a DO.
type command struct {
	Type     planner.Kind   `json:"type"`
	Action   string         `json:"action,omitempty"`
	Entities map[string]any `json:"entities,omitzero"`
	SaveAs   string         `json:"saveAs,omitempty"`
	Response string         `json:"response,omitempty"`
}

// Run decodes standard input. Faults of the plans are results; it fails only
// when its own input cannot be read.
func (c planDecodeCmd) Run(s *settings, std *streams) error {
	registry, err := c.registry(s)
	if err != nil {
		return err
	}
	read := c.decoder(registry)
	out := json.NewEncoder(std.out)
	out.SetEscapeHTML(false)
	if c.JSONL {
		return decodeLines(std.in, out, read)
	}
	text, err := io.ReadAll(io.LimitReader(std.in, maxOutputBytes))
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	return out.Encode(decode(string(text), read))
}

func decodeLines(in io.Reader, out *json.Encoder, read decoder) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxOutputBytes)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var line struct {
			Name   string  `json:"name"`
			Output *string `json:"output"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return usageError{fmt.Errorf("line %d: %w", n, err)}
		}
		if line.Output == nil {
			return usageError{fmt.Errorf("line %d has no output", n)}
		}
		result := decode(*line.Output, read)
		result.Name = line.Name
		if err := out.Encode(result); err != nil {
			return fmt.Errorf("write line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return usageError{fmt.Errorf("standard input: %w", err)}
	}
	return nil
}

func decode(text string, read decoder) decoded {
	plan, err := read(text)
	var fault *planner.DecodeError
	if errors.As(err, &fault) {
		return decoded{Error: fault.Kind, Detail: fault.Detail}
	}
	return decodedOf(plan)
}

func decodedOf(plan planner.Plan) decoded {
	if plan.Prose {
		return decoded{Say: plan.Commands[0].Response, Repairs: plan.Repairs}
	}
	d := decoded{Repairs: append([]string{}, plan.Repairs...), Salvaged: plan.Salvaged}
	for _, c := range plan.Commands {
		d.Commands = append(d.Commands, command{c.Kind, c.Action, c.Entities, c.SaveAs, c.Response})
	}
	return d
}
