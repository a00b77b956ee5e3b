package prompts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
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

// readFolder reads the folder of one prompt.
func readFolder(fsys fs.FS, name string) (promptText, error) {
	info, err := fs.Stat(fsys, name) // follows a link
	switch {
	case err != nil:
		return promptText{}, err
	case !info.IsDir():
		return promptText{}, fmt.Errorf("%s: lies outside of a prompt's folder", name)
	case !validName.MatchString(name):
		return promptText{}, fmt.Errorf("%q: name a prompt with at most 64 letters, digits, _ or -", name)
	}
	file, err := textFile(fsys, name)
	if err != nil {
		return promptText{}, err
	}
	text, err := readText(fsys, file)
	if err != nil {
		return promptText{}, err
	}
	return promptText{name: name, file: file, text: text}, nil
}

// textFile finds the one file of a folder that is the prompt's text. A file
// that would have no effect is a fault, so that nobody waits for it to have one.
func textFile(fsys fs.FS, folder string) (string, error) {
	entries, err := fs.ReadDir(fsys, folder)
	if err != nil {
		return "", err
	}
	if len(entries) > maxPrompts {
		return "", fmt.Errorf("%s: %w: over %d entries", folder, ErrTooLarge, maxPrompts)
	}
	var files []string
	var faults []error
	for _, entry := range entries {
		file := path.Join(folder, entry.Name())
		switch name := entry.Name(); {
		case passedOver(name):
		case name == "prompt.txt" || name == "skprompt.txt":
			files = append(files, file)
		default:
			faults = append(faults, fmt.Errorf("%s: has no meaning here, the text of a prompt is prompt.txt", file))
		}
	}
	switch {
	case len(files) == 0:
		faults = append(faults, fmt.Errorf("%s: no prompt.txt", folder))
	case len(files) > 1:
		faults = append(faults, fmt.Errorf("%s: both prompt.txt and skprompt.txt", folder))
	}
	if err := errors.Join(faults...); err != nil {
		return "", err
	}
	return files[0], nil
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
