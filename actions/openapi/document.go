package openapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/plainjson"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/yamltext"
)

const (
	maxDocument = 20 << 20 // with all its files
	maxDepth    = 200
	maxFaults   = 50   // shown
	maxFault    = 1000 // characters
	maxHops     = 50   // references that lead to references

	documentTimeout = 30 * time.Second
)

// document is an OpenAPI document with the files that it refers to.
type document struct {
	main   string         // name of the file
	origin *url.URL       // where it was read; nil: from a file
	files  map[string]any // what JSON says, numbers as json.Number, by name of the file
	old    bool           // OpenAPI 3.0, whose schemas are not quite JSON Schema

	texts  map[string][]byte             // of the files, as they were read
	lines  map[string]func([]string) int // of the files that are YAML
	uses   func(method, template, id string) bool
	broken map[string]string // why operations cannot be used, by pointer; also by that of all under a path
	faults []string          // for which operations are broken
}

// place is a value in a document.
type place struct {
	file    string
	pointer string // JSON pointer
	value   any
}

// readDocument reads a document, and checks as much of it as the operations need that are used. Operations that
// need what is wrong are broken. Its error has all faults that were found, with their places.
func readDocument(ctx context.Context, cfg *Config, uses func(method, template, id string) bool) (*document, error) {
	d := &document{
		files:  map[string]any{},
		texts:  map[string][]byte{},
		uses:   uses,
		broken: map[string]string{},
		lines:  map[string]func([]string) int{},
	}
	raw, folder, done, err := d.load(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer done()
	d.texts[d.main] = raw
	if raw, err = d.toJSON(raw); err != nil {
		return nil, err
	}
	root, err := d.split(raw)
	if err != nil {
		return nil, err
	}
	d.files[d.main] = root
	if err := d.version(root); err != nil {
		return nil, err
	}
	encoded := map[string][]byte{}
	for {
		cut := d.reach(folder, encoded, len(raw))
		if len(cut.faults) == 0 {
			d.validate(ctx, cut, encoded)
		}
		if len(cut.faults) == 0 {
			return d, nil
		}
		for _, fault := range cut.faults {
			d.faults = append(d.faults, fault.text)
		}
		// Each round breaks an operation or is the last.
		if blamed := d.blame(cut); blamed == 0 {
			return d, d.report(d.faults)
		}
	}
}

// blame marks the operations as broken that reach the place of a fault, and returns how many these are.
func (d *document) blame(cut *reached) (blamed int) {
	faults := map[string]string{} // by the part that they are in
	for _, fault := range cut.faults {
		faults[fault.part] = cmp.Or(faults[fault.part], fault.text)
	}
	for _, operation := range cut.operations {
		item := d.around(place{file: d.main, pointer: operation}).pointer
		seen := map[string]bool{item: true, operation: true}
		for queue := []string{operation, item}; len(queue) > 0; queue = queue[1:] {
			if fault := faults[queue[0]]; fault != "" {
				d.broken[operation] = d.placed(fault)
				blamed++
				break
			}
			for to := range cut.refers[queue[0]] {
				parts := []string{to}
				if strings.HasPrefix(to, "/paths/") { // with all operations under it
					parts = slices.AppendSeq(parts, maps.Keys(cut.refers))
					parts = slices.AppendSeq(parts, maps.Keys(faults))
				}
				for _, part := range parts {
					if (part == to || strings.HasPrefix(part, to+"/")) && !seen[part] {
						seen[part] = true
						queue = append(queue, part)
					}
				}
			}
		}
	}
	return blamed
}

// part is the operation that a place is in, or what it is in besides: a component, or what is under a path.
func (d *document) part(at string) string {
	if !strings.HasPrefix(at, "/") {
		return at // of another file
	}
	tokens := slices.Collect(jsontext.Pointer(at).Tokens())
	if len(tokens) > 2 && tokens[0] == "paths" {
		if method := strings.ToUpper(tokens[2]); slices.Contains(methods, method) || slices.Contains(otherMethods, method) {
			return "/paths/" + escape(tokens[1]) + "/" + tokens[2]
		}
	}
	return d.around(place{file: d.main, pointer: at}).pointer
}

// report is an error with faults and their lines; nil: there are none.
func (d *document) report(faults []string) error {
	slices.Sort(faults)
	faults = slices.Compact(faults)
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Sprintf("and %d more", more))
	}
	if len(faults) == 0 {
		return nil
	}
	for i, fault := range faults {
		faults[i] = d.placed(fault)
	}
	return errors.New(strings.Join(faults, "\n"))
}

