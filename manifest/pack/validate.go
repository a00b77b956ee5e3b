package pack

import (
	"archive/zip"
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/planbot-go/planbot/internal/lazy"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Limits of what Validate reads. This bot's package has 4 kB; the caps leave room for other
// people's, but not for a zip bomb.
const (
	maxPackageBytes  = 10 << 20
	maxUnpackedBytes = 20 << 20
	maxFileBytes     = 1 << 20
	maxEntries       = 200
	maxProblems      = 1000 // per file

	encrypted = 0x1 // the encryption bit of a zip entry's flags (APPNOTE 4.4.4)
)

// problem describes one fault of an app package, safe to print: manifest.json#/bots/0/botId: text.
// It is one line, without control characters from a stranger's file, and no longer than a few
// screen lines. pointer is a JSON pointer into the file, "" for the whole file.
func problem(file, pointer, format string, args ...any) string {
	if pointer != "" {
		file += "#" + pointer
	}
	line := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, file+": "+fmt.Sprintf(format, args...)))
	if len(line) > 1000 {
		return string(line[:1000]) + "…"
	}
	return string(line)
}

// Validate checks file: a package (zip), a folder with a package's files, or a manifest.json alone,
// without its icons and language files. In a folder and a manifest.json, ${{BOT_ID}} and
// ${{BOT_DOMAIN}} may stand for what [Pack] fills in. It returns one line for each problem, none for
// a valid package, and an error only if file itself cannot be read. It never uses the network: it
// has the schemas of versions 1.22, 1.25 and 1.29, and reports a problem for a manifest of another
// version.
func Validate(file string) ([]string, error) {
	problems, err := validate(file)
	if err != nil {
		return nil, fmt.Errorf("validate app package: %w", err)
	}
	slices.Sort(problems)
	return slices.Compact(problems), nil // two checks may find the same problem
}

func validate(file string) ([]string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	name := filepath.Base(file)
	switch {
	case info.IsDir():
		root, err := os.OpenRoot(file)
		if err != nil {
			return nil, err
		}
		defer root.Close() //nolint:errcheck // opened to read only
		problems, _ := checkFiles(fromFS(root.FS()).fill(sampleID, sampleDomain))
		return problems, nil
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is neither a file nor a folder", file)
	case info.Size() > maxPackageBytes:
		return []string{problem(name, "", "has %d bytes, more than %d", info.Size(), maxPackageBytes)}, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(data, []byte("PK")) && !strings.EqualFold(filepath.Ext(name), ".zip") {
		return check(name, fill(data, sampleID, sampleDomain)).problems, nil
	}
	zr, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // checkLayout reports each unsafe name
		return []string{problem(name, "", "is not a readable zip: %v", err)}, nil
	}
	if n := len(zr.File); n > maxEntries {
		return []string{problem(name, "", "has %d entries, more than %d", n, maxEntries)}, nil
	}
	problems, _ := checkFiles(fromFS(zr))
	return append(problems, checkLayout(name, zr.File)...), nil
}

// checkLayout checks a package's entries: files at the root, each once, plain, and small enough to
// unpack.
func checkLayout(pack string, entries []*zip.File) (problems []string) {
	var unpacked uint64
	seen := map[string]bool{}
	for _, e := range entries {
		note := func(text string) { problems = append(problems, problem(cmp.Or(e.Name, `""`), "", "%s", text)) }
		switch {
		case !fs.ValidPath(e.Name) || strings.ContainsAny(e.Name, `/\:`):
			note("is no plain file name: zip the files, not the folder that holds them")
		case !e.Mode().IsRegular():
			note("is not a regular file")
		case e.Flags&encrypted != 0:
			note("is encrypted")
		case e.Method != zip.Store && e.Method != zip.Deflate:
			note("is packed with a method other than store and deflate")
		}
		lower := strings.ToLower(e.Name)
		if seen[lower] {
			note("is in the zip more than once")
		}
		seen[lower] = true
		unpacked += min(e.UncompressedSize64, maxUnpackedBytes+1) // prevents overflow, whatever the zip claims
	}
	if unpacked > maxUnpackedBytes {
		problems = append(problems, problem(pack, "", "unpacks to more than %d bytes", maxUnpackedBytes))
	}
	return problems
}

