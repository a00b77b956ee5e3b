package openapi

import (
	"bytes"
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

	texts map[string][]byte // of the files, as they were read
	uses  func(method, template, id string) bool
}

// place is a value in a document.
type place struct {
	file    string
	pointer string // JSON pointer
	value   any
}

// readDocument reads a document, and checks as much of it as the operations need that are used. Its error has
// all faults that were found, with their places.
func readDocument(ctx context.Context, cfg *Config, uses func(method, template, id string) bool) (*document, error) {
	d := &document{files: map[string]any{}, texts: map[string][]byte{}, uses: uses}
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
	needed, faults := d.reach(folder, encoded, len(raw))
	if len(faults) == 0 {
		faults = d.validate(ctx, needed, encoded)
	}
	return d, d.report(faults)
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
	inYAML := map[string]func([]string) int{} // by file
	for i, fault := range faults {
		at, said, placed := strings.Cut(fault, ": ")
		if placed {
			file, pointer := d.main, at
			if strings.Contains(at, "#/") {
				file, pointer, _ = strings.Cut(at, "#")
			}
			text := d.texts[file]
			if !isJSONText(text) && inYAML[file] == nil {
				inYAML[file] = yamltext.Lines(text)
			}
			if line := lineOf(text, inYAML[file], pointer); line > 0 {
				faults[i] = fmt.Sprintf("%s: %s (line %d)", at, said, line)
			}
		}
	}
	return errors.New(strings.Join(faults, "\n"))
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

// rest is the name of what an operation has besides what is known of one that is not used.
const rest = "\x00rest"

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

// reach follows the references of the operations that are used, and returns the document with these and what
// they reach: no fault of anything else matters. It reads the files in the folder that they refer to.
func (d *document) reach(folder fs.FS, encoded map[string][]byte, size int) (cut map[string]any, faults []string) {
	root, _ := d.files[d.main].(map[string]any)
	cut = map[string]any{"paths": map[string]any{}, "info": map[string]any{"title": "-", "version": "-"}}
	for _, key := range []string{"openapi", "servers", "$self", "jsonSchemaDialect"} {
		if value, has := root[key]; has {
			cut[key] = value
		}
	}
	if value, has := root["paths"]; !has || !isObject(value) {
		cut["paths"] = value
	}
	var queue []place
	seen := map[string]bool{}
	add := func(p place) {
		if key := p.file + "#" + p.pointer; !seen[key] {
			seen[key] = true
			queue = append(queue, p)
		}
	}
	paths := place{d.main, "/paths", root["paths"]}
	templates, _ := root["paths"].(map[string]any)
	for _, template := range slices.Sorted(maps.Keys(templates)) {
		if item, used := d.usedItem(paths.child(template)); used {
			put(cut, item.pointer, item.value)
			add(item)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		deep := !walk(queue[0], false, 0, func(at place, to string) {
			file, _, err := d.target(at, to)
			if _, known := d.files[file]; err == nil && !known && folder != nil {
				d.files[file] = nil // so that it is tried once
				raw, err := readFile(folder, file, maxDocument-size)
				if size += len(raw); err == nil {
					encoded[file], err = d.parse(file, raw)
				}
				if err != nil {
					faults = append(faults, at.fault(d.main, "%s: %v", file, err))
				}
			}
			if err == nil && folder != nil && d.files[file] == nil {
				return // the file has a fault of its own
			}
			reached, err := d.hop(place{at.file, at.pointer, map[string]any{"$ref": to}}, to)
			if err == nil {
				_, err = d.follow(reached)
			}
			if err != nil {
				faults = append(faults, at.fault(d.main, "%v", err))
				return
			}
			if reached.file != d.main {
				add(reached)
				return
			}
			whole := d.around(reached)
			put(cut, whole.pointer, whole.value)
			add(whole)
		})
		if deep {
			faults = append(faults, queue[0].fault(d.main, "it is nested more than %d deep", maxDepth))
		}
	}
	return cut, faults
}

// usedItem is what stands under a path, as far as it is used.
func (d *document) usedItem(item place) (place, bool) {
	object, _ := item.value.(map[string]any)
	if object["$ref"] != nil || object == nil {
		return item, true
	}
	kept, used := maps.Clone(object), false
	delete(kept, "additionalOperations")
	for name, value := range object {
		operation, _ := value.(map[string]any)
		method := strings.ToUpper(name)
		switch {
		case !slices.Contains(methods, method) && !slices.Contains(otherMethods, method):
			continue
		case operation[rest] != nil:
			delete(kept, name)
			continue
		case operation == nil:
			used = true
			continue
		}
		used = true
		operation = maps.Clone(operation)
		delete(operation, "callbacks")
		delete(operation, "security") // calls carry what the operator says
		if codes := item.child(name).child("responses"); isObject(codes.value) {
			operation["responses"] = d.types(codes)
		}
		kept[name] = operation
	}
	item.value = kept
	return item, used
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

// put sets a value of a tree.
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

// validate asks the library whether the part of the document that is needed is one by the standard.
func (d *document) validate(ctx context.Context, needed map[string]any, encoded map[string][]byte) (faults []string) {
	defer func() {
		if p := recover(); p != nil { // a stranger's document must not end the program
			faults = append(faults, fmt.Sprintf("it cannot be checked: %v", p))
		}
	}()
	main, err := plainjson.Marshal(needed)
	if err != nil {
		return []string{err.Error()}
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
		return d.locate(needed, err)
	}
	options := []openapi3.ValidationOption{openapi3.EnableMultiError(), openapi3.DisableExamplesValidation(), openapi3.DisableSchemaDefaultsValidation(), openapi3.DisableSchemaPatternValidation()}
	if !d.old {
		options = append(options, openapi3.AllowExtraSiblingFields(newer...))
	}
	err = spec.Validate(ctx, options...)
	collect(err, "", &faults)
	return faults
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

// newer are fields of 3.1 and 3.2 that the library does not know, and one that is $defs by now.
var newer = []string{"definitions", "pathItems", "$self", "name", "summary", "parent", "kind", "mediaTypes", "deviceAuthorization", "prefixEncoding", "itemEncoding"}

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
		if strings.HasPrefix(err.Error(), "conflicting paths") { // requests are written here, and not routed
			return
		}
		*faults = append(*faults, spelling.OneLine(strings.TrimPrefix(at+": ", ": ")+err.Error(), maxFault))
	}
}
