package deploy

import (
	"cmp"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/planbot-go/planbot/app"
	"github.com/planbot-go/planbot/app/metrics"
)

// settings are the variables in the table of docs/settings.md, which is generated from the code.
func settings(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|").FindAllSubmatch(text, -1) {
		names = append(names, string(row[1]))
	}
	if len(names) < 50 {
		t.Fatalf("found %d settings", len(names))
	}
	return names
}

// refused is what the bot finds wrong with these settings.
func refused(env map[string]string) error {
	var flags []string
	for name, value := range env {
		flags = append(flags, "--"+strings.ToLower(strings.ReplaceAll(name, "_", "-"))+"="+value)
	}
	return app.Settings(app.Bot{}, metrics.Feature()).Read(flags...)
}

// TestCompose: without an app id, and with one as its comment says.
func TestCompose(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct{ Environment map[string]string }
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`^\$\{([A-Z_]+)(:?)-(.*)\}$`)
	teams := map[string]string{
		"BOT_DANGEROUSLY_NO_AUTH": "", "MICROSOFT_APP_ID": "00000000-0000-0000-0000-000000000000", "MICROSOFT_APP_PASSWORD": "p", "MICROSOFT_APP_TENANT_ID": "t",
	}
	for name, c := range map[string]struct {
		from, more map[string]string
		want       string
	}{
		"local":           {nil, nil, ""},
		"Teams":           {teams, map[string]string{"OPENAI_API_KEY": "k"}, ""},
		"Teams, offline":  {teams, map[string]string{"BOT_MODEL": "offline"}, ""},
		"Teams, no model": {teams, nil, "or set BOT_MODEL=offline"},
		"Teams, and open": {teams, map[string]string{"BOT_DANGEROUSLY_NO_AUTH": "true", "BOT_MODEL": "offline"}, "contradicts MICROSOFT_APP_ID"},
	} {
		shell := map[string]string{}
		maps.Copy(shell, c.from)
		maps.Copy(shell, c.more)
		env := map[string]string{}
		for key, value := range file.Services["bot"].Environment {
			if match := variable.FindStringSubmatch(value); match != nil {
				set, is := shell[match[1]]
				if value = set; !is || match[2] != "" {
					value = cmp.Or(set, match[3])
				}
			}
			env[key] = value
		}
		if err := refused(env); (err != nil) != (c.want != "") || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDockerignore: the builder gets each file that the program is built from.
func TestDockerignore(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile("../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f",
		`{{if and .Module .Module.Main}}{{$dir := .ImportPath}}{{range .GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{end}}`,
		"../cmd/bot")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(strings.ReplaceAll(string(out), "github.com/planbot-go/planbot/", ""))
	if len(files) < 300 {
		t.Errorf("%d files", len(files))
	}
	for _, file := range files {
		if ignored(string(rules), file) {
			t.Errorf("%s is left out of the build", file)
		}
	}
	for _, file := range []string{".git/config", "docs/teams.md", "README.md", "app/app_test.go", "bot/testdata/x"} {
		if !ignored(string(rules), file) {
			t.Errorf("%s goes to the builder", file)
		}
	}
}

// ignored reports whether a .dockerignore leaves a file out. The last rule about a file counts.
func ignored(rules, file string) (out bool) {
	for rule := range strings.Lines(rules) {
		rule = strings.TrimSpace(rule)
		if rule == "" || strings.HasPrefix(rule, "#") {
			continue
		}
		pattern, again := strings.CutPrefix(rule, "!")
		pattern = strings.NewReplacer(`\*\*/`, "(.*/)?", `\*\*`, ".*", `\*`, "[^/]*").Replace(regexp.QuoteMeta(pattern))
		if regexp.MustCompile("^" + pattern + "(/|$)").MatchString(file) {
			out = !again
		}
	}
	return out
}

func TestAzure(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("azure/main.bicep")
	if err != nil {
		t.Fatal(err)
	}
	known := append(settings(t), "AZURE_CLIENT_ID") // of the managed identity that gets tokens for Azure OpenAI
	names := regexp.MustCompile(`name: '([A-Z_]+)'`).FindAllSubmatch(text, -1)
	if len(names) < 5 {
		t.Errorf("found %d settings", len(names))
	}
	for _, name := range names {
		if !slices.Contains(known, string(name[1])) {
			t.Errorf("no setting %s", name[1])
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/api/messages"} {
		if !strings.Contains(string(text), path) {
			t.Errorf("%s is not used", path)
		}
	}
}