func (d *document) placed(fault string) string {
	at, said, hasPlace := strings.Cut(fault, ": ")
	if !hasPlace {
		return fault
	}
	file, pointer := d.main, at
	if strings.Contains(at, "#/") {
		file, pointer, _ = strings.Cut(at, "#")
	}
	text := d.texts[file]
	if !isJSONText(text) && d.lines[file] == nil {
		d.lines[file] = yamltext.Lines(text)
	}
	if line := lineOf(text, d.lines[file], pointer); line > 0 {
		return fmt.Sprintf("%s: %s (line %d)", at, said, line)
	}
	return fault
}

// lineOf is the line of a value, or of the closest around it that is there; 0: it is not known.
func lineOf(text []byte, inYAML func([]string) int, pointer string) int {
	if pointer == "" || pointer[0] != '/' {
		return 0
	}
	if !isJSONText(text) {
		return inYAML(strings.Split(pointer, "/")[1:])
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	at := int64(0)
	for token := range jsontext.Pointer(pointer).Tokens() {
		open, err := dec.ReadToken()
		if err != nil || open.Kind() != '{' && open.Kind() != '[' {
			break
		}
		found := false
		for i := 0; !found; i++ {
			if next := dec.PeekKind(); next == '}' || next == ']' || next == 0 {
				break
			}
			name := strconv.Itoa(i)
			if open.Kind() == '{' {
				read, err := dec.ReadToken()
				if err != nil {
					return 0
				}
				name = read.String()
			}
			if found = name == token; found {
				at = dec.InputOffset()
				if open.Kind() == '[' {
					at += int64(len(text[at:]) - len(bytes.TrimLeft(text[at:], ", \t\r\n")))
				}
			} else if dec.SkipValue() != nil {
				return 0
			}
		}
		if !found {
			break
		}
	}
	return bytes.Count(text[:at], []byte("\n")) + 1
}

// load reads the document's own text, and opens the folder of a file. Call done when the folder is no longer
// needed.
func (d *document) load(ctx context.Context, cfg *Config) (raw []byte, folder fs.FS, done func(), err error) {
	done = func() {}
	switch {
	case strings.Contains(cfg.Document, "://"):
		raw, err = d.loadFrom(ctx, cfg)
		return raw, nil, done, err
	case cfg.FS != nil:
		d.main = path.Base(cfg.Document)
		folder, err = fs.Sub(cfg.FS, path.Dir(cfg.Document))
	default:
		d.main = filepath.Base(cfg.Document)
		var root *os.Root
		if root, err = os.OpenRoot(filepath.Dir(cfg.Document)); err == nil {
			folder = root.FS()
			done = func() { _ = root.Close() }
		}
	}
	if err == nil {
		raw, err = readFile(folder, d.main, maxDocument)
	}
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	return raw, folder, done, nil
}

// loadFrom reads the document from its address.
func (d *document) loadFrom(ctx context.Context, cfg *Config) (raw []byte, err error) {
	if d.origin, err = url.Parse(cfg.Document); err != nil {
		return nil, errors.New("the address cannot be parsed") // it may have a secret in it
	}
	if err := checkServer(d.origin, cfg.Private, true); err != nil {
		return nil, err
	}
	d.main = "document"
	return fetch(ctx, d.origin, cfg.Private)
}

func readFile(folder fs.FS, name string, most int) ([]byte, error) {
	f, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return readAll(f, most)
}

func readAll(r io.Reader, most int) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && len(raw) > most {
		err = fmt.Errorf("%w: more than %d bytes", errTooLarge, most)
	}
	return raw, err
}

var errTooLarge = errors.New("too large")

// fetch reads a document from an address, once, and follows no redirect.
func fetch(ctx context.Context, from *url.URL, private []netip.Prefix) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), http.NoBody)
	if err != nil {
		return nil, errors.New("the address cannot be parsed")
	}
	request.Header.Set("Accept", "application/json, application/yaml, */*;q=0.5")
	request.Header.Set("User-Agent", userAgent)
	transport := connections.Dialer{Private: private}.Transport()
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("read from %s: %w", from.Host, err)
	}
	defer func() { _ = response.Body.Close() }()
	if location, err := response.Location(); err == nil {
		return nil, fmt.Errorf("%s redirects to %s, which is not followed: name that address instead", from.Host, location.Host)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %d", from.Host, response.StatusCode)
	}
	return readAll(response.Body, maxDocument)
}

