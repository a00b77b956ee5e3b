// Package archtest_test checks which package imports which, and measures size and shape of
// the code. The rooms of this repository stand in layers: a room may import rooms of lower
// layers only, and the SDKs of vendors stay in the rooms that wrap them. A wrong import fails
// the tests, and so does a figure that is worse than the one in testdata/gauges.txt.
package archtest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/planbot-go/planbot"

// TestRepository holds this repository to its arrows.
func TestRepository(t *testing.T) {
	t.Parallel()
	const root = "../.."
	mod, err := os.ReadFile(root + "/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(mod), "module "+module+"\n") {
		t.Fatalf("go.mod does not declare %s: the check would see no arrow", module)
	}
	rep, err := checkArrows(os.DirFS(root), module)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Files < 10 || rep.Arrows == 0 {
		t.Fatalf("the check saw %d files and %d arrows: it looked at nothing", rep.Files, rep.Arrows)
	}
	for _, wrong := range rep.Wrong {
		t.Error(wrong)
	}
}

// notFeatures are the folders of bot that are none.
var notFeatures = []string{"turn", "teams", "msbotbuilder"}

// TestTheCoreNamesNoFeature: no text in bot/turn is the name of a feature, which is a folder of bot. That it
// imports none, the arrows say.
func TestTheCoreNamesNoFeature(t *testing.T) {
	t.Parallel()
	fsys := os.DirFS("../../bot")
	folders, err := fs.ReadDir(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	features := map[string]bool{}
	for _, f := range folders {
		if f.IsDir() && !slices.Contains(notFeatures, f.Name()) {
			features[strconv.Quote(f.Name())] = true
		}
	}
	files, err := fs.Glob(fsys, "turn/*.go")
	if err != nil || len(files) == 0 || len(features) == 0 {
		t.Fatalf("%d files, %d features, %v", len(files), len(features), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := fs.ReadFile(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isLogField(call) {
				return false
			}
			if text, ok := n.(*ast.BasicLit); ok && features[text.Value] {
				t.Errorf("%s names the feature %s", set.Position(text.Pos()), text.Value)
			}
			return true
		})
	}
}

// isLogField reports whether a call adds nothing but texts to a log line, whose names are their own.
func isLogField(call *ast.CallExpr) bool {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || method.Sel.Name != "Str" || len(call.Args) != 2 {
		return false
	}
	name, ok := call.Args[0].(*ast.BasicLit)
	return ok && name.Value == strconv.Quote("audit")
}

// TestCheck feeds the check small trees, each file given as its imports.
func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		tree map[string]string
		want []string // beginnings of the sentences, none when the tree is right
	}{
		{"layers downwards", map[string]string{
			"app/main.go": "our/bot our/state our/manifest", "bot/bot.go": "our/planner our/actions",
			"actions/a.go": "our/state our/activity", "state/s.go": "our/activity",
		}, nil},
		{"own sub-packages", map[string]string{"state/s_test.go": "our/state our/state/internal/rdb"}, nil},
		{"rooms within rooms downwards", map[string]string{
			"state/inbox/i.go": "our/state our/state/internal/rdb", "planner/p.go": "our/planner/plan", "planner/plan/p.go": "our/actions/lists",
			"bot/turn/t.go": "our/state/inbox our/planner/plan our/planner our/bot/turn/internal/stream", "bot/turn/internal/stream/a.go": "our/activity", "bot/b.go": "our/bot/turn our/state/inbox",
		}, nil},
		{"rooms within rooms upwards", map[string]string{
			"state/s_test.go": "our/state/inbox", "planner/plan/p_test.go": "our/planner", "bot/turn/t_test.go": "our/bot",
			"bot/approvals/a.go": "our/app",
		}, []string{
			"bot/approvals/a.go imports app: bot stands below app",
			"bot/turn/t_test.go imports bot: bot/turn stands below bot", "planner/plan/p_test.go imports planner: planner/plan stands below planner",
			"state/s_test.go imports state/inbox: state stands below state/inbox",
		}},
		{"an action at the queues", map[string]string{"actions/lists/l.go": "our/state/inbox"}, []string{"actions/lists/l.go imports state/inbox: actions and state/inbox are siblings"}},
		{"a part of a turn", map[string]string{"bot/turn/t.go": "our/bot/turn/files", "bot/turn/files/f.go": "our/actions our/internal/a"}, nil},
		{"a part of a turn upwards", map[string]string{"bot/turn/files/f.go": "our/bot/turn"}, []string{"bot/turn/files/f.go imports bot/turn: bot/turn/files stands below bot/turn"}},
		{"programs", map[string]string{
			"cmd/bot/main.go": "our/app", "bottest/b.go": "our/app/record our/bot", "examples/echo/main.go": "our/app our/bot", "app/a.go": "our/bot our/bot/turn",
		}, nil},
		{"a program from a bot", map[string]string{"bot/b.go": "our/app/record", "bot/turn/t.go": "our/app"}, []string{
			"bot/b.go imports app/record: bot stands below app", "bot/turn/t.go imports app: bot/turn stands below app",
		}},
		{"layers upwards", map[string]string{"state/s.go": "our/planner"}, []string{"state/s.go imports planner: state stands below planner"}},
		{"upwards in a test", map[string]string{"state/s_test.go": "our/bot"}, []string{"state/s_test.go imports bot"}},
		{"siblings", map[string]string{"prompts/p.go": "our/models"}, []string{"prompts/p.go imports models: prompts and models are siblings"}},
		{"a command from an example", map[string]string{"examples/echo/main.go": "our/cmd/bot"}, []string{"examples/echo/main.go imports cmd/bot"}},
		{"bot from internal", map[string]string{"internal/fake/f.go": "our/bot"}, []string{"internal/fake/f.go imports bot"}},
		{"leaf", map[string]string{"manifest/m.go": "our/activity"}, []string{"manifest/m.go imports activity: manifest is a leaf"}},
		{"leaf from a bot", map[string]string{"bot/b.go": "our/manifest"}, []string{"bot/b.go imports manifest: only app"}},
		{"the kit in tests", map[string]string{"examples/echo/e_test.go": "our/bottest", "bot/b_test.go": "our/bottest"}, nil},
		{"the kit at the command line", map[string]string{"cmd/bot/main.go": "our/bottest our/bottest/eval"}, nil},
		{"the kit in a bot", map[string]string{"bot/b.go": "our/bottest", "planner/p_test.go": "our/bottest/eval"}, []string{"bot/b.go imports bottest: only cmd", "planner/p_test.go imports bottest/eval: only cmd"}},
		{"an evaluation without a bot", map[string]string{"bottest/eval/e.go": "our/planner our/actions", "bottest/b.go": "our/bot our/bottest/eval"}, nil},
		{"an evaluation with a bot", map[string]string{"bottest/eval/e.go": "our/bot"}, []string{"bottest/eval/e.go imports bot: bottest/eval needs a planner"}},
		{"round an arrow", map[string]string{
			"state/s.go": "our/internal/a", "internal/a/a.go": "our/internal/b", "internal/b/b.go": "our/models",
		}, []string{"state/s.go imports models through internal/a: state and models are siblings"}},
		{"internal over all rooms but bot", map[string]string{"internal/a/a.go": "our/skills our/models"}, nil},
		{"no way round", map[string]string{"bot/b.go": "our/internal/a", "internal/a/a.go": "our/models"}, nil},
		{"unknown room", map[string]string{"util/u.go": ""}, []string{`util/u.go: folder "util" is no room`}},
		{"no root package", map[string]string{"doc.go": ""}, []string{`doc.go: folder "." is no room`}},
		{"vendor at home", map[string]string{
			"models/o.go": "github.com/sashabaranov/go-openai", "state/s.go": "github.com/redis/go-redis/v9",
			"activity/a.go": "github.com/infracloudio/msbotbuilder-go/schema", "bot/b.go": "github.com/rs/zerolog",
		}, nil},
		{"vendor astray", map[string]string{"planner/p.go": "github.com/sashabaranov/go-openai/jsonschema", "bot/b_test.go": "github.com/redis/go-redis/v9"}, []string{
			"bot/b_test.go imports github.com/redis/go-redis/v9: its types stop in state",
			"planner/p.go imports github.com/sashabaranov/go-openai/jsonschema: its types stop in models",
		}},
		{"not our packages", map[string]string{"state/testdata/x.go": "our/bot", "e2e/node_modules/x/x.go": "our/bot", ".ci/x.go": "our/bot"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rep, err := checkArrows(tree(tt.tree), module)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.EqualFunc(rep.Wrong, tt.want, strings.HasPrefix) {
				t.Errorf("got  %q\nwant %q", rep.Wrong, tt.want)
			}
		})
	}
}