// file is one of a package.
type file struct {
	name string
	data []byte
}

// checkFiles checks the manifest and the files that it names. It also returns those that it could
// read, each once, the manifest first.
func checkFiles(read reader) (problems []string, files []file) {
	take := func(name string) (data []byte, ok bool) {
		data, err := read(name)
		if err != nil {
			problems = append(problems, problem(name, "", "%v", err))
			return nil, false
		}
		if !slices.ContainsFunc(files, func(f file) bool { return f.name == name }) {
			files = append(files, file{name, data})
		}
		return data, true
	}
	doc, ok := take(manifestName)
	if !ok {
		return problems, nil
	}
	c := check(manifestName, doc)
	for _, rule := range iconRules {
		name := c.text("icons", rule.key)
		if !plainName(name, ".png") {
			continue // the manifest checks have reported it
		}
		if data, ok := take(name); ok {
			if err := checkIcon(data, rule); err != nil {
				problems = append(problems, problem(name, "", "%v", err))
			}
		}
	}
	for _, name := range c.languageFiles {
		if data, ok := take(name); ok {
			problems = append(problems, checkLanguage(name, data, c.version)...)
		}
	}
	return append(problems, c.problems...), files
}

// reader reads a file of a package. Its errors are worded for use as a problem's text.
type reader func(name string) ([]byte, error)

func fromFS(fsys fs.FS) reader {
	return func(name string) ([]byte, error) { return readCapped(fsys, name) }
}

func (r reader) fill(id, domain string) reader {
	return func(name string) ([]byte, error) {
		data, err := r(name)
		return fill(data, id, domain), err
	}
}

func fill(data []byte, id, domain string) []byte {
	data = bytes.ReplaceAll(data, []byte(idPlaceholder), []byte(id))
	return bytes.ReplaceAll(data, []byte(domainPlaceholder), []byte(domain))
}

// files has the files of a package by name.
type files map[string][]byte

func (f files) read(name string) ([]byte, error) {
	data, ok := f[name]
	switch {
	case !ok:
		return nil, errMissing
	case len(data) > maxFileBytes:
		return nil, errTooBig
	}
	return data, nil
}

var (
	errMissing = errors.New("is missing at the root of the package")
	errTooBig  = fmt.Errorf("has more than %d bytes", maxFileBytes)
)

func readCapped(fsys fs.FS, name string) (data []byte, err error) {
	info, err := fs.Stat(fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errMissing
	case err == nil && !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	var f fs.File
	if err == nil {
		f, err = fsys.Open(name)
	}
	if err == nil {
		defer f.Close()                                           //nolint:errcheck // opened to read only
		data, err = io.ReadAll(io.LimitReader(f, maxFileBytes+1)) // what a zip says of its sizes may be a lie
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case len(data) > maxFileBytes:
		return nil, errTooBig
	}
	return data, nil
}

var iconRules = []iconRule{{"color", 192, false}, {"outline", 32, true}, {"color32x32", 32, false}}

type iconRule struct {
	key     string // in the manifest's icons
	side    int    // pixels
	outline bool   // only white on transparent
}

// plainName reports whether a path is just the name of a file with that extension.
func plainName(name, ext string) bool {
	return !strings.ContainsAny(name, `/\:`) && strings.HasSuffix(strings.ToLower(name), ext)
}

// checkIcon checks the size before decoding, so a picture with a billion pixels costs nothing.
func checkIcon(data []byte, rule iconRule) error {
	head, err := png.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("is not a PNG: %w", err)
	}
	if head.Width != rule.side || head.Height != rule.side {
		return fmt.Errorf("has %d×%d pixels, the %s icon must have %d×%d", head.Width, head.Height, rule.key, rule.side, rule.side)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("is a damaged PNG: %w", err)
	}
	white, transparent := 0, 0
	for i := range rule.side * rule.side {
		x, y := i%rule.side, i/rule.side
		px := color.NRGBAModel.Convert(img.At(img.Bounds().Min.X+x, img.Bounds().Min.Y+y)).(color.NRGBA)
		switch {
		case px.A == 0:
			transparent++
		case px.R == 255 && px.G == 255 && px.B == 255: // any opacity: edges may be soft
			white++
		case rule.outline:
			return fmt.Errorf("has a pixel that is neither white nor transparent, at %d,%d: #%02X%02X%02X", x, y, px.R, px.G, px.B)
		}
	}
	switch {
	case rule.outline && (white == 0 || transparent == 0):
		return fmt.Errorf("must be white on a transparent background: %d white and %d transparent pixels", white, transparent)
	case transparent == rule.side*rule.side:
		return errors.New("is fully transparent")
	}
	return nil
}

