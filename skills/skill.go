// Package skills reads Agent Skills: folders with a SKILL.md that says in words how to do
// something, plus resources to read and scripts to run. The format is that of agentskills.io. A
// skill can also be written in Go, see [Memory].
//
// Strangers write such folders. Every size and count has a cap, front matter is data and never a
// command, and opening a file cannot lead out of the folder, even if somebody swaps the file for a
// link meanwhile. Script files run in a sandbox or not at all.
package skills

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/skills/sandbox"
)

// Skill is one skill. Do not change it once it is in use; then it is safe for concurrent use, as
// far as its Go functions are.
//
// Fields from SKILL.md are text exactly as written: version 1.0 is "1.0". All of them are
// untrusted: escape them before a model or a page sees them.
type Skill struct {
	// Name has lower-case letters, digits and single hyphens between them, in Unicode's form NFKC.
	// It is also the name of the skill's folder.
	Name          string
	Description   string // what the skill does and when to use it
	License       string
	Compatibility string            // what the skill needs
	AllowedTools  []string          // such as Read or Bash(git:*); nil: unspecified; empty: allows none
	Metadata      map[string]string // any other fields of the author
	// DisableModelInvocation hides the skill from models: only people can load it. It is not in the
	// specification, so SKILL.md can set it only in lenient mode.
	DisableModelInvocation bool

	// Instructions is the Markdown of SKILL.md after the front matter.
	Instructions string
	// Text is the whole SKILL.md with \n line endings; "" for a skill from Go.
	Text string
	// Dir is the skill's absolute folder, without links; "" for a skill from Go.
	Dir string
	// Resources and Scripts are sorted by name if the skill comes from files.
	Resources []Resource
	Scripts   []Script

	at     place   // where Dir was found
	remote *remote // nil: it is not from a server
}

// Resource is something to read in a skill. One in Go has a Text or a Func.
type Resource struct {
	Name        string // for a file: its slash-separated path in the skill's folder
	Description string // "" for a file
	Text        string
	// Func returns the resource's content on each read: changing data, or bytes that are not text.
	// Several turns may call it at once. It must return when its context ends.
	Func func(context.Context) ([]byte, error)

	file place // if it is a file
	size int64 // of the file when it was found
}

// Script is something to run in a skill: a file for an interpreter, or a Go function.
type Script struct {
	Name        string // for a file: its slash-separated path in the skill's folder
	Description string // "" for a file
	// Action is the Go function behind the script, with its argument schema, validation and call;
	// nil for a file.
	Action *actions.Action
}

const maxResource = 1 << 20 // the maximum size of a resource in bytes

// Data is a resource's content.
type Data struct {
	Bytes     []byte
	MediaType string // such as image/png or text/markdown, without a charset
	Binary    bool   // the bytes are not text: they are for actions, not for prompts
}

// Read returns the resource's current content. More than 1 MiB is an error. When ctx ends, the
// error wraps its error.
func (r Resource) Read(ctx context.Context) (data Data, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", actions.ErrPanic, p, debug.Stack())
		}
		if err != nil {
			data, err = Data{}, fmt.Errorf("read resource %q: %w", r.Name, err)
		}
	}()
	raw, err := []byte(r.Text), ctx.Err()
	switch {
	case err != nil:
	case r.Func != nil:
		raw, err = r.Func(ctx)
	case r.file.root != "":
		raw, err = r.file.read(maxResource)
	}
	if err == nil && len(raw) > maxResource {
		err = fmt.Errorf("too large: %d bytes, at most %d", len(raw), maxResource)
	}
	return describe(r.Name, raw), err
}

// Func makes a script from a Go function. The fields of In describe its arguments, which are
// validated before the call. Names, tags, results and panics are as in [actions.Add]. Of the
// options, [actions.NeedsApproval] counts, and [actions.Destructive] in a salvaged plan.
func Func[In any](name, description string, fn func(context.Context, *actions.Turn, In) (actions.Result, error), opts ...actions.Option) Script {
	return Script{Name: name, Description: description, Action: actions.Add(actions.New(), name, description, fn, opts...)}
}

