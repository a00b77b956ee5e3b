package prompts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/planbot-go/planbot/prompts"
)

// folder writes files into a new folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func rendered(t *testing.T, library *prompts.Library, name string) string {
	t.Helper()
	template, err := library.Prompt(name)
	if err != nil {
		t.Fatal(err)
	}
	if template.Name() != name {
		t.Errorf("prompt %s calls itself %s", name, template.Name())
	}
	out, err := template.RenderWith(t.Context(), testData())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestLoad(t *testing.T) {
	t.Parallel()
	library, err := prompts.Load("")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sequence", "sequential", "tools"}, library.Names()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, err := library.Prompt("gone"); err == nil || !strings.Contains(err.Error(), "no such prompt") {
		t.Errorf("got %v", err)
	}
}

func TestLoadOwn(t *testing.T) {
	t.Parallel()
	library, err := prompts.Load(folder(t, map[string]string{
		"sequence/prompt.txt": "\ufeffHello {{$user.name}}\r\nbye\r\n\n",
		"poem/skprompt.txt":   "A poem",
		"poem/README.md":      "notes",
		"notes.md":            "notes",
		".git/config":         "passed over",
		"poem/.DS_Store":      "passed over",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := rendered(t, library, "sequence"); got != "Hello Mia\nbye" {
		t.Errorf("got %q", got)
	}
	if got := rendered(t, library, "poem"); got != "A poem" {
		t.Errorf("got %q", got)
	}
}

func TestLoadKeepsWhatIsNotOverridden(t *testing.T) {
	t.Parallel()
	library, err := prompts.Load(folder(t, map[string]string{"poem/prompt.txt": "A poem"}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"poem", "sequence", "sequential", "tools"}, library.Names()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A ConfigMap is mounted as links into a hidden folder beside them.
func TestLoadLinks(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{"..2026_11_21/sequence/prompt.txt": "mounted"})
	link(t, "..2026_11_21", filepath.Join(dir, "..data"))
	link(t, filepath.Join("..data", "sequence"), filepath.Join(dir, "sequence"))
	library, err := prompts.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := rendered(t, library, "sequence"); got != "mounted" {
		t.Errorf("got %q", got)
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

func TestLoadStaysInside(t *testing.T) {
	t.Parallel()
	outside := folder(t, map[string]string{"secret.txt": "secret"})
	dir := folder(t, map[string]string{"poem/prompt.txt": "A poem"})
	link(t, filepath.Join(outside, "secret.txt"), filepath.Join(dir, "poem", "skprompt.txt"))
	if err := os.Remove(filepath.Join(dir, "poem", "prompt.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := prompts.Load(dir); err == nil || !strings.Contains(err.Error(), "poem/skprompt.txt") {
		t.Errorf("got %v, want a fault of poem/skprompt.txt", err)
	}
}

// TestPluginFolders have one more level, as in Semantic Kernel; every variable of the text is a parameter.
func TestPluginFolders(t *testing.T) {
	t.Parallel()
	library, err := prompts.Load(folder(t, map[string]string{
		"Fun/README.md":             "notes",
		"Fun/Riddle/skprompt.txt":   "A riddle about {{$INPUT}}, {{$style}} and {{$STYLE}}, for {{$user.name}}.",
		"Fun/Riddle/config.json":    `{"schema":1,"description":"Writes a riddle","execution_settings":{"default":{"max_tokens":9}},"input_variables":[{"name":"style","default":"short"}]}`,
		"Fun/Rhyme/skprompt.txt":    "A rhyme.",
		"plain/prompt.txt":          "{{$input}}",
		"other-plugin/a/prompt.txt": "{{$x}}",
	}))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]prompts.Input{
		"Fun-Riddle": {{Name: "style", Default: "short"}, {Name: "INPUT", Required: true}}, "Fun-Rhyme": {}, "plain": nil,
		"other-plugin-a": {{Name: "x", Required: true}},
	} {
		p, err := library.Prompt(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, p.Config.Input); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestPluginFolderFaults(t *testing.T) {
	t.Parallel()
	_, err := prompts.Load(folder(t, map[string]string{
		"Fun/Riddle/skprompt.txt": "Event:｛｛$input｝｝ and ｛｛ this ｝｝",
		"Fun-Riddle/prompt.txt":   "another",
		"Fun/Rhyme/config.json":   "{}",
		"Mixed/prompt.txt":        "mixed",
		"Mixed/Inner/prompt.txt":  "mixed",
	}))
	for _, want := range []string{
		"Fun/Riddle/skprompt.txt:1:7: the braces are full-width, so this would be text: write {{ and }}",
		"there is another prompt Fun-Riddle", "Fun/Rhyme: no prompt.txt", "Mixed/Inner: has no meaning here",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("not listed: %s\n%v", want, err)
		}
	}
}

func TestLoadListsEveryFault(t *testing.T) {
	t.Parallel()
	dir := folder(t, map[string]string{
		"prompt.txt":            "lost",
		"a/prompt.txt":          "fine\n{{$a.b.c}}",
		"b/prompt.txt":          "{{fn",
		"b/skprompt.txt":        "two",
		"c/Prompt.txt":          "misspelled",
		"d/prompt.txt":          "not \xff text",
		"e/prompt.txt":          " \n",
		"f/prompt.txt":          strings.Repeat("a", prompts.MaxTemplate+1),
		"f2/prompt.txt":         strings.Repeat("a", prompts.MaxTemplate) + "\nthe rest",
		"g/prompt.txt/file":     "a folder",
		"h/prompt.txt":          "fine",
		"h/Config.json":         "{}",
		"i/prompt.txt":          "{{",
		"i/config.json":         `{"completion": {"max_tokens": "many", "budget": 1}}`,
		"i/actions.json":        "[{}]",
		"i/extra.txt":           "lost",
		"not a name/prompt.txt": "fine",
	})
	_, err := prompts.Load(dir)
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		"prompts in " + dir + ": \"not a name\": name a prompt",
		"a/prompt.txt:2:1: want a $variable, a function with arguments or a quoted text, have {{$a.b.c}}",
		"b: both prompt.txt and skprompt.txt",
		"c/Prompt.txt: has no meaning here",
		"c: no prompt.txt",
		"d/prompt.txt: is no UTF-8 text",
		"e/prompt.txt: is empty",
		"f/prompt.txt: is over",
		"f2/prompt.txt: is over",
		"g/prompt.txt",
		"h/Config.json: has no meaning here",
		"b/prompt.txt:1:1: {{ is never closed",
		"i/prompt.txt:1:1: {{ is never closed",
		"i/extra.txt: has no meaning here",
		"i/config.json: completion.max_tokens: got string, want integer",
		"i/config.json: completion: additional properties 'budget' not allowed",
		"i/actions.json: 0: missing property 'name'",
		"prompt.txt: is no prompt's folder: ",
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), strings.TrimPrefix(w, "prompts in "+dir+": ")) {
			t.Errorf("not listed: %s", w)
		}
	}
	if lines := strings.Split(err.Error(), "\n"); len(lines) != len(want) {
		t.Errorf("%d faults, want %d:\n%v", len(lines), len(want), err)
	}
}

// TestLoadReturnsTheRest: so that more faults can be found in what could be read.
func TestLoadReturnsTheRest(t *testing.T) {
	t.Parallel()
	library, err := prompts.Load(folder(t, map[string]string{
		"sequence/prompt.txt":   "{{nofn}} {{$foo.bar.baz}} {{1}} {{fn $a.b.c $user.name $x.y.z}} {{$scope.x}} {{",
		"sequence/config.json":  `{"completion": {"max_tokens": "many", "temperature": 1}}`,
		"sequence/actions.json": `[{"name": "a", "oops": 1}, {}, {"name": "b"}]`,
		"sequence/extra.txt":    "",
	}))
	if err == nil || strings.Count(err.Error(), "\n") != 7 {
		t.Errorf("want 8 faults, have %v", err)
	}
	p, err := library.Prompt("sequence")
	if err != nil {
		t.Fatal(err)
	}
	got := []any{p.Name(), p.Functions(), p.Variables()}
	want := []any{"sequence", []string{"nofn"}, []string{"scope.x"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUnused(t *testing.T) {
	t.Parallel()
	library, _ := prompts.Load(folder(t, map[string]string{
		"Sequence/prompt.txt": "never used", "Sequence/extra.txt": "",
		"poem/prompt.txt": "an action", "poem/config.json": `{"input": {"parameters": []}}`,
		"odd/prompt.txt": "perhaps an action", "odd/config.json": "{",
		"chat/prompt.txt": "none", "chat/config.json": "{}",
	}))
	if diff := cmp.Diff([]string{"Sequence", "chat", "odd"}, library.Unused("sequence", "sequential", "tools")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestFor: a folder is a planner's by its name in any case, by what Teams AI writes into config.json, or by the
// parameters of Semantic Kernel's planner.
func TestFor(t *testing.T) {
	t.Parallel()
	of := func(augmentation string) string {
		return `{"augmentation": {"augmentation_type": "` + augmentation + `"}}`
	}
	const planners = `{"input_variables": [{"name": "Input", "default": ""}, {"name": "available_functions"}]}`
	for name, test := range map[string]struct {
		files   map[string]string // config.json of each folder
		planner string
		want    string
	}{
		"nothing":               {map[string]string{"chat": "{}"}, "tools", "tools"},
		"its name":              {map[string]string{"tools": "{}", "default": of("tools")}, "tools", "tools"},
		"its name in capitals":  {map[string]string{"Tools": of("tools")}, "tools", "Tools"},
		"what it says":          {map[string]string{"default": of("tools"), "other": of("sequence")}, "tools", "default"},
		"a monologue":           {map[string]string{"default": of("monologue")}, "sequence", "default"},
		"two that say so":       {map[string]string{"a": of("tools"), "b": of("tools")}, "tools", "tools"},
		"an action":             {map[string]string{"a": `{"input": {"parameters": [{"name": "input"}]}}`}, "sequence", "sequence"},
		"Semantic Kernel's":     {map[string]string{"SequentialPlanning": planners}, "sequential", "SequentialPlanning"},
		"the same in a plugin":  {map[string]string{"Plugins/SequentialPlanning": planners}, "sequential", "Plugins-SequentialPlanning"},
		"the same by our name":  {map[string]string{"sequential": planners}, "sequential", "sequential"},
		"only what people said": {map[string]string{"sequence": `{"input": {"parameters": [{"name": "input"}]}}`}, "sequence", "sequence"},
	} {
		files := map[string]string{}
		for dir, config := range test.files {
			files[dir+"/skprompt.txt"], files[dir+"/config.json"] = "{{$input}} {{$available_functions}}", config
		}
		library, err := prompts.Load(folder(t, files))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := library.For(test.planner); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
		if p, err := library.Prompt(test.want); err != nil || p.Config.Input != nil {
			t.Errorf("%s: %s is an action, %v", name, test.want, err)
		}
	}
}

func TestNamesThatDifferOnlyInCase(t *testing.T) {
	t.Parallel()
	_, err := prompts.Load(folder(t, map[string]string{"P/F/skprompt.txt": "x", "p/f/skprompt.txt": "x"}))
	if err == nil || !strings.Contains(err.Error(), "p/f: there is another prompt P-F") {
		t.Errorf("got %v", err)
	}
}

func TestLoadWrongFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(folder(t, map[string]string{"file": ""}), "file")
	for name, dir := range map[string]string{"gone": filepath.Join(t.TempDir(), "gone"), "file": file, "empty": t.TempDir()} {
		if _, err := prompts.Load(dir); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want an error that names the folder", name, err)
		}
	}
}

func TestLoadFS(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	files := fstest.MapFS{"mine/hello/prompt.txt": file("Hello"), "mine/sequence/prompt.txt": file("Plan"), "other/x/y": file("")}
	library, err := prompts.LoadFS(files, "mine")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"hello": "Hello", "sequence": "Plan"} {
		if got := rendered(t, library, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if _, err := library.Prompt("sequential"); err != nil {
		t.Errorf("the embedded prompts are gone: %v", err)
	}
	for dir, want := range map[string]string{"other": "other", "none": "none", "../mine": "../mine"} {
		if _, err := prompts.LoadFS(files, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}
