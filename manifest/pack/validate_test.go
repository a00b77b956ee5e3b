package pack_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/manifest/pack"
)

// wantProblems validates file and wants one problem for each want, which it
// must contain, and no other.
func wantProblems(t *testing.T, file string, want ...string) {
	t.Helper()
	problems, err := pack.Validate(file)
	if err != nil {
		t.Fatalf("validate: %v", err)
	}
	left := slices.Clone(want)
	for _, p := range problems {
		i := slices.IndexFunc(left, func(w string) bool { return strings.Contains(p, w) })
		if i < 0 {
			t.Errorf("unexpected problem: %s", p)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, w := range left {
		t.Errorf("no problem says %q; found %v", w, problems)
	}
}

// goodDoc is the built manifest as values that a test may change.
func goodDoc(t *testing.T) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(manifestOf(t, good()), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// absent, as a value to set, removes what is there.
type absent struct{}

// set changes the value at a JSON pointer.
func set(t *testing.T, doc any, pointer string, value any) {
	t.Helper()
	tokens := strings.Split(pointer, "/")[1:]
	last := tokens[len(tokens)-1]
	for _, token := range tokens[:len(tokens)-1] {
		if list, ok := doc.([]any); ok {
			doc = list[index(t, token)]
		} else {
			doc = doc.(map[string]any)[token]
		}
	}
	switch parent := doc.(type) {
	case []any:
		parent[index(t, last)] = value
	case map[string]any:
		parent[last] = value
		maps.DeleteFunc(parent, func(_ string, v any) bool { return v == absent{} })
	default:
		t.Fatalf("nothing at %s to change", pointer)
	}
}

func index(t *testing.T, token string) int {
	t.Helper()
	i, err := strconv.Atoi(token)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func writeJSON(t *testing.T, doc any) string {
	t.Helper()
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "manifest.json", raw)
}

func writeFile(t *testing.T, name string, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

type list = []any

func TestSingleFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		at    string
		value any
		want  []string
	}{
		"none": {"/version", "1.0.1", nil},

		// found by the schema
		"no accent colour":   {"/accentColor", absent{}, []string{"manifest.json: missing property 'accentColor'"}},
		"bad accent colour":  {"/accentColor", "teal", []string{`#/accentColor: "teal" is not a colour`}},
		"no id":              {"/id", absent{}, []string{"missing property 'id'"}},
		"unknown property":   {"/packageName", "com.example", []string{"additional properties 'packageName' not allowed"}},
		"unknown bot field":  {"/bots/0/colour", "red", []string{"#/bots/0: additional properties 'colour'"}},
		"long short name":    {"/name/short", strings.Repeat("n", 31), []string{"#/name/short: maxLength: got 31, want 30"}},
		"wrong type":         {"/name/short", 7, []string{"#/name/short: got number, want string"}},
		"old scope spelling": {"/bots/0/scopes/2", "groupchat", []string{"#/bots/0/scopes/2: value must be one of"}},
		"two bots":           {"/bots", list{map[string]any{"botId": appID, "scopes": list{"team"}}, map[string]any{"botId": appID, "scopes": list{"team"}}}, []string{"#/bots: maxItems"}},
		"no outline icon":    {"/icons/outline", absent{}, []string{"#/icons: missing property 'outline'"}},
		"command not text":   {"/bots/0/commandLists/0/commands/0/title", 1, []string{"/commands/0/title: got number"}},

		// which schema
		"no schema":          {"/$schema", absent{}, []string{"#/$schema: is missing"}},
		"schema elsewhere":   {"/$schema", "https://example.com/v1.25.json", []string{"is not the address of a Teams schema"}},
		"schema in http":     {"/$schema", "http://developer.microsoft.com/json-schemas/teams/v1.25/MicrosoftTeams.schema.json", []string{"is not the address"}},
		"schema en-us":       {"/$schema", "https://developer.microsoft.com/en-us/json-schemas/teams/v1.25/MicrosoftTeams.schema.json", nil},
		"preview schema":     {"/$schema", "https://developer.microsoft.com/json-schemas/teams/vDevPreview/MicrosoftTeams.schema.json", []string{"DevPreview, which cannot be checked", `"1.25" is not the version of $schema`}},
		"other version":      {"/manifestVersion", "1.22", []string{"#/manifestVersion: \"1.22\" is not the version of $schema, 1.25"}},
		"no version at all":  {"/manifestVersion", absent{}, []string{"missing property 'manifestVersion'"}},
		"version not number": {"/manifestVersion", 1.25, []string{"#/manifestVersion: got number"}},

		// identity
		"id no GUID":         {"/id", "planbot", []string{`#/id: "planbot" is not a GUID`}},
		"id empty GUID":      {"/id", "00000000-0000-0000-0000-000000000000", []string{"#/id: is the empty GUID"}},
		"id in capitals":     {"/id", strings.ToUpper(appID), nil},
		"botId no GUID":      {"/bots/0/botId", "x", []string{`#/bots/0/botId: "x" is not a GUID`}},
		"no botId":           {"/bots/0/botId", absent{}, []string{"#/bots/0: missing property 'botId'"}},
		"version word":       {"/version", "one", []string{`#/version: "one" is not a semantic version`}},
		"version two parts":  {"/version", "1.0", []string{`#/version: "1.0" is not`}},
		"version with v":     {"/version", "v1.0.0", []string{"#/version"}},
		"version with zeros": {"/version", "1.00.0", []string{"#/version"}},

		// names
		"equal names":      {"/name/full", "PLANBOT ", []string{"#/name/full: must differ from the short name"}},
		"no full name":     {"/name/full", absent{}, []string{"#/name/full: is missing"}},
		"empty short name": {"/name/short", " ", []string{"#/name/short: is empty"}},
		"empty summary":    {"/description/short", "", []string{"#/description/short: is empty"}},
		"empty version":    {"/version", "", []string{"#/version: is empty"}},

		// addresses
		"http":            {"/developer/websiteUrl", "http://example.com", []string{`#/developer/websiteUrl: "http://example.com" is not an https address`}},
		"no scheme":       {"/developer/privacyUrl", "example.com/privacy", []string{"#/developer/privacyUrl"}},
		"no host":         {"/developer/termsOfUseUrl", "https:///terms", []string{"#/developer/termsOfUseUrl"}},
		"password in url": {"/developer/termsOfUseUrl", "https://u:p@example.com/", []string{"#/developer/termsOfUseUrl"}},
		"port only":       {"/developer/termsOfUseUrl", "https://:443/", []string{"#/developer/termsOfUseUrl"}},
		"domain a URL":    {"/validDomains/0", "https://example.com", []string{`#/validDomains/0: "https://example.com" is not a host`}},
		"domain wildcard": {"/validDomains/0", "*.example.com", nil},
		"domain number":   {"/validDomains/0", 5, []string{"#/validDomains/0: got number"}},
		"17 domains":      {"/validDomains", slices.Repeat(list{"example.com"}, 17), []string{"#/validDomains: maxItems"}},

		// icons
		"icon in folder": {"/icons/color", "images/color.png", []string{"#/icons/color"}},
		"icon elsewhere": {"/icons/color", "../color.png", []string{"#/icons/color"}},
		"icon a URL":     {"/icons/color", "https://example.com/color.png", []string{"#/icons/color"}},
		"icon no PNG":    {"/icons/outline", "outline.svg", []string{"#/icons/outline"}},
		"icon empty":     {"/icons/outline", "", []string{"#/icons/outline"}},
		"one icon":       {"/icons/outline", "color.png", []string{"#/icons/outline: is the same file"}},

		// languages, whose files a manifest.json alone does not need
		"languages":          {"/localizationInfo", languages("de", "de.json"), nil},
		"language in folder": {"/localizationInfo", languages("de", "languages/de.json"), []string{"#/localizationInfo/additionalLanguages/0/file"}},
		"language the app":   {"/localizationInfo", languages("de", "Manifest.json"), []string{"#/localizationInfo/additionalLanguages/0/file"}},
		"language twice":     {"/localizationInfo", languages("EN", "en.json"), []string{"#/localizationInfo/additionalLanguages/0/languageTag: the language en is there twice"}},
		"language no tag":    {"/localizationInfo", languages("german (de)", "de.json"), []string{"#/localizationInfo/additionalLanguages/0/languageTag"}},
		"language file 1":    {"/localizationInfo", languages("de", 1), []string{"#/localizationInfo/additionalLanguages/0/file: got number"}},
		"language list":      {"/localizationInfo", map[string]any{"defaultLanguageTag": "en", "additionalLanguages": list{1}}, []string{"#/localizationInfo/additionalLanguages/0: got number"}},

		// placeholders
		"placeholders":        {"/developer/websiteUrl", "https://${{BOT_DOMAIN}}/${{BOT_ID}}", nil},
		"unknown placeholder": {"/name/short", "${{NAME}}", []string{"the placeholder ${{NAME}} is not filled in"}},

		// bot
		"agent is the bot":     {"/copilotAgents", agents(appID), nil},
		"agents of both kinds": {"/copilotAgents", map[string]any{}, []string{"missing property", "missing property"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc := goodDoc(t)
			set(t, doc, tt.at, tt.value)
			wantProblems(t, writeJSON(t, doc), tt.want...)
		})
	}
}

// languages declares English, and one more.
func languages(tag string, file any) map[string]any {
	return map[string]any{"defaultLanguageTag": "en", "additionalLanguages": list{map[string]any{"languageTag": tag, "file": file}}}
}

// agents declares a bot as a custom engine agent.
func agents(id string) map[string]any {
	return map[string]any{"customEngineAgents": list{map[string]any{"id": id, "type": "bot"}}}
}

func TestEveryKnownSchema(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"1.22", "1.25", "1.29"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			doc := goodDoc(t)
			set(t, doc, "/manifestVersion", version)
			set(t, doc, "/$schema", "https://developer.microsoft.com/json-schemas/teams/v"+version+"/MicrosoftTeams.schema.json")
			wantProblems(t, writeJSON(t, doc))
			set(t, doc, "/unknown", true)
			wantProblems(t, writeJSON(t, doc), "additional properties 'unknown' not allowed")
		})
	}
}

