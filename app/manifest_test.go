package app

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/lists"
	"github.com/planbot-go/planbot/bot/teams"
	"github.com/planbot-go/planbot/bot/turn"
	"github.com/planbot-go/planbot/internal/cli"
	"github.com/planbot-go/planbot/manifest"
)

const testAppID = "11111111-2222-3333-4444-555555555555"

// hedda runs a command line of an own bot.
func hedda(t *testing.T, m manifest.Config, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	bot := Bot{Name: "Hedda", Manifest: m, Register: func(r *actions.Registry) {
		actions.Add(r, "openTicket", "Opens a ticket", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil })
	}}
	code = runAll(t.Context(), bot, args, &cli.Streams{Out: &stdout, Err: &stderr})
	return code, stdout.String(), stderr.String()
}

// wantRun fails the test if the command line of that bot did not end well.
func wantRun(t *testing.T, m manifest.Config, args ...string) (out string) {
	t.Helper()
	code, out, errs := hedda(t, m, args...)
	if code != 0 {
		t.Fatalf("%v: exit code %d\n%s%s", args, code, out, errs)
	}
	return out
}

// packed is a part of manifest.json in an app package.
type packed struct {
	ID, AccentColor string
	Name            struct{ Short, Full string }
	Description     struct{ Short string }
	Bots            []struct {
		BotID        string
		CommandLists []struct{ Commands []manifest.Command }
	}
	ValidDomains []string
}

