// Package plans is a feature of a program: a command that shows what the model is asked and what it plans, and runs
// plans from files.
package plans

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
	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/internal/settings"
	"github.com/planbot-go/planbot/planner/plan"
)

// maxOutputBytes limits the text read as one model output, and the lines of --jsonl.
const maxOutputBytes = 16 << 20

// Feature adds the command plan.
func Feature() app.Feature {
	return app.Feature{Name: "plans", Commands: &struct {
		Plan planCmd `help:"Show what the model is asked and what it plans, or decode what a model wrote."`
	}{}}
}

type planCmd struct {
	Show   planShowCmd   `default:"true" help:"Show the prompt for a text and the model's plan; run nothing."`
	Decode planDecodeCmd `help:"Decode what a model wrote, from standard input, to one JSON line."`
	Print  planPrintCmd  `help:"Print a plan from a file, JSON or XML, that may run; run nothing."`
	Run    planRunCmd    `help:"Run a plan from a file, JSON or XML, on state of its own; ask before what has effects."`
}

type planShowCmd struct {
	Text string `arg:"" help:"what the person says"`
}

// Run prints the messages and the plan.
func (c planShowCmd) Run(ctx context.Context, p *app.Program) error {
	s, std := p.Settings(), p.Streams()
	if err := cli.Check(s); err != nil {
		return err
	}
	ctx = cli.Logger(std.Err, s, zerolog.WarnLevel).WithContext(ctx)
	closeAll, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	maker, err := s.NewPlanner(ctx, s.Actions(), settings.Watch{})
	if err != nil {
		return err
	}
	turn := settings.Turn(c.Text)
	messages, err := maker.Messages(ctx, turn)
	if err != nil {
		return fmt.Errorf("prompt: %w", err)
	}
	for _, m := range messages {
		fmt.Fprintf(std.Out, "--- %s\n%s\n", m.Role, m.Text)
	}
	plan, err := maker.Plan(ctx, turn)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	fmt.Fprintln(std.Out, "--- plan")
	return cli.PrintJSON(std.Out, decodedOf(plan))
}

// registryFlag selects the actions to check plans against.
type registryFlag struct {
	Actions string `type:"path" placeholder:"FILE" help:"registry as in Teams AI's actions.json; without it this bot's actions"`
}

// registry returns the actions, and what to close after their use.
func (f registryFlag) registry(ctx context.Context, s *settings.Settings, std *cli.Streams) (*actions.Registry, func(), error) {
	if f.Actions != "" {
		registry, err := s.ReadActions(f.Actions)
		return registry, func() {}, err
	}
	ctx = cli.Logger(std.Err, s, zerolog.ErrorLevel).WithContext(ctx)
	closeAll, err := s.Connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	settings.List(ctx, s.Connected) // so that the actions of services are known
	registry, err := s.Registry(ctx)
	if err != nil {
		closeAll()
		return nil, nil, err
	}
	return registry, closeAll, nil
}

type planDecodeCmd struct {
	registryFlag
	JSONL  bool   `name:"jsonl" help:"read lines of {\"name\",\"output\"}, write lines of {\"name\",…}"`
	Format string `oneof:"json,xml" default:"json" help:"json as from the planner sequence, or xml as from sequential"`
	Goal   string `help:"what the person said, for the $INPUT of xml"`
}

// decoded is what decode prints for one output.
type decoded struct {
	Name     string         `json:"name,omitempty"`
	Commands []command      `json:"commands,omitempty"`
	Repairs  []string       `json:"repairs,omitzero"`
	Salvaged bool           `json:"salvaged,omitempty"`
	Say      string         `json:"say,omitempty"`
	Error    plan.FaultKind `json:"error,omitempty"`
	Detail   string         `json:"detail,omitempty"`
}

// command is a [plan.Command] that always shows the entities of a DO.
type command struct {
	Type     string         `json:"type"`
	Action   string         `json:"action,omitempty"`
	Entities map[string]any `json:"entities,omitzero"`
	SaveAs   string         `json:"saveAs,omitempty"`
	Response string         `json:"response,omitempty"`
}

// Run decodes standard input. Faults of the plans are results; it fails only if it cannot read its
// input.
func (c planDecodeCmd) Run(ctx context.Context, p *app.Program) error {
	s, std := p.Settings(), p.Streams()
	registry, done, err := c.registry(ctx, s, std)
	if err != nil {
		return err
	}
	defer done()
	out := json.NewEncoder(std.Out)
	out.SetEscapeHTML(false)
	if c.JSONL {
		return c.decodeLines(std.In, out, registry)
	}
	text, err := io.ReadAll(io.LimitReader(std.In, maxOutputBytes))
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	return out.Encode(c.decode(string(text), registry))
}

func (c planDecodeCmd) decodeLines(in io.Reader, out *json.Encoder, registry *actions.Registry) error {
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
			return cli.Usage(fmt.Errorf("line %d: %w", n, err))
		}
		if line.Output == nil {
			return cli.Usage(fmt.Errorf("line %d has no output", n))
		}
		result := c.decode(*line.Output, registry)
		result.Name = line.Name
		if err := out.Encode(result); err != nil {
			return fmt.Errorf("write line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return cli.Usage(fmt.Errorf("standard input: %w", err))
	}
	return nil
}

func (c planDecodeCmd) decode(text string, registry *actions.Registry) decoded {
	var p plan.Plan
	var err error
	if c.Format == "xml" {
		p, err = plan.DecodeXML(text, c.Goal, registry)
	} else if p, err = plan.Decode(text); err == nil {
		p, err = p.Validate(registry)
	}
	if fault, ok := errors.AsType[*plan.Fault](err); ok {
		return decoded{Error: fault.Kind, Detail: fault.Detail}
	}
	return decodedOf(p)
}

func decodedOf(p plan.Plan) decoded {
	if p.Prose {
		return decoded{Say: p.Commands[0].Response, Repairs: p.Repairs}
	}
	d := decoded{Repairs: append([]string{}, p.Repairs...), Salvaged: p.Salvaged}
	for _, c := range p.Commands {
		d.Commands = append(d.Commands, command{c.Kind, c.Action, c.Entities, c.SaveAs, c.Response})
	}
	return d
}

type planPrintCmd struct {
	registryFlag
	File    string `arg:"" placeholder:"FILE" help:"the plan; - for standard input"`
	Outline bool   `help:"leave out all values, as for logs"`
	As      string `oneof:"text,json" default:"text" help:"text to be read, or json to be kept"`
}

// Run prints the plan, or says why it could not run.
func (c planPrintCmd) Run(ctx context.Context, p *app.Program) error {
	s, std := p.Settings(), p.Streams()
	registry, done, err := c.registry(ctx, s, std)
	if err != nil {
		return err
	}
	defer done()
	in := std.In
	if c.File != "-" {
		if in, err = os.Open(c.File); err != nil {
			return cli.Usage(err)
		}
		defer func() { _ = in.Close() }() // read only
	}
	data, err := io.ReadAll(io.LimitReader(in, maxOutputBytes))
	if err != nil {
		return cli.Usage(err)
	}
	plan, err := plan.Load(data, registry)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	switch {
	case c.Outline:
		fmt.Fprintln(std.Out, plan.Outline())
	case c.As == "json":
		return cli.PrintJSON(std.Out, plan)
	default:
		fmt.Fprintln(std.Out, plan)
	}
	return nil
}