func TestUnknownSchemaIsNamedAndRulesStillApply(t *testing.T) {
	t.Parallel()
	doc := goodDoc(t)
	set(t, doc, "/manifestVersion", "1.19")
	set(t, doc, "/$schema", "https://developer.microsoft.com/json-schemas/teams/v1.19/MicrosoftTeams.schema.json")
	set(t, doc, "/version", "one")
	wantProblems(t, writeJSON(t, doc),
		"#/$schema: is for manifest version 1.19, which cannot be checked here: the known versions are 1.22, 1.25, 1.29",
		"#/version")
}

func TestExcelAddInPattern(t *testing.T) {
	t.Parallel()
	for file, sound := range map[string]bool{"functions.xll": true, "a b.xll": false, "a\u0007b.xll": false, "a\bb.xll": false, "a\vb.xll": false, "functions.dll": false} {
		doc := goodDoc(t)
		set(t, doc, "/extensions", list{map[string]any{"alternates": list{map[string]any{
			"prefer": map[string]any{"xllCustomFunctions": map[string]any{"fileName": file}},
		}}}})
		problems, err := pack.Validate(writeJSON(t, doc))
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, "xll$") })
		if found == sound {
			t.Errorf("%q: problems %v", file, problems)
		}
	}
}

func TestBrokenJSON(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000)
	for name, tt := range map[string]struct{ doc, want string }{
		"empty":         {"", "is not JSON"},
		"cut off":       {`{"id":`, "is not JSON"},
		"two documents": {`{} {}`, "is not JSON"},
		"a name twice":  {`{"id":"a","id":"b"}`, "is not JSON"},
		"a list":        {`[]`, "is not a JSON object"},
		"null":          {`null`, "is not a JSON object"},
		"not UTF-8":     {"{\"id\":\"\xff\"}", "is not JSON"},
		"too deep":      {deep, "is not JSON"},
		"too big":       {`"` + strings.Repeat("x", 1<<20) + `"`, "has 1048578 bytes, more than 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantProblems(t, writeFile(t, "manifest.json", []byte(tt.doc)), "manifest.json: "+tt.want)
		})
	}
}