// open reads a file of an app package.
func open(t *testing.T, file, name string) []byte {
	t.Helper()
	zr, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = zr.Close() }()
	data, err := fs.ReadFile(zr, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func openManifest(t *testing.T, file string) (doc packed) {
	t.Helper()
	if err := json.Unmarshal(open(t, file, "manifest.json"), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// writePNG writes a picture of one colour, with a white dot.
func writePNG(t *testing.T, side int, fill color.Color) (file string) {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, side, side))
	for i := range side * side {
		img.Set(i%side, i/side, fill)
	}
	img.Set(0, 0, color.White)
	var data bytes.Buffer
	if err := png.Encode(&data, img); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "icon.png")
	if err := os.WriteFile(file, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestManifestOfAnOwnBot(t *testing.T) {
	t.Parallel()
	zip, red := filepath.Join(t.TempDir(), "app.zip"), writePNG(t, 192, color.NRGBA{R: 255, A: 255})
	m := manifest.Config{Summary: "Keeps tickets.", AccentColor: "#aa0000", Commands: []manifest.Command{
		{Title: "/tickets", Description: "Lists your tickets"}, {Title: "/forget", Description: "Deletes what I know of you, not the tickets"},
	}}
	wantRun(t, m, "manifest", "build", "--microsoft-app-id", testAppID, "--domain=bot.example.com", "--out", zip, "--color=#00aa00", "--icon", red, "--valid-domains=a.example.com,b.example.com")
	wantRun(t, m, "manifest", "validate", zip)
	doc := openManifest(t, zip)
	if doc.ID != testAppID || doc.AccentColor != "#00aa00" || doc.Name.Short != "Hedda" || doc.Description.Short != "Keeps tickets." || len(doc.ValidDomains) != 3 {
		t.Errorf("got %+v", doc)
	}
	want := []manifest.Command{
		{Title: "Open ticket", Description: "Opens a ticket"},
		{Title: "help", Description: "Shows what I can do"},
		{Title: "/reset", Description: "Forgets our conversation"},
		{Title: "/mydata", Description: "Shows what I keep about you"},
		{Title: "/tickets", Description: "Lists your tickets"},
		{Title: "/forget", Description: "Deletes what I know of you, not the tickets"},
	}
	if got := doc.Bots[0].CommandLists[0].Commands; !slices.Equal(got, want) {
		t.Errorf("commands %+v", got)
	}
	if icon, err := os.ReadFile(red); err != nil || !bytes.Equal(icon, open(t, zip, "color.png")) {
		t.Errorf("the icon is not the one of the flag: %v", err)
	}
}

// TestManifestWithoutCommandsThatAreOff keeps commands of the bot's own.
func TestManifestWithoutCommandsThatAreOff(t *testing.T) {
	t.Parallel()
	zip := filepath.Join(t.TempDir(), "app.zip")
	m := manifest.Config{Commands: []manifest.Command{{Title: "/mydata", Description: "Opens the privacy page"}}}
	wantRun(t, m, "manifest", "build", "--microsoft-app-id", testAppID, "--domain=bot.example.com", "--out", zip, "--bot-commands-off=/mydata,/FORGET")
	commands := openManifest(t, zip).Bots[0].CommandLists[0].Commands
	if len(commands) != 4 || commands[2].Title != "/reset" || commands[3].Description != "Opens the privacy page" {
		t.Errorf("commands %+v", commands)
	}
}

func TestManifestIsEdited(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	dir, zip := filepath.Join(tmp, "app"), filepath.Join(tmp, "app.zip")
	if out := wantRun(t, manifest.Config{}, "manifest", "init", dir, "--name=Edda"); !strings.Contains(out, "--from "+dir) {
		t.Errorf("it said %s", out)
	}
	wantRun(t, manifest.Config{}, "manifest", "validate", dir)
	for _, name := range []string{"manifest.json", "de.json"} {
		file := filepath.Join(dir, name)
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, bytes.ReplaceAll(data, []byte("Edda planning assistant"), []byte("Edda, edited")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wantRun(t, manifest.Config{}, "manifest", "build", "--from", dir, "--app-id", testAppID, "--domain=bot.example.com", "--out", zip)
	wantRun(t, manifest.Config{}, "manifest", "validate", zip)
	doc := openManifest(t, zip)
	if doc.Name.Short != "Edda" || doc.Name.Full != "Edda, edited" || doc.Bots[0].BotID != testAppID || !slices.Equal(doc.ValidDomains, []string{"bot.example.com"}) {
		t.Errorf("got %+v", doc)
	}
	if !bytes.Contains(open(t, zip, "de.json"), []byte("Edda, edited")) {
		t.Error("the edited language is not packed")
	}
}

// TestManifestInOtherLanguages: Texts translates what a language file says, unless that file's own
// translation does.
func TestManifestInOtherLanguages(t *testing.T) {
	t.Parallel()
	bot := Bot{
		Name: "Hedda", Register: lists.Register,
		Texts: map[string]map[string]string{"de": {"Keeps tickets.": "Hütet Tickets.", "Lists your tickets": "Zeigt deine Tickets", "Closes one": "Nein"}},
		Manifest: manifest.Config{
			Summary: "Keeps tickets.", Commands: []manifest.Command{{Title: "/tickets", Description: "Lists your tickets"}, {Title: "/close", Description: "Closes one"}},
			Translations: map[string]manifest.Translation{"de-DE": {Commands: map[string]manifest.Command{"/close": {Description: "Schließt eines"}}}},
		},
	}
	dir := filepath.Join(t.TempDir(), "app")
	if code, _, errs := executeFor(t, bot, "", "manifest", "init", dir, "--languages=fr"); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	for file, want := range map[string][]string{
		"de-de.json": {
			`"description.short": "Hütet Tickets."`, `"Zeigt, was ich kann"`, `"Zeigt deine Tickets"`, `"Schließt eines"`,
			`"Lege eine Liste … an"`, `commands[1].title": "Create a list"`,
		},
		"fr.json": {`"description.short": "Keeps tickets."`, `"Montre ce que je sais faire"`, `"Lists your tickets"`},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		for _, part := range want {
			if !bytes.Contains(text, []byte(part)) {
				t.Errorf("%v: %s lacks %s in\n%s", err, file, part, text)
			}
		}
	}
}

// TestManifestInGerman: what the bot says of itself is in the language of the manifest, and in a file in English.
func TestManifestInGerman(t *testing.T) {
	t.Parallel()
	bot := Bot{
		Name: "Hedda", Register: lists.Register, Texts: map[string]map[string]string{"de": {"Lists your tickets": "Zeigt deine Tickets"}},
		Manifest: manifest.Config{
			Language: "de", Summary: "Hütet Tickets.", Details: "Sag, was du brauchst.",
			Commands: []manifest.Command{{Title: "/tickets", Description: "Lists your tickets"}},
		},
	}
	dir := filepath.Join(t.TempDir(), "the app")
	code, out, errs := executeFor(t, bot, "", "manifest", "init", dir)
	if code != 0 || !strings.Contains(out, "--from '"+dir+"' ") {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	for file, want := range map[string][]string{
		"manifest.json": {`"Zeigt, was ich kann"`, `"Zeigt deine Tickets"`, `"Lege eine Liste … an"`},
		"en.json":       {`"Shows what I can do"`, `"Lists your tickets"`},
	} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		for _, part := range want {
			if !bytes.Contains(text, []byte(part)) {
				t.Errorf("%v: %s lacks %s in\n%s", err, file, part, text)
			}
		}
	}
}

// TestManifestWarnsOfPages: a bot serves no privacy statement, so an app that links to one on the
// bot's own domain is told.
func TestManifestWarnsOfPages(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "app")
	wantRun(t, manifest.Config{}, "manifest", "init", folder)
	const home, privacy, terms = "https://Bot.example.com", "https://Bot.example.com/privacy", "https://Bot.example.com/terms"
	for name, c := range map[string]struct {
		own  manifest.Config
		args []string
		want []string
	}{
		"nothing said":    {manifest.Config{}, nil, []string{home, privacy, terms}},
		"a folder":        {manifest.Config{}, []string{"--from", folder}, []string{home, privacy, terms}},
		"some by flags":   {manifest.Config{}, []string{"--website-url=https://example.com", "--terms-url=https://example.com/bot"}, []string{privacy}},
		"of another host": {manifest.Config{WebsiteURL: "https://example.com", PrivacyURL: "https://example.com/p", TermsURL: "https://example.com/p"}, nil, nil},
		"with a port":     {manifest.Config{WebsiteURL: "https://bot.example.com:444", PrivacyURL: "https://example.com", TermsURL: "https://example.com"}, nil, nil},
		"one page of all": {manifest.Config{WebsiteURL: privacy, PrivacyURL: privacy, TermsURL: privacy}, nil, []string{privacy}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"manifest", "build", "--app-id", testAppID, "--domain=Bot.example.com", "--out", filepath.Join(t.TempDir(), "app.zip")}, c.args...)
			code, out, errs := hedda(t, c.own, args...)
			said, _, _ := strings.Cut(strings.TrimPrefix(errs, "warning: the app links to "), ", which the bot")
			if code != 0 || !strings.HasPrefix(out, "Wrote ") || said != strings.Join(c.want, ", ") {
				t.Errorf("%d %s%s\nwant a warning of %q", code, out, errs, c.want)
			}
		})
	}
}

