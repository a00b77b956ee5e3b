package prompts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxPrompts is how many entries a folder may have.
const maxPrompts = 256

var validName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$`)

// passedOver says that an entry is none of a prompt's: a hidden one, such as
// the ..data of a mounted ConfigMap, or somebody's notes.
func passedOver(name string) bool {
	return strings.HasPrefix(name, ".") || strings.EqualFold(path.Ext(name), ".md")
}

// readFolder reads the folder of one prompt. Every fault of it is in the error,
// with which comes what could be read; nil if it is no prompt's folder.
func readFolder(fsys fs.FS, name string) (*Prompt, error) {
	info, err := fs.Stat(fsys, name) // follows a link
	switch {
	case err != nil:
		return nil, err
	case !info.IsDir():
		return nil, fmt.Errorf("%s: lies outside of a prompt's folder", name)
	case !validName.MatchString(name):
		return nil, fmt.Errorf("%q: name a prompt with at most 64 letters, digits, _ or -", name)
	}
	files, misplaced := filesOf(fsys, name)
	p := &Prompt{Template: &Template{name: name}}
	text := p.readTemplate(fsys, files.text)
	config := p.readConfig(fsys, files.config)
	p.unclear = config != nil
	if files.text != "" && text == nil {
		config = errors.Join(config, p.unseenInputs(files.config))
	}
	return p, errors.Join(misplaced, text, config, p.readOffers(fsys, files.actions))
}

// files are the files of a prompt's folder; "" is one that is not there.
type files struct{ text, config, actions string }

// filesOf finds the files of a folder that mean something. One that would have
// no effect is a fault, so that nobody waits for it to have one.
func filesOf(fsys fs.FS, folder string) (files, error) {
	entries, err := fs.ReadDir(fsys, folder)
	if err != nil {
		return files{}, err
	}
	if len(entries) > maxPrompts {
		return files{}, fmt.Errorf("%s: %w: over %d entries", folder, ErrTooLarge, maxPrompts)
	}
	var f files
	var faults []error
	for _, entry := range entries {
		file := path.Join(folder, entry.Name())
		switch name := entry.Name(); {
		case passedOver(name):
		case name == "config.json":
			f.config = file
		case name == "actions.json":
			f.actions = file
		case name != "prompt.txt" && name != "skprompt.txt":
			faults = append(faults, fmt.Errorf("%s: has no meaning here, a prompt is prompt.txt, config.json and actions.json", file))
		case f.text != "":
			faults = append(faults, fmt.Errorf("%s: both prompt.txt and skprompt.txt", folder))
		default:
			f.text = file
		}
	}
	if f.text == "" {
		faults = append(faults, fmt.Errorf("%s: no prompt.txt", folder))
	}
	return f, errors.Join(faults...)
}

func (p *Prompt) readTemplate(fsys fs.FS, file string) error {
	if file == "" {
		return nil // that is said
	}
	text, err := readText(fsys, file)
	if err != nil {
		return err
	}
	template, err := Parse(file, text)
	if template != nil {
		p.nodes = template.nodes
	}
	return err
}

func (p *Prompt) readConfig(fsys fs.FS, file string) error {
	raw, err := readJSON(fsys, file)
	if raw == nil || err != nil {
		return err
	}
	p.Config, err = readConfig(file, raw)
	return err
}

func (p *Prompt) readOffers(fsys fs.FS, file string) error {
	raw, err := readJSON(fsys, file)
	if raw == nil || err != nil {
		return err
	}
	p.Actions, err = readOffers(file, raw)
	return err
}

// unseenInputs finds parameters of a prompt that is an action whose values would
// never reach the model. {{$input}} is the one called input, or the only one.
func (p *Prompt) unseenInputs(file string) error {
	shown, inputs := p.Variables(), p.Config.Input
	input := slices.Contains(shown, "temp.input") || p.Config.Completion.IncludeInput != nil && *p.Config.Completion.IncludeInput
	var faults []error
	for _, in := range inputs {
		main := in.Name == "input" || len(inputs) == 1
		if !slices.Contains(shown, "temp."+in.Name) && (!main || !input) {
			faults = append(faults, fmt.Errorf("%s: input.parameters: %s has no effect, the text does not show {{$%[2]s}}", file, in.Name))
		}
	}
	return errors.Join(faults...)
}

// readJSON reads a file that need not be there: then it is nil.
func readJSON(fsys fs.FS, name string) ([]byte, error) {
	if name == "" {
		return nil, nil
	}
	raw, err := readFile(fsys, name)
	return bytes.TrimPrefix(raw, []byte("\ufeff")), err
}

// readText reads a text as a template wants it: without byte order mark, with
// \n at the ends of lines and none at the end.
func readText(fsys fs.FS, name string) (string, error) {
	raw, err := readFile(fsys, name)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(raw) {
		return "", fmt.Errorf("%s: is no UTF-8 text", name)
	}
	text := strings.TrimPrefix(string(raw), "\ufeff")
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("%s: is empty", name)
	}
	return text, nil
}

func readFile(fsys fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(fsys, name) // before opening: that waits on a pipe
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no regular file", name)
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened to read only
	raw, err := io.ReadAll(io.LimitReader(file, MaxTemplate+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(raw) > MaxTemplate {
		return nil, fmt.Errorf("%s: %w: over %d bytes", name, ErrTooLarge, MaxTemplate)
	}
	return raw, nil
}