func TestByteOrderMarkIsAccepted(t *testing.T) {
	t.Parallel()
	doc := manifestOf(t, good())
	wantProblems(t, writeFile(t, "manifest.json", append([]byte("\xEF\xBB\xBF"), doc...)))
}

func TestProblemsAreSafeToPrint(t *testing.T) {
	t.Parallel()
	doc := goodDoc(t)
	set(t, doc, "/id", "\x1b[2J\nok: "+strings.Repeat("x", 5000))
	set(t, doc, "/evil\x1b[31m", 1)
	problems, err := pack.Validate(writeJSON(t, doc))
	if err != nil || len(problems) != 2 {
		t.Fatalf("got %v, %v", problems, err)
	}
	for _, s := range problems {
		if strings.ContainsAny(s, "\x1b\n") || len(s) > 2000 {
			t.Errorf("not printable: %.200q", s)
		}
	}
}

func TestManyProblemsAreCapped(t *testing.T) {
	t.Parallel()
	doc := goodDoc(t)
	set(t, doc, "/validDomains", slices.Repeat(list{1}, 50_000))
	problems, err := pack.Validate(writeJSON(t, doc))
	if err != nil || len(problems) != 1000 {
		t.Errorf("got %d problems, %v, want 1000", len(problems), err)
	}
}

func TestValidateNeedsAFile(t *testing.T) {
	t.Parallel()
	if _, err := pack.Validate(filepath.Join(t.TempDir(), "none.zip")); err == nil {
		t.Error("a missing file gave no error")
	}
	if _, err := pack.Validate(os.DevNull); err == nil {
		t.Error("a device gave no error")
	}
}