func TestManifestRefuses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "app")
	wantRun(t, manifest.Config{}, "manifest", "init", dir, "--languages=de,pt-br")
	small, black := writePNG(t, 96, color.White), writePNG(t, 32, color.Black)
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"all mistakes": {
			[]string{"build", "--icon", small, "--outline-icon", black, "--name=" + strings.Repeat("n", 31), "--scopes=personal,world,groupchat", "--color=red"},
			[]string{"app id", "domain", "color.png: has 96×96", "outline.png: has a pixel", "name/short", "#/accentColor", "scopes/1", "scopes/2"},
		},
		"other schema":   {[]string{"build", "--schema=1.1", "--app-id", testAppID, "--domain=bot.example.com"}, []string{"version 1.1, which cannot be checked", "1.22, 1.25, 1.29"}},
		"no icon":        {[]string{"build", "--icon=/nowhere/a.png", "--color=red", "--domain=https://a.example"}, []string{"--icon: open /nowhere/a.png", `"red"`, "is a URL"}},
		"init again":     {[]string{"init", dir}, []string{"manifest.json exists", "color.png exists", "outline.png exists", "de.json exists"}},
		"init, bad flag": {[]string{"init", dir + "2", "--languages=no_tag", "--color=red"}, []string{"accentColor", "languageTag"}},
		"both":           {[]string{"build", "--from", dir, "--name=Edda", "--app-id", testAppID, "--domain=bot.example.com"}, []string{"with --from"}},
		"no folder":      {[]string{"build", "--from", dir + "3", "--app-id", testAppID, "--domain=bot.example.com"}, []string{dir + "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zip := filepath.Join(t.TempDir(), "app.zip")
			args := append([]string{"manifest"}, c.args...)
			if c.args[0] == "build" {
				args = append(args, "--out", zip)
			}
			code, _, errs := hedda(t, manifest.Config{}, args...)
			if code != cli.ExitUsage {
				t.Errorf("exit code %d", code)
			}
			for _, want := range c.want {
				if !strings.Contains(errs, want) {
					t.Errorf("it did not name %q: %s", want, errs)
				}
			}
			for _, file := range []string{zip, dir + "2"} {
				if _, err := os.Stat(file); err == nil {
					t.Errorf("%s was written all the same", file)
				}
			}
		})
	}
}