// checker collects one JSON file's problems.
type checker struct {
	file     string
	root     object // nil if the file is not a JSON object
	problems []string

	// What a manifest says of itself.
	version       string   // "" if the schemas of that version are not known
	languageFiles []string // those with a valid name
}

func check(file string, data []byte) *checker {
	c := parse(file, data)
	if c.root != nil {
		c.checkSchema()
		c.checkRules()
		c.checkLanguages()
	}
	return c
}

func checkLanguage(file string, data []byte, version string) []string {
	c := parse(file, data)
	if c.root != nil && version != "" {
		c.validate(version, languageSchema)
	}
	return c.problems
}

// parse parses a JSON file strictly. A duplicate name or text after the document is a problem, as
// is a placeholder. A byte order mark is dropped, as Microsoft's tools do.
func parse(file string, data []byte) *checker {
	c := &checker{file: file}
	if len(data) > maxFileBytes {
		c.note("", "has %d bytes, more than %d", len(data), maxFileBytes)
		return c
	}
	var doc any
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF")), &doc); err != nil {
		c.note("", "is not JSON: %v", err)
		return c
	}
	root, ok := doc.(object)
	if !ok {
		c.note("", "is not a JSON object")
		return c
	}
	c.root = root
	for _, found := range placeholder().FindAll(data, -1) {
		c.note("", "the placeholder %s is not filled in", found)
	}
	return c
}

// placeholder matches what tools like ours fill in.
var placeholder = lazy.Regexp(`\$\{\{[^{}"]*\}\}`)

// note adds a problem, up to maxProblems.
func (c *checker) note(pointer, format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, problem(c.file, pointer, format, args...))
	}
}

// value returns the value at this path of names, or nil if there is none.
func (c *checker) value(names ...string) any {
	var v any = c.root
	for _, name := range names {
		parent, _ := v.(object)
		v = parent[name]
	}
	return v
}

func (c *checker) text(names ...string) string {
	s, _ := c.value(names...).(string)
	return s
}

// checkRules checks the rules that Microsoft's pages (app manifest reference, app package, store
// validation guidelines) document and the schema cannot express.
func (c *checker) checkRules() {
	if c.text("id") == uuid.Nil.String() { // the value of a form not yet filled in
		c.note("/id", "is the empty GUID: put in your own")
	}
	if v := c.text("version"); v != "" && !semver().MatchString(v) {
		c.note("/version", "%q is not a semantic version such as 1.0.0", v)
	}
	for _, where := range [][]string{{"version"}, {"developer", "name"}, {"name", "short"}, {"name", "full"}, {"description", "short"}, {"description", "full"}} {
		if v, isText := c.value(where...).(string); isText && strings.TrimSpace(v) == "" {
			c.note("/"+strings.Join(where, "/"), "is empty")
		}
	}
	if name, ok := c.value("name").(object); ok && name["full"] == nil {
		c.note("/name/full", "is missing")
	}
	if short := strings.TrimSpace(c.text("name", "short")); short != "" && strings.EqualFold(short, strings.TrimSpace(c.text("name", "full"))) {
		c.note("/name/full", "must differ from the short name")
	}
	for _, name := range []string{"websiteUrl", "privacyUrl", "termsOfUseUrl"} {
		if v, isText := c.value("developer", name).(string); isText {
			if u, err := url.Parse(v); err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
				c.note("/developer/"+name, "%s", notHTTPS(v))
			}
		}
	}
	for _, rule := range iconRules {
		if name, isText := c.value("icons", rule.key).(string); isText && !plainName(name, ".png") {
			c.note("/icons/"+rule.key, "%q is not the name of a PNG file at the root of the package", name)
		}
	}
	if name := c.text("icons", "color"); name != "" && name == c.text("icons", "outline") {
		c.note("/icons/outline", "is the same file as the color icon")
	}
	permissions, _ := c.value("authorization", "permissions", "resourceSpecific").([]any)
	if len(permissions) > 0 && c.text("webApplicationInfo", "id") == "" {
		c.note("/authorization/permissions/resourceSpecific", "needs webApplicationInfo with an id")
	}
	domains, _ := c.value("validDomains").([]any)
	for i, domain := range domains {
		if v, _ := domain.(string); strings.ContainsAny(v, "/ ") {
			c.note(fmt.Sprintf("/validDomains/%d", i), "%q is not a host such as example.com or *.example.com", v)
		}
	}
}