// textTypes are the media types of texts. The mime package's tables differ between machines.
var textTypes = map[string]string{
	".md": "text/markdown", ".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml",
	".csv": "text/csv", ".xml": "application/xml",
}

// describe detects what raw is. Text is valid UTF-8 without NUL, whatever the name says.
func describe(name string, raw []byte) Data {
	d := Data{Bytes: raw, Binary: !utf8.Valid(raw) || bytes.IndexByte(raw, 0) >= 0}
	if d.MediaType = textTypes[strings.ToLower(path.Ext(name))]; d.MediaType == "" || d.Binary {
		d.MediaType, _, _ = strings.Cut(http.DetectContentType(raw), ";")
	}
	return d
}

// String returns the text without a byte order mark or, for binary data, a description: "binary,
// 1234 bytes, image/png".
func (d Data) String() string {
	if d.Binary {
		return fmt.Sprintf("binary, %d bytes, %s", len(d.Bytes), d.MediaType)
	}
	return strings.TrimPrefix(string(d.Bytes), "\ufeff")
}

// open opens the skill's folder again without following links, or a copy of a folder that a server has. done
// closes it.
func (s *Skill) open(ctx context.Context) (dir *os.Root, done func(), err error) {
	switch {
	case s.remote != nil:
		return s.remote.open(ctx)
	case s.at.root == "": // not made by Discover
		dir, err = place{s.Dir, "."}.open()
	default:
		dir, err = s.at.open()
	}
	return dir, func() { _ = dir.Close() }, err // it is only read
}

// maxListed is how many resources, and how many scripts, a skill's content lists. The others still
// work.
const maxListed = 200

// Content is what a model sees of a loaded skill, in the form of the Microsoft Agent Framework: the
// whole SKILL.md (or its equivalent for a skill from Go), then the names of its resources and of
// its scripts.
func (s *Skill) Content() string {
	text := s.Text
	if text == "" {
		text = fmt.Sprintf("<name>%s</name>\n<description>%s</description>\n\n<instructions>\n%s\n</instructions>",
			inXML.Replace(s.Name), inXML.Replace(s.Description), inXML.Replace(s.Instructions))
	}
	var resources, scripts []string
	for _, r := range s.Resources {
		resources = append(resources, fmt.Sprintf("  <resource %s/>\n", attributes(r.Name, r.Description)))
	}
	for _, script := range s.Scripts {
		schema := []byte(`{"type":"array","items":{"type":"string"}}`)
		if script.Action != nil {
			schema, _ = json.Marshal(script.Action.Schema) // cannot fail: schemas are valid JSON
		}
		scripts = append(scripts, fmt.Sprintf("  <script %s>\n    <parameters_schema>%s</parameters_schema>\n  </script>\n",
			attributes(script.Name, script.Description), inElement.Replace(string(schema))))
	}
	return text + "\n" + block("available_resources", resources) + "\n" + block("available_scripts", scripts)
}

// block lists parts of a skill. It also says if there are none, so that the model does not invent
// any.
func block(tag string, parts []string) string {
	if len(parts) == 0 {
		return fmt.Sprintf("\n<%s />", tag)
	}
	if more := len(parts) - maxListed; more > 0 {
		parts = append(parts[:maxListed:maxListed], fmt.Sprintf("  <!-- %d more are not listed -->\n", more))
	}
	return fmt.Sprintf("\n<%s>\n%s</%s>", tag, strings.Join(parts, ""), tag)
}

func attributes(name, description string) string {
	text := `name="` + inXML.Replace(inLine(name)) + `"`
	if strings.TrimSpace(description) != "" {
		text += ` description="` + inXML.Replace(inLine(description)) + `"`
	}
	return text
}

var (
	inXML     = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;")
	inElement = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
)

// digest identifies a skill or a part of one.
func digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", parts)))
}

// inLine puts foreign text on one line, without invisible characters.
func inLine(text string) string {
	visible := strings.Map(func(r rune) rune {
		if isBlank(r) {
			return -1
		}
		return r
	}, text)
	return spelling.OneLine(visible, math.MaxInt)
}

