package app

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/planbot-go/planbot/planner"
)

type planPrintCmd struct {
	registryFlag
	File    string `arg:"" placeholder:"FILE" help:"the plan; - for standard input"`
	Outline bool   `help:"leave out all values, as for logs"`
	As      string `enum:"text,json,xml" default:"text" help:"text to be read, or json or xml to be kept"`
}

// Run prints the plan, or says why it could not run.
func (c planPrintCmd) Run(s *settings, std *streams) error {
	registry, err := c.registry(s)
	if err != nil {
		return err
	}
	data, err := c.read(std)
	if err != nil {
		return usageError{err}
	}
	plan, err := planner.LoadPlan(data, registry)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	switch {
	case c.Outline:
		fmt.Fprintln(std.out, plan.Outline())
	case c.As == "json":
		out := json.NewEncoder(std.out)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		return out.Encode(plan)
	case c.As == "xml":
		text, err := plan.XML()
		if err != nil {
			return err
		}
		fmt.Fprint(std.out, text)
	default:
		fmt.Fprintln(std.out, plan)
	}
	return nil
}

func (c planPrintCmd) read(std *streams) ([]byte, error) {
	if c.File == "-" {
		return io.ReadAll(io.LimitReader(std.in, maxOutputBytes))
	}
	file, err := os.Open(c.File)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // read only
	return io.ReadAll(io.LimitReader(file, maxOutputBytes))
}
