package archtest_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/planbot-go/planbot/internal/archtest"
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
	rep, err := archtest.Check(os.DirFS(root), module)
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
			"bot/turn/t.go": "our/state/inbox our/planner/plan our/planner", "bot/b.go": "our/bot/turn our/state/inbox",
		}, nil},
		{"rooms within rooms upwards", map[string]string{
			"state/s_test.go": "our/state/inbox", "planner/plan/p_test.go": "our/planner", "bot/turn/t_test.go": "our/bot",
		}, []string{
			"bot/turn/t_test.go imports bot: bot/turn stands below bot", "planner/plan/p_test.go imports planner: planner/plan stands below planner",
			"state/s_test.go imports state/inbox: state stands below state/inbox",
		}},
		{"an action at the queues", map[string]string{"actions/lists/l.go": "our/state/inbox"}, []string{"actions/lists/l.go imports state/inbox: actions and state/inbox are siblings"}},
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
			rep, err := archtest.Check(tree(tt.tree), module)
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
	rep, err := archtest.Check(tree(map[string]string{"state/a.go": "our/activity fmt", "state/b.go": "our/activity"}), module)
	if err != nil || rep.Files != 2 || rep.Arrows != 2 {
		t.Errorf("got %+v, %v; want 2 files with 2 arrows", rep, err)
	}
	_, err = archtest.Check(fstest.MapFS{"state/broken.go": {Data: []byte("packag state")}}, module)
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
