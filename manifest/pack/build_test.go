package pack_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"image/color"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/planbot-go/planbot/manifest"
	"github.com/planbot-go/planbot/manifest/pack"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const appID = "1d0f3a52-7c1e-4b5e-9a44-5b2e6c1f0a77"

// good is the config that tests start from.
func good() manifest.Config {
	return manifest.Config{
		AppID:  appID,
		Domain: "bot.example.com",
		Commands: []manifest.Command{
			{Title: "help", Description: "What the bot can do"},
			{Title: "/reset", Description: "Start this conversation anew; lists stay"},
			{Title: "/forget", Description: "Delete everything kept about me"},
		},
		Prompts: []manifest.Command{
			{Title: "Create list", Description: "Creates a list"},
			{Title: "Summarize lists", Description: "Shows all lists & what is on them"},
		},
	}
}

func build(t testing.TB, cfg manifest.Config) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := pack.Build(&out, cfg); err != nil {
		t.Fatalf("build: %v", err)
	}
	return out.Bytes()
}

// unpack returns the files of a package.
func unpack(t testing.TB, pack []byte) map[string]string {
	t.Helper()
	zr, err := zip.NewReader(bytes.NewReader(pack), int64(len(pack)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range zr.File {
		data, err := fs.ReadFile(zr, f.Name)
		if err != nil {
			t.Fatal(err)
		}
		out[f.Name] = string(data)
	}
	return out
}

// manifestOf is the manifest.json that Build packs.
func manifestOf(t testing.TB, cfg manifest.Config) []byte {
	t.Helper()
	return []byte(unpack(t, build(t, cfg))["manifest.json"])
}

func TestBuildIsSound(t *testing.T) {
	t.Parallel()
	configs := map[string]manifest.Config{
		"all":            good(),
		"least":          {AppID: appID, Domain: "bot.example.com"},
		"pasted GUID":    {AppID: " {1D0F3A52-7C1E-4B5E-9A44-5B2E6C1F0A77} ", Domain: "bot.example.com"},
		"port":           {AppID: appID, Domain: "bot.example.com:8443"},
		"like localhost": {AppID: appID, Domain: "localhost.example.com:3978"},
		"pre-release":    {AppID: appID, Domain: "a-1.b.example", Version: "1.2.3-rc.1+build.5"},
		"schema 1.22":    {AppID: appID, Domain: "bot.example.com", Schema: "1.22", Translations: map[string]manifest.Translation{"de": {}}},
		"one scope":      {AppID: appID, Domain: "bot.example.com", Scopes: []string{"team"}, Permissions: []string{}},
		"longest names":  {AppID: appID, Domain: "b.example", Name: strings.Repeat("ä", 30), FullName: strings.Repeat("ö", 100)},
	}
	for name, cfg := range configs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "app.zip")
			if err := os.WriteFile(file, build(t, cfg), 0o600); err != nil {
				t.Fatal(err)
			}
			wantProblems(t, file)
		})
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	t.Parallel()
	if !bytes.Equal(build(t, good()), build(t, good())) {
		t.Error("two builds of one config differ")
	}
}

