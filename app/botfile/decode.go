package botfile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/planbot-go/planbot/internal/settings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/yamltext"
)

const (
	maxFile   = 1 << 20
	maxTokens = 1 << 17
	maxText   = 64 << 10 // a file of instructions
	maxSecret = 64 << 10
	maxIcon   = 1 << 20
	maxFaults = 100
)

// The types of values in a file, besides Go's own.
type (
	secret string // only from a variable or a file
	text   string // may be in a file
	folder string // an existing folder below the one of the file
	local  string // an existing file there
	icon   []byte // what is in such a file
	source string // a file there, or an address

	// value is a scalar whose rules depend on its name.
	value struct {
		text  string
		raw   string // with its variables
		whole bool   // it is one variable and nothing else
	}
)

// decoder reads a tree of YAML into Go values, and notes every fault with its line.
type decoder struct {
	known  *settings.Settings // that the file may set
	dir    string             // of the file
	lines  map[string]int     // of the keys, by their path, such as connections.crm.auth
	raw    map[string]string  // the values that have variables, by path, as they stand in the file
	faults []fault
	hidden []string // the secrets that were read
	values values   // of the variables that were read

	warnings []fault // that stop nothing
}

type fault struct {
	line int
	text string
}

func (d *decoder) fault(line int, path, format string, args ...any) {
	d.faults = append(d.faults, fault{line, strings.TrimPrefix(path+": ", ": ") + fmt.Sprintf(format, args...)})
}

// at adds a fault of what is at a path, or of the nearest thing around it.
func (d *decoder) at(path, format string, args ...any) {
	line, around := d.lines[path], path
	for line == 0 && around != "" {
		around = around[:max(strings.LastIndexByte(around, '.'), 0)]
		line = d.lines[around]
	}
	d.fault(max(line, 1), path, format, args...)
}

// err lists the faults in the order of their lines.
func (d *decoder) err(name string) error {
	slices.SortFunc(d.faults, func(a, b fault) int { return cmp.Or(cmp.Compare(a.line, b.line), strings.Compare(a.text, b.text)) })
	var all []error
	for i, f := range d.faults {
		if i == maxFaults {
			all = append(all, fmt.Errorf("%s: %d more faults", name, len(d.faults)-maxFaults))
			break
		}
		all = append(all, fmt.Errorf("%s:%d: %s", name, f.line, d.values.hide(f.text)))
	}
	return errors.Join(all...)
}

// values are the values of variables that are in the file, by name.
type values map[string]string

const minHidden = 4 // how many bytes a value has at least that can be told from the rest of a sentence

// hide replaces the values of variables in a text with their names. A value may be a secret, whatever it is
// for and wherever it is quoted.
func (v values) hide(text string) string {
	longest := slices.SortedFunc(maps.Keys(v), func(a, b string) int { return cmp.Or(len(v[b])-len(v[a]), strings.Compare(a, b)) })
	for _, name := range longest {
		value := strings.TrimSpace(v[name])
		quoted := strconv.Quote(value)
		for _, shown := range []string{value, quoted[1 : len(quoted)-1]} {
			if len(shown) >= minHidden {
				text = hideCut(strings.ReplaceAll(text, shown, "${"+name+"}"), shown, name)
			}
		}
	}
	return text
}

// hideCut hides the beginning of a value whose end was cut off.
func hideCut(text, value, name string) string {
	const cut = "…"
	parts := strings.Split(text, cut)
	for i, part := range parts[:len(parts)-1] {
		for n := len(value); n >= minHidden; n-- {
			if before, ok := strings.CutSuffix(part, value[:n]); ok {
				parts[i] = before + "${" + name + "}"
				break
			}
		}
	}
	return strings.Join(parts, cut)
}

// read reads a text into v, a pointer to a struct.
func (d *decoder) read(raw []byte, v any) {
	root, err := yamltext.Parse(string(raw), maxTokens, parser.AllowDuplicateMapKey())
	if wrong, ok := errors.AsType[*yamltext.Error](err); ok {
		d.fault(wrong.Line, "", "%v", wrong.Err)
		return
	}
	if root == nil {
		d.fault(1, "", "there is nothing in it")
		return
	}
	ast.Walk(visitor(d.refuse), root)
	d.node(root, "", reflect.ValueOf(v).Elem())
}