func isJSONText(raw []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n\ufeff"), []byte("{"))
}

// toJSON is a file as JSON, without checks.
func (d *document) toJSON(raw []byte) ([]byte, error) {
	if !isJSONText(raw) {
		return yamltext.JSON(raw)
	}
	return bytes.TrimPrefix(raw, []byte("\ufeff")), nil
}

// parse adds a file from JSON or YAML, and returns its JSON.
func (d *document) parse(name string, raw []byte) ([]byte, error) {
	d.texts[name] = raw
	raw, err := d.toJSON(raw)
	if err != nil {
		return nil, err
	}
	if _, err := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowInvalidUTF8(true)).ReadValue(); err != nil && errors.Is(err, jsontext.ErrDuplicateName) {
		return nil, syntaxFault(err)
	}
	tree, err := decode(raw)
	if err != nil {
		return nil, err
	}
	if _, isObject := tree.(map[string]any); !isObject {
		return nil, errors.New("it is no object")
	}
	d.files[name] = tree
	return raw, nil
}

// syntaxFault says where a text is no JSON.
func syntaxFault(err error) error {
	wrong, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case ok && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Errorf("%s: it is given twice", wrong.JSONPointer) // people would read one, and programs another
	case ok && wrong.JSONPointer != "":
		return fmt.Errorf("%s: %w", wrong.JSONPointer, wrong.Err)
	}
	return err
}

// later is a part of a document that is decoded when it is needed.
type later []byte

const rest = "\x00rest" // the name of what an operation has besides what is known of one that is not used

// split decodes what is always needed of a document: the names of its operations, and those that are used. The
// others, and all components, are decoded when something refers to them, because few of a large document are.
func (d *document) split(raw []byte) (map[string]any, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowInvalidUTF8(true))
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return nil, syntaxFault(err)
		}
		return nil, errors.New("it is no object")
	}
	root, err := d.members(dec, raw, func(name string) (any, error) {
		switch {
		case name == "paths" && dec.PeekKind() == '{':
			return d.members(dec, raw, func(template string) (any, error) {
				if dec.PeekKind() != '{' {
					return nil, nil
				}
				return d.members(dec, raw, func(member string) (any, error) { return d.splitItem(dec, raw, template, member) })
			})
		case name == "components" && dec.PeekKind() == '{':
			return d.members(dec, raw, func(string) (any, error) {
				if dec.PeekKind() != '{' {
					return nil, nil
				}
				return d.members(dec, raw, func(string) (any, error) { return valueOf(dec, raw, true) })
			})
		}
		return valueOf(dec, raw, !slices.Contains([]string{"openapi", "swagger", "info", "servers", "paths", "$self", "jsonSchemaDialect"}, name))
	})
	if err != nil {
		return nil, syntaxFault(err)
	}
	if dec.PeekKind() != 0 {
		return nil, errors.New("there is more after the end")
	}
	return root, nil
}

// members reads an object. value reads the value of a member; if it has left it, that is decoded.
func (d *document) members(dec *jsontext.Decoder, raw []byte, value func(name string) (any, error)) (map[string]any, error) {
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	all := map[string]any{}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		name, before := token.String(), dec.InputOffset()
		one, err := value(name)
		if err == nil && dec.InputOffset() == before {
			one, err = valueOf(dec, raw, false)
		}
		if err != nil {
			return nil, err
		}
		all[name] = one
	}
	_, err := dec.ReadToken()
	return all, err
}

func valueOf(dec *jsontext.Decoder, raw []byte, isLater bool) (any, error) {
	value, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	end := dec.InputOffset()
	text := raw[end-int64(len(value)) : end]
	if isLater {
		return later(text), nil
	}
	return decode(text)
}