func TestBuildPacksThreeFilesAtTheRoot(t *testing.T) {
	t.Parallel()
	pack := build(t, good())
	zr, err := zip.NewReader(bytes.NewReader(pack), int64(len(pack)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range zr.File {
		names = append(names, f.Name)
		if y := f.Modified.Year(); y != 1980 {
			t.Errorf("%s was packed in %d, want the fixed 1980", f.Name, y)
		}
	}
	if diff := cmp.Diff([]string{"manifest.json", "color.png", "outline.png"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestManifestGolden(t *testing.T) {
	t.Parallel()
	got := manifestOf(t, good())
	file := filepath.Join("testdata", "manifest.golden.json")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run with -update if this is meant:\n%s", diff)
	}
}

func TestPromptsFillWhatCommandsLeave(t *testing.T) {
	t.Parallel()
	cfg := good()
	cfg.Prompts = nil
	for i := range 20 {
		cfg.Prompts = append(cfg.Prompts, manifest.Command{Title: fmt.Sprintf("prompt %d", i), Description: "d"})
	}
	doc := manifestOf(t, cfg)
	if n := bytes.Count(doc, []byte(`"title": "prompt 6"`)); n != 2 {
		t.Errorf("the seventh prompt is in %d lists, want 2", n)
	}
	if bytes.Contains(doc, []byte(`"title": "prompt 7"`)) {
		t.Error("an eighth prompt beside three commands makes eleven")
	}
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	many := make([]manifest.Command, 11)
	for i := range many {
		many[i] = manifest.Command{Title: "t", Description: "d"}
	}
	tests := map[string]struct {
		change func(*manifest.Config)
		want   string
	}{
		"no app id":         {func(c *manifest.Config) { c.AppID = "" }, "app id is missing"},
		"app id a name":     {func(c *manifest.Config) { c.AppID = "my-bot" }, `app id "my-bot" is not a GUID`},
		"app id empty GUID": {func(c *manifest.Config) { c.AppID = "00000000-0000-0000-0000-000000000000" }, `app id "00000000-0000-0000-0000-000000000000" is the empty GUID`},
		"no domain":         {func(c *manifest.Config) { c.Domain = "" }, "domain is missing"},
		"a URL":             {func(c *manifest.Config) { c.Domain = "https://bot.example.com:444/api/messages" }, "is a URL: give only the host, bot.example.com:444"},
		"a bad URL":         {func(c *manifest.Config) { c.Domain = "https://" }, "is a URL: give only the host, such as"},
		"a path":            {func(c *manifest.Config) { c.Domain = "bot.example.com/api" }, "is not host or host:port"},
		"a wildcard":        {func(c *manifest.Config) { c.Domain = "*.example.com" }, "is not a host name"},
		"a space":           {func(c *manifest.Config) { c.Domain = "bot example.com" }, "is not host or host:port"},
		"port 0":            {func(c *manifest.Config) { c.Domain = "bot.example.com:0" }, "no port from 1 to 65535"},
		"port 70000":        {func(c *manifest.Config) { c.Domain = "bot.example.com:70000" }, "no port from 1 to 65535"},
		"two ports":         {func(c *manifest.Config) { c.Domain = "bot.example.com:1:2" }, "is not host or host:port"},
		"an underscore":     {func(c *manifest.Config) { c.Domain = "my_bot.example.com" }, "is not a host name"},
		"a long label":      {func(c *manifest.Config) { c.Domain = strings.Repeat("a", 64) + ".com" }, "is not a host name"},
		"a long host":       {func(c *manifest.Config) { c.Domain = strings.Repeat("a.", 127) + "com" }, "longer than 253"},
		"this machine":      {func(c *manifest.Config) { c.Domain = "LocalHost:3978" }, "Teams cannot reach the bot there"},
		"below localhost":   {func(c *manifest.Config) { c.Domain = "bot.localhost" }, "Teams cannot reach the bot there"},
		"loopback":          {func(c *manifest.Config) { c.Domain = "127.0.0.1:3978" }, "Teams cannot reach the bot there"},
		"every interface":   {func(c *manifest.Config) { c.Domain = "0.0.0.0" }, "Teams cannot reach the bot there"},
		"version":           {func(c *manifest.Config) { c.Version = "one" }, `/version: "one" is not a semantic version`},
		"short version":     {func(c *manifest.Config) { c.Version = "1.0" }, "not a semantic version"},
		"long name":         {func(c *manifest.Config) { c.Name = strings.Repeat("n", 31) }, "/name/short"},
		"long full name":    {func(c *manifest.Config) { c.FullName = strings.Repeat("n", 101) }, "/name/full"},
		"long summary":      {func(c *manifest.Config) { c.Summary = strings.Repeat("n", 81) }, "/description/short"},
		"long details":      {func(c *manifest.Config) { c.Details = strings.Repeat("n", 4001) }, "/description/full"},
		"equal names":       {func(c *manifest.Config) { c.Name, c.FullName = "Bot", "bot" }, "/name/full: must differ from the short name"},
		"many commands":     {func(c *manifest.Config) { c.Commands = many }, "11 commands, Teams shows at most 10"},
		"untitled command":  {func(c *manifest.Config) { c.Commands[1].Title = " " }, "command or prompt 2"},
		"prompt no text":    {func(c *manifest.Config) { c.Prompts[0].Description = "" }, `4 ("Create list")`},
		"http":              {func(c *manifest.Config) { c.PrivacyURL = "http://example.com" }, "/developer/privacyUrl: \"http://example.com\" is not an https"},
		"long developer":    {func(c *manifest.Config) { c.Developer = strings.Repeat("n", 33) }, "/developer/name"},
		"long title":        {func(c *manifest.Config) { c.Commands[0].Title = strings.Repeat("n", 129) }, "/bots/0/commandLists/1/commands/0/title"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := good()
			tt.change(&cfg)
			var out bytes.Buffer
			err := pack.Build(&out, cfg)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want it to say %q", err, tt.want)
			}
			if out.Len() > 0 {
				t.Error("a package was written all the same")
			}
		})
	}
}

func TestBadConfigListsEveryMistake(t *testing.T) {
	t.Parallel()
	err := pack.Build(io.Discard, manifest.Config{
		AppID: "x", Domain: "http://y", Version: "1", Name: strings.Repeat("n", 40), AccentColor: "teal",
		ColorIcon:   pngOf(t, square(96, color.White, color.Black)),
		OutlineIcon: pngOf(t, square(32, color.Transparent, color.Black)),
		Scopes:      []string{"personal", "groupchat", "world"}, Permissions: []string{"everything"},
		ValidDomains: []string{"https://example.com/"}, WebAppID: "me",
		Commands: []manifest.Command{{Title: "help", Description: "d"}},
		Translations: map[string]manifest.Translation{
			"deutsch": {Name: strings.Repeat("n", 31), Commands: map[string]manifest.Command{"/gone": {}}}, "not a tag": {}, "manifest": {}, "EN": {},
		},
	})
	for _, want := range []string{
		`app id "x"`, "domain", "#/version", "#/name/short", "#/accentColor", "color.png: has 96×96 pixels", "outline.png: has a pixel",
		"#/bots/0/scopes/1", "#/bots/0/scopes/2", "#/permissions/0", "#/validDomains/1", "#/webApplicationInfo/id",
		"deutsch.json#/name.short: maxLength: got 31, want 30", `translation deutsch is of "/gone"`, "#/localizationInfo/additionalLanguages/3/languageTag",
		`#/localizationInfo/additionalLanguages/2/file: "manifest.json"`, "the language en is there twice",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q too", err, want)
		}
	}
}

// own is a bot that sets everything.
func own(t *testing.T) manifest.Config {
	t.Helper()
	cfg := good()
	cfg.Name, cfg.FullName, cfg.Summary, cfg.Details = "Hedda", "Hedda of the warehouse", "Keeps lists.", "Keeps the lists of the warehouse."
	cfg.Schema, cfg.Version, cfg.AccentColor, cfg.Developer = "1.22", "2.1.0", "#aa0000", "Contoso"
	cfg.ColorIcon = pngOf(t, square(192, color.White, color.Black))
	cfg.OutlineIcon = pngOf(t, square(32, color.Transparent, color.White))
	cfg.Scopes, cfg.Permissions = []string{"groupChat"}, []string{"messageTeamMembers"}
	cfg.ValidDomains, cfg.WebAppResource = []string{"token.botframework.com"}, "api://${{BOT_DOMAIN}}/botid-${{BOT_ID}}"
	cfg.Language = "en-gb"
	cfg.Translations = map[string]manifest.Translation{"pt-BR": {Name: "Edda", Commands: map[string]manifest.Command{
		"Create list": {Description: "Cria uma lista"},
	}}}
	return cfg
}

func TestOwnApp(t *testing.T) {
	t.Parallel()
	got := unpack(t, build(t, own(t)))
	var doc struct {
		Schema          string `json:"$schema"`
		ManifestVersion string
		Version         string
		AccentColor     string
		Name            struct{ Short, Full string }
		Description     struct{ Short, Full string }
		Developer       struct{ Name string }
		Permissions     []string
		ValidDomains    []string
		Bots            []struct {
			Scopes       []string
			CommandLists []struct {
				Scopes   []string
				Commands []manifest.Command
			}
		}
		DefaultInstallScope    string
		DefaultGroupCapability map[string]string
		WebApplicationInfo     struct{ ID, Resource string }
		LocalizationInfo       struct {
			DefaultLanguageTag  string
			AdditionalLanguages []struct{ LanguageTag, File string }
		}
	}
	if err := json.Unmarshal([]byte(got["manifest.json"]), &doc); err != nil {
		t.Fatal(err)
	}
	bot := doc.Bots[0]
	for what, pair := range map[string][2]any{
		"schema":      {"https://developer.microsoft.com/json-schemas/teams/v1.22/MicrosoftTeams.schema.json 1.22", doc.Schema + " " + doc.ManifestVersion},
		"texts":       {"2.1.0 #aa0000 Hedda|Hedda of the warehouse|Keeps lists.|Keeps the lists of the warehouse.|Contoso", doc.Version + " " + doc.AccentColor + " " + strings.Join([]string{doc.Name.Short, doc.Name.Full, doc.Description.Short, doc.Description.Full, doc.Developer.Name}, "|")},
		"permissions": {[]string{"messageTeamMembers"}, doc.Permissions},
		"domains":     {[]string{"bot.example.com", "token.botframework.com"}, doc.ValidDomains},
		"scopes":      {[]string{"groupChat"}, bot.Scopes},
		"lists":       {1, len(bot.CommandLists)},
		"list":        {[]string{"groupChat"}, bot.CommandLists[0].Scopes},
		"commands":    {5, len(bot.CommandLists[0].Commands)},
		"install":     {"", doc.DefaultInstallScope},
		"capability":  {map[string]string{"groupchat": "bot"}, doc.DefaultGroupCapability},
		"web app":     {"1d0f3a52-7c1e-4b5e-9a44-5b2e6c1f0a77 api://bot.example.com/botid-1d0f3a52-7c1e-4b5e-9a44-5b2e6c1f0a77", doc.WebApplicationInfo.ID + " " + doc.WebApplicationInfo.Resource},
		"languages":   {"en-gb pt-BR pt-br.json", doc.LocalizationInfo.DefaultLanguageTag + " " + doc.LocalizationInfo.AdditionalLanguages[0].LanguageTag + " " + doc.LocalizationInfo.AdditionalLanguages[0].File},
		"icon":        {string(own(t).ColorIcon), got["color.png"]},
		"outline":     {string(own(t).OutlineIcon), got["outline.png"]},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	var texts map[string]string
	if err := json.Unmarshal([]byte(got["pt-br.json"]), &texts); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"$schema":    "https://developer.microsoft.com/json-schemas/teams/v1.22/MicrosoftTeams.Localization.schema.json",
		"name.short": "Edda", "name.full": "Hedda of the warehouse",
		"bots[0].commandLists[0].commands[3].title": "Create list", "bots[0].commandLists[0].commands[3].description": "Cria uma lista",
	} {
		if texts[key] != want {
			t.Errorf("%s: %q, want %q", key, texts[key], want)
		}
	}
}

// What Init writes and Pack packs is what Build builds.
func TestInitAndPack(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "app")
	if err := pack.Init(dir, own(t)); err != nil {
		t.Fatal(err)
	}
	wantProblems(t, dir)
	wantProblems(t, filepath.Join(dir, "manifest.json"))
	var got bytes.Buffer
	if err := pack.Folder(&got, dir, strings.ToUpper(appID), "bot.example.com"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(unpack(t, build(t, own(t))), unpack(t, got.Bytes())); diff != "" {
		t.Error(diff)
	}
	if err := pack.Init(dir, own(t)); err == nil || strings.Count(err.Error(), "exists and is not overwritten") != 4 {
		t.Errorf("got %v, want it to name all 4 files", err)
	}
}

func TestInitWritesNothingThatIsWrong(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "app")
	cfg := own(t)
	cfg.Name = strings.Repeat("n", 31)
	if err := pack.Init(dir, cfg); err == nil || !strings.Contains(err.Error(), "#/name/short") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder was made all the same")
	}
}