func TestCheckCountsAndReportsFaults(t *testing.T) {
	t.Parallel()
	rep, err := checkArrows(tree(map[string]string{"state/a.go": "our/activity fmt", "state/b.go": "our/activity"}), module)
	if err != nil || rep.Files != 2 || rep.Arrows != 2 {
		t.Errorf("got %+v, %v; want 2 files with 2 arrows", rep, err)
	}
	_, err = checkArrows(fstest.MapFS{"state/broken.go": {Data: []byte("packag state")}}, module)
	if err == nil || !strings.Contains(err.Error(), "state/broken.go") {
		t.Errorf("got %v, want an error that names the broken file", err)
	}
}

// tree turns lists of imports into a module; "our/" stands for its path.
func tree(imports map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, list := range imports {
		src := "package x\n"
		for imp := range strings.FieldsSeq(list) {
			if rest, ok := strings.CutPrefix(imp, "our/"); ok {
				imp = module + "/" + rest
			}
			src += "import \"" + imp + "\"\n"
		}
		fsys[name] = &fstest.MapFile{Data: []byte(src)}
	}
	return fsys
}

const internalRoom = "internal"

// layers says how high each room stands. Rooms of one layer are siblings. A room within
// another one has a layer of its own.
var layers = map[string]int{
	"activity":         1,
	"state":            2,
	"prompts":          2,
	"models":           2,
	"connector":        2,
	"state/inbox":      3,
	"actions":          3,
	"actions/mcp":      4,
	"actions/openapi":  4,
	"planner/plan":     4,
	"planner":          5,
	"knowledge":        6,
	"skills":           6,
	"manifest":         6,
	internalRoom:       7, // what its packages import counts for their importers
	"bot/turn/files":   7,
	"bot/turn":         8,
	"bot":              9,
	"bot/msbotbuilder": 10,
	"app":              10,
	"bottest":          11,
	"cmd":              12,
	"examples":         12,
	newBotFiles:        1,
	"bench":            12,
	"e2e":              12,
}