// splitItem reads a member of what is under a path.
func (d *document) splitItem(dec *jsontext.Decoder, raw []byte, template, member string) (any, error) {
	method := strings.ToUpper(member)
	isMethod := strings.ToLower(member) == member && (slices.Contains(methods, method) || slices.Contains(otherMethods, method))
	if !isMethod || dec.PeekKind() != '{' {
		return valueOf(dec, raw, false)
	}
	value, err := valueOf(dec, raw, true)
	if err != nil {
		return nil, err
	}
	text, _ := value.(later)
	known, inner := map[string]any{}, jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowInvalidUTF8(true))
	_, _ = inner.ReadToken() // it was read before
	for inner.PeekKind() == '"' {
		name, _ := inner.ReadToken()
		if key := name.String(); key == "operationId" || key == "servers" {
			known[key], _ = valueOf(inner, text, false)
		} else {
			_ = inner.SkipValue()
		}
	}
	if id, _ := known["operationId"].(string); d.uses(method, template, id) {
		return decode(text)
	}
	known[rest] = text
	return known, nil
}

// needed is a member of an object of a document, decoded.
func needed(holder map[string]any, name string) (any, bool) {
	if text, ok := holder[rest].(later); ok && holder[name] == nil {
		whole, _ := decode(text) // it was read before
		object, _ := whole.(map[string]any)
		delete(holder, rest)
		maps.Copy(holder, object)
	}
	value, ok := holder[name]
	if text, isLater := value.(later); isLater {
		value, _ = decode(text)
		holder[name] = value
	}
	return value, ok
}

// decode reads JSON, with numbers as they are written.
func decode(raw []byte) (value any, err error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the end")
	}
	return value, nil
}

var versions = regexp.MustCompile(`^3\.[012](\.[0-9]+)?$`)

func (d *document) version(root map[string]any) error {
	if version, has := root["swagger"]; has {
		return fmt.Errorf("/swagger: Swagger %v is not supported: convert the document to OpenAPI 3", version)
	}
	version, isText := root["openapi"].(string)
	if !isText || !versions.MatchString(version) {
		return fmt.Errorf("/openapi: want 3.0, 3.1 or 3.2, as text, got %v", root["openapi"])
	}
	d.old = strings.HasPrefix(version, "3.0")
	return nil
}

// reached is a document with the operations that are used, and what they reach.
type reached struct {
	tree       map[string]any
	operations []string                   // pointers
	refers     map[string]map[string]bool // from parts to parts, see [document.part]
	moved      map[string]string          // places under paths that something refers to, and where the tree has them
	faults     []fault
}

// fault is a fault in a part of a document.
type fault struct{ part, text string }