func TestPackFindsMistakesOfEditing(t *testing.T) {
	t.Parallel()
	edit := func(t *testing.T, dir, name, from, to string) {
		t.Helper()
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(data, []byte(from)) {
			t.Fatalf("%q is not in %s: %v", from, name, err)
		}
		if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte(from), []byte(to)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	if err := pack.Init(dir, own(t)); err != nil {
		t.Fatal(err)
	}
	edit(t, dir, "manifest.json", "${{BOT_ID}}", "22222222-7c1e-4b5e-9a44-5b2e6c1f0a77")
	edit(t, dir, "manifest.json", `"Contoso"`, `"${{PUBLISHER}}"`)
	edit(t, dir, "pt-br.json", "commands[4].title", "commands[24].title")
	edit(t, dir, "pt-br.json", `"Hedda of the warehouse"`, `" "`)
	if err := os.Remove(filepath.Join(dir, "color.png")); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := pack.Folder(&out, dir, appID, "localhost")
	for _, want := range []string{
		"has another app id than " + appID, "localhost", "the placeholder ${{PUBLISHER}} is not filled in",
		"pt-br.json: additional properties 'bots[0].commandLists[0].commands[24].title' not allowed", "pt-br.json#/name.full: is empty", "color.png: is missing",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want it to name %q too", err, want)
		}
	}
	if out.Len() > 0 {
		t.Error("a package was written all the same")
	}
	if err := pack.Folder(&out, filepath.Join(dir, "none"), appID, "bot.example.com"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there gave %v", err)
	}
}

func TestBuildReportsTheWriter(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	broken := errors.New("disk full")
	r.CloseWithError(broken)
	if err := pack.Build(w, good()); !errors.Is(err, broken) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

func ExampleBuild() {
	err := pack.Build(io.Discard, manifest.Config{AppID: appID, Domain: "https://bot.example.com"})
	fmt.Println(err)
	// Output: app package: domain "https://bot.example.com" is a URL: give only the host, bot.example.com
}

func ExampleInit() {
	dir, err := os.MkdirTemp("", "app")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	err = pack.Init(dir, manifest.Config{
		Name:         "Hedda",
		Prompts:      []manifest.Command{{Title: "Create a list", Description: "Create a shopping list"}},
		Translations: map[string]manifest.Translation{"de": {Summary: "Führt Listen."}},
	})
	fmt.Println(err)

	var zip bytes.Buffer
	fmt.Println(pack.Folder(&zip, dir, appID, "bot.example.com"))
	// Output:
	// <nil>
	// <nil>
}
