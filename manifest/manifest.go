// Package manifest builds and checks the app package that carries the bot into
// Microsoft Teams: a zip of manifest.json and two icons.
//
// [Build] writes the package of the default bot; [Validate] checks any manifest,
// folder or package, offline, against Microsoft's published JSON schema and the
// documented rules that the schema does not express.
//
// The manifest is written for schema version 1.25: the newest version that the
// Teams store, tenants and sovereign clouds can be expected to take. Versions
// above it add slash commands and targeted messages, which the bot does not use.
package manifest

//go:generate go run ./internal/drawicons icons

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// The names of the files of an app package, all at its root.
const (
	manifestName = "manifest.json"
	colorName    = "color.png"
	outlineName  = "outline.png"
)

//go:embed icons/color.png
var colorIcon []byte

//go:embed icons/outline.png
var outlineIcon []byte

// Build writes the app package of cfg to w as a zip: manifest.json and both
// icons at the root. The same cfg gives the same bytes. Nothing is written
// unless cfg is sound and the manifest made from it passes [Validate]'s checks;
// the error otherwise lists every mistake at once.
func Build(w io.Writer, cfg Config) error {
	doc, err := JSON(cfg)
	if err != nil {
		return err
	}
	var pack bytes.Buffer
	if err := writeZip(&pack, doc); err != nil {
		return fmt.Errorf("build app package: %w", err)
	}
	if _, err := w.Write(pack.Bytes()); err != nil {
		return fmt.Errorf("write app package: %w", err)
	}
	return nil
}

// JSON returns the manifest.json of cfg alone, indented. Its errors are those
// of [Build].
func JSON(cfg Config) ([]byte, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("manifest config: %w", err)
	}
	var doc bytes.Buffer
	enc := json.NewEncoder(&doc)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(newApp(cfg)); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	if err := asError(checkManifest(manifestName, doc.Bytes())); err != nil {
		return nil, fmt.Errorf("manifest config: %w", err)
	}
	return doc.Bytes(), nil
}

// asError joins problems into one error, nil when there are none.
func asError(problems []Problem) error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = errors.New(p.String())
	}
	return errors.Join(errs...)
}

// Starter makes a command of an action's name and description, for
// [Config.Prompts]: "createList" becomes "Create list". Teams puts the title
// into the compose box when a person picks it.
func Starter(action, description string) Command {
	return Command{Title: sentence(action), Description: description}
}

// sentence splits a camelCase, snake_case or kebab-case name into words, the
// first with a capital letter.
func sentence(name string) string {
	var out strings.Builder
	lower := false // the rune before ended a lower-case stretch
	for _, r := range name {
		switch {
		case r == '_' || r == '-' || r == '.' || r == ' ':
			r, lower = ' ', false
		case lower && 'A' <= r && r <= 'Z':
			out.WriteByte(' ')
			lower = false
		default:
			lower = 'a' <= r && r <= 'z' || '0' <= r && r <= '9'
		}
		out.WriteRune(r)
	}
	words := []rune(strings.ToLower(strings.Join(strings.Fields(out.String()), " ")))
	if len(words) > 0 {
		words[0] = unicode.ToUpper(words[0])
	}
	return string(words)
}
