package manifest

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

//go:embed schemas/*.json
var schemas embed.FS

// SchemaVersions returns the manifest versions that [Validate] knows the schema
// of, oldest first.
func SchemaVersions() []string { return slices.Sorted(maps.Keys(compiled)) }

// schemaURL is the public address of a schema, the value of $schema.
func schemaURL(version string) string {
	return "https://developer.microsoft.com/json-schemas/teams/v" + version + "/MicrosoftTeams.schema.json"
}

// compiled holds each known schema, compiled when it is first asked for: that
// takes longer than everything else here.
var compiled = map[string]func() (*jsonschema.Schema, error){
	"1.22":        sync.OnceValues(func() (*jsonschema.Schema, error) { return loadSchema("1.22") }),
	schemaVersion: sync.OnceValues(func() (*jsonschema.Schema, error) { return loadSchema(schemaVersion) }),
}

// loadSchema compiles an embedded schema. References to anything outside of it
// are refused, so nothing is ever fetched.
func loadSchema(version string) (*jsonschema.Schema, error) {
	file := "schemas/teams-v" + version + ".schema.json"
	data, err := schemas.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load schema %s: %w", version, err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("load schema %s: %w", version, err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(schemaURL(version), doc); err != nil {
		return nil, fmt.Errorf("load schema %s: %w", version, err)
	}
	return c.Compile(schemaURL(version))
}

// patterns rewrites expressions of the schemas that Go's engine cannot read:
// this one, for the file of an Excel add-in, forbids control characters by a
// look-ahead that [\S]* implies anyway, but for two.
func patterns() map[string]string {
	return map[string]string{
		`^(?!.*[\r\n\f\b\v\u0007\t])[\S]*\.xll$`: `^[^\s\x07\x08\x0b]*\.xll$`,
	}
}

func compilePattern(s string) (jsonschema.Regexp, error) {
	if same, ok := patterns()[s]; ok {
		s = same
	}
	return regexp.Compile(s)
}

// checkSchema validates the whole document against the schema that it names.
func (c *checker) checkSchema() {
	version := c.schemaVersion()
	if version == "" {
		return
	}
	load, known := compiled[version]
	if !known {
		c.note("/$schema", "is for manifest version %s, which cannot be checked here: the known versions are %s, and only the documented rules were applied",
			version, strings.Join(SchemaVersions(), " and "))
		return
	}
	schema, err := load()
	if err != nil {
		c.note("/$schema", "the schema of version %s is not usable: %v", version, err)
		return
	}
	if fault := (*jsonschema.ValidationError)(nil); errors.As(schema.Validate(c.root), &fault) {
		c.noteLeaves(fault, message.NewPrinter(language.English))
	}
}

// schemaForm finds the version in the address of a schema, with or without the
// language that some addresses have.
var schemaForm = regexp.MustCompile(`^https://developer\.microsoft\.com/(?:[a-z]{2}-[a-z]{2}/)?json-schemas/teams/v([0-9]+\.[0-9]+|DevPreview)/MicrosoftTeams\.schema\.json$`)

// schemaVersion returns which schema the document is written for: the one that
// $schema names, or else manifestVersion.
func (c *checker) schemaVersion() string {
	address, declared := c.text("/$schema"), c.text("/manifestVersion")
	found := schemaForm.FindStringSubmatch(address)
	switch {
	case address == "":
		c.note("/$schema", "is missing: it names the schema, such as %s", schemaURL(schemaVersion))
		return declared
	case found == nil:
		c.note("/$schema", "%q is not the address of a Teams schema, such as %s", address, schemaURL(schemaVersion))
		return declared
	case declared != "" && !strings.EqualFold(declared, found[1]):
		c.note("/manifestVersion", "%q is not the version of $schema, %s", declared, found[1])
	}
	return found[1]
}

// noteLeaves notes the innermost faults: those around them only say that
// something inside is wrong.
func (c *checker) noteLeaves(e *jsonschema.ValidationError, p *message.Printer) {
	for _, cause := range e.Causes {
		c.noteLeaves(cause, p)
	}
	if len(e.Causes) == 0 {
		c.note(pointer(e.InstanceLocation), "%s", describe(e.ErrorKind, p))
	}
}

// describe puts a fault in words; those of the patterns that every manifest
// meets are ours, since an expression explains little.
func describe(k jsonschema.ErrorKind, p *message.Printer) string {
	fault, ok := k.(*kind.Pattern)
	if !ok {
		return k.LocalizedString(p)
	}
	switch fault.Want {
	case `^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$`:
		return notGUID(fault.Got)
	case `^#[0-9a-fA-F]{6}$`:
		return fmt.Sprintf("%q is not a colour such as %s", fault.Got, accentColor)
	case `^[Hh][Tt][Tt][Pp][Ss]?://`, `^[Hh][Tt][Tt][Pp][Ss]://`:
		return notHTTPS(fault.Got)
	}
	return k.LocalizedString(p)
}

func pointer(tokens []string) string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var out strings.Builder
	for _, t := range tokens {
		out.WriteString("/" + escape.Replace(t))
	}
	return out.String()
}
