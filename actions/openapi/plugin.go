package openapi

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/spelling"
)

// Plugin is what the manifest of a plugin of Microsoft 365 Copilot says about the use of a service.
type Plugin struct {
	Rules   connections.Rules // for [Config].Rules
	Answers map[string]Answer // for [Config].Answers
	// Warnings say what else is in the manifest, which has no effect, with JSON pointers.
	Warnings []string
}

const maxManifest = 1 << 20

// ReadPlugin reads a plugin manifest, version 2, as an allow-list. Its functions that an OpenAPI runtime
// runs are allowed; without functions, whatever [Config].Rules allow by themselves. A confirmation of the
// type AdaptiveCard asks for approval; isNonConsequential takes that back for what only reads. A plain
// data_path, such as $.items, becomes the answer's Data. The error lists every fault.
func ReadPlugin(file string) (Plugin, error) {
	folder, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return Plugin{}, fmt.Errorf("read plugin: %w", err)
	}
	defer func() { _ = folder.Close() }()
	raw, err := readFile(folder.FS(), filepath.Base(file), maxManifest)
	if err != nil {
		return Plugin{}, fmt.Errorf("read plugin: %w", err)
	}
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil {
		return Plugin{}, fmt.Errorf("read plugin %s: %w", file, err)
	}
	m := manifest{plugin: Plugin{Answers: map[string]Answer{}}}
	m.read(place{"", "", root})
	if err := errors.Join(m.faults...); err != nil {
		return Plugin{}, fmt.Errorf("read plugin %s: %w", file, err)
	}
	return m.plugin, nil
}

// manifest is a manifest being read.
type manifest struct {
	plugin Plugin
	faults []error
}

func (m *manifest) fault(at place, format string, args ...any) {
	m.faults = append(m.faults, fmt.Errorf("%s: %s", at.pointer, fmt.Sprintf(format, args...)))
}

func (m *manifest) warn(at place, format string, args ...any) {
	m.plugin.Warnings = append(m.plugin.Warnings, spelling.OneLine(at.pointer+": "+fmt.Sprintf(format, args...), maxReason))
}

// others warns of what an object has besides the used members.
func (m *manifest) others(at place, used ...string) {
	object, _ := at.value.(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(used, key) {
			m.warn(at.child(key), "has no effect")
		}
	}
}

func (m *manifest) items(at place) (all []place) {
	list, isList := at.value.([]any)
	if at.value != nil && !isList {
		m.fault(at, "want a list")
	}
	for i := range list {
		all = append(all, place{"", fmt.Sprintf("%s/%d", at.pointer, i), list[i]})
	}
	return all
}

var functionName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

func (m *manifest) read(root place) {
	if version := root.text("schema_version"); version != "v2" && !strings.HasPrefix(version, "v2.") {
		m.fault(root.child("schema_version"), "want v2, v2.1 and so on, got %q", spelling.Clip(version))
	}
	m.others(root, "$schema", "schema_version", "functions", "runtimes")
	runs, open, runtimes := []string{}, false, 0 // patterns of functions
	for _, at := range m.items(root.child("runtimes")) {
		if kind := at.text("type"); kind != "OpenApi" {
			m.warn(at, "a runtime of the type %s has no effect", kind)
			continue
		}
		if runtimes++; runtimes > 1 {
			m.warn(at, "this is another OpenAPI runtime: a connection has one document")
		}
		m.others(at, "type", "run_for_functions")
		if at.child("run_for_functions").value == nil {
			open = true
		}
		for _, name := range m.items(at.child("run_for_functions")) {
			text, isText := name.value.(string)
			if _, err := path.Match(text, ""); !isText || err != nil {
				m.fault(name, "want the name of a function, or a pattern")
			}
			runs = append(runs, text)
		}
	}
	if runtimes == 0 {
		m.fault(root.child("runtimes"), "there is no OpenApi runtime")
	}
	if root.child("functions").value == nil {
		if !open && !slices.Contains(runs, "*") {
			m.fault(root.child("functions"), "there are none, but run_for_functions names some")
		}
		return
	}
	m.plugin.Rules.Allow = []string{}
	seen := map[string]bool{}
	for _, at := range m.items(root.child("functions")) {
		name := at.text("name")
		if !functionName.MatchString(name) {
			m.fault(at.child("name"), "want letters, digits and _, got %q", spelling.Clip(name))
			continue
		}
		if seen[name] {
			m.fault(at.child("name"), "%s is there twice", name)
		}
		seen[name] = true
		run := open || slices.ContainsFunc(runs, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok })
		if !run {
			m.warn(at, "no OpenApi runtime runs %s", name)
			continue
		}
		m.plugin.Rules.Allow = append(m.plugin.Rules.Allow, name)
		m.function(at, name)
	}
	if len(m.plugin.Rules.Allow) == 0 {
		m.fault(root.child("functions"), "no OpenApi runtime runs any")
	}
}

// plainDataPath matches a JSONPath that is the names of members only.
var plainDataPath = regexp.MustCompile(`^\$(\.[A-Za-z_\x{80}-\x{10FFFF}][A-Za-z0-9_\x{80}-\x{10FFFF}]*)*$`)

func (m *manifest) function(at place, name string) {
	m.others(at, "id", "name", "capabilities")
	capabilities := at.child("capabilities")
	m.others(capabilities, "confirmation", "response_semantics", "security_info")

	confirmation := capabilities.child("confirmation")
	m.others(confirmation, "type", "isNonConsequential")
	switch kind := confirmation.text("type"); {
	case kind == "AdaptiveCard" && confirmation.is("isNonConsequential"):
	case kind == "AdaptiveCard":
		m.plugin.Rules.Approve = append(m.plugin.Rules.Approve, name)
	case kind == "None":
		m.warn(confirmation.child("type"), "None takes no approval away")
	case kind != "":
		m.fault(confirmation.child("type"), "want None or AdaptiveCard, got %q", spelling.Clip(kind))
	}

	semantics := capabilities.child("response_semantics")
	m.others(semantics, "data_path")
	switch data := semantics.text("data_path"); {
	case data == "" || data == "$":
	case plainDataPath.MatchString(data):
		m.plugin.Answers[name] = Answer{Data: strings.ReplaceAll(data[1:], ".", "/")}
	default:
		m.warn(semantics.child("data_path"), "only the names of members are understood, such as $.items: the whole answer is used")
	}

	security := capabilities.child("security_info")
	m.others(security, "data_handling")
	if kinds := m.items(security.child("data_handling")); len(kinds) > 0 {
		var names []string
		for _, kind := range kinds {
			names = append(names, fmt.Sprint(kind.value))
		}
		m.warn(security.child("data_handling"), "%s is not enforced", strings.Join(names, ", "))
	}
}
