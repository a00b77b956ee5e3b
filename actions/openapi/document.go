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
	"strings"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/spelling"
	"github.com/planbot-go/planbot/internal/yamltext"
)

const (
	maxDocument = 4 << 20 // with all its files
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
}

// place is a value in a document.
type place struct {
	file    string
	pointer string // JSON pointer
	value   any
}

// readDocument reads and checks a document. Its error has all faults that were found, with their places.
func readDocument(ctx context.Context, cfg *Config) (*document, error) {
	d := &document{files: map[string]any{}}
	raw, folder, done, err := d.load(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer done()
	encoded := map[string][]byte{}
	if encoded[d.main], err = d.parse(d.main, raw); err != nil {
		return nil, err
	}
	root, _ := d.files[d.main].(map[string]any)
	if err := d.version(root); err != nil {
		return nil, err
	}
	faults := d.readReferences(folder, encoded, len(raw))
	if len(faults) == 0 {
		faults = d.validate(ctx, encoded)
	}
	slices.Sort(faults)
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], fmt.Sprintf("and %d more", more))
	}
	if len(faults) > 0 {
		return nil, errors.New(strings.Join(faults, "\n"))
	}
	return d, nil
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

// parse adds a file from JSON or YAML, and returns its JSON.
func (d *document) parse(name string, raw []byte) ([]byte, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n\ufeff"), []byte("{")) {
		var err error
		if raw, err = yamltext.JSON(raw); err != nil {
			return nil, err
		}
	}
	raw = bytes.TrimPrefix(raw, []byte("\ufeff"))
	_, err := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowInvalidUTF8(true)).ReadValue()
	if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return nil, fmt.Errorf("%s: it is given twice", wrong.JSONPointer) // people would read one, and programs another
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

// readReferences follows all references of the document, and of the files in its folder that it refers to.
func (d *document) readReferences(folder fs.FS, encoded map[string][]byte, size int) (faults []string) {
	type reference struct {
		place
		to string
	}
	var all []reference
	for queue := []string{d.main}; len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		references := func(at place, to string) {
			all = append(all, reference{at, to})
			file, _, err := d.target(at, to)
			if _, known := d.files[file]; err != nil || known {
				return
			}
			d.files[file] = nil // so that it is tried once
			if folder == nil {
				return
			}
			raw, err := readFile(folder, file, maxDocument-size)
			if size += len(raw); err == nil {
				encoded[file], err = d.parse(file, raw)
			}
			if err != nil {
				faults = append(faults, at.fault(d.main, "%s: %v", file, err))
				return
			}
			queue = append(queue, file)
		}
		if !walk(place{name, "", d.files[name]}, false, 0, references) {
			faults = append(faults, fmt.Sprintf("%s: it is nested more than %d deep", name, maxDepth))
		}
	}
	for _, r := range all {
		file, _, err := d.target(r.place, r.to)
		if err == nil && d.files[file] == nil && folder != nil {
			continue // the file has a fault of its own
		}
		if err == nil {
			_, err = d.follow(place{r.file, r.pointer, map[string]any{"$ref": r.to}})
		}
		if err != nil {
			faults = append(faults, r.fault(d.main, "%v", err))
		}
	}
	return faults
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
	}
	return place{}, fmt.Errorf("the reference %q leads to itself", spelling.Clip(first))
}

// member is the value at one token of a JSON pointer.
func member(value any, token string) (any, bool) {
	switch holder := value.(type) {
	case map[string]any:
		inner, ok := holder[token]
		return inner, ok
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
	return place{p.file, p.pointer + "/" + escape(key), object[key]}
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

// validate asks the library whether the document is one by the standard.
func (d *document) validate(ctx context.Context, encoded map[string][]byte) (faults []string) {
	defer func() {
		if p := recover(); p != nil { // a stranger's document must not end the program
			faults = append(faults, fmt.Sprintf("it cannot be checked: %v", p))
		}
	}()
	loader := openapi3.NewLoader()
	loader.Context = ctx
	loader.ReadFromURIFunc = func(_ *openapi3.Loader, location *url.URL) ([]byte, error) {
		if raw, ok := encoded[path.Base(location.Path)]; ok && location.Host == "" {
			return raw, nil
		}
		return nil, errors.New("a reference leads out of the document's folder")
	}
	spec, err := loader.LoadFromDataWithPath(encoded[d.main], &url.URL{Path: "/" + d.main})
	if err != nil {
		return []string{spelling.OneLine(err.Error(), maxFault)}
	}
	options := []openapi3.ValidationOption{openapi3.EnableMultiError(), openapi3.DisableExamplesValidation(), openapi3.DisableSchemaDefaultsValidation(), openapi3.DisableSchemaPatternValidation()}
	if !d.old {
		options = append(options, openapi3.AllowExtraSiblingFields(newer...))
	}
	err = spec.Validate(ctx, options...)
	collect(err, "", &faults)
	return slices.Compact(slices.Sorted(slices.Values(faults)))
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
		*faults = append(*faults, spelling.OneLine(strings.TrimPrefix(at+": ", ": ")+err.Error(), maxFault))
	}
}
