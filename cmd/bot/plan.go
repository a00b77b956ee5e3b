package main

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
	parts, err := newParts(ctx, cfg)
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

type planDecodeCmd struct {
	Actions string `type:"path" placeholder:"FILE" help:"registry in the form of Teams AI's actions.json; without it the actions of this bot"`
	JSONL   bool   `name:"jsonl" help:"read lines of {\"name\",\"output\"}, write lines of {\"name\",…}"`
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
func (c planDecodeCmd) Run(std *streams) error {
	registry := defaultActions()
	if c.Actions != "" {
		file, err := os.Open(c.Actions)
		if err != nil {
			return usageError{err}
		}
		defer func() { _ = file.Close() }() // read only
		if registry, err = actions.Read(file); err != nil {
			return usageError{fmt.Errorf("%s: %w", c.Actions, err)}
		}
	}
	out := json.NewEncoder(std.out)
	out.SetEscapeHTML(false)
	if c.JSONL {
		return decodeLines(std.in, out, registry)
	}
	text, err := io.ReadAll(io.LimitReader(std.in, maxOutputBytes))
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	return out.Encode(decode(string(text), registry))
}

func decodeLines(in io.Reader, out *json.Encoder, registry *actions.Registry) error {
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
		result := decode(*line.Output, registry)
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

func decode(text string, registry *actions.Registry) decoded {
	plan, err := planner.Decode(text)
	if err == nil {
		plan, err = planner.Validate(plan, registry)
	}
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
