package skills_test

import (
	"bytes"
	"math"
	"math/big"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/skills"
)

// shipped are the skills that come with the bot, which have to be good examples.
func shipped(t *testing.T) []*skills.Skill {
	t.Helper()
	found, err := skills.Discover(t.Context(), skills.Config{Validate: true, Roots: []string{"../examples/skills"}})
	if err != nil || len(found.Faults) > 0 {
		t.Fatal(err, found.Faults)
	}
	return found.Skills
}

func TestShippedSkills(t *testing.T) {
	t.Parallel()
	list := shipped(t)
	if diff := cmp.Diff([]string{"translator", "unit-converter"}, names(list)); diff != "" {
		t.Error(diff)
	}
	mentioned := regexp.MustCompile("`((?:references|scripts)/[^`]+)`")
	for _, s := range list {
		if lines := strings.Count(s.Instructions, "\n"); lines > 100 || !strings.Contains(s.Description, "Use it when") {
			t.Errorf("%s: %d lines, description %q", s.Name, lines, s.Description)
		}
		told := map[string]bool{}
		for _, m := range mentioned.FindAllStringSubmatch(s.Instructions, -1) {
			told[m[1]] = true
		}
		for _, r := range s.Resources {
			if !told[r.Name] {
				t.Errorf("%s: the instructions do not mention %s", s.Name, r.Name)
			}
			delete(told, r.Name)
		}
		for _, sc := range s.Scripts {
			delete(told, sc.Name)
		}
		if len(told) > 0 {
			t.Errorf("%s: there is no %v", s.Name, told)
		}
	}
}

// TestConversionTable holds each row to having its way back.
func TestConversionTable(t *testing.T) {
	t.Parallel()
	table, _ := resource(shipped(t)[1], "references/conversion-table.md")
	data, err := table.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	type row struct{ factor, offset float64 }
	number := func(text string) float64 {
		r, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatalf("%q is no number", text)
		}
		f, _ := r.Float64()
		return f
	}
	rows := map[[2]string]row{}
	for line := range strings.Lines(data.String()) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) < 3 || cells[0] == "from" {
			continue
		}
		r := row{factor: number(cells[2])}
		if len(cells) == 4 {
			r.offset = number(cells[3])
		}
		if _, twice := rows[[2]string{cells[0], cells[1]}]; twice {
			t.Errorf("%q is there twice", cells)
		}
		rows[[2]string{cells[0], cells[1]}] = r
	}
	if r := rows[[2]string{"kilogram (kg, 公斤, 千克)", "pound (lb, 磅)"}]; r.factor != 2.20462 {
		t.Errorf("kilograms to pounds: %v", r)
	}
	for units, there := range rows {
		back, ok := rows[[2]string{units[1], units[0]}]
		if again := (100*there.factor+there.offset)*back.factor + back.offset; !ok || math.Abs(again-100) > 0.001 {
			t.Errorf("100 %s to %s and back: %g", units[0], units[1], again)
		}
	}
}

func TestConvertScript(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	script := filepath.Join("..", "examples", "skills", "unit-converter", "scripts", "convert.py")
	for args, c := range map[string]struct {
		code int
		text string // in the output, or in what goes wrong
	}{
		"--value 26.2 --factor 1.60934":   {0, `{"value": 26.2, "factor": 1.60934, "result": 42.164708}`},
		"--factor=2.20462 --value 1":      {0, `{"value": 1, "factor": 2.20462, "result": 2.20462}`},
		"1 2.20462":                       {0, `{"value": 1, "factor": 2.20462, "result": 2.20462}`},
		"98.6 5/9 --offset -160/9":        {0, `{"value": 98.6, "factor": 0.5555555555555556, "offset": -17.77777777777778, "result": 37}`},
		"--value -1e3 --factor .5":        {0, `{"value": -1000, "factor": 0.5, "result": -500}`},
		"--help":                          {0, "usage: convert.py --value NUMBER"},
		"1e300 1e300":                     {1, "too large"},
		"":                                {2, "--value and --factor missing"},
		"--value 1":                       {2, "--factor missing"},
		"--value":                         {2, "--value needs a number"},
		"--value 1,5 --factor 2":          {2, "--value: '1,5' is no number"},
		"--value 1e99999999 --factor 2":   {2, "--value: '1e99999999' is no number"},
		"1 1/0":                           {2, "--factor: '1/0' divides by zero"},
		"--value 1 --value 2 --factor 3":  {2, "--value is given twice"},
		"--kilos 1 --factor 2":            {2, "'--kilos' is unknown; there are --value"},
		"1 2 3 4":                         {2, "'4' is one number too many"},
		"--value 1 2 3 --unit=kg; rm -rf": {2, "'--unit=kg;' is unknown"},
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), python, append([]string{"-I", script}, strings.Fields(args)...)...)
			cmd.Stdout, cmd.Stderr = &out, &errs
			_ = cmd.Run() // the exit code says it
			said, silent := &out, &errs
			if c.code != 0 {
				said, silent = &errs, &out
			}
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(said.String(), c.text) || silent.Len() > 0 {
				t.Errorf("exit code %d, output %q, errors %q", code, &out, &errs)
			}
		})
	}
}