// TestManifestOfWhatIsRegistered: the app package has the parts for what the bot answers, and nothing
// for what it does not.
func TestManifestOfWhatIsRegistered(t *testing.T) {
	t.Parallel()
	answer := func(context.Context, *turn.Turn, teams.Input) (teams.Answer, error) { return teams.Answer{}, nil }
	query := func(context.Context, *turn.Turn, teams.Query) (teams.Answer, error) { return teams.Answer{}, nil }
	b := Bot{
		Name: "Hedda", Texts: map[string]map[string]string{"de": {"Find it": "Finden"}},
		Teams: teams.Routes{
			Extension: teams.Extension{
				Commands: []teams.Command{
					{ID: "find", Title: "Find it", Initial: true, Query: query, Parameters: []teams.Parameter{{Name: "w", Title: "Words", Type: "choiceset", Choices: []teams.Choice{{Title: "A", Value: "a"}}}}},
					{ID: "make", Title: "Make it", Contexts: []string{"message"}, Fetch: answer, Submit: answer},
				},
				AnonymousLink: query, Domains: []string{"*.contoso.com"},
			},
			Config: teams.Dialog{Fetch: answer, Submit: answer},
			Events: teams.Events{Read: func(context.Context, *turn.Turn, teams.ReadReceipt) error { return nil }},
		},
	}
	dir := filepath.Join(t.TempDir(), "app")
	manifestOf := func(b Bot, dir string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := runAll(t.Context(), b, []string{"manifest", "init", dir, "--languages=de"}, &cli.Streams{Out: &out, Err: &errs}); code != 0 {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
		written, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(written)), "")
	}
	got := manifestOf(b, dir)
	for _, want := range []string{
		`{"id":"find","type":"query","title":"Findit","initialRun":true,"parameters":[{"name":"w","title":"Words","inputType":"choiceset","choices":[{"title":"A","value":"a"}]}]}`,
		`{"id":"make","type":"action","title":"Makeit","context":["message"],"fetchTask":true}`, `"canUpdateConfiguration":false`,
		`{"domains":["*.contoso.com"],"supportsAnonymizedPayloads":true}`, `"configuration":{"groupChat":{"fetchTask":true},"team":{"fetchTask":true}}`,
		`"resourceSpecific":[{"name":"ChatMessageReadReceipt.Read.Chat","type":"Application"}]`, `"manifestVersion":"1.25"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s: %s", want, got)
		}
	}
	if texts, err := os.ReadFile(filepath.Join(dir, "de.json")); err != nil || !strings.Contains(string(texts), `"composeExtensions[0].commands[0].title": "Finden"`) {
		t.Errorf("de.json: %v %s", err, texts)
	}
	signsIn := func(r *actions.Registry) {
		actions.Add(r, "readMail", "Reads mail", func(context.Context, *actions.Turn, struct{}) (actions.Result, error) { return actions.Done, nil }, actions.NeedsToken("graph"))
	}
	got = manifestOf(Bot{Name: "Hedda", Register: signsIn}, filepath.Join(t.TempDir(), "app"))
	for _, want := range []string{`{"title":"/signout","description":"Signsyououtofotherservices"}`, `"resource":"api://botid-${{BOT_ID}}"`, `"token.botframework.com"`} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %s: %s", want, got)
		}
	}
	got = manifestOf(Bot{Name: "Hedda"}, filepath.Join(t.TempDir(), "app"))
	for _, unwanted := range []string{"composeExtensions", "configuration", "authorization", "webApplicationInfo", "copilotAgents", "/signout"} {
		if strings.Contains(got, unwanted) {
			t.Errorf("has %s: %s", unwanted, got)
		}
	}
}