// reach follows the references of the operations that are used: no fault of anything else matters. It reads the
// files in the folder that they refer to.
func (d *document) reach(folder fs.FS, encoded map[string][]byte, size int) *reached {
	root, _ := d.files[d.main].(map[string]any)
	cut := &reached{refers: map[string]map[string]bool{}, moved: map[string]string{}}
	cut.tree = map[string]any{"paths": map[string]any{}, "info": map[string]any{"title": "-", "version": "-"}}
	for _, key := range []string{"openapi", "$self", "jsonSchemaDialect"} {
		if value, has := root[key]; has {
			cut.tree[key] = value
		}
	}
	if value, has := root["paths"]; !has || !isObject(value) {
		cut.tree["paths"] = value
	}
	type next struct {
		place
		part string // "": that of each place in it
	}
	var queue []next
	seen := map[string]bool{}
	add := func(p place, part string) {
		if key := p.file + "#" + p.pointer; !seen[key] {
			seen[key] = true
			queue = append(queue, next{p, part})
		}
	}
	refers := func(from, to string) {
		if cut.refers[from] == nil {
			cut.refers[from] = map[string]bool{}
		}
		cut.refers[from][to] = true
	}
	paths := place{d.main, "/paths", root["paths"]}
	templates, _ := root["paths"].(map[string]any)
	for _, template := range slices.Sorted(maps.Keys(templates)) {
		if !strings.HasPrefix(template, "/") {
			continue // an extension, or it is listed as unusable
		}
		if item := d.usedItem(paths.child(template), &cut.operations); item.value != nil {
			put(cut.tree, item.pointer, item.value)
			add(item, "")
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		deep := !walk(queue[0].place, false, 0, func(at place, to string) {
			from := cmp.Or(queue[0].part, d.part(at.pointer))
			bad := func(format string, args ...any) {
				cut.faults = append(cut.faults, fault{from, at.fault(d.main, format, args...)})
			}
			file, _, err := d.target(at, to)
			if _, known := d.files[file]; err == nil && !known && folder != nil {
				d.files[file] = nil // so that it is tried once
				raw, err := readFile(folder, file, maxDocument-size)
				if size += len(raw); err == nil {
					encoded[file], err = d.parse(file, raw)
				}
				if err != nil {
					bad("%s: %v", file, err)
				}
			}
			if err == nil && folder != nil && d.files[file] == nil {
				return // the file has a fault of its own
			}
			target, err := d.hop(place{at.file, at.pointer, map[string]any{"$ref": to}}, to)
			if err == nil {
				_, err = d.follow(target)
			}
			if err != nil {
				bad("%v", err)
				return
			}
			if target.file != d.main {
				part := target.file + "#" + target.pointer
				refers(from, part)
				add(target, part)
				return
			}
			if section := sectionOf(target.pointer); section != "" && at.file == d.main {
				name := cut.moved[target.pointer]
				if name == "" {
					name = fmt.Sprintf("/components/%s/place.%d", section, len(cut.moved))
					cut.moved[target.pointer] = name
					put(cut.tree, name, target.value)
				}
				refers(from, name)
				add(target, name)
				return
			}
			whole := d.around(target)
			refers(from, whole.pointer)
			put(cut.tree, whole.pointer, whole.value)
			add(whole, "")
		})
		if deep {
			p := queue[0]
			cut.faults = append(cut.faults, fault{cmp.Or(p.part, d.part(p.pointer)), p.fault(d.main, "it is nested more than %d deep", maxDepth)})
		}
	}
	return cut
}

// sectionOf is the section of components that has what stands at a place under paths; "": none has. Bundlers
// write references to where a thing stands first, which need not be in an operation that is used.
func sectionOf(pointer string) string {
	tokens := slices.Collect(jsontext.Pointer(pointer).Tokens())
	if len(tokens) < 3 || tokens[0] != "paths" {
		return ""
	}
	for i := 3; i < len(tokens); i++ {
		if tokens[i] == "schema" && !slices.Contains(named, tokens[i-1]) {
			return "schemas"
		}
	}
	switch last, before := tokens[len(tokens)-1], tokens[len(tokens)-2]; {
	case before == "parameters" || before == "responses" || before == "headers":
		return before
	case last == "requestBody":
		return "requestBodies"
	}
	return ""
}

// usedItem is what stands under a path, as far as it is used; without a value, nothing of it is. It adds the
// pointers of the operations to used.
func (d *document) usedItem(item place, used *[]string) place {
	object, _ := item.value.(map[string]any)
	if d.broken[item.pointer] != "" {
		return place{pointer: item.pointer}
	}
	if object["$ref"] != nil || object == nil {
		*used = append(*used, item.pointer)
		return item
	}
	kept, before := maps.Clone(object), len(*used)
	delete(kept, "additionalOperations")
	delete(kept, "servers") // they are read apart
	for _, name := range slices.Sorted(maps.Keys(object)) {
		operation, _ := object[name].(map[string]any)
		method, at := strings.ToUpper(name), item.child(name)
		switch {
		case !slices.Contains(methods, method) && !slices.Contains(otherMethods, method):
			continue
		case operation[rest] != nil, d.broken[at.pointer] != "":
			delete(kept, name)
			continue
		}
		*used = append(*used, at.pointer)
		if operation == nil {
			continue
		}
		operation = maps.Clone(operation)
		for _, unused := range []string{"callbacks", "security", "servers"} { // calls carry what the operator says
			delete(operation, unused)
		}
		if codes := at.child("responses"); isObject(codes.value) {
			operation["responses"] = d.types(codes)
		}
		kept[name] = operation
	}
	if item.value = kept; len(*used) == before {
		item.value = nil
	}
	return item
}

// types are the answers of an operation, of which only the types matter.
func (d *document) types(codes place) map[string]any {
	all := map[string]any{}
	object, _ := codes.value.(map[string]any)
	for code := range object {
		if strings.HasPrefix(code, "x-") {
			continue
		}
		content := map[string]any{}
		if answer, err := d.follow(codes.child(code)); err == nil {
			types, _ := answer.child("content").value.(map[string]any)
			for mediaType := range types {
				content[mediaType] = map[string]any{}
			}
		}
		all[code] = map[string]any{"description": "", "content": content}
	}
	return all
}

// around is the part of the document's main file that a place is in: a component, what is under a path, or
// what is at its top.
func (d *document) around(p place) place {
	tokens := slices.Collect(jsontext.Pointer(p.pointer).Tokens())
	most := map[string]int{"components": 3, "paths": 2}
	if len(tokens) > 0 {
		tokens = tokens[:min(len(tokens), max(1, most[tokens[0]]))]
	}
	whole := place{d.main, "", d.files[d.main]}
	for _, token := range tokens {
		whole = whole.child(token)
	}
	return whole
}

func put(tree map[string]any, pointer string, value any) {
	tokens := slices.Collect(jsontext.Pointer(pointer).Tokens())
	if len(tokens) == 0 {
		return
	}
	for _, token := range tokens[:len(tokens)-1] {
		inner, isObject := tree[token].(map[string]any)
		if !isObject {
			inner = map[string]any{}
			tree[token] = inner
		}
		tree = inner
	}
	if object, isObject := value.(map[string]any); isObject && object[rest] == nil {
		for name, one := range object {
			if operation, _ := one.(map[string]any); operation[rest] != nil {
				object = maps.Clone(object)
				delete(object, name)
			}
		}
		value = object
	}
	tree[tokens[len(tokens)-1]] = value
}

func (p place) fault(main, format string, args ...any) string {
	at := p.pointer
	if p.file != main {
		at = p.file + "#" + at
	}
	return spelling.OneLine(at+": "+fmt.Sprintf(format, args...), maxFault)
}

// named are keywords whose members have names of the author's, so that a member "example" is no example.
var named = []string{
	"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "schemas", "parameters", "headers", "responses", "requestBodies",
	"pathItems", "paths", "callbacks", "links", "securitySchemes", "webhooks", "content", "encoding", "variables", "additionalOperations", "examples",
}

// data are keywords whose values are no part of the document, whatever they look like.
var data = []string{"example", "default", "enum", "const", "value", "mapping", "security"}

// walk calls f for each reference, at the place of the object that has it. It returns false if the document
// is too deep. names says that the members of an object have names of the author's.
func walk(at place, names bool, depth int, f func(at place, to string)) bool {
	if depth > maxDepth {
		return false
	}
	switch value := at.value.(type) {
	case map[string]any:
		if to, isText := value["$ref"].(string); isText && !names {
			f(at, to)
		}
		if to, isText := value["$dynamicRef"].(string); isText && !names && !strings.HasPrefix(to, "#") {
			f(at, to)
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			_, isList := value[key].([]any)
			if !names && (strings.HasPrefix(key, "x-") || slices.Contains(data, key) || key == "examples" && isList) {
				continue
			}
			if !walk(at.child(key), !names && slices.Contains(named, key), depth+1, f) {
				return false
			}
		}
	case []any:
		for i := range value {
			if !walk(place{at.file, fmt.Sprintf("%s/%d", at.pointer, i), value[i]}, false, depth+1, f) {
				return false
			}
		}
	}
	return true
}

// target says to which file and place a reference leads. Only files in the document's own folder will do.
func (d *document) target(at place, to string) (file, pointer string, err error) {
	u, err := url.Parse(to)
	if err != nil {
		return "", "", fmt.Errorf("the reference %q cannot be parsed", spelling.Clip(to))
	}
	file = strings.TrimPrefix(u.Path, "./")
	switch {
	case u.Scheme != "" || u.Host != "" || u.Opaque != "" || u.User != nil || u.RawQuery != "", file != path.Base(file) && file != "", file == "..", strings.Contains(file, `\`):
		return "", "", fmt.Errorf("the reference %q leads out of the document's folder, where nothing is read", spelling.Clip(to))
	case file == "":
		file = at.file
	case d.origin != nil:
		return "", "", fmt.Errorf("the reference %q leads out of the document, which is from an address: put it into one file", spelling.Clip(to))
	}
	if u.Fragment != "" && !strings.HasPrefix(u.Fragment, "/") {
		return "", "", fmt.Errorf("the reference %q is to an anchor: want a JSON pointer", spelling.Clip(to))
	}
	return file, u.Fragment, nil
}

// follow returns what a place has: if that is a reference, what it refers to.
func (d *document) follow(p place) (place, error) {
	first, isText := "", false
	for range maxHops {
		object, _ := p.value.(map[string]any)
		to, refers := object["$ref"].(string)
		if !refers {
			return p, nil
		}
		if !isText {
			first, isText = to, true
		}
		var err error
		if p, err = d.hop(p, to); err != nil {
			return place{}, err
		}
	}
	return place{}, fmt.Errorf("the reference %q leads to itself", spelling.Clip(first))
}

// hop is the place that a reference leads to.
func (d *document) hop(p place, to string) (place, error) {
	file, pointer, err := d.target(p, to)
	if err != nil {
		return place{}, err
	}
	p = place{file, pointer, d.files[file]}
	for token := range jsontext.Pointer(pointer).Tokens() {
		value, ok := member(p.value, token)
		if !ok {
			return place{}, fmt.Errorf("the reference %q leads nowhere", spelling.Clip(to))
		}
		p.value = value
	}
	if p.value == nil {
		return place{}, fmt.Errorf("the reference %q leads nowhere", spelling.Clip(to))
	}
	return p, nil
}

// member is the value at one token of a JSON pointer.
func member(value any, token string) (any, bool) {
	switch holder := value.(type) {
	case map[string]any:
		return needed(holder, token)
	case []any:
		var i int
		if _, err := fmt.Sscanf(token, "%d", &i); err == nil && fmt.Sprint(i) == token && i >= 0 && i < len(holder) {
			return holder[i], true
		}
	}
	return nil, false
}

// child is a member of an object; its value is nil if there is none.
func (p place) child(key string) place {
	object, _ := p.value.(map[string]any)
	value := object[key]
	if _, isLater := value.(later); isLater {
		value, _ = needed(object, key)
	}
	return place{p.file, p.pointer + "/" + escape(key), value}
}

// escape writes a name as a token of a JSON pointer.
func escape(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

func (p place) text(key string) string {
	text, _ := p.child(key).value.(string)
	return text
}

func (p place) is(key string) bool {
	is, _ := p.child(key).value.(bool)
	return is
}

// unread are members that no call depends on: what is wrong with them does not matter.
var unread = []string{"example", "examples", "externalDocs", "xml", "tags", "links", "callbacks", "discriminator", "deprecated"}

// without copies a part of a document without what is not read, and has references lead to what was moved. names
// says that the members have names of the author's.
func (d *document) without(cut *reached, value any, names bool) any {
	switch value := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(value))
		for key, one := range value {
			switch {
			case !names && (strings.HasPrefix(key, "x-") || slices.Contains(unread, key)):
			case !names && slices.Contains(data, key):
				out[key] = one
			case !names && key == "$ref":
				to, _ := one.(string)
				_, pointer, err := d.target(place{file: d.main}, to)
				if name := cut.moved[pointer]; name != "" && err == nil {
					one = "#" + name
				}
				out[key] = one
			default:
				out[key] = d.without(cut, one, !names && slices.Contains(named, key))
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, one := range value {
			out[i] = d.without(cut, one, false)
		}
		return out
	}
	return value
}

// validate asks the library whether the part of the document that is needed is one by the standard.
func (d *document) validate(ctx context.Context, cut *reached, encoded map[string][]byte) {
	var faults []string
	defer func() {
		if p := recover(); p != nil { // a stranger's document must not end the program
			faults = append(faults, fmt.Sprintf("it cannot be checked: %v", p))
		}
		for _, text := range faults {
			at, _, _ := strings.Cut(text, ": ")
			part := d.part(at)
			for place, name := range cut.moved {
				if below, inside := strings.CutPrefix(text, name); inside && strings.IndexAny(below, "/:") == 0 {
					text = place + below
				}
				text = strings.ReplaceAll(text, `"#`+name+`"`, `"#`+place+`"`)
			}
			cut.faults = append(cut.faults, fault{part, text})
		}
	}()
	needed, _ := d.without(cut, cut.tree, false).(map[string]any)
	main, err := plainjson.Marshal(needed)
	if err != nil {
		faults = append(faults, err.Error())
		return
	}
	encoded[d.main] = main
	loader := openapi3.NewLoader()
	loader.Context = ctx
	loader.ReadFromURIFunc = func(_ *openapi3.Loader, location *url.URL) ([]byte, error) {
		if raw, ok := encoded[path.Base(location.Path)]; ok && location.Host == "" {
			return raw, nil
		}
		return nil, errors.New("a reference leads out of the document's folder")
	}
	spec, err := loader.LoadFromDataWithPath(main, &url.URL{Path: "/" + d.main})
	if err != nil {
		faults = d.locate(needed, err)
		return
	}
	err = spec.Validate(
		ctx,
		openapi3.EnableMultiError(),
		openapi3.DisableExamplesValidation(),
		openapi3.DisableSchemaDefaultsValidation(),
		openapi3.DisableSchemaPatternValidation(),
	)
	collect(err, "", &faults)
}

// locate finds the places of what the library cannot load, of which its error says only what is wrong.
func (d *document) locate(needed map[string]any, err error) (faults []string) {
	said := spelling.OneLine(err.Error(), maxFault)
	for key, value := range needed {
		walk(place{d.main, "/" + escape(key), value}, slices.Contains(named, key), 0, func(at place, to string) {
			if strings.Contains(said, strconv.Quote(to)) { // it is of another kind than is wanted here
				faults = append(faults, at.fault(d.main, "%s", said))
			}
		})
	}
	if faults != nil {
		return faults
	}
	var visit func(p place, names bool) bool // it reports whether a fault was found
	visit = func(p place, names bool) (found bool) {
		switch value := p.value.(type) {
		case []any:
			for i, one := range value {
				found = visit(place{p.file, fmt.Sprintf("%s/%d", p.pointer, i), one}, false) || found
			}
		case map[string]any:
			for name := range value {
				if names || !strings.HasPrefix(name, "x-") && !slices.Contains(data, name) {
					found = visit(p.child(name), !names && slices.Contains(named, name)) || found
				}
			}
			if found || names {
				return found
			}
			var wrong error
			raw, _ := plainjson.Marshal(value)
			if key := p.pointer[strings.LastIndex(p.pointer, "/")+1:]; slices.Contains(methods, strings.ToUpper(key)) && strings.HasPrefix(p.pointer, "/paths/") {
				wrong = json.Unmarshal(raw, &openapi3.Operation{})
			} else if value["in"] != nil && value["name"] != nil {
				wrong = json.Unmarshal(raw, &openapi3.ParameterRef{})
			} else if value["content"] == nil && value["in"] == nil {
				wrong = json.Unmarshal(raw, &openapi3.SchemaRef{})
			}
			if wrong != nil {
				faults = append(faults, p.fault(d.main, "%v", wrong))
				return true
			}
		}
		return found
	}
	visit(place{d.main, "", needed}, true)
	if faults == nil {
		faults = []string{said}
	}
	return faults
}

// forgiven are faults by the standard that are none here: requests are written and not routed, whether the
// parameters of a path are there is judged with its query, and fields that are not known are not read.
var forgiven = []string{"conflicting paths", "must define exactly all path parameters", "extra sibling fields: "}

// collect lists the library's errors, with their places as far as it tells them.
func collect(err error, at string, faults *[]string) {
	switch e := err.(type) { //nolint:errorlint // each layer is looked at by itself
	case nil:
	case openapi3.MultiError:
		for _, one := range e {
			collect(one, at, faults)
		}
	case *openapi3.SectionValidationError:
		collect(e.Cause, "/"+e.Section, faults)
	case *openapi3.PathValidationError:
		collect(e.Cause, at+"/"+escape(e.Path), faults)
	case *openapi3.OperationValidationError:
		collect(e.Cause, at+"/"+strings.ToLower(e.Method), faults)
	case *openapi3.ComponentValidationError:
		words := strings.Fields(e.Section)
		for i := range words[1:] {
			words[i+1] = strings.ToUpper(words[i+1][:1]) + words[i+1][1:]
		}
		section := strings.TrimSuffix(strings.Join(words, ""), "y")
		section += map[bool]string{true: "ies", false: "s"}[section != strings.Join(words, "")]
		collect(e.Cause, at+"/"+section+"/"+escape(e.Name), faults)
	case *openapi3.DuplicateOperationIDError: // found with their places
	default:
		if slices.ContainsFunc(forgiven, func(text string) bool { return strings.Contains(err.Error(), text) }) {
			return
		}
		*faults = append(*faults, spelling.OneLine(strings.TrimPrefix(at+": ", ": ")+err.Error(), maxFault))
	}
}
