package manifest

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
	maxManifestBytes = 1 << 20
	maxIconBytes     = 1 << 20
	maxEntries       = 200
	maxProblems      = 1000 // per manifest

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
// without its icons. It returns one line for each problem, none for a valid package, and an error
// only if file itself cannot be read. It never uses the network: it has the schemas of versions
// 1.22 and 1.25, and reports a problem for a manifest of another version.
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
		return checkFiles(root.FS()), nil
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
		return check(name, data).problems, nil
	}
	zr, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // checkLayout reports each unsafe name
		return []string{problem(name, "", "is not a readable zip: %v", err)}, nil
	}
	if n := len(zr.File); n > maxEntries {
		return []string{problem(name, "", "has %d entries, more than %d", n, maxEntries)}, nil
	}
	return append(checkLayout(name, zr.File), checkFiles(zr)...), nil
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

// checkFiles checks the manifest and the icons that it names.
func checkFiles(fsys fs.FS) []string {
	data, err := readCapped(fsys, manifestName, maxManifestBytes)
	if err != nil {
		return []string{problem(manifestName, "", "%v", err)}
	}
	c := check(manifestName, data)
	for _, rule := range iconRules {
		name := c.text("icons", rule.key)
		if !plainName(name) {
			continue // the manifest checks have reported it
		}
		if err := checkIcon(fsys, name, rule); err != nil {
			c.problems = append(c.problems, problem(name, "", "%v", err))
		}
	}
	return c.problems
}

// readCapped reads a regular file of at most limit bytes. Its errors are worded for use as a
// problem's text.
func readCapped(fsys fs.FS, name string, limit int64) (data []byte, err error) {
	info, err := fs.Stat(fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, errors.New("is missing at the root of the package")
	case err == nil && !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	var f fs.File
	if err == nil {
		f, err = fsys.Open(name)
	}
	if err == nil {
		defer f.Close()                                    //nolint:errcheck // opened to read only
		data, err = io.ReadAll(io.LimitReader(f, limit+1)) // what a zip says of its sizes may be a lie
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("has more than %d bytes", limit)
	}
	return data, nil
}

// iconRules are the documented rules for icons.
var iconRules = []iconRule{{"color", 192, false}, {"outline", 32, true}, {"color32x32", 32, false}}

type iconRule struct {
	key     string // in the manifest's icons
	side    int    // pixels
	outline bool   // only white on transparent
}

// plainName reports whether an icon's path is just the name of a PNG file.
func plainName(name string) bool {
	return !strings.ContainsAny(name, `/\:`) && strings.HasSuffix(strings.ToLower(name), ".png")
}

// checkIcon checks the size before decoding, so a picture with a billion pixels costs nothing.
func checkIcon(fsys fs.FS, name string, rule iconRule) error {
	data, err := readCapped(fsys, name, maxIconBytes)
	if err != nil {
		return err
	}
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

// checker collects one manifest's problems.
type checker struct {
	file     string
	root     object // nil if the file is not a JSON object
	problems []string
}

// check parses a manifest strictly and checks it. A duplicate name or text after the document is a
// problem. A byte order mark is dropped, as Microsoft's tools do.
func check(file string, data []byte) *checker {
	c := &checker{file: file}
	if len(data) > maxManifestBytes {
		c.note("", "has %d bytes, more than %d", len(data), maxManifestBytes)
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
	c.checkSchema()
	c.checkRules()
	return c
}

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
	if v := c.text("version"); v != "" && !semver.MatchString(v) {
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
		if name, isText := c.value("icons", rule.key).(string); isText && !plainName(name) {
			c.note("/icons/"+rule.key, "%q is not the name of a PNG file at the root of the package", name)
		}
	}
	if name := c.text("icons", "color"); name != "" && name == c.text("icons", "outline") {
		c.note("/icons/outline", "is the same file as the color icon")
	}
}

func notGUID(s string) string {
	return fmt.Sprintf("%q is not a GUID such as 1d0f3a52-7c1e-4b5e-9a44-5b2e6c1f0a77", s)
}

func notHTTPS(s string) string {
	return fmt.Sprintf("%q is not an https address such as https://example.com/privacy", s)
}

//go:embed schemas/*.json
var schemas embed.FS

// compiled has each known schema, compiled on first use, because that takes longer than everything
// else here.
var compiled = map[string]func() *jsonschema.Schema{
	"1.22":        sync.OnceValue(func() *jsonschema.Schema { return compile("1.22") }),
	schemaVersion: sync.OnceValue(func() *jsonschema.Schema { return compile(schemaVersion) }),
}

// schemaURL is a schema's public address, the value of $schema.
func schemaURL(version string) string {
	return "https://developer.microsoft.com/json-schemas/teams/v" + version + "/MicrosoftTeams.schema.json"
}

// compile compiles an embedded schema. It refuses references to anything outside, so nothing is
// ever fetched. It panics if the schema is invalid, which a test would find.
func compile(version string) *jsonschema.Schema {
	data, err := schemas.ReadFile("schemas/teams-v" + version + ".schema.json")
	var doc any
	if err == nil {
		doc, err = jsonschema.UnmarshalJSON(bytes.NewReader(data))
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.UseRegexpEngine(func(s string) (jsonschema.Regexp, error) {
		// Go's regexp engine has no look-ahead. This one, for an Excel add-in's file, forbids
		// control characters, all but two of which [\S]* excludes anyway.
		if s == `^(?!.*[\r\n\f\b\v\u0007\t])[\S]*\.xll$` {
			s = `^[^\s\x07\x08\x0b]*\.xll$`
		}
		return regexp.Compile(s)
	})
	if err = cmp.Or(err, c.AddResource(schemaURL(version), doc)); err != nil {
		panic(err)
	}
	return c.MustCompile(schemaURL(version))
}

// schemaForm finds the version in a schema's address, which may include a language.
var schemaForm = regexp.MustCompile(`^https://developer\.microsoft\.com/(?:[a-z]{2}-[a-z]{2}/)?json-schemas/teams/v([0-9]+\.[0-9]+|DevPreview)/MicrosoftTeams\.schema\.json$`)

// checkSchema validates the document against the schema named in $schema, or else in
// manifestVersion.
func (c *checker) checkSchema() {
	address, version := c.text("$schema"), c.text("manifestVersion")
	found := schemaForm.FindStringSubmatch(address)
	switch {
	case address == "":
		c.note("/$schema", "is missing: it names the schema, such as %s", schemaURL(schemaVersion))
	case found == nil:
		c.note("/$schema", "%q is not the address of a Teams schema, such as %s", address, schemaURL(schemaVersion))
	default:
		if version != "" && !strings.EqualFold(version, found[1]) {
			c.note("/manifestVersion", "%q is not the version of $schema, %s", version, found[1])
		}
		version = found[1]
	}
	if version == "" {
		return
	}
	load, known := compiled[version]
	if !known {
		c.note("/$schema", "is for manifest version %s, which cannot be checked here: the known versions are %s, and only the documented rules were applied",
			version, strings.Join(slices.Sorted(maps.Keys(compiled)), " and "))
		return
	}
	if fault, ok := errors.AsType[*jsonschema.ValidationError](load().Validate(c.root)); ok {
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
