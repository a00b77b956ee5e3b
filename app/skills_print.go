package app

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/planbot-go/planbot/skills"
)

func printFaults(out io.Writer, faults []skills.Fault) {
	for _, fault := range faults {
		fmt.Fprintln(out, fault)
	}
}

func countSkills(n int) string {
	if n == 1 {
		return "1 skill is"
	}
	return fmt.Sprintf("%d skills are", n)
}

func printSkills(out io.Writer, list []*skills.Skill) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SKILL\tRESOURCES\tSCRIPTS\tDESCRIPTION")
	for _, s := range list {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\n", printable(s.Name), len(s.Resources), len(s.Scripts), printable(oneLine(s.Description)))
	}
	return table.Flush()
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// printSkill prints what is known of a skill, and then its instructions, without what a
// terminal would take for a command.
func printSkill(ctx context.Context, out io.Writer, s *skills.Skill) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, printable(oneLine(value)))
		}
	}
	line("name", s.Name)
	line("description", s.Description)
	line("license", s.License)
	line("compatibility", s.Compatibility)
	line("allowed tools", strings.Join(s.AllowedTools, " "))
	if s.DisableModelInvocation {
		line("loaded by", "people alone, with /skill "+s.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(s.Metadata)) {
		line("metadata", key+": "+s.Metadata[key])
	}
	line("folder", s.Dir)
	for _, r := range s.Resources {
		data, err := r.Read(ctx)
		if err != nil {
			line("resource", err.Error())
			continue
		}
		kind := "text"
		if data.Binary {
			kind = "binary"
		}
		line("resource", fmt.Sprintf("%s (%s, %d bytes, %s)", r.Name, kind, len(data.Bytes), data.MediaType))
	}
	for _, script := range s.Scripts {
		line("script", script.Name)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for text := range strings.SplitSeq(s.Instructions, "\n") {
		fmt.Fprintln(out, printable(strings.ReplaceAll(text, "\t", "    ")))
	}
	return nil
}