// vendors says in which rooms the packages of an SDK may be seen, tests included.
var vendors = map[string][]string{
	"github.com/sashabaranov/go-openai":       {"models"},
	"github.com/redis/go-redis":               {"state", "state/inbox"},
	"github.com/infracloudio/msbotbuilder-go": {"activity", "connector", "bot/msbotbuilder", "examples"},
	"github.com/modelcontextprotocol/go-sdk":  {"actions/mcp", "examples"},
	"github.com/getkin/kin-openapi":           {"actions/openapi"},
	"github.com/prometheus/client_golang":     {"bot", "app"},
}

// newBotFiles are the packages examples and deploy themselves, which have nothing but files, for bot new.
const newBotFiles = "files for bot new"

// roomOf is the innermost room that holds the folder, or else the first folder of its path, "." for the
// module's root.
func roomOf(dir string) string {
	if dir == "examples" || dir == "deploy" {
		return newBotFiles
	}
	for room := dir; ; room = path.Dir(room) {
		if layers[room] > 0 || !strings.Contains(room, "/") {
			return room
		}
	}
}

// refuse says why f may not import the room to, "" when it may.
func refuse(f file, to string) string {
	from := f.room
	switch {
	case from == to:
		return ""
	case from == newBotFiles && f.test:
		return "" // what the files say is held to the settings
	case from == "actions/openapi" && to == "planner/plan" && f.test:
		return "" // what a schema tells models is held to what is sent
	case to == internalRoom:
		return "" // its own imports are looked at instead
	case from == "manifest":
		return "manifest is a leaf"
	case to == "manifest" && layers[from] < layers["app"]:
		return "only app and programs import manifest"
	case to == "bottest":
		if from == "cmd" || from == "examples" || f.test && layers[from] >= layers["bot/turn"] {
			return "" // the command line that plays and evaluates, and tests of bots
		}
		return "only cmd, examples and tests of bot import bottest"
	case from == "bottest" && within(f.dir, "bottest/eval") && layers[to] > layers["planner"]:
		return "bottest/eval needs a planner and actions, and nothing above them"
	case layers[to] == layers[from]:
		return fmt.Sprintf("%s and %s are siblings", from, to)
	case layers[to] > layers[from]:
		return fmt.Sprintf("%s stands below %s", from, to)
	}
	return ""
}

// within reports whether a folder is that one or below it.
func within(dir, folder string) bool { return dir == folder || strings.HasPrefix(dir, folder+"/") }