type visitor func(ast.Node)

// Visit is called for each node.
func (v visitor) Visit(n ast.Node) ast.Visitor {
	v(n)
	return v
}

// refuse notes what YAML can do and this file must not.
func (d *decoder) refuse(n ast.Node) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		d.fault(lineOf(n), "", "anchors, aliases and merged keys are not allowed: write it out")
	case *ast.TagNode:
		d.fault(lineOf(n), "", "tags are not allowed")
	}
}

func lineOf(n ast.Node) int { return n.GetToken().Position.Line }

// node reads a node into a value of any of the types in a file. A nil pointer stays nil where there is
// nothing.
func (d *decoder) node(n ast.Node, path string, into reflect.Value) {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		return // refuse has told
	case *ast.NullNode:
		d.fault(lineOf(n), path, "has no value")
		return
	}
	switch to := into.Addr().Interface().(type) {
	case *text:
		if name, ok := d.fileOf(n, path, maxText); ok {
			*to = text(name)
			return
		}
	case *secret:
		d.secret(n, path, to)
		return
	case *rule:
		if name, ok := yamltext.Text(n); ok {
			to.name = name
			return
		}
	}
	switch kind := into.Kind(); {
	case kind == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		d.node(n, path, into.Elem())
	case kind == reflect.Struct && into.Type() != reflect.TypeFor[value]() && into.Type() != reflect.TypeFor[netip.Prefix]():
		d.object(n, path, into)
	case kind == reflect.Map:
		d.table(n, path, into)
	case kind == reflect.Slice && into.Type() != reflect.TypeFor[icon]():
		d.list(n, path, into)
	default:
		d.scalar(n, path, into)
	}
}

