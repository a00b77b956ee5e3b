package app

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/bottest/scenario"
)

// read reads the files, and leaves the scenarios that are asked for and have no faults.
func (c testCmd) read(stdin io.Reader, only *regexp.Regexp, registry *actions.Registry) ([]scenario.Scenario, scenario.Faults) {
	files, faults := c.files()
	var all []scenario.Scenario
	for _, name := range files {
		list, wrong := readScenarios(stdin, name)
		faults = append(faults, wrong...)
		for _, s := range list {
			if only.MatchString(s.Name) {
				all = append(all, s)
			}
		}
	}
	unknown := scenario.Check(all, func(name string) bool { _, ok := registry.Lookup(name); return ok })
	faults, all = append(faults, unknown...), unknown.Without(all)
	if len(all) == 0 && len(faults) == 0 {
		faults = scenario.Faults{{File: "--run " + c.Only, Text: "no scenario has such a name"}}
	}
	return all, faults
}

// readScenarios reads one file, or standard input. A test of nothing is a fault: it would
// pass for ever.
func readScenarios(stdin io.Reader, name string) (list []scenario.Scenario, faults scenario.Faults) {
	var err error
	if name == "-" {
		name = "stdin"
		list, err = scenario.Read(stdin, name)
	} else {
		list, err = scenario.ReadFile(name)
	}
	faults, told := errors.AsType[scenario.Faults](err)
	switch {
	case err != nil && !told:
		faults = scenario.Faults{faultOf(name, err)}
	case err == nil && len(list) == 0:
		faults = scenario.Faults{{File: name, Text: "there are no scenarios in it"}}
	}
	return list, faults
}

// faultOf is why a file cannot be read, with its name said once.
func faultOf(name string, err error) *scenario.Fault {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		err = at.Err
	}
	return &scenario.Fault{File: name, Text: strings.TrimPrefix(err.Error(), name+": ")}
}

// files are those that are named, and those of folders that are.
func (c testCmd) files() (names []string, faults scenario.Faults) {
	for _, name := range c.Files {
		info, err := os.Stat(name)
		if name == "-" || err != nil || !info.IsDir() {
			names = append(names, name) // what is wrong with it is told when it is read
			continue
		}
		entries, err := os.ReadDir(name)
		before := len(names)
		for _, entry := range entries {
			if !entry.IsDir() && c.hasScenarios(filepath.Join(name, entry.Name())) {
				names = append(names, filepath.Join(name, entry.Name()))
			}
		}
		switch {
		case err != nil:
			faults = append(faults, faultOf(name, err))
		case len(names) == before:
			faults = append(faults, &scenario.Fault{File: name, Text: "there is no file of scenarios in this folder"})
		}
	}
	return names, faults
}

// hasScenarios tells by the name of a file in a folder whether scenarios are in it. A registry
// of actions is not, nor are the cassettes that recordings have beside each of theirs.
func (c testCmd) hasScenarios(name string) bool {
	base := strings.ToLower(filepath.Base(name))
	ext := filepath.Ext(base)
	if abs, err := filepath.Abs(name); base == "actions.json" || err == nil && abs == c.Actions {
		return false
	}
	return slices.Contains([]string{".json", ".yaml", ".yml"}, ext) && base[0] != '.' && filepath.Ext(strings.TrimSuffix(base, ext)) != ".cassette"
}