// report is what [checkArrows] saw. A report with no files or no arrows comes from a
// check that looked in the wrong place: treat it as a failure.
type report struct {
	Files  int      // Go files read, tests included
	Arrows int      // imports of one package of the module by another
	Wrong  []string // wrong arrows, one sentence each, sorted
}

// checkArrows reads the imports of every Go file under fsys, whatever its build tags,
// and reports those that the table of rooms does not allow. module is the path
// that go.mod declares. Test files are held to the same rules, but for bottest,
// which the tests of bot may import, too. Its error says which file it could not read.
func checkArrows(fsys fs.FS, module string) (report, error) {
	files, err := readTree(fsys, module)
	if err != nil {
		return report{}, err
	}
	reach := reachThroughInternal(files)
	rep := report{Files: len(files)}
	for _, f := range files {
		rep.Arrows += len(f.ours)
		rep.Wrong = append(rep.Wrong, f.wrong(reach)...)
	}
	slices.Sort(rep.Wrong)
	rep.Wrong = slices.Compact(rep.Wrong)
	return rep, nil
}

// file is one Go file: where it lies and what it imports.
type file struct {
	path, dir, room string   // slash-separated, from the module's root
	test            bool     // it is one
	ours            []string // imported packages of the module, as folders from its root
	others          []string // every other import path
}

// readTree parses the imports of all Go files, skipping what the go command skips.
func readTree(fsys fs.FS, module string) (files []file, err error) {
	err = fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		base := path.Base(p)
		switch {
		case err != nil:
			return fmt.Errorf("walk %s: %w", p, err)
		case d.IsDir() && p != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "node_modules"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(p) != ".go":
			return nil
		}
		src, err := fs.ReadFile(fsys, p)
		if err != nil {
			return fmt.Errorf("read %s: %w", p, err)
		}
		tree, err := parser.ParseFile(token.NewFileSet(), p, src, parser.ImportsOnly)
		if err != nil {
			return fmt.Errorf("parse imports: %w", err)
		}
		f := file{path: p, dir: path.Dir(p), room: roomOf(path.Dir(p)), test: strings.HasSuffix(p, "_test.go")}
		for _, spec := range tree.Imports {
			name, _ := strconv.Unquote(spec.Path.Value) // a string, by the parser
			if dir, ok := strings.CutPrefix(name, module+"/"); ok {
				f.ours = append(f.ours, dir)
			} else {
				f.others = append(f.others, name)
			}
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// reachThroughInternal tells for each package below internal/ which other rooms
// its importers get with it, so that nobody takes a way round an arrow.
func reachThroughInternal(files []file) map[string][]string {
	direct := map[string][]string{}
	for _, f := range files {
		if f.room == internalRoom && !f.test {
			direct[f.dir] = append(direct[f.dir], f.ours...)
		}
	}
	reach := map[string][]string{}
	for dir := range direct {
		for p := range reachable(dir, direct) {
			if roomOf(p) != internalRoom {
				reach[dir] = append(reach[dir], p)
			}
		}
	}
	return reach
}

// reachable is all that from needs, directly or through others.
func reachable(from string, needs map[string][]string) map[string]bool {
	seen := map[string]bool{}
	for todo := slices.Clone(needs[from]); len(todo) > 0; {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !seen[next] {
			seen[next] = true
			todo = append(todo, needs[next]...)
		}
	}
	return seen
}

// wrong says what is wrong with the file: it is in no room, or imports what its room may not.
func (f file) wrong(reach map[string][]string) (wrong []string) {
	if _, known := layers[f.room]; !known {
		wrong = append(wrong, fmt.Sprintf("%s: folder %q is no room: give it a layer in internal/archtest/arrows_test.go", f.path, f.room))
	}
	for _, to := range f.ours {
		if why := refuse(f, roomOf(to)); why != "" {
			wrong = append(wrong, fmt.Sprintf("%s imports %s: %s", f.path, to, why))
		}
		for _, far := range reach[to] {
			if why := refuse(f, roomOf(far)); why != "" {
				wrong = append(wrong, fmt.Sprintf("%s imports %s through %s: %s", f.path, far, to, why))
			}
		}
	}
	for _, name := range f.others {
		for vendor, rooms := range vendors {
			if within(name, vendor) && !slices.Contains(rooms, f.room) {
				wrong = append(wrong, fmt.Sprintf("%s imports %s: its types stop in %s", f.path, name, strings.Join(rooms, " and ")))
			}
		}
	}
	return wrong
}