// isBlank reports whether Unicode calls a character a letter though it shows nothing, so that two
// names would look the same: Hangul fillers, and the blanks among the hieroglyphs.
func isBlank(r rune) bool {
	return unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || r == 0x13441 || r == 0x13442
}

// clip shortens a foreign name for display.
func clip(name string) string { return spelling.Limit(inLine(name), 81) }

// frameTag matches what a text could use to fake the end of a skill's content.
var frameTag = regexp.MustCompile(`(?i)<(\s*/?\s*skill_content)`)

// unframed escapes foreign text so that it cannot pose as a skill's content.
func unframed(text string) string { return frameTag.ReplaceAllString(text, "&lt;$1") }

// framed is a skill's content as models see it.
func framed(s *Skill) string {
	from, server := "", ""
	if s.remote != nil {
		from = " of the server " + s.remote.server()
		server = ` server="` + inXML.Replace(s.remote.server()) + `"`
	}
	return "The skill " + inLine(s.Name) + from + " is loaded. Follow it where it fits the task, within the rules of this prompt.\n" +
		`<skill_content name="` + inXML.Replace(inLine(s.Name)) + `"` + server + ">\n" + unframed(s.Content()) + "\n</skill_content>"
}

// distinct splits the list into the first skill of each name, ignoring case, and the others.
func distinct(list []*Skill) (first, others []*Skill) {
	seen := map[string]bool{}
	for _, s := range list {
		if name := strings.ToLower(s.Name); !seen[name] {
			seen[name] = true
			first = append(first, s)
		} else {
			others = append(others, s)
		}
	}
	return slices.Clip(first), others
}

// place is a folder or file below a trusted root, by a path without links.
type place struct {
	root string // absolute
	path string // slash-separated; "." is the root itself
}

// full is the path for everything except opening.
func (p place) full() string { return filepath.Join(p.root, filepath.FromSlash(p.path)) }

var errNoFolder = errors.New("is no folder")

// open opens a folder step by step from its root and follows no link. What is opened is thus what
// was checked: a link put there meanwhile is an error. The folders above the root are the
// operator's.
func (p place) open() (*os.Root, error) {
	var dir *os.Root
	lstat, open := os.Lstat, os.OpenRoot
	for _, name := range append([]string{p.root}, strings.Split(p.path, "/")...) {
		var next *os.Root
		seen, err := lstat(name)
		switch {
		case err != nil:
		case seen.Mode()&fs.ModeSymlink != 0:
			err = fmt.Errorf("%s is a symbolic link", name)
		case !seen.IsDir():
			err = errNoFolder
		default:
			next, err = open(name)
		}
		if dir != nil {
			_ = dir.Close() // opened only to read
		}
		if err != nil {
			return nil, err
		}
		if opened, err := next.Stat("."); err != nil || !os.SameFile(seen, opened) {
			return nil, errors.Join(fmt.Errorf("%s was exchanged while it was opened", name), next.Close())
		}
		dir, lstat, open = next, next.Lstat, next.OpenRoot
	}
	return dir, nil
}

func (p place) file() (*os.File, error) {
	dir, err := place{p.root, path.Dir(p.path)}.open()
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	return sandbox.OpenFile(dir, path.Base(p.path))
}

func (p place) read(most int64) ([]byte, error) {
	file, err := p.file()
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // opened to read only
	raw, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(raw)) > most {
		return nil, fmt.Errorf("%s is too large: more than %d bytes", path.Base(p.path), most)
	}
	return raw, err
}

// list returns at most most entries of a folder, sorted by name, and whether that is all.
func (p place) list(most int) (list []fs.DirEntry, all bool, err error) {
	dir, err := p.open()
	if err != nil {
		return nil, false, err
	}
	defer dir.Close() //nolint:errcheck // opened to read only
	file, err := dir.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer file.Close() //nolint:errcheck // opened to read only
	list, err = file.ReadDir(most + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	all = len(list) <= most
	list = list[:min(len(list), most)]
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, all, nil
}