// entries are those of a mapping, each key once, in their order.
func (d *decoder) entries(n ast.Node, path string) (all []*ast.MappingValueNode) {
	mapping, ok := n.(*ast.MappingNode)
	if !ok {
		d.fault(lineOf(n), path, "want names and values, have %s", kindOf(n))
		return nil
	}
	seen := map[string]int{}
	for _, entry := range mapping.Values {
		name, ok := yamltext.Text(entry.Key)
		line := lineOf(entry.Key)
		switch {
		case !ok || name == "":
			if _, merged := entry.Key.(*ast.MergeKeyNode); !merged {
				d.fault(line, path, "a key has to be a plain text")
			}
		case strings.Contains(name, "${"):
			d.fault(line, path, "variables stand in values only, not in the key %q", spelling.Clip(name))
		case seen[name] > 0:
			d.fault(line, join(path, name), "is given twice, in line %d and in line %d", seen[name], line)
		default:
			seen[name] = line
			d.lines[join(path, name)] = line
			all = append(all, entry)
		}
	}
	return all
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// object reads a mapping into a struct, whose tags name the keys.
func (d *decoder) object(n ast.Node, path string, into reflect.Value) {
	fields := map[string]reflect.Value{}
	for field, v := range into.Fields() {
		if key := field.Tag.Get("yaml"); key != "" {
			fields[key] = v
		}
	}
	known := slices.Sorted(maps.Keys(fields))
	for _, entry := range d.entries(n, path) {
		name, _ := yamltext.Text(entry.Key)
		field, ok := fields[name]
		switch {
		case ok:
			d.node(entry.Value, join(path, name), field)
		default:
			hint := "; there are " + strings.Join(known, ", ")
			if meant := spelling.Meant(name, known); meant != "" {
				hint = "; did you mean " + meant + "?"
			}
			d.fault(lineOf(entry.Key), path, "there is no key %q%s", spelling.Clip(name), hint)
		}
	}
}

// table reads a mapping with names that somebody chose.
func (d *decoder) table(n ast.Node, path string, into reflect.Value) {
	into.Set(reflect.MakeMap(into.Type()))
	for _, entry := range d.entries(n, path) {
		name, _ := yamltext.Text(entry.Key)
		v := reflect.New(into.Type().Elem()).Elem()
		d.node(entry.Value, join(path, name), v)
		into.SetMapIndex(reflect.ValueOf(name), v)
	}
}

func (d *decoder) list(n ast.Node, path string, into reflect.Value) {
	sequence, ok := n.(*ast.SequenceNode)
	switch {
	case !ok:
		d.fault(lineOf(n), path, "want a list, have %s", kindOf(n))
		return
	case len(sequence.Values) == 0:
		d.fault(lineOf(n), path, "is an empty list")
		return
	}
	for i, each := range sequence.Values {
		v := reflect.New(into.Type().Elem()).Elem()
		at := fmt.Sprintf("%s.%d", path, i+1)
		d.lines[at] = lineOf(each)
		d.node(each, at, v)
		into.Set(reflect.Append(into, v))
	}
}

func (d *decoder) scalar(n ast.Node, path string, into reflect.Value) {
	raw, ok := yamltext.Text(n)
	if !ok {
		d.fault(lineOf(n), path, "want one value, have %s", kindOf(n))
		return
	}
	line := lineOf(n)
	have, whole, ok := d.expand(line, path, raw)
	if !ok {
		return
	}
	if have != raw {
		d.raw[path] = raw
	}
	said := func(what string) {
		if have == raw { // else it came from a variable, and may be a secret
			what = fmt.Sprintf("%q is not %s", spelling.Clip(raw), what)
		} else {
			what = "the value of its variable is not " + what
		}
		d.fault(line, path, "%s", what)
	}
	var err error
	switch to := into.Addr().Interface().(type) {
	case *value:
		*to = value{have, raw, whole}
	case *int:
		if *to, err = strconv.Atoi(have); err != nil {
			said("a whole number")
		}
	case *bool:
		if have != "true" && have != "false" {
			said("true or false")
		}
		*to = have == "true"
	case *time.Duration:
		if *to, err = time.ParseDuration(have); err != nil || *to <= 0 {
			said("a duration such as 30s or 5m")
		}
	case *netip.Prefix:
		if *to, err = netip.ParsePrefix(have); err != nil {
			said("a network such as 10.1.0.0/16")
		}
	case *folder:
		*to = folder(d.local(line, path, raw, have, true))
	case *local:
		*to = local(d.local(line, path, raw, have, false))
	case *source:
		if *to = source(have); !strings.Contains(have, "://") {
			*to = source(d.local(line, path, raw, have, false))
		}
	case *icon:
		if name := d.local(line, path, raw, have, false); name != "" {
			*to = d.contents(line, path, name, maxIcon)
		}
	default:
		into.SetString(have)
	}
}

// secret reads a value that must not be written in the file.
func (d *decoder) secret(n ast.Node, path string, to *secret) {
	if file, ok := d.fileOf(n, path, maxSecret); ok {
		*to = secret(strings.TrimSpace(file))
	} else if raw, ok := yamltext.Text(n); !ok {
		d.fault(lineOf(n), path, "want a variable such as ${NAME}, or a file, have %s", kindOf(n))
		return
	} else if !onlyVariable.MatchString(raw) {
		d.fault(lineOf(n), path, "%s", literalSecret)
		return
	} else if have, _, ok := d.expand(lineOf(n), path, raw); ok {
		*to = secret(have)
	} else {
		return
	}
	if *to != "" {
		d.hidden = append(d.hidden, string(*to))
	}
}

const literalSecret = "is a secret, which must not be in this file: name a variable, as ${NAME}, or a file, as {file: NAME}"

// onlyVariable matches a value that is a variable and nothing else, without a default.
var onlyVariable = regexp.MustCompile(`^\$\{[A-Za-z_][A-Za-z0-9_]*(:-)?\}$`)

// fileOf reads the file that {file: NAME} names. It reports whether the node is such a mapping.
func (d *decoder) fileOf(n ast.Node, path string, most int64) (contents string, ok bool) {
	mapping, ok := n.(*ast.MappingNode)
	if !ok {
		return "", false
	}
	var in struct {
		File value `yaml:"file"`
	}
	before := len(d.faults)
	d.object(mapping, path, reflect.ValueOf(&in).Elem())
	line, name := lineOf(n), in.File.text
	switch {
	case len(d.faults) > before:
		return "", true
	case name == "":
		d.fault(line, path, "names no file")
		return "", true
	case !in.File.whole || !filepath.IsAbs(name): // an operator's variable may name any file
		if name = d.local(line, path, in.File.raw, name, false); name == "" {
			return "", true
		}
	}
	return string(d.contents(line, path, name, most)), true
}

// local returns where a file or a folder is that the file names, as raw with its variables; "" if that is
// a fault.
func (d *decoder) local(line int, path, raw, name string, isDir bool) string {
	slashed := strings.ReplaceAll(name, `\`, "/")
	switch {
	case filepath.IsAbs(name) || strings.HasPrefix(slashed, "/") || len(name) > 1 && name[1] == ':':
		d.fault(line, path, "is an absolute path: name what is beside this file or below it")
		return ""
	case slices.Contains(strings.Split(slashed, "/"), ".."):
		d.fault(line, path, "has .. in its path: name what is beside this file or below it")
		return ""
	case !filepath.IsLocal(filepath.FromSlash(name)):
		d.fault(line, path, "is not a path")
		return ""
	}
	full, shown := filepath.Join(d.dir, filepath.FromSlash(name)), strconv.Quote(spelling.Clip(name))
	if name != raw { // it came from a variable
		shown = "what its variable names"
	}
	info, err := statIn(d.dir, filepath.FromSlash(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.fault(line, path, "%s is not beside this file", shown)
		return ""
	case err != nil:
		d.fault(line, path, "%s cannot be read, or is a link that leads out of the folder of this file", shown)
		return ""
	case info.IsDir() != isDir && isDir:
		d.fault(line, path, "%s is not a folder", shown)
		return ""
	case !isDir && !info.Mode().IsRegular():
		d.fault(line, path, "%s is not a file", shown)
		return ""
	}
	return full
}

// statIn looks at a file below a folder, which no link on the way leaves.
func statIn(dir, name string) (os.FileInfo, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // nothing was written
	return root.Stat(name)
}

func (d *decoder) contents(line int, path, name string, most int64) []byte {
	raw, err := readFile(name, most)
	if err != nil {
		d.fault(line, path, "%v", err)
	}
	return raw
}

// readFile reads a regular file. The error does not repeat where it is.
func readFile(name string, most int64) ([]byte, error) {
	base := filepath.Base(name)
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() { // a pipe would block
		return nil, fmt.Errorf("%s is not a file", base)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist", base)
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read", base)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read", base)
	}
	defer func() { _ = file.Close() }() // read only
	raw, err := io.ReadAll(io.LimitReader(file, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s cannot be read", base)
	case int64(len(raw)) > most:
		return nil, fmt.Errorf("%s is larger than %d KiB", base, most>>10)
	}
	return raw, nil
}

// reference matches ${NAME}, ${NAME:-default}, $${ for a literal ${, and what looks like one of them.
var reference = regexp.MustCompile(`\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([^{}]*))?\}|\$\{`)

// expand puts the values of variables into a text. whole says that the text is one variable.
func (d *decoder) expand(line int, path, raw string) (out string, whole, ok bool) {
	var b strings.Builder
	ok = true
	last := 0
	for _, at := range reference.FindAllStringSubmatchIndex(raw, -1) {
		b.WriteString(raw[last:at[0]])
		last = at[1]
		if raw[at[0]:at[1]] == "$${" {
			b.WriteString("${")
			continue
		}
		if at[2] < 0 {
			d.fault(line, path, "${ begins a variable, which has the form ${NAME} or ${NAME:-default}; write $${ for these characters")
			ok = false
			continue
		}
		whole = at[0] == 0 && at[1] == len(raw)
		name := raw[at[2]:at[3]]
		v := os.Getenv(name)
		switch {
		case v != "":
			if !utf8.ValidString(v) {
				d.fault(line, path, "the variable %s is not UTF-8", name)
				ok = false
			}
			d.values[name] = v
		case at[4] >= 0:
			v = raw[at[6]:at[7]]
		default:
			d.fault(line, path, "the variable %s is not set; write ${%s:-} if it may be empty", name, name)
			ok = false
		}
		b.WriteString(v)
	}
	b.WriteString(raw[last:])
	return b.String(), whole, ok
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode:
		return "names and values"
	case *ast.SequenceNode:
		return "a list"
	}
	return "one value"
}