func (c *checker) checkLanguages() {
	const parent = "/localizationInfo"
	take := func(pointer string, name any) {
		switch v, isText := name.(string); {
		case !isText: // the schema says so
		case !plainName(v, ".json") || strings.EqualFold(v, manifestName):
			c.note(pointer, "%q is not the name of a JSON file at the root of the package, other than %s", v, manifestName)
		case len(c.languageFiles) == maxEntries:
			c.note(parent, "names more than %d files", maxEntries)
		case !slices.Contains(c.languageFiles, v):
			c.languageFiles = append(c.languageFiles, v)
		}
	}
	take(parent+"/defaultLanguageFile", c.value("localizationInfo", "defaultLanguageFile"))
	seen := map[string]bool{strings.ToLower(c.text("localizationInfo", "defaultLanguageTag")): true}
	more, _ := c.value("localizationInfo", "additionalLanguages").([]any)
	for i, v := range more {
		entry, _ := v.(object)
		pointer := fmt.Sprintf("%s/additionalLanguages/%d", parent, i)
		take(pointer+"/file", entry["file"])
		tag, _ := entry["languageTag"].(string)
		if tag = strings.ToLower(tag); seen[tag] {
			c.note(pointer+"/languageTag", "the language %s is there twice", tag)
		}
		seen[tag] = true
	}
}

func notGUID(s string) string {
	return fmt.Sprintf("%q is not a GUID such as 1d0f3a52-7c1e-4b5e-9a44-5b2e6c1f0a77", s)
}

func notHTTPS(s string) string {
	return fmt.Sprintf("%q is not an https address such as https://example.com/privacy", s)
}

//go:embed schemas/*/*.json
var schemas embed.FS

// The schemas of a version, by their published names.
const (
	manifestSchema = "MicrosoftTeams"
	languageSchema = "MicrosoftTeams.Localization"
)

// compiled has the schemas of each known version, compiled on first use, because that takes longer
// than everything else here.
var compiled = map[string]map[string]func() *jsonschema.Schema{
	"1.22": schemasOf("1.22"), schemaVersion: schemasOf(schemaVersion), targetedSince: schemasOf(targetedSince),
}

func schemasOf(version string) map[string]func() *jsonschema.Schema {
	return map[string]func() *jsonschema.Schema{
		manifestSchema: sync.OnceValue(func() *jsonschema.Schema { return compile(version, manifestSchema) }),
		languageSchema: sync.OnceValue(func() *jsonschema.Schema { return compile(version, languageSchema) }),
	}
}

// schemaURL is a schema's public address, the value of $schema.
func schemaURL(version, name string) string {
	return "https://developer.microsoft.com/json-schemas/teams/v" + version + "/" + name + ".schema.json"
}

// compile compiles an embedded schema. It refuses references to anything outside, so nothing is
// ever fetched. It panics if the schema is invalid, which a test would find.
func compile(version, name string) *jsonschema.Schema {
	data, err := schemas.ReadFile("schemas/v" + version + "/" + name + ".schema.json")
	var doc any
	if err == nil {
		doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(data))
	}
	if schema, ok := doc.(object); ok && name == languageSchema {
		// Its draft, 04, ignores what stands beside a $ref: the lengths of names and descriptions.
		schema["$schema"] = "https://json-schema.org/draft/2019-09/schema"
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.UseRegexpEngine(func(s string) (jsonschema.Regexp, error) {
		// Go's regexp engine has no look-ahead.
		switch s {
		case `^(?!.*[\r\n\f\b\v\u0007\t])[\S]*\.xll$`:
			// For an Excel add-in's file, it forbids control characters, all but two of which
			// [\S]* excludes anyway.
			s = `^[^\s\x07\x08\x0b]*\.xll$`
		case `^(?![nN][uU][lL]{2}$)\s*\S.*`:
			s = notEmpty // and forbids the text null
		}
		return regexp.Compile(s)
	})
	if err = cmp.Or(err, c.AddResource(schemaURL(version, name), doc)); err != nil {
		panic(err)
	}
	return c.MustCompile(schemaURL(version, name))
}

// notEmpty is a pattern of the language schemas.
const notEmpty = `\S`

// schemaForm finds the version in a schema's address, which may include a language.
var schemaForm = lazy.Regexp(`^https://developer\.microsoft\.com/(?:[a-z]{2}-[a-z]{2}/)?json-schemas/teams/v([0-9]+\.[0-9]+|DevPreview)/MicrosoftTeams\.schema\.json$`)

// checkSchema validates the document against the schema named in $schema, or else in
// manifestVersion.
func (c *checker) checkSchema() {
	address, version := c.text("$schema"), c.text("manifestVersion")
	found := schemaForm().FindStringSubmatch(address)
	switch {
	case address == "":
		c.note("/$schema", "is missing: it names the schema, such as %s", schemaURL(schemaVersion, manifestSchema))
	case found == nil:
		c.note("/$schema", "%q is not the address of a Teams schema, such as %s", address, schemaURL(schemaVersion, manifestSchema))
	default:
		if version != "" && !strings.EqualFold(version, found[1]) {
			c.note("/manifestVersion", "%q is not the version of $schema, %s", version, found[1])
		}
		version = found[1]
	}
	if version == "" {
		return
	}
	if _, known := compiled[version]; !known {
		c.note("/$schema", "is for manifest version %s, which cannot be checked here: the known versions are %s, and only the documented rules were applied",
			version, strings.Join(slices.Sorted(maps.Keys(compiled)), ", "))
		return
	}
	c.version = version
	c.validate(version, manifestSchema)
}

// validate validates the document against the schema of a known version.
func (c *checker) validate(version, schema string) {
	if fault, ok := errors.AsType[*jsonschema.ValidationError](compiled[version][schema]().Validate(c.root)); ok {
		c.noteLeaves(fault, message.NewPrinter(language.English))
	}
}

// noteLeaves notes only the innermost faults: outer ones just say that something inside is wrong.
// Faults of the patterns that every manifest meets get our own words, because a regular expression
// explains little.
func (c *checker) noteLeaves(e *jsonschema.ValidationError, p *message.Printer) {
	for _, cause := range e.Causes {
		c.noteLeaves(cause, p)
	}
	if len(e.Causes) > 0 {
		return
	}
	text := e.ErrorKind.LocalizedString(p)
	if fault, ok := e.ErrorKind.(*kind.Pattern); ok {
		switch fault.Want {
		case `^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$`:
			text = notGUID(fault.Got)
		case `^#[0-9a-fA-F]{6}$`:
			text = fmt.Sprintf("%q is not a colour such as %s", fault.Got, accentColor)
		case notEmpty:
			text = "is empty"
		case `^[Hh][Tt][Tt][Pp][Ss]?://`, `^[Hh][Tt][Tt][Pp][Ss]://`:
			text = notHTTPS(fault.Got)
		}
	}
	pointer := ""
	for _, token := range e.InstanceLocation {
		pointer += "/" + inPointer.Replace(token)
	}
	c.note(pointer, "%s", text)
}

var inPointer = strings.NewReplacer("~", "~0", "/", "~1")
